//! Tasks: futures that belong to processes.
//!
//! Invariant: a task is polled only while its process runs, and is dropped with its process. Places
//! are used again, and a waker of an earlier tenant wakes nobody. Deliberately absent: which task is
//! next, which is the world's decision.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// A task's future.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    /// Tasks that were woken through a [`Waker`], in order. Apart from the world, for a waker may be
    /// called at any time.
    static WOKEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// Whether there are any, which is looked at much more often than there are.
    static ANY_WOKEN: Cell<bool> = const { Cell::new(false) };
    /// The wakers of this thread's tasks, while no world is being driven.
    static WAKERS: Cell<Vec<Waker>> = const { Cell::new(Vec::new()) };
}

/// Moves the tasks that were woken through a waker to `ready`.
pub(super) fn take_woken(mut ready: impl FnMut(u32)) {
    if ANY_WOKEN.replace(false) {
        WOKEN.with_borrow_mut(|woken| woken.drain(..).for_each(&mut ready));
    }
}

/// The wakers of tasks, by number: made once, for a place keeps its number. An early call to a later
/// tenant only polls it once in vain.
pub(super) struct Wakers(Vec<Waker>);

impl Wakers {
    /// Those that this thread has made already.
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
            self.0.push(Waker::from(Arc::new(Rouse(number))));
        }
        &self.0[task as usize]
    }
}

/// One task, or a place for one.
#[derive(Default)]
struct Place {
    process: u32,
    /// None while it is polled, and in an empty place.
    work: Option<Work>,
    taken: bool,
    /// Whether it stands in line to be polled already.
    queued: bool,
}

/// All tasks of a world.
#[derive(Default)]
pub(super) struct Tasks {
    places: Vec<Place>,
    vacant: Vec<u32>,
    live: usize,
}

struct Rouse(u32);

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        WOKEN.with_borrow_mut(|woken| woken.push(self.0));
        ANY_WOKEN.set(true);
    }
}

impl Tasks {
    /// Takes a task in.
    pub(super) fn add(&mut self, process: u32, work: Work) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).expect("fewer than 2^32 tasks")
        });
        let place = &mut self.places[number as usize];
        place.process = process;
        place.work = Some(work);
        place.taken = true;
        self.live += 1;
        number
    }

    /// How many there are.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Whose task this is; none where the place is empty.
    pub(super) fn process(&self, task: u32) -> Option<u32> {
        self.places.get(task as usize).filter(|place| place.taken).map(|place| place.process)
    }

    /// Puts a task in line; false where it stands there already, or is none.
    pub(super) fn enqueue(&mut self, task: u32) -> bool {
        match self.places.get_mut(task as usize) {
            Some(place) if place.taken && !place.queued => {
                place.queued = true;
                true
            }
            _ => false,
        }
    }

    /// The task's future, to be polled. It no longer stands in line.
    pub(super) fn begin(&mut self, task: u32) -> Option<Work> {
        let place = self.places.get_mut(task as usize)?;
        place.queued = false;
        place.work.take()
    }

    /// Puts an unfinished future back; returns it where the task has gone meanwhile.
    pub(super) fn put_back(&mut self, task: u32, work: Work) -> Option<Work> {
        match self.places.get_mut(task as usize) {
            Some(place) if place.taken => {
                place.work = Some(work);
                None
            }
            _ => Some(work),
        }
    }

    /// Ends a task, and returns what is left of it to be dropped outside.
    pub(super) fn end(&mut self, task: u32) -> Option<Work> {
        let place = self.places.get_mut(task as usize).filter(|place| place.taken)?;
        place.taken = false;
        place.queued = false;
        let left = place.work.take();
        self.vacant.push(task);
        self.live -= 1;
        left
    }

    /// All tasks of a process, to be ended.
    pub(super) fn of_process(&self, process: u32) -> Vec<u32> {
        let all = (0_u32..).zip(&self.places);
        all.filter(|(_, place)| place.taken && place.process == process).map(|(it, _)| it).collect()
    }

    /// All tasks, by number, for whoever must explain a livelock.
    pub(super) fn all(&self) -> Vec<(u32, u32)> {
        let all = (0_u32..).zip(&self.places);
        all.filter(|(_, place)| place.taken).map(|(it, place)| (it, place.process)).collect()
    }
}
