//! The executor: which task is polled next, and which processes run.
//!
//! Invariant: a task is polled only while its process runs. A paused process keeps its woken tasks for
//! later; a crashed one has no tasks. Futures of ended tasks are dropped while the simulation is not
//! borrowed, because what they hold may still act.

use std::collections::VecDeque;

use super::choices::Choices;
use super::tasks::{TaskFuture, Tasks, take_woken};

/// Whether a process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProcessState {
    #[default]
    Running,
    /// It does nothing, and may go on.
    Paused,
    /// It is gone, for good unless it is revived.
    Crashed,
}

#[derive(Debug, Default)]
struct ProcessTasks {
    state: ProcessState,
    /// Tasks that were woken while it was paused.
    deferred: Vec<u32>,
}

/// The tasks of all processes.
#[derive(Default)]
pub(super) struct Executor {
    pub(super) tasks: Tasks,
    processes: Vec<ProcessTasks>,
    /// Tasks to be polled.
    ready: VecDeque<u32>,
    /// Futures of ended tasks, to be dropped.
    ended: VecDeque<TaskFuture>,
    /// The task that is being polled, or was last.
    pub(super) current: u32,
    polling: bool,
    /// The schedule is over: no task is accepted, and what futures do when they are dropped has no effect.
    pub(super) closed: bool,
}

impl Executor {
    /// Starts again with this many processes, keeping the memory.
    pub(super) fn reset(&mut self, processes: usize) {
        (self.closed, self.polling) = (false, false);
        self.ready.clear();
        take_woken(|_| {});
        self.tasks.reset();
        for it in &mut self.processes {
            it.state = ProcessState::Running;
            it.deferred.clear();
        }
        self.processes.resize_with(processes, ProcessTasks::default);
    }

    /// Ends all tasks, and accepts no more; returns their futures, to be dropped.
    pub(super) fn close(&mut self) -> Vec<TaskFuture> {
        self.closed = true;
        let tasks = self.tasks.all();
        tasks.into_iter().filter_map(|(task, _)| self.tasks.end(task)).collect()
    }

    /// Accepts and queues a task; returns it if its process is gone.
    pub(super) fn spawn(&mut self, process: u32, future: TaskFuture) -> Option<TaskFuture> {
        if self.is_gone(process) {
            return Some(future);
        }
        let task = self.tasks.add(process, future);
        self.wake(task);
        None
    }

    /// Queues a task, or keeps it for when its process goes on.
    pub(super) fn wake(&mut self, task: u32) {
        let Some(process) = self.tasks.enqueue(task) else { return };
        let process = &mut self.processes[process as usize];
        match process.state {
            ProcessState::Running => self.ready.push_back(task),
            ProcessState::Paused => process.deferred.push(task),
            ProcessState::Crashed => {}
        }
    }

    /// Takes back the future that was polled, and whether it is ready.
    pub(super) fn end_poll(&mut self, task: u32, future: TaskFuture, is_ready: bool) {
        self.polling = false;
        if is_ready {
            self.tasks.end(task);
            self.ended.push_back(future);
        } else if let Some(left) = self.tasks.put_back(task, future) {
            self.ended.push_back(left);
        }
    }

    /// The future of an ended task, to be dropped.
    pub(super) fn next_ended(&mut self) -> Option<TaskFuture> {
        self.ended.pop_front()
    }

    /// The next task to be polled, with its process: the first in the queue, or any of them if the order is a choice.
    pub(super) fn next_ready(
        &mut self,
        shuffles: bool,
        choices: &mut Choices,
    ) -> Option<(u32, u32, TaskFuture)> {
        loop {
            take_woken(|task| self.wake(task));
            let place = match self.ready.len() {
                0 => return None,
                ways if shuffles => choices.pick(u32::try_from(ways).unwrap_or(u32::MAX)) as usize,
                _ => 0,
            };
            let task = if place == 0 { self.ready.pop_front() } else { self.ready.remove(place) };
            let task = task?;
            let Some((process, future)) = self.tasks.begin(task) else { continue };
            if self.state(process) == ProcessState::Running {
                self.current = task;
                self.polling = true;
                return Some((task, process, future));
            }
            // If its process was paused meanwhile, the task keeps its turn; if it crashed, the task has ended.
            self.ended.extend(self.tasks.put_back(task, future));
            self.wake(task);
        }
    }

    /// Whether a task of this process is being polled.
    pub(super) fn is_polling(&self, process: u32) -> bool {
        self.polling && self.tasks.process(self.current) == Some(process)
    }

    /// Whether a process runs.
    pub(super) fn state(&self, process: u32) -> ProcessState {
        self.processes[process as usize].state
    }

    /// Whether a process is gone, or all are.
    pub(super) fn is_gone(&self, process: u32) -> bool {
        self.closed || self.state(process) == ProcessState::Crashed
    }

    /// Pauses a process that runs.
    pub(super) fn pause(&mut self, process: u32) {
        let process = &mut self.processes[process as usize];
        if process.state == ProcessState::Running {
            process.state = ProcessState::Paused;
        }
    }

    /// Lets a paused process go on.
    pub(super) fn resume(&mut self, process: u32) {
        let process = &mut self.processes[process as usize];
        if process.state == ProcessState::Paused {
            process.state = ProcessState::Running;
            self.ready.extend(process.deferred.drain(..));
        }
    }

    /// A process that is gone starts again, without tasks.
    pub(super) fn revive(&mut self, process: u32) {
        let process = &mut self.processes[process as usize];
        if process.state == ProcessState::Crashed {
            process.state = ProcessState::Running;
        }
    }

    /// Ends a process with all its tasks. It counts as gone before their futures are dropped, so a
    /// guard among them sends no release after its client's death.
    pub(super) fn crash(&mut self, process: u32) {
        let it = &mut self.processes[process as usize];
        it.state = ProcessState::Crashed;
        it.deferred.clear();
        self.end_tasks(|_, of| of == process);
    }

    /// Ends all tasks of a process but the one that is being polled.
    pub(super) fn end_others(&mut self, process: u32) {
        let current = self.current;
        self.end_tasks(|task, of| of == process && task != current);
    }

    fn end_tasks(&mut self, which: impl Fn(u32, u32) -> bool) {
        for (task, _) in self.tasks.all().into_iter().filter(|(task, of)| which(*task, *of)) {
            let left = self.tasks.end(task);
            self.ended.extend(left);
        }
    }
}
