//! How a model server is set up, and what CONFIG GET and CONFIG SET know of it.
//!
//! Invariant: a parameter that CONFIG SET takes is either acted upon or said here to be kept only. Kept
//! only: save, timeout, hz. Any other parameter answers as a name that Redis does not know.

use std::borrow::Cow;

use scenarios::topology::{AppendOnly, Software};

/// The redis-server that the model is held to.
pub const VERSION: &str = "7.0.15";

/// How a server starts.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// What AUTH must give; none: everybody is let in.
    pub password: Option<String>,
    /// How many databases SELECT can choose from.
    pub databases: u16,
    /// The port that INFO and CONFIG GET name.
    pub port: u16,
    /// After this many Lua instructions (in steps of 1,000) a script is ended with an error.
    pub script_budget_instructions: u64,
    /// Whether an append-only file is kept, and when it is synced.
    pub append_only: AppendOnly,
    /// Whether every script runs in Lua, also one that could run natively.
    pub lua_only: bool,
    /// Whether it is a node of a cluster, which owns every slot: then all keys of a command must be in one.
    pub cluster: bool,
    /// Which server it is: commands of other ones are unknown to it. What Redis 7.0 has, all have; the
    /// words of its errors are used for all.
    pub software: Software,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            password: None,
            databases: 16,
            port: 6379,
            script_budget_instructions: 50_000_000,
            append_only: AppendOnly::Off,
            lua_only: false,
            cluster: false,
            software: Software::Redis70,
        }
    }
}

/// What kind of text a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    Text,
    YesNo,
    /// None below 0 or of more than 31 bits; the bounds within which it is kept.
    Number(i64, i64),
    Memory,
    /// Pairs of seconds and changes.
    SavePoints,
    Choice(&'static [&'static str]),
    /// Classes of keyspace events.
    Events,
    Immutable,
}

const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

/// The parameters: name, kind, value of a server started without a configuration and without saving.
pub(crate) const PARAMETERS: &[(&str, ParameterKind, &str)] = &[
    ("appendfsync", ParameterKind::Choice(&["everysec", "always", "no"]), "everysec"),
    ("appendonly", ParameterKind::YesNo, "no"),
    ("databases", ParameterKind::Immutable, "16"),
    ("hz", ParameterKind::Number(1, 500), "10"),
    ("maxmemory", ParameterKind::Memory, "0"),
    ("maxmemory-policy", ParameterKind::Choice(POLICIES), "noeviction"),
    ("notify-keyspace-events", ParameterKind::Events, ""),
    ("port", ParameterKind::Immutable, "6379"),
    ("requirepass", ParameterKind::Text, ""),
    ("save", ParameterKind::SavePoints, ""),
    ("timeout", ParameterKind::Number(0, i32::MAX as i64), "0"),
];

/// Where a parameter stands.
fn place(name: &str) -> usize {
    let place = PARAMETERS.iter().position(|(known, ..)| *known == name);
    place.expect("only names of the table are asked for")
}

/// The parameters as they stand.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    /// In the order of [`PARAMETERS`].
    values: [Cow<'static, [u8]>; PARAMETERS.len()],
}

impl Parameters {
    pub(crate) fn new(options: &ModelOptions) -> Self {
        let values = std::array::from_fn(|place| Cow::Borrowed(PARAMETERS[place].2.as_bytes()));
        let mut parameters = Self { values };
        let policy: Option<&[u8]> = match options.append_only {
            AppendOnly::Off => None,
            AppendOnly::Always => Some(b"always"),
            AppendOnly::Everysec => Some(b"everysec"),
            AppendOnly::Unsynced => Some(b"no"),
        };
        if let Some(policy) = policy {
            parameters.set("appendonly", &b"yes"[..]);
            parameters.set("appendfsync", policy);
        }
        parameters.set("databases", options.databases.to_string().into_bytes());
        parameters.set("port", options.port.to_string().into_bytes());
        if let Some(password) = &options.password {
            parameters.set("requirepass", password.clone().into_bytes());
        }
        parameters
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, ParameterKind, &[u8])> {
        PARAMETERS.iter().zip(&self.values).map(|(&(name, kind, _), value)| (name, kind, &**value))
    }

    pub(crate) fn get(&self, name: &str) -> &[u8] {
        &self.values[place(name)]
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<Cow<'static, [u8]>>) {
        self.values[place(name)] = value.into();
    }

    /// The password, if one is asked for.
    pub(crate) fn password(&self) -> Option<&[u8]> {
        Some(self.get("requirepass")).filter(|password| !password.is_empty())
    }
}
