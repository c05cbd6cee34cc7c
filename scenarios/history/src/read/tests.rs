//! Whatever a history cannot be is refused, by its line and in its own words; and what it can be is
//! taken, just beside.

use super::*;
use crate::{What, write};

const HEAD: &str = r#"{"format":"picklock/history/1","scenario":"s","lock":"l","tracked":false,"locks":true,"world":"w","seed":1,"clients":3,"lock_key":"k","ttl_ns":1000,"margin_ns":10}"#;

/// A line: time, client, acquisition, operation, what, stage and what else it says.
fn line(at_ns: u64, who: [u32; 3], kind: &str, stage: &str, rest: &str) -> String {
    let [client, acquisition, op] = who;
    format!(
        r#"{{"at_ns":{at_ns},"client":{client},"acquisition":{acquisition},"op":{op},"stage":"{stage}","what":"{kind}"{rest}}}"#
    )
}

fn invoke(at_ns: u64, who: [u32; 3], kind: &str) -> String {
    let rest = match kind {
        "command" => r#","node":0,"command":"SET","key":"k","touch":"create""#,
        _ => "",
    };
    line(at_ns, who, kind, "invoke", rest)
}

fn ok(at_ns: u64, who: [u32; 3], kind: &str) -> String {
    let rest = match kind {
        "command" => r#","touch":"nothing","answer":"nil""#,
        "take" => r#","value":1,"left":0"#,
        "release" => r#","text":"released""#,
        _ => "",
    };
    line(at_ns, who, kind, "ok", rest)
}

/// A client acquires, sends a command, takes, releases, and cleans up; another begins to acquire.
fn good() -> Vec<String> {
    vec![
        HEAD.to_owned(),
        invoke(10, [1, 1, 1], "acquire"),
        invoke(10, [2, 2, 2], "acquire"),
        invoke(11, [1, 1, 3], "command"),
        ok(15, [1, 1, 3], "command"),
        line(15, [1, 1, 0], "valid-until", "note", r#","until_ns":99"#),
        ok(20, [1, 1, 1], "acquire"),
        invoke(21, [1, 1, 4], "take"),
        ok(22, [1, 1, 4], "take"),
        invoke(23, [1, 1, 5], "release"),
        ok(24, [1, 1, 5], "release"),
        invoke(25, [1, 1, 6], "command"),
        line(26, [3, 0, 0], "fault", "note", r#","fault":"crash","for_ns":0,"in_hold":false"#),
        line(27, [0, 0, 0], "probe", "note", r#","value":-2"#),
    ]
}

fn parsed(blocks: Blocks<impl Read>) -> impl Iterator<Item = io::Result<Stretch>> {
    blocks.map(|block| block.map(|block| block.parse()))
}

/// A reader of this, block after block.
fn reader(
    input: impl Read,
) -> Result<Reader<impl Iterator<Item = io::Result<Stretch>>>, ReadError> {
    let (head, blocks) = open(input)?;
    Ok(Reader::new(head, parsed(blocks)))
}

/// What is found in these lines, read in small and in large blocks.
fn found(bytes: &[u8]) -> Result<Vec<Event>, ReadError> {
    let all = |size| -> Result<Vec<Event>, ReadError> {
        let (head, blocks) = open_by(bytes, size)?;
        let mut reader = Reader::new(head, parsed(blocks));
        let mut events = Vec::new();
        while let Some(event) = reader.read_event()? {
            events.push(event);
            assert_eq!(reader.line(), 1 + events.len() as u64);
        }
        Ok(events)
    };
    let (small, large) = (all(7), all(1 << 16));
    let said = |it: &Result<Vec<Event>, ReadError>| it.as_ref().err().map(ToString::to_string);
    assert_eq!(said(&small), said(&large));
    let whole = read(bytes);
    assert_eq!(whole.as_ref().err().map(ToString::to_string), said(&large));
    assert!(whole.ok().map(|it| it.events) == large.as_ref().ok().cloned(), "the same events");
    large
}

fn bytes(lines: &[String]) -> Vec<u8> {
    (lines.join("\n") + "\n").into_bytes()
}

/// The line that is refused, and why.
#[track_caller]
fn flaw(bytes: &[u8]) -> (u64, Flaw) {
    match found(bytes) {
        Err(ReadError::Line { line, flaw }) => (line, flaw),
        other => panic!("no line was refused: {other:?}"),
    }
}

/// Why this line is refused in place of the one of that number in the good history.
#[track_caller]
fn instead(number: usize, line: String) -> Flaw {
    let mut lines = good();
    lines[number - 1] = line;
    let (at, flaw) = flaw(&bytes(&lines));
    assert_eq!(at, number as u64, "{flaw}");
    flaw
}

/// Why this line is refused before the one of that number.
#[track_caller]
fn before(number: usize, line: String) -> Flaw {
    let mut lines = good();
    lines.insert(number - 1, line);
    let (at, flaw) = flaw(&bytes(&lines));
    assert_eq!(at, number as u64, "{flaw}");
    flaw
}

#[test]
fn a_good_history_is_taken() {
    let events = found(&bytes(&good())).unwrap();
    assert_eq!(events.len(), good().len() - 1);
    let unfinished = good().join("\n");
    assert_eq!(found(unfinished.as_bytes()).unwrap(), events, "the last line break may be missing");
    let other = format!("\u{feff}{}\r\n", good().join("\r\n"));
    assert_eq!(found(other.as_bytes()).unwrap(), events, "line ends of other systems");
    assert_eq!(found(HEAD.as_bytes()).unwrap(), []);
    assert_eq!(reader(HEAD.as_bytes()).unwrap().head().clients, 3);
}

#[test]
fn what_was_read_can_be_written_and_read_again() {
    let history = read(&bytes(&good())[..]).unwrap();
    let mut again = Vec::new();
    write(&history, &mut again).unwrap();
    assert_eq!(read(&again[..]).unwrap(), history);
}

#[test]
fn times_do_not_fall() {
    let falls = Flaw::TimeFalls { before_ns: 15, at_ns: 14 };
    assert_eq!(instead(6, line(14, [1, 1, 0], "lost", "note", "")), falls);
    assert!(found(&bytes(&good())).unwrap().windows(2).any(|it| it[0].at_ns == it[1].at_ns));
}

#[test]
fn clients_are_those_of_the_head() {
    let unknown = Flaw::UnknownClient { client: 4, clients: 3 };
    assert_eq!(instead(13, line(26, [4, 0, 0], "phase", "note", r#","phase":"hold""#)), unknown);
    assert_eq!(before(13, invoke(25, [0, 3, 7], "acquire")), Flaw::ClientZero("acquire"));
}

#[test]
fn staged_faults_are_those_of_the_head() {
    let staged = r#","staged":[{"kind":"crash","on":"holder"},{"kind":"pause","on":"any"}]}"#;
    let head = HEAD.replace('}', staged);
    let struck = |number: u16| {
        let rest = format!(r#","fault":"crash","for_ns":0,"in_hold":false,"staged":{number}"#);
        let lines = [head.clone(), line(26, [3, 0, 0], "fault", "note", &rest)];
        found(&bytes(&lines)).map_err(|error| error.to_string())
    };
    assert!(struck(0).is_ok());
    assert!(
        struck(1).unwrap_err().contains("line 2 of the history: the staged fault 1 is `pause`")
    );
    assert!(struck(2).unwrap_err().contains("the head stages 2, counted from 0"));
}

#[test]
fn operations_have_numbers_and_notes_have_none() {
    assert_eq!(instead(2, invoke(10, [1, 1, 0], "acquire")), Flaw::NoOp);
    assert_eq!(instead(5, ok(15, [1, 1, 0], "command")), Flaw::NoOp);
    assert_eq!(
        instead(14, line(27, [0, 0, 7], "probe", "note", r#","value":0"#)),
        Flaw::OpOfNote(7)
    );
}

#[test]
fn operations_begin_once_and_in_order() {
    assert_eq!(instead(4, invoke(11, [1, 1, 2], "command")), Flaw::BegunTwice(2));
    assert_eq!(
        before(6, invoke(15, [1, 1, 3], "command")),
        Flaw::BegunTwice(3),
        "though it has ended"
    );
    let mut gap = good();
    gap[12] = invoke(26, [1, 1, 9], "command");
    gap[13] = invoke(26, [1, 1, 8], "command");
    assert_eq!(flaw(&bytes(&gap)), (14, Flaw::NotRising { op: 8, after: 9 }));
    gap[13] = invoke(26, [1, 1, 9], "command");
    assert_eq!(flaw(&bytes(&gap)), (14, Flaw::BegunTwice(9)), "it is under way");
    gap.truncate(13);
    assert!(found(&bytes(&gap)).is_ok(), "numbers may be left out");
}

#[test]
fn what_ends_has_begun_and_not_ended() {
    assert_eq!(instead(4, ok(15, [1, 1, 3], "command")), Flaw::NotBegun(3));
    assert_eq!(before(6, ok(15, [1, 1, 3], "command")), Flaw::EndedTwice(3));
    let mut gap = good();
    gap[11] = invoke(25, [1, 1, 9], "command");
    gap[12] = ok(26, [1, 1, 8], "command");
    assert_eq!(flaw(&bytes(&gap)), (13, Flaw::NotUnderWay(8)));
}

#[test]
fn an_operation_ends_as_what_it_began() {
    let other = Flaw::OtherKind { op: 3, began: "command", ends: "take" };
    assert_eq!(instead(5, ok(15, [1, 1, 3], "take")), other);
    let other = Flaw::OtherClient { op: 3, began: 1, ends: 2 };
    assert_eq!(instead(5, ok(15, [2, 1, 3], "command")), other);
    let other = Flaw::OtherAcquisition { op: 3, began: 1, ends: 2 };
    assert_eq!(instead(5, ok(15, [1, 2, 3], "command")), other);
    let other = Flaw::OtherAcquisition { op: 3, began: 1, ends: 0 };
    assert_eq!(instead(5, ok(15, [1, 0, 3], "command")), other);
}

#[test]
fn an_acquisition_begins_once_and_is_one_clients() {
    for kind in ["acquire", "release", "take"] {
        assert_eq!(before(4, invoke(11, [1, 0, 3], kind)), Flaw::NoAcquisition(kind));
    }
    assert_eq!(before(4, line(11, [1, 0, 0], "lost", "note", "")), Flaw::NoAcquisition("lost"));
    for kind in ["release", "take", "command"] {
        assert_eq!(instead(4, invoke(11, [1, 3, 3], kind)), Flaw::UnknownAcquisition(3));
    }
    let lost = line(11, [1, 3, 0], "lost", "note", "");
    assert_eq!(before(4, lost), Flaw::UnknownAcquisition(3));
    assert_eq!(instead(3, invoke(10, [2, 1, 2], "acquire")), Flaw::AcquiredTwice(1));
    let shared = Flaw::SharedAcquisition { acquisition: 1, owner: 1, client: 2 };
    assert_eq!(instead(4, invoke(11, [2, 1, 3], "command")), shared);
    assert_eq!(instead(12, invoke(25, [1, 1, 6], "release")), Flaw::ReleasedTwice(1));
}

#[test]
fn acquisitions_are_told_apart_however_they_are_numbered() {
    let mut lines = vec![HEAD.to_owned()];
    let numbers: Vec<u32> =
        vec![u32::MAX, 70_000, 1, 4_000_000_000, 65_536, 65_540, 2, 300_000, 69_999];
    for (op, number) in (1..).zip(&numbers) {
        lines.push(invoke(1, [1 + op % 3, *number, op], "acquire"));
    }
    assert!(found(&bytes(&lines)).is_ok());
    for (op, number) in (1..).zip(&numbers) {
        let mut more = lines.clone();
        more.push(invoke(2, [1, *number, 99], "acquire"));
        assert_eq!(flaw(&bytes(&more)).1, Flaw::AcquiredTwice(*number));
        let (owner, client) = (1 + op % 3, 1 + (op + 1) % 3);
        *more.last_mut().unwrap() = invoke(2, [client, *number, 99], "release");
        let shared = Flaw::SharedAcquisition { acquisition: *number, owner, client };
        assert_eq!(flaw(&bytes(&more)).1, shared);
        if !numbers.contains(&(number - 1)) && *number != 1 {
            *more.last_mut().unwrap() = invoke(2, [client, number - 1, 99], "release");
            assert_eq!(flaw(&bytes(&more)).1, Flaw::UnknownAcquisition(number - 1));
        }
    }
}

#[test]
fn operations_that_stay_open_for_long_are_not_forgotten() {
    let mut lines = vec![HEAD.to_owned(), invoke(1, [1, 1, 1], "acquire")];
    for op in 2..5_000 {
        lines.push(invoke(1, [1, 1, op], "command"));
        if op % 3 == 0 {
            lines.push(ok(1, [1, 1, op], "command"));
        }
    }
    let mut long = lines.clone();
    long.push(ok(2, [1, 1, 1], "acquire"));
    long.push(ok(2, [1, 1, 2], "command"));
    assert!(found(&bytes(&long)).is_ok());
    for (op, why) in
        [(1, Flaw::EndedTwice(1)), (3, Flaw::EndedTwice(3)), (5_000, Flaw::NotBegun(5_000))]
    {
        let mut bad = long.clone();
        bad.push(ok(2, [1, 1, op], "acquire"));
        assert_eq!(flaw(&bytes(&bad)).1, why);
    }
    lines.push(ok(2, [1, 1, 2], "take"));
    assert!(matches!(flaw(&bytes(&lines)).1, Flaw::OtherKind { op: 2, .. }));
}

#[test]
fn what_a_command_found_was_written_by_another_that_has_begun() {
    let found_by = |writer: u32| {
        let answered = ok(2, [1, 1, 3], "command");
        let answered = answered.replace('}', &format!(",\"found\":{writer}}}"));
        let invokes = [(1, "acquire"), (2, "command"), (3, "command"), (4, "command")];
        let mut lines = vec![HEAD.to_owned()];
        lines.extend(invokes.map(|(op, what)| invoke(1, [1, 1, op], what)));
        lines.push(answered);
        found(&bytes(&lines))
    };
    for writer in [0, 2, 4] {
        assert!(found_by(writer).is_ok(), "{writer}");
    }
    for nobody in [3, 5] {
        let Err(ReadError::Line { line, flaw }) = found_by(nobody) else { panic!("{nobody}") };
        assert_eq!((line, flaw), (6, Flaw::FoundUnwritten { op: 3, found: nobody }));
    }
}

#[test]
fn a_file_that_was_cut_off_says_so_wherever_it_was_cut() {
    let whole = bytes(&good());
    let head = HEAD.len();
    let ends: Vec<usize> = (0..whole.len()).filter(|end| whole[*end] == b'\n').collect();
    for end in 1..whole.len() {
        match found(&whole[..end]) {
            // Between lines nothing is missing that could be missed.
            Ok(events) => {
                assert!(ends.contains(&end) || ends.contains(&(end - 1)), "{end}");
                assert!(events.len() < good().len());
            }
            Err(ReadError::Head(HeadFlaw::Line(Flaw::Truncated))) => assert!(end < head),
            Err(ReadError::Line { line, flaw: Flaw::Truncated }) => {
                assert_eq!(line, 1 + ends.iter().filter(|it| **it < end).count() as u64);
            }
            Err(error) => panic!("cut at {end}: {error}"),
        }
    }
    let mut letter = bytes(&good()[..1]);
    letter.extend_from_slice("{\"text\":\"é".as_bytes());
    letter.pop();
    assert_eq!(flaw(&letter), (2, Flaw::Truncated), "in the middle of a letter");
}

#[test]
fn a_broken_line_in_the_middle_is_no_truncation() {
    assert_eq!(instead(4, r#"{"at_ns":10,"cli"#.to_owned()), Flaw::Unfinished);
    assert_eq!(instead(4, String::new()), Flaw::Blank);
    assert_eq!(instead(4, "at 10 ns".to_owned()), Flaw::NotJson { column: 1, expected: "`{`" });
    let mut lines = bytes(&good());
    lines.extend_from_slice(b"\n");
    assert_eq!(flaw(&lines), (15, Flaw::Blank));
    let at = lines.iter().position(|byte| *byte == b'\n').unwrap();
    lines[at + 5] = 0xff;
    assert_eq!(flaw(&lines), (2, Flaw::NotUtf8 { byte: 5 }));
    let half = [HEAD.as_bytes(), b"\n{\"text\":\"\xc3\n"].concat();
    assert_eq!(flaw(&half), (2, Flaw::NotUtf8 { byte: 10 }), "half a letter, and a line break");
}

/// A line of 100 MB, of which it is counted how much was read.
struct Long<'a>(&'a [u8], u64);

impl Read for Long<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = if self.0.is_empty() {
            buffer.fill(b' ');
            if self.1 > 100 << 20 { 0 } else { buffer.len() }
        } else {
            self.0.read(buffer)?
        };
        self.1 += read as u64;
        Ok(read)
    }
}

#[test]
fn a_line_of_a_hundred_megabytes_is_refused_without_reading_it() {
    for (begin, expected) in [(format!("{HEAD}\n"), 2), (String::new(), 1)] {
        let mut long = Long(begin.as_bytes(), 0);
        let refused = reader(&mut long).and_then(|mut it| it.read_event());
        match refused {
            Err(ReadError::Line { line: 2, flaw: Flaw::TooLong }) => assert_eq!(expected, 2),
            Err(ReadError::Head(HeadFlaw::Line(Flaw::TooLong))) => assert_eq!(expected, 1),
            other => panic!("{other:?}"),
        }
        assert!(long.1 < 2 << 20, "{} bytes were read", long.1);
    }
}

#[test]
fn a_head_that_is_none_is_refused_with_what_is_wrong() {
    let said = |bytes: &[u8]| found(bytes).unwrap_err().to_string();
    assert!(said(b"").contains("empty"));
    assert!(said(b"\n").contains("line 1 of the history is no head: it is empty"));
    for (from, to, says) in [
        ("history/1", "history/2", r#"in the format "picklock/history/2""#),
        (r#""clients":3"#, r#""clients":0"#, "`clients` is 0"),
        (r#""clients":3"#, r#""clients":2147483648"#, "picklock tells 2147483647 apart at most"),
        (r#""clients":3"#, r#""clients":4294967295"#, "picklock tells 2147483647 apart at most"),
        (r#""clients":3"#, r#""clients":4294967296"#, "no head: invalid value"),
        (r#""clients":3"#, r#""clients":-3"#, "no head: invalid value"),
        (r#""clients":3,"#, "", "missing field `clients`"),
        (r#""format":"picklock/history/1","#, "", "missing field `format`"),
        (r#""clients":3,"#, r#""clients":3,"clients":3,"#, "duplicate field `clients`"),
        (r#""clients":3,"#, r#""clients":3,"colour":1,"#, "unknown field `colour`"),
        (r#""ttl_ns":1000"#, r#""ttl_ns":0"#, "`ttl_ns` is 0"),
        (r#""margin_ns":10"#, r#""margin_ns":10,"nodes":0"#, "`nodes` is 0"),
        (r#""lock_key":"k""#, r#""lock_key":"""#, "`lock_key` is empty"),
        (r#""margin_ns":10"#, r#""margin_ns":10,"prizes":-1"#, "`prizes` is -1"),
        (r#""margin_ns":10"#, r#""margin_ns":10,"prizes":null"#, r#""prizes" is null"#),
        ("{", "", "no head"),
        ("{", "[", "no head"),
        ("}", "", "in the middle of the JSON object"),
        ("}", "}}", "no head: trailing characters"),
    ] {
        let text = format!("{}\n", HEAD.replace(from, to));
        let said = said(text.as_bytes());
        assert!(said.contains(says), "{to}: {said}");
        assert!(!said.contains("at line 1 column"), "the line is named already: {said}");
    }
    let most = format!(r#""clients":{}"#, order::CLIENTS_MOST);
    for (from, to) in
        [(r#""clients":3"#, most.as_str()), (r#""margin_ns":10"#, r#""margin_ns":10,"prizes":0"#)]
    {
        assert!(found(HEAD.replace(from, to).as_bytes()).is_ok(), "{to}");
    }
    let lockless = HEAD.replace(r#""locks":true"#, r#""locks":false"#).replace(r#""k""#, r#""""#);
    assert!(found(lockless.as_bytes()).is_ok(), "who does not lock needs no key");
    let event = &good()[1];
    assert!(said(event.as_bytes()).contains("it is an event"));
    assert_eq!(
        said(b"\x00\x01\xff"),
        "line 1 of the history is no head: it is no UTF-8 text (byte 3 is wrong): a history is text, a JSON object a line"
    );
    for (begin, how) in COMPRESSED {
        assert!(said(&[begin, b"\n\xff\x00"].concat()).contains(&format!("compressed with {how}")));
    }
}

#[test]
fn what_is_quoted_of_a_file_is_short_and_harmless() {
    let evil = format!(r#","\u001b[31m{}":1"#, "x".repeat(100_000));
    let said = instead(6, line(15, [1, 1, 0], "lost", "note", &evil)).to_string();
    assert!(said.len() < 200 && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn nothing_is_read_after_a_failure_to_read() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let input = HEAD.as_bytes().chain(&b"\n"[..]).chain(Failing);
    let error = reader(input).unwrap().read_event().unwrap_err();
    assert_eq!(error.to_string(), "the history cannot be read: the disk is gone");
}

#[test]
fn texts_that_are_not_many_are_known_to_the_end() {
    let mut lines = vec![HEAD.to_owned()];
    let long = "x".repeat(1 << 16);
    for op in 1..=100 {
        lines.push(invoke(1, [1, op, op], "acquire"));
        let reason = format!(r#","text":"{op} {long}""#);
        lines.push(line(1, [1, op, op], "acquire", "fail", &reason));
    }
    let bytes = bytes(&lines);
    let mut reader = reader(&bytes[..]).unwrap();
    let mut told = Vec::new();
    while let Some(event) = reader.read_event().unwrap() {
        if let What::NotAcquired(why) = event.what {
            told.push((event.op, why));
        }
    }
    for (op, why) in told {
        assert!(reader.texts().get(why).starts_with(&format!("{op} ")), "{op}");
    }
}

#[test]
fn texts_of_a_stream_are_known_at_their_event_and_the_locks_key_always() {
    let mut lines = vec![HEAD.replace(r#""lock_key":"k""#, r#""lock_key":"the lock""#)];
    let long = "x".repeat(1 << 16);
    for op in 1..300 {
        lines.push(invoke(1, [1, op, op], "acquire"));
        let reason = format!(r#","text":"{op} {long}""#);
        lines.push(line(1, [1, op, op], "acquire", "fail", &reason));
    }
    lines.push(invoke(1, [1, 1, 300], "command").replace(r#""k""#, r#""the lock""#));
    let bytes = bytes(&lines);
    let mut reader = reader(&bytes[..]).unwrap();
    let mut seen = 0;
    while let Some(event) = reader.read_event().unwrap() {
        if let What::NotAcquired(why) = event.what {
            assert!(reader.texts().get(why).starts_with(&format!("{} ", event.op)));
            seen += 1;
        }
        if let What::Command { key, .. } = event.what {
            assert_eq!(reader.texts().find("the lock"), Some(key));
        }
    }
    assert_eq!(seen, 299);
    assert_eq!(reader.line(), lines.len() as u64);
}
