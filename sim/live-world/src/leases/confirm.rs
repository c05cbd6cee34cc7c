//! Compares the lease model with a real server: the shipped lock takes leases there, in real time, and as many of them
//! must be lost as the model predicts.
//!
//! The failures that matter happen once in years. So the model is tested where failures are frequent enough to
//! measure: at the setting of the grid that fails often enough, or else at a shorter TTL, with all times but the round
//! trips scaled so that the lease lasts half a second.
//!
//! Invariant: the model gets the durations that were measured in the same run: work, pauses and round trips. So a late
//! timer counts for neither side, and only the fate of leases is compared. No other clients want the same lock.

use std::sync::Arc;
use std::time::Duration;

use picklock::env::{CallError, Env, Node};
use picklock::time::span_ns;
use picklock::{Options, OptionsError, Renewal, Single};
use scenarios::span::Span;
use tokio::task::JoinSet;
use tokio::time::Instant;
use ttl_model::tuning::{ComparedShare, ConfirmationOutcome, Confirmed, ObservedHolds};

use super::measure::distribution;
use crate::endpoint::Endpoint;
use crate::env::LiveEnv;
use fault_proxy::{ClientId, Detail, Plan, Proxy, ProxyError, Upstream};
use ttl_model::law::{Law, Random, float, whole};
use ttl_model::monte_carlo::shares;
use ttl_model::stat::wilson_999;
use ttl_model::validate::{HoldError, Measurements, Pausable};
use ttl_model::{Conditions, Setting};

/// How many clients take leases at once, each of its own lock.
pub const CLIENTS: u32 = 200;
/// The TTL to which every setting is scaled.
const SCALED_TTL: Duration = Duration::from_millis(500);
/// How many holds there must be at least.
const FEWEST: f64 = 1_000.0;
/// How many holds the model simulates to decide whether enough of them fail.
const TRIED: u64 = 4_000;
/// The shares of failures that can be measured: neither nearly none nor nearly all; and the best share.
const SEEN: std::ops::RangeInclusive<f64> = 0.02..=0.9;
const BEST: f64 = 0.25;
/// How often a TTL is halved in search of one that fails often enough.
const HALVED: u32 = 20;
/// How many holds the model simulates for its prediction; fewer if each takes many steps.
const MODELLED: u64 = 300_000;
/// A hold that takes more steps than this on the average is not tried.
const MOST_STEPS: f64 = 200.0;
/// How many holds may go without an answer, or one in how many if that is more.
const UNANSWERED: u64 = 20;
const UNANSWERED_PART: u64 = 50;
/// How long a client waits after one of them.
const AFTER_UNANSWERED: Duration = SCALED_TTL;

/// Why nothing was confirmed.
#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    /// There is no proxy.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The server.
    #[error("the server does not answer: {0}")]
    Call(#[from] CallError),
    /// The lock.
    #[error(transparent)]
    HoldError(#[from] HoldError),
    /// Too many answers were missing.
    #[error(
        "{left_out} holds got no answer and {holds} did (last error: {last}); run again when the server is not busy"
    )]
    Unanswered {
        /// Those without.
        left_out: u64,
        /// Those with.
        holds: u64,
        /// The last of them.
        last: HoldError,
    },
    /// The setting.
    #[error(transparent)]
    Options(#[from] OptionsError),
}

/// A setting that is to be tried.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The setting as it was given.
    ttl: Duration,
    renew: Option<Duration>,
    /// Whether it is one of the grid.
    in_grid: bool,
    stretch: f64,
    /// The same, scaled.
    setting: Setting,
    conditions: Conditions,
}

/// The experiments that fit into `length`: a setting that is not renewed and one that is, as far as they are in the
/// grid; for each either the experiment or the setting for which there is none.
pub fn experiments(
    conditions: &Conditions,
    grid: &[(Duration, Option<Duration>)],
    length: Duration,
    seed: u64,
) -> Vec<Result<Experiment, Box<Confirmed>>> {
    let kinds = [false, true].map(|renews| -> Vec<(Duration, Option<Duration>)> {
        grid.iter().copied().filter(|(_, renew)| renew.is_some() == renews).collect()
    });
    let kinds: Vec<_> = kinds.into_iter().filter(|kind| !kind.is_empty()).collect();
    let kinds = &kinds;
    let of = |length| kinds.iter().map(move |kind| experiment(conditions, kind, length, seed));
    let mut each = length / u32::try_from(kinds.len().max(1)).unwrap_or(1);
    let mut found: Vec<Option<Experiment>> = of(each).collect();
    if kinds.len() > 1 && found.iter().all(Option::is_none) {
        // If none can be measured in its share of the time, the first that can be measured in all of it gets all of it.
        each = length;
        let mut taken = false;
        found = of(length).map(|it| it.filter(|_| !std::mem::replace(&mut taken, true))).collect();
    }
    let results = found.into_iter().zip(kinds).map(|(found, kind)| {
        let (ttl, renew) = kind[0];
        found.ok_or_else(|| Box::new(unseen(ttl, renew, each)))
    });
    results.collect()
}

/// The setting of this kind whose failures can be measured best.
fn experiment(
    conditions: &Conditions,
    kind: &[(Duration, Option<Duration>)],
    length: Duration,
    seed: u64,
) -> Option<Experiment> {
    let shortest = kind.iter().copied().min()?;
    let shorter = (1..=HALVED).map(|times| {
        let part = |span: Duration| span / 2_u32.pow(times);
        (part(shortest.0), shortest.1.map(part))
    });
    let best = |settings: &mut dyn Iterator<Item = (Duration, Option<Duration>)>, in_grid: bool| {
        let seen = settings.filter_map(|setting| {
            let experiment = Experiment::new(conditions, setting, in_grid)?;
            let holds = f64::from(CLIENTS) * length.as_nanos() as f64
                / experiment.conditions.mean_hold_ns().max(1.0);
            // Before anything is simulated: too long an experiment would also take too long to simulate.
            if holds < FEWEST || experiment.steps() > MOST_STEPS {
                return None;
            }
            let (lost, _) = shares(&experiment.conditions, experiment.setting, TRIED, seed).ok()?;
            SEEN.contains(&lost).then_some((lost, experiment))
        });
        let far = |lost: f64| (lost.ln() - BEST.ln()).abs();
        seen.min_by(|one, other| far(one.0).total_cmp(&far(other.0)))
    };
    let found =
        best(&mut kind.iter().copied(), true).or_else(|| best(&mut shorter.into_iter(), false));
    found.map(|(_, experiment)| experiment)
}

fn unseen(ttl: Duration, renew: Option<Duration>, length: Duration) -> Confirmed {
    let length = Span(Duration::from_secs(length.as_secs().max(1)));
    let says = format!(
        "it goes wrong too seldom, or holds last too long, for anything to be seen in {length} with {CLIENTS} clients, \
         at shorter TTLs too; a longer --confirm-for may show it"
    );
    Confirmed {
        ttl: Span(ttl),
        renew: renew.map(Span),
        in_grid: true,
        stretch: 1.0,
        found: ConfirmationOutcome::Unseen(says),
    }
}

impl Experiment {
    /// This setting, scaled; none if the lock refuses it.
    fn new(
        conditions: &Conditions,
        (ttl, renew): (Duration, Option<Duration>),
        in_grid: bool,
    ) -> Option<Self> {
        let stretch = SCALED_TTL.as_secs_f64() / ttl.as_secs_f64();
        let played = |span: Duration| Span(span).stretched(stretch).0;
        let setting = Setting { ttl: played(ttl), renew: renew.map(played), tracked: true };
        let conditions = conditions.stretched(stretch);
        let experiment = Self { ttl, renew, in_grid, stretch, setting, conditions };
        experiment.options().is_ok().then_some(experiment)
    }

    /// How many renewals and pauses there are in a hold on the average.
    fn steps(&self) -> f64 {
        let hold_ns = self.conditions.mean_hold_ns();
        let renewals = self.setting.renew.map_or(0.0, |every| hold_ns / float(span_ns(every)));
        renewals + self.conditions.pause.as_ref().map_or(0.0, |(per_ns, _)| hold_ns * per_ns)
    }

    fn options(&self) -> Result<Options, OptionsError> {
        let builder = Options::builder(self.setting.ttl);
        let renewal = self.setting.renew.map(|every| Renewal { every, max_hold: None });
        renewal.into_iter().fold(builder, |it, renewal| it.renewal(renewal)).build()
    }

    /// Has many clients take leases on this server, for `length`, and compares their fate with what the model
    /// predicts. A hold that has begun by then is completed.
    ///
    /// # Errors
    /// [`ConfirmError`].
    pub async fn run(
        &self,
        endpoint: &Endpoint,
        length: Duration,
        seed: u64,
    ) -> Result<Confirmed, ConfirmError> {
        let (played, left_out) = self.take_leases(endpoint, length, seed).await?;
        let experiment = self.clone();
        // The model computes for a while, on which a task must not block.
        let compare = move || experiment.compare(&played, left_out, seed);
        let compared = tokio::task::spawn_blocking(compare).await;
        let seen =
            compared.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        let Self { ttl, renew, in_grid, stretch, .. } = *self;
        let found = ConfirmationOutcome::Seen(seen);
        Ok(Confirmed { ttl: Span(ttl), renew: renew.map(Span), in_grid, stretch, found })
    }

    async fn take_leases(
        &self,
        endpoint: &Endpoint,
        length: Duration,
        seed: u64,
    ) -> Result<(Measurements, u64), ConfirmError> {
        let proxy = Proxy::start(Detail::Faults)?;
        let (mut clients, mut links) = (Vec::new(), Vec::new());
        for client in 1..=CLIENTS {
            let plan = Plan { seed, ..Plan::default() };
            let upstream: Upstream = endpoint.upstream();
            let link = proxy.listen(ClientId(client), Node(0), upstream, plan)?;
            let to = vec![endpoint.client(link.addr())];
            links.push(link);
            let env = LiveEnv::new(ClientId(client), seed, to);
            let key = endpoint.keys().key(&format!("tune-{client}"));
            let lock = Single::new(env.clone(), Node(0), key, self.options()?)?;
            // Connections and scripts must exist before anything is measured.
            env.connect(Node(0)).await?;
            drop(lock.try_acquire().await.map_err(HoldError::from)?.release().await);
            clients.push((client, env, lock));
        }
        let end = Instant::now() + length;
        let conditions = Arc::new(self.conditions.clone());
        let mut working = JoinSet::new();
        for (client, env, lock) in clients {
            let (conditions, mut played) = (Arc::clone(&conditions), Measurements::default());
            let mut random = Random::new(seed, u64::from(client));
            working.spawn(async move {
                let mut unanswered = Vec::new();
                while Instant::now() < end {
                    let held = played.hold(&env, &lock, &conditions, &mut random).await;
                    if let Err(error) = held {
                        unanswered.push(error);
                        // A key that it may have left behind has expired by then.
                        env.sleep(AFTER_UNANSWERED).await;
                    }
                }
                (played, unanswered)
            });
        }
        let (mut all, mut unanswered) = (Measurements::default(), Vec::new());
        while let Some(ended) = working.join_next().await {
            // A panic in a task of ours is passed on.
            let (played, mut theirs) =
                ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
            all.merge(played);
            unanswered.append(&mut theirs);
        }
        drop(links);
        // One slow answer among thousands is no reason to give up; many are.
        let left_out = unanswered.len() as u64;
        match unanswered.pop() {
            Some(last) if left_out > UNANSWERED.max(all.holds() / UNANSWERED_PART) => {
                Err(ConfirmError::Unanswered { left_out, holds: all.holds(), last })
            }
            _ => Ok((all, left_out)),
        }
    }

    /// Puts what was seen beside what the model computes from the measured durations.
    fn compare(
        &self,
        played: &Measurements,
        left_out: u64,
        seed: u64,
    ) -> Result<ObservedHolds, OptionsError> {
        let worked_ns: f64 = played.works.iter().map(|it| float(*it)).sum();
        let pauses = played.pauses.len() as u64;
        let measured = Conditions {
            hold: measured(&played.works),
            round_trip: measured(&played.round_trips),
            pause: (pauses > 0)
                .then(|| (float(pauses) / worked_ns.max(1.0), measured(&played.pauses))),
            drift_ppm: 0,
            write_ns: 0,
        };
        let modelled = whole(float(MODELLED) / (1.0 + self.steps() / 4.0));
        let (lost, outlived) = shares(&measured, self.setting, modelled, seed)?;
        let holds = played.holds();
        let compared = |hits: u64, model: f64| {
            let seen = wilson_999(hits, holds);
            ComparedShare { hits, share: seen.middle, low: seen.low, high: seen.high, model }
        };
        Ok(ObservedHolds {
            ttl: Span(self.setting.ttl),
            holds,
            pauses,
            left_out,
            lost: compared(played.lost, lost),
            outlived: compared(played.outlived, outlived),
        })
    }
}

fn measured(values: &[u64]) -> Law {
    Law::new(&distribution(values))
}

impl Pausable for LiveEnv {
    async fn pause_for(&self, span: Duration) {
        self.stop_for(span).await;
    }
}

#[cfg(test)]
mod tests;
