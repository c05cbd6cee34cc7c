//! `picklock check` on what is no history: one message with the line, exit code 2, and no verdict.

use std::io::Write;
use std::process::Stdio;

use crate::cli_support::{HEAD, Room};

const ACQUIRE: &str =
    r#"{"at_ns":5,"client":1,"acquisition":1,"op":1,"stage":"invoke","what":"acquire"}"#;
const ACQUIRED: &str =
    r#"{"at_ns":6,"client":1,"acquisition":1,"op":1,"stage":"ok","what":"acquire"}"#;
const EARLY: &str =
    r#"{"at_ns":4,"client":1,"acquisition":1,"op":1,"stage":"ok","what":"acquire"}"#;
const STRANGER: &str =
    r#"{"at_ns":6,"client":2,"acquisition":1,"op":1,"stage":"ok","what":"acquire"}"#;
const FOREIGN: &str = r#"{"at_ns":6,"client":1,"stage":"ok","what":"acquire","by":"jepsen"}"#;

/// The lines of a file, and what the message must hold.
const WRONG: [(&[&str], &str); 12] = [
    (&[], "the history is empty"),
    (&[ACQUIRE, ACQUIRED], "line 1 of the history is no head: it is an event"),
    (&["hello"], "line 1 of the history is no head"),
    (&[HEAD, ACQUIRE, "hello"], "line 3 of the history: it is no JSON object"),
    (&[HEAD, ACQUIRE, r#"{"at_ns":6,"cli"#], "line 3 of the history: the file ends in the middle"),
    (&[HEAD, ACQUIRE, EARLY], "line 3 of the history: time falls from 5 to 4"),
    (&[HEAD, ACQUIRED], "line 2 of the history: operation 1 ends and has not begun"),
    (&[HEAD, ACQUIRE, ACQUIRED, ACQUIRED], "line 4 of the history: operation 1 ends a second time"),
    (&[HEAD, ACQUIRE, ACQUIRE], "line 3 of the history: operation 1 has begun already"),
    (&[HEAD, ACQUIRE, STRANGER], "line 3 of the history: operation 1 was begun by client 1"),
    (&[HEAD, FOREIGN], r#"line 2 of the history: there is no field "by""#),
    (&["\u{1f}"], "no head"),
];

#[test]
fn what_is_no_history_is_refused_with_its_line() {
    let room = Room::new();
    for (lines, says) in WRONG {
        let file = room.file("bad.jsonl", lines.join("\n"));
        let said = room.run(&["check", &file]).ended(2);
        assert!(said.message().contains(says), "{says}: {}", said.stderr);
        assert!(said.message().contains(&file), "the file is named: {}", said.stderr);
        assert_eq!(said.stdout, "", "nothing was judged");
    }
    let good = room.file("good.jsonl", [HEAD, ACQUIRE, ACQUIRED].join("\n"));
    room.run(&["check", &good]).ended(3);
}

#[test]
fn other_files_are_refused_with_what_to_do() {
    let room = Room::new();
    for (name, bytes, says) in [
        ("history.jsonl.gz", &b"\x1f\x8b\x08\x00\xff"[..], "gunzip -c"),
        ("picture.png", b"\x89PNG\r\n\x1a\n", "no UTF-8 text (byte 1 is wrong)"),
        ("result.json", b"{\n  \"schema\": \"picklock/result/1\"\n}\n", "in the middle"),
    ] {
        let file = room.file(name, bytes);
        let said = room.run(&["check", &file]).ended(2);
        assert!(said.message().contains(says), "{name}: {}", said.stderr);
    }
    for (path, says) in [
        ("missing.jsonl", "No such file"),
        ("", "a value is required"),
        ("/", "/ is a directory"),
        ("/dev/null", "the history is empty"),
    ] {
        let said = room.run(&["check", path]).ended(2);
        assert!(said.message().contains(says), "{path}: {}", said.stderr);
    }
    room.file("history.jsonl", HEAD);
    let said = room.run(&["check", "."]).ended(2);
    assert!(said.message().contains("give the history in it: ./history.jsonl"), "{}", said.stderr);
    assert!(room.run(&["check"]).ended(2).message().contains("HISTORY.jsonl"));
    // What can be opened and not read is the machine's affair.
    let said = room.run(&["check", "/proc/self/mem"]).ended(69);
    assert!(said.message().contains("cannot be read"), "{}", said.stderr);
}

#[test]
fn a_line_without_end_is_refused_before_it_has_been_read() {
    let room = Room::new();
    let mut command = room.command(&["check", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let pen = std::thread::spawn(move || {
        pipe.write_all(HEAD.as_bytes()).unwrap();
        pipe.write_all(b"\n{\"text\":\"").unwrap();
        let much = vec![b'x'; 1 << 20];
        // It ends when nobody reads any more: long before a hundred.
        (0..100).find(|_| pipe.write_all(&much).is_err())
    });
    let output = child.wait_with_output().unwrap();
    let written = pen.join().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("line 2 of the history: it is longer than 1048576 bytes"), "{said}");
    assert!(written.is_some_and(|mebibytes| mebibytes < 4), "{written:?} MiB were taken");
}
