//! A real server and the model side by side, and a sequence run on both.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use picklock::time::WallTime;
use redis_model::model::{ConnectionId, Model, Submitted};
use redis_model::options::ModelOptions;
use resp::{Reply, encode};
use scenarios::topology::{AppendOnly, Software};

use super::commands::{CLIENTS, Draw};
use super::server::{Connection, RealServer, on_path};
use super::stream::{same_streams, writes};
use super::wire::{agree, show, unordered};

/// The real time: the real server can be told no other.
#[expect(clippy::disallowed_methods, reason = "the real server reads the real clock")]
pub(crate) fn now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    WallTime::from_unix_ns(u64::try_from(since.as_nanos()).expect("before 2554"))
}

/// Changes the model's replies on their way to the comparison, which must notice it.
pub(crate) type Tamper = fn(&[Vec<u8>], Reply) -> Reply;

/// How often each command has succeeded and failed.
pub(crate) type Tally = BTreeMap<String, (u64, u64)>;

/// Clients of one server, and the same ones of the model. The last one asks for the test itself.
pub(crate) struct Pair {
    binary: PathBuf,
    server: RealServer,
    real: Vec<Connection>,
    model: Model,
    clients: Vec<ConnectionId>,
    tamper: Option<Tamper>,
    pub(crate) tally: RefCell<Tally>,
}

const JUDGE: usize = CLIENTS;

impl Pair {
    pub(crate) fn new(tamper: Option<Tamper>) -> Self {
        Self::of(on_path(), Software::Redis70, tamper)
    }

    /// This server, and the model of this one.
    pub(crate) fn of(binary: PathBuf, software: Software, tamper: Option<Tamper>) -> Self {
        let server = RealServer::start(&binary);
        let options =
            ModelOptions { append_only: AppendOnly::Unsynced, software, ..ModelOptions::default() };
        let mut pair = Self {
            binary,
            real: Vec::new(),
            server,
            model: Model::new(options),
            clients: Vec::new(),
            tamper,
            tally: RefCell::default(),
        };
        pair.connect();
        pair.start_over("2");
        pair
    }

    /// New connections, to a new server if the old one has ended.
    fn connect(&mut self) {
        if !self.server.runs() {
            self.server = RealServer::start(&self.binary);
        }
        self.real = (0..=JUDGE).map(|_| self.server.connect()).collect();
        // Keys whose time has passed go when a command meets them, in both alike.
        self.real[JUDGE].call(&[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"]);
    }

    /// Both servers as new, as far as replies show.
    pub(crate) fn start_over(&mut self, protocol: &str) {
        let mut was_waiting = false;
        for who in 0..CLIENTS {
            if self.clients.get(who).is_some_and(|client| self.model.is_blocked(*client)) {
                self.real[who] = self.server.connect();
                was_waiting = true;
            }
        }
        self.model.reset();
        self.clients = (0..=JUDGE).map(|_| self.model.connect(now(), "127.0.0.1:1")).collect();
        if was_waiting {
            // A server that has not seen the end of a waiting client yet would serve it once more.
            self.wait_until_it_waits().expect("nobody waits any more");
        }
        let hello = ["HELLO", protocol];
        for who in 0..CLIENTS {
            self.ask(who, &["RESET"]);
            self.ask(who, &hello);
        }
        for line in [
            &["CONFIG", "SET", "notify-keyspace-events", ""][..],
            &["FLUSHALL"],
            &["SCRIPT", "FLUSH"],
            &["CONFIG", "RESETSTAT"],
        ] {
            self.ask(JUDGE, line);
        }
    }

    /// The replies of both to a request that does not block.
    fn ask(&mut self, who: usize, words: &[&str]) -> (Vec<u8>, Vec<u8>) {
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let real = self.real[who].call(&args);
        let reply = self.model.execute(now(), self.clients[who], &args);
        (real, self.encoded(who, &reply))
    }

    /// The replies of both to one of the fixed requests.
    pub(crate) fn both(&mut self, who: usize, command: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
        self.both_unless_it_ends(who, command).expect("an answer")
    }

    /// The replies of both; an error where the real server has crashed, and is started anew.
    pub(crate) fn both_unless_it_ends(
        &mut self,
        who: usize,
        command: &[Vec<u8>],
    ) -> Result<(Vec<u8>, Vec<u8>), String> {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let reply = self.model.execute(now(), self.clients[who], &args);
        self.real[who].send(&args);
        match self.real[who].receive(messages(&reply)) {
            Ok(real) => Ok((real, self.encoded(who, &reply))),
            Err(why) => {
                self.server = RealServer::start(&self.binary);
                self.connect();
                Err(why)
            }
        }
    }

    /// What a monitor is shown by both while another client sends these, without time and address.
    pub(crate) fn shown(&mut self, commands: &[&[&str]]) -> [Vec<String>; 2] {
        self.ask(0, &["MONITOR"]);
        commands.iter().for_each(|words| drop(self.ask(1, words)));
        let mut lines = Vec::new();
        self.model.drain_outbox(|_, reply| lines.push(reply));
        let real = self.real[0].receive(lines.len()).expect("as many lines");
        let mine: Vec<u8> = lines.iter().flat_map(|line| self.encoded(0, line)).collect();
        let rest = self.real[0].unread();
        [[real, rest].concat(), mine].map(|bytes| {
            let known = |line: &str| {
                let (place, words) = line.split_once("] ")?;
                let source = place.rsplit_once('[')?.1;
                let (db, who) = source.split_once(' ')?;
                Some(format!("{db} {} {words}", if who == "lua" { "script" } else { "client" }))
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.lines().map(|line| known(line).unwrap_or_else(|| line.to_owned())).collect()
        })
    }

    /// What a client hears of its subscription from both while another one sends these.
    pub(crate) fn heard(&mut self, pattern: &str, commands: &[&[&str]]) -> [Vec<u8>; 2] {
        self.ask(0, &["PSUBSCRIBE", pattern]);
        commands.iter().for_each(|words| drop(self.ask(1, words)));
        let mut messages = Vec::new();
        self.model.drain_outbox(|_, reply| messages.push(reply));
        let mine = messages.iter().flat_map(|message| self.encoded(0, message)).collect();
        let real = self.real[0].receive(messages.len()).unwrap_or_else(String::into_bytes);
        [[real, self.real[0].unread()].concat(), mine]
    }

    fn encoded(&self, who: usize, reply: &Reply) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(reply, self.model.protocol(self.clients[who]), &mut bytes);
        bytes
    }

    /// Runs a sequence on both from the beginning.
    ///
    /// # Errors
    /// The first difference, with what led to it.
    pub(crate) fn run(&mut self, draws: &[Option<Draw>], protocol: &str) -> Result<(), String> {
        let outcome = self.compare(draws, protocol);
        if outcome.is_err() {
            // What has not been read must not be taken for an answer later.
            self.connect();
        }
        outcome
    }

    fn compare(&mut self, draws: &[Option<Draw>], protocol: &str) -> Result<(), String> {
        self.start_over(protocol);
        let (file_start, stream_start) = (self.server.file_length(), self.model.offset());
        let mut story = format!("clients that speak RESP{protocol}:\n");
        let mut in_multi = [false; CLIENTS];
        for draw in draws.iter().flatten() {
            let who = draw.who;
            if self.model.is_blocked(self.clients[who]) {
                continue;
            }
            let Some(command) = draw.command(in_multi[who]) else { continue };
            story.push_str(&format!("client {who}: {}\n", show(&command)));
            let reply = self.step(who, &command).map_err(|difference| {
                format!("redis-server and the model differ at the end of\n{story}{difference}")
            })?;
            let queued = reply == Some(Reply::status("QUEUED"));
            let verb = command[0].to_ascii_lowercase();
            match (&verb[..], &reply) {
                (b"multi", Some(Reply::Ok)) => in_multi[who] = true,
                (b"exec" | b"discard" | b"reset", _) if !queued => {
                    in_multi[who] &= command.len() > 1 && verb != b"exec";
                }
                _ => {}
            }
            if let Some(reply) = reply.filter(|_| !queued) {
                self.count(&command, &reply);
            }
        }
        let statistics = self.compare_statistics();
        for who in 0..CLIENTS {
            let unread = self.real[who].unread();
            if !unread.is_empty() {
                let unread = unread.escape_ascii();
                return Err(format!("after\n{story}redis has told client {who} also: {unread}"));
            }
        }
        statistics.map_err(|why| format!("statistics differ after\n{story}{why}"))?;
        let written = writes(&self.server.file_from(file_start));
        let mut stream = Vec::new();
        self.model.copy_stream(stream_start, self.model.offset(), &mut stream);
        let said = writes(&stream);
        if !same_streams(&written, &said) {
            let [written, said] = [written, said].map(|writes| {
                let lines = writes.iter().map(|(db, words)| format!("  {db}: {}\n", show(words)));
                lines.collect::<String>()
            });
            return Err(format!(
                "what is propagated differs after\n{story}redis:\n{written}model:\n{said}"
            ));
        }
        Ok(())
    }

    fn count(&self, command: &[Vec<u8>], reply: &Reply) {
        let lower = |word: &Vec<u8>| String::from_utf8_lossy(word).to_ascii_lowercase();
        let mut name = lower(&command[0]);
        if matches!(&name[..], "client" | "config" | "script" | "command" | "pubsub")
            && let Some(sub) = command.get(1).filter(|sub| sub.len() > 1)
        {
            name = format!("{name} {}", lower(sub));
        }
        let mut tally = self.tally.borrow_mut();
        let count = tally.entry(name).or_default();
        if reply.is_error() { count.1 += 1 } else { count.0 += 1 }
    }

    /// One request on both, and whatever other clients hear of it. None: the client waits.
    fn step(&mut self, who: usize, command: &[Vec<u8>]) -> Result<Option<Reply>, String> {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        self.real[who].send(&args);
        let mut outcome = self.model.submit(now(), self.clients[who], &args);
        if outcome == Submitted::Blocked
            && let Some(deadline) = self.model.next_deadline()
        {
            // Nobody else acts until the time is over, or it would be a race.
            self.model.unblock_due(deadline);
            self.model.drain_outbox(|_, reply| outcome = Submitted::Reply(reply));
        }
        if outcome == Submitted::Blocked {
            self.wait_until_it_waits()?;
        }
        let mut messages_to = Vec::new();
        let clients = &self.clients;
        self.model.drain_outbox(|client, reply| {
            let whom = clients.iter().position(|other| *other == client).unwrap_or(JUDGE);
            messages_to.push((whom, reply));
        });
        let mut own = Vec::new();
        for (whom, message) in messages_to {
            let mine = self.encoded(whom, &message);
            // Of keys that a command touches, its client hears before, in or after the reply, as it comes; and of
            // all that a transaction does.
            let is_free = mine.windows(5).any(|part| part == b"__key")
                || command[0].eq_ignore_ascii_case(b"EXEC");
            if whom == who && is_free {
                own.push(mine);
                continue;
            }
            let real = self.real[whom].receive(1)?;
            if real != mine {
                return Err(difference(&format!("what client {whom} hears\n"), &real, &mine));
            }
        }
        let Submitted::Reply(reply) = outcome else { return Ok(None) };
        let reply = self.tamper.map_or(reply.clone(), |tamper| tamper(command, reply.clone()));
        let real = self.real[who]
            .receive(messages(&reply) + own.len())
            .map_err(|why| format!("{why}\nmodel: {}", self.encoded(who, &reply).escape_ascii()))?;
        let mine = self.encoded(who, &reply);
        let agreed = if own.is_empty() {
            agree(command, &real, &mine)
        } else {
            unordered(&real) == unordered(&[mine.clone(), own.concat()].concat())
        };
        match agreed {
            true => Ok(Some(reply)),
            false => Err(difference("", &real, &mine)),
        }
    }

    /// Without an answer, only INFO tells that the request has come to the real server.
    fn wait_until_it_waits(&mut self) -> Result<(), String> {
        let waiting = self.clients.iter().filter(|client| self.model.is_blocked(**client)).count();
        let expected = format!("blocked_clients:{waiting}\r\n");
        for _ in 0..2_000 {
            let info = self.real[JUDGE].call(&[b"INFO", b"clients"]);
            if String::from_utf8_lossy(&info).contains(&expected) {
                return Ok(());
            }
        }
        Err("redis: does not wait\nmodel: waits".to_owned())
    }

    /// Calls, rejected and failed calls of every command, and hits and misses of keys.
    fn compare_statistics(&mut self) -> Result<(), String> {
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let wanted = |line: &&str| {
                ["cmdstat_", "keyspace_hits", "keyspace_misses", "total_error_replies"]
                    .iter()
                    .any(|start| line.starts_with(start))
                    && !line.starts_with("cmdstat_info")
            };
            let timeless = |line: &str| {
                let fields = line.split(',').filter(|field| !field.starts_with("usec"));
                fields.collect::<Vec<_>>().join(",")
            };
            let mut lines: Vec<String> = text.lines().filter(wanted).map(timeless).collect();
            lines.sort();
            lines
        };
        let (real, mine) = self.ask(JUDGE, &["INFO", "all"]);
        let (real, mine) = (lines(&real), lines(&mine));
        let only = |these: &[String], those: &[String]| {
            let only = these.iter().filter(|line| !those.contains(line)).cloned();
            only.collect::<Vec<_>>().join("\n       ")
        };
        if real == mine {
            return Ok(());
        }
        Err(format!("redis: {}\nmodel: {}", only(&real, &mine), only(&mine, &real)))
    }
}

fn difference(what: &str, real: &[u8], mine: &[u8]) -> String {
    format!("{what}redis: {}\nmodel: {}", real.escape_ascii(), mine.escape_ascii())
}

/// Of how many messages a reply is made. A burst in a transaction breaks the count of its array.
fn messages(reply: &Reply) -> usize {
    match reply {
        Reply::Burst(parts) => parts.len(),
        Reply::Array(parts) => 1 + parts.iter().map(|part| messages(part) - 1).sum::<usize>(),
        _ => 1,
    }
}
