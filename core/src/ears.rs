//! What a process hears of the locks it waits for: one channel, one subscription, many waiters.
//!
//! Invariant: a waiter has its place before it asks for the lock, so no message for it falls in between;
//! and when the subscription breaks, every waiter is told to look for itself. A message wakes the one it
//! is for, however many wait. The task that listens ends with the last handle. Deliberately absent: trust.
//! A message may be lost without a word, so waiters look again by themselves.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use crate::env::{CallError, Env, Subscription};
use crate::target::Target;
use crate::timeout::{First, race, within};
use crate::token::{self, OwnerToken};
use crate::watched::Watched;

/// What a waiter hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The lock has been handed over to it, at this time of the server in microseconds.
    Granted(u64),
    /// It should look for itself.
    Look,
}

/// The ears of a handle. The last one to go ends the listening.
pub(crate) struct Ears {
    shared: Arc<Shared>,
}

struct Shared {
    channel: Box<[u8]>,
    state: Watched<State>,
}

#[derive(Default)]
struct State {
    listening: Listening,
    /// By token.
    waiters: BTreeMap<Box<[u8]>, Arc<Slot>>,
    closed: bool,
}

/// What has been heard for a waiter and not been looked at.
type Slot = Watched<Option<Heard>>;

/// How the subscription stands.
#[derive(Clone, Debug, Default)]
enum Listening {
    #[default]
    Not,
    Beginning,
    Confirmed,
    /// It could not be had; whoever asked for it is told, and the next begins anew.
    Failed(CallError),
    /// It has proved deaf, and is given up.
    Distrusted,
}

impl Ears {
    /// Ears on a channel that nobody else listens to.
    pub(crate) fn new<E: Env>(env: &E) -> Self {
        let mut channel = b"picklock:".to_vec();
        // As hard to guess as a token: nobody can send a grant who may not look at the server.
        channel.extend_from_slice(OwnerToken::draw(env).as_bytes());
        let state = Watched::new(State::default());
        Self { shared: Arc::new(Shared { channel: channel.into(), state }) }
    }

    /// Where messages are sent.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.shared.channel
    }

    /// Whether a subscription stands, as far as is known.
    pub(crate) fn is_listening(&self) -> bool {
        self.shared.state.with(|state| matches!(state.listening, Listening::Confirmed))
    }

    /// Waits until a subscription stands, beginning one if need be.
    pub(crate) async fn listen<E: Env>(&self, target: &Arc<Target<E>>) -> Result<(), CallError> {
        let begins = self.shared.state.with(|state| {
            let begins = matches!(state.listening, Listening::Not | Listening::Failed(_));
            if begins {
                state.listening = Listening::Beginning;
            }
            begins
        });
        if begins {
            let (shared, target) = (Arc::clone(&self.shared), Arc::clone(target));
            let env = target.env.clone();
            env.spawn(async move { shared.hear(&target).await });
        }
        let stands = |state: &State| match &state.listening {
            Listening::Confirmed => Some(Ok(())),
            Listening::Failed(error) => Some(Err(error.clone())),
            // The task that gives a subscription up begins another one itself.
            Listening::Not | Listening::Beginning | Listening::Distrusted => None,
        };
        self.shared.state.until(stands).await
    }

    /// A message that was sent has not been heard: the subscription is made anew.
    pub(crate) fn distrust(&self) {
        self.shared.state.change(|state| {
            let stands = matches!(state.listening, Listening::Confirmed);
            if stands {
                state.listening = Listening::Distrusted;
            }
            ((), stands)
        });
    }

    /// A place for messages to this token.
    pub(crate) fn wait_for(&self, token: &OwnerToken) -> Waiter {
        let (shared, token) = (Arc::clone(&self.shared), Box::from(token.as_bytes()));
        let slot = Arc::new(Slot::new(None));
        shared.state.with(|state| state.waiters.insert(Box::clone(&token), Arc::clone(&slot)));
        Waiter { shared, token, slot }
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        self.shared.state.change(|state| {
            state.closed = true;
            ((), true)
        });
    }
}

/// A place for messages to one token.
pub(crate) struct Waiter {
    shared: Arc<Shared>,
    token: Box<[u8]>,
    slot: Arc<Slot>,
}

impl Waiter {
    /// The next message.
    pub(crate) async fn heard(&self) -> Heard {
        let heard = self.slot.until(|heard| *heard).await;
        // A grant may have come after the word that woke it.
        self.slot.with(Option::take).unwrap_or(heard)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.shared.state.with(|state| state.waiters.remove(&self.token));
    }
}

/// How a subscription ended.
enum End {
    Closed,
    Broken,
}

impl Shared {
    /// Listens until nobody needs it any more.
    async fn hear<E: Env>(&self, target: &Target<E>) {
        loop {
            let env = &target.env;
            let subscribing = pin!(env.subscribe(target.node, &self.channel));
            let span = target.options.call_timeout();
            let mut subscription = match within(env, span, subscribing).await {
                Some(Ok(subscription)) => subscription,
                Some(Err(error)) => return self.is(Listening::Failed(error)),
                None => {
                    let silent = format!("no subscription within {span:?}");
                    let error = CallError::Indeterminate(silent.into());
                    return self.is(Listening::Failed(error));
                }
            };
            self.is(Listening::Confirmed);
            match self.hand_out(&mut subscription).await {
                End::Closed => return,
                End::Broken => self.is(Listening::Beginning),
            }
            // Whatever was missed, those who wait find out for themselves, once they can be told
            // again.
            drop(subscription);
        }
    }

    fn is(&self, listening: Listening) {
        let told = self.state.change(|state| {
            let told: Vec<_> = match listening {
                Listening::Beginning => Vec::new(),
                _ => state.waiters.values().map(Arc::clone).collect(),
            };
            state.listening = listening;
            (told, true)
        });
        for slot in told {
            tell(&slot, Heard::Look);
        }
    }

    async fn hand_out<S: Subscription>(&self, subscription: &mut S) -> End {
        let over = |state: &State| match state.listening {
            _ if state.closed => Some(End::Closed),
            Listening::Distrusted => Some(End::Broken),
            _ => None,
        };
        loop {
            match race(pin!(self.state.until(over)), pin!(subscription.next())).await {
                First::Left(end) => return end,
                First::Right(Ok(message)) => self.tell(&message),
                First::Right(Err(_)) => return End::Broken,
            }
        }
    }

    fn tell(&self, message: &[u8]) {
        let Some((token, time)) = message.split_at_checked(token::LEN) else { return };
        let heard = match std::str::from_utf8(time).ok().map(str::parse) {
            Some(Ok(server_us)) => Heard::Granted(server_us),
            _ if time.is_empty() => Heard::Look,
            _ => return,
        };
        let slot = self.state.with(|state| state.waiters.get(token).map(Arc::clone));
        if let Some(slot) = slot {
            tell(&slot, heard);
        }
    }
}

/// Leaves word for a waiter.
fn tell(slot: &Slot, word: Heard) {
    slot.change(|heard| {
        // A grant is not made unheard by a later word.
        if !matches!(heard, Some(Heard::Granted(_))) {
            *heard = Some(word);
        }
        ((), true)
    });
}
