//! The simulation: all parts of the virtual world, and the loop that handles one event after the other.
//!
//! Invariant: it changes only through events and through what processes do when they are polled, in an
//! order that [`Choices`] decides; so the same choices give the same simulation. There is one per thread,
//! and handles to it are numbers, which keeps futures `Send` without locks. Code that needs only one part
//! is a method of that part.

mod connections;
mod delivery;
mod faults;
mod injector;
mod plans;
mod witnessed;

use std::cell::RefCell;
use std::panic::resume_unwind;

use super::budget::Budget;
use super::calls::PendingCalls;
use super::choices::Choices;
use super::executor::Executor;
use super::nemesis::VirtualNemesis;
use super::network::Network;
use super::processes::Processes;
use super::pubsub::Pubsub;
use super::queue::SimEvent;
use super::servers::VirtualServers;
use super::tasks::TaskFuture;
use super::time::VirtualTime;
use super::timers::SleepTimers;
use super::watch::WatchedBeat;
pub(super) use witnessed::ServersWitness;
pub use witnessed::WitnessedCommand;

thread_local! {
    static SIMULATION: RefCell<Simulation> = RefCell::new(Simulation::default());
}

/// Borrows this thread's simulation. Nothing in `act` may poll or drop a task.
pub(super) fn with<R>(act: impl FnOnce(&mut Simulation) -> R) -> R {
    SIMULATION.with_borrow_mut(act)
}

/// The same for calls of the environment by lock code, which are counted: a task that calls for ever within one poll is
/// unwound, and the driver catches that.
pub(super) fn with_counted<R>(act: impl FnOnce(&mut Simulation) -> R) -> R {
    let (result, spins) = with(|sim| (act(sim), sim.budget.count_call()));
    if spins {
        thrown_out();
    }
    result
}

/// Ends the schedule, and unwinds the poll of the current task, if there is one: futures that are dropped between polls
/// may call, too.
#[cold]
fn thrown_out() {
    let is_polled = with(|sim| {
        let is_polled = sim.executor.is_polling(sim.budget.polled);
        if is_polled {
            sim.budget.spins(sim.time.now_ns());
        }
        is_polled
    });
    // Futures that are dropped during the unwinding may call again, and must not be unwound again.
    if is_polled && !std::thread::panicking() {
        resume_unwind(Box::new(SpinsInPoll));
    }
}

/// The payload with which a poll is unwound.
pub(super) struct SpinsInPoll;

/// The same, from a destructor: if the simulation is borrowed, closed or gone, nothing is left to be
/// done.
pub(super) fn with_if_open(act: impl FnOnce(&mut Simulation)) {
    let _ = SIMULATION.try_with(|it| {
        it.try_borrow_mut().map(|mut it| {
            if !it.executor.closed {
                act(&mut it);
            }
        })
    });
}

/// What the driver has to do next, while the simulation is not borrowed.
pub(super) enum NextStep {
    /// Poll this task.
    Poll(u32, TaskFuture),
    /// Drop the future of a task that has ended.
    Drop(TaskFuture),
    /// Nothing.
    Done,
}

/// All parts of the virtual world.
#[derive(Default)]
pub(super) struct Simulation {
    pub(super) time: VirtualTime,
    pub(super) budget: Budget,
    pub(super) choices: Choices,
    pub(super) executor: Executor,
    pub(super) timers: SleepTimers,
    pub(super) processes: Processes,
    pub(super) network: Network,
    pub(super) calls: PendingCalls,
    pub(super) pubsub: Pubsub,
    pub(super) servers: VirtualServers,
    pub(super) nemesis: VirtualNemesis,
    /// What a client does from its beginning, for those that are started again.
    pub(super) begins: Option<Box<dyn Fn(u32) -> TaskFuture>>,
    /// Records what servers carry out, if that is wanted.
    pub(super) witness: Option<ServersWitness>,
    /// Which poll is running, for the watcher of this thread.
    pub(super) beat: WatchedBeat,
}

impl Simulation {
    /// Starts again with this many processes and servers, keeping the memory.
    pub(super) fn reset(&mut self, choices: Choices, seed: u64, processes: u32, servers: u32) {
        let (processes, servers) = (processes as usize, servers as usize);
        self.time.reset();
        self.budget.reset(processes);
        self.choices = choices;
        self.executor.reset(processes);
        self.timers.clear();
        self.processes.reset(seed, processes);
        self.network.reset(processes, servers);
        self.calls.clear();
        self.pubsub.clear();
        self.servers.reset(servers);
        self.nemesis.reset(processes);
    }

    /// Takes back the task that was polled, and goes on to the next one to be polled, handling events
    /// meanwhile. It is done if no task is left, or nothing happens before `end_ns`.
    pub(super) fn next_step(
        &mut self,
        polled: Option<(u32, TaskFuture, bool)>,
        end_ns: u64,
    ) -> NextStep {
        if let Some((task, future, is_ready)) = polled {
            self.beat.end_poll();
            self.executor.end_poll(task, future, is_ready);
            self.crash_if_pending();
        }
        loop {
            if let Some(future) = self.executor.next_ended() {
                return NextStep::Drop(future);
            }
            if self.budget.is_over() {
                return NextStep::Done;
            }
            let shuffles = self.nemesis.rates.shuffles;
            let ready = self.executor.next_ready(shuffles, &mut self.choices);
            if let Some((task, process, future)) = ready {
                self.budget.count_event(self.time.now_ns());
                self.budget.begin_poll(process);
                self.beat.begin_poll(process);
                return NextStep::Poll(task, future);
            }
            if self.executor.tasks.live == 0 || !self.next_event(end_ns) {
                return NextStep::Done;
            }
        }
    }

    /// Handles the next event; false if nothing happens before `end_ns`.
    fn next_event(&mut self, end_ns: u64) -> bool {
        loop {
            let timers = &self.timers;
            let live = |number, event| match event {
                SimEvent::Timer(timer) => timers.is_set(timer, number),
                _ => true,
            };
            let Some((at_ns, number, event)) = self.time.queue.pop(end_ns, live) else {
                return false;
            };
            if let SimEvent::Timer(timer) = event {
                // Most timers are timeouts of calls that were answered long ago.
                let Some(task) = self.timers.ring(timer, number) else { continue };
                self.advance(at_ns);
                self.executor.wake(task);
                return true;
            }
            self.advance(at_ns);
            if !self.servers.postpones(event) {
                self.happens_now(event);
            }
            return true;
        }
    }

    fn happens_now(&mut self, event: SimEvent) {
        match event {
            SimEvent::Request(call) => self.request_arrives(call),
            SimEvent::Reply(call) => self.reply_arrives(call),
            SimEvent::ConnectAnswer(attempt) => self.connect_answered(attempt),
            SimEvent::Fault(planned) => self.fault_due(planned),
            SimEvent::Unblock(server) => self.unblock_due(server),
            SimEvent::Stream(feed) => {
                self.servers.stream_arrives(feed, &mut self.time, &mut self.choices);
            }
            SimEvent::Acknowledgement(feed) => {
                if let Some(server) = self.servers.acknowledgement_arrives(feed) {
                    self.drain_outbox(server, 0);
                }
            }
            SimEvent::Sync(server) => self.servers.sync(server, &mut self.time),
            SimEvent::Timer(_) => {}
        }
    }

    fn advance(&mut self, at_ns: u64) {
        if self.time.advance(at_ns) {
            self.budget.begin_instant();
        }
        self.budget.count_event(at_ns);
    }
}
