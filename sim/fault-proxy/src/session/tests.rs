//! Matching replies with requests, one difficulty per test.

use super::*;
use crate::Side;

/// Sends requests; one that ends in `!` is to lose its reply.
fn send(session: &mut ProxySession, lines: &[&str]) {
    for line in lines {
        let fate = line.ends_with('!').then_some(Action::Drop(Side::Reply));
        let bytes = format!("{}\r\n", line.trim_end_matches('!')).into_bytes();
        let request = RequestFrame::new(&bytes);
        let frame = session.next_frame();
        session.sent(frame, request.name(), request, fate).unwrap();
    }
}

/// What becomes of frames from the server: d(eliver), l(ose), s(ilence).
fn receive(session: &mut ProxySession, frames: &[&str]) -> String {
    let verdict = |bytes: &&str| {
        let kind = match bytes.as_bytes()[0] {
            b'>' => FrameKind::Push,
            b'-' => FrameKind::Error,
            _ => FrameKind::Value,
        };
        match session.received(kind, bytes.as_bytes()).0 {
            Passage::Deliver => 'd',
            Passage::Lose(_) => 'l',
            Passage::Silence => 's',
            Passage::Apply(_) => 'a',
        }
    };
    frames.iter().map(verdict).collect()
}

fn confirm(verb: &str, left: u32) -> String {
    format!("*3\r\n${}\r\n{verb}\r\n$1\r\nc\r\n:{left}\r\n", verb.len())
}

const MESSAGE: &str = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
const PUSH: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";

#[test]
fn replies_belong_to_requests_in_order_and_pushes_to_none() {
    let mut session = ProxySession::default();
    send(&mut session, &["GET a", "GET b!", "GET c"]);
    assert_eq!(receive(&mut session, &["+1\r\n", PUSH, "+2\r\n"]), "ddl");
}

#[test]
fn requests_whose_replies_just_pass_take_no_room_and_keep_their_places() {
    let mut session = ProxySession::default();
    let many = 3 * OUTSTANDING_MOST;
    for _ in 0..many {
        send(&mut session, &["PING"]);
    }
    assert_eq!((session.outstanding.len(), session.is_full()), (1, false));
    send(&mut session, &["GET a!", "GET b", "GET c"]);
    assert_eq!(session.outstanding.len(), 3);
    for frame in 1..=many {
        assert_eq!(session.answered(FrameKind::Value), Some(frame as u64));
        assert_eq!(receive(&mut session, &["+PONG\r\n"]), "d");
    }
    assert_eq!(receive(&mut session, &["+1\r\n", "+2\r\n", "+3\r\n"]), "ldd");
    assert!(session.outstanding.is_empty());
}

#[test]
fn requests_whose_replies_are_to_be_struck_fill_it_until_they_have_come() {
    let mut session = ProxySession::new(true);
    let queued = OUTSTANDING_MOST / 2;
    send(&mut session, &["MULTI"]);
    for _ in 0..queued {
        send(&mut session, &["SET a 1"]);
    }
    send(&mut session, &["EXEC"]);
    assert!(!session.is_full());
    let others = OUTSTANDING_MOST - session.weight;
    for _ in 0..others {
        assert!(!session.is_full());
        send(&mut session, &["GET a!"]);
    }
    assert!(session.is_full());
    assert_eq!(receive(&mut session, &["+OK\r\n"]), "d");
    assert!(session.is_full(), "MULTI took no room of its own");
    for _ in 0..=queued {
        receive(&mut session, &["+QUEUED\r\n"]);
    }
    assert!(!session.is_full() && session.weight == others);
    session.forget();
    assert_eq!(session.weight, 0);
}

#[test]
fn a_lost_request_silences_what_follows_but_not_what_came_before() {
    let mut session = ProxySession::default();
    send(&mut session, &["GET a"]);
    session.lost(2);
    assert!(!session.silent());
    assert_eq!(receive(&mut session, &["+1\r\n", PUSH, "+2\r\n"]), "dss");
}

#[test]
fn published_messages_of_resp2_answer_nothing() {
    let mut session = ProxySession::default();
    send(&mut session, &["SUBSCRIBE c d", "PING!"]);
    let (one, two) = (confirm("subscribe", 1), confirm("subscribe", 2));
    assert_eq!(receive(&mut session, &[&one, MESSAGE, &two, MESSAGE, "*2\r\n"]), "ddddl");
}

#[test]
fn a_list_that_looks_like_a_message_is_a_reply_without_subscriptions() {
    let mut session = ProxySession::default();
    send(&mut session, &["LRANGE l 0 -1", "GET a!"]);
    assert_eq!(receive(&mut session, &[MESSAGE, "+2\r\n"]), "dl");
    send(&mut session, &["SUBSCRIBE c", "UNSUBSCRIBE", "LRANGE l 0 -1!"]);
    let (on, off) = (confirm("subscribe", 1), confirm("unsubscribe", 0));
    assert_eq!(receive(&mut session, &[&on, MESSAGE, &off, MESSAGE]), "dddl");
}

#[test]
fn unsubscribing_from_everything_confirms_as_often_as_the_server_likes() {
    let mut session = ProxySession::default();
    send(&mut session, &["SUBSCRIBE c d", "UNSUBSCRIBE", "GET a!"]);
    let frames = [
        confirm("subscribe", 1),
        confirm("subscribe", 2),
        confirm("unsubscribe", 1),
        confirm("unsubscribe", 0),
        "+1\r\n".into(),
    ];
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    assert_eq!(receive(&mut session, &frames), "ddddl");
}

#[test]
fn resp3_confirms_by_push_and_a_refused_subscription_is_an_error() {
    let mut session = ProxySession::default();
    send(&mut session, &["SUBSCRIBE c", "SUBSCRIBE d", "GET a!"]);
    let confirmed = confirm("subscribe", 1).replacen('*', ">", 1);
    assert_eq!(receive(&mut session, &[&confirmed, "-NOPERM\r\n", "+1\r\n"]), "ddl");
}

#[test]
fn client_reply_is_followed() {
    let mut session = ProxySession::default();
    send(&mut session, &["CLIENT REPLY SKIP", "SET a 1", "GET a!"]);
    assert_eq!(receive(&mut session, &["+1\r\n"]), "l");
    let mut session = ProxySession::default();
    send(&mut session, &["CLIENT REPLY OFF", "SET a 1", "CLIENT REPLY SKIP", "SET a 1"]);
    send(&mut session, &["CLIENT REPLY ON", "GET a!"]);
    assert_eq!(receive(&mut session, &["+OK\r\n", "+1\r\n"]), "dl");
}

#[test]
fn a_subscription_is_confirmed_even_if_its_reply_is_skipped() {
    let mut session = ProxySession::default();
    send(&mut session, &["CLIENT REPLY SKIP", "SUBSCRIBE c", "GET a", "GET b!"]);
    let on = confirm("subscribe", 1).replacen('*', ">", 1);
    assert_eq!(receive(&mut session, &[&on, "+1\r\n", "+2\r\n"]), "ddl");
}

#[test]
fn exec_confirms_the_subscriptions_of_its_transaction() {
    let [one, two] = [1, 2].map(|left| confirm("subscribe", left));
    let exec = format!("*2\r\n$1\r\nx\r\n{one}");
    let transaction = ["MULTI", "GET a", "SUBSCRIBE c d", "EXEC", "PING!"];
    let queued = ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"];
    let mut session = ProxySession::default();
    send(&mut session, &transaction);
    let frames = [&queued[..], &[&exec, &two, MESSAGE, "*2\r\n"]].concat();
    assert_eq!(receive(&mut session, &frames), "ddddddl");
    // In RESP3 subscribers get other replies, which may look like messages; so does a client whose transaction is aborted.
    for exec in [exec.replace("*3", ">3"), "*-1\r\n".into(), "-EXECABORT\r\n".into()] {
        let mut session = ProxySession::default();
        send(&mut session, &transaction);
        let frames = [&queued[..], &[&exec, MESSAGE]].concat();
        assert_eq!(receive(&mut session, &frames), "ddddl", "{exec}");
    }
}

#[test]
fn exec_confirms_a_subscription_behind_a_list_of_any_length() {
    let long = 300_000;
    let list = format!("*{long}\r\n{}", "$1\r\nx\r\n".repeat(long));
    let exec = format!("*2\r\n{list}{}", confirm("subscribe", 1));
    let mut session = ProxySession::default();
    send(&mut session, &["MULTI", "LRANGE l 0 -1", "SUBSCRIBE c", "EXEC", "PING!"]);
    let frames = ["+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", &exec, MESSAGE, "*2\r\n"];
    assert_eq!(receive(&mut session, &frames), "dddddl");
}

#[test]
fn reset_ends_what_client_reply_and_subscribe_began() {
    let mut session = ProxySession::default();
    send(&mut session, &["SUBSCRIBE c", "RESET", "LRANGE l 0 -1!"]);
    let on = confirm("subscribe", 1);
    assert_eq!(receive(&mut session, &[&on, "+RESET\r\n", MESSAGE]), "ddl");
}

#[test]
fn streams_cannot_be_matched() {
    let mut session = ProxySession::default();
    let request = RequestFrame::new(b"monitor\r\n");
    assert!(session.sent(1, request.name(), request, None).is_err());
    send(&mut session, &["MULTI"]);
    let request = RequestFrame::new(b"CLIENT REPLY OFF\r\n");
    assert!(session.sent(2, request.name(), request, None).is_err());
}

/// What each of these frames answers.
fn answered(session: &mut ProxySession, frames: &[&str]) -> Vec<AddressQuery> {
    frames.iter().map(|bytes| session.received(FrameKind::Value, bytes.as_bytes()).1).collect()
}

#[test]
fn a_reply_is_known_by_what_was_asked() {
    let mut session = ProxySession::new(true);
    send(
        &mut session,
        &["cluster slots", "GET a", "sentinel MASTERS", "ROLE", "SENTINEL ckquorum m"],
    );
    let [slots, masters] = [AddressQuery::ClusterSlots, AddressQuery::SentinelInstances];
    let asked = [slots, AddressQuery::Other, masters, AddressQuery::Role, AddressQuery::Other];
    assert_eq!(answered(&mut session, &["*0\r\n"; 5]), asked);
    send(&mut session, &["SUBSCRIBE c", "CLUSTER NODES"]);
    let on = confirm("subscribe", 1);
    let frames = [MESSAGE, &on, MESSAGE, "$1\r\nx\r\n"];
    let (message, other) = (AddressQuery::Message, AddressQuery::Other);
    let asked = [message.clone(), other, message, AddressQuery::ClusterNodes];
    assert_eq!(answered(&mut session, &frames), asked);
}

#[test]
fn exec_answers_what_was_queued_and_not_what_was_discarded() {
    let exec = |asked: &[AddressQuery]| AddressQuery::Exec(asked.to_vec());
    let mut session = ProxySession::new(true);
    send(&mut session, &["MULTI", "GET a", "MULTI", "WATCH b", "ROLE", "EXEC"]);
    let asked = answered(&mut session, &["+x\r\n"; 6]);
    assert_eq!(asked[5], exec(&[AddressQuery::Other, AddressQuery::Role]));
    // If the server has refused MULTI, ROLE is a query by itself.
    assert_eq!(asked[4], AddressQuery::Role);
    send(&mut session, &["MULTI", "ROLE", "DISCARD", "MULTI", "GET a", "EXEC", "EXEC"]);
    let asked = answered(&mut session, &["+x\r\n"; 7]);
    assert_eq!(asked[5..], [exec(&[AddressQuery::Other]), exec(&[])]);
}
