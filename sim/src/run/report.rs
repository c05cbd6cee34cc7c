//! From a run to its report: judged, written, printed.
//!
//! Invariant: the files are written before anything is printed on stdout, so the report exists when its
//! place is printed. If they cannot be written, what was found is printed all the same.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use harness::world::{CutShort, Run, RunRequest};
use reports::directory::{Latest, RunDirectory, WriteError};
use reports::html::FailingRun;
use reports::invariant_table::InvariantTable;
use reports::latency::Latencies;
use reports::manifest::{self, Manifest, Platform};
use reports::terminal::{Style, Verbosity};
use reports::write::write_all;
use scenarios::judge::judge;
use scenarios::matrix::expected::RunConformance;
use scenarios::result::RunResult;
use scenarios::scenario::Scenario;
use serde_json::{Value, json};

use super::{expectation, now, stamp};
use crate::args::{Output, OutputFormat, RunArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::line::Line;
use crate::terminal::Terminal;
use crate::world;
use crate::{output, print};

/// A report under way: what was asked for, and the directory that waits for it.
pub(super) struct Report<'a> {
    args: &'a RunArgs,
    world: &'static str,
    scenario: Arc<Scenario>,
    seed: u64,
    started: String,
    directory: RunDirectory,
}

impl<'a> Report<'a> {
    /// Makes the directory.
    pub(super) fn begin(
        args: &'a RunArgs,
        world: &'static str,
        request: &RunRequest,
    ) -> Result<Self, Failure> {
        let RunRequest { scenario, seed, .. } = request;
        let started = now();
        let directory = RunDirectory::create(&args.out, &scenario.name, &stamp(&started), *seed)
            .map_err(|error| no_directory(&error))?;
        Ok(Self { args, world, scenario: Arc::clone(scenario), seed: *seed, started, directory })
    }

    /// Where a file may be written beside the report's own.
    pub(super) fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// The same for another seed.
    pub(super) fn of_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Judges, writes and prints.
    pub(super) fn write(self, run: Run, terminal: &Terminal) -> Result<Exit, Failure> {
        if run.cut_short == Some(CutShort::Interrupted) && !terminal.options.quiet {
            print::note("interrupted: writing what there is");
        }
        let (args, cut_short) = (self.args, run.cut_short.clone());
        let scenario = Arc::clone(&self.scenario);
        let (result, written) = self.files(run, terminal);
        let expected = expectation::compared(args, &scenario, false, |level| result.level(level))
            .filter(|_| cut_short != Some(CutShort::Interrupted));
        print(&args.format, &result, expected, written.as_deref().ok(), terminal)?;
        written?;
        let exit = Exit::of_run(&result, cut_short.as_ref());
        Ok(expectation::exit(args, &scenario, exit, false, |level| result.level(level), terminal))
    }

    /// Judges and writes; the result, and where it lies or why it lies nowhere.
    pub(super) fn files(
        self,
        run: Run,
        terminal: &Terminal,
    ) -> (RunResult, Result<PathBuf, Failure>) {
        let Self { args, world, scenario, seed, started, directory } = self;
        if terminal.options.quiet
            && let Some(trouble) = run.cut_short.as_ref().and_then(CutShort::trouble)
        {
            // The summary says so, too, unless a short one is wanted.
            print::note(&format!("note: {trouble}"));
        }
        let seed_option = format!("--seed {seed}");
        let replay = replay_line(args, &scenario, world, &seed_option, run.is_private).text();
        let latencies = Latencies::of(&run.history);
        let circumstances = run.circumstances(&scenario, replay, latencies.summaries());
        let mut result = judge(&run.history, circumstances);
        if result.complete {
            result
                .remarks
                .extend(expectation::remark(args, &scenario, false, |level| result.level(level)));
        }
        let manifest = Manifest {
            format: manifest::FORMAT.to_owned(),
            picklock: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.name.clone(),
            scenario_as_run: serde_json::to_value(&*scenario).unwrap_or_default(),
            lock: result.lock.clone(),
            world: world.to_owned(),
            server: run.server,
            seed,
            options: options(args),
            replay: result.replay.clone(),
            platform: Platform {
                os: std::env::consts::OS.to_owned(),
                arch: std::env::consts::ARCH.to_owned(),
            },
            started_utc: started,
            files: Vec::new(),
        };
        let path = directory.path().to_owned();
        let written =
            write_all(&directory, &result, &run.history, &latencies, &manifest, &run.logs);
        let path = written.map_err(Failure::unavailable).map(|_| {
            finish(directory);
            path
        });
        (result, path)
    }
}

/// A run of many that violates something: judged, and drawn.
pub(crate) fn failing_run(run: &Run, scenario: &Scenario, replay: String) -> FailingRun {
    let result = judge(&run.history, run.circumstances(scenario, replay.clone(), Vec::new()));
    FailingRun { picture: reports::write::incident(&run.history, &result), result, replay }
}

/// Has `latest` lead to what was written, or says why it does not.
pub(crate) fn finish(directory: RunDirectory) {
    match directory.finish() {
        Ok(Latest::Set(_)) => {}
        Ok(Latest::Taken(place)) => {
            let place = place.display();
            print::note(&format!("note: {place} is not a link of picklock's and was left alone"));
        }
        Err(error) => print::note(&format!("note: {error}")),
    }
}

/// A place that cannot be written is the user's to change; a disk that is full may be right
/// tomorrow.
pub(crate) fn no_directory(error: &WriteError) -> Failure {
    match error {
        WriteError::Create(_, source) if source.kind() == ErrorKind::StorageFull => {
            Failure::unavailable(error)
        }
        _ => Failure::usage_error(error),
    }
}

pub(super) fn print(
    formats: &[Output],
    result: &RunResult,
    expected: Option<RunConformance>,
    path: Option<&Path>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let footer = path.map(|path| reports::terminal::footer(result, path, style(terminal)));
    print_with(formats, result, expected, &footer.unwrap_or_default(), terminal)
}

/// Writes the result to the outputs that were asked for; in the one for people, with these lines below.
pub(crate) fn print_with(
    formats: &[Output],
    result: &RunResult,
    expected: Option<RunConformance>,
    footer: &str,
    terminal: &Terminal,
) -> Result<(), Failure> {
    output::write(formats, |format| match format {
        OutputFormat::Human => Ok(reports::terminal::summary(result, style(terminal)) + footer),
        OutputFormat::Json => output::json_text(result),
        OutputFormat::Junit => junit(&InvariantTable::run(result).beside(expected.clone())),
        OutputFormat::Markdown => Ok(InvariantTable::run(result).markdown()),
        OutputFormat::Html => Err(output::no_page()),
    })
}

pub(super) fn junit(table: &InvariantTable) -> Result<String, Failure> {
    table.junit().map_err(Failure::internal)
}

/// How stdout is written to.
pub(crate) fn style(terminal: &Terminal) -> Style {
    let verbosity = match () {
        () if terminal.options.quiet => Verbosity::Quiet,
        () if terminal.options.verbose => Verbosity::Verbose,
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
        ("tls_ca", json!(path(args.server.tls.tls_ca.as_deref()))),
        ("tls_insecure", json!(args.server.tls.tls_insecure)),
        ("clients", json!(args.clients)),
        ("ttl", json!(text(args.ttl))),
        ("hold", json!(text(args.hold))),
        ("set", json!(set)),
        ("searched", json!(args.searched)),
        ("expected", json!(args.expected)),
        ("out", json!(path(Some(&args.out)))),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The command line that runs the same again, with this option: `--seed 7`, or `--seeds 0..100`.
pub(super) fn replay_line(
    args: &RunArgs,
    scenario: &Scenario,
    world: &str,
    seeds: &str,
    is_private: bool,
) -> Line {
    let asked = args.scenario.as_ref().map(|asked| asked.to_string_lossy());
    Line::new()
        .option("--scenario", asked.as_deref().unwrap_or(&scenario.name))
        .option("--lock", &scenario.lock.recipe)
        .option("--world", world)
        .server(&args.server, is_private)
        .options("--clients", args.clients)
        .options("--ttl", args.ttl)
        .options("--hold", args.hold)
        .options("--set", args.set.iter().map(|(key, value)| format!("{key}={value}")))
        .word(seeds)
        .switch("--searched", args.searched)
        .switch("--lua", args.lua)
        .switch("--expected", args.expected)
}
