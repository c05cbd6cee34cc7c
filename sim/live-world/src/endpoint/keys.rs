//! The keys of a run, and how they are deleted afterwards.
//!
//! Invariant: only keys under the run's own prefix are ever deleted, whatever the caller names: the server may be
//! somebody else's.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::{Duration, Instant};

use picklock::command::Command;
use picklock::reply::Reply;

use super::control::{CallFailure, Cause, ControlConnection};

/// What every key of picklock begins with.
const BASE: &str = "picklock:";
/// Keys deleted by one command, so that no command takes long.
const BATCH: usize = 256;
/// Keys looked at by one SCAN.
const SCAN_COUNT: u64 = 1_000;
/// How long to search: scanning all keys of a shared server may take minutes.
const SEARCH_WITHIN: Duration = Duration::from_secs(10);

/// The prefix under which all keys of a run lie: `picklock:{<run>}:`. The braces are a hash tag, so
/// that in a cluster all of them are in one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpace {
    prefix: String,
}

impl KeySpace {
    /// The keys of the run of this name, which must be unlike that of any other run on the server.
    /// Characters other than ASCII letters, digits, `-`, `_` and `.` become `-`, for braces would
    /// end the hash tag and blanks are awkward to type.
    pub fn of_run(run: &str) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let run: String = run.chars().map(|c| if plain(c) { c } else { '-' }).collect();
        // An empty hash tag would not count.
        let run = if run.is_empty() { "run" } else { &run };
        Self { prefix: format!("{BASE}{{{run}}}:") }
    }

    /// What every key of the run begins with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of this name.
    pub fn key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    /// Whether this is a key of the run.
    pub fn contains(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix.as_bytes())
    }

    /// The keys of every run, as ACL SETUSER takes them behind `~`.
    pub(super) fn acl_pattern() -> String {
        format!("{BASE}*")
    }

    /// What SCAN MATCH takes for all keys of the run.
    fn pattern(&self) -> String {
        let mut pattern = String::new();
        for c in self.prefix.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push('*');
        pattern
    }
}

/// What has been deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// How many keys.
    pub removed: u64,
    /// Whether the whole database was searched. False if the server does not allow SCAN or holds too many keys;
    /// keys that were not known then expire by their TTL, if they have one.
    pub searched: bool,
}

/// Deletes the known keys of the run, then what a search finds.
pub(super) async fn remove(
    control: &ControlConnection,
    keys: &KeySpace,
    known: &[Vec<u8>],
) -> Result<Removal, CallFailure> {
    let mut removal = Removal::default();
    let mut deletion = Deletion { control, name: "UNLINK" };
    let ours: Vec<&[u8]> = known.iter().map(Vec::as_slice).filter(|k| keys.contains(k)).collect();
    removal.removed += deletion.delete(&ours).await?;
    let give_up = Instant::now() + SEARCH_WITHIN;
    let mut cursor = b"0".to_vec();
    while Instant::now() < give_up {
        let scan = Command::new("SCAN").arg(&cursor).arg("MATCH").arg(keys.pattern());
        let reply = match control.call(&scan.arg("COUNT").int(SCAN_COUNT)).await {
            Ok(reply) => reply,
            Err(CallFailure { cause: Cause::Refused { .. }, .. }) => return Ok(removal),
            Err(failure) => return Err(failure),
        };
        let Some((next, found)) = scan_reply(&reply) else { return Ok(removal) };
        // Checked once more: deleting a wrong match would delete somebody else's key.
        let found: Vec<&[u8]> = found.into_iter().filter(|key| keys.contains(key)).collect();
        removal.removed += deletion.delete(&found).await?;
        if next == b"0" {
            removal.searched = true;
            return Ok(removal);
        }
        cursor = next.to_vec();
    }
    Ok(removal)
}

/// The next cursor and the keys of a reply to SCAN.
fn scan_reply(reply: &Reply) -> Option<(&[u8], Vec<&[u8]>)> {
    let Reply::Array(parts) = reply else { return None };
    let [cursor, Reply::Array(keys)] = parts.as_slice() else { return None };
    Some((cursor.as_bytes()?, keys.iter().filter_map(Reply::as_bytes).collect()))
}

/// Deletes with UNLINK if the server knows and allows it, else with DEL.
struct Deletion<'a> {
    control: &'a ControlConnection,
    name: &'static str,
}

impl Deletion<'_> {
    async fn delete(&mut self, keys: &[&[u8]]) -> Result<u64, CallFailure> {
        let mut deleted = 0;
        for batch in keys.chunks(BATCH) {
            deleted += match self.call(batch).await {
                Err(CallFailure { cause: Cause::Refused { .. }, .. }) if self.name == "UNLINK" => {
                    self.name = "DEL";
                    self.call(batch).await?
                }
                other => other?,
            };
        }
        Ok(deleted)
    }

    async fn call(&self, keys: &[&[u8]]) -> Result<u64, CallFailure> {
        let command = keys.iter().fold(Command::new(self.name), |command, key| command.arg(key));
        let count = self.control.call(&command).await?.as_int();
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_one_hash_tag_whatever_its_name() {
        assert_eq!(KeySpace::of_run("bonus-pool.7_a").prefix(), "picklock:{bonus-pool.7_a}:");
        assert_eq!(KeySpace::of_run("a}b{ *?").prefix(), "picklock:{a-b----}:");
        assert_eq!(KeySpace::of_run("").prefix(), "picklock:{run}:");
        assert_eq!(KeySpace::of_run("r").key("lock"), b"picklock:{r}:lock");
    }

    #[test]
    fn a_key_of_another_run_is_not_ours() {
        let keys = KeySpace::of_run("r");
        assert!(keys.contains(b"picklock:{r}:") && keys.contains(b"picklock:{r}:a"));
        assert!(!keys.contains(b"picklock:{r}") && !keys.contains(b"picklock:{r2}:a"));
    }

    #[test]
    fn a_pattern_means_the_prefix_to_the_letter() {
        assert_eq!(KeySpace::of_run("r").pattern(), "picklock:{r}:*");
        let odd = KeySpace { prefix: "a*b?[c]\\^".into() };
        assert_eq!(odd.pattern(), "a\\*b\\?\\[c\\]\\\\\\^*");
    }
}
