//! A worker: a process of the user's command that locks when it is told to.
//!
//! Invariant: whatever a worker does, the wait for it is over when it answers, it ends, or its time is up. Only a bounded
//! part of what it prints is kept.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use live_world::program::{Pipes, Program, ProgramError};
use live_world::supervisor::Supervisor;
use reports::plain;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::mpsc;

use crate::clock::{now, pause};
use crate::protocol::{Misspelt, Order, Promises, Said, WorkerAnswer, parse};

/// How much of a line is looked at.
const LINE_MOST: u64 = 16 * 1024;
/// How many of the last lines are kept that are no answers.
const KEPT_LINES: usize = 20;
/// How much of each of them is kept.
const KEPT_CHARS: usize = 300;

/// Why a worker cannot be worked with.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorkerError {
    /// It could not be started.
    #[error("cannot start the worker: {0}")]
    Start(String),
    /// It has ended.
    #[error("the worker ended ({status}){printed}")]
    Ended {
        /// How.
        status: String,
        /// The last it said, as part of the message.
        printed: String,
    },
    /// What it has said cannot be read.
    #[error("the worker said `{line}`: {why}")]
    Misspelt {
        /// What it has said.
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// It has not answered in time.
    #[error("the worker did not answer `{order}` within {within:?}{printed}")]
    Silent {
        /// What it was to answer; `ready` at its start.
        order: &'static str,
        /// How long it had.
        within: Duration,
        /// The last it said, as part of the message.
        printed: String,
    },
}

impl From<ProgramError> for WorkerError {
    fn from(error: ProgramError) -> Self {
        Self::Start(error.to_string())
    }
}

/// A worker that can be given orders.
#[derive(Debug)]
pub(crate) struct Worker {
    program: Arc<Program>,
    stdin: Sender,
    said: mpsc::UnboundedReceiver<(Instant, Said)>,
    printed: Arc<Mutex<Printed>>,
    promises: Promises,
    /// When it said, unasked, that it has lost its lock.
    lost: Option<Instant>,
    /// When its process has ended.
    ended: Arc<OnceLock<Instant>>,
}

/// What a worker has printed besides answers.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) lines: VecDeque<String>,
    /// The last of them where an answer could have been, since the last order.
    last: Option<String>,
}

impl Worker {
    /// Starts one, and waits until it is ready.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub(crate) async fn start(
        supervisor: &Supervisor,
        command: &[OsString],
        variables: Vec<(String, String)>,
        clocked: bool,
        within: Duration,
    ) -> Result<Self, WorkerError> {
        let (program, pipes) = Program::start(supervisor, command, variables, clocked).await?;
        let Pipes { stdin, stdout, stderr, answers } = pipes;
        let printed = Arc::new(Mutex::new(Printed::default()));
        let (sender, said) = mpsc::unbounded_channel();
        for (pipe, sender) in
            [(stdout, Some(sender.clone())), (answers, Some(sender)), (stderr, None)]
        {
            tokio::spawn(read(pipe, sender, Arc::clone(&printed)));
        }
        let promises = Promises::default();
        let program = Arc::new(program);
        let ended = Arc::new(OnceLock::new());
        let (end, its_end) = (Arc::clone(&ended), program.end());
        tokio::spawn(async move {
            its_end.await;
            let _ = end.set(now());
        });
        let mut worker = Self { program, stdin, said, printed, promises, lost: None, ended };
        let is_ready = |said: Said| match said {
            Said::Ready(promises) => Ok(promises),
            said => Err(said),
        };
        (_, worker.promises) = worker.hear("ready", within, is_ready).await?;
        Ok(worker)
    }

    /// What it promises.
    pub(crate) fn promises(&self) -> Promises {
        self.promises
    }

    /// Gives it an order and waits for the answer; when that was read, and what it is.
    ///
    /// # Errors
    /// [`WorkerError`], after which it is of no use any more.
    pub(crate) async fn ask(
        &mut self,
        order: Order,
        within: Duration,
    ) -> Result<(Instant, WorkerAnswer), WorkerError> {
        self.lost = None;
        self.printed().last = None;
        while let Ok((at, said)) = self.said.try_recv() {
            if let Said::Answer(answer) = said {
                let line = answer.word().to_owned();
                let why = String::from("it came before any order: answer each order once");
                return Err(WorkerError::Misspelt { line, why });
            }
            self.note(at, said);
        }
        let line = format!("{}\n", order.word());
        // A worker that does not read has its pipe full after some thousand orders, and is found silent first.
        if let Err(error) = self.stdin.write_all(line.as_bytes()).await {
            return Err(WorkerError::Start(error.to_string()));
        }
        let is_answer = |said: Said| match said {
            Said::Answer(answer) => Ok(answer),
            said => Err(said),
        };
        self.hear(order.word(), within, is_answer).await
    }

    /// When it has said, since the last order, that its lock is lost.
    pub(crate) fn lost(&mut self) -> Option<Instant> {
        while let Ok((at, said)) = self.said.try_recv() {
            self.note(at, said);
        }
        self.lost
    }

    /// Waits for a line of this kind.
    async fn hear<T>(
        &mut self,
        order: &'static str,
        within: Duration,
        mut kind: impl FnMut(Said) -> Result<T, Said>,
    ) -> Result<(Instant, T), WorkerError> {
        let deadline = tokio::time::Instant::now() + within;
        loop {
            let line = tokio::select! {
                biased;
                line = self.said.recv() => line,
                status = self.program.ended() => {
                    // What it has said last is still on its way from its pipes.
                    pause(DRAIN).await;
                    let last = std::iter::from_fn(|| self.said.try_recv().ok());
                    let last: Vec<_> = last.collect();
                    for (at, said) in last {
                        match kind(said) {
                            Ok(said) => return Ok((at, said)),
                            Err(said) => self.note(at, said),
                        }
                    }
                    return Err(WorkerError::Ended { status, printed: self.last_words() });
                }
                () = tokio::time::sleep_until(deadline) => None,
            };
            let Some((at, said)) = line else {
                let printed = self.no_answer(order);
                return Err(WorkerError::Silent { order, within, printed });
            };
            match kind(said) {
                Ok(said) => return Ok((at, said)),
                // Before it is ready it answers nothing, and then it is not ready again.
                Err(Said::Misspelt(Misspelt { word, line, why }))
                    if (word == "ready") == (order == "ready") =>
                {
                    let line =
                        plain(&line.chars().take(KEPT_CHARS).collect::<String>()).into_owned();
                    return Err(WorkerError::Misspelt { line, why });
                }
                Err(said) => self.note(at, said),
            }
        }
    }

    /// A line that was not waited for.
    fn note(&mut self, at: Instant, said: Said) {
        match said {
            Said::Lost => self.lost = self.lost.or(Some(at)),
            Said::Other(line) | Said::Misspelt(Misspelt { line, .. }) => {
                self.printed().keep(&line, true);
            }
            // An answer to nothing.
            said @ (Said::Answer(_) | Said::Ready(_)) => {
                self.printed().keep(&format!("{said:?}"), false);
            }
        }
    }

    /// What it has printed last that was no answer, as part of a message.
    fn last_words(&self) -> String {
        let printed = self.printed();
        if printed.lines.is_empty() {
            return String::from(
                "; it printed nothing more (does it flush its output after each line?)",
            );
        }
        let lines: Vec<&str> = printed.lines.iter().map(String::as_str).collect();
        format!("; it printed:\n{}", lines.join("\n"))
    }

    /// What it has printed where an answer to this order was waited for, as part of a message.
    fn no_answer(&self, order: &str) -> String {
        let Some(line) = self.printed().last.take() else { return self.last_words() };
        let wanted = match order {
            "ready" => "not `ready`",
            _ => "no answer: answer ok, no or unknown",
        };
        let rest = if self.printed().lines.len() > 1 { self.last_words() } else { String::new() };
        format!("; it printed `{line}`, which is {wanted}{rest}")
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When its process has ended, if it has.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// Its process, to be signalled.
    pub(crate) fn process(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }
}

/// How long the last words of a process may take through its pipes.
const DRAIN: Duration = Duration::from_millis(50);

/// Reads lines until the pipe is gone. Without a sender nothing is an answer.
pub(crate) async fn read(
    pipe: Receiver,
    said: Option<mpsc::UnboundedSender<(Instant, Said)>>,
    printed: Arc<Mutex<Printed>>,
) {
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(LINE_MOST).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        let at = now();
        let text = String::from_utf8_lossy(&line);
        match (&said, parse(text.trim_end())) {
            (Some(sender), said) if !matches!(said, Said::Other(_)) => {
                if sender.send((at, said)).is_err() {
                    return;
                }
            }
            _ => {
                let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
                printed.keep(text.trim_end(), said.is_some());
            }
        }
    }
}

impl Printed {
    /// Keeps a line; `could_answer` where answers come from.
    fn keep(&mut self, line: &str, could_answer: bool) {
        let line = plain(&line.chars().take(KEPT_CHARS).collect::<String>()).into_owned();
        if could_answer && !line.is_empty() {
            self.last = Some(line.clone());
        }
        if self.lines.len() >= KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}
