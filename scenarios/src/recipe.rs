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

/// Lists every recipe in the order in which they are shown, and how it is built of parameters: a row each.
macro_rules! recipes {
    ($params:ident: $($name:ident: $build:expr,)*) => {
        /// What there is to say of every recipe.
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

/// What there is to say of the recipe of this name.
///
/// # Errors
/// [`BuildError::Unknown`] with the nearest name.
pub fn about(name: &str) -> Result<&'static About, BuildError> {
    ALL.into_iter().find(|about| about.name == name).ok_or_else(|| BuildError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, ALL.map(|about| about.name)),
    })
}

/// The thin boxed layer that lets a recipe be chosen by name.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to lock.
pub trait Recipe<E: Env>: Send + Sync {
    /// What a client has of the lock on this environment, and keeps for the life of its process. `client` says
    /// whose it is, from 1, for recipes that know clients by their names.
    fn handle(self: Arc<Self>, env: E, client: u32) -> Arc<dyn Handle>;
}

/// What a client has of a lock. Its tasks share it.
pub trait Handle: Send + Sync {
    /// Acquires the lock, with the retries and pauses that the recipe was built with.
    ///
    /// # Errors
    /// [`NotHeld`] says why, and whether the lock may have been taken all the same.
    fn acquire(&self) -> BoxFuture<'_, Acquired>;

    /// Acquires the lock as [`Handle::acquire`] does, but drops that call if it has not ended within `span`. Its outcome
    /// is unknown then. The error is a future that ends with what the lock still does in the background for the dropped
    /// call; a lock that forgets dropped calls has none.
    fn acquire_within(&self, span: Duration) -> BoxFuture<'_, Result<Acquired, Drained>>;
}

/// A way to lock that remembers nothing from one acquisition to the next.
pub trait Stateless<E: Env>: Send + Sync {
    /// Acquires the lock on this environment; see [`Handle::acquire`].
    ///
    /// # Errors
    /// [`NotHeld`].
    fn acquire(&self, env: E, client: u32) -> BoxFuture<'_, Acquired>;
}

/// The handle to a lock that remembers nothing.
pub fn stateless<E: Env>(
    recipe: Arc<impl Stateless<E> + 'static>,
    env: E,
    client: u32,
) -> Arc<dyn Handle> {
    Arc::new(StatelessHandle { recipe, env, client })
}

/// All that there is to keep of a lock that remembers nothing.
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

/// How an acquisition has ended.
pub type Acquired = Result<Box<dyn Held>, NotHeld>;

/// Returns when a lock has nothing left to do in the background for a client.
pub type Drained = BoxFuture<'static, ()>;

/// A lock that its client believes to hold.
pub trait Held: Send + Sync {
    /// Whether the client still believes so. A recipe without validity believes until it is told
    /// otherwise.
    fn is_valid(&self) -> bool;

    /// How much validity is left. A recipe that does not tell says nothing.
    fn remaining(&self) -> Option<Duration> {
        None
    }

    /// The fencing token of this hold: higher than that of every hold before it. A recipe that has
    /// no such thing says nothing, and no resource can refuse it.
    fn fence(&self) -> Option<u64> {
        None
    }

    /// Renews it by hand: whether the recipe says that it may be relied on for as long as when it was acquired. None where
    /// it cannot be asked for that.
    fn extend(&self) -> Option<BoxFuture<'_, bool>> {
        None
    }

    /// Releases the lock.
    fn release(self: Box<Self>) -> BoxFuture<'static, ReleaseOutcome>;

    /// Drops the handle, so that nobody can wait for the lock's background work any more.
    fn let_go(&mut self) {}

    /// What waits, once this is dropped or released, for the work that the lock then has in the background.
    fn drained(&self) -> Drained {
        Box::pin(ready(()))
    }

    /// What says from now on whether the client still believes to hold it, also while [`Held::protect`] has it. None where
    /// the recipe takes no work.
    fn holding(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        None
    }

    /// Does this work under the lock and releases it: what there is to say of both.
    fn protect<'a>(self: Box<Self>, work: BoxFuture<'a, ()>) -> BoxFuture<'a, ReleaseOutcome>
    where
        Self: 'a,
    {
        Box::pin(async move {
            work.await;
            self.release().await
        })
    }

    /// Does this work for as long as the lock is not lost; whether it is done. Where it is not, the lock is given up as if
    /// dropped. A recipe that is told of no loss does all of it.
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
    /// Whether the server had taken it for this client all the same.
    pub outcome: Outcome,
    /// Why.
    pub why: String,
}

/// What came of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// It was answered, in these words.
    Answered(&'static str),
    /// No answer says.
    Unknown(String),
}

/// Whether a recipe keeps a validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Validity {
    /// It knows until when it may rely on the lock, and says so.
    Tracked,
    /// It believes until it releases.
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

/// What the value of the lock's key says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyValue {
    /// Which acquisition holds the lock: no other has the same.
    #[default]
    Token,
    /// Nothing that would tell one acquisition from another.
    Shared,
    /// When the hold is over, in milliseconds of Unix time by its client's wall clock. The key itself
    /// does not expire.
    Stamp,
}

/// The servers a recipe is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// One service, with its key on it, however many servers are behind that.
    #[default]
    One,
    /// Several that know nothing of each other, of which a quorum decides.
    Several,
    /// A primary, and replicas that are to know of the key.
    Followed,
}

/// What there is to say of a recipe.
#[derive(Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// How it locks, in a line.
    pub how: &'static str,
    /// Where it comes from.
    pub from: &'static str,
    /// What is known to be wrong with it.
    pub flaw: Option<&'static str>,
    /// What must be true for it to be safe.
    pub assumes: &'static [&'static str],
    /// Whether it keeps a validity.
    pub validity: Validity,
    /// Whether it locks at all.
    pub locks: bool,
    /// How many that come later may get the lock before one that is in line, where it claims to be fair:
    /// 0 for first come, first served. Such a recipe marks the phase `wait` once its place in the line is
    /// sure, and again only where it has to line up anew.
    pub fair: Option<u32>,
    /// The servers it is made for: a scenario that does not say which there are has these.
    pub servers: Servers,
    /// What the value of its key says.
    pub value: KeyValue,
    /// Whether it asks the server for commands for compare-and-set. A model then has those of Redis 8.4,
    /// unless the scenario says otherwise.
    pub native: bool,
    /// Whether it claims to renew every hold until that is released or lost.
    pub renewed: bool,
    /// The keys that it may leave beside the lock's own, for the lock's key: they have to go by themselves.
    pub keys_beside: fn(&[u8]) -> Vec<Box<[u8]>>,
    /// The scripts it runs.
    pub scripts: fn() -> Vec<&'static Script>,
}

impl About {
    /// Whether it is a lock without a known flaw, which is held to what it says and to trying again.
    pub fn is_sound(&self) -> bool {
        self.locks && self.flaw.is_none()
    }

    /// Whether its waiters listen on a channel: then something that it runs tells them on one.
    pub fn listens(&self) -> bool {
        (self.scripts)().iter().any(|script| script.text().contains("'PUBLISH'"))
    }
}

/// What a recipe is built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The server the lock is kept on.
    pub node: Node,
    /// How many servers a lock on several may be kept on, `Node(0)` the first.
    pub nodes: u32,
    /// How many replicas follow that server.
    pub replicas: u32,
    /// The key it is kept under.
    pub key: Box<[u8]>,
    /// How long the key lives, in whole milliseconds.
    pub ttl: Duration,
    /// How far clocks may run apart over one TTL, for recipes that keep a validity.
    pub drift: Drift,
    /// How often to try after the first attempt.
    pub retries: u32,
    /// The pause before each retry.
    pub pause: Duration,
    /// The most that is added to a pause at random.
    pub jitter: Duration,
    /// For how long a client of the library waits in one go, before it gives up and asks anew.
    pub give_up: Option<Duration>,
    /// For how long a caller waits for its answer, however many retries are left.
    pub deadline: Option<Duration>,
    /// For how long a hold is renewed at most, by recipes that renew it.
    pub max_hold: Option<Duration>,
}

/// Why a recipe cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is none of this name.
    #[error("no recipe is called {name:?}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The name it comes nearest to.
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
