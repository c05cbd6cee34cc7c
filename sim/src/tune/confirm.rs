//! `picklock tune --confirm`: the model against a server, and the server of `--measure`.
//!
//! Invariant: what was started for it ends with it, interrupted or not, and what came in between takes nothing from
//! what was simulated. Deliberately absent: what is tried and compared, which is [`live_world::leases::confirm`].

use std::time::Duration;

use tokio::sync::watch;
use ttl_model::tuning::{Confirmation, Confirmed, Tuning};

use crate::args::{TuneArgs, World};
use crate::failure::Failure;
use crate::run::draw;
use crate::terminal::Terminal;
use crate::{print, world};
use live_world::endpoint::{Endpoint, KeySpace, Settings};
use live_world::leases::confirm::{CLIENTS, ConfirmError, experiments};
use live_world::limits::{BESIDES, Links, ensure_open_files};
use ttl_model::{Conditions, Study};

/// Starts or finds the server, and says which.
pub(super) async fn open(
    args: &TuneArgs,
    world: World,
    terminal: &Terminal,
) -> Result<Endpoint, Failure> {
    world::refuse_several(&args.server)?;
    let chosen = world::choose(world, &args.server)?;
    if !terminal.options.quiet {
        print::note(&chosen.why);
    }
    let keys = KeySpace::of_run(&format!("tune-{:016x}", draw()?));
    let target = Endpoint::open(chosen.choice, keys, &Settings::default()).await;
    target.map_err(Failure::unavailable)
}

/// A server on which the model is to be tried.
pub(super) struct Confirm {
    target: Endpoint,
    conditions: Conditions,
    grid: Vec<(Duration, Option<Duration>)>,
}

/// What came in between.
pub(super) enum Aborted {
    /// A signal.
    Interrupted,
    /// The server.
    Failed(Failure),
}

impl Confirm {
    /// Opens the server: a real one, for the embedded model shows nothing of what real ones do.
    pub(super) async fn open(
        args: &TuneArgs,
        study: &Study,
        terminal: &Terminal,
    ) -> Result<Self, Failure> {
        let links = Links { external: u64::from(CLIENTS), each: 1, ..Links::default() };
        ensure_open_files(links.needed() + BESIDES).map_err(Failure::unavailable)?;
        let target = open(args, World::Redis, terminal).await?;
        Ok(Self { target, conditions: study.conditions.clone(), grid: study.grid.clone() })
    }

    /// Ends what was started.
    pub(super) async fn close(self) {
        self.target.close().await;
    }

    /// Tries what is to be seen, and writes it into the tuning.
    pub(super) async fn run(
        self,
        args: &TuneArgs,
        mut signals: watch::Receiver<bool>,
        terminal: &Terminal,
        tuning: &mut Tuning,
    ) -> Option<Aborted> {
        let info = self.target.server();
        let server = format!("{} {} ({})", info.software, info.version, info.origin);
        let mut tried = Vec::new();
        let cut = tokio::select! {
            biased;
            Ok(_) = signals.wait_for(|interrupted| *interrupted) => Some(Aborted::Interrupted),
            ended = self.try_all(args, terminal, &mut tried) => {
                ended.err().map(|error| Aborted::Failed(Failure::unavailable(error)))
            }
        };
        // The leases end by themselves, but who waits for that?
        let removed = self.target.remove_keys(&[]).await;
        self.target.close().await;
        let removed = removed.err().map(|error| Aborted::Failed(Failure::unavailable(error)));
        let cut = cut.or(removed);
        let cut_short = cut.as_ref().map(|cut| match cut {
            Aborted::Interrupted => "interrupted".to_owned(),
            Aborted::Failed(failure) => failure.first_line(),
        });
        tuning.confirmation = Some(Confirmation { server, tried, cut_short });
        cut
    }

    async fn try_all(
        &self,
        args: &TuneArgs,
        terminal: &Terminal,
        tried: &mut Vec<Confirmed>,
    ) -> Result<(), ConfirmError> {
        let (conditions, grid) = (self.conditions.clone(), self.grid.clone());
        let (length, seed) = (args.confirm_for.0, args.seed);
        // It is searched for by simulating, which a runtime must not wait for.
        let searched =
            tokio::task::spawn_blocking(move || experiments(&conditions, &grid, length, seed))
                .await;
        let experiments =
            searched.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        let playable = experiments.iter().filter(|it| it.is_ok()).count();
        if !terminal.options.quiet && playable > 0 {
            print::note(&format!("{CLIENTS} clients take leases there, for {}", args.confirm_for));
        }
        let length = length / u32::try_from(playable.max(1)).unwrap_or(1);
        for experiment in experiments {
            tried.push(match experiment {
                Ok(experiment) => experiment.run(&self.target, length, seed).await?,
                Err(none) => *none,
            });
        }
        Ok(())
    }
}
