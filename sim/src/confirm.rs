//! `picklock confirm`: whether a real redis-server shows what the virtual world does.
//!
//! Invariant: *confirmed* means the same invariant at the same level. Otherwise the reason is given.

use std::sync::Arc;

use explore::{Counterexample, Reproduction, SEED, compare};
use harness::world::{Run, RunError, RunRequest, World as _};
use history::verdict::{Finding, Level, Verdict};
use live_world::LiveWorld;
use live_world::endpoint::{Choice, Endpoint, EndpointError, KeySpace, Settings};
use live_world::server::DiscoverError;
use scenarios::result::ServerFacts;
use scenarios::scenario::{Overrides, Scenario};
use tokio::runtime::Handle;

use super::args::{ConfirmArgs, ServerArgs, World};
use super::exit::Exit;
use super::failure::Failure;
use super::terminal::Terminal;
use super::world::{self, Chosen, choose, runtime};
use super::{load, print, run, signal};

/// How often a scenario is run: on a busy machine a fault may miss its moment.
const RUNS_MOST: u32 = 3;

/// Runs the scenario in virtual time and on a server, and says whether they show the same.
pub(super) fn main(args: &ConfirmArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    world::refuse_several(&args.server)?;
    let overrides = Overrides { lock: args.lock.clone(), ..Overrides::default() };
    let scenario = Arc::new(load::parsed(&args.scenario, &overrides)?);
    let chosen = choose(World::Redis, &args.server)?;
    let run = world::simulated(false).run(&RunRequest::new(Arc::clone(&scenario), SEED));
    let findings = run?.findings();
    let Some((invariant, level)) = nearest(&findings) else {
        let name = &scenario.name;
        let text = format!("nothing to confirm: in virtual time {name} violates nothing\n");
        print::results(&text)?;
        return Ok(Exit::NothingRan);
    };
    let says = !terminal.options.quiet;
    let (server, found) = on(chosen, &scenario, (invariant, level), says)?;
    let why = found.why().map_or_else(String::new, |why| format!(": {why}"));
    print::results(&format!(
        "{}: {invariant} ({}) on {server}{why}\n",
        found.name(),
        level.name()
    ))?;
    Ok(Exit::of_confirmation(&found, level))
}

/// Checks the server to confirm on before anything is searched: a server behind a URL has to answer.
pub(super) fn check(no_confirm: bool, server: &ServerArgs) -> Result<(), Failure> {
    if no_confirm && world::is_on_line("--redis") {
        return Err(Failure::usage_text(
            "--redis names a server to confirm on, and with --no-confirm nothing is confirmed",
            "omit one of the two",
        ));
    }
    if no_confirm || is_without(server) {
        return Ok(());
    }
    let Chosen { choice: choice @ Choice::Url(_), .. } = choose(World::Redis, server)? else {
        return Ok(());
    };
    let keys = KeySpace::of_run(&format!("confirm-{:016x}", run::draw()?));
    let runtime = runtime()?;
    let tried = runtime.block_on(async {
        let endpoint = Endpoint::open(choice, keys, &Settings::default()).await?;
        endpoint.close().await;
        Ok::<_, EndpointError>(())
    });
    runtime.shutdown_background();
    tried.map_err(Failure::unavailable)
}

/// Whether none was named, and none is on PATH.
fn is_without(server: &ServerArgs) -> bool {
    server.redis.is_none() && matches!(world::find(server), Err(DiscoverError::NotFound))
}

/// Whether a server shows each counterexample, one after the other; nothing if there is no server. If one cannot be
/// tried, the results before it are kept.
pub(super) fn each(
    examples: &[Counterexample],
    server: &ServerArgs,
    terminal: &Terminal,
) -> (Vec<(String, Reproduction)>, Option<Failure>) {
    let mut all = Vec::new();
    for example in examples {
        let says = all.is_empty() && !terminal.options.quiet;
        match again(example, server, says) {
            Ok(Some(found)) => all.push(found),
            Ok(None) => break,
            Err(failure) => return (all, Some(failure)),
        }
    }
    (all, None)
}

fn again(
    example: &Counterexample,
    server: &ServerArgs,
    says: bool,
) -> Result<Option<(String, Reproduction)>, Failure> {
    if is_without(server) {
        print::note(
            "not confirmed: no redis-server was found on PATH; name one with --server-bin PATH",
        );
        return Ok(None);
    }
    let violation = &example.found.violation;
    let chosen = choose(World::Redis, server)?;
    let scenario = Arc::new(example.scenario.clone());
    on(chosen, &scenario, (violation.invariant, violation.level), says).map(Some)
}

/// The invariant that is violated at the first level.
fn nearest(findings: &[Finding]) -> Option<(&'static str, Level)> {
    let violated = findings.iter().filter(|it| matches!(it.verdict, Verdict::Violated(_)));
    violated.min_by_key(|it| it.level).map(|it| (it.name, it.level))
}

/// Runs the scenario on this server until it shows the same, or [`RUNS_MOST`] times; also returns what the server is.
fn on(
    chosen: Chosen,
    scenario: &Arc<Scenario>,
    what: (&str, Level),
    says: bool,
) -> Result<(String, Reproduction), Failure> {
    if says {
        print::note(&chosen.why);
    }
    let runtime = runtime()?;
    let entered = runtime.enter();
    let signals = signal::watch().map_err(Failure::unavailable)?;
    let mut world = LiveWorld::new(chosen.choice, Handle::current(), signals);
    let mut outcome = (String::from("a redis-server"), Reproduction::NotReproduced(String::new()));
    for _ in 0..RUNS_MOST {
        let run = world.run(&RunRequest::new(Arc::clone(scenario), SEED));
        if let Ok(Run { server: ServerFacts { software, version, .. }, .. }) = &run {
            outcome.0 = format!("{software}-server {version}");
        }
        outcome.1 = compare(what, run).map_err(failed)?;
        if !matches!(outcome.1, Reproduction::NotReproduced(_)) {
            break;
        }
    }
    drop(entered);
    // Do not wait for threads that are still busy, such as a resolver.
    runtime.shutdown_background();
    Ok(outcome)
}

/// Why a server did not say anything.
fn failed(error: RunError) -> Failure {
    match error {
        RunError::Interrupted => Failure::interrupted(
            "interrupted while a redis-server ran the scenario",
            "`picklock confirm FILE.toml` runs it again",
        ),
        error => error.into(),
    }
}
