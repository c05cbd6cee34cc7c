//! Addresses in replies and messages of sentinels: the primary, the monitored servers, and their changes.
//!
//! Invariant: a published message counts as a sentinel's only if its channel and its words are those of an event.

use resp::frame::tree::Element;

use super::{Rewriter, words};

impl Rewriter<'_> {
    /// One that a sentinel watches: names and values in turn.
    pub(super) fn instance(&mut self, instance: &Element) {
        let [ip, port] = ["ip", "port"].map(|name| self.field(instance, name));
        self.pair(ip, port);
        let [host, port] = ["master-host", "master-port"].map(|name| self.field(instance, name));
        self.pair(host, port);
        // A replica has no other name than its address.
        if let Some(name) = self.field(instance, "name")
            && let Some(anew) = self.name(self.text(name))
        {
            self.exchange(name, &anew);
        }
    }

    /// The name of a replica, if it is one.
    fn name(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let colon = name.iter().rposition(|byte| *byte == b':')?;
        let is_port =
            !name[colon + 1..].is_empty() && name[colon + 1..].iter().all(u8::is_ascii_digit);
        let link = if is_port { self.link_of(name)? } else { return None };
        Some(format!("{}:{}", link.ip(), link.port()).into_bytes())
    }

    /// A message, or the same by a pattern: its channel and its text stand at the end.
    pub(super) fn message(&mut self, message: &Element) {
        let [.., channel, text] = &message.parts[..] else { return };
        let channel = self.text(channel);
        if !matches!(channel.first(), Some(b'+' | b'-')) {
            return;
        }
        let mut event: Vec<Vec<u8>> =
            words(self.text(text)).into_iter().map(<[u8]>::to_vec).collect();
        if channel == b"+switch-master" {
            // name, old host, old port, new host, new port
            if event.len() == 5 {
                self.words_pair(&mut event, 1);
                self.words_pair(&mut event, 3);
            }
        } else {
            // kind, name, host, port, and of all but a primary: @, name, host and port of the primary
            let is_event = event.first().is_some_and(|kind| {
                matches!(&kind[..], b"master" | b"slave" | b"sentinel" | b"primary" | b"replica")
            });
            if !is_event || event.len() < 4 {
                return;
            }
            if let Some(name) = self.name(&event[1]) {
                event[1] = name;
            }
            self.words_pair(&mut event, 2);
            if event.get(4).is_some_and(|at| at == b"@") && event.len() >= 8 {
                self.words_pair(&mut event, 6);
            }
        }
        self.exchange(text, &event.join(&b' '));
    }

    fn words_pair(&mut self, event: &mut [Vec<u8>], place: usize) {
        if let Some(link) = self.link(&event[place], &event[place + 1]) {
            event[place] = link.ip().to_string().into_bytes();
            event[place + 1] = link.port().to_string().into_bytes();
        }
    }
}
