//! Another lock: clients take it beside the lock under test, from the same processes and on the same servers.
//!
//! Invariant: the lock under test is to be as it is without it. So what is sent for the other lock is written down as no
//! acquisition's, and what it marks is no phase of anybody's. Both keys have the same hash tag, where a run's have one.

use std::sync::Arc;
use std::time::Duration;

use picklock::env::Env;

use crate::recipe::{About, BuildError, Params, Recipe, build};
use crate::record::{Observed, Recorded};
use crate::scenario::WorkloadPart;

/// A lock of the same recipe as the one under test, and how clients use it.
pub(crate) struct OtherLock<W: Observed> {
    recipe: Arc<dyn Recipe<Recorded<W>>>,
    about: &'static About,
    key: Box<[u8]>,
    tasks: u32,
    rounds: u32,
    hold: Duration,
    think: Duration,
}

impl<W: Observed> OtherLock<W> {
    /// The other lock of this workload, where it has one: with these parameters, but a key of its own under this prefix.
    pub(crate) fn of(
        part: &WorkloadPart,
        about: &'static About,
        params: &Params,
        prefix: &str,
    ) -> Result<Option<Self>, BuildError> {
        let WorkloadPart::Register(register) = part else { return Ok(None) };
        if register.beside == 0 {
            return Ok(None);
        }
        let key: Box<[u8]> = format!("{prefix}other").into_bytes().into();
        let params = Params { key: key.clone(), ..params.clone() };
        Ok(Some(Self {
            recipe: build(about.name, params)?,
            about,
            key,
            tasks: register.beside,
            rounds: register.rounds,
            hold: register.hold.0,
            think: register.think.0,
        }))
    }

    /// Its keys.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let beside = (self.about.keys_beside)(&self.key).into_iter().map(Vec::from);
        std::iter::once(self.key.to_vec()).chain(beside).collect()
    }

    /// Begins all that a client's process does with it, in the background. Its tasks share a handle.
    pub(crate) fn begin(self: &Arc<Self>, env: &Recorded<W>) {
        let env = env.beside();
        let handle = Arc::clone(&self.recipe).handle(env.clone(), env.client());
        for _ in 0..self.tasks {
            let (lock, handle, process) = (Arc::clone(self), Arc::clone(&handle), env.clone());
            env.spawn(async move {
                for _ in 0..lock.rounds {
                    if let Ok(held) = handle.acquire().await {
                        process.sleep(lock.hold).await;
                        held.release().await;
                    }
                    process.sleep(lock.think).await;
                }
            });
        }
    }
}
