//! Addresses in replies of cluster nodes: the owner of a slot, and the members.
//!
//! Invariant: the port of the cluster bus is unchanged, because clients do not use it; so is a host name beside an
//! address, because a link has none.

use resp::frame::tree::Element;

use super::{Rewriter, words};

impl Rewriter<'_> {
    /// `MOVED 3999 127.0.0.1:6381`, or ASK in the place of MOVED.
    pub(super) fn redirection(&mut self, error: &Element) {
        let text = self.text(error);
        let [code, slot, place] = words(text)[..] else { return };
        let is_number = !slot.is_empty() && slot.iter().all(u8::is_ascii_digit);
        if !is_number || !matches!(code, b"MOVED" | b"ASK") {
            return;
        }
        if let Some(link) = self.link_of(place) {
            let host = if place.starts_with(b":") { String::new() } else { link.ip().to_string() };
            let place = format!("{host}:{}", link.port());
            self.exchange(error, &[code, slot, place.as_bytes()].join(&b' '));
        }
    }

    /// CLUSTER SLOTS: ranges, and after the ends of each its nodes: host, port, name, and more
    /// about the host.
    pub(super) fn slots(&mut self, answer: &Element) {
        for node in answer.parts.iter().flat_map(|range| range.parts.iter().skip(2)) {
            let [host, port, more @ ..] = &node.parts[..] else { continue };
            let ip = more.get(1).and_then(|more| self.field(more, "ip"));
            self.endpoint(host, ip, port);
        }
    }

    /// CLUSTER SHARDS: in each shard the nodes.
    pub(super) fn shards(&mut self, answer: &Element) {
        for shard in &answer.parts {
            let Some(nodes) = self.field(shard, "nodes") else { continue };
            for node in &nodes.parts {
                let ip = self.field(node, "ip");
                let Some(endpoint) = self.field(node, "endpoint").or(ip) else { continue };
                for port in ["port", "tls-port"] {
                    if let Some(port) = self.field(node, port) {
                        self.endpoint(endpoint, ip, port);
                    }
                }
            }
        }
    }

    /// Where clients are to connect to: an address, a name beside which the address may stand, or
    /// nothing, which means the host they are connected to.
    fn endpoint(&mut self, host: &Element, ip: Option<&Element>, port: &Element) {
        let known = ip.filter(|ip| !ip.is_null && !ip.text.is_empty()).unwrap_or(host);
        if let Some(link) = self.link(self.text(known), self.text(port)) {
            for host in [Some(host), ip].into_iter().flatten() {
                // The address of a node with two ports is exchanged once.
                if !self.edits.iter().any(|(span, _)| *span == host.span) {
                    self.exchange_host(host, link);
                }
            }
            self.exchange(port, link.port().to_string().as_bytes());
        }
    }

    /// CLUSTER NODES: a line for each node, `name host:port@bus,more flags …`.
    pub(super) fn nodes(&mut self, answer: &Element) {
        let mut anew = Vec::new();
        for line in self.text(answer).split_inclusive(|byte| *byte == b'\n') {
            match self.node(line) {
                Some(line) => anew.extend_from_slice(&line),
                None => anew.extend_from_slice(line),
            }
        }
        if !answer.text.is_empty() {
            self.exchange(answer, &anew);
        }
    }

    fn node(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        let mut words = words(line);
        let place = *words.get(1)?;
        let end = place.iter().position(|byte| matches!(byte, b'@' | b','));
        let (address, more) = place.split_at(end.unwrap_or(place.len()));
        let link = self.link_of(address)?;
        let host = if address.starts_with(b":") { String::new() } else { link.ip().to_string() };
        let place = [format!("{host}:{}", link.port()).as_bytes(), more].concat();
        words[1] = &place;
        Some(words.join(&b' '))
    }
}
