//! Faults in the format of Toxiproxy's clients: type, stream, toxicity and attributes.
//!
//! Invariant: an accepted toxic does what its type says; anything else is refused with the reason, never ignored. The
//! type `slicer` is not supported: TCP does not preserve segment boundaries.

use std::num::NonZeroU64;
use std::time::Duration;

use scenarios::distribution::Sampler;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    Action, Effect, FaultError, Gate, Latency, Occurrence, ParsedFault, ProxyFault, Rule, Side,
    Toxicity,
};

/// What a toxic consists of.
const FIELDS: [&str; 5] = ["name", "type", "stream", "toxicity", "attributes"];
/// What a proxy consists of. Clients of Toxiproxy send its toxics as they were shown; as there, they change nothing.
const PROXY_FIELDS: [&str; 5] = ["name", "listen", "upstream", "enabled", "toxics"];

/// A fault with a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Toxic {
    /// Its name, unique on its proxy.
    pub name: String,
    /// What it does.
    #[serde(rename = "type")]
    pub kind: String,
    /// `upstream`, towards the server, or `downstream`. Types that name the direction themselves ignore
    /// it.
    pub stream: String,
    /// On which part of the connections, from 0 to 1.
    pub toxicity: f64,
    /// What its type needs.
    pub attributes: Map<String, Value>,
}

/// Why a toxic is impossible.
#[derive(Debug, thiserror::Error)]
pub enum ToxicError {
    /// It is no object, or a field has the wrong type.
    #[error("bad request body: {0}")]
    Shape(String),
    /// A field is missing.
    #[error("missing required field: {0}")]
    Missing(String),
    /// There is no such type.
    #[error(
        "invalid toxic type: `{0}` is not supported; the types are latency, bandwidth, slow_close, timeout, \
         reset_peer, limit_data, half_open, redis and fault"
    )]
    Type(String),
    /// There is no such stream.
    #[error("stream was invalid, can be either upstream or downstream")]
    Stream,
    /// The toxicity is not from 0 to 1.
    #[error("toxicity must be a number from 0 to 1")]
    Toxicity,
    /// The type has no such attribute.
    #[error("a toxic of type {kind} has no attribute `{name}`; its attributes: {known}")]
    Unknown {
        /// The type.
        kind: String,
        /// What was given.
        name: String,
        /// What it has.
        known: String,
    },
    /// An attribute has an impossible value.
    #[error("attribute `{name}`: {says}")]
    Attribute {
        /// Which.
        name: &'static str,
        /// What it should say.
        says: &'static str,
    },
    /// The text of a fault is none.
    #[error("attribute `text`: {0}")]
    Text(#[from] FaultError),
}

impl Toxic {
    /// A fault that was given as text.
    pub fn of_text(name: String, text: &str, written: &ParsedFault) -> Self {
        let attributes = Map::from_iter([("text".to_owned(), Value::from(text))]);
        let toxicity = written.fault.toxicity().part();
        Self { name, kind: "fault".into(), stream: "downstream".into(), toxicity, attributes }
    }

    /// Reads a new one. Without a stream it is `downstream`, and without a name it is named after its
    /// type and stream.
    ///
    /// # Errors
    /// [`ToxicError`] if a field has the wrong type, or there is no such field.
    pub fn from_json(value: &Value) -> Result<Self, ToxicError> {
        let fields = BodyFields::of_toxic(value)?;
        let kind = fields.text("type")?.ok_or_else(|| ToxicError::Missing("type".to_owned()))?;
        let stream = fields.text("stream")?.filter(|it| !it.is_empty()).unwrap_or("downstream");
        let name = fields.text("name")?.filter(|it| !it.is_empty());
        let toxic = Self {
            name: name.map_or_else(|| format!("{kind}_{stream}"), str::to_owned),
            kind: kind.to_owned(),
            stream: stream.to_owned(),
            toxicity: 1.0,
            attributes: fields.attributes()?.cloned().unwrap_or_default(),
        };
        let toxic = toxic.without_privileges()?;
        let toxicity = match fields.number("toxicity")? {
            Some(toxicity) => toxicity,
            // Without a field for it, the toxicity in the text counts.
            None if toxic.kind == "fault" => toxic.written()?.fault.toxicity().part(),
            None => toxic.toxicity,
        };
        Ok(Self { toxicity, ..toxic })
    }

    /// A copy with changed attributes, each by itself, and toxicity. The other fields may be repeated.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json), and if another field is to change.
    pub fn updated(&self, value: &Value) -> Result<Self, ToxicError> {
        let fields = BodyFields::of_toxic(value)?;
        for (field, old) in [("name", &self.name), ("type", &self.kind), ("stream", &self.stream)] {
            if fields.text(field)?.is_some_and(|new| !new.is_empty() && new != old) {
                return Err(ToxicError::Shape(format!("{field} cannot be changed")));
            }
        }
        let mut anew = self.clone();
        for (name, value) in fields.attributes()?.into_iter().flatten() {
            anew.attributes.insert(name.clone(), value.clone());
        }
        anew.toxicity = fields.number("toxicity")?.unwrap_or(anew.toxicity);
        anew.without_privileges()
    }

    /// What it does.
    ///
    /// # Errors
    /// [`ToxicError`] if there is no such type, or an attribute has an impossible value.
    pub fn fault(&self) -> Result<ProxyFault, ToxicError> {
        let side = match self.stream.as_str() {
            "upstream" => Side::Request,
            "downstream" => Side::Reply,
            _ => return Err(ToxicError::Stream),
        };
        let toxicity = Toxicity::of(self.toxicity).ok_or(ToxicError::Toxicity)?;
        let effect = match self.kind.as_str() {
            "latency" => {
                self.knows(&["latency", "jitter"])?;
                self.latency()?
            }
            "bandwidth" => {
                self.knows(&["rate"])?;
                // Kilobytes a second; 0 is no limit.
                match NonZeroU64::new(self.count("rate")?.saturating_mul(1000)) {
                    Some(rate) => Effect::Bandwidth(rate),
                    None => Effect::Latency(Latency::None),
                }
            }
            "slow_close" => {
                self.knows(&["delay"])?;
                Effect::SlowClose(self.millis("delay")?)
            }
            "timeout" => {
                self.knows(&["timeout"])?;
                match self.millis("timeout")? {
                    Duration::ZERO => Effect::Cut,
                    after => Effect::Timeout(after),
                }
            }
            "reset_peer" => {
                self.knows(&["timeout"])?;
                Effect::ResetAfter(self.millis("timeout")?)
            }
            "limit_data" => {
                self.knows(&["bytes"])?;
                Effect::Limit(self.count("bytes")?)
            }
            "half_open" => {
                self.knows(&[])?;
                Effect::HalfOpen
            }
            "redis" => return Ok(ProxyFault::Command(self.rule()?).on(toxicity)),
            "fault" => {
                self.knows(&["text"])?;
                return Ok(self.written()?.fault.on(toxicity));
            }
            _ => return Err(ToxicError::Type(self.kind.clone())),
        };
        Ok(ProxyFault::Wire { sides: vec![side], effect, toxicity })
    }

    fn latency(&self) -> Result<Effect, ToxicError> {
        let [latency, jitter] = [self.millis("latency")?, self.millis("jitter")?];
        let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Ok(Effect::Latency(match (latency, jitter) {
            (Duration::ZERO, Duration::ZERO) => Latency::None,
            (_, Duration::ZERO) => Latency::Fixed(latency),
            _ => {
                let least = latency.saturating_sub(jitter);
                Latency::Drawn(Sampler::uniform(ns(least), ns(latency.saturating_add(jitter))))
            }
        }))
    }

    fn rule(&self) -> Result<Rule, ToxicError> {
        self.knows(&["action", "command", "key", "nth", "from", "delay", "side"])?;
        let wrong = |name, says| ToxicError::Attribute { name, says };
        let side = match self.word("side")? {
            None | Some("request") => Side::Request,
            Some("reply") => Side::Reply,
            Some(_) => return Err(wrong("side", "must be request or reply")),
        };
        let has = |name| self.attributes.contains_key(name);
        let mut rule = Rule::new(match self.word("action")? {
            Some("drop-request" | "drop-reply") if has("side") => {
                return Err(wrong("side", "the action names it already"));
            }
            Some("delay") if !has("delay") => {
                return Err(wrong("delay", "must be given, in milliseconds"));
            }
            Some(action) if has("delay") && action != "delay" => {
                return Err(wrong("delay", "only the action delay has it"));
            }
            Some("drop-request") => Action::Drop(Side::Request),
            Some("drop-reply") => Action::Drop(Side::Reply),
            Some("delay") => Action::Delay(side, self.millis("delay")?),
            Some("hold") => Action::Hold(side, Gate::shut()),
            Some("reset") => Action::Reset(side),
            _ => {
                return Err(wrong(
                    "action",
                    "must be drop-request, drop-reply, delay, hold or reset",
                ));
            }
        });
        if let Some(command) = self.word("command")? {
            if !Rule::can_be_command(command) {
                return Err(wrong("command", "must be one word, such as SET"));
            }
            rule = rule.command(command);
        }
        if let Some(key) = self.word("key")? {
            rule = rule.key(key);
        }
        let counted = |name| match self.attributes.get(name) {
            None => Ok(None),
            Some(_) => match self.count(name)? {
                0 => Err(wrong(name, "must be a request number, 1 or higher")),
                count => Ok(Some(count)),
            },
        };
        match (counted("nth")?, counted("from")?) {
            (None, None) => Ok(rule),
            (Some(nth), None) => Ok(rule.when(Occurrence::Nth(nth))),
            (None, Some(first)) => Ok(rule.when(Occurrence::From(first))),
            (Some(_), Some(_)) => Err(wrong("from", "nth and from are mutually exclusive")),
        }
    }

    fn written(&self) -> Result<ParsedFault, ToxicError> {
        Ok(self.word("text")?.unwrap_or_default().parse()?)
    }

    /// Refuses a text that only the command line may have: one that names a file of this machine, or a
    /// proxy, although the toxic is already put on one.
    fn without_privileges(self) -> Result<Self, ToxicError> {
        if self.kind != "fault" {
            return Ok(self);
        }
        match ParsedFault::without_files(self.word("text")?.unwrap_or_default())?.proxy {
            Some(_) => {
                let says = "must not name a proxy: the path names it";
                Err(ToxicError::Attribute { name: "text", says })
            }
            None => Ok(self),
        }
    }

    fn knows(&self, known: &[&str]) -> Result<(), ToxicError> {
        match self.attributes.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(ToxicError::Unknown {
                kind: self.kind.clone(),
                name: name.clone(),
                known: if known.is_empty() { "none".to_owned() } else { known.join(", ") },
            }),
        }
    }

    fn count(&self, name: &'static str) -> Result<u64, ToxicError> {
        let says = "must be a non-negative integer";
        match self.attributes.get(name) {
            None => Ok(0),
            // Some clients have no whole numbers.
            Some(value) => match (value.as_u64(), value.as_f64()) {
                (Some(count), _) => Ok(count),
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "whole"
                )]
                (None, Some(count)) if (0.0..1e15).contains(&count) && count.fract() == 0.0 => {
                    Ok(count as u64)
                }
                _ => Err(ToxicError::Attribute { name, says }),
            },
        }
    }

    fn millis(&self, name: &'static str) -> Result<Duration, ToxicError> {
        Ok(Duration::from_millis(self.count(name)?))
    }

    fn word(&self, name: &'static str) -> Result<Option<&str>, ToxicError> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(Value::String(word)) => Ok(Some(word)),
            Some(_) => Err(ToxicError::Attribute { name, says: "must be a string" }),
        }
    }
}

/// The fields of a request's body. One that is null is not there.
#[derive(Clone, Copy)]
pub(super) struct BodyFields<'a>(&'a Map<String, Value>);

impl<'a> BodyFields<'a> {
    pub(super) fn of_proxy(value: &'a Value) -> Result<Self, ToxicError> {
        Self::of(value, "proxy", &PROXY_FIELDS)
    }

    fn of_toxic(value: &'a Value) -> Result<Self, ToxicError> {
        Self::of(value, "toxic", &FIELDS)
    }

    fn of(value: &'a Value, what: &str, known: &[&str]) -> Result<Self, ToxicError> {
        let wrong = || ToxicError::Shape("it must be an object".to_owned());
        let fields = value.as_object().ok_or_else(wrong)?;
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self(fields)),
            Some(name) => {
                let known = known.join(", ");
                Err(ToxicError::Shape(format!(
                    "a {what} has no field `{name}`; its fields: {known}"
                )))
            }
        }
    }

    pub(super) fn text(self, name: &str) -> Result<Option<&'a str>, ToxicError> {
        self.read(name, "a string", Value::as_str)
    }

    pub(super) fn boolean(self, name: &str) -> Result<Option<bool>, ToxicError> {
        self.read(name, "true or false", Value::as_bool)
    }

    fn number(self, name: &str) -> Result<Option<f64>, ToxicError> {
        self.read(name, "a number", Value::as_f64)
    }

    fn attributes(self) -> Result<Option<&'a Map<String, Value>>, ToxicError> {
        self.read("attributes", "an object", Value::as_object)
    }

    fn read<T>(
        self,
        name: &str,
        kind: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ToxicError> {
        let value = self.0.get(name).filter(|it| !it.is_null());
        let wrong = || ToxicError::Shape(format!("{name} must be {kind}"));
        value.map(|it| read(it).ok_or_else(wrong)).transpose()
    }
}
