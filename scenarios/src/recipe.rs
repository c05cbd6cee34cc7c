//! Recipes: the ways to lock that picklock puts to the test, sound and flawed.
//!
//! Invariant: a recipe is chosen at run time and runs on any environment; it sees no history, no
//! fault and no other client. A recipe's own file and its row here are the only code that names it.

mod article;
mod client_token;
mod del_release;
mod evalsha_only;
mod exists_then_set;
mod fenced;
mod fixed_value;
mod get_del_release;
mod get_set_watchdog;
mod getset_timestamp;
mod native_cas;
mod no_ttl;
mod none;
mod notify;
mod notify_no_recheck;
mod polling;
mod queue;
mod redlock;
mod redlock_watchdog;
mod setnx_expire;
mod shipped;
mod single;
mod single_wait;
mod single_watchdog;
mod watch_multi;

use std::future::{Future, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use picklock::env::{Env, Node};
use picklock::script::Script;
use picklock::{Drift, OptionsError, Outcome};
use serde::{Deserialize, Serialize};

use history::nearest::nearest;

use crate::call::within;

/// Every recipe in the order in which they are shown, and how it is built: a row each.
macro_rules! recipes {
    ($params:ident: $($name:ident: $build:expr,)*) => {
        /// All recipes.
        pub static ALL: [&About; [$(stringify!($name)),*].len()] = [$(&$name::ABOUT),*];

        /// The recipe of this name.
        ///
        /// # Errors
        /// [`BuildError`] where there is none, or where it cannot work with these parameters.
        pub fn build<E: Env>(name: &str, $params: Params) -> Result<Arc<dyn Recipe<E>>, BuildError> {
            let name = about(name)?.name;
            $(if name == $name::ABOUT.name {
                return Ok(Arc::new($build));
            })*
            unreachable!("every recipe of the list can be built: {name}")
        }
    };
}

recipes! { params:
    none: none::recipe(),
    client_token: article::recipe::<client_token::ClientToken>(params),
    del_release: article::recipe::<del_release::DelRelease>(params),
    evalsha_only: article::recipe::<evalsha_only::EvalshaOnly>(params),
    exists_then_set: article::recipe::<exists_then_set::ExistsThenSet>(params),
    fixed_value: article::recipe::<fixed_value::FixedValue>(params),
    get_del_release: article::recipe::<get_del_release::GetDelRelease>(params),
    get_set_watchdog: article::recipe::<get_set_watchdog::GetSetWatchdog>(params),
    getset_timestamp: article::recipe::<getset_timestamp::GetsetTimestamp>(params),
    no_ttl: article::recipe::<no_ttl::NoTtl>(params),
    notify_no_recheck: notify_no_recheck::recipe(params),
    polling: article::recipe::<polling::Polling>(params),
    setnx_expire: article::recipe::<setnx_expire::SetnxExpire>(params),
    watch_multi: article::recipe::<watch_multi::WatchMulti>(params),
    single: single::recipe(params)?,
    single_watchdog: single_watchdog::recipe(params)?,
    native_cas: native_cas::recipe(params)?,
    notify: notify::recipe(params)?,
    queue: queue::recipe(params)?,
    fenced: fenced::recipe(params)?,
    single_wait: single_wait::recipe(params)?,
    redlock: redlock::recipe(params)?,
    redlock_watchdog: redlock_watchdog::recipe(params)?,
}

/// The recipe of this name.
///
/// # Errors
/// [`BuildError::Unknown`] with the nearest name.
pub fn about(name: &str) -> Result<&'static About, BuildError> {
    ALL.into_iter().find(|about| about.name == name).ok_or_else(|| BuildError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, ALL.map(|about| about.name)),
    })
}

/// Futures are boxed because a recipe is chosen by name at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to lock.
pub trait Recipe<E: Env>: Send + Sync {
    /// A client's handle to the lock on this environment, which it keeps for the life of its process. `client` is its
    /// number, from 1, for recipes that write it into the key.
    fn handle(self: Arc<Self>, env: E, client: u32) -> Arc<dyn Handle>;
}

/// A client's handle to a lock, shared by its tasks.
pub trait Handle: Send + Sync {
    /// Acquires the lock, with the retries and pauses that the recipe was built with.
    ///
    /// # Errors
    /// [`NotHeld`] says why, and whether the server may have granted the lock.
    fn acquire(&self) -> BoxFuture<'_, Acquired>;

    /// [`Handle::acquire`], dropped after `span` if it has not ended; its outcome is then unknown. The error is a future
    /// that waits for the clean-up of the dropped call; a lock without a clean-up has nothing to wait for.
    fn acquire_within(&self, span: Duration) -> BoxFuture<'_, Result<Acquired, Drained>>;
}

/// A way to lock that keeps nothing from one acquisition to the next.
pub trait Stateless<E: Env>: Send + Sync {
    /// Acquires the lock on this environment; see [`Handle::acquire`].
    ///
    /// # Errors
    /// [`NotHeld`].
    fn acquire(&self, env: E, client: u32) -> BoxFuture<'_, Acquired>;
}

/// A handle to a lock that keeps nothing.
pub fn stateless<E: Env>(
    recipe: Arc<impl Stateless<E> + 'static>,
    env: E,
    client: u32,
) -> Arc<dyn Handle> {
    Arc::new(StatelessHandle { recipe, env, client })
}

/// The handle to a lock that keeps nothing.
struct StatelessHandle<R, E> {
    recipe: Arc<R>,
    env: E,
    client: u32,
}

impl<E: Env, R: Stateless<E>> Handle for StatelessHandle<R, E> {
    fn acquire(&self) -> BoxFuture<'_, Acquired> {
        self.recipe.acquire(self.env.clone(), self.client)
    }

    fn acquire_within(&self, span: Duration) -> BoxFuture<'_, Result<Acquired, Drained>> {
        Box::pin(async move {
            let acquired = within(&self.env, span, pin!(self.acquire())).await;
            acquired.ok_or_else(|| Box::pin(ready(())) as Drained)
        })
    }
}

/// The end of an acquisition.
pub type Acquired = Result<Box<dyn Held>, NotHeld>;

/// Ends when a lock has nothing left to do in the background for a client.
pub type Drained = BoxFuture<'static, ()>;

/// A lock that its client believes to hold.
pub trait Held: Send + Sync {
    /// Whether the client still believes that it has the lock. Without a validity, it does until it is told otherwise.
    fn is_valid(&self) -> bool;

    /// How much validity is left. None: the recipe does not tell.
    fn remaining(&self) -> Option<Duration> {
        None
    }

    /// The fencing token of this hold: higher than those of all holds before it. None: the recipe has no tokens.
    fn fence(&self) -> Option<u64> {
        None
    }

    /// Renews it by hand: true if it can be relied on for as long as when it was acquired. None: the recipe cannot.
    fn extend(&self) -> Option<BoxFuture<'_, bool>> {
        None
    }

    /// Releases the lock.
    fn release(self: Box<Self>) -> BoxFuture<'static, ReleaseOutcome>;

    /// Drops the handle, so nobody can wait any more for the lock's background work.
    fn let_go(&mut self) {}

    /// A future that waits, once this is dropped or released, for the lock's background work.
    fn drained(&self) -> Drained {
        Box::pin(ready(()))
    }

    /// A function that tells whether the client still believes that it has the lock, also during [`Held::protect`]. None:
    /// the recipe takes no work.
    fn holding(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        None
    }

    /// Does this work under the lock and releases it.
    fn protect<'a>(self: Box<Self>, work: BoxFuture<'a, ()>) -> BoxFuture<'a, ReleaseOutcome>
    where
        Self: 'a,
    {
        Box::pin(async move {
            work.await;
            self.release().await
        })
    }

    /// Does this work until it is done (true), or until the lock is lost (false); the lock is then given up as if dropped. A
    /// recipe that learns of no loss does all of it.
    fn run<'a>(&'a mut self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            work.await;
            true
        })
    }
}

/// Why a lock is not held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotHeld {
    /// Whether the server had granted it all the same.
    pub outcome: Outcome,
    /// Why.
    pub why: String,
}

/// The end of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// It was answered, in these words.
    Answered(&'static str),
    /// There is no answer, for this reason.
    Unknown(String),
}

/// Whether a recipe keeps a validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// The client knows until when it may rely on the lock.
    Tracked,
    /// The client believes that it has the lock until it releases it.
    None,
}

impl Validity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tracked => "tracked",
            Self::None => "none",
        }
    }
}

/// What the value of the lock's key means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyValue {
    /// A token of the acquisition that holds the lock.
    #[default]
    Token,
    /// The same for several acquisitions.
    Shared,
    /// The end of the hold, in milliseconds of Unix time by its client's wall clock. The key itself does not expire.
    Stamp,
}

/// The servers a recipe is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// One service with the key, whether one server or several are behind it.
    #[default]
    One,
    /// Several independent ones, of which a quorum decides.
    Several,
    /// A primary with replicas that the recipe waits for.
    Followed,
}

/// A recipe as it is shown, and what checkers and scenarios must know of it.
#[derive(Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// How it locks, in a line.
    pub how: &'static str,
    /// Where it comes from.
    pub from: &'static str,
    /// Its known flaw, if it has one.
    pub flaw: Option<&'static str>,
    /// The assumptions under which it is safe.
    pub assumes: &'static [&'static str],
    /// Whether it keeps a validity.
    pub validity: Validity,
    /// Whether it locks at all.
    pub locks: bool,
    /// For a fair recipe: how many later clients may overtake one in the queue; 0 is first come, first served. It marks
    /// the phase `wait` once its place in the queue is certain, and again only if it has to queue anew.
    pub fair: Option<u32>,
    /// The servers it is made for, which a scenario without a topology then has.
    pub servers: Servers,
    /// What the value of its key means.
    pub value: KeyValue,
    /// Whether it uses native commands for compare-and-set. The model then imitates Redis 8.4, unless the scenario says
    /// otherwise.
    pub native: bool,
    /// Whether a watchdog renews every hold until it is released or lost.
    pub renewed: bool,
    /// The keys that it may leave beside the lock's key, given that key. They must expire by themselves.
    pub keys_beside: fn(&[u8]) -> Vec<Box<[u8]>>,
    /// The scripts it runs.
    pub scripts: fn() -> Vec<&'static Script>,
}

impl About {
    /// Whether it is a lock without a known flaw.
    pub fn is_sound(&self) -> bool {
        self.locks && self.flaw.is_none()
    }

    /// Whether its waiting clients listen on a channel: then one of its scripts publishes.
    pub fn listens(&self) -> bool {
        (self.scripts)().iter().any(|script| script.text().contains("'PUBLISH'"))
    }
}

/// The parameters of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The server the lock is kept on.
    pub node: Node,
    /// How many servers there are for a lock on several; `Node(0)` is the first.
    pub nodes: u32,
    /// How many replicas follow that server.
    pub replicas: u32,
    /// The key it is kept under.
    pub key: Box<[u8]>,
    /// How long the key lives, in whole milliseconds.
    pub ttl: Duration,
    /// How far clocks may run apart over one TTL, for recipes that keep a validity.
    pub drift: Drift,
    /// Attempts after the first one.
    pub retries: u32,
    /// The pause before each retry.
    pub pause: Duration,
    /// The maximum added to each pause at random.
    pub jitter: Duration,
    /// How long a client of the library waits before it gives up and asks again.
    pub give_up: Option<Duration>,
    /// How long a caller waits for its answer, however many retries are left.
    pub deadline: Option<Duration>,
    /// The longest that a watchdog renews a hold.
    pub max_hold: Option<Duration>,
}

impl Params {
    /// Whether time ends an acquisition, and not the number of its attempts: it is given up and asked for anew, or its
    /// caller's deadline comes before the retries can be used up.
    pub(crate) fn ends_by_time(&self) -> bool {
        let retries = self.pause.saturating_mul(self.retries);
        self.give_up.is_some() || self.deadline.is_some_and(|deadline| retries >= deadline)
    }
}

/// Why a recipe cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No recipe has this name.
    #[error("no recipe is called {name:?}")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest known name.
        nearest: Option<&'static str>,
    },
    /// Its options cannot work.
    #[error(transparent)]
    Options(#[from] OptionsError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_met_with_the_nearest() {
        let error = about("singel").unwrap_err();
        assert_eq!(
            error,
            BuildError::Unknown { name: "singel".to_owned(), nearest: Some("single") }
        );
        assert!(matches!(about("zookeeper"), Err(BuildError::Unknown { nearest: None, .. })));
    }
}
