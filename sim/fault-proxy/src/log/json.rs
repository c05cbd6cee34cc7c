//! Records as JSON, one per line, for `--log` and the control API.
//!
//! Invariant: the fields of a line alone say what was decided, where, and in which order.

use serde_json::{Map, Value, json};

use super::super::effect::Effect;
use super::super::ids::Side;
use super::super::latency::Latency;
use super::super::rule::Action;
use super::{FaultId, ProxyEvent, Record};

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
        let (event, more) = event_json(&self.event);
        put("event", event.into());
        if let Value::Object(more) = more {
            line.extend(more);
        }
        Value::Object(line)
    }
}

/// The name of an event, and its other fields.
fn event_json(event: &ProxyEvent) -> (&'static str, Value) {
    match event {
        ProxyEvent::Request => ("request", json!({})),
        ProxyEvent::Fault(rule, action) => {
            ("fault", json!({"rule": rule.0, "action": action_text(action)}))
        }
        ProxyEvent::ReplyLost => ("reply-lost", json!({})),
        ProxyEvent::Cut(cut) => ("cut", json!({"direction": cut})),
        ProxyEvent::ToxicPut(name, id) => ("toxic-put", toxic_json(name, *id)),
        ProxyEvent::ToxicTaken(name, id) => ("toxic-taken", toxic_json(name, *id)),
        ProxyEvent::EffectPut(id, side, effect, toxicity) => (
            "effect-put",
            json!({
                "effect": id.0,
                "direction": side,
                "does": effect_text(effect),
                "toxicity": toxicity.part(),
            }),
        ),
        ProxyEvent::EffectTaken(id) => ("effect-taken", json!({"effect": id.0})),
        ProxyEvent::Struck(id) => ("befallen", json!({"effect": id.0})),
        ProxyEvent::Spared(id) => ("spared", json!({"effect": id.0})),
        ProxyEvent::EndedBy(id) => ("ended", json!({"effect": id.0})),
        ProxyEvent::ResetAll => ("reset-all", json!({})),
        ProxyEvent::GraceOver => ("grace-over", json!({})),
        ProxyEvent::Opaque(why) => ("opaque", json!({"why": why})),
        ProxyEvent::LeftAddress(address) => ("left-address", json!({"address": address})),
        ProxyEvent::Malformed(side, error) => {
            ("malformed", json!({"direction": side, "why": error.to_string()}))
        }
        ProxyEvent::Unreachable(why) => ("unreachable", json!({"why": why})),
        ProxyEvent::Reply(bytes) => ("reply", json!({"begins": String::from_utf8_lossy(bytes)})),
        ProxyEvent::Connected(from) => ("connected", json!({"from": from.to_string()})),
    }
}

fn toxic_json(name: &str, id: FaultId) -> Value {
    match id {
        FaultId::Rule(id) => json!({"toxic": name, "rule": id.0}),
        FaultId::Effect(id) => json!({"toxic": name, "effect": id.0}),
    }
}

fn action_text(action: &Action) -> String {
    let side = if action.side() == Side::Request { "request" } else { "reply" };
    match action {
        Action::Drop(_) => format!("drop-{side}"),
        Action::Delay(_, span) => format!("delay={span:?} side={side}"),
        Action::Hold(..) => format!("hold side={side}"),
        Action::Reset(_) => format!("reset side={side}"),
        Action::Refuse(error) => format!("refuse={error:?}"),
    }
}

fn effect_text(effect: &Effect) -> String {
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
    use crate::{ClientId, Cut, EffectId, Gate, RuleId, Toxicity};
    use resp::frame::CommandName;

    /// A record of a connection.
    fn record(event: ProxyEvent) -> Record {
        Record {
            seq: 7,
            at: Duration::from_nanos(9),
            client: ClientId(0),
            node: Node(0),
            connection: 2,
            frame: 0,
            command: None,
            key: None,
            event,
        }
    }

    #[test]
    fn a_fault_names_its_command_and_its_rule() {
        let action = Action::Delay(Side::Reply, Duration::from_millis(5));
        let record = Record {
            frame: 4,
            command: Some(CommandName::new(b"set")),
            key: Some(b"\xffk".to_vec()),
            ..record(ProxyEvent::Fault(RuleId(2), action))
        };
        let event_json = json!({
            "seq": 7, "at_ns": 9, "proxy": "cache", "connection": 2, "request": 4, "command": "SET",
            "key": "\u{fffd}k", "event": "fault", "rule": 2, "action": "delay=5ms side=reply",
        });
        assert_eq!(record.to_json("cache"), event_json);
    }

    #[test]
    fn every_event_says_what_it_decided() {
        let put = |effect| ProxyEvent::EffectPut(EffectId(1), Side::Request, effect, Toxicity::ALL);
        for (event, says) in [
            (ProxyEvent::Request, "\"request\""),
            (ProxyEvent::Fault(RuleId(1), Action::Drop(Side::Request)), "\"drop-request\""),
            (
                ProxyEvent::Fault(RuleId(1), Action::Hold(Side::Reply, Gate::shut())),
                "\"hold side=reply\"",
            ),
            (ProxyEvent::Fault(RuleId(1), Action::Reset(Side::Request)), "\"reset side=request\""),
            (ProxyEvent::Fault(RuleId(1), Action::Refuse("OOM".into())), "refuse=\\\"OOM"),
            (ProxyEvent::Connected(([127, 0, 0, 1], 7).into()), "\"from\":\"127.0.0.1:7\""),
            (ProxyEvent::ReplyLost, "reply-lost"),
            (ProxyEvent::Cut(Cut::Replies), "\"direction\":\"replies\""),
            (put(Effect::Cut), "\"does\":\"cut\""),
            (put(Effect::Timeout(Duration::from_secs(3))), "\"does\":\"timeout=3s\""),
            (put(Effect::Limit(7)), "\"does\":\"limit=7B\""),
            (put(Effect::HalfOpen), "\"toxicity\":1.0"),
            (ProxyEvent::EffectTaken(EffectId(1)), "effect-taken"),
            (ProxyEvent::ToxicPut("t".into(), FaultId::Rule(RuleId(4))), "\"rule\":4,"),
            (ProxyEvent::ToxicTaken("t".into(), FaultId::Effect(EffectId(4))), "\"toxic\":\"t\""),
            (ProxyEvent::Struck(EffectId(1)), "\"befallen\""),
            (ProxyEvent::Spared(EffectId(1)), "\"spared\""),
            (ProxyEvent::EndedBy(EffectId(1)), "\"ended\""),
            (ProxyEvent::Opaque("because"), "\"why\":\"because\""),
            (ProxyEvent::LeftAddress("a:1".into()), "\"address\":\"a:1\""),
            (ProxyEvent::Unreachable("nobody".into()), "\"why\":\"nobody\""),
        ] {
            let line = record(event).to_json("cache").to_string();
            assert!(line.contains(says), "{line}");
            assert!(line.contains("\"seq\":7") && line.contains("\"connection\":2"), "{line}");
        }
    }
}
