//! How a lock is held: its TTL, the drift allowance, timeouts and renewal.
//!
//! Invariant: an [`Options`] that exists can work: some validity is left of its TTL, a renewal comes before that
//! validity ends, and Redis accepts the TTL. Options that cannot work are refused when they are built, not
//! when the lock is first needed.

use std::time::Duration;

use crate::time::span_ms;
use crate::validity::Drift;

/// The shortest TTL: Redis counts in milliseconds.
pub const TTL_MIN: Duration = Duration::from_millis(1);

/// The longest TTL. Redis adds it to its wall clock in signed milliseconds and refuses an overflow; this fits
/// for every date before the year 10000.
pub const TTL_MAX: Duration = Duration::from_millis(i64::MAX as u64 - 253_402_300_800_000);

/// The longest TTL of a lock that is handed over. Its scripts add up TTLs in milliseconds, an eighth of one for each
/// client that waits, and Lua hands Redis a sum as an integer only below 10^17: this leaves room for 700 000 waiters.
pub const QUEUE_TTL_MAX: Duration = Duration::from_millis(1_000_000_000_000);

/// The longest key Redis accepts, in bytes: 512 MiB.
pub const KEY_LEN_MAX: usize = 512 * 1024 * 1024;

/// The longest default: longer waits are for networks that the user knows.
const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(2);

/// How a watchdog renews a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The time from one renewal to the next. The first comes at a random moment in the last fifth of the first
    /// interval, so that holds which began together are not renewed together.
    pub every: Duration,
    /// Renewal stops this long after the acquisition was sent, and the hold ends when its validity does. `None`:
    /// it goes on while the guard lives, even if its work never ends.
    pub max_hold: Option<Duration>,
}

/// How many replicas must acknowledge a hold, and how long to wait for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The number of replicas.
    pub count: u32,
    /// The longest wait, in whole milliseconds; less than the call timeout.
    pub within: Duration,
}

/// How a lock is held. Built by [`Options::builder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    ttl: Duration,
    drift: Drift,
    call_timeout: Duration,
    linger: Duration,
    renewal: Option<Renewal>,
    notify: bool,
    fenced: Option<Counter>,
    native: bool,
    replicas: Option<Replicas>,
}

/// The key that counts fencing tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// One named after the lock's key, in its slot.
    Beside,
    /// This one.
    At(Box<[u8]>),
}

impl Options {
    /// Options for holds of this TTL; a fraction of a millisecond is cut off, as Redis would refuse it.
    pub fn builder(ttl: Duration) -> OptionsBuilder {
        OptionsBuilder {
            ttl,
            drift: Drift::default(),
            call_timeout: None,
            linger: None,
            renewal: None,
            notify: false,
            fenced: None,
            native: false,
            replicas: None,
        }
    }

    /// The time to live of the key, in whole milliseconds.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The allowance for clocks that run at different rates.
    pub fn drift(&self) -> Drift {
        self.drift
    }

    /// How long a hold may be relied on after its request was sent.
    pub fn validity(&self) -> Duration {
        self.ttl.saturating_sub(self.drift.over(self.ttl))
    }

    /// How long the lock waits for a connection, and then for a reply.
    pub fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// How long after its send an acquisition with an unknown outcome is cleaned up.
    pub fn linger(&self) -> Duration {
        self.linger
    }

    /// How holds are renewed; `None` where they are not.
    pub fn renewal(&self) -> Option<Renewal> {
        self.renewal
    }

    /// Whether a release is published to waiting clients.
    pub fn notifies(&self) -> bool {
        self.notify
    }

    /// Whether every hold has a fencing token.
    pub fn is_fenced(&self) -> bool {
        self.fenced.is_some()
    }

    /// The key that counts fencing tokens, if holds have them.
    pub(crate) fn counter(&self) -> Option<&Counter> {
        self.fenced.as_ref()
    }

    /// Whether compare-and-set commands are used where the server has them.
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// How many replicas must acknowledge a hold before it is relied on; `None` for none.
    pub fn replicas(&self) -> Option<Replicas> {
        self.replicas
    }
}

/// Collects options; [`build`](Self::build) checks them.
#[derive(Clone, Debug)]
#[must_use = "options take effect once built"]
pub struct OptionsBuilder {
    ttl: Duration,
    drift: Drift,
    call_timeout: Option<Duration>,
    linger: Option<Duration>,
    renewal: Option<Renewal>,
    notify: bool,
    fenced: Option<Counter>,
    native: bool,
    replicas: Option<Replicas>,
}

impl OptionsBuilder {
    /// The difference allowed between the clocks over one TTL. Default: one per cent and two milliseconds.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.drift = drift;
        self
    }

    /// How long to wait for a connection, and then for a reply, before the outcome counts as
    /// unknown. Default: a third of the TTL, at most two seconds; so a watchdog that renews at a
    /// third of the TTL can try again before validity ends. More than the TTL counts as the TTL.
    pub fn call_timeout(mut self, span: Duration) -> Self {
        self.call_timeout = Some(span);
        self
    }

    /// How long the clean-up of an acquisition with an unknown outcome goes on, if its own connection is gone and it
    /// might still arrive. It is counted from the send of the acquisition or, if that has waited in a queue, from its
    /// end. Default: the TTL and one call timeout.
    pub fn linger(mut self, span: Duration) -> Self {
        self.linger = Some(span);
        self
    }

    /// Renews holds in the background every third of the TTL (the first time at a random moment before that),
    /// without a limit.
    ///
    /// The watchdog is a task of the runtime in which the lock was acquired, and ends with it: the hold is then lost at
    /// the end of its validity. A task that blocks its thread right after acquiring may keep tokio from starting it:
    /// put blocking work into `spawn_blocking` or `block_in_place`.
    pub fn watchdog(self) -> Self {
        // A builder's TTL never changes, so this is a third of what `build` will give.
        let every = whole_ms(self.ttl) / 3;
        self.renewal(Renewal { every, max_hold: None })
    }

    /// Renews holds in the background at this interval and for this long.
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.renewal = Some(renewal);
        self
    }

    /// Publishes each release, so that waiting clients sleep and do not poll. All users of the key must set this:
    /// a release that is not published lets others sleep for the rest of a TTL.
    pub fn notify(mut self) -> Self {
        self.notify = true;
        self
    }

    /// Gives every hold a [fencing token](crate::fence::Fence), counted in a further key in the hash slot of the
    /// lock's: `{k}:fence` for the key `k`, and `{k}:1.fence` for the key `{k}:1`. Use it for nothing else. It has no
    /// TTL: it makes tokens rise from one hold to the next.
    pub fn fenced(mut self) -> Self {
        self.fenced = Some(Counter::Beside);
        self
    }

    /// As [`fenced`](Self::fenced), counted in this key, which several locks may share. It must be in the hash
    /// slot of the lock's key, as `{invoice}:n` is for `{invoice}:42`; otherwise making the lock fails with
    /// [`OptionsError::OtherSlot`].
    pub fn fenced_by(mut self, counter: impl AsRef<[u8]>) -> Self {
        self.fenced = Some(Counter::At(counter.as_ref().into()));
        self
    }

    /// Compares and deletes, and compares and extends, by commands instead of scripts where the server has them:
    /// `DELEX` and `SET … IFEQ` (Redis 8.4 and later), `DELIFEQ` and `SET … IFEQ` (Valkey 9).
    ///
    /// The server's version is not asked for. The first release tries the commands; one that the server does not
    /// know or does not permit is followed by the script at once, and is not tried again by this lock and its
    /// clones. So keep the lock: one that is made for each use tries each time. A release that is published,
    /// or hands the lock over, is always a script.
    ///
    /// These commands do not tell whether a key is missing or another's: both are reported as
    /// [`Released::AlreadyExpired`](crate::Released::AlreadyExpired) and
    /// [`Lost::KeyGone`](crate::Lost::KeyGone). Default: scripts, which every server has.
    pub fn native(mut self) -> Self {
        self.native = true;
        self
    }

    /// Relies on a hold only after `count` replicas have acknowledged it (`WAIT`). This narrows the window in
    /// which a failover loses a lock; it does not close it, because another replica may be promoted.
    ///
    /// `WAIT` blocks the connection that all locks of an environment share: while `n` acquisitions wait for replicas
    /// that do not answer, every other command of the environment, renewals and releases included, may be held up for
    /// `n` times `within`. So give these locks an environment of their own, by another [`Locks::open`] or
    /// [`TokioEnv`](crate::TokioEnv); a clone shares the connection.
    ///
    /// [`Locks::open`]: crate::Locks::open
    pub fn wait_for(mut self, count: u32, within: Duration) -> Self {
        self.replicas = Some(Replicas { count, within });
        self
    }

    /// The options.
    ///
    /// # Errors
    /// An [`OptionsError`] says which option cannot work, and because of which other.
    pub fn build(self) -> Result<Options, OptionsError> {
        let Self { ttl, drift, .. } = self;
        if ttl < TTL_MIN {
            return Err(OptionsError::TtlTooShort { ttl });
        }
        if ttl > TTL_MAX {
            return Err(OptionsError::TtlTooLong { ttl, max: TTL_MAX });
        }
        let ttl = whole_ms(ttl);
        let allowance = drift.over(ttl);
        if allowance >= ttl {
            return Err(OptionsError::NothingLeft { ttl, allowance });
        }
        let call_timeout = self.call_timeout.unwrap_or((ttl / 3).min(CALL_TIMEOUT_MAX));
        if call_timeout.is_zero() {
            return Err(OptionsError::CallTimeoutZero);
        }
        // An answer that comes later is of no use, and the pauses between tries, and what a queue's scripts add up,
        // grow with the call timeout.
        let call_timeout = call_timeout.min(ttl);
        if let Some(Renewal { every, max_hold }) = self.renewal {
            let validity = ttl.saturating_sub(allowance);
            if every.is_zero() {
                return Err(OptionsError::RenewalZero);
            }
            if every >= validity {
                return Err(OptionsError::RenewalTooLate { every, validity });
            }
            if max_hold.is_some_and(|span| span.is_zero()) {
                return Err(OptionsError::MaxHoldZero);
            }
        }
        if let Some(Replicas { count, within }) = self.replicas {
            if count == 0 {
                return Err(OptionsError::ReplicasZero);
            }
            // Redis counts whole milliseconds, and zero means to wait for ever.
            if within < Duration::from_millis(1) || within >= call_timeout {
                return Err(OptionsError::ReplicasTime { within, call_timeout });
            }
        }
        let linger = self.linger.unwrap_or(ttl.saturating_add(call_timeout));
        let Self { renewal, notify, fenced, native, replicas, .. } = self;
        Ok(Options { ttl, drift, call_timeout, linger, renewal, notify, fenced, native, replicas })
    }
}

/// A TTL as Redis takes it: in whole milliseconds, rounded down.
fn whole_ms(ttl: Duration) -> Duration {
    Duration::from_millis(span_ms(ttl))
}

/// Why options cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Redis counts a TTL in whole milliseconds.
    #[error("ttl of {ttl:?} is below one millisecond")]
    TtlTooShort {
        /// The given value.
        ttl: Duration,
    },
    /// Redis would refuse it: its end overflows a signed count of milliseconds, or what the scripts of a queue compute
    /// from it is no integer any more.
    #[error("ttl of {ttl:?} is beyond what redis takes ({max:?})")]
    TtlTooLong {
        /// The given value.
        ttl: Duration,
        /// The longest: [`TTL_MAX`], or [`QUEUE_TTL_MAX`] of a lock that is handed over.
        max: Duration,
    },
    /// No validity would be left.
    #[error("drift allowance of {allowance:?} leaves nothing of a ttl of {ttl:?}")]
    NothingLeft {
        /// The TTL in whole milliseconds.
        ttl: Duration,
        /// The drift allowance over it.
        allowance: Duration,
    },
    /// No reply could arrive in time.
    #[error("call timeout is zero")]
    CallTimeoutZero,
    /// The watchdog would renew without a pause.
    #[error("renewal interval is zero")]
    RenewalZero,
    /// The hold would be lost before its first renewal.
    #[error("renewal every {every:?} comes after validity has ended ({validity:?})")]
    RenewalTooLate {
        /// The given value.
        every: Duration,
        /// The TTL less the drift allowance.
        validity: Duration,
    },
    /// The watchdog would never renew.
    #[error("max hold is zero; leave renewal out instead")]
    MaxHoldZero,
    /// There would be nothing to wait for.
    #[error("no replica to wait for; leave it out instead")]
    ReplicasZero,
    /// Redis would wait for ever, or for longer than the lock waits for Redis.
    #[error(
        "waiting {within:?} for replicas; from one millisecond to less than the call timeout ({call_timeout:?})"
    )]
    ReplicasTime {
        /// The given value.
        within: Duration,
        /// The call timeout.
        call_timeout: Duration,
    },
    /// An even number of nodes tolerates no more failures than one node less; one or two tolerate none.
    #[error("{nodes} nodes; it takes three, or a larger odd number")]
    NodesUneven {
        /// How many were given.
        nodes: usize,
    },
    /// A node has one vote. Only indices are compared: the caller must see to it that no two lead to the same server.
    #[error("node {node} is given twice")]
    NodeTwice {
        /// Its index.
        node: u16,
    },
    /// A lock on several servers has no fencing tokens, replicas to wait for, or notifications.
    #[error("a lock on several nodes has no fencing tokens, replicas to wait for, or notices")]
    OneNodeOnly,
    /// A lock that is handed over has no fencing tokens, replicas to wait for, or notifications.
    #[error("a lock that is handed over has no fencing tokens, replicas to wait for, or notices")]
    NotInLine,
    /// The lock needs further keys, and none can be named in the slot of this key.
    #[error(
        "a key with `}}` and no hash tag has no companion in its hash slot: put a part of it in braces"
    )]
    KeyAlone,
    /// One script uses all keys of a lock, and on a cluster these must be in one slot.
    #[error(
        "keys of one lock in hash slots {slot} and {other_slot}: give them the same part in braces"
    )]
    OtherSlot {
        /// The slot of the lock's key.
        slot: u16,
        /// The slot of the further key.
        other_slot: u16,
    },
    /// The lock's own key cannot count its fencing tokens.
    #[error("a key beside the lock's is the lock's own")]
    KeyTwice,
    /// A lock needs a key.
    #[error("key is empty")]
    KeyEmpty,
    /// Redis would refuse it.
    #[error("key of {len} bytes is beyond what redis takes ({KEY_LEN_MAX})")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
    },
}

/// Checks the length of a key in bytes: neither empty nor longer than Redis takes.
pub(crate) fn check_key_len(len: usize) -> Result<(), OptionsError> {
    match len {
        0 => Err(OptionsError::KeyEmpty),
        1..=KEY_LEN_MAX => Ok(()),
        _ => Err(OptionsError::KeyTooLong { len }),
    }
}

#[cfg(test)]
mod tests;
