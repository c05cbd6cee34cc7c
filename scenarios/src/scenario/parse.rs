//! From TOML and overrides to a checked scenario.
//!
//! Invariant: command line before file; whatever is said last is checked, and an error names the
//! place it came from: the line of the file, or the option.

use std::ops::Range;
use std::path::Path;

use history::fault::Swarm;
use history::nearest::nearest;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::error::KeyError;
use super::{Expectation, Scenario, ScenarioError, WorkloadPart};
use crate::format;
use crate::recipe::{self, BuildError};
use crate::span::Span;

/// Nobody can mean that it may take more commands than this to get a lock.
pub const COMMANDS_MOST: f64 = 1e9;

/// How long a name may be, in bytes. Reports and counterexamples are called so, and file systems take 255.
const NAME_MOST: usize = 200;

/// What is said beside the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// The recipe.
    pub lock: Option<String>,
    /// How many clients.
    pub clients: Option<u32>,
    /// The TTL.
    pub ttl: Option<Span>,
    /// The work under the lock.
    pub hold: Option<Span>,
    /// Any key of the file, dotted, and its value as TOML; a bare word counts as a string.
    pub set: Vec<(String, String)>,
    /// Whether the searched form is meant.
    pub searched: bool,
}

/// A scenario as a file has it, to be run with any overrides.
#[derive(Clone, Debug)]
pub struct ScenarioFile<'a> {
    file: &'a str,
    text: &'a str,
    written: Scenario,
}

impl<'a> ScenarioFile<'a> {
    /// The scenario in this text of this file, which has this name unless the text has one.
    ///
    /// # Errors
    /// [`ScenarioError`], with the place, where it says what no scenario can say.
    pub fn read(name: &str, file: &'a str, text: &'a str) -> Result<Self, ScenarioError> {
        let mut written: Scenario = toml::from_str(text).map_err(|error| match error.span() {
            None => of_toml(&error).of_file(file),
            span => of_toml(&error).at(file, text, span),
        })?;
        if written.name.is_empty() {
            name.clone_into(&mut written.name);
        }
        Ok(Self { file, text, written })
    }

    /// The scenario with these overrides. Files that it names lie beside its own, or where the overrides that name them
    /// are given, and are read here.
    ///
    /// # Errors
    /// [`ScenarioError`] where it cannot be run, with the place in the file where it stands there.
    pub fn with(&self, overrides: &Overrides) -> Result<Scenario, ScenarioError> {
        let Self { file, text, ref written } = *self;
        let mut scenario = written.clone();
        let mut touched = Vec::new();
        // What decides on the recipe comes first: other keys are set of what that one meets.
        let is_first = |path: &str| overlap(path, "lock") || overlap(path, "variant");
        let (first, then): (Vec<_>, Vec<_>) =
            overrides.set.iter().partition(|(path, _)| is_first(path));
        for (path, value) in first {
            scenario = scenario.with(path, value)?;
            touched.push(path.as_str());
        }
        let as_written = scenario.clone();
        if let Some(lock) = &overrides.lock {
            scenario.lock.recipe.clone_from(lock);
            touched.push("lock.recipe");
        }
        scenario.vary();
        if let Some((path, value)) = overrides.set.iter().rfind(|(path, _)| path == "lock.ttl") {
            scenario = scenario.with(path, value)?;
        }
        for (path, value) in then {
            scenario = scenario.with(path, value)?;
            touched.push(path.as_str());
        }
        if overrides.searched {
            let searched = scenario.check_search().and_then(|()| scenario.into_searched(&touched));
            scenario = searched.map_err(|wrong| blamed(wrong, &touched, file, text))?;
        }
        if let Some(clients) = overrides.clients {
            scenario.clients = clients;
            touched.push("clients");
        }
        if let Some(ttl) = overrides.ttl {
            scenario.lock.ttl = ttl;
            touched.push("lock.ttl");
        }
        if let Some(hold) = overrides.hold {
            scenario.workload.set_hold(hold);
            touched.push("workload");
        }
        scenario.remeasure(&touched);
        let is_touched = |path: &str| touched.iter().any(|it| overlap(it, path));
        let beside_file = Path::new(file).parent().unwrap_or(Path::new(""));
        let read = scenario.network.read_files(&mut scenario.topology, |path| {
            // What the command line names lies where its user is.
            if is_touched(path) { Path::new("") } else { beside_file }
        });
        let checked = read.and_then(|()| scenario.check());
        // What was set is no longer what the file says.
        let checked = checked.map_err(|(path, error)| {
            let origin = if is_touched(&path) { path } else { scenario.origin(&path) };
            (origin, error)
        });
        let checked = checked.and_then(|()| as_written.check_variants(beside_file));
        checked.map_err(|wrong| blamed(wrong, &touched, file, text))?;
        Ok(scenario)
    }
}

impl Scenario {
    /// The scenario in this text, as [`ScenarioFile::read`] and [`ScenarioFile::with`] have it.
    ///
    /// # Errors
    /// Theirs.
    pub fn parse(
        name: &str,
        file: &str,
        text: &str,
        overrides: &Overrides,
    ) -> Result<Self, ScenarioError> {
        ScenarioFile::read(name, file, text)?.with(overrides)
    }

    /// The scenario that a manifest holds, as it ran.
    ///
    /// # Errors
    /// [`ScenarioError`] where it is none, or cannot be run.
    pub fn from_json(value: serde_json::Value) -> Result<Self, ScenarioError> {
        let scenario: Self = serde_json::from_value(value)
            .map_err(|error| ScenarioError::new(format!("this is no scenario: {error}")))?;
        scenario.check().map_err(|(_, error)| error)?;
        Ok(scenario)
    }

    /// The scenario as TOML, as its recipe meets it: what others would meet is left out.
    ///
    /// # Errors
    /// [`ScenarioError`] where something in it has no form in TOML.
    pub fn to_toml(&self) -> Result<String, ScenarioError> {
        let mut alone = Self { variants: Vec::new(), ..self.clone() };
        alone.limits.retain(|lock, _| *lock == self.lock.recipe);
        toml::to_string_pretty(&alone).map_err(|error| ScenarioError::new(error.to_string()))
    }

    /// The scenario with one value changed.
    fn with(&self, path: &str, value: &str) -> Result<Self, ScenarioError> {
        let failed = |why: String| ScenarioError::new(format!("--set {path}={value}: {why}"));
        let mut table = Table::try_from(self).map_err(|error| failed(error.to_string()))?;
        let parsed = format!("value = {value}").parse::<Table>().ok();
        let parsed = parsed.and_then(|mut table| table.remove("value"));
        let digits = value.trim_start_matches(['+', '-']);
        let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
        if parsed.is_none() && is_number && value.parse::<i64>().is_err() {
            return Err(failed(format!("no number is beyond {}", i64::MAX)));
        }
        let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
        let mut keys = path.split('.');
        let last = keys.next_back().unwrap_or_default();
        let mut part = &mut table;
        while let Some(key) = keys.next() {
            let names: Vec<String> = part.keys().cloned().collect();
            let why = match part.get(key) {
                Some(Value::Array(all)) => match all.len() {
                    0 => format!("the scenario has no `{key}`"),
                    1 => format!("the scenario has one `{key}`, and it is `{key}.0`"),
                    many => format!("the scenario has `{key}.0` to `{key}.{}`", many - 1),
                },
                Some(_) => format!("`{key}` is no table, so nothing in it can be set"),
                None => format!("there is no table {key:?} there, only {}", quoted(&names)),
            };
            let found = match part.get_mut(key) {
                // Places in an array count from 0, as in `fault.0.for`.
                Some(Value::Array(all)) => {
                    let place = keys.next().and_then(|place| place.parse::<usize>().ok());
                    place.and_then(|place| all.get_mut(place))
                }
                found => found,
            };
            part = found.and_then(Value::as_table_mut).ok_or_else(|| {
                let names = names.iter().map(String::as_str).filter(|name| *name != key);
                failed(why).help(did_you_mean(key, names))
            })?;
        }
        part.insert(last.to_owned(), value);
        table.try_into().map_err(|error: toml::de::Error| {
            let error = of_toml(&error);
            let help = error.advice().unwrap_or(
                "a key has its tables in front, as in workload.bonus_pool.prizes=3; `picklock show NAME --toml` prints a scenario \
                 with its keys",
            );
            failed(error.to_string()).help(Some(help.to_owned()))
        })
    }

    /// What cannot be run, and by which key.
    fn check(&self) -> Result<(), KeyError> {
        let wrong = |path: &str, why: String| Err((path.to_owned(), ScenarioError::new(why)));
        if self.name.len() > NAME_MOST {
            let long = self.name.len();
            let why = format!(
                "a name of {long} bytes is too long: directories are called so, and {NAME_MOST} is the most"
            );
            return wrong("name", why);
        }
        self.check_size()?;
        self.check_limits()?;
        known_recipe("lock.recipe", &self.lock.recipe)?;
        check_expectations("expect", &self.expect)?;
        if self.lock.give_up.is_some_and(|it| it.0.is_zero()) {
            let why = "give_up is 0: who gives up at once waits for nothing".to_owned();
            return wrong("lock.give_up", why);
        }
        if self.lock.max_hold.is_some_and(|it| it.0.is_zero()) {
            let why = "max_hold is 0: nothing would ever be renewed".to_owned();
            return wrong("lock.max_hold", why);
        }
        self.check_search()?;
        self.check_servers()?;
        self.check_ttl()?;
        check_chances("swarm", &self.swarm)?;
        self.check_workload()
    }

    /// The same of its workload.
    fn check_workload(&self) -> Result<(), KeyError> {
        let wrong =
            |key: &str, why: &str| Err((format!("workload.{key}"), ScenarioError::new(why)));
        match &self.workload {
            WorkloadPart::BonusPool(it) if it.prizes == 0 => {
                wrong("bonus_pool.prizes", "prizes is 0: there is nothing to fight over")
            }
            WorkloadPart::BonusPool(_) => Ok(()),
            WorkloadPart::Register(it) if it.rounds == 0 => {
                wrong("register.rounds", "rounds is 0: nobody would ever ask for the lock")
            }
            WorkloadPart::Register(it) if it.tasks == 0 => {
                wrong("register.tasks", "tasks is 0: a client does its work in one task at least")
            }
            WorkloadPart::Register(it) if it.steps == 0 => {
                wrong("register.steps", "steps is 0: a client does its work in one step at least")
            }
            WorkloadPart::Register(it) => match it.drop {
                Some(drop) if drop.ends && (it.tasks > 1 || it.beside > 0) => {
                    wrong("register.drop.ends", "a process that ends leaves no other task behind")
                }
                Some(drop) if drop.every == 0 => {
                    let why = "every is 0: 1 drops each acquisition, 2 every second one";
                    wrong("register.drop.every", why)
                }
                Some(drop) if drop.after.is_none() && !drop.guard && !drop.release => {
                    let why = "it drops nothing: write after = \"30ms\" for acquisitions, guard = true for \
                               what they got";
                    wrong("register.drop", why)
                }
                _ => Ok(()),
            },
        }
    }

    /// The same of the TTL of its lock.
    pub(super) fn check_ttl(&self) -> Result<(), KeyError> {
        let wrong = |why: String| Err(("lock.ttl".to_owned(), ScenarioError::new(why)));
        let ttl = self.lock.ttl;
        if let Err(why) = check_span_of_ttl(ttl) {
            return wrong(why);
        }
        // An answer that always comes when the lock is over grants nothing to anybody.
        let trip_ns = 2 * self.network.latency.sampler().at(0);
        if self.about_lock().locks && ttl.ns() < trip_ns {
            let trip = Span(std::time::Duration::from_nanos(trip_ns));
            let why = format!("the TTL is {ttl}, and no request is answered within {trip}");
            return wrong(why);
        }
        Ok(())
    }

    /// The same of its servers, the ways to them, and what strikes them.
    pub(super) fn check_servers(&self) -> Result<(), KeyError> {
        super::faults::check(self)?;
        self.network.check(self.clients, self.topology().servers())
    }
}

/// Whether Redis can let a key live so long.
///
/// # Errors
/// Why it cannot.
pub fn check_span_of_ttl(ttl: Span) -> Result<(), String> {
    if ttl.0.is_zero() {
        let why = "the TTL is 0: a lock that expires at once protects nothing; 1ms is the least";
        return Err(why.to_owned());
    }
    if !ttl.0.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(format!("the TTL is {ttl}: Redis counts whole milliseconds"));
    }
    Ok(())
}

/// Whether there is a recipe of this name, which stands at this dotted key.
pub(super) fn known_recipe(path: &str, name: &str) -> Result<(), KeyError> {
    let known = recipe::about(name);
    known.map(|_| ()).map_err(|error| (path.to_owned(), unknown_recipe(&error)))
}

/// Whether so many commands can be meant.
pub(super) fn check_commands(path: &str, within: Option<f64>) -> Result<(), KeyError> {
    match within.filter(|it| !(0.0..=COMMANDS_MOST).contains(it)) {
        None => Ok(()),
        Some(within) => {
            let why = format!("{within} commands: it is a number from 0 to {COMMANDS_MOST}");
            Err((path.to_owned(), ScenarioError::new(why)))
        }
    }
}

/// Whether the locks of these expectations are known.
pub(super) fn check_expectations(path: &str, expect: &[Expectation]) -> Result<(), KeyError> {
    for (nth, expectation) in expect.iter().enumerate() {
        let mut locks = expectation.locks.iter().enumerate().filter(|(_, lock)| *lock != "*");
        locks.try_for_each(|(place, lock)| {
            known_recipe(&format!("{path}.{nth}.locks.{place}"), lock)
        })?;
    }
    Ok(())
}

/// Whether the chances of a swarm are any.
pub(super) fn check_chances(path: &str, swarm: &Swarm) -> Result<(), KeyError> {
    match swarm.chances().into_iter().find(|(_, it)| !it.is_share()) {
        None => Ok(()),
        Some((key, chance)) => {
            let why = format!("a chance of {}: it is a share, from 0 to 1", chance.0);
            Err((format!("{path}.{key}"), ScenarioError::new(why)))
        }
    }
}

fn unknown_recipe(error: &BuildError) -> ScenarioError {
    let help = match error {
        BuildError::Unknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
        _ => {
            let names: Vec<&str> = recipe::ALL.iter().map(|about| about.name).collect();
            format!("the recipes are: {}", names.join(", "))
        }
    };
    ScenarioError::new(error.to_string()).help(Some(help))
}

/// An error of the parser, with the nearest of the names it expected.
fn of_toml(error: &toml::de::Error) -> ScenarioError {
    let message = in_words(error.message());
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let help = match (unknown, quoted.next()) {
        (false, Some(name)) if message.starts_with("missing field") => {
            Some(format!("add `{name}` there"))
        }
        (true, Some(given)) => {
            let expected: Vec<&str> = quoted.collect();
            did_you_mean(given, expected.iter().copied())
        }
        _ => None,
    };
    ScenarioError::new(message.trim_end()).help(help)
}

/// The parser's message in words of people who do not write Rust.
fn in_words(message: &str) -> String {
    let message = message.trim_end();
    if message.starts_with("wanted exactly 1 element") {
        return "a scenario has exactly one workload: one table [workload.…]".to_owned();
    }
    format::in_words(message)
}

/// The error, with its place in the file unless the command line is to blame.
fn blamed((path, error): KeyError, touched: &[&str], file: &str, text: &str) -> ScenarioError {
    match touched.iter().any(|it| overlap(it, &path)) {
        true => error,
        false => error.at(file, text, place(text, &path)),
    }
}

/// Whether one of these dotted keys lies within the other.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    within(one, other) || within(other, one)
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(given, names).map(|name| format!("did you mean `{name}`?"))
}

/// Where the value of this dotted key stands; places in an array count from 0.
fn place(text: &str, path: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let mut value = root.get_ref().iter().find(|(name, _)| name.get_ref() == first)?.1;
    for key in rest.split('.').filter(|key| !key.is_empty()) {
        value = match value.get_ref() {
            DeValue::Table(table) => table.iter().find(|(name, _)| name.get_ref() == key)?.1,
            DeValue::Array(array) => array.get(key.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value.span())
}
