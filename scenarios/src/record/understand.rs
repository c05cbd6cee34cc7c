//! What a command would do to its key, and what its answer says it did.
//!
//! Invariant: where picklock does not know a command, it says *unknown*, which makes a checker
//! careful; it never guesses *nothing*. Deliberately absent: the values of keys, which say nothing
//! about who owns them.

use picklock::command::{Args, Command};
use picklock::reply::Reply;
use picklock::script::Meaning;
use picklock::time::WallTime;

use super::{Dialect, Sent};
use crate::history::{Answer, Intent, Text, Texts, Touch};
use crate::recipe::Value;

const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;
/// No command that is known here has a longer name.
const NAME_BYTES: usize = 8;
/// A word as one number, with zeros behind its letters: comparing it with many is cheap.
const fn packed(word: &[u8]) -> u64 {
    let mut bytes = [0; NAME_BYTES];
    let mut place = 0;
    while place < word.len() {
        bytes[place] = word[place];
        place += 1;
    }
    u64::from_le_bytes(bytes)
}

/// Longer strings are cut: the history tells who did what, it is no backup.
const TEXT_BYTES: usize = 64;

/// The commands that are known here.
mod verb {
    use super::packed;

    pub(super) const SET: u64 = packed(b"SET");
    pub(super) const SETNX: u64 = packed(b"SETNX");
    pub(super) const GETSET: u64 = packed(b"GETSET");
    pub(super) const DEL: u64 = packed(b"DEL");
    pub(super) const UNLINK: u64 = packed(b"UNLINK");
    pub(super) const DELEX: u64 = packed(b"DELEX");
    pub(super) const DELIFEQ: u64 = packed(b"DELIFEQ");
    pub(super) const PEXPIRE: u64 = packed(b"PEXPIRE");
    pub(super) const EXPIRE: u64 = packed(b"EXPIRE");
    pub(super) const EVAL: u64 = packed(b"EVAL");
    pub(super) const EVALSHA: u64 = packed(b"EVALSHA");
    /// Those that leave the life of a key alone.
    pub(super) const HARMLESS: [u64; 28] = [
        packed(b"GET"),
        packed(b"GETRANGE"),
        packed(b"STRLEN"),
        packed(b"TYPE"),
        packed(b"TOUCH"),
        packed(b"DECR"),
        packed(b"INCR"),
        packed(b"EXISTS"),
        packed(b"TTL"),
        packed(b"PTTL"),
        packed(b"INCRBY"),
        packed(b"DECRBY"),
        packed(b"PING"),
        packed(b"ECHO"),
        packed(b"TIME"),
        packed(b"INFO"),
        packed(b"WAIT"),
        packed(b"PUBLISH"),
        packed(b"WATCH"),
        packed(b"UNWATCH"),
        packed(b"MULTI"),
        // What a transaction does is written down as the commands that were queued in it.
        packed(b"EXEC"),
        packed(b"DISCARD"),
        packed(b"SCRIPT"),
        packed(b"ROLE"),
        packed(b"CONFIG"),
        packed(b"CLIENT"),
        packed(b"HELLO"),
    ];
}

/// A command, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Understood<'a> {
    /// Its name, as it came.
    pub(super) name: &'a [u8],
    /// Its first key; empty where it has none.
    pub(super) key: &'a [u8],
    /// What it would do to that key.
    pub(super) intent: Intent,
    /// It answers what was there before.
    pub(super) gives_old: bool,
}

/// The command's name in capitals, as Redis counts commands.
pub(super) fn name(name: &[u8], texts: &mut Texts) -> Text {
    if name.iter().any(u8::is_ascii_lowercase) {
        texts.intern_bytes(&name.to_ascii_uppercase())
    } else {
        texts.intern_bytes(name)
    }
}

/// The first key of a command, and what the command would do to it.
/// `wall` is the wall clock of whoever sends it.
pub(super) fn understand<'a>(
    command: &'a Command,
    dialect: &Dialect,
    wall: impl FnOnce() -> WallTime,
) -> Understood<'a> {
    let mut args = command.args();
    let name = args.next().unwrap_or_default();
    let upper = upper(name);
    if matches!(upper, verb::EVALSHA | verb::EVAL) {
        let body = args.next().unwrap_or_default();
        let key = args.nth(1).unwrap_or_default();
        let intent = script(upper == verb::EVALSHA, body, args, dialect);
        return Understood { name, key, intent, gives_old: false };
    }
    let key = args.next().unwrap_or_default();
    let certain = |touch| Intent { touch, compares: false };
    let intent = match upper {
        verb::SET => set(args, dialect),
        verb::SETNX => certain(Touch::Create(stamped(args.next(), dialect, wall))),
        verb::GETSET => certain(Touch::Overwrite(stamped(args.next(), dialect, wall))),
        verb::DEL | verb::UNLINK => certain(Touch::Delete),
        verb::DELEX => delex(args, dialect),
        verb::DELIFEQ => Intent { touch: Touch::Delete, compares: spares_others(dialect) },
        verb::PEXPIRE => certain(expiry(args.next(), NS_PER_MS)),
        verb::EXPIRE => certain(expiry(args.next(), NS_PER_S)),
        harmless if verb::HARMLESS.contains(&harmless) => certain(Touch::None),
        _ => certain(Touch::Unknown),
    };
    Understood { name, key, intent, gives_old: upper == verb::GETSET }
}

/// The name in capitals, packed; 0 for one that is longer than any that is known.
fn upper(name: &[u8]) -> u64 {
    let mut upper = [0; NAME_BYTES];
    if name.len() > NAME_BYTES {
        return 0;
    }
    for (letter, byte) in upper.iter_mut().zip(name) {
        *letter = byte.to_ascii_uppercase();
    }
    u64::from_le_bytes(upper)
}

/// A whole number, not negative.
fn number(digits: &[u8]) -> Option<u64> {
    let (&first, rest) = digits.split_first()?;
    // As the standard library reads numbers: a plus may stand before them.
    let digits = if first == b'+' && !rest.is_empty() { rest } else { digits };
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn expiry(span: Option<&[u8]>, unit_ns: u64) -> Touch {
    match span.and_then(number) {
        Some(span) => Touch::Extend(span.saturating_mul(unit_ns)),
        None => Touch::Unknown,
    }
}

/// How long a hold lasts whose key has this value: as long as the value says, where it says so, counted
/// from now by the clock of the client that wrote it; otherwise for ever.
fn stamped(
    value: Option<&[u8]>,
    dialect: &Dialect,
    wall: impl FnOnce() -> WallTime,
) -> Option<u64> {
    let stamp_ms = value.filter(|_| dialect.value == Value::Stamp).and_then(number)?;
    Some(stamp_ms.saturating_mul(NS_PER_MS).saturating_sub(wall().as_unix_ns()))
}

/// Comparing values spares the holds of others only where each has a value of its own.
fn spares_others(dialect: &Dialect) -> bool {
    dialect.value == Value::Token
}

/// DELEX with its condition, behind the key. Whatever else than equality it asks for may be true of
/// another's key.
fn delex(mut args: Args<'_>, dialect: &Dialect) -> Intent {
    let equal = args.next().is_some_and(|word| word.eq_ignore_ascii_case(b"IFEQ"));
    Intent { touch: Touch::Delete, compares: equal && spares_others(dialect) }
}

/// SET with its options, behind the key; one that keeps or computes the expiry otherwise is beyond us.
/// To write the same value where it stands, with a new TTL, is to extend the hold of whoever has it.
fn set(mut args: Args<'_>, dialect: &Dialect) -> Intent {
    let (mut creates, mut compared, mut ttl_ns) = (false, None, None);
    let value = args.next();
    while let Some(option) = args.next() {
        match option {
            [b'N' | b'n', b'X' | b'x'] => creates = true,
            [b'X' | b'x', b'X' | b'x'] => {}
            [unit @ (b'P' | b'p' | b'E' | b'e'), b'X' | b'x'] => {
                let Some(span) = args.next().and_then(number) else {
                    return Intent { touch: Touch::Unknown, compares: false };
                };
                let unit_ns = if matches!(unit, b'P' | b'p') { NS_PER_MS } else { NS_PER_S };
                ttl_ns = Some(span.saturating_mul(unit_ns));
            }
            _ if option.eq_ignore_ascii_case(b"IFEQ") => {
                compared = args.next();
            }
            _ => return Intent { touch: Touch::Unknown, compares: false },
        }
    }
    let same = compared.is_some() && compared == value;
    let touch = match ttl_ns {
        Some(ttl_ns) if same => Touch::Extend(ttl_ns),
        _ if creates => Touch::Create(ttl_ns),
        _ => Touch::Overwrite(ttl_ns),
    };
    Intent { touch, compares: compared.is_some() && spares_others(dialect) }
}

fn script(by_digest: bool, body: &[u8], args: Args<'_>, dialect: &Dialect) -> Intent {
    let known = dialect.scripts.iter().find(|script| {
        if by_digest {
            body.eq_ignore_ascii_case(script.sha1().as_bytes())
        } else {
            body == script.text().as_bytes()
        }
    });
    let touch = match known.map(|script| script.meaning()) {
        Some(Meaning::Deletes) => Touch::Delete,
        Some(Meaning::Extends) => expiry(args.last(), NS_PER_MS),
        Some(Meaning::Creates) => {
            let ttl_ms = args.last().and_then(number);
            let touch = ttl_ms.map_or(Touch::Unknown, |ttl_ms| {
                Touch::Create(Some(ttl_ms.saturating_mul(NS_PER_MS)))
            });
            return Intent { touch, compares: false };
        }
        Some(Meaning::HandsOver | Meaning::Other) | None => Touch::Unknown,
    };
    Intent { touch, compares: known.is_some() && spares_others(dialect) }
}

/// What the command did, to judge by its answer.
pub(super) fn touch(sent: Sent, reply: &Reply) -> Touch {
    let Sent { intent, gives_old, .. } = sent;
    let done = match intent.touch {
        Touch::None => return Touch::None,
        // A script that hands over says so where it found another's key and left it alone.
        Touch::Unknown if intent.compares && matches!(reply, Reply::Int(-1 | 2)) => {
            return Touch::None;
        }
        Touch::Unknown => return Touch::Unknown,
        // SET says OK where it wrote and nothing where it did not; SETNX says 1 or 0; a script says so
        // in the first place of a list.
        Touch::Create(_) => match reply {
            Reply::Array(list) => list.first() == Some(&Reply::Int(1)),
            reply => matches!(reply, Reply::Ok | Reply::Int(1)),
        },
        // GETSET answers the old value; where there was none, it has made the key.
        Touch::Overwrite(ttl_ns) if gives_old && *reply == Reply::Nil => {
            return Touch::Create(ttl_ns);
        }
        Touch::Overwrite(_) => gives_old || *reply == Reply::Ok,
        Touch::Delete => matches!(reply, Reply::Int(1..)),
        // A script says 1, SET says OK.
        Touch::Extend(_) => matches!(reply, Reply::Ok | Reply::Int(1)),
    };
    if done { intent.touch } else { Touch::None }
}

/// An answer as it is written down.
pub(super) fn answer(reply: &Reply, texts: &mut Texts) -> Answer {
    match reply {
        Reply::Nil => Answer::Nil,
        Reply::Ok => Answer::Ok,
        Reply::Int(value) => Answer::Int(*value),
        Reply::Status(text) => Answer::Text(texts.intern(cut(text))),
        Reply::Bulk(bytes) if bytes.len() <= TEXT_BYTES => Answer::Text(texts.intern_bytes(bytes)),
        Reply::Bulk(bytes) => Answer::Text(texts.intern(cut(&String::from_utf8_lossy(bytes)))),
        Reply::Array(_) => Answer::List,
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use picklock::queue_scripts::{JOIN, LEAVE};
    use picklock::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};

    use super::*;

    fn command(line: &str) -> Command {
        let (name, args) = line.split_once(' ').unwrap_or((line, ""));
        args.split(' ').fold(Command::new(name), |command, arg| command.arg(arg))
    }

    /// 2,000.4 seconds of Unix time.
    const NOW: WallTime = WallTime::from_unix_ns(2_000_400_000_000);

    fn speaks(value: Value) -> Dialect {
        Dialect { scripts: [&*COMPARE_AND_DELETE, &*COMPARE_AND_EXTEND].into(), value }
    }

    fn reads_as(line: &str, value: Value) -> Intent {
        let command = command(line);
        let understood = understand(&command, &speaks(value), || NOW);
        assert_eq!(understood.key, b"k", "{line}");
        understood.intent
    }

    fn reads(line: &str) -> Intent {
        reads_as(line, Value::Token)
    }

    #[test]
    fn a_stamp_says_how_long_a_hold_lasts_by_its_clients_clock() {
        let plain = |touch| Intent { touch, compares: false };
        let stamped = |line| reads_as(line, Value::Stamp);
        let lasts = Some(600 * NS_PER_MS);
        assert_eq!(stamped("SETNX k 2001000"), plain(Touch::Create(lasts)));
        assert_eq!(stamped("GETSET k 2001000"), plain(Touch::Overwrite(lasts)));
        assert_eq!(stamped("SETNX k 2000399"), plain(Touch::Create(Some(0))), "it is over");
        assert_eq!(stamped("SETNX k soon"), plain(Touch::Create(None)));
        for value in [Value::Token, Value::Shared] {
            assert_eq!(reads_as("SETNX k 2001000", value), plain(Touch::Create(None)));
            assert_eq!(reads_as("GETSET k 2001000", value), plain(Touch::Overwrite(None)));
        }
    }

    #[test]
    fn to_compare_with_what_others_have_too_spares_nobody() {
        let line = format!("EVALSHA {} 1 k t", COMPARE_AND_DELETE.sha1());
        let deletes = |compares| Intent { touch: Touch::Delete, compares };
        assert_eq!(reads_as(&line, Value::Token), deletes(true));
        assert_eq!(reads_as(&line, Value::Shared), deletes(false));
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
            assert_eq!(reads_as(line, Value::Token), Intent { touch, compares }, "{line}");
            let shared = reads_as(line, Value::Shared);
            assert_eq!(
                shared,
                Intent { touch, compares: false },
                "{line}: all have the same value"
            );
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
        let extend =
            Sent { op: 1, intent: Intent { touch: extends, compares: true }, gives_old: false };
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
        assert_eq!(understand(&by_text, &speaks(Value::Token), || NOW).intent, deletes);
        assert_eq!(
            understand(&by_text, &Dialect::default(), || NOW).intent,
            Intent { touch: Touch::Unknown, compares: false }
        );
    }

    #[test]
    fn an_answer_says_whether_it_was_done() {
        let plain =
            |touch| Sent { op: 1, intent: Intent { touch, compares: false }, gives_old: false };
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
            let Understood { intent, gives_old, .. } =
                understand(&command, &speaks(Value::Token), || NOW);
            touch(Sent { op: 1, intent, gives_old }, reply)
        };
        let (old, none) = (Reply::bulk(b"old"), Reply::Nil);
        assert_eq!(does("GETSET k v", &old), Touch::Overwrite(None));
        assert_eq!(does("getset k v", &none), Touch::Create(None));
        assert_eq!(does("SET k v", &Reply::Ok), Touch::Overwrite(None));
        assert_eq!(does("SET k v XX", &Reply::Ok), Touch::Overwrite(None));
        assert_eq!(does("SET k v XX", &none), Touch::None, "there was no key");
        assert_eq!(does("SET k v IFEQ w", &none), Touch::None, "it was another's");
    }

    #[test]
    fn scripts_that_acquire_or_hand_over_say_what_they_did_in_their_answers() {
        let creates = Intent { touch: Touch::Create(Some(9 * NS_PER_MS)), compares: false };
        let hands_over = Intent { touch: Touch::Unknown, compares: true };
        let dialect = Dialect { scripts: [&*JOIN, &*LEAVE].into(), value: Value::Token };
        let sent = |intent| Sent { op: 1, intent, gives_old: false };
        let of = |line: String| understand(&command(&line), &dialect, || NOW).intent;
        assert_eq!(of(format!("EVALSHA {} 3 k l b t 1 2 c 9", JOIN.sha1())), creates);
        assert_eq!(of(format!("EVALSHA {} 3 k l b t", LEAVE.sha1())), hands_over);
        let list = |code| Reply::Array(vec![Reply::Int(code), Reply::bulk(b"17")]);
        assert_eq!(touch(sent(creates), &list(1)), creates.touch);
        for code in [0, 2, -1] {
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
}
