//! The witness of a real server: what MONITOR shows of its commands, carried out by the model beside it.
//!
//! Invariant: MONITOR gives the order and the arguments, the model says what they do to keys. Whether the model has
//! done what the server did is checked reply by reply ([`crate::transcript`]).

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use picklock::time::WallTime;

use crate::follower::{Follower, MARKER, MonitorLine};
use crate::seen::ServerLog;

/// How long the server may take to answer MONITOR.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Lines that the server writes in one go come within this time.
const TOGETHER: Duration = Duration::from_millis(50);

/// A connection that is shown every command of a server, and the model that carries them out.
#[derive(Debug)]
pub(crate) struct Monitor {
    stream: TcpStream,
    feeds: Option<Sender<Feed>>,
    /// The number of the last marker that was seen.
    passed: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// A connection to follow.
struct Feed {
    lines: BufReader<TcpStream>,
    /// Whether the server begins without keys.
    empty: bool,
}

impl Monitor {
    /// Has the server show its commands from now on; it must be empty.
    pub(crate) fn start(
        addr: SocketAddr,
        password: Option<&str>,
        log: &ServerLog,
    ) -> io::Result<Self> {
        let (stream, lines) = connect(addr, password)?;
        let passed = Arc::new(AtomicU64::new(0));
        let (feeds, received) = mpsc::channel();
        let _ = feeds.send(Feed { lines, empty: true });
        let (theirs, log) = (Arc::clone(&passed), log.clone());
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || follow(&received, &log, &theirs))?;
        Ok(Self { stream, feeds: Some(feeds), passed, thread: Some(thread) })
    }

    /// Follows a server that was restarted or has replaced the one before. `empty` says that it has no keys.
    pub(crate) fn follow_on(
        &mut self,
        addr: SocketAddr,
        password: Option<&str>,
        empty: bool,
    ) -> io::Result<()> {
        let _ = self.stream.shutdown(Shutdown::Both);
        let (stream, lines) = connect(addr, password)?;
        self.stream = stream;
        let _ = self.feeds.as_ref().map(|feeds| feeds.send(Feed { lines, empty }));
        Ok(())
    }

    /// A text to send to the server: once it [`has_passed`](Self::has_passed), all commands before it were seen.
    pub(crate) fn marker(number: u64) -> String {
        format!("{MARKER}{number}")
    }

    /// Whether this marker was seen.
    pub(crate) fn has_passed(&self, number: u64) -> bool {
        self.passed.load(Ordering::Acquire) >= number
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Then the thread reads the end of the stream, and gets no further connection.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.feeds = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection on which the server shows its commands.
fn connect(
    addr: SocketAddr,
    password: Option<&str>,
) -> io::Result<(TcpStream, BufReader<TcpStream>)> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut ask = |line: String| -> io::Result<()> {
        stream.write_all(line.as_bytes())?;
        let mut answer = String::new();
        lines.read_line(&mut answer)?;
        match answer.trim_end() {
            "+OK" => Ok(()),
            refused => Err(io::Error::other(format!("MONITOR is refused: {refused}"))),
        }
    };
    if let Some(password) = password {
        ask(format!("AUTH {password}\r\n"))?;
    }
    ask(String::from("MONITOR\r\n"))?;
    stream.set_read_timeout(None)?;
    Ok((stream, lines))
}

/// Has a model of the server carry out what each connection shows until it ends.
fn follow(feeds: &Receiver<Feed>, log: &ServerLog, passed: &Arc<AtomicU64>) {
    // The model is not `Send`, so it is made in this thread.
    let mut follower = Follower::new(log, Arc::clone(passed));
    for Feed { mut lines, empty } in feeds {
        if empty {
            follower.forget();
        }
        let mut line = Vec::new();
        loop {
            let waits = follower.keeps().then_some(TOGETHER);
            let _ = lines.get_ref().set_read_timeout(waits);
            match lines.read_until(b'\n', &mut line) {
                Ok(1..) => {
                    shown(&line).into_iter().for_each(|shown| follower.see(shown));
                    line.clear();
                }
                // The part of a line that was read so far stays in `line`.
                Err(error) if is_silence(&error) => follower.settle(),
                Ok(0) | Err(_) => break,
            }
        }
        follower.disconnect();
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads a line of MONITOR: `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
fn shown(line: &[u8]) -> Option<MonitorLine> {
    let line = line.strip_prefix(b"+")?;
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    let open = text.iter().position(|byte| *byte == b'[')?;
    let close = open + text[open..].iter().position(|byte| *byte == b']')?;
    let (seconds, micros) = std::str::from_utf8(&text[..open]).ok()?.trim().split_once('.')?;
    let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let (db, place) = std::str::from_utf8(&text[open + 1..close]).ok()?.split_once(' ')?;
    let from = match place {
        "lua" => None,
        place => Some(place.parse().ok()?),
    };
    let args = resp::split_args(&text[close + 1..])?;
    let (at, db) = (WallTime::from_unix_ns(at_us * 1_000), db.parse().ok()?);
    Some(MonitorLine { at, db, from, args })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_redis_server_writes_it() {
        let line =
            b"+1339518083.107412 [3 127.0.0.1:60866] \"set\" \"a\\\"b\" \"\\x00\\xff\\n\\\\\"\r\n";
        let args = vec![b"set".to_vec(), b"a\"b".to_vec(), b"\0\xff\n\\".to_vec()];
        let at = WallTime::from_unix_ns(1_339_518_083_107_412_000);
        let from = Some("127.0.0.1:60866".parse().unwrap());
        assert_eq!(shown(line), Some(MonitorLine { at, db: 3, from, args }));
        let lua = shown(b"+1.000002 [0 lua] \"get\" \"k\"\r\n").unwrap();
        assert_eq!((lua.from, lua.at.as_unix_ns()), (None, 1_000_002_000));
    }

    #[test]
    fn a_line_that_is_none_is_passed_over() {
        for line in [
            &b"+OK\r\n"[..],
            b"",
            b"-ERR no\r\n",
            b"+1.2 [0 unix:/x] \"get\"\r\n",
            b"+1.2 [0 lua] \"get\r\n",
        ] {
            assert_eq!(shown(line), None);
        }
    }
}
