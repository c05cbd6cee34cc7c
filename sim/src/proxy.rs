//! `picklock proxy`: the fault proxy as a command, for any test.
//!
//! Invariant: nothing listens before the whole command line is valid, and nothing beyond loopback unless the command
//! line names the address. There is no verdict: a signal ends it with 0. The log's lines are in the order of their
//! numbers, and a reader sees whole lines soon. A log that can no longer be written is reported at once; the proxy goes on
//! without it, and then ends with 69.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use history::nearest::nearest;

use super::args::ProxyArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::proxy_control::Control;
use super::run::draw;
use super::terminal::Terminal;
use super::{print, signal, world};
use fault_proxy::switchboard::{
    Names, ProxySpec, SwitchError, Switchboard, Toxic, listen_address, resolve_upstream,
    without_credentials,
};
use fault_proxy::{
    Detail, FaultError, LogFile, ParsedFault, ProxyEvent, ProxyLog, Record, Upstream,
};
use live_world::limits::ensure_open_files;

/// Open files that a test of some size needs.
const FILES: u64 = 4096;
/// Records that the control API can still return.
const RECORDS: usize = 100_000;

/// Forwards until a signal comes.
pub(super) fn main(args: &ProxyArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let proxies = proxies(args)?;
    if args.log_requests && args.log.is_none() && args.control.is_none() {
        return Err(Failure::usage_text(
            "--log-requests adds requests to a log, and there is none",
            "name a file with --log, or have the log asked for over HTTP with --control",
        ));
    }
    let trusts = args.tls.tls_ca.is_some() || args.tls.tls_insecure;
    if trusts && !args.upstream.iter().any(|it| it.contains("rediss://")) {
        return Err(Failure::usage_text(
            "--tls-ca and --tls-insecure say whom to trust on the way to a rediss:// server, and there is none",
            "write --upstream rediss://host:port, or omit them",
        ));
    }
    if args.rewrite {
        can_rewrite(&proxies)?;
    }
    let faults =
        args.fault.iter().map(|text| read(text, &proxies)).collect::<Result<Vec<_>, _>>()?;
    let control = match args.control.as_deref() {
        Some(text) => Some(Control::of(listen_address(text).map_err(failure)?, args)?),
        None => None,
    };
    let seed = args.seed.map_or_else(draw, Ok)?;
    // Most tests need fewer; the log reports it if they run out.
    let _ = ensure_open_files(FILES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::unavailable)?;
    let names = Names::default();
    let log_reader = LogReader::of(args.log.as_deref(), !terminal.options.quiet)?;
    let detail = if args.log_requests { Detail::Requests } else { Detail::Faults };
    let log = ProxyLog::of_newest(detail, RECORDS, Some(log_reader.sender.clone()));
    let board =
        Switchboard::start(log, Names::clone(&names), seed).map_err(Failure::unavailable)?;
    let board = if args.rewrite { board.rewriting() } else { board };
    let mut said = format!("picklock proxy, seed {seed}\n");
    for wanted in proxies {
        let is_open = !wanted.listen.ip().is_loopback();
        let status = board.add(wanted).map_err(failure)?;
        let _ = writeln!(said, "{}: {} -> {}", status.name, status.listen, status.upstream);
        if is_open && !terminal.options.quiet {
            let name = &status.name;
            print::note(&format!("note: {name} accepts connections from other machines"));
        }
    }
    let mut texts = BTreeMap::new();
    for (place, (text, written)) in faults.into_iter().enumerate() {
        let toxic_name = format!("fault-{}", place + 1);
        let named = written.proxy.clone().map(|name| vec![name]);
        for name in named.unwrap_or_else(|| board.all().into_iter().map(|it| it.name).collect()) {
            let toxic = Toxic::of_text(toxic_name.clone(), &text, &written);
            board.put(&name, toxic).map_err(failure)?;
            let _ = writeln!(said, "{name}: {text}");
        }
        texts.insert(toxic_name, text);
    }
    // Only now: if something cannot start, the log of an earlier run stays as it was.
    let log_reader = log_reader.begin(names)?;
    let board = Arc::new(board);
    runtime.block_on(serve(said, control, &board, terminal))?;
    for name in board.idle().into_iter().filter(|_| !terminal.options.quiet) {
        let fault = texts.get(&name).map_or(name, |text| format!("the fault `{text}`"));
        print::note(&format!("note: {fault} never struck: no request or connection matched it"));
    }
    let left: Vec<String> = board.left_addresses().into_iter().collect();
    if !left.is_empty() && !terminal.options.quiet {
        print::note(&format!(
            "note: replies named servers to which no proxy leads: {}. Give each a --listen and an --upstream",
            left.join(", ")
        ));
    }
    // Open requests of the control API hold the board as well.
    drop(runtime);
    // This closes the connections, which write the last records.
    drop(board);
    // It has been told already.
    Ok(if log_reader.finish()? { Exit::Held } else { Exit::Unavailable })
}

async fn serve(
    mut said: String,
    control: Option<Control>,
    board: &Arc<Switchboard>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut stop = signal::watch().map_err(Failure::unavailable)?;
    if let Some(control) = control {
        if control.is_open() && !terminal.options.quiet {
            print::note(
                "note: the control API accepts requests from other machines, and its token is sent unencrypted",
            );
        }
        let control = control.bind().await?;
        let addr = control.addr().map_err(Failure::unavailable)?;
        let _ = writeln!(said, "control: http://{addr}");
        tokio::spawn(control.serve(Arc::clone(board)));
    }
    print::results(&said)?;
    // An error means that the sender is gone, which counts as a signal.
    let _ = stop.wait_for(|is_over| *is_over).await;
    Ok(())
}

fn proxies(args: &ProxyArgs) -> Result<Vec<ProxySpec>, Failure> {
    let (listen, upstream) = (&args.listen, &args.upstream);
    if listen.len() != upstream.len() {
        return Err(Failure::usage_text(
            format!("{} --listen, but {} --upstream", listen.len(), upstream.len()),
            "give one --upstream per --listen, in the same order",
        ));
    }
    if listen.is_empty() && args.control.is_none() {
        return Err(Failure::usage_text(
            "no address to listen on",
            "give one, as in picklock proxy --listen 127.0.0.1:6400 --upstream 127.0.0.1:6379",
        ));
    }
    let mut wanted: Vec<ProxySpec> = Vec::new();
    for (place, (listen, upstream)) in listen.iter().zip(upstream).enumerate() {
        let (name, address) = match listen.split_once('=') {
            Some((name, address)) => (name.to_owned(), address),
            None if args.listen.len() == 1 => ("redis".to_owned(), listen.as_str()),
            None => (format!("redis-{}", place + 1), listen.as_str()),
        };
        if wanted.iter().any(|other| other.name == name) {
            return Err(failure(SwitchError::ProxyExists(name)));
        }
        wanted.push(ProxySpec {
            name,
            listen: listen_address(address).map_err(failure)?,
            upstream: upstream.clone(),
            way: way(upstream, args)?,
            enabled: true,
        });
    }
    Ok(wanted)
}

/// Refuses proxies that no reply could name.
fn can_rewrite(proxies: &[ProxySpec]) -> Result<(), Failure> {
    for proxy in proxies {
        let ProxySpec { name, listen, upstream, .. } = proxy;
        let (why, help) = match () {
            () if listen.ip().is_unspecified() => (
                format!("{name} listens on {listen}, which is no address that a client can reach"),
                "name the address by which clients reach it, as in --listen 10.0.0.5:6400",
            ),
            () if matches!(proxy.way, Upstream::Tls { .. }) => (
                format!("{name} leads to {upstream}, and replies name servers without TLS"),
                "omit --rewrite, or name servers without TLS",
            ),
            () => continue,
        };
        return Err(Failure::usage_text(format!("--rewrite: {why}"), help));
    }
    Ok(())
}

/// How to reach a server: over TLS for rediss://.
fn way(upstream: &str, args: &ProxyArgs) -> Result<Upstream, Failure> {
    without_credentials(upstream).map_err(failure)?;
    let Some(place) = upstream.strip_prefix("rediss://") else {
        let place = upstream.strip_prefix("redis://").unwrap_or(upstream);
        return resolve_upstream(place.trim_end_matches('/')).map_err(failure);
    };
    let bad = || failure(SwitchError::BadUpstream(upstream.to_owned()));
    let (host, port) = place.trim_end_matches('/').rsplit_once(':').ok_or_else(bad)?;
    let port = port.parse().map_err(|_| bad())?;
    Upstream::tls(host, port, &world::trust(&args.tls)?).map_err(Failure::usage_error)
}

fn read(text: &str, proxies: &[ProxySpec]) -> Result<(String, ParsedFault), Failure> {
    let written: ParsedFault = text.parse().map_err(|error: FaultError| Failure::usage(error))?;
    if let Some(name) = &written.proxy
        && !proxies.iter().any(|proxy| proxy.name == *name)
    {
        let names: Vec<&str> = proxies.iter().map(|proxy| proxy.name.as_str()).collect();
        let help = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the proxies are: {}", names.join(", ")),
        };
        return Err(Failure::usage_text(format!("`{text}`: no proxy is called {name}"), help));
    }
    Ok((text.to_owned(), written))
}

/// Maps an error to the user's mistake or the machine's.
fn failure(error: SwitchError) -> Failure {
    match &error {
        SwitchError::Listen { addr, .. } => Failure::unavailable_text(
            error.to_string(),
            format!(
                "stop the process that listens on {addr}, or choose another port; 0 picks a free one"
            ),
        ),
        SwitchError::Proxy(_) | SwitchError::Unresolved(..) => Failure::unavailable(error),
        _ => Failure::usage_error(error),
    }
}

/// Records queued for their reader. A disk that stays slower than they come loses some, which shows as a gap in their
/// numbers.
const UNDER_WAY: usize = 1 << 16;

/// The reader of the log: writes it to a file, if one is named, and reports servers that cannot be reached.
struct LogReader {
    path: Option<PathBuf>,
    tells: bool,
    sender: SyncSender<Record>,
    records: Receiver<Record>,
}

/// A reader at work, in a thread of its own, which returns whether the log is whole.
struct BegunReader {
    sender: SyncSender<Record>,
    thread: JoinHandle<bool>,
}

impl LogReader {
    /// With a file at this place, which is not touched yet.
    fn of(path: Option<&Path>, tells: bool) -> Result<Self, Failure> {
        path.map_or(Ok(()), reports::file::check).map_err(Failure::usage_error)?;
        let (sender, records) = sync_channel(UNDER_WAY);
        Ok(Self { path: path.map(Path::to_owned), tells, sender, records })
    }

    /// Creates or truncates the file; a pipe or device is just opened.
    fn begin(self, names: Names) -> Result<BegunReader, Failure> {
        let Self { path, tells, sender, records } = self;
        let failed = |error| cannot(path.as_deref(), &error);
        let log = path.as_deref().map(reports::file::open).transpose().map_err(failed)?;
        let (log, place) = (log.map(LogFile::new), path.clone());
        let thread = std::thread::Builder::new()
            .name("picklock-log".into())
            .spawn(move || read_log(log, place.as_deref(), &records, &names, tells))
            .map_err(failed)?;
        Ok(BegunReader { sender, thread })
    }
}

impl BegunReader {
    /// Reads the rest; false if some of the log could not be written. Every other sender must be gone.
    fn finish(self) -> Result<bool, Failure> {
        drop(self.sender);
        let ended = self.thread.join();
        ended.map_err(|_| Failure::internal("the thread that reads the log panicked"))
    }
}

fn cannot(path: Option<&Path>, error: &std::io::Error) -> Failure {
    let Some(path) = path else { return Failure::unavailable_text(error.to_string(), "try again") };
    Failure::unavailable_text(
        format!("cannot write the log to {}: {error}", path.display()),
        "choose a file in an existing directory with free space",
    )
}

fn read_log(
    mut log: Option<LogFile>,
    path: Option<&Path>,
    records: &Receiver<Record>,
    names: &Names,
    tells: bool,
) -> bool {
    let tell = |written: std::io::Result<()>| {
        if let Err(error) = written {
            let why = cannot(path, &error).first_line();
            print::note(&format!("picklock: {why}; the proxy goes on without it"));
        }
    };
    // Once for each proxy: its clients connect again and again.
    let mut told = BTreeSet::new();
    loop {
        let record = records.try_recv().or_else(|_| {
            log.iter_mut().for_each(|log| tell(log.flush()));
            records.recv()
        });
        let Ok(record) = record else { return log.is_none_or(|log| log.is_whole()) };
        let names = names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(&record.node).map_or("", String::as_str);
        if let ProxyEvent::Unreachable(why) = &record.event
            && tells
            && told.insert(record.node)
        {
            print::note(&format!("note: {name} cannot serve a client: {why}"));
        }
        log.iter_mut().for_each(|log| tell(log.write(&record, name)));
    }
}
