//! The server of the test world: strings with expiry, and the two lock scripts.
//!
//! Invariant: it knows what these tests send, and panics at anything else.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::Command;
use crate::env::CallError;
use crate::reply::{Reply, ServerError};
use crate::script::Script;
use crate::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};

#[derive(Default)]
pub(super) struct Server {
    /// Values, and when they expire, in nanoseconds.
    pub(super) keys: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    pub(super) known_scripts: BTreeSet<String>,
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
        match command.name() {
            b"SET" => {
                assert_eq!((arg(3), arg(4)), (&b"NX"[..], &b"PX"[..]));
                if self.get(arg(1), now_ns).is_some() {
                    return Ok(Reply::Nil);
                }
                self.keys.insert(arg(1).into(), (arg(2).into(), ms_from_now(arg(5))));
                Ok(Reply::Ok)
            }
            b"DEL" => Ok(Reply::Int(i64::from(self.keys.remove(arg(1)).is_some()))),
            b"EVALSHA" | b"EVAL" => {
                let body = std::str::from_utf8(arg(1)).unwrap();
                let scripts = [&*COMPARE_AND_DELETE, &*COMPARE_AND_EXTEND];
                let script = scripts.into_iter().find(|known| {
                    body == if command.name() == b"EVAL" { known.text() } else { known.sha1() }
                });
                let script = script.expect("a script of ours");
                if command.name() == b"EVAL" {
                    self.known_scripts.insert(script.sha1().into());
                } else if !self.known_scripts.contains(body) {
                    return Err(ServerError::from_line("NOSCRIPT No matching script.").into());
                }
                let deletes = script.text() == COMPARE_AND_DELETE.text();
                match self.get(arg(3), now_ns) {
                    None => Ok(Reply::Int(0)),
                    Some(owner) if owner != arg(4) => Ok(Reply::Int(-1)),
                    Some(_) if deletes => {
                        self.keys.remove(arg(3));
                        Ok(Reply::Int(1))
                    }
                    Some(owner) => {
                        self.keys.insert(arg(3).into(), (owner, ms_from_now(arg(5))));
                        Ok(Reply::Int(1))
                    }
                }
            }
            name => panic!("this server does not know {}", name.escape_ascii()),
        }
    }
}

/// What a test calls this command.
pub(super) fn name_of(command: &Command) -> &'static str {
    let body = command.get(1).unwrap_or_default();
    let is = |script: &Script| body == script.text().as_bytes() || body == script.sha1().as_bytes();
    match command.name() {
        b"SET" => "SET",
        b"DEL" => "DEL",
        _ if is(&COMPARE_AND_DELETE) => "DELETE",
        _ if is(&COMPARE_AND_EXTEND) => "EXTEND",
        name => panic!("no name for {}", name.escape_ascii()),
    }
}
