//! The state of one server.
//!
//! Invariant: `reset` leaves nothing of what was but memory.

pub(crate) mod admission;
pub(crate) mod blocking;
pub(crate) mod memory;
pub(crate) mod monitor;
pub(crate) mod notify;
pub(crate) mod persistence;
pub(crate) mod propagate;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod session;
pub(crate) mod slots;
mod table;
pub(crate) mod touch;

use resp::{Blob, ErrorReply, Reply};
use rustc_hash::FxHashSet;

use self::blocking::Blocking;
use self::notify::KeyspaceEvent;
use self::persistence::AppendOnlyFile;
use self::pubsub::Subscriptions;
use self::replication::Replica;
use self::session::Session;
pub(crate) use self::table::{
    CommandGroup, CommandSpec, CommandTable, Execution, Handler, KeyPositions, Lookup, TableRow,
    flag, group,
};
use crate::journal::WriteJournal;
use crate::keyspace::Db;
use crate::libraries::Libraries;
use crate::options::{ModelOptions, Parameters};
use crate::stats::ServerStats;

/// One command on its way through the server.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The server's wall clock, frozen for the whole of a script or a transaction.
    pub(crate) now_us: i64,
    /// The place of the session it came from.
    pub(crate) session: u32,
    /// The name, then the arguments.
    pub(crate) args: &'a [&'a [u8]],
}

impl Request<'_> {
    /// Milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_us / 1000
    }

    /// The command's name, as errors show it.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.args[0].to_ascii_lowercase()).into_owned()
    }
}

/// What the handler of a command answers.
pub(crate) type CommandResult = Result<Reply, ErrorReply>;

/// The session that scripts run their commands in; it belongs to no connection.
pub(crate) const SCRIPT_SESSION: u32 = 0;

/// The session in which a primary's stream or the append-only file is carried out.
pub(crate) const STREAM_SESSION: u32 = 1;

/// The places before this one belong to no connection.
pub(crate) const FIRST_CLIENT: usize = 2;

/// What SET and its kind do about an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Leave the one that is there.
    Keep,
    /// Have none.
    Never,
    /// This one, in milliseconds since the epoch.
    At(i64),
}

/// A server.
pub(crate) struct Server {
    /// The commands that there are.
    pub(crate) table: &'static CommandTable,
    pub(crate) options: ModelOptions,
    pub(crate) parameters: Parameters,
    pub(crate) dbs: Vec<Db>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) free_places: Vec<u32>,
    pub(crate) next_id: u64,
    pub(crate) started_us: Option<i64>,
    pub(crate) stats: ServerStats,
    /// `maxmemory`; 0: there is no limit.
    pub(crate) max_memory_bytes: u64,
    /// The memory was over the limit when the request under way came, even after eviction.
    pub(crate) out_of_memory: bool,
    /// The keys under WATCH, with their databases and the sessions that watch them. They are few, so the
    /// list is asked from end to end.
    pub(crate) watchers: Vec<(u16, Blob, u32)>,
    /// The digests that EVALSHA knows.
    pub(crate) scripts: FxHashSet<[u8; 40]>,
    /// SCRIPT FLUSH or FUNCTION FLUSH has come: what is compiled need not be kept.
    pub(crate) compiled_is_stale: bool,
    pub(crate) libraries: Libraries,
    /// How many changes commands have made: a command that made one is propagated.
    pub(crate) dirty: u64,
    /// The handler of the command under way has said what is to be propagated.
    pub(crate) rewritten: bool,
    pub(crate) journal: WriteJournal,
    /// What is carried out comes from a primary or from the file: no key expires by itself.
    pub(crate) applying: bool,
    /// How many commands the EXEC under way carries out; nothing blocks in it.
    pub(crate) in_exec: Option<usize>,
    /// The port of the primary it follows; none: it is a primary.
    pub(crate) primary_port: Option<u16>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) file: AppendOnlyFile,
    pub(crate) blocking: Blocking,
    pub(crate) subscriptions: Subscriptions,
    /// The sessions that use MONITOR, the oldest first.
    pub(crate) monitors: Vec<u32>,
    /// The classes of keyspace events that are published.
    pub(crate) notify_classes: u16,
    /// The name of the event that the command under way publishes, while any class is.
    pub(crate) event: &'static str,
    /// The events that a witness has not got yet.
    pub(crate) key_events: Vec<KeyspaceEvent>,
    /// Messages to sessions other than by the reply to their own request.
    pub(crate) outbox: Vec<(u32, Reply)>,
}

impl Server {
    pub(crate) fn new(options: ModelOptions, table: &'static CommandTable) -> Self {
        let dbs = (0..options.databases.max(1)).map(|_| Db::default()).collect();
        let mut server = Self {
            table,
            parameters: Parameters::new(&options),
            options,
            dbs,
            sessions: vec![Session::internal(), Session::internal()],
            free_places: Vec::new(),
            next_id: 1,
            started_us: None,
            stats: ServerStats::new(table.len()),
            max_memory_bytes: 0,
            out_of_memory: false,
            watchers: Vec::new(),
            scripts: FxHashSet::default(),
            compiled_is_stale: false,
            libraries: Libraries::default(),
            dirty: 0,
            rewritten: false,
            journal: WriteJournal::default(),
            applying: false,
            in_exec: None,
            primary_port: None,
            replicas: Vec::new(),
            file: AppendOnlyFile::default(),
            blocking: Blocking::default(),
            subscriptions: Subscriptions::default(),
            monitors: Vec::new(),
            notify_classes: 0,
            event: "",
            key_events: Vec::new(),
            outbox: Vec::new(),
        };
        server.start_file();
        server
    }

    /// The state as after `new`; allocated memory is kept.
    pub(crate) fn reset(&mut self) {
        self.end_process();
        // A witness of an earlier run must not slow down later runs.
        self.notify_classes = 0;
        self.parameters = Parameters::new(&self.options);
        self.next_id = 1;
        self.compiled_is_stale = false;
        self.dirty = 0;
        self.rewritten = false;
        self.journal.reset();
        self.file = AppendOnlyFile::default();
        self.start_file();
    }

    /// Takes away what a process loses when it ends: all but its parameters, its stream and its file.
    pub(crate) fn end_process(&mut self) {
        self.dbs.iter_mut().for_each(Db::clear);
        self.sessions.truncate(FIRST_CLIENT);
        self.sessions.fill(Session::internal());
        self.free_places.clear();
        self.started_us = None;
        self.stats.reset();
        self.max_memory_bytes = 0;
        self.out_of_memory = false;
        self.watchers.clear();
        self.scripts.clear();
        self.libraries.clear();
        self.applying = false;
        self.in_exec = None;
        self.primary_port = None;
        self.replicas.clear();
        self.blocking.clear();
        self.subscriptions.clear();
        self.monitors.clear();
        self.outbox.clear();
        self.key_events.clear();
    }

    pub(crate) fn session(&mut self, request: &Request<'_>) -> &mut Session {
        &mut self.sessions[request.session as usize]
    }

    pub(crate) fn db_number(&self, request: &Request<'_>) -> u16 {
        self.sessions[request.session as usize].db
    }

    pub(crate) fn db(&self, request: &Request<'_>) -> &Db {
        &self.dbs[usize::from(self.db_number(request))]
    }
}
