//! `picklock tune --confirm`: the model against a server, and the server of `--measure`.
//!
//! Invariant: what was started for it ends with it, interrupted or not. Deliberately absent: what is tried and
//! compared, which is [`crate::tune::confirm`].

use std::time::Duration;

use scenarios::tuning::Confirmation;
use tokio::sync::watch;

use super::args::TuneArgs;
use crate::cli::args::World;
use crate::cli::failure::Failure;
use crate::cli::terminal::Terminal;
use crate::cli::{print, world};
use crate::live::limits::{ensure_open_files, files_needed};
use crate::live::target::{KeySpace, Settings, Target};
use crate::tune::Conditions;
use crate::tune::confirm::{CLIENTS, trials};

/// Starts or finds the server, and says which.
pub(super) async fn open(args: &TuneArgs, terminal: &Terminal) -> Result<Target, Failure> {
    world::refuse_several(&args.server)?;
    let chosen = world::choose(World::Auto, &args.server)?;
    if !terminal.is_quiet() {
        print::note(&chosen.why);
    }
    let unique = std::process::id();
    let keys = KeySpace::of_run(&format!("tune-{unique}"));
    let target = Target::open(chosen.choice, keys, &Settings::default()).await;
    target.map_err(|error| Failure::unavailable(&error))
}

/// Tries what is to be seen; none where it was interrupted.
pub(super) async fn confirm(
    args: &TuneArgs,
    conditions: &Conditions,
    grid: &[(Duration, Option<Duration>)],
    mut signals: watch::Receiver<bool>,
    terminal: &Terminal,
) -> Result<Option<Confirmation>, Failure> {
    ensure_open_files(files_needed(u64::from(CLIENTS), 1))
        .map_err(|error| Failure::unavailable(&error))?;
    let trials = trials(conditions, grid, args.confirm_for.0, args.seed);
    let playable = trials.iter().filter(|it| it.is_ok()).count();
    let length = args.confirm_for.0 / u32::try_from(playable.max(1)).unwrap_or(1);
    let target = open(args, terminal).await?;
    let info = target.server();
    let server = format!("{} {} ({})", info.software, info.version, info.how);
    if !terminal.is_quiet() && playable > 0 {
        let clients = format!("{CLIENTS} clients take leases there, for {}", args.confirm_for);
        print::note(&clients);
    }
    let tried = async {
        let mut tried = Vec::new();
        for trial in trials {
            tried.push(match trial {
                Ok(trial) => trial.run(&target, length, args.seed).await?,
                Err(none) => *none,
            });
        }
        Ok(tried)
    };
    let tried = tokio::select! {
        biased;
        tried = tried => Some(tried),
        Ok(_) = signals.wait_for(|interrupted| *interrupted) => None,
    };
    // The leases end by themselves, but who waits for that?
    let removed = target.remove_keys(&[]).await;
    target.close().await;
    let Some(tried) = tried else { return Ok(None) };
    let tried =
        tried.map_err(|error: crate::tune::confirm::ConfirmError| Failure::unavailable(&error))?;
    removed.map_err(|error| Failure::unavailable(&error))?;
    Ok(Some(Confirmation { server, tried }))
}
