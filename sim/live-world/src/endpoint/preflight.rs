//! Finds out, before a run, whether the server allows what a run does.
//!
//! Invariant: nothing is left behind: the only key written is deleted again, and expires if it cannot be deleted.
//! Rights are not queried with `ACL DRYRUN`, which is itself a right; nor are commands tried that only some locks
//! need, such as EVAL.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::{Duration, Instant};

use picklock::command::Command;
use picklock::reply::Reply;

use super::control::{CallFailure, Cause, ControlConnection};
use super::info::{Identity, identity};
use super::keys::KeySpace;
use super::refusal::Refusal;

/// How often to check whether a server has loaded its data.
const LOADING_POLL: Duration = Duration::from_millis(50);
/// How long the key that tries writing may live.
const PROBE_TTL_MS: u64 = 10_000;
const PROBE_VALUE: &[u8] = b"may picklock write here?";

/// Tries the server out; waits this long for one that is loading.
pub(super) async fn preflight(
    control: &ControlConnection,
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

async fn attempt(control: &ControlConnection, keys: &KeySpace) -> Result<Identity, Refusal> {
    let refusal = |failure| Refusal::of(failure, &control.login);
    let identity = match control.call(&Command::new("INFO").arg("server")).await {
        Ok(reply) => identity(&String::from_utf8_lossy(reply.as_bytes().unwrap_or_default())),
        // A run does not need INFO, which only gives the version. But an error before INFO, such as a wrong
        // password, counts.
        Err(CallFailure { sent: true, cause: Cause::Refused { error, .. } })
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
    // All missing rights, so that one request to the administrator is enough; and the server's first answer.
    let (mut denied, mut said) = (Vec::new(), None);
    let mut read = None;
    for command in [set, Command::new("GET").arg(&key), Command::new("DEL").arg(&key)] {
        match control.call(&command).await {
            Ok(reply) if command.name() == b"GET" => read = Some(reply),
            Ok(_) => {}
            Err(CallFailure { cause: Cause::Refused { command, error }, .. })
                if &*error.code == "NOPERM" =>
            {
                denied.push(command);
                said.get_or_insert(error);
            }
            Err(failure) => return Err(refusal(failure)),
        }
    }
    if let Some(said) = said {
        let key = String::from_utf8_lossy(&key).into_owned();
        return Err(Refusal::no_permission(&denied, key, &said, &control.login));
    }
    match read {
        Some(Reply::Bulk(value)) if value[..] == *PROBE_VALUE => Ok(identity),
        Some(Reply::Nil) => Err(Refusal::Forgetful("nothing".into())),
        _ => Err(Refusal::Forgetful("something else".into())),
    }
}
