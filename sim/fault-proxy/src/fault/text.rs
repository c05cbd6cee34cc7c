//! Faults as text: `latency=5ms`, `drop-reply command=EVALSHA key=foo nth=2`.
//!
//! Invariant: a text is one whole fault or an error that points to the position.

use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use history::nearest::nearest;
use miette::{Diagnostic, SourceSpan};
use scenarios::distribution::Distribution;
use scenarios::span::Span;

use super::ProxyFault;
use crate::{Action, Effect, Gate, Latency, Occurrence, Rule, Side, Toxicity};

const KINDS: [&str; 12] = [
    "latency",
    "bandwidth",
    "cut",
    "timeout",
    "slow-close",
    "half-open",
    "limit",
    "reset",
    "drop-request",
    "drop-reply",
    "delay",
    "hold",
];
/// The options of a fault on the wire, and of one on commands.
const OF_THE_WIRE: [&str; 1] = ["direction"];
const OF_COMMANDS: [&str; 5] = ["command", "key", "nth", "from", "side"];
const OF_ALL: [&str; 2] = ["toxicity", "proxy"];

/// Why a text is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct FaultError {
    message: String,
    #[help]
    help: Option<String>,
    #[source_code]
    text: String,
    #[label("here")]
    span: SourceSpan,
}

/// A fault, and the other options of its text.
#[derive(Clone, Debug)]
pub struct ParsedFault {
    /// The fault.
    pub fault: ProxyFault,
    /// The only proxy it is meant for, if it is for one.
    pub proxy: Option<String>,
}

impl FromStr for ParsedFault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        FaultParser { text, words: words(text)?, taken: Vec::new(), reads_files: true }.read()
    }
}

impl ParsedFault {
    /// The same of a text from somebody who must not have this machine's files read.
    ///
    /// # Errors
    /// As of any text, and if it names a file.
    pub(crate) fn without_files(text: &str) -> Result<Self, FaultError> {
        FaultParser { text, words: words(text)?, taken: Vec::new(), reads_files: false }.read()
    }
}

/// A word: `name`, or `name=value`, with positions.
#[derive(Clone, Debug)]
struct Word {
    name: String,
    value: Option<String>,
    at: Range<usize>,
    value_at: Range<usize>,
}

struct FaultParser<'a> {
    text: &'a str,
    words: Vec<Word>,
    /// The options that have been looked for.
    taken: Vec<String>,
    reads_files: bool,
}

impl FaultParser<'_> {
    fn read(mut self) -> Result<ParsedFault, FaultError> {
        if self.words.is_empty() {
            let help = format!("the faults are {}", KINDS.join(", "));
            return Err(error(self.text, 0..0, "the fault is empty").help(help));
        }
        let kind = self.words.remove(0);
        if !KINDS.contains(&kind.name.as_str()) {
            let help = match nearest(&kind.name, KINDS) {
                Some(name) => format!("did you mean {name}?"),
                None => format!("the faults are {}", KINDS.join(", ")),
            };
            return Err(self.error(&kind.at, "unknown fault").help(help));
        }
        // A bare word after the fault is the command.
        if let Some(word) = self.words.first_mut().filter(|word| word.value.is_none()) {
            let name = std::mem::replace(&mut word.name, "command".to_owned());
            (word.value, word.value_at) = (Some(name), word.at.clone());
        }
        let is_of_commands = self
            .words
            .iter()
            .any(|word| OF_COMMANDS.contains(&word.name.as_str()) || is_arg(&word.name));
        let fault = match kind.name.as_str() {
            "drop-request" | "drop-reply" | "delay" | "hold" => self.of_commands(&kind)?,
            "reset" if is_of_commands => self.of_commands(&kind)?,
            _ => self.of_the_wire(&kind)?,
        };
        let toxicity = self.option("toxicity")?.map(|word| self.toxicity(&word)).transpose()?;
        let proxy = self.option("proxy")?.and_then(|word| word.value);
        self.nothing_is_left(&fault)?;
        Ok(ParsedFault { fault: fault.on(toxicity.unwrap_or(Toxicity::ALL)), proxy })
    }

    fn of_the_wire(&mut self, kind: &Word) -> Result<ProxyFault, FaultError> {
        let mut direction = self.option("direction")?;
        let effect = match kind.name.as_str() {
            "latency" => Effect::Latency(self.latency(kind)?),
            "bandwidth" => {
                let rate = self.value(kind, "bandwidth=100KB/s")?;
                let bytes =
                    rate.strip_suffix("/s").and_then(size).and_then(|it| it.try_into().ok());
                let wrong = "a bandwidth is a positive number of B, KB, KiB, MB or MiB a second, such as 100KB/s";
                Effect::Bandwidth(bytes.ok_or_else(|| self.error(&kind.value_at, wrong))?)
            }
            "timeout" => Effect::Timeout(self.span(kind, "timeout=3s")?),
            "slow-close" => Effect::SlowClose(self.span(kind, "slow-close=3s")?),
            "limit" => {
                let bytes = size(self.value(kind, "limit=10KB")?);
                let wrong = "a limit must be a size, such as 10KB or 500B";
                Effect::Limit(bytes.ok_or_else(|| self.error(&kind.value_at, wrong))?)
            }
            "reset" if kind.value.is_none() => Effect::ResetAfter(Duration::ZERO),
            "reset" => Effect::ResetAfter(self.span(kind, "reset=2s")?),
            _ => {
                // cut and half-open have the direction for a value.
                if kind.value.is_some() {
                    direction = Some(kind.clone());
                }
                if kind.name == "cut" { Effect::Cut } else { Effect::HalfOpen }
            }
        };
        let usual: &[Side] = match effect {
            Effect::Cut => &[Side::Request, Side::Reply],
            _ => &[Side::Reply],
        };
        let sides = match &direction {
            None => usual.to_vec(),
            Some(word) => match word.value.as_deref() {
                Some("requests") => vec![Side::Request],
                Some("replies") => vec![Side::Reply],
                Some("both") => vec![Side::Request, Side::Reply],
                _ => {
                    let wrong = "a direction must be requests, replies or both";
                    return Err(self.error(&word.value_at, wrong));
                }
            },
        };
        Ok(ProxyFault::Wire { sides, effect, toxicity: Toxicity::ALL })
    }

    fn of_commands(&mut self, kind: &Word) -> Result<ProxyFault, FaultError> {
        let side = match self.option("side")? {
            None => Side::Request,
            Some(word) if kind.name.starts_with("drop") => {
                return Err(self.error(&word.at, "drop-request and drop-reply take no side"));
            }
            Some(word) => match word.value.as_deref() {
                Some("request") => Side::Request,
                Some("reply") => Side::Reply,
                _ => return Err(self.error(&word.value_at, "a side must be request or reply")),
            },
        };
        let action = match kind.name.as_str() {
            "delay" => Action::Delay(side, self.span(kind, "delay=2s")?),
            _ if kind.value.is_some() => {
                let wrong = format!("{} with a command takes no value", kind.name);
                return Err(self.error(&kind.value_at, &wrong));
            }
            "drop-request" => Action::Drop(Side::Request),
            "drop-reply" => Action::Drop(Side::Reply),
            "hold" => Action::Hold(side, Gate::shut()),
            _ => Action::Reset(side),
        };
        let mut rule = Rule::new(action);
        if let Some(word) = self.option("command")? {
            let name = self.value(&word, "command=SET")?;
            if !Rule::can_be_command(name) {
                return Err(self.error(&word.value_at, "a command is one word, such as SET"));
            }
            rule = rule.command(name);
        }
        if let Some(word) = self.option("key")? {
            rule = rule.key(self.value(&word, "key=foo")?);
        }
        let args: Vec<Word> =
            self.words.iter().filter(|word| is_arg(&word.name)).cloned().collect();
        for word in args {
            let place = word.name[3..].parse().ok();
            let place = place.ok_or_else(|| self.error(&word.at, "no such argument"))?;
            rule = rule.arg(place, self.value(&word, "arg1=abc")?);
            self.taken.push(word.name);
        }
        rule = match (self.option("nth")?, self.option("from")?) {
            (None, None) => rule,
            (Some(word), None) => rule.when(Occurrence::Nth(self.count(&word)?)),
            (None, Some(word)) => rule.when(Occurrence::From(self.count(&word)?)),
            (Some(_), Some(word)) => {
                return Err(self.error(&word.at, "nth and from are mutually exclusive"));
            }
        };
        Ok(ProxyFault::Command(rule))
    }

    /// The option of this name, if it is there once.
    fn option(&mut self, name: &str) -> Result<Option<Word>, FaultError> {
        self.taken.push(name.to_owned());
        let mut named = self.words.iter().filter(|word| word.name == name);
        let first = named.next().cloned();
        match named.next() {
            Some(again) => Err(self.error(&again.at, &format!("{name} is given twice"))),
            None => Ok(first),
        }
    }

    fn nothing_is_left(&self, fault: &ProxyFault) -> Result<(), FaultError> {
        let is_taken = |word: &&Word| self.taken.contains(&word.name);
        let Some(word) = self.words.iter().find(|word| !is_taken(word)) else { return Ok(()) };
        let has: &[&str] = match fault {
            ProxyFault::Wire { .. } => &OF_THE_WIRE,
            ProxyFault::Command(_) => &OF_COMMANDS,
        };
        let names = || has.iter().chain(&OF_ALL).copied();
        let help = match nearest(&word.name, names()) {
            Some(name) => format!("did you mean {name}?"),
            None => format!("its options are {}", names().collect::<Vec<_>>().join(", ")),
        };
        Err(self.error(&word.at, "this fault has no such option").help(help))
    }

    fn latency(&self, kind: &Word) -> Result<Latency, FaultError> {
        let text = self.value(kind, "latency=5ms")?;
        let named = if text.contains("..") && !text.contains(':') {
            format!("uniform:{text}")
        } else {
            text.to_owned()
        };
        let wrong = |why: &dyn ToString| self.error(&kind.value_at, &why.to_string());
        let mut distribution: Distribution = named.parse().map_err(|why| wrong(&why))?;
        if !self.reads_files && distribution.unread().is_some() {
            return Err(wrong(&"a distribution file is allowed on the command line only"));
        }
        distribution.read(Path::new(".")).map_err(|why| wrong(&why))?;
        Ok(Latency::from(&distribution))
    }

    fn toxicity(&self, word: &Word) -> Result<Toxicity, FaultError> {
        let part = self.value(word, "toxicity=0.5")?.parse().ok().and_then(Toxicity::of);
        part.ok_or_else(|| self.error(&word.value_at, "a toxicity must be a number from 0 to 1"))
    }

    fn count(&self, word: &Word) -> Result<u64, FaultError> {
        let example = format!("{}=3", word.name);
        let count = self.value(word, &example)?.parse().ok().filter(|count| *count > 0);
        let wrong =
            || format!("{} must be a request number, 1 or higher, such as {example}", word.name);
        count.ok_or_else(|| self.error(&word.value_at, &wrong()))
    }

    fn span(&self, word: &Word, example: &str) -> Result<Duration, FaultError> {
        let span: Result<Span, _> = self.value(word, example)?.parse();
        span.map(|span| span.0).map_err(|why| self.error(&word.value_at, &why.to_string()))
    }

    fn value<'w>(&self, word: &'w Word, example: &str) -> Result<&'w str, FaultError> {
        let missing = || self.error(&word.at, &format!("the value is missing, as in {example}"));
        word.value.as_deref().filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    fn error(&self, at: &Range<usize>, message: &str) -> FaultError {
        error(self.text, at.clone(), message)
    }
}

impl FaultError {
    fn help(self, help: String) -> Self {
        Self { help: Some(help), ..self }
    }
}

fn error(text: &str, at: Range<usize>, message: &str) -> FaultError {
    FaultError { message: message.to_owned(), help: None, text: text.to_owned(), span: at.into() }
}

/// `arg1` and its like.
fn is_arg(name: &str) -> bool {
    name.strip_prefix("arg")
        .is_some_and(|place| !place.is_empty() && place.bytes().all(|it| it.is_ascii_digit()))
}

/// Bytes, as in `10KB`, `1.5MiB` or `500B`.
fn size(text: &str) -> Option<u64> {
    let unit = text.find(|it: char| it.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit);
    let factor: u32 = match unit {
        "B" => 1,
        "KB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * f64::from(factor);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at")]
    (0.0..=1e15).contains(&bytes).then_some(bytes as u64)
}

/// The words of a text. In double quotes blanks belong to a word.
fn words(text: &str) -> Result<Vec<Word>, FaultError> {
    let mut words = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((start, first)) = chars.peek().copied() {
        if first.is_whitespace() {
            chars.next();
            continue;
        }
        let (mut name, mut value, mut value_at) = (String::new(), None::<String>, start..start);
        let (mut end, mut quoted) = (start, None);
        while let Some((place, next)) = chars.peek().copied() {
            if next.is_whitespace() && quoted.is_none() {
                break;
            }
            chars.next();
            end = place + next.len_utf8();
            match (next, &mut value) {
                ('"', _) => quoted = if quoted.is_none() { Some(place) } else { None },
                ('=', None) if quoted.is_none() => {
                    (value, value_at.start) = (Some(String::new()), end);
                }
                (_, Some(value)) => value.push(next),
                (_, None) => name.push(next),
            }
        }
        if let Some(place) = quoted {
            return Err(error(text, place..place + 1, "this quote is not closed"));
        }
        value_at.end = end;
        words.push(Word { name, value, at: start..end, value_at });
    }
    Ok(words)
}

#[cfg(test)]
pub(crate) mod tests;
