//! Records as JSON, a line each, for `--log` and the control API.
//!
//! Invariant: a line says by its fields alone what was decided, where, and in which order. Deliberately
//! absent: values of commands, which the log has not.

use serde_json::{Map, Value, json};

use super::super::effect::Effect;
use super::super::latency::Latency;
use super::super::link::Cut;
use super::super::rule::{Action, Side};
use super::{Event, FaultId, Record};

impl Record {
    /// The record as an object; the link has this name.
    pub fn to_json(&self, link: &str) -> Value {
        let mut line = Map::new();
        let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
        put("seq", self.seq.into());
        put("at_ns", u64::try_from(self.at.as_nanos()).unwrap_or(u64::MAX).into());
        put("proxy", link.into());
        if self.connection > 0 {
            put("connection", self.connection.into());
        }
        if self.frame > 0 {
            put("request", self.frame.into());
        }
        if let Some(command) = &self.command {
            put("command", command.to_string().into());
        }
        if let Some(key) = &self.key {
            put("key", String::from_utf8_lossy(key).into());
        }
        let (event, more) = told(&self.event);
        put("event", event.into());
        if let Value::Object(more) = more {
            line.extend(more);
        }
        Value::Object(line)
    }
}

/// The name of an event, and what else it says.
fn told(event: &Event) -> (&'static str, Value) {
    match event {
        Event::Request => ("request", json!({})),
        Event::Fault(rule, action) => {
            ("fault", json!({"rule": rule.0, "action": told_action(action)}))
        }
        Event::ReplyLost => ("reply-lost", json!({})),
        Event::Cut(cut) => ("cut", json!({"direction": told_cut(*cut)})),
        Event::ToxicPut(name, id) => ("toxic-put", told_name(name, *id)),
        Event::ToxicTaken(name, id) => ("toxic-taken", told_name(name, *id)),
        Event::EffectPut(id, side, effect, toxicity) => (
            "effect-put",
            json!({
                "effect": id.0,
                "direction": told_side(*side),
                "does": told_effect(effect),
                "toxicity": toxicity.part(),
            }),
        ),
        Event::EffectTaken(id) => ("effect-taken", json!({"effect": id.0})),
        Event::Befallen(id) => ("befallen", json!({"effect": id.0})),
        Event::Spared(id) => ("spared", json!({"effect": id.0})),
        Event::EndedBy(id) => ("ended", json!({"effect": id.0})),
        Event::ResetAll => ("reset-all", json!({})),
        Event::GraceOver => ("grace-over", json!({})),
        Event::Opaque(why) => ("opaque", json!({"why": why})),
        Event::LeftAddress(address) => ("left-address", json!({"address": address})),
        Event::Malformed(side, error) => {
            ("malformed", json!({"direction": told_side(*side), "why": error.to_string()}))
        }
        Event::Unreachable(why) => ("unreachable", json!({"why": why})),
    }
}

fn told_name(name: &str, id: FaultId) -> Value {
    match id {
        FaultId::Rule(id) => json!({"toxic": name, "rule": id.0}),
        FaultId::Effect(id) => json!({"toxic": name, "effect": id.0}),
    }
}

fn told_side(side: Side) -> &'static str {
    match side {
        Side::Request => "requests",
        Side::Reply => "replies",
    }
}

fn told_cut(cut: Cut) -> &'static str {
    match cut {
        Cut::None => "none",
        Cut::Requests => "requests",
        Cut::Replies => "replies",
        Cut::Both => "both",
    }
}

fn told_action(action: &Action) -> String {
    let side = if action.side() == Side::Request { "request" } else { "reply" };
    match action {
        Action::Drop(_) => format!("drop-{side}"),
        Action::Delay(_, span) => format!("delay={span:?} side={side}"),
        Action::Hold(..) => format!("hold side={side}"),
        Action::Reset(_) => format!("reset side={side}"),
    }
}

fn told_effect(effect: &Effect) -> String {
    match effect {
        Effect::Latency(Latency::Drawn(_)) => "latency, drawn".to_owned(),
        Effect::Latency(Latency::Fixed(span)) => format!("latency={span:?}"),
        Effect::Latency(Latency::None) => "latency=0s".to_owned(),
        Effect::Bandwidth(rate) => format!("bandwidth={rate}B/s"),
        Effect::Cut => "cut".to_owned(),
        Effect::Timeout(after) => format!("timeout={after:?}"),
        Effect::SlowClose(delay) => format!("slow-close={delay:?}"),
        Effect::HalfOpen => "half-open".to_owned(),
        Effect::ResetAfter(after) => format!("reset={after:?}"),
        Effect::Limit(bytes) => format!("limit={bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use picklock::env::Node;

    use super::*;
    use crate::{ClientId, EffectId, Gate, RuleId, Toxicity};
    use resp::frame::CommandName;

    fn line(event: Event) -> String {
        let record = Record {
            seq: 7,
            at: Duration::from_micros(3),
            client: ClientId(0),
            node: Node(0),
            connection: 2,
            frame: 0,
            command: None,
            key: None,
            event,
        };
        record.to_json("cache").to_string()
    }

    #[test]
    fn a_fault_names_its_command_and_its_rule() {
        let action = Action::Delay(Side::Reply, Duration::from_millis(5));
        let record = Record {
            seq: 1,
            at: Duration::from_nanos(9),
            client: ClientId(0),
            node: Node(0),
            connection: 3,
            frame: 4,
            command: Some(CommandName::new(b"set")),
            key: Some(b"\xffk".to_vec()),
            event: Event::Fault(RuleId(2), action),
        };
        let told = json!({
            "seq": 1, "at_ns": 9, "proxy": "cache", "connection": 3, "request": 4, "command": "SET",
            "key": "\u{fffd}k", "event": "fault", "rule": 2, "action": "delay=5ms side=reply",
        });
        assert_eq!(record.to_json("cache"), told);
    }

    #[test]
    fn every_event_is_told_with_what_it_decided() {
        let put = |effect| Event::EffectPut(EffectId(1), Side::Request, effect, Toxicity::ALL);
        for (event, says) in [
            (Event::Request, "\"request\""),
            (Event::Fault(RuleId(1), Action::Drop(Side::Request)), "\"drop-request\""),
            (
                Event::Fault(RuleId(1), Action::Hold(Side::Reply, Gate::shut())),
                "\"hold side=reply\"",
            ),
            (Event::Fault(RuleId(1), Action::Reset(Side::Request)), "\"reset side=request\""),
            (Event::ReplyLost, "reply-lost"),
            (Event::Cut(Cut::Replies), "\"direction\":\"replies\""),
            (put(Effect::Cut), "\"does\":\"cut\""),
            (put(Effect::Timeout(Duration::from_secs(3))), "\"does\":\"timeout=3s\""),
            (put(Effect::Limit(7)), "\"does\":\"limit=7B\""),
            (put(Effect::HalfOpen), "\"toxicity\":1.0"),
            (Event::EffectTaken(EffectId(1)), "effect-taken"),
            (Event::ToxicPut("t".into(), FaultId::Rule(RuleId(4))), "\"rule\":4,"),
            (Event::ToxicTaken("t".into(), FaultId::Effect(EffectId(4))), "\"toxic\":\"t\""),
            (Event::Befallen(EffectId(1)), "\"befallen\""),
            (Event::Spared(EffectId(1)), "\"spared\""),
            (Event::EndedBy(EffectId(1)), "\"ended\""),
            (Event::Opaque("because"), "\"why\":\"because\""),
            (Event::LeftAddress("a:1".into()), "\"address\":\"a:1\""),
            (Event::Unreachable("nobody".into()), "\"why\":\"nobody\""),
        ] {
            let line = line(event);
            assert!(line.contains(says), "{line}");
            assert!(line.contains("\"seq\":7") && line.contains("\"connection\":2"), "{line}");
        }
    }
}
