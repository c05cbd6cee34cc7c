//! `picklock proxy` as its user meets it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use test_server::RedisServer;

use crate::cli_support::{Playing, Room, eventually, words};

/// A server, and where it listens.
fn server() -> (RedisServer, String) {
    let server = RedisServer::start(&[]);
    let addr = format!("127.0.0.1:{}", server.port());
    (server, addr)
}

/// Where each proxy listens, once it says so.
fn listening(playing: &Playing, count: usize) -> Vec<String> {
    eventually("it listens", || {
        let said = playing.stdout();
        let places = said.lines().filter_map(|line| line.split_once(" -> ")?.0.split_once(": "));
        let places: Vec<String> = places.map(|(_, place)| place.to_owned()).collect();
        (places.len() == count).then_some(places)
    })
}

fn ping(addr: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = vec![0; 7];
    stream.read_exact(&mut answer).map(|()| answer)
}

#[test]
fn it_says_what_listens_where_strikes_as_told_and_ends_with_0() {
    let (room, (_server, server)) = (Room::new(), server());
    let args = format!(
        "proxy --listen a=0,b=127.0.0.1:0 --upstream {server},{server} --seed 7 --log log.jsonl --fault"
    );
    let fault = "reset PING nth=2 proxy=b";
    let mut playing = room.start(&[&words(&args)[..], &[fault]].concat());
    let places = listening(&playing, 2);
    assert!(places.iter().all(|place| place.starts_with("127.0.0.1:")), "{places:?}");
    for _ in 0..3 {
        assert_eq!(ping(&places[0]).unwrap(), b"+PONG\r\n");
    }
    assert_eq!(ping(&places[1]).unwrap(), b"+PONG\r\n");
    assert_eq!(ping(&places[1]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(ping(&places[1]).unwrap(), b"+PONG\r\n");
    playing.signal(Signal::SIGTERM);
    assert_eq!(playing.end().code(), Some(0));
    let said = playing.stdout();
    assert!(said.starts_with("picklock proxy, seed 7\na: 127.0.0.1:"), "{said}");
    assert!(said.ends_with("b: reset PING nth=2 proxy=b\n"), "{said}");
    let log = std::fs::read_to_string(room.path().join("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [put, line] = &lines[..] else { panic!("{log}") };
    let named = [&put["event"], &put["toxic"], &put["rule"]].map(ToString::to_string);
    assert_eq!(named, ["\"toxic-put\"", "\"fault-1\"", &line["rule"].to_string()]);
    let fields = ["seq", "proxy", "connection", "request", "command", "event", "action"];
    let fields = fields.map(|name| line[name].to_string().replace('"', ""));
    assert_eq!(fields, ["2", "b", "2", "1", "PING", "fault", "reset side=request"]);
}

#[test]
fn ctrl_c_ends_it_as_well_and_every_request_can_be_logged() {
    let (room, (_server, server)) = (Room::new(), server());
    let args = ["proxy", "--listen", "0", "--upstream", &server, "--log", "l", "--log-requests"];
    let mut playing = room.start(&args);
    let [place] = listening(&playing, 1).try_into().unwrap();
    assert_eq!(ping(&place).unwrap(), b"+PONG\r\n");
    let log = || std::fs::read_to_string(room.path().join("l")).unwrap();
    // A line is there soon, and not only at the end.
    eventually("the line is written", || log().ends_with("}\n").then_some(()));
    playing.signal(Signal::SIGINT);
    assert_eq!(playing.end().code(), Some(0));
    assert!(log().contains("\"event\":\"request\"") && log().contains("\"proxy\":\"redis\""));
}

#[test]
fn a_log_that_cannot_be_written_is_told_of_once_and_at_once_and_the_proxy_goes_on() {
    let (room, (_server, server)) = (Room::new(), server());
    let args = ["proxy", "-q", "--listen", "0", "--upstream", &server, "--log", "/dev/full"];
    let mut playing = room.start(&[&args[..], &["--log-requests"]].concat());
    let [place] = listening(&playing, 1).try_into().unwrap();
    assert!(ping(&place).is_ok());
    let says = "picklock: cannot write the log to /dev/full: No space left on device";
    eventually("it is told", || playing.stderr().contains(says).then_some(()));
    assert!(ping(&place).is_ok() && ping(&place).is_ok());
    playing.signal(Signal::SIGTERM);
    assert_eq!(playing.end().code(), Some(69));
    assert_eq!(playing.stderr().matches("cannot write the log").count(), 1, "{}", playing.stderr());
}

#[test]
fn a_server_that_cannot_be_reached_is_told_of_once() {
    let room = Room::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut playing = room.start(&["proxy", "--listen", "cache=0", "--upstream", &nobody]);
    let [place] = listening(&playing, 1).try_into().unwrap();
    for _ in 0..3 {
        assert!(ping(&place).is_err());
    }
    let told = || playing.stderr().matches("note: cache cannot serve a client: ").count();
    eventually("it is told", || (told() > 0).then_some(()));
    playing.signal(Signal::SIGTERM);
    assert_eq!(playing.end().code(), Some(0));
    assert_eq!(playing.stderr().matches("cannot serve").count(), 1, "{}", playing.stderr());
}

#[test]
fn the_same_seed_strikes_the_same_connections() {
    let (room, (_server, server)) = (Room::new(), server());
    let struck = |seed: &str| -> Vec<bool> {
        let fault = "reset toxicity=0.5 direction=requests";
        let args =
            ["proxy", "--listen", "0", "--upstream", &server, "--fault", fault, "--seed", seed];
        let playing = room.start(&args);
        let [place] = listening(&playing, 1).try_into().unwrap();
        (0..24).map(|_| ping(&place).is_err()).collect()
    };
    let first = struck("1");
    assert!(first.contains(&true) && first.contains(&false));
    assert_eq!(first, struck("1"));
    assert_ne!(first, struck("2"));
}

#[test]
fn without_file_descriptors_it_waits_and_then_goes_on() {
    let (room, (_server, server)) = (Room::new(), server());
    let picklock = env!("CARGO_BIN_EXE_picklock");
    let program = format!(
        "ulimit -n 40 && exec {picklock} proxy --listen 0 --upstream {server} --log log.jsonl"
    );
    let program = room.program("few-files", &program);
    let mut playing = room.start_program(&program);
    let [place] = listening(&playing, 1).try_into().unwrap();
    let many: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&place).unwrap()).collect();
    let log = || std::fs::read_to_string(room.path().join("log.jsonl")).unwrap();
    eventually("it has none left", || log().contains("Too many open files").then_some(()));
    drop(many);
    eventually("it serves again", || ping(&place).ok());
    playing.signal(Signal::SIGTERM);
    assert_eq!(playing.end().code(), Some(0));
}

#[test]
fn a_port_that_is_taken_is_69_and_what_is_wrong_on_the_command_line_is_2() {
    let room = Room::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let run = |args: &[&str]| {
        let usual = ["proxy", "--listen", "0", "--upstream", "127.0.0.1:1"];
        room.run(&[&usual[..], args].concat())
    };
    let said = room.run(&["proxy", "--listen", &taken, "--upstream", "127.0.0.1:1"]).ended(69);
    assert!(said.message().contains(&format!("cannot listen on {taken}")), "{}", said.stderr);
    assert!(said.stdout.is_empty());
    for (args, says) in [
        (&["--fault", "drop-reply SET nht=3"][..], "did you mean nth?"),
        (&["--fault", "latency=5"], "the unit is missing"),
        (&["--fault", "reset GET nth=x"], "nth must be a request number, 1 or higher"),
        (&["--fault", "reset GET from=0"], "from must be a request number, 1 or higher"),
        (&["--fault", "cut proxy=cache"], "no proxy is called cache"),
        (&["--upstream", "127.0.0.1:2"], "1 --listen, but 2 --upstream"),
        (&["--listen", "nowhere", "--upstream", "127.0.0.1:1"], "not an address to listen on"),
        (&["--listen", "b=0", "--upstream", "x"], "not a server address"),
        (&["--listen", "redis-1=0", "--upstream", "127.0.0.1:1"], "already"),
        (&["--log-requests"], "there is none"),
        (&["--listen", "b=127.0.0.1:1", "--upstream", "127.0.0.1:1"], "would lead to itself"),
    ] {
        let said = run(args).ended(2);
        assert!(said.message().contains(says), "{args:?}: {}", said.stderr);
        assert!(said.stdout.is_empty(), "{}", said.stdout);
    }
    let said = run(&["--log", "no/such/dir/log"]).ended(2);
    assert!(said.message().contains("no/such/dir/log"), "{}", said.stderr);
    let log = room.path().join("log.jsonl");
    std::fs::write(&log, "of a run before\n").unwrap();
    let second = format!("b={taken}");
    run(&["--listen", &second, "--upstream", "127.0.0.1:1", "--log", "log.jsonl"]).ended(69);
    let kept = std::fs::read_to_string(&log).unwrap();
    assert_eq!(kept, "of a run before\n", "it has not started");
}

#[test]
fn a_password_of_the_server_is_refused_and_never_shown() {
    let (room, (_server, server)) = (Room::new(), server());
    for upstream in [
        "rediss://ann:s3cret@127.0.0.1:1",
        "redis://:s3cret@127.0.0.1:1",
        "ann:s3cret@127.0.0.1:1",
        "redis://s3cret@",
    ] {
        let args = ["proxy", "--listen", "0", "--upstream", upstream, "--tls-insecure"];
        let said = room.run(&args).ended(2);
        assert!(said.message().contains("a user or a password"), "{}", said.stderr);
        assert!(!format!("{}{}", said.stdout, said.stderr).contains("s3cret"), "{}", said.stderr);
        let room = Room::new().with("PICKLOCK_UPSTREAM", upstream);
        let said = room.run(&["proxy", "--help"]).ended(0);
        assert!(!said.stdout.contains("s3cret"), "{}", said.stdout);
        // A variable that the command line overrides is no slip.
        let args = ["proxy", "--listen", "0", "--upstream", &server];
        listening(&room.start(&args), 1);
    }
}

#[test]
fn a_fault_that_never_struck_is_named_at_the_end() {
    let (room, (_server, server)) = (Room::new(), server());
    let listen = ["proxy", "--listen", "a=0,b=0", "--upstream", &server, "--upstream", &server];
    let faults = "reset PING nth=2 proxy=a;reset PING nth=9;latency=0s proxy=a;latency=0s proxy=b";
    let playing = room.start(&[&listen[..], &["--fault", faults]].concat());
    let places = listening(&playing, 2);
    assert!(ping(&places[0]).is_ok() && ping(&places[0]).is_err());
    playing.signal(Signal::SIGTERM);
    let said = playing.said().ended(0).stderr;
    let idle: Vec<&str> = said.lines().filter(|line| line.contains("never struck")).collect();
    assert_eq!(idle.len(), 2, "{said}");
    assert!(idle[0].contains("`reset PING nth=9`") && idle[1].contains("`latency=0s proxy=b`"));
}
