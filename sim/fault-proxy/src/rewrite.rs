//! Replaces server addresses in replies by those of the client's own links, so that clients stay behind the proxy.
//!
//! Invariant: only the request decides what a reply means. A reply to any other command is unchanged, and in a
//! rewritten one every byte outside the addresses is. INFO is not rewritten: clients do not connect by it.

mod cluster;
mod sentinel;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use bytes::BytesMut;
use resp::frame::{CommandName, FrameKind, RequestFrame, tree::Element};

use super::addresses::Addresses;

/// A query whose reply may name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AddressQuery {
    /// Anything else: only an error reply may name a server.
    #[default]
    Other,
    /// SENTINEL GET-MASTER-ADDR-BY-NAME.
    SentinelAddress,
    /// SENTINEL MASTER: an instance.
    SentinelInstance,
    /// SENTINEL MASTERS, REPLICAS and SENTINELS: several.
    SentinelInstances,
    /// ROLE.
    Role,
    /// CLUSTER SLOTS.
    ClusterSlots,
    /// CLUSTER SHARDS.
    ClusterShards,
    /// CLUSTER NODES, and CLUSTER REPLICAS, which has such lines in a list.
    ClusterNodes,
    /// EXEC, behind these.
    Exec(Vec<AddressQuery>),
    /// Nothing: a published message.
    Message,
}

impl AddressQuery {
    /// The query of this request. For EXEC the session adds the queued ones.
    pub(super) fn of(name: CommandName, request: RequestFrame<'_>) -> Self {
        let word = |place| request.arg(place).map(<[u8]>::to_ascii_uppercase).unwrap_or_default();
        match name.as_bytes() {
            b"ROLE" => Self::Role,
            b"CLUSTER" => match &word(1)[..] {
                b"SLOTS" => Self::ClusterSlots,
                b"SHARDS" => Self::ClusterShards,
                b"NODES" | b"REPLICAS" | b"SLAVES" => Self::ClusterNodes,
                _ => Self::Other,
            },
            b"SENTINEL" => match &word(1)[..] {
                b"GET-MASTER-ADDR-BY-NAME" | b"GET-PRIMARY-ADDR-BY-NAME" => Self::SentinelAddress,
                b"MASTER" | b"PRIMARY" => Self::SentinelInstance,
                b"MASTERS" | b"PRIMARIES" | b"REPLICAS" | b"SLAVES" | b"SENTINELS" => {
                    Self::SentinelInstances
                }
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }

    /// True if this frame has to be inspected.
    pub(super) fn concerns(&self, kind: FrameKind, frame: &[u8]) -> bool {
        match kind {
            FrameKind::Error if frame.first() == Some(&b'-') => {
                frame.starts_with(b"-MOVED ") || frame.starts_with(b"-ASK ")
            }
            FrameKind::Error => true,
            _ => *self != Self::Other,
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rewritten {
    /// The frame that takes its place, if there is one.
    pub(super) bytes: Option<BytesMut>,
    /// Addresses left, which may bypass the proxy.
    pub(super) left: Vec<String>,
}

/// Rewrites a frame from the server whose own address is `own`, as far as that is known.
pub(super) fn rewrite(
    frame: &[u8],
    asked: &AddressQuery,
    addresses: &Addresses,
    own: Option<IpAddr>,
) -> Rewritten {
    let Some(tree) = Element::parse(frame) else {
        let left =
            vec![format!("a reply of {} bytes that is too big to be looked at", frame.len())];
        return Rewritten { bytes: None, left };
    };
    let mut rewriter = Rewriter { frame, addresses, own, edits: Vec::new(), left: Vec::new() };
    rewriter.answer(asked, &tree);
    rewriter.finish()
}

struct Rewriter<'a> {
    frame: &'a [u8],
    addresses: &'a Addresses,
    own: Option<IpAddr>,
    edits: Vec<(Range<usize>, Vec<u8>)>,
    left: Vec<String>,
}

impl<'a> Rewriter<'a> {
    fn answer(&mut self, asked: &AddressQuery, answer: &Element) {
        if matches!(answer.kind, b'-' | b'!') {
            return self.redirection(answer);
        }
        match asked {
            AddressQuery::Other => {}
            AddressQuery::SentinelAddress => self.pair(answer.parts.first(), answer.parts.get(1)),
            AddressQuery::SentinelInstance => self.instance(answer),
            AddressQuery::SentinelInstances => {
                answer.parts.iter().for_each(|one| self.instance(one))
            }
            AddressQuery::Role => self.role(answer),
            AddressQuery::ClusterSlots => self.slots(answer),
            AddressQuery::ClusterShards => self.shards(answer),
            AddressQuery::ClusterNodes if answer.parts.is_empty() => self.nodes(answer),
            AddressQuery::ClusterNodes => answer.parts.iter().for_each(|line| self.nodes(line)),
            AddressQuery::Exec(asked) => {
                let is_whole = asked.len() == answer.parts.len();
                for (place, answer) in answer.parts.iter().enumerate() {
                    let asked =
                        asked.get(place).filter(|_| is_whole).unwrap_or(&AddressQuery::Other);
                    self.answer(asked, answer);
                }
            }
            AddressQuery::Message => self.message(answer),
        }
    }

    /// ROLE: a primary names its replicas, a replica its primary.
    fn role(&mut self, answer: &Element) {
        let [what, first, second, ..] = &answer.parts[..] else { return };
        match what.text_in(self.frame) {
            b"master" => {
                second.parts.iter().for_each(|one| self.pair(one.parts.first(), one.parts.get(1)));
            }
            b"slave" => self.pair(Some(first), Some(second)),
            _ => {}
        }
    }

    /// An adjacent pair of host and port.
    fn pair(&mut self, host: Option<&Element>, port: Option<&Element>) {
        let (Some(host), Some(port)) = (host, port) else { return };
        if let Some(link) = self.link(self.text(host), self.text(port)) {
            self.exchange_host(host, link);
            self.exchange(port, link.port().to_string().as_bytes());
        }
    }

    /// The client's link to this server. An unknown server is noted.
    fn link(&mut self, host: &[u8], port: &[u8]) -> Option<SocketAddr> {
        let port: u16 = std::str::from_utf8(port).ok()?.parse().ok()?;
        // A server with an unknown address.
        if port == 0 {
            return None;
        }
        let link = match (host, self.own) {
            (b"", Some(own)) => self.addresses.link_to((own, port).into()),
            (host, _) => self.addresses.link_to_named(host, port),
        };
        if link.is_none() {
            let left = format!("{}:{port}", host.escape_ascii());
            if !self.left.contains(&left) {
                self.left.push(left);
            }
        }
        link
    }

    /// The same of `host:port`.
    fn link_of(&mut self, place: &[u8]) -> Option<SocketAddr> {
        let colon = place.iter().rposition(|byte| *byte == b':')?;
        self.link(&place[..colon], &place[colon + 1..])
    }

    /// The value behind this name, in a map of either protocol.
    fn field<'e>(&self, map: &'e Element, name: &str) -> Option<&'e Element> {
        let (pairs, _) = map.parts.as_chunks::<2>();
        pairs.iter().find(|[key, _]| self.text(key) == name.as_bytes()).map(|[_, value]| value)
    }

    fn text(&self, element: &Element) -> &'a [u8] {
        element.text_in(self.frame)
    }

    /// Puts a link's host there. A server that leaves its host away means the one it was reached
    /// at, and so do links.
    fn exchange_host(&mut self, host: &Element, link: SocketAddr) {
        if !host.is_null && !host.text.is_empty() {
            self.exchange(host, link.ip().to_string().as_bytes());
        }
    }

    fn exchange(&mut self, element: &Element, text: &[u8]) {
        if self.text(element) != text {
            self.edits.push((element.span.clone(), element.with_text(self.frame, text)));
        }
    }

    fn finish(mut self) -> Rewritten {
        if self.edits.is_empty() {
            return Rewritten { bytes: None, left: self.left };
        }
        self.edits.sort_by_key(|(span, _)| span.start);
        let mut bytes = BytesMut::with_capacity(self.frame.len());
        let mut done = 0;
        for (span, instead) in self.edits {
            bytes.extend_from_slice(&self.frame[done..span.start]);
            bytes.extend_from_slice(&instead);
            done = span.end;
        }
        bytes.extend_from_slice(&self.frame[done..]);
        Rewritten { bytes: Some(bytes), left: self.left }
    }
}

/// The words of a text, with exactly one blank between two of them, as servers write it.
fn words(text: &[u8]) -> Vec<&[u8]> {
    text.split(|byte| *byte == b' ').collect()
}

#[cfg(test)]
mod tests;
