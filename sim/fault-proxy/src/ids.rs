//! What rules, effects and records refer to: clients, connections and directions.

use picklock::env::Node;
use serde::Serialize;

/// One client of a run, by its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// The request on its way to the server, or the reply on its way back. The log names the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Side {
    /// Before the server sees the command.
    #[serde(rename = "requests")]
    Request,
    /// After the server has carried it out.
    #[serde(rename = "replies")]
    Reply,
}

/// Which directions of a link are cut.
///
/// What is sent meanwhile is withheld, not lost, as TCP sends again until it gets through: after
/// the heal it all arrives, in order, even what a client sent before it gave up and closed. The
/// ends of connections are withheld as well. A new connection is accepted by this machine's kernel,
/// so the client's connect succeeds, and then nothing happens until the heal. To lose what is in
/// flight, follow with [`Link::reset_connections`](super::Link::reset_connections).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// Both directions work.
    #[default]
    None,
    /// Requests do not reach the server; replies still reach the client.
    Requests,
    /// Replies do not reach the client; requests still reach the server.
    Replies,
    /// Nothing gets through.
    Both,
}

impl Cut {
    pub(super) fn requests(self) -> bool {
        matches!(self, Self::Requests | Self::Both)
    }

    pub(super) fn replies(self) -> bool {
        matches!(self, Self::Replies | Self::Both)
    }
}

/// Where something happened: the fixed part of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkConnection {
    pub(super) client: ClientId,
    pub(super) node: Node,
    pub(super) connection: u64,
}
