//! What a process hears of the locks it waits for: one channel, one subscription, many waiters.
//!
//! Invariant: a waiter is registered before it asks for the lock, so no message for it is missed between
//! the two; and when the subscription breaks, every waiter is woken once to look for itself. A message wakes
//! only the waiter whose token it names. The subscribing task ends with the last handle. If the task is dropped before
//! that (its runtime ends) or makes no progress (its runtime does not run), the subscription counts as failed, and the
//! next caller makes another. A message may be lost without an error, so waiters also look by themselves.

use std::collections::BTreeMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;

use crate::env::{CallError, Env, Subscription};
use crate::target::LockTarget;
use crate::timeout::{Either, race, within};
use crate::token::{self, OwnerToken};
use crate::watch_cell::WatchCell;

/// The pause after two subscriptions in a row that broke as soon as they were confirmed, as a fraction of the call timeout.
const PAUSE_PART: u32 = 4;

/// What a waiter is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The lock was handed to it, at this time of the server in microseconds since 1970.
    Granted(u64),
    /// It should ask the server.
    Look,
}

/// The subscription of a lock handle and its clones. Dropping the last one ends it.
pub(crate) struct Subscriber {
    shared: Arc<SubscriberShared>,
}

struct SubscriberShared {
    channel: Box<[u8]>,
    state: WatchCell<SubscriberState>,
}

#[derive(Default)]
struct SubscriberState {
    subscription: SubscriptionState,
    /// The number of the latest task that subscribes; what earlier ones report is ignored.
    task: u64,
    /// Whether it was confirmed since it last failed: waiters do not know yet that nothing reaches them.
    was_confirmed: bool,
    /// By token.
    waiters: BTreeMap<Box<[u8]>, Arc<Inbox>>,
    closed: bool,
}

/// A notice that its waiter has not taken yet.
type Inbox = WatchCell<Option<Notice>>;

#[derive(Clone, Debug, Default)]
enum SubscriptionState {
    #[default]
    Idle,
    Subscribing,
    Confirmed,
    /// Subscribing failed; the callers that asked for it get the error, and the next one tries again.
    Failed(CallError),
    /// A message on it was lost: it is to be replaced.
    Distrusted,
}

impl Subscriber {
    /// A subscriber with a channel of its own.
    pub(crate) fn new<E: Env>(env: &E) -> Self {
        let mut channel = b"picklock:".to_vec();
        // As hard to guess as a token: only clients that may read the server can send a grant.
        channel.extend_from_slice(OwnerToken::draw(env).as_bytes());
        let state = WatchCell::new(SubscriberState::default());
        Self { shared: Arc::new(SubscriberShared { channel: channel.into(), state }) }
    }

    /// Where messages are sent.
    pub(crate) fn channel(&self) -> &[u8] {
        &self.shared.channel
    }

    /// Whether the subscription is confirmed and not known to have broken.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.shared.state.with(|it| matches!(it.subscription, SubscriptionState::Confirmed))
    }

    /// Waits until the subscription is confirmed, subscribing if need be.
    ///
    /// # Errors
    /// Those of [`Env::subscribe`]; [`CallError::Indeterminate`] after a call timeout, or after two where the task that
    /// subscribes does not run; [`CallError::NotSent`] where it was dropped.
    pub(crate) async fn subscribe<E: Env>(
        &self,
        target: &Arc<LockTarget<E>>,
    ) -> Result<(), CallError> {
        use SubscriptionState::{Confirmed, Distrusted, Failed, Idle, Subscribing};
        let starts = self.shared.state.with(|state| {
            matches!(state.subscription, Idle | Failed(_)).then(|| {
                state.subscription = Subscribing;
                state.task += 1;
                state.task
            })
        });
        if let Some(id) = starts {
            let mut task = SubscribingTask { shared: Arc::clone(&self.shared), id, ended: false };
            let (env, target) = (target.env.clone(), Arc::clone(target));
            env.spawn(async move { task.run(&target).await });
        }
        let confirmed = |state: &SubscriberState| match &state.subscription {
            Confirmed => Some(Ok(())),
            Failed(error) => Some(Err(error.clone())),
            // The task that abandons a subscription starts the next one itself.
            Idle | Subscribing | Distrusted => None,
        };
        // The task itself gives up after one call timeout.
        let span = target.options.call_timeout().saturating_mul(2);
        if let Some(answer) =
            within(&target.env, span, pin!(self.shared.state.until(confirmed))).await
        {
            return answer;
        }
        let stuck = format!("no subscription within {span:?}; does the runtime of its task run?");
        let error = CallError::Indeterminate(stuck.into());
        self.shared.state.change(|state| {
            let pending = matches!(state.subscription, Subscribing | Distrusted);
            if pending {
                state.subscription = Failed(error.clone());
            }
            ((), pending)
        });
        Err(error)
    }

    /// Replaces a subscription on which a message was sent and not heard.
    pub(crate) fn distrust(&self) {
        self.shared.state.change(|state| {
            let confirmed = matches!(state.subscription, SubscriptionState::Confirmed);
            if confirmed {
                state.subscription = SubscriptionState::Distrusted;
            }
            ((), confirmed)
        });
    }

    /// Registers a waiter for messages to this token.
    pub(crate) fn wait_for(&self, token: &OwnerToken) -> GrantWaiter {
        let (shared, token) = (Arc::clone(&self.shared), Box::from(token.as_bytes()));
        let inbox = Arc::new(Inbox::new(None));
        shared.state.with(|state| state.waiters.insert(Box::clone(&token), Arc::clone(&inbox)));
        GrantWaiter { shared, token, inbox }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.shared.state.change(|state| {
            state.closed = true;
            ((), true)
        });
    }
}

/// Receives the messages to one token.
pub(crate) struct GrantWaiter {
    shared: Arc<SubscriberShared>,
    token: Box<[u8]>,
    inbox: Arc<Inbox>,
}

impl GrantWaiter {
    /// The next notice.
    pub(crate) async fn next(&self) -> Notice {
        let notice = self.inbox.until(|notice| *notice).await;
        // A grant may have replaced the notice that woke this task.
        self.inbox.with(Option::take).unwrap_or(notice)
    }
}

impl Drop for GrantWaiter {
    fn drop(&mut self) {
        self.shared.state.with(|state| state.waiters.remove(&self.token));
    }
}

/// The task that subscribes and delivers. If it is dropped unfinished, its drop reports that: nothing else would.
struct SubscribingTask {
    shared: Arc<SubscriberShared>,
    id: u64,
    ended: bool,
}

impl SubscribingTask {
    async fn run<E: Env>(&mut self, target: &LockTarget<E>) {
        self.shared.run(self.id, target).await;
        self.ended = true;
    }
}

impl Drop for SubscribingTask {
    fn drop(&mut self) {
        if !self.ended {
            let reason = "the task that subscribes was dropped, as by a runtime that ends";
            self.shared.set(self.id, SubscriptionState::Failed(CallError::NotSent(reason.into())));
        }
    }
}

/// Why messages are no longer delivered.
enum SubscriptionEnd {
    Closed,
    Broken,
}

impl SubscriberShared {
    /// Subscribes and delivers messages until the last handle is dropped, or another task does so.
    async fn run<E: Env>(&self, id: u64, target: &LockTarget<E>) {
        let env = &target.env;
        let mut was_short = false;
        loop {
            let subscribing = pin!(env.subscribe(target.node, &self.channel));
            let span = target.options.call_timeout();
            let mut subscription = match within(env, span, subscribing).await {
                Some(Ok(subscription)) => subscription,
                Some(Err(error)) => return self.set(id, SubscriptionState::Failed(error)),
                None => {
                    let silent = format!("no subscription within {span:?}");
                    let error = CallError::Indeterminate(silent.into());
                    return self.set(id, SubscriptionState::Failed(error));
                }
            };
            self.set(id, SubscriptionState::Confirmed);
            let confirmed = env.now();
            match self.deliver_all(id, &mut subscription).await {
                SubscriptionEnd::Closed => return,
                SubscriptionEnd::Broken => self.set(id, SubscriptionState::Subscribing),
            }
            // Waiters are woken for what they may have missed only when the next subscription is
            // confirmed: a look before that would leave another gap behind it.
            drop(subscription);
            let is_short = env.now().since(confirmed) < span;
            if is_short && was_short {
                // Whatever confirms and then closes at once would be asked without a pause.
                env.sleep(span / PAUSE_PART).await;
            }
            was_short = is_short;
        }
    }

    fn set(&self, id: u64, subscription: SubscriptionState) {
        let woken = self.state.change(|state| {
            if state.task != id {
                return (Vec::new(), false);
            }
            let wakes = match subscription {
                SubscriptionState::Confirmed => {
                    state.was_confirmed = true;
                    true
                }
                // A waiter that knows this already pauses before its next try.
                SubscriptionState::Failed(_) => mem::take(&mut state.was_confirmed),
                _ => false,
            };
            let woken: Vec<_> = match wakes {
                true => state.waiters.values().map(Arc::clone).collect(),
                false => Vec::new(),
            };
            state.subscription = subscription;
            (woken, true)
        });
        for inbox in woken {
            put(&inbox, Notice::Look);
        }
    }

    async fn deliver_all<S: Subscription>(&self, id: u64, subscription: &mut S) -> SubscriptionEnd {
        let over = |state: &SubscriberState| match state.subscription {
            _ if state.closed || state.task != id => Some(SubscriptionEnd::Closed),
            SubscriptionState::Distrusted => Some(SubscriptionEnd::Broken),
            _ => None,
        };
        loop {
            match race(pin!(self.state.until(over)), pin!(subscription.next())).await {
                Either::Left(end) => return end,
                Either::Right(Ok(message)) => self.deliver(&message),
                Either::Right(Err(_)) => return SubscriptionEnd::Broken,
            }
        }
    }

    /// A message is a token and, where it grants the lock, the server's time.
    fn deliver(&self, message: &[u8]) {
        let Some((token, time)) = message.split_at_checked(token::LEN) else { return };
        let notice = match std::str::from_utf8(time).ok().map(str::parse) {
            Some(Ok(server_us)) => Notice::Granted(server_us),
            _ if time.is_empty() => Notice::Look,
            _ => return,
        };
        let inbox = self.state.with(|state| state.waiters.get(token).map(Arc::clone));
        if let Some(inbox) = inbox {
            put(&inbox, notice);
        }
    }
}

/// Puts a notice into an inbox, where a later one does not replace a grant.
fn put(inbox: &Inbox, notice: Notice) {
    inbox.change(|current| {
        if !matches!(current, Some(Notice::Granted(_))) {
            *current = Some(notice);
        }
        ((), true)
    });
}

#[cfg(all(test, not(picklock_loom)))]
mod tests {
    use super::*;
    use crate::env::Node;
    use crate::target::{LockContext, WaitMode};
    use crate::testing::{MS, TIMEOUT, TestEnv, World, exact};

    fn target(env: TestEnv) -> Arc<LockTarget<TestEnv>> {
        let (options, context) = (exact().build().unwrap(), LockContext::default());
        let target =
            LockTarget::new(env, Node(0), (*b"k").into(), WaitMode::Poll, options, context);
        Arc::new(target.unwrap())
    }

    #[test]
    fn a_caller_hears_that_the_task_which_subscribes_was_dropped() {
        let world = World::new();
        let (subscriber, target) = (Subscriber::new(&world.env()), target(world.env()));
        let mut waiting = Box::pin(subscriber.subscribe(&target));
        assert!(world.poll_and_drop(waiting.as_mut()).is_none());
        world.drop_tasks();
        let dropped = world.block_on(waiting);
        assert!(matches!(dropped, Err(CallError::NotSent(_))), "{dropped:?}");
        assert_eq!(world.block_on(subscriber.subscribe(&target)), Ok(()));
    }

    #[test]
    fn a_confirmed_subscription_whose_task_was_dropped_is_made_again_and_waiters_look() {
        let world = World::new();
        let env = world.env();
        let (subscriber, target) = (Subscriber::new(&env), target(env.clone()));
        assert_eq!(world.block_on(subscriber.subscribe(&target)), Ok(()));
        let waiter = subscriber.wait_for(&OwnerToken::draw(&env));
        assert!(subscriber.is_subscribed());
        world.drop_tasks();
        assert!(!subscriber.is_subscribed());
        assert_eq!(world.poll_and_drop(waiter.next()), Some(Notice::Look));
        assert_eq!(world.block_on(subscriber.subscribe(&target)), Ok(()));
        assert_eq!(world.listeners(), 1);
    }

    #[test]
    fn waiters_are_woken_once_by_a_subscription_that_fails_again_and_again() {
        let world = World::new();
        let env = world.env();
        let (subscriber, target) = (Subscriber::new(&env), target(env.clone()));
        assert_eq!(world.block_on(subscriber.subscribe(&target)), Ok(()));
        let waiter = subscriber.wait_for(&OwnerToken::draw(&env));
        let refused = || CallError::NotSent("refused".into());
        world.fault_subscribe(refused());
        world.break_subscriptions();
        world.advance(MS);
        assert_eq!(world.poll_and_drop(waiter.next()), Some(Notice::Look));
        for _ in 0..2 {
            world.fault_subscribe(refused());
            assert_eq!(world.block_on(subscriber.subscribe(&target)), Err(refused()));
            assert_eq!(world.poll_and_drop(waiter.next()), None);
        }
        assert_eq!(world.block_on(subscriber.subscribe(&target)), Ok(()));
        assert_eq!(world.poll_and_drop(waiter.next()), Some(Notice::Look), "something was missed");
    }

    #[test]
    fn a_task_that_does_not_run_is_waited_for_twice_as_long_as_a_call_and_replaced() {
        let world = World::new();
        let (subscriber, target) = (Subscriber::new(&world.env()), target(world.env()));
        assert_eq!(world.block_on(subscriber.subscribe(&target)), Ok(()));
        let stuck = world.suspend_tasks();
        subscriber.distrust();
        let (began, waited) = (world.now(), world.block_on(subscriber.subscribe(&target)));
        assert!(matches!(waited, Err(CallError::Indeterminate(_))), "{waited:?}");
        assert_eq!(world.now().since(began), 2 * TIMEOUT);
        assert_eq!(world.block_on(subscriber.subscribe(&target)), Ok(()));
        assert_eq!(world.listeners(), 2);
        world.resume_tasks(stuck);
        world.advance(MS);
        assert!(subscriber.is_subscribed());
        assert_eq!(world.listeners(), 1, "it has been replaced, and ends");
    }
}
