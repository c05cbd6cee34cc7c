//! `picklock proxy`: the fault proxy by itself, for anybody's tests.
//!
//! Invariant: nothing listens before the whole command line has been understood, and nothing beyond
//! loopback that was not named. Deliberately absent: a verdict. It ends with 0 when it is told to.

mod args;
mod writing;

pub(crate) use args::ProxyArgs;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use scenarios::nearest::nearest;

use super::exit::Exit;
use super::failure::Failure;
use super::terminal::Terminal;
use super::{print, signal};
use fault_proxy::switchboard::{
    Control, Names, SwitchError, Switchboard, Toxic, Wanted, listen_address, upstream_way,
    without_credentials,
};
use fault_proxy::{Detail, FaultError, Log, Trust, Upstream, Written};
use live_world::limits::ensure_open_files;
use writing::LogFile;

/// So many files a proxy for a test of some size needs.
const FILES: u64 = 4096;
/// Records that the control API can still show.
const RECORDS: usize = 100_000;

/// Listens until a signal comes.
pub(super) fn main(args: &ProxyArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let proxies = proxies(args)?;
    let faults =
        args.fault.iter().map(|text| read(text, &proxies)).collect::<Result<Vec<_>, _>>()?;
    let control = args.control.as_deref().map(control_port).transpose()?;
    let seed = args.seed.map_or_else(drawn, Ok)?;
    // Fewer are enough for most; who runs out of them is told in the log.
    let _ = ensure_open_files(FILES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(&error))?;
    let names = Names::default();
    let file = args.log.as_deref().map(|path| LogFile::create(path, &names)).transpose()?;
    let detail = if args.log_requests { Detail::Requests } else { Detail::Faults };
    let log = Log::of_newest(detail, RECORDS, file.as_ref().map(LogFile::sender));
    let board =
        Switchboard::start(log, names, seed).map_err(|error| Failure::unavailable(&error))?;
    let mut said = format!("picklock proxy, seed {seed}\n");
    for wanted in proxies {
        let is_open = !wanted.listen.ip().is_loopback();
        let status = board.add(wanted).map_err(|error| failure(&error))?;
        let _ = writeln!(said, "{}: {} -> {}", status.name, status.listen, status.upstream);
        if is_open && !terminal.is_quiet() {
            let name = &status.name;
            print::note(&format!("note: {name} listens for everybody who can reach this machine"));
        }
    }
    let mut texts = BTreeMap::new();
    for (place, (text, written)) in faults.into_iter().enumerate() {
        let toxic_name = format!("fault-{}", place + 1);
        let named = written.proxy.clone().map(|name| vec![name]);
        for name in named.unwrap_or_else(|| board.all().into_iter().map(|it| it.name).collect()) {
            let toxic = Toxic::of_text(toxic_name.clone(), &text, &written);
            board.put(&name, toxic).map_err(|error| failure(&error))?;
            let _ = writeln!(said, "{name}: {text}");
        }
        texts.insert(toxic_name, text);
    }
    let board = Arc::new(board);
    runtime.block_on(serve(said, control, &board))?;
    for name in board.idle().into_iter().filter(|_| !terminal.is_quiet()) {
        let fault = texts.get(&name).map_or(name, |text| format!("the fault `{text}`"));
        print::note(&format!("note: {fault} never struck: no request or connection met it"));
    }
    // Requests that are still open hold it as well.
    drop(runtime);
    // Its connections end here, and with them the last records.
    drop(board);
    file.map_or(Ok(()), LogFile::finish)?;
    Ok(Exit::Held)
}

#[expect(clippy::disallowed_methods, reason = "where no seed is given, one is drawn and told")]
fn drawn() -> Result<u64, Failure> {
    getrandom::u64().map_err(|error| Failure::unavailable(&error))
}

async fn serve(
    mut said: String,
    control: Option<u16>,
    board: &Arc<Switchboard>,
) -> Result<(), Failure> {
    let mut stop = signal::watch().map_err(|error| Failure::unavailable(&error))?;
    if let Some(port) = control {
        let cannot = |error| {
            Failure::unavailable_text(
                format!("the control API cannot listen on 127.0.0.1:{port}: {error}"),
                "end what listens there, or name another port; 0 is a free one",
            )
        };
        let control = Control::bind(port).await.map_err(cannot)?;
        let addr = control.addr().map_err(|error| Failure::unavailable(&error))?;
        let _ = writeln!(said, "control: http://{addr}");
        tokio::spawn(control.serve(Arc::clone(board)));
    }
    print::results(&said)?;
    // An error means that nobody is left to tell, which is as good as a signal.
    let _ = stop.wait_for(|is_over| *is_over).await;
    Ok(())
}

/// The port of the control API, which listens on this machine alone.
fn control_port(text: &str) -> Result<u16, Failure> {
    let addr = listen_address(text).map_err(|error| failure(&error))?;
    if addr.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return Ok(addr.port());
    }
    Err(Failure::usage_text(
        format!("the control API cannot listen on {addr}: it has no password"),
        "name a port of this machine, as in --control 127.0.0.1:8475",
    ))
}

/// What is to listen where, and to lead where.
fn proxies(args: &ProxyArgs) -> Result<Vec<Wanted>, Failure> {
    let (listen, upstream) = (&args.listen, &args.upstream);
    if listen.len() != upstream.len() {
        return Err(Failure::usage_text(
            format!("{} to listen on, and {} to lead to", listen.len(), upstream.len()),
            "give one --upstream for each --listen, in the same order",
        ));
    }
    if listen.is_empty() && args.control.is_none() {
        return Err(Failure::usage_text(
            "there is nothing to listen on",
            "as in picklock proxy --listen 127.0.0.1:6400 --upstream 127.0.0.1:6379",
        ));
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    for (place, (listen, upstream)) in listen.iter().zip(upstream).enumerate() {
        let (name, address) = match listen.split_once('=') {
            Some((name, address)) => (name.to_owned(), address),
            None if args.listen.len() == 1 => ("redis".to_owned(), listen.as_str()),
            None => (format!("redis-{}", place + 1), listen.as_str()),
        };
        if wanted.iter().any(|other| other.name == name) {
            return Err(failure(&SwitchError::ProxyExists(name)));
        }
        wanted.push(Wanted {
            name,
            listen: listen_address(address).map_err(|error| failure(&error))?,
            upstream: upstream.clone(),
            way: way(upstream, args)?,
            enabled: true,
        });
    }
    Ok(wanted)
}

/// The way to a server, through TLS where it says so.
fn way(upstream: &str, args: &ProxyArgs) -> Result<Upstream, Failure> {
    without_credentials(upstream).map_err(|error| failure(&error))?;
    let Some(place) = upstream.strip_prefix("rediss://") else {
        let place = upstream.strip_prefix("redis://").unwrap_or(upstream);
        return upstream_way(place.trim_end_matches('/')).map_err(|error| failure(&error));
    };
    let bad = || failure(&SwitchError::BadUpstream(upstream.to_owned()));
    let (host, port) = place.trim_end_matches('/').rsplit_once(':').ok_or_else(bad)?;
    let trust = match &args.tls_ca {
        _ if args.tls_insecure => Trust::Anyone,
        Some(path) => Trust::SystemAnd(path.clone()),
        None => Trust::System,
    };
    let port = port.parse().map_err(|_| bad())?;
    Upstream::tls(host, port, &trust).map_err(|error| Failure::usage_error(&error))
}

fn read(text: &str, proxies: &[Wanted]) -> Result<(String, Written), Failure> {
    let written: Written = text.parse().map_err(|error: FaultError| Failure::usage(error))?;
    if let Some(name) = &written.proxy
        && !proxies.iter().any(|proxy| proxy.name == *name)
    {
        let names: Vec<&str> = proxies.iter().map(|proxy| proxy.name.as_str()).collect();
        let help = match nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("there is {}", names.join(", ")),
        };
        return Err(Failure::usage_text(format!("`{text}`: there is no proxy {name}"), help));
    }
    Ok((text.to_owned(), written))
}

/// What the user has to mend, and what the machine has not.
fn failure(error: &SwitchError) -> Failure {
    match error {
        SwitchError::Listen { addr, .. } => Failure::unavailable_text(
            error.to_string(),
            format!("end what listens on {addr}, or listen elsewhere; port 0 is a free one"),
        ),
        SwitchError::Proxy(_) => Failure::unavailable(error),
        _ => Failure::usage_error(error),
    }
}
