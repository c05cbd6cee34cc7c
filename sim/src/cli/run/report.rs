//! From a run to its report: judged, written, printed.
//!
//! Invariant: the files are written before anything is printed on stdout, so what is printed as the
//! place of the report is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reports::directory::{Latest, RunDirectory};
use reports::invariant_table::InvariantTable;
use reports::latency::Latencies;
use reports::manifest::{self, Manifest, Platform};
use reports::terminal::{Style, Verbosity};
use reports::write::write_all;
use scenarios::judge::{Circumstances, judge};
use scenarios::matrix::expected;
use scenarios::result::{Capable, RunResult, ServerFacts};
use scenarios::scenario::Scenario;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::args::{Output, OutputFormat, RunArgs};
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::line::Line;
use super::super::terminal::Terminal;
use super::super::world;
use super::super::{load, output, print};
use crate::live::run::{CutShort, Order, Run};
use crate::live::target::ServerInfo;

/// What was made in a live world.
pub(in crate::cli) struct Made {
    pub(in crate::cli) run: Run,
    pub(in crate::cli) server: ServerInfo,
    pub(in crate::cli) capabilities: BTreeMap<String, Capable>,
    /// What servers have written into their logs, each with the name of its file.
    pub(in crate::cli) logs: Vec<(String, Vec<u8>)>,
    pub(in crate::cli) is_private: bool,
}

/// Judges, writes and prints.
pub(super) fn write(
    args: &RunArgs,
    order: Order<'_>,
    started: &str,
    made: Made,
    directory: RunDirectory,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let cut_short = made.run.cut_short.clone();
    let (result, path) = files(args, order, started, made, directory, terminal)?;
    print(&args.format, &result, Some(&path), terminal)?;
    Ok(exit(&result, cut_short.as_ref()))
}

/// Judges and writes; the result, and where it lies.
pub(super) fn files(
    args: &RunArgs,
    order: Order<'_>,
    started: &str,
    made: Made,
    directory: RunDirectory,
    terminal: &Terminal,
) -> Result<(RunResult, PathBuf), Failure> {
    let Order { scenario, seed, world } = order;
    let Made { run, server, capabilities, logs, is_private } = made;
    let ServerInfo { software, version, how: origin, .. } = server;
    let server = ServerFacts { software, version, origin, capabilities };
    let mut remarks = scenario.remarks();
    remarks.extend(run.remarks);
    let trouble = match &run.cut_short {
        Some(CutShort::ServerGone(why)) => {
            Some(format!("the server stopped answering before the end: {why}"))
        }
        Some(CutShort::ServerRefused(why)) => {
            Some(format!("the server refused what clients asked of it {why}"))
        }
        Some(CutShort::OutOfFiles(times)) => Some(format!(
            "{times} times there was no file descriptor for a connection (Too many open files), so what clients \
             met is this machine's doing: raise the limit (ulimit -n), or use fewer clients"
        )),
        Some(CutShort::Interrupted) | None => None,
    };
    if let (true, Some(trouble)) = (terminal.is_quiet(), &trouble) {
        // The summary says so too, unless it is to be short.
        print::note(&format!("note: {trouble}"));
    }
    remarks.extend(trouble);
    let latencies = Latencies::of(&run.history);
    let circumstances = Circumstances {
        server: server.clone(),
        complete: run.cut_short.is_none(),
        disturbed: run.disturbed,
        remarks,
        searched: scenario.swarm.searched,
        replay: replay(args, scenario, world, &format!("--seed {seed}"), is_private),
        server_commands: run.server_commands,
        latencies: latencies.summaries(),
    };
    let mut result = judge(&run.history, circumstances);
    if let Some(asked) = args.scenario.as_deref().filter(|it| load::is_file(it))
        && result.complete
    {
        let remark = expected::remark(scenario, false, |level| result.level(level));
        result.remarks.extend(remark.map(|it| format!("{}: {it}", asked.to_string_lossy())));
    }
    let manifest = Manifest {
        format: manifest::FORMAT.to_owned(),
        picklock: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: scenario.name.clone(),
        scenario_as_run: serde_json::to_value(scenario).unwrap_or_default(),
        lock: result.lock.clone(),
        world: world.to_owned(),
        server,
        seed,
        options: options(args),
        replay: result.replay.clone(),
        platform: Platform {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        },
        started_utc: started.to_owned(),
        files: Vec::new(),
    };
    let path = directory.path().to_owned();
    if let Err(error) = write_all(&directory, &result, &run.history, &latencies, &manifest, &logs) {
        // What was found is not lost with the place it should have gone to.
        print(&args.format, &result, None, terminal)?;
        return Err(Failure::unavailable(&error));
    }
    match directory.finish() {
        Ok(Latest::Set(_) | Latest::Unsupported) => {}
        Ok(Latest::Taken(place)) => {
            let place = place.display();
            print::note(&format!("note: {place} is not a link of picklock's and was left alone"));
        }
        Err(error) => print::note(&format!("note: {error}")),
    }
    Ok((result, path))
}

fn exit(result: &RunResult, cut_short: Option<&CutShort>) -> Exit {
    match (Exit::of(result), cut_short) {
        // What was found before the server went is found.
        (Exit::Interrupted, Some(cut_short)) if *cut_short != CutShort::Interrupted => {
            Exit::of_incomplete(result)
        }
        (exit, _) => exit,
    }
}

pub(super) fn print(
    formats: &[Output],
    result: &RunResult,
    path: Option<&Path>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let footer = path.map(|path| reports::terminal::footer(result, path, style(terminal)));
    print_with(formats, result, &footer.unwrap_or_default(), terminal)
}

/// Writes the result where it is asked for; for people, with these lines below.
pub(in crate::cli) fn print_with(
    formats: &[Output],
    result: &RunResult,
    footer: &str,
    terminal: &Terminal,
) -> Result<(), Failure> {
    output::write(formats, |format| match format {
        OutputFormat::Human => Ok(reports::terminal::summary(result, style(terminal)) + footer),
        OutputFormat::Json => json_text(result),
        OutputFormat::Junit => junit(&InvariantTable::run(result)),
        OutputFormat::Markdown => Ok(InvariantTable::run(result).markdown()),
    })
}

/// As JSON, with an end.
pub(in crate::cli) fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(value);
    Ok(json.map_err(|error| Failure::internal(error.to_string()))? + "\n")
}

pub(super) fn junit(told: &InvariantTable) -> Result<String, Failure> {
    told.junit().map_err(|error| Failure::internal(error.to_string()))
}

/// How stdout is written to.
pub(in super::super) fn style(terminal: &Terminal) -> Style {
    let verbosity = match () {
        () if terminal.is_quiet() => Verbosity::Quiet,
        () if terminal.is_verbose() => Verbosity::Verbose,
        () => Verbosity::Normal,
    };
    Style { colour: terminal.colour_on_stdout(), width: Some(terminal.width()), verbosity }
}

/// The options as they were used.
fn options(args: &RunArgs) -> BTreeMap<String, Value> {
    let text = |span: Option<scenarios::span::Span>| span.map(|span| span.to_string());
    // A path is bytes, and need be no text.
    let path = |path: Option<&Path>| path.map(|path| path.to_string_lossy().into_owned());
    let set: Vec<String> = args.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let all = [
        ("lock", json!(args.lock)),
        ("world", json!(args.world.name())),
        ("server_bin", json!(path(world::named(&args.server)))),
        ("tls_ca", json!(path(args.server.tls_ca.as_deref()))),
        ("tls_insecure", json!(args.server.tls_insecure)),
        ("clients", json!(args.clients)),
        ("ttl", json!(text(args.ttl))),
        ("hold", json!(text(args.hold))),
        ("set", json!(set)),
        ("searched", json!(args.searched)),
        ("out", json!(path(Some(&args.out)))),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The command line that runs the same again, with these seeds: `--seed 7`, or `--seeds 0..100`.
pub(super) fn replay(
    args: &RunArgs,
    scenario: &Scenario,
    world: &str,
    seeds: &str,
    is_private: bool,
) -> String {
    let asked = args.scenario.as_ref().map(|asked| asked.to_string_lossy());
    let mut line = Line::new()
        .option("--scenario", asked.as_deref().unwrap_or(&scenario.name))
        .option("--lock", &scenario.lock.recipe)
        .option("--world", world)
        .server(&args.server, is_private);
    if let Some(clients) = args.clients {
        line = line.option("--clients", &clients.to_string());
    }
    for (option, span) in [("--ttl", args.ttl), ("--hold", args.hold)] {
        if let Some(span) = span {
            line = line.option(option, &span.to_string());
        }
    }
    for (key, value) in &args.set {
        line = line.option("--set", &format!("{key}={value}"));
    }
    line = line.word(seeds);
    if args.searched { line.word("--searched") } else { line }.text()
}
