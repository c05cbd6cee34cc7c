//! Finds out, before a run, whether the server lets us do what a run does.
//!
//! Invariant: nothing is left behind: the only key written is deleted again, and goes by its TTL
//! where it cannot be deleted. Deliberately absent: asking for rights one by one (`ACL DRYRUN` is
//! itself a right); and commands that only some locks need, such as EVAL.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::{Duration, Instant};

use picklock::command::Command;
use picklock::reply::Reply;

use super::control::{Cause, Control, Failure};
use super::info::{Identity, identity};
use super::keys::KeySpace;
use super::refusal::{Refusal, quote, user};

/// How often to look whether a server has loaded its data.
const LOADING_POLL: Duration = Duration::from_millis(50);
/// How long the key that tries writing may live.
const PROBE_TTL_MS: u64 = 10_000;
const PROBE_VALUE: &[u8] = b"may picklock write here?";

/// Tries the server out; waits this long for one that is loading.
pub(super) async fn preflight(
    control: &Control,
    keys: &KeySpace,
    loading_within: Duration,
) -> Result<Identity, Refusal> {
    let deadline = Instant::now() + loading_within;
    loop {
        match attempt(control, keys).await {
            Err(Refusal::Loading(_)) if Instant::now() < deadline => {
                tokio::time::sleep(LOADING_POLL).await;
            }
            Err(Refusal::Loading(_)) => return Err(Refusal::Loading(loading_within)),
            result => return result,
        }
    }
}

async fn attempt(control: &Control, keys: &KeySpace) -> Result<Identity, Refusal> {
    let refusal = |failure| Refusal::of(failure, control.login());
    let identity = match control.call(&Command::new("INFO").arg("server")).await {
        Ok(reply) => identity(&String::from_utf8_lossy(reply.as_bytes().unwrap_or_default())),
        // INFO is not needed for a run; only its version would be good to know. But an error on
        // the way to it (a wrong password) is one.
        Err(Failure { sent: true, cause: Cause::Refused { error, .. } })
            if matches!(&*error.code, "NOPERM" | "ERR") =>
        {
            identity("")
        }
        Err(failure) => return Err(refusal(failure)),
    };
    if identity.is_sentinel {
        return Err(Refusal::Sentinel);
    }
    let key = keys.key("probe");
    let set = Command::new("SET").arg(&key).arg(PROBE_VALUE).arg("PX").int(PROBE_TTL_MS);
    let mut denied = Denied::default();
    let mut read = None;
    for command in [set, Command::new("GET").arg(&key), Command::new("DEL").arg(&key)] {
        match control.call(&command).await {
            Ok(reply) if command.name() == b"GET" => read = Some(reply),
            Ok(_) => {}
            Err(failure) if failure.code() == Some("NOPERM") => {
                denied.note(&command, &failure, control);
            }
            Err(failure) => return Err(refusal(failure)),
        }
    }
    if !denied.commands.is_empty() {
        return Err(denied.refusal(control, &key));
    }
    match read {
        Some(Reply::Bulk(value)) if value[..] == *PROBE_VALUE => Ok(identity),
        Some(Reply::Nil) => Err(Refusal::Forgetful("nothing".into())),
        _ => Err(Refusal::Forgetful("something else".into())),
    }
}

/// What the user may not do: all of it at once, so that one request to the administrator will do.
#[derive(Default)]
struct Denied {
    commands: Vec<String>,
    said: String,
}

impl Denied {
    fn note(&mut self, command: &Command, failure: &Failure, control: &Control) {
        self.commands.push(String::from_utf8_lossy(command.name()).into_owned());
        if let (true, Cause::Refused { error, .. }) = (self.said.is_empty(), &failure.cause) {
            self.said = quote(error, control.login());
        }
    }

    fn refusal(self, control: &Control, key: &[u8]) -> Refusal {
        let rights: Vec<String> =
            self.commands.iter().map(|name| format!("+{}", name.to_ascii_lowercase())).collect();
        Refusal::NoPermission {
            user: user(control.login()),
            commands: self.commands.join(", "),
            key: String::from_utf8_lossy(key).into_owned(),
            rights: rights.join(" "),
            pattern: KeySpace::acl_pattern(),
            said: self.said,
        }
    }
}
