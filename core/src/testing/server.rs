//! The server of the test world: strings with expiry, the lock scripts, and what later servers have
//! in their place.
//!
//! Invariant: it knows what these tests send, and panics at anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::World;
use crate::command::Command;
use crate::env::{CallError, Node};
use crate::reply::{Reply, ServerError};
use crate::script::Script;
use crate::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND, DELETE_AND_TELL, TRY, TRY_FENCED};

/// The scripts it takes the meaning of for granted, and what a test calls them.
static SCRIPTS: [(&LazyLock<Script>, &str); 5] = [
    (&COMPARE_AND_DELETE, "DELETE"),
    (&COMPARE_AND_EXTEND, "EXTEND"),
    (&DELETE_AND_TELL, "TELL"),
    (&TRY, "TRY"),
    (&TRY_FENCED, "FENCED"),
];

/// What a test sees of servers and does to them, past any client.
impl World {
    /// The value under the key of the first node, if it has not expired.
    pub(crate) fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.value_on(Node(0), key)
    }

    pub(crate) fn value_on(&self, node: Node, key: &str) -> Option<Vec<u8>> {
        let mut state = self.state();
        let now_ns = state.now_ns;
        state.server(node).get(key.as_bytes(), now_ns)
    }

    /// When the key of the first node expires, in nanoseconds.
    pub(crate) fn expiry(&self, key: &str) -> Option<u64> {
        let mut state = self.state();
        state.server(Node(0)).keys.get(key.as_bytes()).map(|(_, expiry_ns)| *expiry_ns)
    }

    /// Sets or removes a key of the first node.
    pub(crate) fn put(&self, key: &str, value: Option<&str>) {
        self.put_on(Node(0), key, value);
    }

    pub(crate) fn put_on(&self, node: Node, key: &str, value: Option<&str>) {
        let mut state = self.state();
        let keys = &mut state.server(node).keys;
        match value {
            Some(value) => keys.insert(key.into(), (value.into(), u64::MAX)),
            None => keys.remove(key.as_bytes()),
        };
    }
}

#[derive(Default)]
pub(super) struct Server {
    /// The commands for compare-and-set that it has, by the names that tests call them.
    pub(super) native: &'static [&'static str],
    /// Counters of fencing tokens.
    counts: BTreeMap<Vec<u8>, i64>,
    /// Values, and when they expire, in nanoseconds.
    pub(super) keys: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    /// By the names that tests call them.
    pub(super) known_scripts: BTreeSet<&'static str>,
    /// Channels and messages, to be handed out after the command.
    pub(super) published: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Server {
    pub(super) fn get(&mut self, key: &[u8], now_ns: u64) -> Option<Vec<u8>> {
        if self.keys.get(key).is_some_and(|(_, expiry_ns)| *expiry_ns <= now_ns) {
            self.keys.remove(key);
        }
        self.keys.get(key).map(|(value, _)| value.clone())
    }

    pub(super) fn execute(&mut self, command: &Command, now_ns: u64) -> Result<Reply, CallError> {
        let arg = |place: usize| command.get(place).unwrap_or_default();
        let ms_from_now = |digits: &[u8]| {
            let ms: u64 = std::str::from_utf8(digits).unwrap().parse().unwrap();
            now_ns.saturating_add(ms.saturating_mul(1_000_000))
        };
        if let name @ ("IFEQ" | "DELEX" | "DELIFEQ") = name_of(command)
            && !self.native.contains(&name)
        {
            let line = match name {
                "IFEQ" => "ERR syntax error".to_owned(),
                name => format!("ERR unknown command '{name}', with args beginning with: 'k' "),
            };
            return Err(ServerError::from_line(&line).into());
        }
        match name_of(command) {
            "IFEQ" => {
                assert_eq!((arg(2), arg(5)), (arg(4), &b"PX"[..]));
                if self.get(arg(1), now_ns).as_deref() != Some(arg(4)) {
                    return Ok(Reply::Nil);
                }
                self.keys.insert(arg(1).into(), (arg(2).into(), ms_from_now(arg(6))));
                Ok(Reply::Ok)
            }
            name @ ("DELEX" | "DELIFEQ") => {
                let token = if name == "DELEX" { arg(3) } else { arg(2) };
                let own = self.get(arg(1), now_ns).as_deref() == Some(token);
                Ok(Reply::Int(i64::from(own && self.keys.remove(arg(1)).is_some())))
            }
            "SET" => {
                assert_eq!((arg(3), arg(4)), (&b"NX"[..], &b"PX"[..]));
                if self.get(arg(1), now_ns).is_some() {
                    return Ok(Reply::Nil);
                }
                self.keys.insert(arg(1).into(), (arg(2).into(), ms_from_now(arg(5))));
                Ok(Reply::Ok)
            }
            // It has no replicas.
            "WAIT" => Ok(Reply::Int(0)),
            "GET" => Ok(self.get(arg(1), now_ns).map_or(Reply::Nil, |value| Reply::bulk(&value))),
            script => {
                if command.name() == b"EVAL" {
                    self.known_scripts.insert(script);
                } else if !self.known_scripts.contains(script) {
                    return Err(ServerError::from_line("NOSCRIPT No matching script.").into());
                }
                let found = self.get(arg(3), now_ns);
                let is_free = found.as_deref().is_none_or(|owner| owner == arg(4));
                if script == "TELL" && is_free {
                    self.published.push((arg(5).into(), b"free".to_vec()));
                }
                match (script, found) {
                    ("TRY" | "FENCED", Some(_)) => {
                        let (_, expiry_ns) = self.keys[arg(3)];
                        let left_ms = match expiry_ns {
                            // It has no TTL.
                            u64::MAX => -1,
                            _ => i64::try_from((expiry_ns - now_ns).div_ceil(1_000_000)).unwrap(),
                        };
                        Ok(Reply::Array(vec![Reply::Int(0), Reply::Int(left_ms)]))
                    }
                    ("TRY", None) => {
                        self.keys.insert(arg(3).into(), (arg(4).into(), ms_from_now(arg(5))));
                        Ok(Reply::Array(vec![Reply::Int(1)]))
                    }
                    ("FENCED", None) => {
                        self.keys.insert(arg(3).into(), (arg(5).into(), ms_from_now(arg(6))));
                        let count = self.counts.entry(arg(4).into()).or_default();
                        *count += 1;
                        Ok(Reply::Array(vec![Reply::Int(1), Reply::Int(*count)]))
                    }
                    (_, None) => Ok(Reply::Int(0)),
                    (_, Some(_)) if !is_free => Ok(Reply::Int(-1)),
                    ("EXTEND", Some(owner)) => {
                        self.keys.insert(arg(3).into(), (owner, ms_from_now(arg(5))));
                        Ok(Reply::Int(1))
                    }
                    (_, Some(_)) => {
                        self.keys.remove(arg(3));
                        Ok(Reply::Int(1))
                    }
                }
            }
        }
    }
}

/// What a test calls this command.
pub(super) fn name_of(command: &Command) -> &'static str {
    let body = command.get(1).unwrap_or_default();
    let is = |script: &Script| body == script.text().as_bytes() || body == script.sha1().as_bytes();
    match command.name() {
        b"SET" if command.get(3) == Some(b"IFEQ") => "IFEQ",
        b"SET" => "SET",
        b"GET" => "GET",
        b"WAIT" => "WAIT",
        b"DELEX" => "DELEX",
        b"DELIFEQ" => "DELIFEQ",
        name => match SCRIPTS.iter().find(|(script, _)| is(script)) {
            Some((_, name)) => name,
            None => panic!("no name for {}", name.escape_ascii()),
        },
    }
}
