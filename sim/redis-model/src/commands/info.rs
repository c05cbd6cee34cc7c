//! The server as a whole: TIME, MONITOR, and INFO with server, clients, memory, persistence, stats,
//! replication, commandstats, errorstats, keyspace.
//!
//! Invariant: every figure is counted by the model or true of any model, except `used_memory`, which is the
//! estimate that `maxmemory` is compared with. Figures it cannot know (CPU time) are absent, not invented. usec
//! is always 0, because the model takes no time. TIME is the time that the request came with.
//! Not modelled: DEBUG, SHUTDOWN, SAVE.

use std::fmt::Write as _;

use resp::{Blob, ErrorReply, Reply, integer};

use crate::libraries::function_count;
use crate::options::VERSION;
use crate::server::pubsub::Topic;
use crate::server::replication::HOST;
use crate::server::{CommandResult, CommandSpec, FIRST_CLIENT, Request, Server, flag, group};
use crate::stats::CommandCounters;

const FLAGS: u32 = flag::LOADING | flag::STALE;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::SERVER.command("time", 1, FLAGS | flag::FAST, time),
    group::DANGEROUS.command("monitor", 1, FLAGS | flag::ADMIN | flag::NOSCRIPT, monitor),
    group::DANGEROUS.command("info", -1, FLAGS, info),
];

type Section = fn(&Server, &Request<'_>, &mut String);

/// Name, whether INFO alone shows it, and what it says.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, about_server),
    ("Clients", true, about_clients),
    ("Memory", true, about_memory),
    ("Persistence", true, about_persistence),
    ("Stats", true, about_stats),
    ("Replication", true, about_replication),
    ("Commandstats", false, about_commands),
    ("Errorstats", true, about_errors),
    ("Keyspace", true, about_keys),
];

fn info(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let asked = |name: &str, default: bool| {
        let any = |words: &[&str]| {
            let is =
                |arg: &&[u8]| words.iter().any(|word| arg.eq_ignore_ascii_case(word.as_bytes()));
            request.args[1..].iter().any(is)
        };
        any(&[name, "all", "everything"])
            || (default && (request.args.len() == 1 || any(&["default"])))
    };
    let mut text = String::new();
    for &(name, default, section) in SECTIONS {
        if asked(name, default) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            let _ = write!(text, "# {name}\r\n");
            section(server, request, &mut text);
        }
    }
    Ok(Reply::Verbatim(Blob::from_vec(text.into_bytes())))
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn about_server(server: &Server, request: &Request<'_>, text: &mut String) {
    let uptime_s = (request.now_us - server.started_us.unwrap_or(request.now_us)) / 1_000_000;
    line(text, "redis_version", VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "os", "model");
    line(text, "arch_bits", 64);
    line(text, "tcp_port", server.options.port);
    line(text, "server_time_usec", request.now_us);
    line(text, "uptime_in_seconds", uptime_s);
    line(text, "uptime_in_days", uptime_s / 86_400);
}

fn about_clients(server: &Server, _request: &Request<'_>, text: &mut String) {
    let open = server.sessions[FIRST_CLIENT..].iter().filter(|session| session.open).count();
    line(text, "connected_clients", open);
    line(text, "cluster_connections", 0);
    line(text, "maxclients", 10_000);
    line(text, "blocked_clients", server.blocking.sessions.len());
}

fn about_stats(server: &Server, _request: &Request<'_>, text: &mut String) {
    let stats = &server.stats;
    line(text, "total_connections_received", stats.connections);
    line(text, "total_commands_processed", stats.processed);
    line(text, "expired_keys", stats.expired_keys);
    line(text, "evicted_keys", stats.evicted_keys);
    line(text, "keyspace_hits", stats.hits);
    line(text, "keyspace_misses", stats.misses);
    line(text, "pubsub_channels", server.subscriptions.names(Topic::Channel).count());
    line(text, "pubsub_patterns", server.subscriptions.names(Topic::Pattern).count());
    line(text, "total_error_replies", stats.errors);
}

fn about_replication(server: &Server, _request: &Request<'_>, text: &mut String) {
    let end = server.journal.end();
    match server.primary_port {
        Some(port) => {
            line(text, "role", "slave");
            line(text, "master_host", HOST);
            line(text, "master_port", port);
            line(text, "master_link_status", "up");
            line(text, "master_sync_in_progress", 0);
            line(text, "slave_repl_offset", end);
            line(text, "slave_read_only", 1);
        }
        None => line(text, "role", "master"),
    }
    line(text, "connected_slaves", server.replicas.len());
    for (place, replica) in server.replicas.iter().enumerate() {
        let (port, offset) = (replica.port, replica.offset);
        let about = format!("ip={HOST},port={port},state=online,offset={offset},lag=0");
        line(text, &format!("slave{place}"), about);
    }
    line(text, "master_failover_state", "no-failover");
    line(text, "master_repl_offset", end);
    line(text, "second_repl_offset", -1);
}

fn about_persistence(server: &Server, _request: &Request<'_>, text: &mut String) {
    line(text, "loading", 0);
    line(text, "aof_enabled", u8::from(server.file.is_on()));
}

fn about_commands(server: &Server, _request: &Request<'_>, text: &mut String) {
    for (place, command) in server.table.lines() {
        let stats = server.stats.commands[usize::from(place)];
        if stats == CommandCounters::default() {
            continue;
        }
        let _ = write!(
            text,
            "cmdstat_{}:calls={},usec=0,usec_per_call=0.00,rejected_calls={},failed_calls={}\r\n",
            command.full_name, stats.calls, stats.rejected_calls, stats.failed_calls
        );
    }
}

fn about_errors(server: &Server, _request: &Request<'_>, text: &mut String) {
    for (code, count) in &server.stats.by_code {
        let _ = write!(text, "errorstat_{}:count={count}\r\n", String::from_utf8_lossy(code));
    }
}

fn about_memory(server: &Server, _request: &Request<'_>, text: &mut String) {
    line(text, "used_memory", server.used_memory());
    line(text, "maxmemory", server.max_memory_bytes);
    let policy = server.parameters.get("maxmemory-policy");
    line(text, "maxmemory_policy", String::from_utf8_lossy(policy));
    line(text, "number_of_cached_scripts", server.scripts.len());
    line(text, "number_of_functions", function_count(&server.libraries));
    line(text, "number_of_libraries", server.libraries.len());
}

fn about_keys(server: &Server, request: &Request<'_>, text: &mut String) {
    for (number, db) in server.dbs.iter().enumerate() {
        if db.len() == 0 {
            continue;
        }
        // Redis estimates the mean time to live by sampling; the model reckons it.
        let times = db.entries().filter_map(|entry| entry.expires_at_ms);
        let sum: i128 = times.map(|when| i128::from((when - request.now_ms()).max(0))).sum();
        let mean = sum / i128::try_from(db.volatile().max(1)).unwrap_or(1);
        let (keys, volatile) = (db.len(), db.volatile());
        let _ = write!(text, "db{number}:keys={keys},expires={volatile},avg_ttl={mean}\r\n");
    }
}

fn time(_server: &mut Server, request: &Request<'_>) -> CommandResult {
    Ok(Reply::Array(vec![
        Reply::Bulk(integer(request.now_us / 1_000_000)),
        Reply::Bulk(integer(request.now_us % 1_000_000)),
    ]))
}

fn monitor(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if server.in_exec.is_some() {
        return Err(ErrorReply::new("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if std::mem::replace(&mut server.session(request).monitors, true) {
        // A client that is a monitor already gets no answer.
        return Ok(Reply::NOTHING);
    }
    server.monitors.push(request.session);
    Ok(Reply::Ok)
}
