//! Long frames, which are sent on while they come.
//!
//! Invariant: what happens to a frame is the same as if it had been held until its end. A frame is held if its rest may
//! decide that: what a rule may match, what is logged, and a reply in which addresses may be replaced.

use std::time::{Duration, Instant};

use resp::frame::{FrameKind, RequestFrame};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{ConnectionContext, ProxiedConnection};
use crate::log::Detail;
use crate::rule::Action;
use crate::session::{Passage, depends_on_arguments};

impl<U: AsyncRead + AsyncWrite + Unpin> ProxiedConnection<U> {
    pub(super) fn pass_long_request(&mut self, now: Instant) {
        if !self.requests.is_long() || self.opaque {
            return;
        }
        if !self.requests.has_begun() && !self.begin_long_request() {
            return;
        }
        self.requests.forward_part(now, Duration::ZERO, None);
    }

    /// Counts a request that is not complete yet; false if it has to be held.
    fn begin_long_request(&mut self) -> bool {
        let ConnectionContext { link, rules, number, .. } = &self.around;
        let request = RequestFrame::new(&self.requests.input);
        let (kind, name) = (self.requests.scanner.kind(), request.name());
        if kind != Some(FrameKind::Command)
            || request.arg(0).is_none()
            || depends_on_arguments(name)
            || link.log.detail() >= Detail::Requests
            || rules.concern(link.place(*number), name)
        {
            return false;
        }
        link.count_request(name);
        let frame = self.session.next_frame();
        // Only commands that depend on arguments turn a connection into a stream.
        self.session.sent(frame, name, request, None).is_ok()
    }

    pub(super) fn pass_long_reply(&mut self, now: Instant) {
        let lane = &mut self.replies;
        if !lane.is_long() || self.opaque || self.around.link.log.detail() >= Detail::Replies {
            return;
        }
        let kind = lane.scanner.kind();
        match kind.and_then(|kind| self.session.receiving(kind)) {
            Some(Passage::Deliver) => lane.forward_part(now, Duration::ZERO, None),
            Some(Passage::Apply(Action::Delay(_, span))) => lane.forward_part(now, span, None),
            Some(Passage::Apply(Action::Hold(_, gate))) => {
                lane.forward_part(now, Duration::ZERO, Some(gate));
            }
            Some(Passage::Lose(_) | Passage::Apply(Action::Reset(_))) => lane.lose_part(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use picklock::env::Node;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use crate::{ClientId, Detail, Gate, Link, Occurrence, Plan, Proxy, Rule, Side, Upstream};

    use super::*;

    /// More than the sockets and the queue of a connection hold.
    const LONG: usize = 32 << 20;

    struct Bed {
        proxy: Proxy,
        link: Link,
        server: TcpListener,
    }

    impl Bed {
        async fn new() -> Self {
            let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let proxy = Proxy::start(Detail::Faults).unwrap();
            let upstream = Upstream::Tcp(server.local_addr().unwrap());
            let link = proxy.listen(ClientId(0), Node(0), upstream, Plan::default()).unwrap();
            Self { proxy, link, server }
        }

        /// Both ends of a new connection.
        async fn connect(&self) -> (TcpStream, TcpStream) {
            let client = TcpStream::connect(self.link.addr()).await.unwrap();
            (client, self.server.accept().await.unwrap().0)
        }
    }

    /// Sends it, or part of it, at one end, and reads it at the other.
    async fn passes(from: &mut TcpStream, to: &mut TcpStream, bytes: &[u8]) {
        tokio::join!(async { from.write_all(bytes).await.unwrap() }, comes(to, bytes));
    }

    async fn comes(to: &mut TcpStream, bytes: &[u8]) {
        let mut got = vec![0; bytes.len()];
        let read = tokio::time::timeout(Duration::from_secs(30), to.read_exact(&mut got));
        read.await.expect("all of it comes").unwrap();
        assert!(got == bytes, "it is changed");
    }

    fn is_silent(end: &TcpStream) -> bool {
        matches!(end.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    fn set(more: &str) -> Vec<u8> {
        let count = 3 + more.matches('$').count();
        let head = format!("*{count}\r\n$3\r\nSET\r\n$1\r\nk\r\n${LONG}\r\n");
        [head.as_bytes(), &vec![b'v'; LONG], b"\r\n", more.as_bytes()].concat()
    }

    const ELEMENT: &[u8] = b"$16\r\nabcdefghijklmnop\r\n";

    /// A long string, and a list of many elements that is as long.
    fn replies() -> [Vec<u8>; 2] {
        let count = LONG / ELEMENT.len();
        let string = [format!("${LONG}\r\n").as_bytes(), &vec![b'v'; LONG], b"\r\n"].concat();
        [string, [format!("*{count}\r\n").as_bytes(), &ELEMENT.repeat(count)].concat()]
    }

    /// The last so many elements of a list and a half, and what is before.
    fn parted(reply: &[u8], elements: usize) -> (&[u8], &[u8]) {
        reply.split_at(reply.len() - elements * ELEMENT.len() - 10)
    }

    #[tokio::test]
    async fn the_beginning_of_a_long_frame_does_not_wait_for_its_end() {
        let bed = Bed::new().await;
        let rule = bed.proxy.rules().add(Rule::new(Action::Drop(Side::Request)).command("DEL"));
        let (mut client, mut server) = bed.connect().await;
        for reply in replies() {
            let request = set("");
            let (begins, ends) = request.split_at(LONG / 2);
            passes(&mut client, &mut server, begins).await;
            passes(&mut client, &mut server, &[ends, b"PING\r\n"].concat()).await;
            let (begins, ends) = parted(&reply, LONG / ELEMENT.len() / 2);
            passes(&mut server, &mut client, begins).await;
            passes(&mut server, &mut client, &[ends, b"+PONG\r\n"].concat()).await;
        }
        let counters = bed.link.counters();
        assert_eq!((counters.requests, counters.replies), (4, 4));
        passes(&mut client, &mut server, b"PING\r\n").await;
        client.write_all(b"DEL k\r\nPING\r\n").await.unwrap();
        drop(client);
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0, "nothing behind a lost request");
        assert_eq!(rule.fired(), 1);
    }

    #[tokio::test]
    async fn a_long_request_that_a_rule_may_match_is_held_until_its_end() {
        let bed = Bed::new().await;
        let rule = Rule::new(Action::Drop(Side::Request)).command("SET").arg(3, "NX");
        let rule = bed.proxy.rules().add(rule.when(Occurrence::Nth(2)));
        let (mut client, mut server) = bed.connect().await;
        let request = set("$2\r\nNX\r\n");
        passes(&mut client, &mut server, &request).await;
        client.write_all(&request).await.unwrap();
        client.write_all(b"PING\r\n").await.unwrap();
        drop(client);
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(rule.fired(), 1);
    }

    #[tokio::test]
    async fn of_a_long_reply_that_is_lost_nothing_comes() {
        for action in [Action::Drop(Side::Reply), Action::Reset(Side::Reply)] {
            let bed = Bed::new().await;
            let is_reset = matches!(action, Action::Reset(_));
            bed.proxy.rules().add(Rule::new(action).command("GET"));
            let (mut client, mut server) = bed.connect().await;
            passes(&mut client, &mut server, b"PING\r\nGET k\r\n").await;
            passes(&mut server, &mut client, b"+PONG\r\n").await;
            let [reply, _] = replies();
            let (begins, ends) = reply.split_at(LONG);
            server.write_all(begins).await.unwrap();
            assert!(is_silent(&client), "it has not come to its end yet");
            server.write_all(ends).await.unwrap();
            if !is_reset {
                // What follows is read and lost as well.
                server.write_all(&reply).await.unwrap();
                bed.link.reset_connections();
            }
            let ended = client.read(&mut [0]).await.unwrap_err();
            assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
        }
    }

    #[tokio::test]
    async fn a_long_reply_waits_at_a_gate_and_comes_unchanged() {
        let bed = Bed::new().await;
        for reply in replies() {
            let gate = Gate::shut();
            let hold = Rule::new(Action::Hold(Side::Reply, gate.clone())).command("GET");
            let rule = bed.proxy.rules().add(hold);
            let (mut client, mut server) = bed.connect().await;
            passes(&mut client, &mut server, b"GET k\r\n").await;
            let (begins, ends) = parted(&reply, (LONG - (2 << 20)) / ELEMENT.len());
            server.write_all(begins).await.unwrap();
            assert!(is_silent(&client));
            gate.open();
            comes(&mut client, begins).await;
            passes(&mut server, &mut client, ends).await;
            bed.proxy.rules().remove(rule.id);
        }
    }

    #[tokio::test]
    async fn a_long_frame_that_turns_out_wrong_ends_its_connection() {
        let bed = Bed::new().await;
        let (mut client, mut server) = bed.connect().await;
        let mut request = set("");
        let end = request.len() - 2;
        request[end..].copy_from_slice(b"no");
        let (begins, ends) = request.split_at(LONG);
        passes(&mut client, &mut server, begins).await;
        client.write_all(ends).await.unwrap();
        let ended = client.read(&mut [0]).await.unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        assert!(ends.starts_with(&rest), "{}", rest.escape_ascii());
    }
}
