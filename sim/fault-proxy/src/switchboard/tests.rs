//! Toxics as they are written, and what they do.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::fault::shown;
use crate::{Detail, Toxicity};

fn fault(value: Value) -> Result<String, String> {
    let toxic = Toxic::from_json(&value).map_err(|error| error.to_string())?;
    let fault = toxic.fault().map_err(|error| error.to_string())?;
    Ok(shown(&fault))
}

#[test]
fn types_of_toxiproxy_do_what_they_say() {
    for (kind, attributes, does) in [
        ("latency", json!({"latency": 100}), "[Reply] Latency(Fixed(100ms))"),
        ("latency", json!({"latency": 100.0}), "[Reply] Latency(Fixed(100ms))"),
        ("latency", json!({}), "[Reply] Latency(None)"),
        ("bandwidth", json!({"rate": 10}), "[Reply] Bandwidth(10000)"),
        ("bandwidth", json!({"rate": 0}), "[Reply] Latency(None)"),
        ("slow_close", json!({"delay": 5}), "[Reply] SlowClose(5ms)"),
        ("timeout", json!({"timeout": 5}), "[Reply] Timeout(5ms)"),
        ("timeout", json!({"timeout": 0}), "[Reply] Cut"),
        ("reset_peer", json!({"timeout": 0}), "[Reply] ResetAfter(0ns)"),
        ("limit_data", json!({"bytes": 7}), "[Reply] Limit(7)"),
        ("half_open", json!({}), "[Reply] HalfOpen"),
        ("fault", json!({"text": "cut=requests"}), "[Request] Cut"),
        (
            "fault",
            json!({"text": "reset key=file:7"}),
            "Reset(Request) None Some(\"file:7\") [] Every",
        ),
        (
            "redis",
            json!({"action": "drop-reply", "command": "set", "key": "k", "nth": 2}),
            "Drop(Reply) Some(SET) Some(\"k\") [] Nth(2)",
        ),
        (
            "redis",
            json!({"action": "delay", "delay": 5, "side": "reply", "from": 3}),
            "Delay(Reply, 5ms) None None [] From(3)",
        ),
        ("redis", json!({"action": "reset"}), "Reset(Request) None None [] Every"),
    ] {
        let toxic = json!({"type": kind, "attributes": attributes});
        assert_eq!(fault(toxic.clone()).as_deref(), Ok(does), "{toxic}");
    }
    let up = json!({"type": "latency", "stream": "upstream", "attributes": {"latency": 10, "jitter": 4}});
    assert!(fault(up).unwrap().starts_with("[Request] Latency(Drawn("));
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (toxic, says) in [
        (json!([]), "an object"),
        (json!({}), "missing required field: type"),
        (json!({"type": 7}), "type must be a string"),
        (json!({"type": "slicer"}), "`slicer` is not supported"),
        (json!({"type": "latency", "stream": "both"}), "upstream or downstream"),
        (json!({"type": "latency", "toxicity": 1.5}), "from 0 to 1"),
        (json!({"type": "latency", "toxicity": "1"}), "toxicity must be a number"),
        (json!({"type": "latency", "attributes": 7}), "attributes must be an object"),
        (json!({"type": "latency", "attributes": {"latncy": 7}}), "no attribute `latncy`"),
        (json!({"type": "latency", "attributes": {"latency": -7}}), "non-negative integer"),
        (json!({"type": "latency", "attributes": {"latency": "7"}}), "non-negative integer"),
        (json!({"type": "latency", "attributes": {"latency": 0.5}}), "non-negative integer"),
        (json!({"type": "latency", "attributes": {"latency": 1e300}}), "non-negative integer"),
        (json!({"type": "half_open", "attributes": {"x": 7}}), "its attributes: none"),
        (json!({"type": "latency", "typo": 1}), "no field `typo`; its fields: name, type"),
        (json!({"type": "redis", "attributes": {}}), "drop-request, drop-reply"),
        (json!({"type": "redis", "attributes": {"action": "delay"}}), "must be given"),
        (
            json!({"type": "redis", "attributes": {"action": "hold", "delay": 5}}),
            "only the action delay",
        ),
        (
            json!({"type": "redis", "attributes": {"action": "drop-reply", "side": "request"}}),
            "the action names it",
        ),
        (json!({"type": "redis", "attributes": {"action": "reset", "nth": 0}}), "1 or higher"),
        (
            json!({"type": "redis", "attributes": {"action": "reset", "nth": 1, "from": 1}}),
            "mutually exclusive",
        ),
        (
            json!({"type": "redis", "attributes": {"action": "reset", "side": 1}}),
            "must be a string",
        ),
        (json!({"type": "fault", "attributes": {"text": "latncy=5ms"}}), "unknown fault"),
        (json!({"type": "fault", "attributes": {"text": "cut proxy=a"}}), "the path names it"),
        (
            json!({"type": "fault", "attributes": {"text": "latency=file:Cargo.toml"}}),
            "on the command line only",
        ),
        // Quotes may stand anywhere in a word.
        (
            json!({"type": "fault", "attributes": {"text": "latency=fi\"l\"e:Cargo.toml"}}),
            "on the command line only",
        ),
        (
            json!({"type": "fault", "attributes": {"text": "\"latency\"=file:Cargo.toml"}}),
            "on the command line only",
        ),
        (
            json!({"type": "redis", "attributes": {"action": "reset", "command": "SET k"}}),
            "one word, such as SET",
        ),
        (
            json!({"type": "redis", "attributes": {"action": "reset", "command": ""}}),
            "one word, such as SET",
        ),
    ] {
        let why = fault(toxic.clone()).expect_err(&toxic.to_string());
        assert!(why.contains(says), "{toxic}: {why}");
    }
}

#[test]
fn a_toxic_has_a_name_and_its_text_a_toxicity() {
    let toxic = |value| Toxic::from_json(&value).unwrap();
    assert_eq!(toxic(json!({"type": "latency"})).name, "latency_downstream");
    assert_eq!(toxic(json!({"type": "timeout", "stream": "upstream"})).name, "timeout_upstream");
    let text = json!({"type": "fault", "attributes": {"text": "cut toxicity=0.25"}});
    assert_eq!(toxic(text.clone()).toxicity, 0.25);
    let updated =
        toxic(text).updated(&json!({"toxicity": 1, "attributes": {"text": "reset"}})).unwrap();
    assert_eq!((updated.toxicity, &updated.attributes["text"]), (1.0, &json!("reset")));
    assert_eq!(updated.fault().unwrap().toxicity(), Toxicity::ALL);
    for change in [json!({"toxicty": 1}), json!({"type": "latency"}), json!({"stream": "upstream"})]
    {
        assert!(updated.updated(&change).is_err(), "{change}");
    }
    assert_eq!(updated.updated(&json!(updated)).unwrap(), updated);
    for text in ["latency=file:Cargo.toml", "cut proxy=a", "nonsense"] {
        assert!(updated.updated(&json!({"attributes": {"text": text}})).is_err(), "{text}");
    }
}

pub(super) fn board() -> Switchboard {
    let log = ProxyLog::of_newest(Detail::Faults, 100, None);
    Switchboard::start(log, Names::default(), 1).unwrap()
}

fn wanted(name: &str) -> ProxySpec {
    let upstream = "127.0.0.1:1";
    ProxySpec {
        name: name.to_owned(),
        listen: listen_address("0").unwrap(),
        upstream: upstream.to_owned(),
        way: resolve_upstream(upstream).unwrap(),
        enabled: true,
    }
}

#[test]
fn names_are_unique_and_unknown_ones_are_refused() {
    let board = board();
    let toxic = || Toxic::from_json(&json!({"type": "latency"})).unwrap();
    assert!(matches!(board.put("a", toxic()), Err(SwitchError::NoProxy(_))));
    board.add(wanted("a")).unwrap();
    assert!(matches!(board.add(wanted("a")), Err(SwitchError::ProxyExists(_))));
    assert!(matches!(board.add(wanted("a/b")), Err(SwitchError::BadName(_))));
    assert!(matches!(resolve_upstream("no such host:7"), Err(SwitchError::Unresolved(..))));
    let endless = |listen: &str| {
        let (listen, way) =
            (listen_address(listen).unwrap(), resolve_upstream("127.0.0.1:7").unwrap());
        board.add(ProxySpec { listen, way, ..wanted("endless") }).err()
    };
    assert!(matches!(endless("127.0.0.1:7"), Some(SwitchError::ToItself(_))));
    assert!(matches!(endless("0.0.0.0:7"), Some(SwitchError::ToItself(_))));
    let own = board.one("a").unwrap().listen.to_string();
    let own = Some((own.clone(), resolve_upstream(&own).unwrap()));
    assert!(matches!(board.change("a", None, own, None), Err(SwitchError::ToItself(_))));
    board.put("a", toxic()).unwrap();
    assert!(matches!(board.put("a", toxic()), Err(SwitchError::ToxicExists(_))));
    assert_eq!(board.one("a").unwrap().toxics, [toxic()]);
    board.take("a", "latency_downstream").unwrap();
    assert!(matches!(board.take("a", "latency_downstream"), Err(SwitchError::NoToxic(_))));
    board.remove("a").unwrap();
    assert!(matches!(board.remove("a"), Err(SwitchError::NoProxy(_))));
    assert!(board.all().is_empty());
}

#[test]
fn a_reset_takes_every_fault_away_and_has_everything_listen() {
    let board = board();
    let status = board.add(wanted("a")).unwrap();
    let hold = json!({"type": "redis", "name": "h", "attributes": {"action": "hold"}});
    board.put("a", Toxic::from_json(&hold).unwrap()).unwrap();
    let off = board.change("a", None, None, Some(false)).unwrap();
    assert!(!off.enabled && std::net::TcpStream::connect(off.listen).is_err());
    board.reset().unwrap();
    let on = board.one("a").unwrap();
    assert_eq!(on, ProxyStatus { toxics: Vec::new(), ..status });
    std::net::TcpStream::connect(on.listen).unwrap();
}

#[test]
fn an_address_that_is_taken_leaves_the_proxy_off() {
    let board = board();
    let [a, b] = ["a", "b"].map(|name| board.add(wanted(name)).unwrap());
    let taken = board.change("b", Some(a.listen), None, None).unwrap_err();
    assert!(taken.to_string().contains(&a.listen.to_string()), "{taken}");
    assert!(!board.one("b").unwrap().enabled);
    let back = board.change("b", Some(b.listen), None, Some(true)).unwrap();
    assert_eq!(back, b);
}

#[test]
fn addresses_without_a_host_are_this_machines_own() {
    let listen = |text: &str| listen_address(text).map(|addr| addr.to_string()).ok();
    for text in ["6400", ":6400", "localhost:6400", "127.0.0.1:6400"] {
        assert_eq!(listen(text).as_deref(), Some("127.0.0.1:6400"), "{text}");
    }
    assert_eq!(listen("0.0.0.0:6400").as_deref(), Some("0.0.0.0:6400"));
    assert_eq!(listen("[::1]:6400").as_deref(), Some("[::1]:6400"));
    for text in ["", "x", "6400:", "127.0.0.1", "no.such.host:6400", "65536"] {
        assert_eq!(listen(text), None, "{text}");
    }
    for text in ["", "6379", "127.0.0.1:0", ":6379", "127.0.0.1:port"] {
        assert!(resolve_upstream(text).is_err(), "{text}");
    }
    assert!(matches!(resolve_upstream("127.0.0.1:6379"), Ok(Upstream::Tcp(_))));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]
fn a_fault_is_idle_until_it_strikes_a_connection_or_has_one_wait() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = server.local_addr().unwrap().to_string();
    let board = board();
    let mut listens = Vec::new();
    for name in ["a", "b"] {
        let way = resolve_upstream(&upstream).unwrap();
        let wanted = ProxySpec { upstream: upstream.clone(), way, ..wanted(name) };
        listens.push(board.add(wanted).unwrap().listen);
        for (fault, text) in [("cut", "cut"), ("drop", "drop-request GET"), ("slow", "latency=0s")]
        {
            let written = text.parse().unwrap();
            board.put(name, Toxic::of_text(fault.to_owned(), text, &written)).unwrap();
        }
    }
    let idle = || board.idle().into_iter().collect::<Vec<_>>();
    let until = |left: &[&str]| {
        let began = Instant::now();
        while idle() != left {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?} and not {left:?}", idle());
            std::thread::yield_now();
        }
    };
    assert_eq!(idle(), ["cut", "drop", "slow"]);
    // The request does not get through to the server, and so no other fault meets it.
    let mut client = TcpStream::connect(listens[0]).unwrap();
    until(&["drop", "slow"]);
    board.take("a", "cut").unwrap();
    until(&["cut", "drop"]);
    client.write_all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").unwrap();
    until(&["cut"]);
}
