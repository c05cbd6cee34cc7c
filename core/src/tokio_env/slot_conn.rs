//! A connection that follows one slot of a cluster: after MOVED or ASK, which say that a command was not
//! carried out and where the slot is, the command is sent there.
//!
//! Invariant: the commands of one such connection are carried out in the order of the calls, or else the
//! connection reports that it is abandoned. Clean-ups rely on that ([`Conn`](crate::env::Conn)): an answer in
//! epoch 0 proves that the acquisition before it has been carried out or never will be. It holds because
//!
//! - each node has one server connection for as long as this connection lives, so a node that answers a
//!   later command has processed the earlier ones;
//! - a command goes first to the owner of the slot as far as this connection knows, and only that owner's
//!   own MOVED changes it, or that it serves the slot no more (CLUSTERDOWN) and another node names another
//!   owner, *before* the redirected command is sent on. So a clean-up goes where its
//!   acquisition went. If the slot has left that node since, the answer that says so came after the
//!   acquisition: if that was carried out, its key has moved with the slot, and the clean-up finds it where
//!   it is redirected to;
//! - a node that does not own the slot creates no key, unless ASKING came before the command. While such a
//!   command has no answer, the next one would begin at another node and might overtake it. So this
//!   connection counts as abandoned until the command is answered, and a clean-up that begins meanwhile
//!   does not trust *missing*, but asks until its linger time is over.
//!
//! TRYAGAIN, and CLUSTERDOWN where no other owner is known, are not retried here: the lock waits for them to pass.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::addr::Addr;
use super::cluster::ClusterNodes;
use super::server_conn::ServerConn;
use crate::command::Command;
use crate::env::CallError;
use crate::reply::{Reply, ServerError};
use crate::sync::lock;

/// How many redirections a command follows: more than a slot that moves once needs, and few enough to end a loop
/// of nodes that redirect to each other.
const HOPS: usize = 5;

pub(super) struct SlotConn {
    nodes: Arc<ClusterNodes>,
    slot: u16,
    route: Mutex<SlotRoute>,
    /// How many commands without an answer were sent to a node other than the slot's owner.
    unordered: AtomicUsize,
}

struct SlotRoute {
    /// The slot's owner, as far as this connection knows.
    owner: Addr,
    /// The node that has answered last.
    last: Addr,
    conns: BTreeMap<Addr, ServerConn>,
}

/// Where a command is to be sent, according to a node that has not carried it out.
#[derive(Debug, PartialEq, Eq)]
struct Redirect {
    to: Addr,
    asking: bool,
}

impl Redirect {
    /// Reads the error of the node at `from`; none where it is no redirection.
    fn read(error: &ServerError, from: &Addr) -> Option<Self> {
        let asking = match &*error.code {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (_slot, addr) = error.message.split_once(' ')?;
        let (host, port) = addr.trim_end().rsplit_once(':')?;
        // Without a host, the node's own is meant.
        let host = if matches!(host, "" | "?") { &from.host } else { host };
        Some(Self { to: Addr::new(host, port.parse().ok()?), asking })
    }
}

impl SlotConn {
    /// A connection that starts at the owner of this slot.
    pub(super) async fn begin(nodes: &Arc<ClusterNodes>, slot: u16) -> Result<Self, CallError> {
        let (owner, conn) = nodes.owner(slot).await?;
        let conns = BTreeMap::from([(owner.clone(), conn)]);
        let route = Mutex::new(SlotRoute { last: owner.clone(), owner, conns });
        Ok(Self { nodes: Arc::clone(nodes), slot, route, unordered: AtomicUsize::new(0) })
    }

    pub(super) async fn is_usable(&self) -> bool {
        let conn = {
            let route = lock(&self.route);
            if route.conns.values().any(ServerConn::is_broken) {
                return false;
            }
            route.conns.get(&route.owner).cloned()
        };
        match conn {
            Some(conn) => self.is_in_order() && conn.is_usable().await,
            None => false,
        }
    }

    fn is_in_order(&self) -> bool {
        self.unordered.load(Ordering::Relaxed) == 0
    }

    pub(super) fn gave_up(&self, silence: Duration) -> bool {
        let route = lock(&self.route);
        let silent = route.conns.values().filter(|conn| conn.gave_up(silence)).count();
        silent > 0 || !self.is_in_order()
    }

    pub(super) async fn call(&self, command: &Command) -> Result<Reply, CallError> {
        // WAIT concerns the last write, on whichever node that was.
        let mut at = {
            let route = lock(&self.route);
            if command.name() == b"WAIT" { route.last.clone() } else { route.owner.clone() }
        };
        let mut asking = false;
        for _ in 0..=HOPS {
            let conn = self.conn(&at).await?;
            let is_unordered = asking || lock(&self.route).owner != at;
            if is_unordered {
                self.unordered.fetch_add(1, Ordering::Relaxed);
            }
            let answer = match asking {
                true => conn.call_asking(command).await,
                false => conn.call(command).await,
            };
            // Where this future is dropped, or there is no answer, the count stays up for good.
            let answered = !answer.as_ref().is_err_and(CallError::is_indeterminate);
            if is_unordered && answered {
                self.unordered.fetch_sub(1, Ordering::Relaxed);
            }
            let redirect = match &answer {
                Err(CallError::Refused(error)) if &*error.code == "CLUSTERDOWN" => {
                    let other = self.nodes.other_owner(self.slot, &at).await;
                    other.map(|to| Redirect { to, asking: false })
                }
                Err(CallError::Refused(error)) => Redirect::read(error, &at),
                _ => None,
            };
            let Some(Redirect { to, asking: asks }) = redirect else {
                if answered {
                    lock(&self.route).last = at;
                }
                return answer;
            };
            if !asks {
                self.learn(&at, &to);
            }
            tracing::debug!(slot = self.slot, from = %at, %to, asks, "led on");
            (at, asking) = (to, asks);
        }
        // Every node has answered that it carried nothing out.
        Err(CallError::NotSent(format!("slot {} is led on from node to node", self.slot).into()))
    }

    /// The connection to this node, always the same one.
    async fn conn(&self, addr: &Addr) -> Result<ServerConn, CallError> {
        let known = lock(&self.route).conns.get(addr).cloned();
        if let Some(conn) = known {
            return Ok(conn);
        }
        let made = self.nodes.host(addr)?.conn(self.nodes.options).await?;
        Ok(lock(&self.route).conns.entry(addr.clone()).or_insert(made).clone())
    }

    /// Notes a MOVED from the owner. One from another node says nothing about the order.
    fn learn(&self, from: &Addr, to: &Addr) {
        let mut route = lock(&self.route);
        if route.owner == *from {
            route.owner = to.clone();
            drop(route);
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
