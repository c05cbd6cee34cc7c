//! The protocol between picklock and a worker: orders and answers, a line each.
//!
//! Invariant: a line that is no answer is kept and changes nothing, so a worker may print what it likes. A line is an
//! error only if it was certainly meant as an answer and cannot be read. A worker gets one order at a time and answers
//! it before the next. `docs/attack.md` describes the protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use history::nearest::nearest;
use reports::plain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the protocol, which workers are told in `PICKLOCK_PROTOCOL`.
pub const PROTOCOL: u32 = 1;

/// What a worker is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Acquire the lock.
    Acquire,
    /// Say whether it still has it.
    Check,
    /// Make it last a TTL from now.
    Extend,
    /// Release it.
    Release,
}

impl Order {
    /// The line of this order, without the newline.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Check => "check",
            Self::Extend => "extend",
            Self::Release => "release",
        }
    }
}

/// What a worker answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerAnswer {
    /// It has the lock, still has it, has extended it, or has released it.
    Ok(LockGrant),
    /// It has not, or had nothing to release.
    No,
    /// It cannot tell, for this reason: its library threw an exception, say.
    Unknown(String),
}

impl WorkerAnswer {
    /// The word that it begins with.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::No => "no",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What may follow `ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockGrant {
    /// Its fencing token.
    #[serde(default)]
    pub fence: Option<u64>,
    /// For how many milliseconds it may be relied on, counted from when the answer is read.
    #[serde(default)]
    pub valid_ms: Option<u64>,
}

impl LockGrant {
    /// For how long it may be relied on, if the worker says.
    pub(crate) fn valid(&self) -> Option<Duration> {
        self.valid_ms.map(Duration::from_millis)
    }
}

/// What a lock promises beyond exclusion. Only what is promised is held against it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promises {
    /// It renews what it holds, so that a hold may last longer than the TTL.
    pub renews: bool,
    /// It answers `extend`, with which its holder renews it, so that a hold may last longer than the TTL.
    pub extends: bool,
    /// `check` asks the library or the server, and does not say yes in any case.
    pub checks: bool,
    /// `release` says whether there was anything to release.
    pub reports: bool,
    /// The value of the key says when a hold ends, and the key itself does not expire, or only later.
    #[serde(default)]
    pub stamps: bool,
}

/// A line of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It can be given orders.
    Ready(Promises),
    /// The answer to the last order.
    Answer(WorkerAnswer),
    /// Unasked: it has learnt that it no longer has the lock.
    Lost,
    /// Meant as one of these, and unreadable.
    Misspelt(Misspelt),
    /// Not a line of the protocol.
    Other(String),
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misspelt {
    /// The word of the protocol that it begins with.
    pub(crate) word: &'static str,
    pub(crate) line: String,
    /// What is wrong with it.
    pub(crate) why: String,
}

/// What a line may begin with.
const WORDS: [&str; 5] = ["ready", "ok", "no", "unknown", "lost"];
/// How many characters of a text are shown.
const TEXT_MOST: usize = 160;

/// What `ok` may carry.
const GRANT: [&str; 2] = ["fence", "valid_ms"];

/// What the numbers of `ok` may be.
const NUMBERS: &str =
    "a NUMBER is whole, and 0 or more. If no time is left, give the lock back and answer `no`";

/// A line as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Json {
    Ready(BTreeMap<String, bool>),
    Ok(LockGrant),
    No {},
    Unknown(String),
    Lost {},
}

/// Reads a line, without its end.
pub(crate) fn parse(line: &str) -> Said {
    let trimmed = line.trim();
    let read = if trimmed.starts_with('{') { json(trimmed) } else { words(trimmed) };
    let Some((word, said)) = read else { return Said::Other(line.to_owned()) };
    said.unwrap_or_else(|why| Said::Misspelt(Misspelt { word, line: trimmed.to_owned(), why }))
}

/// The word of the protocol, and what the line says or what is wrong with it; none if it is no line of the protocol.
type ReadLine = Option<(&'static str, Result<Said, String>)>;

fn json(line: &str) -> ReadLine {
    let object: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let key = object.keys().next().filter(|_| object.len() == 1)?;
    let word = protocol_word(key)?;
    if key != word {
        return Some((word, Err(in_small_letters(word))));
    }
    let said = match serde_json::from_str(line) {
        Ok(Json::Ready(names)) => {
            let promised = names.iter().filter(|(_, promised)| **promised);
            // A promise that is `false` may be misspelt, too.
            let known = promises(names.keys().map(String::as_str));
            known.and_then(|_| promises(promised.map(|(name, _)| name.as_str()))).map(Said::Ready)
        }
        Ok(Json::Ok(grant)) => Ok(Said::Answer(WorkerAnswer::Ok(grant))),
        Ok(Json::No {}) => Ok(Said::Answer(WorkerAnswer::No)),
        Ok(Json::Unknown(why)) => Ok(Said::Answer(WorkerAnswer::Unknown(why))),
        Ok(Json::Lost {}) => Ok(Said::Lost),
        Err(_) => Err(json_form(word)),
    };
    Some((word, said))
}

/// How a line as JSON with this word is written.
fn json_form(word: &str) -> String {
    let form = match word {
        "ready" => r#"`{"ready": {"checks": true}}` names promises, each true or false"#,
        "ok" => {
            return format!(
                r#"write `{{"ok": {{"fence": NUMBER, "valid_ms": NUMBER}}}}`, with both, one or none: {NUMBERS}"#
            );
        }
        "unknown" => r#"write `{"unknown": "timed out"}`, with the reason"#,
        "no" => r#"write `{"no": {}}`"#,
        _ => r#"write `{"lost": {}}`"#,
    };
    form.to_owned()
}

fn words(line: &str) -> ReadLine {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word = protocol_word(first)?;
    let rest = rest.trim();
    let resembles = |names: &[&str]| {
        let mut heads = rest.split([' ', '\t', ',', ';', '=']);
        rest.is_empty() || heads.any(|it| nearest(it, names.iter().copied()).is_some())
    };
    let said = match word {
        "ready" if resembles(&Promises::NAMES) => {
            promises(rest.split_whitespace()).map(Said::Ready)
        }
        "ok" if resembles(&GRANT) => match grant(rest) {
            Some(grant) => Ok(Said::Answer(WorkerAnswer::Ok(grant))),
            None => Err(format!(
                "behind `ok` come `fence=NUMBER`, `valid_ms=NUMBER`, or nothing: {NUMBERS}"
            )),
        },
        "no" if rest.is_empty() => Ok(Said::Answer(WorkerAnswer::No)),
        "unknown" => Ok(Said::Answer(WorkerAnswer::Unknown(rest.to_owned()))),
        "lost" if rest.is_empty() => Ok(Said::Lost),
        _ => return None,
    };
    match first == word {
        true => Some((word, said)),
        // redis-cli prints a line `OK`, and many error messages begin with `Unknown`.
        false if line == "OK" || word == "unknown" => None,
        false => Some((word, Err(in_small_letters(word)))),
    }
}

fn in_small_letters(word: &str) -> String {
    format!("write `{word}` in small letters")
}

fn protocol_word(word: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|it| it.eq_ignore_ascii_case(word))
}

impl Promises {
    const NAMES: [&str; 5] = ["renews", "extends", "checks", "reports", "stamps"];

    /// Whether a hold may last longer than the TTL.
    pub(crate) const fn outlives_ttl(self) -> bool {
        self.renews || self.extends
    }

    fn promise(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "renews" => &mut self.renews,
            "extends" => &mut self.extends,
            "checks" => &mut self.checks,
            "reports" => &mut self.reports,
            "stamps" => &mut self.stamps,
            _ => return None,
        })
    }
}

fn promises<'a>(names: impl Iterator<Item = &'a str>) -> Result<Promises, String> {
    let mut promises = Promises::default();
    for name in names {
        let Some(promise) = promises.promise(name) else {
            let near = nearest(name, Promises::NAMES);
            let near = near.map_or_else(String::new, |it| format!(": did you mean `{it}`?"));
            let all = Promises::NAMES.join(", ");
            return Err(format!("unknown promise `{name}`{near} (promises: {all})"));
        };
        *promise = true;
    }
    Ok(promises)
}

fn grant(words: &str) -> Option<LockGrant> {
    let mut grant = LockGrant::default();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=')?;
        let value = Some(value.parse().ok()?);
        match name {
            "fence" => grant.fence = value,
            "valid_ms" => grant.valid_ms = value,
            _ => return None,
        }
    }
    Some(grant)
}

/// Shortens a text for output: reasons that workers give may be long. `attack.json` has the whole text.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MOST) {
        Some((end, _)) => format!("{}...", plain(text[..end].trim_end())),
        None => plain(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_json_say_the_same() {
        let both = LockGrant { fence: Some(7), valid_ms: Some(450) };
        let renews = Promises { renews: true, ..Promises::default() };
        let both_too = Promises { renews: true, checks: true, ..Promises::default() };
        for (words, json, said) in [
            ("ready", r#"{"ready": {}}"#, Said::Ready(Promises::default())),
            ("ready renews", r#"{"ready": {"renews": true}}"#, Said::Ready(renews)),
            (
                "ready checks renews",
                r#"{"ready": {"checks": true, "renews": true}}"#,
                Said::Ready(both_too),
            ),
            ("ok", r#"{"ok": {}}"#, Said::Answer(WorkerAnswer::Ok(LockGrant::default()))),
            (
                " ok fence=7  valid_ms=450 ",
                r#"{"ok": {"fence": 7, "valid_ms": 450}}"#,
                Said::Answer(WorkerAnswer::Ok(both)),
            ),
            ("no", r#"{"no": {}}"#, Said::Answer(WorkerAnswer::No)),
            (
                "unknown timed out: 3 s",
                r#"{"unknown": "timed out: 3 s"}"#,
                Said::Answer(WorkerAnswer::Unknown("timed out: 3 s".into())),
            ),
            ("lost", r#"{"lost": {}}"#, Said::Lost),
        ] {
            assert_eq!(parse(words), said);
            assert_eq!(parse(json), said);
        }
    }

    #[test]
    fn what_is_no_answer_is_kept() {
        for line in [
            "",
            "okay",
            "OK",
            "ok then",
            "no way",
            "No way",
            "lost it",
            "Unknown option: -x",
            "ready steady",
            "Ready to accept connections",
            "{}",
            "{\"ok\":",
            "{\"level\": \"info\"}",
            "{\"ok\": true, \"took\": 3}",
        ] {
            assert_eq!(parse(line), Said::Other(line.to_owned()));
        }
    }

    #[test]
    fn what_was_meant_as_an_answer_and_is_misspelt_is_told() {
        for (line, says) in [
            ("ready check", "unknown promise `check`: did you mean `checks`?"),
            ("ready checks,reports", "unknown promise `checks,reports`"),
            ("ready checks fast", "unknown promise `fast` (promises: renews"),
            (r#"{"ready": {"check": false}}"#, "did you mean `checks`?"),
            (r#"{"ready": true}"#, r#"`{"ready": {"checks": true}}` names promises"#),
            ("Ready checks", "write `ready` in small letters"),
            ("Ok", "write `ok` in small letters"),
            ("NO", "write `no` in small letters"),
            ("ok fence=abc", "`fence=NUMBER`"),
            ("ok fance=7", "`fence=NUMBER`"),
            ("ok valid_ms 30", "`valid_ms=NUMBER`"),
            (
                "ok valid_ms=-50",
                "0 or more. If no time is left, give the lock back and answer `no`",
            ),
            (r#"{"ok": {"valid_ms": -48}}"#, "0 or more. If no time is left"),
            (r#"{"ok": {"valid_ms": 4.5}}"#, "a NUMBER is whole"),
            (r#"{"ok": {"fence": "x"}}"#, r#"write `{"ok": {"fence": NUMBER"#),
            (r#"{"ok": {"token": 1}}"#, r#"write `{"ok": {"fence": NUMBER"#),
            (r#"{"OK": {}}"#, "write `ok` in small letters"),
            (r#"{"no": 1}"#, r#"write `{"no": {}}`"#),
            (r#"{"unknown": {}}"#, r#"write `{"unknown": "timed out"}`"#),
            (r#"{"lost": 1}"#, r#"write `{"lost": {}}`"#),
        ] {
            let Said::Misspelt(Misspelt { word, line: said, why }) = parse(line) else {
                panic!("{line}: {:?}", parse(line));
            };
            assert!(why.contains(says), "{line}: {why}");
            assert_eq!(said, line);
            assert!(line.to_ascii_lowercase().contains(word));
        }
    }

    #[test]
    fn what_would_steer_a_terminal_is_escaped() {
        let text = "a\u{1b}[2Jb\u{202e}c\u{0}\u{e9}";
        assert_eq!(cut(text), "a\\u{1b}[2Jb\\u{202e}c\\u{0}\u{e9}");
    }

    #[test]
    fn a_long_text_is_cut_and_no_other() {
        let fits = "é".repeat(TEXT_MOST);
        assert_eq!(cut(&fits), fits);
        assert_eq!(cut(&format!("{fits}é")), format!("{fits}..."));
    }
}
