//! Tasks: futures that belong to processes, and their wakers.
//!
//! Invariant: numbers of tasks that have ended are used again; a late call of an old waker only polls the
//! new task once in vain. Deliberately absent: which task is next; the executor decides that.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// A task's future.
pub(super) type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// Tasks that were woken through a [`Waker`], in order. Not in the simulation, because a waker may be
    /// called while that is borrowed.
    static WOKEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// Whether there are any: asked before every poll, and rarely true.
    static ANY_WOKEN: Cell<bool> = const { Cell::new(false) };
    /// The wakers of this thread's tasks, while no simulation runs.
    static WAKERS: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
}

/// Hands over the tasks that were woken through a waker.
pub(super) fn take_woken(mut wake: impl FnMut(u32)) {
    if ANY_WOKEN.replace(false) {
        WOKEN.with_borrow_mut(|woken| woken.drain(..).for_each(&mut wake));
    }
}

/// The wakers of tasks, by number; each is made once per thread.
pub(super) struct WakerCache(Vec<Waker>);

impl WakerCache {
    /// Takes those that this thread has made.
    pub(super) fn take() -> Self {
        Self(WAKERS.take())
    }

    /// Keeps them for the next time.
    pub(super) fn put_back(self) {
        WAKERS.set(self.0);
    }

    /// The waker of this task.
    pub(super) fn of(&mut self, task: u32) -> &Waker {
        while self.0.len() <= task as usize {
            let number = u32::try_from(self.0.len()).expect("fewer than 2^32 tasks");
            self.0.push(Waker::from(Arc::new(TaskWaker(number))));
        }
        &self.0[task as usize]
    }
}

/// A task, or room for one.
#[derive(Default)]
struct TaskSlot {
    process: u32,
    /// None while it is polled, and in a vacant slot.
    future: Option<TaskFuture>,
    taken: bool,
    /// Whether it is queued to be polled.
    queued: bool,
}

/// All tasks.
#[derive(Default)]
pub(super) struct Tasks {
    slots: Vec<TaskSlot>,
    vacant: Vec<u32>,
    /// How many there are.
    pub(super) live: usize,
}

struct TaskWaker(u32);

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        WOKEN.with_borrow_mut(|woken| woken.push(self.0));
        ANY_WOKEN.set(true);
    }
}

impl Tasks {
    /// Numbers start again, in the order of an empty world: tasks of a process that dies are dropped in the order of
    /// their numbers, which must not depend on earlier schedules.
    pub(super) fn reset(&mut self) {
        debug_assert_eq!(self.live, 0, "the schedule before was closed");
        self.vacant.clear();
        self.vacant.extend((0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)).rev());
    }

    /// Adds a task.
    pub(super) fn add(&mut self, process: u32, future: TaskFuture) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(TaskSlot::default());
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 tasks")
        });
        let slot = &mut self.slots[number as usize];
        slot.process = process;
        slot.future = Some(future);
        slot.taken = true;
        self.live += 1;
        number
    }

    /// The process of a task; none if the slot is vacant.
    pub(super) fn process(&self, task: u32) -> Option<u32> {
        self.slots.get(task as usize).filter(|slot| slot.taken).map(|slot| slot.process)
    }

    /// Marks a task as queued, and returns its process; none if it is queued already, or has ended.
    pub(super) fn enqueue(&mut self, task: u32) -> Option<u32> {
        let slot = self.slots.get_mut(task as usize).filter(|slot| slot.taken && !slot.queued)?;
        slot.queued = true;
        Some(slot.process)
    }

    /// Takes the future of a queued task, to be polled, and returns its process, too. It is no longer queued.
    pub(super) fn begin(&mut self, task: u32) -> Option<(u32, TaskFuture)> {
        let slot = self.slots.get_mut(task as usize)?;
        slot.queued = false;
        Some((slot.process, slot.future.take()?))
    }

    /// Puts an unfinished future back; returns it if the task has ended meanwhile.
    pub(super) fn put_back(&mut self, task: u32, future: TaskFuture) -> Option<TaskFuture> {
        match self.slots.get_mut(task as usize) {
            Some(slot) if slot.taken => {
                slot.future = Some(future);
                None
            }
            _ => Some(future),
        }
    }

    /// Ends a task, and returns its future to be dropped.
    pub(super) fn end(&mut self, task: u32) -> Option<TaskFuture> {
        let slot = self.slots.get_mut(task as usize).filter(|slot| slot.taken)?;
        slot.taken = false;
        slot.queued = false;
        let future = slot.future.take();
        self.vacant.push(task);
        self.live -= 1;
        future
    }

    /// All tasks with their processes.
    pub(super) fn all(&self) -> Vec<(u32, u32)> {
        let all = (0_u32..).zip(&self.slots);
        all.filter(|(_, slot)| slot.taken).map(|(it, slot)| (it, slot.process)).collect()
    }
}
