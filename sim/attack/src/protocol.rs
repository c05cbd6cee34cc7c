//! What picklock and a worker say to each other: a line each.
//!
//! Invariant: a line that is no answer is kept and changes nothing, so a worker may print what it likes. A worker is
//! given one order at a time and answers it before the next. `docs/attack.md` describes the protocol.

use std::time::Duration;

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
    /// Release it.
    Release,
}

impl Order {
    /// The line that says it, without its end.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Check => "check",
            Self::Release => "release",
        }
    }
}

/// What a worker answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerAnswer {
    /// It has the lock, still has it, or has released it.
    Ok(LockGrant),
    /// It has not, or had nothing to release.
    No,
    /// It cannot tell, for this reason: its library threw an exception, say.
    Unknown(String),
}

/// What comes with the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
#[serde(default)]
pub struct Promises {
    /// It renews what it holds, so that a hold may last longer than the TTL.
    pub renews: bool,
    /// `check` asks the library or the server, and does not say yes in any case.
    pub checks: bool,
    /// `release` says whether there was anything to release.
    pub reports: bool,
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
    /// Nothing of the protocol.
    Other(String),
}

/// A line as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Json {
    Ready(Promises),
    Ok(LockGrant),
    No {},
    Unknown(String),
    Lost {},
}

/// Reads a line, without its end.
pub(crate) fn parse(line: &str) -> Said {
    let other = || Said::Other(line.to_owned());
    let line = line.trim();
    if line.starts_with('{') {
        return match serde_json::from_str(line) {
            Ok(Json::Ready(promises)) => Said::Ready(promises),
            Ok(Json::Ok(grant)) => Said::Answer(WorkerAnswer::Ok(grant)),
            Ok(Json::No {}) => Said::Answer(WorkerAnswer::No),
            Ok(Json::Unknown(why)) => Said::Answer(WorkerAnswer::Unknown(why)),
            Ok(Json::Lost {}) => Said::Lost,
            Err(_) => other(),
        };
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let said = match word {
        "ready" => promises(rest).map(Said::Ready),
        "ok" => grant(rest).map(|grant| Said::Answer(WorkerAnswer::Ok(grant))),
        "no" if rest.is_empty() => Some(Said::Answer(WorkerAnswer::No)),
        "unknown" => Some(Said::Answer(WorkerAnswer::Unknown(rest.to_owned()))),
        "lost" if rest.is_empty() => Some(Said::Lost),
        _ => None,
    };
    said.unwrap_or_else(other)
}

fn promises(words: &str) -> Option<Promises> {
    let mut promises = Promises::default();
    for word in words.split_whitespace() {
        match word {
            "renews" => promises.renews = true,
            "checks" => promises.checks = true,
            "reports" => promises.reports = true,
            _ => return None,
        }
    }
    Some(promises)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_json_say_the_same() {
        let both = LockGrant { fence: Some(7), valid_ms: Some(450) };
        let renews = Promises { renews: true, ..Promises::default() };
        let all = Promises { renews: true, checks: true, reports: false };
        for (words, json, said) in [
            ("ready", r#"{"ready": {}}"#, Said::Ready(Promises::default())),
            ("ready renews", r#"{"ready": {"renews": true}}"#, Said::Ready(renews)),
            (
                "ready checks renews",
                r#"{"ready": {"checks": true, "renews": true}}"#,
                Said::Ready(all),
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
        for line in
            ["", "okay", "ok fence=x", "no way", "lost it", "ready steady", "{}", "{\"ok\":"]
        {
            assert_eq!(parse(line), Said::Other(line.to_owned()));
        }
    }
}
