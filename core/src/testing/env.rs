//! The environment of one client of the test world, its connections and its subscriptions: messages come
//! at once, or not at all once the connection broke.

use std::future::poll_fn;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::task::Poll;
use std::time::Duration;

use super::{Event, World};
use crate::command::Command;
use crate::env::{CallError, Conn, Env, Mark, Node, Subscription};
use crate::options::OptionsBuilder;
use crate::reply::Reply;
use crate::single::Single;
use crate::time::{Instant, WallTime};

pub(super) type Message = Box<[u8]>;

#[derive(Clone)]
pub(crate) struct TestEnv {
    pub(super) world: World,
    pub(super) client: u32,
}

#[derive(Clone)]
pub(crate) struct TestConn {
    world: World,
    /// Whose it is, and where it leads.
    ends: (u32, Node),
    id: u64,
}

impl TestEnv {
    /// As [`World::lock`], for this client.
    pub(crate) fn lock(&self, options: OptionsBuilder) -> Single<Self> {
        Single::new(self.clone(), Node(0), *b"k", options.build().unwrap()).unwrap()
    }
}

impl Env for TestEnv {
    type Conn = TestConn;
    type Subscription = TestSubscription;

    fn now(&self) -> Instant {
        self.world.now()
    }

    fn wall(&self) -> WallTime {
        WallTime::from_unix_ns(self.world.now().as_ns())
    }

    /// Over when its timer has rung, and not when its time has come: after a pause a timer is late.
    async fn sleep(&self, span: Duration) {
        if span.is_zero() {
            return;
        }
        let end_ns = self.now().after(span).as_ns();
        let mut timer = None;
        poll_fn(|cx| {
            let mut state = self.world.state();
            match timer {
                None => {
                    let key = *timer.insert((end_ns, state.next_seq()));
                    state.events.insert(key, Event::Wake(cx.waker().clone()));
                }
                Some(key) => match state.events.get_mut(&key) {
                    Some(Event::Wake(waker)) => waker.clone_from(cx.waker()),
                    _ => return Poll::Ready(()),
                },
            }
            Poll::Pending
        })
        .await;
    }

    fn random(&self) -> u64 {
        let mut state = self.world.state();
        if let Some(bits) = state.scripted_random.pop_front() {
            return bits;
        }
        // SplitMix64: enough for tokens that differ.
        state.seed = state.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state.seed ^ (state.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.world.state();
        let id = state.next_seq();
        state.tasks.insert(id, Box::pin(task));
        state.ready.push_back(id);
    }

    async fn connect(&self, node: Node) -> Result<TestConn, CallError> {
        let span = self.world.state().connect_spans.get(&node).copied();
        self.sleep(span.unwrap_or_default()).await;
        let mut state = self.world.state();
        if let Some(error) = state.connect_faults.pop_front() {
            return Err(error);
        }
        let fresh = state.next_seq();
        let ends = (self.client, node);
        let id = *state.conns.entry(ends).or_insert(fresh);
        Ok(TestConn { world: self.world.clone(), ends, id })
    }

    async fn subscribe(&self, _node: Node, channel: &[u8]) -> Result<TestSubscription, CallError> {
        let mut state = self.world.state();
        if let Some(error) = state.subscribe_faults.pop_front() {
            return Err(error);
        }
        let (sender, inbox) = mpsc::channel();
        state.subscribers.push((channel.into(), sender));
        state.listeners += 1;
        Ok(TestSubscription { world: self.world.clone(), inbox })
    }

    fn mark(&self, mark: Mark) {
        self.world.state().marks.push(mark);
    }
}

impl Conn for TestConn {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let call = self.world.state().send(self.ends, self.id, command);
        poll_fn(|_| match self.world.state().answers.remove(&call) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }
}

pub(crate) struct TestSubscription {
    world: World,
    /// The world has the other end, until the connection breaks.
    inbox: Receiver<Message>,
}

impl Subscription for TestSubscription {
    async fn next(&mut self) -> Result<Message, CallError> {
        // Taken uniquely: a shared receiver could not go to another thread, as tasks may.
        let inbox = &mut self.inbox;
        poll_fn(move |_| match inbox.try_recv() {
            Ok(message) => Poll::Ready(Ok(message)),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => {
                Poll::Ready(Err(CallError::Indeterminate("broken".into())))
            }
        })
        .await
    }
}

impl Drop for TestSubscription {
    fn drop(&mut self) {
        self.world.state().listeners -= 1;
    }
}
