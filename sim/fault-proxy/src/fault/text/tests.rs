//! Texts that are faults, and the position of the mistake in texts that are not.

use super::*;

/// What a fault does, without where it strikes.
pub(crate) fn shown(fault: &ProxyFault) -> String {
    match fault {
        ProxyFault::Wire { sides, effect, .. } => format!("{sides:?} {effect:?}"),
        ProxyFault::Command(Rule { command, key, args, when, action, .. }) => {
            let key = key.as_deref().map(String::from_utf8_lossy);
            format!("{action:?} {command:?} {key:?} {args:?} {when:?}")
        }
    }
}

fn read(text: &str) -> String {
    let ParsedFault { fault, proxy } = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
    let part = if fault.toxicity() == Toxicity::ALL {
        String::new()
    } else {
        format!(" on {}", fault.toxicity().part())
    };
    let proxy = proxy.map_or(String::new(), |proxy| format!(" of {proxy}"));
    shown(&fault) + &part + &proxy
}

#[test]
fn faults_of_the_wire() {
    for (text, fault) in [
        ("latency=5ms", "[Reply] Latency(Fixed(5ms))"),
        ("latency=0s", "[Reply] Latency(None)"),
        (
            "latency=5ms direction=both toxicity=0.25",
            "[Request, Reply] Latency(Fixed(5ms)) on 0.25",
        ),
        ("bandwidth=100KB/s", "[Reply] Bandwidth(100000)"),
        ("bandwidth=0.5MiB/s direction=requests", "[Request] Bandwidth(524288)"),
        ("cut", "[Request, Reply] Cut"),
        ("cut=requests", "[Request] Cut"),
        ("cut=replies  proxy=cache", "[Reply] Cut of cache"),
        ("half-open", "[Reply] HalfOpen"),
        ("half-open=both", "[Request, Reply] HalfOpen"),
        ("slow-close=3s", "[Reply] SlowClose(3s)"),
        ("timeout=1500ms", "[Reply] Timeout(1.5s)"),
        ("limit=10KB", "[Reply] Limit(10000)"),
        ("reset", "[Reply] ResetAfter(0ns)"),
        ("reset=2s", "[Reply] ResetAfter(2s)"),
    ] {
        assert_eq!(read(text), fault, "{text}");
    }
    for drawn in ["latency=1ms..20ms", "latency=lognormal:5ms,p99=80ms", "latency=uniform:1ms..2ms"]
    {
        assert!(read(drawn).contains("Latency(Drawn("), "{drawn}");
    }
}

#[test]
fn faults_of_commands() {
    for (text, fault) in [
        ("drop-request SET nth=3", "Drop(Request) Some(SET) None [] Nth(3)"),
        ("drop-reply command=evalsha key=foo", "Drop(Reply) Some(EVALSHA) Some(\"foo\") [] Every"),
        ("delay=2s command=DEL from=2", "Delay(Request, 2s) Some(DEL) None [] From(2)"),
        ("delay=2s side=reply", "Delay(Reply, 2s) None None [] Every"),
        ("reset command=GET", "Reset(Request) Some(GET) None [] Every"),
        ("reset GET side=reply", "Reset(Reply) Some(GET) None [] Every"),
        ("reset nth=7", "Reset(Request) None None [] Nth(7)"),
        (
            "drop-reply key=\"a b=c\" toxicity=0.5",
            "Drop(Reply) None Some(\"a b=c\") [] Every on 0.5",
        ),
        ("drop-reply EVALSHA arg1=ab", "Drop(Reply) Some(EVALSHA) None [(1, [97, 98])] Every"),
    ] {
        assert_eq!(read(text), fault, "{text}");
    }
    assert!(read("hold DEL").starts_with("Hold(Request, Gate"));
    let held: ParsedFault = "hold DEL".parse().unwrap();
    assert!(held.fault.gate().is_some_and(|gate| !gate.is_open()));
}

#[test]
fn what_is_wrong_is_shown_where_it_stands() {
    for (text, place, says) in [
        ("", "", "is empty"),
        ("latncy=5ms", "latncy=5ms", "unknown fault"),
        ("latency", "latency", "as in latency=5ms"),
        ("latency=", "latency=", "as in latency=5ms"),
        ("latency=5", "5", "unit"),
        ("latency=20ms..1ms", "20ms..1ms", ""),
        ("latency=normal:5ms", "normal:5ms", ""),
        ("bandwidth=0KB/s", "0KB/s", "a positive number"),
        ("bandwidth=100KB", "100KB", "100KB/s"),
        ("bandwidth=-1KB/s", "-1KB/s", "100KB/s"),
        ("bandwidth=1GB/s", "1GB/s", "MB or MiB"),
        ("cut=up", "up", "requests, replies or both"),
        ("cut direction=up", "up", "requests, replies or both"),
        ("latency=5ms nth=3", "nth=3", "no such option"),
        ("latency=5ms SET", "SET", "no such option"),
        ("delay=2s direction=both", "direction=both", "no such option"),
        ("drop-request SET nht=3", "nht=3", "no such option"),
        ("drop-request SET nth=0", "0", "1 or higher"),
        ("drop-request SET nth=x", "x", "1 or higher"),
        ("drop-request nth=1 from=2", "from=2", "mutually exclusive"),
        ("drop-request nth=1 nth=2", "nth=2", "twice"),
        ("drop-request=3 SET", "3", "no value"),
        ("drop-request SET GET", "GET", "no such option"),
        ("drop-request SET side=reply", "side=reply", "take no side"),
        ("reset=2s command=GET", "2s", "no value"),
        ("delay command=GET", "delay", "delay=2s"),
        ("delay=-1s command=GET", "-1s", "negative"),
        ("delay=1s side=both", "both", "request or reply"),
        ("drop-reply key=\"a b", "\"", "not closed"),
        ("drop-reply \"SET k\"", "\"SET k\"", "one word"),
        ("drop-reply command=\"SET k\"", "\"SET k\"", "one word"),
        ("cut toxicity=2", "2", "from 0 to 1"),
        ("cut toxicity=NaN", "NaN", "from 0 to 1"),
        ("hold arg99999999999999999999=x", "arg99999999999999999999=x", "no such argument"),
    ] {
        let wrong = text.parse::<ParsedFault>().map(|_| ()).unwrap_err();
        let at = wrong.span.offset()..wrong.span.offset() + wrong.span.len();
        assert_eq!(&text[at], place, "{text}: {wrong}");
        assert!(wrong.to_string().contains(says), "{text}: {wrong}");
    }
    let help = |text: &str| text.parse::<ParsedFault>().map(|_| ()).unwrap_err().help.unwrap();
    assert_eq!(help("latncy=5ms"), "did you mean latency?");
    assert_eq!(help("drop-request SET nht=3"), "did you mean nth?");
}
