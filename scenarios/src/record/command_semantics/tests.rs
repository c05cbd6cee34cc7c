//! Commands by what they do to their key, and answers by what they say was done.

use picklock::queue_scripts::{JOIN, LEAVE};
use picklock::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};

use super::*;

fn command(line: &str) -> Command {
    let (name, args) = line.split_once(' ').unwrap_or((line, ""));
    args.split(' ').fold(Command::new(name), |command, arg| command.arg(arg))
}

/// 2,000.4 seconds of Unix time.
const NOW: WallTime = WallTime::from_unix_ns(2_000_400_000_000);

fn sent(intent: Intent, gives_old: bool) -> SentCommand {
    SentCommand { op: 1, acquisition: 0, intent, gives_old, place: None, content: None }
}

fn speaks(value: KeyValue) -> Dialect {
    Dialect::new([&*COMPARE_AND_DELETE, &*COMPARE_AND_EXTEND], value)
}

fn reads_as(line: &str, value: KeyValue) -> Intent {
    let command = command(line);
    let understood = semantics(&command, &speaks(value), || NOW);
    assert_eq!(understood.key, b"k", "{line}");
    understood.intent
}

fn reads(line: &str) -> Intent {
    reads_as(line, KeyValue::Token)
}

#[test]
fn a_stamp_says_how_long_a_hold_lasts_by_its_clients_clock() {
    let plain = |touch| Intent { touch, compares: false };
    let stamped = |line| reads_as(line, KeyValue::Stamp);
    let lasts = Some(600 * NS_PER_MS);
    assert_eq!(stamped("SETNX k 2001000"), plain(Touch::Create(lasts)));
    assert_eq!(stamped("GETSET k 2001000"), plain(Touch::Overwrite(lasts)));
    assert_eq!(stamped("SETNX k 2000399"), plain(Touch::Create(Some(0))), "it is over");
    assert_eq!(stamped("SETNX k soon"), plain(Touch::Create(None)));
    for value in [KeyValue::Token, KeyValue::Shared] {
        assert_eq!(reads_as("SETNX k 2001000", value), plain(Touch::Create(None)));
        assert_eq!(reads_as("GETSET k 2001000", value), plain(Touch::Overwrite(None)));
    }
}

#[test]
fn to_compare_with_what_others_have_too_spares_nobody() {
    let line = format!("EVALSHA {} 1 k t", COMPARE_AND_DELETE.sha1());
    let deletes = |compares| Intent { touch: Touch::Delete, compares };
    assert_eq!(reads_as(&line, KeyValue::Token), deletes(true));
    assert_eq!(reads_as(&line, KeyValue::Shared), deletes(false));
}

#[test]
fn commands_are_read_by_what_they_do_to_their_key() {
    let plain = |touch| Intent { touch, compares: false };
    let ms = |span: u64| Some(span * NS_PER_MS);
    assert_eq!(reads("SET k v NX PX 30"), plain(Touch::Create(ms(30))));
    assert_eq!(reads("set k v ex 3 nx"), plain(Touch::Create(ms(3000))));
    assert_eq!(reads("SET k v NX"), plain(Touch::Create(None)));
    assert_eq!(reads("SET k v EX 1"), plain(Touch::Overwrite(ms(1000))));
    assert_eq!(reads("SET k v XX PX 5"), plain(Touch::Overwrite(ms(5))));
    assert_eq!(reads("SET k v KEEPTTL"), plain(Touch::Unknown));
    assert_eq!(reads("SET k v PX soon"), plain(Touch::Unknown));
    assert_eq!(reads("SETNX k v"), plain(Touch::Create(None)));
    assert_eq!(reads("GETSET k v"), plain(Touch::Overwrite(None)));
    assert_eq!(reads("unlink k"), plain(Touch::Delete));
    assert_eq!(reads("PEXPIRE k 7"), plain(Touch::Extend(7 * NS_PER_MS)));
    assert_eq!(reads("EXPIRE k 7"), plain(Touch::Extend(7 * NS_PER_S)));
    for harmless in ["DECR k", "WATCH k", "EXEC k", "EXISTS k"] {
        assert_eq!(reads(harmless), plain(Touch::None), "{harmless}");
    }
    assert_eq!(reads("RENAME k l"), plain(Touch::Unknown));
    assert_eq!(reads("getrange k 0 -1"), plain(Touch::None));
    assert_eq!(reads("SETRANGE k 0 v"), plain(Touch::Unknown));
}

#[test]
fn native_compare_and_set_is_read_as_the_scripts_are() {
    let reads = |line, touch, compares| {
        assert_eq!(reads_as(line, KeyValue::Token), Intent { touch, compares }, "{line}");
        let shared = reads_as(line, KeyValue::Shared);
        assert_eq!(shared, Intent { touch, compares: false }, "{line}: all have the same value");
    };
    let extends = Touch::Extend(9 * NS_PER_MS);
    reads("DELEX k IFEQ t", Touch::Delete, true);
    reads("delex k ifeq t", Touch::Delete, true);
    reads("DELIFEQ k t", Touch::Delete, true);
    reads("SET k t IFEQ t PX 9", extends, true);
    reads("set k t px 9 ifeq t", extends, true);
    // What compares otherwise, or not at all, may meet another's key.
    reads("DELEX k IFNE t", Touch::Delete, false);
    reads("DELEX k", Touch::Delete, false);
    reads("SET k u IFEQ t PX 9", Touch::Overwrite(Some(9 * NS_PER_MS)), true);
    reads("SET k t IFEQ t", Touch::Overwrite(None), true);
    reads("SET k t IFEQ", Touch::Overwrite(None), false);
    reads("SET k t IFDEQ t PX 9", Touch::Unknown, false);
    let extend = sent(Intent { touch: extends, compares: true }, false);
    assert_eq!(touch(extend, &Reply::Ok), extends);
    assert_eq!(touch(extend, &Reply::Nil), Touch::None, "missing, or another's");
}

#[test]
fn known_scripts_are_read_by_digest_and_by_text_and_unknown_ones_are_not_guessed() {
    let deletes = Intent { touch: Touch::Delete, compares: true };
    let extends = Intent { touch: Touch::Extend(9 * NS_PER_MS), compares: true };
    assert_eq!(reads(&format!("EVALSHA {} 1 k t", COMPARE_AND_DELETE.sha1())), deletes);
    assert_eq!(reads(&format!("EVALSHA {} 1 k t 9", COMPARE_AND_EXTEND.sha1())), extends);
    let by_text = Command::new("EVAL").arg(COMPARE_AND_DELETE.text()).int(1).arg("k").arg("t");
    assert_eq!(semantics(&by_text, &speaks(KeyValue::Token), || NOW).intent, deletes);
    assert_eq!(
        semantics(&by_text, &Dialect::default(), || NOW).intent,
        Intent { touch: Touch::Unknown, compares: false }
    );
}

/// A name that is too long for its place would match nothing, and the command would be taken for one that is unknown.
#[test]
fn every_name_that_is_looked_for_is_recognised() {
    let names = include_str!("../command_semantics.rs").split("b\"").skip(1);
    let names = names.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.as_bytes());
    let mut found = 0;
    for name in names {
        let (upper, length) = upper(&name.to_ascii_lowercase());
        assert_eq!(&upper[..length], name);
        found += 1;
    }
    assert!(found > 30, "{found}");
}

#[test]
fn an_answer_says_whether_it_was_done() {
    let plain = |touch| sent(Intent { touch, compares: false }, false);
    let create = plain(Touch::Create(None));
    assert_eq!(touch(create, &Reply::Ok), create.intent.touch);
    assert_eq!(touch(create, &Reply::Int(1)), create.intent.touch);
    assert_eq!(touch(create, &Reply::Nil), Touch::None);
    assert_eq!(touch(create, &Reply::Int(0)), Touch::None);
    let delete = plain(Touch::Delete);
    assert_eq!(touch(delete, &Reply::Int(1)), Touch::Delete);
    assert_eq!(touch(delete, &Reply::Int(0)), Touch::None);
    assert_eq!(touch(delete, &Reply::Int(-1)), Touch::None);
}

#[test]
fn who_overwrites_and_finds_nothing_has_made_the_key_or_has_done_nothing() {
    let does = |line: &str, reply: &Reply| {
        let command = command(line);
        let CommandSemantics { intent, gives_old, .. } =
            semantics(&command, &speaks(KeyValue::Token), || NOW);
        touch(sent(intent, gives_old), reply)
    };
    let (old, none) = (Reply::bulk(b"old"), Reply::Nil);
    assert_eq!(does("GETSET k v", &old), Touch::Overwrite(None));
    assert_eq!(does("getset k v", &none), Touch::Create(None));
    assert_eq!(does("SET k v", &Reply::Ok), Touch::Overwrite(None));
    assert_eq!(does("SET k v XX", &Reply::Ok), Touch::Overwrite(None));
    assert_eq!(does("SET k v XX", &none), Touch::None, "there was no key");
    assert_eq!(does("SET k v IFEQ w", &none), Touch::None, "it was another's");
    assert_eq!(does("SET k v GET", &old), Touch::Overwrite(None));
    assert_eq!(does("set k v get px 9", &none), Touch::Create(Some(9 * NS_PER_MS)));
    assert_eq!(does("SET k v NX GET", &none), Touch::Create(None));
    assert_eq!(does("SET k v NX GET", &old), Touch::None, "which kept it from writing");
    assert_eq!(does("GETDEL k", &old), Touch::Delete);
    assert_eq!(does("GETDEL k", &none), Touch::None);
    for unsupported in ["SET k v XX GET", "SET k v IFEQ w GET"] {
        assert_eq!(does(unsupported, &old), Touch::Unknown, "{unsupported}");
    }
}

#[test]
fn what_a_command_would_write_is_known_or_said_to_be_unknown() {
    let writes = |line: &str, expected: Writes<'_>| {
        let command = command(line);
        let understood = semantics(&command, &speaks(KeyValue::Token), || NOW);
        assert_eq!(understood.writes, expected, "{line}");
    };
    for line in ["SET k v", "SET k v NX PX 9", "SETNX k v", "GETSET k v", "SET k v IFEQ w"] {
        writes(line, Writes::Value(b"v"));
    }
    let script = format!("EVALSHA {} 1 k t", COMPARE_AND_DELETE.sha1());
    for line in ["GET k", "DEL k", "GETDEL k", "PEXPIRE k 9", "SET k v IFEQ v PX 9", &script] {
        writes(line, Writes::Nothing);
    }
    for line in
        ["INCR k", "DECRBY k 2", "APPEND k v", "RENAME l k", "EVALSHA 1234 1 k", "SET k v XX GET"]
    {
        writes(line, Writes::Unknown);
    }
}

#[test]
fn scripts_that_acquire_or_hand_over_say_what_they_did_in_their_answers() {
    let creates = Intent { touch: Touch::Create(Some(9 * NS_PER_MS)), compares: false };
    let hands_over = Intent { touch: Touch::Unknown, compares: true };
    let dialect = Dialect::new([&*JOIN, &*LEAVE], KeyValue::Token);
    let sent = |intent| sent(intent, false);
    let of = |line: String| semantics(&command(&line), &dialect, || NOW).intent;
    assert_eq!(of(format!("EVALSHA {} 3 k l b t 1 2 c 9", JOIN.sha1())), creates);
    assert_eq!(of(format!("EVALSHA {} 3 k l b t", LEAVE.sha1())), hands_over);
    let list = |code| Reply::Array(vec![Reply::Int(code), Reply::bulk(b"17")]);
    assert_eq!(touch(sent(creates), &list(1)), creates.touch);
    assert_eq!(touch(sent(creates), &list(2)), Touch::Extend(9 * NS_PER_MS));
    for code in [0, -1] {
        assert_eq!(touch(sent(creates), &list(code)), Touch::None, "{code}");
    }
    for (code, left_alone) in [(1, false), (0, false), (2, true), (-1, true)] {
        let expected = if left_alone { Touch::None } else { Touch::Unknown };
        assert_eq!(touch(sent(hands_over), &Reply::Int(code)), expected, "{code}");
    }
    let unknown = Intent { touch: Touch::Unknown, compares: false };
    assert_eq!(touch(sent(unknown), &Reply::Int(-1)), Touch::Unknown);
}

#[test]
fn long_answers_are_cut_between_characters() {
    let mut texts = Texts::default();
    let long = "é".repeat(TEXT_BYTES);
    let Answer::Text(text) = answer(&Reply::bulk(long.as_bytes()), &mut texts) else {
        panic!("a string is written as text");
    };
    assert_eq!(texts.get(text).chars().count(), TEXT_BYTES / 2);
}
