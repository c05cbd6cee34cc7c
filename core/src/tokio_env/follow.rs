//! A connection that follows one slot of a cluster: MOVED and ASK say that a command was not carried
//! out and where it belongs, so it is sent there.
//!
//! Invariant: what is called on one such connection is carried out in the order of the calls, which is
//! what a clean-up relies on ([`Conn`](crate::env::Conn)), or else the connection says that it has been
//! given up. The lock's own words for it are the first turn of a link: an answer there proves that the
//! acquisition before it has been carried out or never will be. That holds here because
//!
//! - every node is spoken to over one wire for as long as this connection lives, so a node that
//!   answers a later command has seen the earlier ones;
//! - a command goes first to the node that owns the slot as far as this connection knows, and that
//!   node changes only by its own word, MOVED, and *before* the redirected command is sent on. So a
//!   clean-up goes to where its acquisition went, and if the slot has left there since, the answer
//!   that says so has come behind the acquisition: if that was carried out, its key has left with the
//!   slot, and is found where the clean-up is led;
//! - a node that does not own the slot creates no key, unless ASKING came before the command. While
//!   such a command is without an answer, the next one would begin elsewhere and might overtake it.
//!   So this connection counts as given up from when such a command is sent until it is answered, and
//!   a clean-up that begins meanwhile trusts no *missing*, but asks until its linger time is over.
//!
//! Deliberately absent: trying again. TRYAGAIN and CLUSTERDOWN are the lock's to wait for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::cluster::Nodes;
use super::host::Addr;
use super::wire::Wire;
use crate::command::Command;
use crate::env::CallError;
use crate::reply::{Reply, ServerError};
use crate::sync::lock;

/// How often a command is led on. A slot that moves faster than that is in nobody's hands.
const HOPS: usize = 5;

pub(super) struct Followed {
    nodes: Arc<Nodes>,
    slot: u16,
    way: Mutex<Way>,
    /// Commands that have been sent to another node than the slot's, and have had no answer.
    aside: AtomicUsize,
}

struct Way {
    /// The slot's owner, as far as this connection has been told.
    owner: Addr,
    /// Who has answered last.
    last: Addr,
    wires: BTreeMap<Addr, Wire>,
}

/// Where a command belongs, by the word of a node that has not carried it out.
#[derive(Debug, PartialEq, Eq)]
struct Redirect {
    to: Addr,
    asking: bool,
}

impl Redirect {
    /// Reads what the node at `from` has answered.
    fn read(error: &ServerError, from: &Addr) -> Option<Self> {
        let asking = match &*error.code {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (_slot, addr) = error.message.split_once(' ')?;
        let (host, port) = addr.trim_end().rsplit_once(':')?;
        // No name means the node's own host.
        let host = if matches!(host, "" | "?") { &from.host } else { host };
        Some(Self { to: Addr::new(host, port.parse().ok()?), asking })
    }
}

impl Followed {
    /// A connection that begins with the owner of this slot.
    pub(super) async fn begin(nodes: &Arc<Nodes>, slot: u16) -> Result<Self, CallError> {
        let (owner, wire) = nodes.owner(slot).await?;
        let wires = BTreeMap::from([(owner.clone(), wire)]);
        let way = Mutex::new(Way { last: owner.clone(), owner, wires });
        Ok(Self { nodes: Arc::clone(nodes), slot, way, aside: AtomicUsize::new(0) })
    }

    /// The slot's owner, as far as this connection has been told.
    pub(super) fn owner(&self) -> Addr {
        lock(&self.way).owner.clone()
    }

    pub(super) async fn is_usable(&self) -> bool {
        let wire = {
            let way = lock(&self.way);
            if way.wires.values().any(Wire::is_broken) {
                return false;
            }
            way.wires.get(&way.owner).cloned()
        };
        match wire {
            Some(wire) => self.is_in_order() && wire.is_usable().await,
            None => false,
        }
    }

    fn is_in_order(&self) -> bool {
        self.aside.load(Ordering::Relaxed) == 0
    }

    pub(super) fn gave_up(&self, silence: Duration) -> bool {
        let way = lock(&self.way);
        let silent = way.wires.values().filter(|wire| wire.gave_up(silence)).count();
        silent > 0 || !self.is_in_order()
    }

    pub(super) async fn call(&self, command: &Command) -> Result<Reply, CallError> {
        // WAIT is about what was written last, wherever that was.
        let mut at = {
            let way = lock(&self.way);
            if command.name() == b"WAIT" { way.last.clone() } else { way.owner.clone() }
        };
        let mut asking = false;
        for _ in 0..=HOPS {
            let wire = self.wire(&at).await?;
            let aside = asking || self.owner() != at;
            if aside {
                self.aside.fetch_add(1, Ordering::Relaxed);
            }
            let answer = match asking {
                true => wire.call_asking(command).await,
                false => wire.call(command).await,
            };
            // One that was abandoned, or has no answer, is aside for ever.
            let answered = !answer.as_ref().is_err_and(CallError::is_indeterminate);
            if aside && answered {
                self.aside.fetch_sub(1, Ordering::Relaxed);
            }
            let redirect = match &answer {
                Err(CallError::Refused(error)) => Redirect::read(error, &at),
                _ => None,
            };
            let Some(Redirect { to, asking: asks }) = redirect else {
                if answered {
                    lock(&self.way).last = at;
                }
                return answer;
            };
            if !asks {
                self.learn(&at, &to);
            }
            tracing::debug!(slot = self.slot, from = %at, %to, asks, "led on");
            (at, asking) = (to, asks);
        }
        // Every node has said that it carried nothing out.
        Err(CallError::NotSent(format!("slot {} is led on from node to node", self.slot).into()))
    }

    /// The wire to this node, always the same.
    async fn wire(&self, addr: &Addr) -> Result<Wire, CallError> {
        let known = lock(&self.way).wires.get(addr).cloned();
        if let Some(wire) = known {
            return Ok(wire);
        }
        let made = self.nodes.host(addr)?.wire(self.nodes.options).await?;
        Ok(lock(&self.way).wires.entry(addr.clone()).or_insert(made).clone())
    }

    /// The word of an owner that it is one no more. Who has not been the owner says nothing new.
    fn learn(&self, from: &Addr, to: &Addr) {
        let mut way = lock(&self.way);
        if way.owner == *from {
            way.owner = to.clone();
            drop(way);
            self.nodes.moved(self.slot, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_names_a_node() {
        let from = Addr::new("here", 1);
        let read = |line: &str| Redirect::read(&ServerError::from_line(line), &from);
        let to = |host: &str, port, asking| Some(Redirect { to: Addr::new(host, port), asking });
        assert_eq!(read("MOVED 3999 127.0.0.1:6381"), to("127.0.0.1", 6381, false));
        assert_eq!(read("ASK 3999 127.0.0.1:6381"), to("127.0.0.1", 6381, true));
        assert_eq!(read("MOVED 3999 ::1:6381"), to("::1", 6381, false));
        assert_eq!(read("MOVED 3999 :6381"), to("here", 6381, false));
        assert_eq!(read("MOVED 3999 ?:6381"), to("here", 6381, false));
        for other in ["MOVED", "MOVED 3999", "MOVED 3999 host", "ASK 1 h:70000", "TRYAGAIN 1 h:2"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
