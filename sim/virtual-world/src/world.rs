//! The world: everything there is, at one moment of virtual time.
//!
//! Invariant: it changes only through events and through what processes do when they are polled, in
//! an order that [`Choices`] decides; so the same choices give the same world. One world a thread;
//! handles are numbers, which keeps futures `Send` without locks. Deliberately absent: what is run
//! in it, and when it ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use picklock::time::WallTime;

use super::audience::Audience;
use super::call::Calls;
use super::choices::{Choices, Draw};
use super::dial::Dials;
use super::fleet::{Fleet, ServerNode};
use super::nemesis::Nemesis;
use super::network::{Conn, Link};
use super::process::{Process, State};
use super::queue::{Event, Queue};
use super::sleep::Timers;
use super::tasks::{Tasks, Work, take_woken};
use super::travel::Travel;
use harness::clock::Clock;

/// Where every wall clock begins: 2023-11-14T22:13:20Z.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// So many events and polls at one instant are a livelock.
const BUDGET_PER_INSTANT: u32 = 1_000_000;

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::default());
    /// The world's time once more: every line of a history asks for it.
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// The time of this thread's world.
pub(super) fn now_ns() -> u64 {
    NOW_NS.get()
}

/// Looks at this thread's world, or changes it. Nothing in `act` may poll or drop a task.
pub(super) fn with<R>(act: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(act)
}

/// The same, from a destructor: in a world that is being looked at, or is gone, there is nothing
/// left to be put right.
pub(super) fn with_if_free(act: impl FnOnce(&mut World)) {
    let _ = WORLD.try_with(|world| world.try_borrow_mut().map(|mut world| act(&mut world)));
}

/// What whoever drives the world has to do next, while nobody looks at it.
pub(super) enum Turn {
    /// Poll this task.
    Poll(u32, Work),
    /// Drop what is left of a task that has ended.
    Bury(Work),
    /// Nothing.
    Over,
}

/// Everything there is.
#[derive(Default)]
pub(super) struct World {
    pub(super) now_ns: u64,
    /// Nothing that is done any more has an effect: the world is being taken down.
    pub(super) closed: bool,
    pub(super) queue: Queue,
    pub(super) tasks: Tasks,
    /// What is left of the tasks of crashed processes, to be dropped when nobody looks at the world.
    pub(super) graves: VecDeque<Work>,
    ready: VecDeque<u32>,
    /// The task that is being polled.
    pub(super) current: u32,
    /// A task is being polled: what its process says now it says in one breath.
    polling: bool,
    pub(super) processes: Vec<Process>,
    pub(super) servers: Vec<ServerNode>,
    pub(super) fleet: Fleet,
    pub(super) links: Vec<Link>,
    pub(super) conns: Vec<Conn>,
    pub(super) calls: Calls,
    pub(super) audience: Audience,
    pub(super) dials: Dials,
    pub(super) timers: Timers,
    pub(super) choices: Option<Choices>,
    pub(super) seed: u64,
    pub(super) travel: Arc<Travel>,
    pub(super) nemesis: Nemesis,
    /// How many events and polls there have been at this instant.
    at_once: u32,
    pub(super) events: u64,
}

impl World {
    /// Makes it as new, with so many processes and servers, keeping the memory.
    pub(super) fn reset(&mut self, choices: Choices, seed: u64, processes: u32, servers: u32) {
        (self.closed, self.polling, self.events, self.at_once) = (false, false, 0, 0);
        self.go_on_to(0);
        self.queue.clear();
        self.ready.clear();
        take_woken(|_| {});
        self.calls.clear();
        self.audience.clear();
        self.dials.clear();
        self.timers.clear();
        self.conns.clear();
        let (processes, servers) = (processes as usize, servers as usize);
        self.processes.iter_mut().for_each(|it| it.reset(Clock::exact(EPOCH_NS)));
        self.processes.resize_with(processes, || Process::new(Clock::exact(EPOCH_NS)));
        self.servers.iter_mut().for_each(|it| it.reset(Clock::exact(EPOCH_NS)));
        self.servers.resize_with(servers, || ServerNode::new(Clock::exact(EPOCH_NS)));
        self.links.iter_mut().for_each(Link::reset);
        self.links.resize_with(processes * servers, Link::default);
        self.choices = Some(choices);
        self.seed = seed;
        self.nemesis.reset();
        self.fleet.reset(u32::try_from(servers).unwrap_or(u32::MAX));
    }

    /// The source of every decision.
    pub(super) fn choices(&mut self) -> &mut Choices {
        self.choices.as_mut().expect("a world that was reset has choices")
    }

    /// How long the next message between a process and a server travels.
    pub(super) fn travel(&mut self, process: u32, server: u32) -> u64 {
        let choices = self.choices.as_mut().expect("a world that was reset has choices");
        let drawn_ns = self.travel.draw(process, server, choices);
        if self.fleet.is_resource(server) { drawn_ns } else { drawn_ns + self.late_by() }
    }

    /// The place of the link from a process to a server.
    pub(super) fn link(&mut self, process: u32, server: u32) -> &mut Link {
        let servers = self.servers.len();
        &mut self.links[process as usize * servers + server as usize]
    }

    /// A server's wall clock.
    pub(super) fn server_wall(&self, server: u32) -> WallTime {
        WallTime::from_unix_ns(self.servers[server as usize].clock.wall(self.now_ns))
    }

    /// Takes a task in, and puts it in line.
    pub(super) fn spawn(&mut self, process: u32, work: Work) -> Option<Work> {
        if self.closed || self.processes[process as usize].state == State::Crashed {
            return Some(work);
        }
        let task = self.tasks.add(process, work);
        self.wake(task);
        None
    }

    /// Puts a task in line, or keeps it for when its process goes on.
    pub(super) fn wake(&mut self, task: u32) {
        if !self.tasks.enqueue(task) {
            return;
        }
        let process = self.tasks.process(task).unwrap_or_default();
        let process = &mut self.processes[process as usize];
        match process.state {
            State::Running => self.ready.push_back(task),
            State::Paused => process.deferred.push(task),
            State::Crashed => {}
        }
    }

    /// Takes back what has been polled, and goes on to the next task to be polled, letting things
    /// happen meanwhile. It is over where nobody has anything left to do, or nothing happens before
    /// `end_ns`.
    pub(super) fn turn(&mut self, polled: Option<(u32, Work, bool)>, end_ns: u64) -> Turn {
        self.polling = false;
        if let Some((task, work, ready)) = polled {
            if ready {
                self.tasks.end(task);
                self.graves.push_back(work);
            } else if let Some(left) = self.tasks.put_back(task, work) {
                self.graves.push_back(left);
            }
            self.end_doomed();
        }
        loop {
            if let Some(left) = self.graves.pop_front() {
                return Turn::Bury(left);
            }
            if let Some((task, work)) = self.next_ready() {
                return Turn::Poll(task, work);
            }
            if self.tasks.live() == 0 || !self.step(end_ns) {
                return Turn::Over;
            }
        }
    }

    /// The next task to be polled: whichever of those in line is chosen.
    fn next_ready(&mut self) -> Option<(u32, Work)> {
        loop {
            take_woken(|task| self.wake(task));
            let place = match self.ready.len() {
                0 => return None,
                ways if self.nemesis.shuffles() => {
                    let ways = u32::try_from(ways).unwrap_or(u32::MAX);
                    self.choices().pick(Draw::Order, ways) as usize
                }
                _ => 0,
            };
            let task = if place == 0 { self.ready.pop_front() } else { self.ready.remove(place) };
            let task = task?;
            let Some(process) = self.tasks.process(task) else { continue };
            match self.processes[process as usize].state {
                State::Running => {
                    if let Some(work) = self.tasks.begin(task) {
                        self.tick();
                        self.current = task;
                        self.polling = true;
                        return Some((task, work));
                    }
                }
                // Stopped while it stood in line: it keeps its turn.
                State::Paused => self.processes[process as usize].deferred.push(task),
                State::Crashed => {}
            }
        }
    }

    /// Lets the next event happen; false where nothing is going to happen before `end_ns`.
    fn step(&mut self, end_ns: u64) -> bool {
        loop {
            let timers = &self.timers;
            let concerns = |number, event| match event {
                Event::Timer(timer) => timers.is_set(timer, number),
                _ => true,
            };
            let Some((at_ns, number, event)) = self.queue.pop(end_ns, concerns) else {
                return false;
            };
            if let Event::Timer(timer) = event {
                // Most timers are time-outs of calls long answered.
                let Some(task) = self.timers.ring(timer, number) else { continue };
                self.go_on_to(at_ns);
                self.tick();
                self.wake(task);
                return true;
            }
            self.go_on_to(at_ns);
            self.tick();
            match event {
                Event::Request(call) => self.request_arrives(call),
                Event::Reply(call) => self.reply_arrives(call),
                Event::Connected(dial) => self.dial_answered(dial),
                Event::Nemesis(plan) => self.strike(plan),
                Event::Unblock(server) => self.unblock(server),
                Event::Chore(chore) => self.chore(chore),
                Event::Timer(_) => {}
            }
            return true;
        }
    }

    fn go_on_to(&mut self, at_ns: u64) {
        if self.now_ns != at_ns {
            self.now_ns = at_ns;
            self.at_once = 0;
            NOW_NS.set(at_ns);
        }
    }

    /// Counts what happens at one instant, for time must go on.
    fn tick(&mut self) {
        self.events += 1;
        self.at_once += 1;
        if self.at_once > BUDGET_PER_INSTANT {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&self) -> ! {
        panic!(
            "livelock: {BUDGET_PER_INSTANT} events at {} ns with seed {}; tasks (number, process): {:?}",
            self.now_ns,
            self.seed,
            self.tasks.all()
        );
    }

    /// Whether a task of this process is being polled.
    pub(super) fn is_polling(&self, process: u32) -> bool {
        self.polling && self.tasks.process(self.current) == Some(process)
    }

    /// Stops a process where it stands.
    pub(super) fn suspend(&mut self, process: u32) {
        let process = &mut self.processes[process as usize];
        if process.state == State::Running {
            process.state = State::Paused;
        }
    }

    /// Lets a paused process go on.
    pub(super) fn resume(&mut self, process: u32) {
        let process = &mut self.processes[process as usize];
        if process.state == State::Paused {
            process.state = State::Running;
            self.ready.extend(process.deferred.drain(..));
        }
    }

    /// Ends a process at once. What is left of its tasks is dropped later, outside: by then the process
    /// is gone, so nothing posthumous is sent.
    pub(super) fn crash(&mut self, process: u32) {
        let it = &mut self.processes[process as usize];
        it.state = State::Crashed;
        it.holds = false;
        it.deferred.clear();
        let tasks = self.tasks.of_process(process);
        for task in tasks {
            let left = self.tasks.end(task);
            self.graves.extend(left);
        }
        let conns: Vec<u32> = (0_u32..)
            .zip(&self.conns)
            .filter(|(_, it)| it.process == process)
            .map(|(it, _)| it)
            .collect();
        for conn in conns {
            self.break_conn(conn);
            self.hang_up(conn);
        }
    }

    /// A number of the process's own: it follows from the seed and how many it has drawn.
    pub(super) fn random(&mut self, process: u32) -> u64 {
        let it = &mut self.processes[process as usize];
        it.drawn += 1;
        let mixed = mix(self.seed ^ mix(u64::from(process) + 1));
        mix(mixed.wrapping_add(it.drawn))
    }
}

/// SplitMix64: neighbouring numbers give unrelated ones.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
