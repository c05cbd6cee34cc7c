//! Events of a history in words.
//!
//! Invariant: what is said of an event is what it says itself, and what it is the end of.

use durations::span::rounded;
use history::{Answer, Event, Head, Texts, Touch, What};

use super::short::StepKind;
use crate::interface::SUBSCRIBE;

/// A try of the lock that did not succeed, in words.
pub(super) fn failed_try(
    head: &Head,
    texts: &Texts,
    event: &Event,
    invoked: &Event,
) -> Option<(String, StepKind)> {
    let (What::Answered { touch: Touch::None, .. }, What::Command { name, key, intent, .. }) =
        (event.what, invoked.what)
    else {
        return None;
    };
    let tries = matches!(intent.touch, Touch::Create(_)) && texts.get(key) == head.lock_key;
    let text = format!("{} on the lock is answered: another has it", texts.get(name));
    tries.then_some((text, StepKind::Waits))
}

/// An event in words, where it belongs into a story.
pub(super) fn describe(
    head: &Head,
    texts: &Texts,
    event: &Event,
    invoked: Option<&Event>,
) -> Option<String> {
    let text = |text| texts.get(text);
    Some(match event.what {
        What::Acquire if head.locks => "asks for the lock".to_owned(),
        What::Acquired if head.locks => "has the lock".to_owned(),
        What::Acquired => "goes ahead".to_owned(),
        What::NotAcquired(why) => format!("does not get the lock: {}", text(why)),
        What::AcquireUnknown(why) => {
            format!("does not know whether it has the lock: {}", text(why))
        }
        What::Release if head.locks => "begins to release".to_owned(),
        What::Release => "has done".to_owned(),
        What::Released(outcome) if head.locks => format!("is told: {}", text(outcome)),
        What::ReleaseUnknown(why) => {
            format!("does not know what came of its release: {}", text(why))
        }
        What::Fence(token) => format!("is given fencing token {token}"),
        What::Lost => "learns that its lock is lost".to_owned(),
        What::Taken { prize, left } => format!("wins prize {prize}; {left} are left"),
        What::TakeUnknown { prize, why } => {
            format!("does not know whether it won prize {prize}: {}", text(why))
        }
        What::NotTaken(why) => format!("takes no prize: {}", text(why)),
        What::Updated(update) => {
            format!("writes {} to the register, in which it read {}", update.written, update.read)
        }
        What::UpdateUnknown { update, why } => format!(
            "does not know whether it wrote {} to the register, in which it read {}: {}",
            update.written,
            update.read,
            text(why)
        ),
        What::NotUpdated(why) => format!("writes nothing to the register: {}", text(why)),
        What::ValidUntil(until_ns) => {
            format!("may rely on its lock for {}", rounded(until_ns.saturating_sub(event.at_ns)))
        }
        What::Answered { .. } | What::Refused(_) | What::Unanswered(_) => {
            answered(head, texts, event, invoked?.what)?
        }
        _ => return None,
    })
}

fn answered(head: &Head, texts: &Texts, event: &Event, invoked: What) -> Option<String> {
    let What::Command { name, intent, key, node } = invoked else { return None };
    let name = texts.get(name);
    Some(match event.what {
        What::Answered { touch, answer, .. } => {
            let did = match touch {
                Touch::Create(Some(0)) if head.stamped => {
                    "the key is its own, and stamped as over".to_owned()
                }
                Touch::Create(Some(ttl_ns)) if head.stamped => {
                    format!("the key is its own, with a stamp valid {}", rounded(ttl_ns))
                }
                Touch::Create(Some(ttl_ns)) => {
                    format!("the key is its own for {}", rounded(ttl_ns))
                }
                Touch::Create(None) => "the key is its own for ever".to_owned(),
                Touch::Overwrite(Some(0)) if head.stamped => {
                    "the key is set, and stamped as over".to_owned()
                }
                Touch::Overwrite(Some(ttl_ns)) if head.stamped => {
                    format!("the key is set, with a stamp valid {}", rounded(ttl_ns))
                }
                Touch::Overwrite(Some(ttl_ns)) => {
                    format!("the key is set, to live {}", rounded(ttl_ns))
                }
                Touch::Overwrite(None) if head.stamped => "the key is set".to_owned(),
                Touch::Overwrite(None) => "the key is set, to live for ever".to_owned(),
                Touch::Delete => "the key is deleted".to_owned(),
                Touch::Extend(u64::MAX) => "the key lives for ever".to_owned(),
                Touch::Extend(ttl_ns) => format!("the key lives {} from now", rounded(ttl_ns)),
                // A try that did not succeed tells nothing of the one that did.
                Touch::None if matches!(intent.touch, Touch::Create(_)) => return None,
                Touch::None | Touch::Unknown => match answer {
                    Answer::Nil => "nothing".to_owned(),
                    Answer::Ok => "OK".to_owned(),
                    Answer::Int(value) => value.to_string(),
                    Answer::Text(it) => texts.get(it).to_owned(),
                    Answer::List => "a list".to_owned(),
                },
            };
            if name == SUBSCRIBE {
                return Some("listens for the release from now on".to_owned());
            }
            format!("{name}{} is answered: {did}", on(head, node, texts.get(key)))
        }
        What::Refused(why) => format!("{name} is refused: {}", texts.get(why)),
        What::Unanswered(why) => format!("{name} is never answered: {}", texts.get(why)),
        _ => return None,
    })
}

/// What a command was sent to, behind its name; nothing where it has no key, or one of the lock's others. Where the resource has
/// no server of its own, only its key tells what that is.
fn on(head: &Head, node: u16, key: &str) -> String {
    let it = match head.resource {
        _ if key.is_empty() => return String::new(),
        _ if key == head.lock_key => "the lock",
        None => key,
        Some(resource) if node != resource => return String::new(),
        Some(_) if head.register.is_some() => "the register",
        Some(_) => "the pool",
    };
    format!(" on {it}")
}
