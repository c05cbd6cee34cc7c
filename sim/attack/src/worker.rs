//! A worker: a process of the user's command that locks when it is told to.
//!
//! Invariant: a wait for a worker always returns: with its answer, with its end, or when its time is over. However much
//! it prints, only a bounded part is kept.

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
/// How many of the last lines that are no answers are kept.
const KEPT_LINES: usize = 20;
/// How much of each of them is kept.
const KEPT_CHARS: usize = 300;

/// Why a worker cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorkerError {
    /// It could not be started.
    #[error("cannot start the worker: {0}")]
    Start(String),
    /// The machine has no room for it.
    #[error("cannot start the worker: {0}")]
    NoRoom(String),
    /// It has ended.
    #[error("the worker ended ({status}){printed}")]
    Ended {
        /// How.
        status: String,
        /// Its last lines, as part of the message.
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
        /// Its last lines, as part of the message.
        printed: String,
    },
}

impl WorkerError {
    /// Whether what it has said cannot be read.
    pub(crate) const fn is_misspelt(&self) -> bool {
        matches!(self, Self::Misspelt { .. })
    }
}

impl From<ProgramError> for WorkerError {
    fn from(error: ProgramError) -> Self {
        match error {
            ProgramError::NotRun(why) => Self::Start(why),
            other => Self::NoRoom(other.to_string()),
        }
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
    /// It is not like a new one any more, and is used in no further plan.
    pub(crate) spent: bool,
}

/// What a worker has printed besides answers.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub(crate) lines: VecDeque<String>,
    /// The last line that came in place of an answer, since the last order.
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
        let (lost, spent) = (None, false);
        let mut worker = Self { program, stdin, said, printed, promises, lost, ended, spent };
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

    /// Gives it an order and waits for the answer; returns when that was read, and the answer.
    ///
    /// # Errors
    /// [`WorkerError`], after which the worker cannot be used any more.
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
        // If a worker does not read, its pipe is full after thousands of orders. One whose pipe is closed has ended, or is
        // silent as well.
        let _ = self.stdin.write_all(line.as_bytes()).await;
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
                    // Its last lines may still be in its pipes.
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
                // Before `ready` no answer is expected, and after it no second `ready`.
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
            // An answer without an order.
            said @ (Said::Answer(_) | Said::Ready(_)) => {
                self.printed().keep(&format!("{said:?}"), false);
            }
        }
    }

    /// Its last lines that were no answers, as part of a message.
    fn last_words(&self) -> String {
        self.words_besides().unwrap_or_else(|| {
            String::from("; it printed nothing more (does it flush its output after each line?)")
        })
    }

    /// The same, if there are any.
    pub(crate) fn words_besides(&self) -> Option<String> {
        let printed = self.printed();
        let lines: Vec<&str> = printed.lines.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| format!("; it printed:\n{}", lines.join("\n")))
    }

    /// The line it printed in place of an answer to this order, as part of a message.
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

/// How long the last lines of a process may take to arrive.
const DRAIN: Duration = Duration::from_millis(50);

/// Reads lines until the pipe is closed. Without a sender no line is an answer.
pub(crate) async fn read(
    pipe: Receiver,
    said: Option<mpsc::UnboundedSender<(Instant, Said)>>,
    printed: Arc<Mutex<Printed>>,
) {
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    let mut is_rest = false;
    loop {
        line.clear();
        let read = (&mut lines).take(LINE_MOST).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        // Nothing of a long line but its beginning is looked at: its rest is no line, and no answer.
        let was_rest = std::mem::replace(&mut is_rest, !line.ends_with(b"\n"));
        if was_rest {
            continue;
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
    /// Keeps a line; `could_answer` says whether answers come from this pipe.
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

#[cfg(test)]
mod tests {
    use tokio::net::unix::pipe;

    use super::*;

    #[tokio::test]
    async fn the_rest_of_a_long_line_is_no_answer() {
        let (mut writer, reader) = pipe::pipe().unwrap();
        let long = "x".repeat(usize::try_from(LINE_MOST).unwrap());
        let lines = format!("{long}ok\n{long}lost\nno\n");
        writer.write_all(lines.as_bytes()).await.unwrap();
        drop(writer);
        let (sender, mut said) = mpsc::unbounded_channel();
        read(reader, Some(sender), Arc::default()).await;
        let said: Vec<Said> = std::iter::from_fn(|| said.try_recv().ok()).map(|it| it.1).collect();
        assert_eq!(said, [Said::Answer(WorkerAnswer::No)]);
    }
}
