//! The command table: how many arguments commands take, what may refuse them, and where their keys stand.
//!
//! Invariant: a command has one row, which dispatch, COMMAND, INFO and the proxy all read.

use rustc_hash::FxHashMap;
use scenarios::topology::Software;

use super::{CommandResult, Request, Server};

/// Command flags, as COMMAND INFO names them.
pub(crate) mod flag {
    pub(crate) const WRITE: u32 = 1;
    pub(crate) const READONLY: u32 = 1 << 1;
    pub(crate) const DENYOOM: u32 = 1 << 2;
    pub(crate) const ADMIN: u32 = 1 << 3;
    pub(crate) const NOSCRIPT: u32 = 1 << 4;
    pub(crate) const LOADING: u32 = 1 << 5;
    pub(crate) const STALE: u32 = 1 << 6;
    pub(crate) const SKIP_MONITOR: u32 = 1 << 7;
    pub(crate) const SKIP_SLOWLOG: u32 = 1 << 8;
    pub(crate) const FAST: u32 = 1 << 9;
    pub(crate) const NO_AUTH: u32 = 1 << 10;
    pub(crate) const NO_MANDATORY_KEYS: u32 = 1 << 11;
    pub(crate) const MOVABLE_KEYS: u32 = 1 << 12;
    pub(crate) const ALLOW_BUSY: u32 = 1 << 13;
    pub(crate) const PUBSUB: u32 = 1 << 14;
    pub(crate) const BLOCKING: u32 = 1 << 15;
    /// Replicas may get it though it writes nothing; COMMAND INFO does not name this one.
    pub(crate) const MAY_REPLICATE: u32 = 1 << 16;
    /// Only a server of this software knows the command; no flag of Redis's.
    pub(crate) const REDIS_84: u32 = 1 << 30;
    /// The same.
    pub(crate) const VALKEY_9: u32 = 1 << 31;

    /// The flags in the order in which Redis lists them.
    pub(crate) const NAMES: [(u32, &str); 16] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (NOSCRIPT, "noscript"),
        (PUBSUB, "pubsub"),
        (BLOCKING, "blocking"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (MOVABLE_KEYS, "movablekeys"),
        (ALLOW_BUSY, "allow_busy"),
    ];
}

/// A command that needs nothing but the server's state.
pub(crate) type Handler = fn(&mut Server, &Request<'_>) -> CommandResult;

/// Where a command has its keys, its name being at place 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPositions {
    /// It has none.
    None,
    /// The first, the last (counted from the end where negative), and the step between two.
    Range(i8, i8, i8),
    /// Behind their number, which stands at this place.
    Counted(usize),
    /// Behind this word.
    After(&'static str),
}

impl KeyPositions {
    /// First key, last key and step, as COMMAND INFO shows them.
    pub(crate) fn shown(self) -> (i8, i8, i8) {
        match self {
            Self::Range(first, last, step) => (first, last, step),
            // These are to be asked for by COMMAND GETKEYS.
            Self::None | Self::Counted(_) | Self::After(_) => (0, 0, 0),
        }
    }

    /// The keys of a request with these arguments, its name included, as far as they can be told.
    pub(crate) fn all<'a>(self, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
        match self {
            Self::Range(first, last, step) => {
                let place = |it: i8| match usize::try_from(it) {
                    Ok(place) => place,
                    Err(_) => args.len().saturating_sub(usize::from(it.unsigned_abs())),
                };
                let (first, last) = (place(first), place(last).min(args.len().saturating_sub(1)));
                let step = usize::from(step.unsigned_abs().max(1));
                (first..=last).step_by(step).map(|at| args[at]).collect()
            }
            Self::Counted(place) => {
                let count = args.get(place).and_then(|count| std::str::from_utf8(count).ok());
                let count = count.and_then(|count| count.parse().ok()).unwrap_or(0);
                args.iter().skip(place + 1).take(count).copied().collect()
            }
            Self::None | Self::After(_) => self.first(args.iter().copied()).into_iter().collect(),
        }
    }

    /// The first key of a request with these arguments, its name included.
    pub(crate) fn first<'a>(self, mut args: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
        match self {
            Self::None => None,
            Self::Range(first, ..) => args.nth(usize::try_from(first).ok()?),
            Self::Counted(place) => {
                args.nth(place).filter(|count| *count != b"0").and_then(|_| args.next())
            }
            Self::After(word) => {
                args.find(|arg| arg.eq_ignore_ascii_case(word.as_bytes())).and_then(|_| args.next())
            }
        }
    }
}

/// How a command is carried out.
#[derive(Clone, Copy)]
pub(crate) enum Execution {
    /// By a function on the server's state.
    Plain(Handler),
    /// By its subcommands; alone it has too few arguments.
    Container,
    /// EVAL and its kind.
    Eval {
        /// The script is named by its digest.
        by_digest: bool,
        /// Writes are refused.
        read_only: bool,
    },
    /// SCRIPT LOAD.
    Load,
    /// FCALL and its kind.
    Function {
        /// Writes are refused.
        read_only: bool,
    },
    /// FUNCTION LOAD.
    LoadLibrary,
    /// EXEC.
    Exec,
}

/// A line of the table.
#[derive(Clone, Copy)]
pub(crate) struct CommandSpec {
    pub(crate) name: &'static str,
    /// The number of arguments including the name; if negative, at least that many.
    pub(crate) arity: i8,
    pub(crate) flags: u32,
    pub(crate) keys: KeyPositions,
    /// ACL categories besides those that follow from the flags.
    pub(crate) group: &'static str,
    pub(crate) run: Execution,
    pub(crate) subcommands: &'static [CommandSpec],
}

impl CommandSpec {
    /// A command that only has subcommands.
    pub(crate) const fn container(name: &'static str, subcommands: &'static [CommandSpec]) -> Self {
        let run = Execution::Container;
        Self { name, arity: -2, flags: 0, keys: KeyPositions::None, group: "", run, subcommands }
    }

    /// The same with these key positions.
    pub(crate) const fn keys(mut self, first: i8, last: i8, step: i8) -> Self {
        self.keys = KeyPositions::Range(first, last, step);
        self
    }

    /// The same, with keys after the argument at this place, which says how many they are.
    pub(crate) const fn counted_keys(mut self, place: usize) -> Self {
        self.keys = KeyPositions::Counted(place);
        self.flags |= flag::MOVABLE_KEYS;
        self
    }

    /// Whether the command takes this many arguments, including the name.
    pub(crate) fn takes(&self, args: usize) -> bool {
        let wanted = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { args >= wanted } else { args == wanted }
    }

    /// Whether a server of this software knows the command.
    pub(crate) fn is_known_to(&self, software: Software) -> bool {
        !(self.has(flag::REDIS_84) && software != Software::Redis84
            || self.has(flag::VALKEY_9) && software != Software::Valkey9)
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

/// The commands of ACL categories that do not follow from their flags.
#[derive(Clone, Copy)]
pub(crate) struct CommandGroup(&'static str);

impl CommandGroup {
    /// A command without keys.
    pub(crate) const fn command(
        self,
        name: &'static str,
        arity: i8,
        flags: u32,
        handler: Handler,
    ) -> CommandSpec {
        self.run(name, arity, flags, Execution::Plain(handler))
    }

    /// A command whose only key is its first argument.
    pub(crate) const fn keyed(
        self,
        name: &'static str,
        arity: i8,
        flags: u32,
        handler: Handler,
    ) -> CommandSpec {
        self.command(name, arity, flags, handler).keys(1, 1, 1)
    }

    /// A command without keys that is carried out like this.
    pub(crate) const fn run(
        self,
        name: &'static str,
        arity: i8,
        flags: u32,
        run: Execution,
    ) -> CommandSpec {
        let keys = KeyPositions::None;
        CommandSpec { name, arity, flags, keys, group: self.0, run, subcommands: &[] }
    }
}

/// The groups that there are.
pub(crate) mod group {
    use super::CommandGroup;

    pub(crate) const ADMIN_DANGEROUS: CommandGroup = CommandGroup("admin dangerous");
    pub(crate) const BITMAP: CommandGroup = CommandGroup("bitmap");
    pub(crate) const CONNECTION: CommandGroup = CommandGroup("connection");
    pub(crate) const CONNECTION_DANGEROUS: CommandGroup = CommandGroup("connection dangerous");
    pub(crate) const DANGEROUS: CommandGroup = CommandGroup("dangerous");
    pub(crate) const HASH: CommandGroup = CommandGroup("hash");
    pub(crate) const KEYSPACE: CommandGroup = CommandGroup("keyspace");
    pub(crate) const KEYSPACE_DANGEROUS: CommandGroup = CommandGroup("keyspace dangerous");
    pub(crate) const LIST: CommandGroup = CommandGroup("list");
    pub(crate) const PUBSUB: CommandGroup = CommandGroup("pubsub");
    pub(crate) const SCRIPTING: CommandGroup = CommandGroup("scripting");
    pub(crate) const SET: CommandGroup = CommandGroup("set");
    pub(crate) const SORTED_SET: CommandGroup = CommandGroup("sortedset");
    pub(crate) const STRING: CommandGroup = CommandGroup("string");
    pub(crate) const TRANSACTION: CommandGroup = CommandGroup("transaction");
    /// Of no such category.
    pub(crate) const SERVER: CommandGroup = CommandGroup("");
}

/// A command or subcommand in its place.
pub(crate) struct TableRow {
    pub(crate) spec: &'static CommandSpec,
    /// `set`, `client|id`.
    pub(crate) full_name: String,
    pub(crate) is_subcommand: bool,
}

/// What a name stands for.
pub(crate) enum Lookup {
    Command(u16),
    UnknownSubcommand,
    Unknown,
}

/// All commands, by place and by name.
pub(crate) struct CommandTable {
    lines: Vec<TableRow>,
    commands: FxHashMap<&'static [u8], u16>,
    subcommands: FxHashMap<(u16, &'static [u8]), u16>,
}

const LONGEST_NAME: usize = 32;

impl CommandTable {
    /// The table of these families.
    pub(crate) fn new<'a>(families: impl IntoIterator<Item = &'a &'static [CommandSpec]>) -> Self {
        let (lines, commands, subcommands) = Default::default();
        let mut table = Self { lines, commands, subcommands };
        for spec in families.into_iter().copied().flatten() {
            let place = table.add(spec, spec.name.to_owned(), false);
            table.commands.insert(spec.name.as_bytes(), place);
            for sub in spec.subcommands {
                let sub_place = table.add(sub, format!("{}|{}", spec.name, sub.name), true);
                table.subcommands.insert((place, sub.name.as_bytes()), sub_place);
            }
        }
        table
    }

    fn add(&mut self, spec: &'static CommandSpec, full_name: String, is_subcommand: bool) -> u16 {
        self.lines.push(TableRow { spec, full_name, is_subcommand });
        u16::try_from(self.lines.len() - 1).expect("fewer than 65,536 commands")
    }

    /// How many lines, subcommands included.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// All lines with their places.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u16, &TableRow)> {
        (0_u16..).zip(&self.lines)
    }

    pub(crate) fn line(&self, place: u16) -> &TableRow {
        &self.lines[usize::from(place)]
    }

    pub(crate) fn spec(&self, place: u16) -> &'static CommandSpec {
        self.line(place).spec
    }

    /// Whether a request names this command, which has no subcommands and is none.
    pub(crate) fn is_named(&self, place: u16, args: &[&[u8]]) -> bool {
        let line = self.line(place);
        let name = line.spec.name.as_bytes();
        !line.is_subcommand
            && line.spec.subcommands.is_empty()
            && args.first().is_some_and(|said| said.eq_ignore_ascii_case(name))
    }

    /// The command that a request names and a server of this software knows.
    pub(crate) fn find_for(&self, software: Software, args: &[&[u8]]) -> Lookup {
        match self.find(args) {
            Lookup::Command(place) if !self.spec(place).is_known_to(software) => Lookup::Unknown,
            found => found,
        }
    }

    /// The command that a request names. An empty request names none.
    pub(crate) fn find(&self, args: &[&[u8]]) -> Lookup {
        let mut lower = [0; LONGEST_NAME];
        let Some(name) = args.first().and_then(|name| lowered(name, &mut lower)) else {
            return Lookup::Unknown;
        };
        let Some(&place) = self.commands.get(name) else { return Lookup::Unknown };
        let Some(sub) = args.get(1).filter(|_| !self.spec(place).subcommands.is_empty()) else {
            return Lookup::Command(place);
        };
        let sub = lowered(sub, &mut lower).and_then(|sub| self.subcommands.get(&(place, sub)));
        sub.map_or(Lookup::UnknownSubcommand, |&place| Lookup::Command(place))
    }

    /// The command or subcommand of this full name.
    pub(crate) fn by_full_name(&self, name: &[u8]) -> Option<u16> {
        let words: Vec<&[u8]> = name.splitn(2, |&byte| byte == b'|').collect();
        match self.find(&words) {
            // A second word that names no subcommand is passed over there.
            Lookup::Command(place) if self.line(place).is_subcommand == (words.len() == 2) => {
                Some(place)
            }
            _ => None,
        }
    }
}

fn lowered<'a>(name: &[u8], into: &'a mut [u8; LONGEST_NAME]) -> Option<&'a [u8]> {
    let into = into.get_mut(..name.len())?;
    into.copy_from_slice(name);
    into.make_ascii_lowercase();
    Some(into)
}
