//! COMMAND: COUNT, INFO, DOCS, LIST.
//!
//! Invariant: what is answered is the command table, so a client that asks before it calls learns exactly
//! what the model can do. Not modelled: key specifications, tips, argument grammars, GETKEYS, and LIST
//! by category or pattern.

use resp::{ErrorReply, Reply, is_word};

use crate::server::{CommandResult, CommandSpec, Request, Server, TableRow, flag, group};

const FLAGS: u32 = flag::LOADING | flag::STALE;

pub(crate) const SPECS: &[CommandSpec] = &[CommandSpec {
    subcommands: SUBCOMMANDS,
    ..group::CONNECTION.command("command", -1, FLAGS, command)
}];

const SUBCOMMANDS: &[CommandSpec] = &[
    group::CONNECTION.command("count", 2, FLAGS, count),
    group::CONNECTION.command("info", -2, FLAGS, info),
    group::CONNECTION.command("docs", -2, FLAGS, docs),
    group::CONNECTION.command("list", -2, FLAGS, list),
];

fn top_level(server: &Server) -> impl Iterator<Item = &'static TableRow> {
    let software = server.options.software;
    let lines = server.table.lines().map(|(_, line)| line);
    lines.filter(move |line| !line.is_subcommand && line.spec.is_known_to(software))
}

fn command(server: &mut Server, _request: &Request<'_>) -> CommandResult {
    Ok(Reply::Array(top_level(server).map(|line| describe(line.spec, line.spec.name)).collect()))
}

fn count(server: &mut Server, _request: &Request<'_>) -> CommandResult {
    Ok(Reply::count(top_level(server).count()))
}

fn info(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if request.args.len() == 2 {
        return command(server, request);
    }
    let one = |name: &&[u8]| match server.table.by_full_name(name) {
        Some(place) => describe(server.table.spec(place), &server.table.line(place).full_name),
        None => Reply::Nil,
    };
    Ok(Reply::Array(request.args[2..].iter().map(one).collect()))
}

fn describe(spec: &CommandSpec, full_name: &str) -> Reply {
    let flags = flag::NAMES.iter().filter(|(bit, _)| spec.has(*bit));
    let subcommands = spec.subcommands.iter();
    let (first, last, step) = spec.keys.shown();
    let place = |value: i8| Reply::Int(i64::from(value));
    Reply::Array(vec![
        Reply::bulk(full_name),
        place(spec.arity),
        Reply::Set(flags.map(|(_, name)| Reply::status(name)).collect()),
        place(first),
        place(last),
        place(step),
        Reply::Set(categories(spec).iter().map(Reply::status).collect()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(
            subcommands.map(|sub| describe(sub, &format!("{full_name}|{}", sub.name))).collect(),
        ),
    ])
}

fn categories(spec: &CommandSpec) -> Vec<String> {
    let mut categories: Vec<String> =
        spec.group.split_whitespace().map(|name| format!("@{name}")).collect();
    let mut also = |condition: bool, name: &str| {
        if condition {
            categories.push(name.to_owned());
        }
    };
    also(spec.has(flag::BLOCKING), "@blocking");
    also(spec.has(flag::WRITE), "@write");
    also(spec.has(flag::READONLY) && spec.group != "scripting", "@read");
    also(spec.has(flag::ADMIN), "@admin");
    also(spec.has(flag::FAST), "@fast");
    also(!spec.has(flag::FAST), "@slow");
    categories
}

fn docs(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let named = request.args[2..].iter().filter_map(|name| server.table.by_full_name(name));
    let lines: Vec<&TableRow> = match request.args.len() {
        2 => top_level(server).collect(),
        _ => named.map(|place| server.table.line(place)).collect(),
    };
    let one = |line: &&TableRow| {
        let group = line.spec.group.split_whitespace().next().unwrap_or("server");
        let doc = ["summary", "As in Redis 7.0", "group", group];
        [Reply::bulk(&line.full_name), Reply::Map(doc.iter().map(Reply::bulk).collect())]
    };
    Ok(Reply::Map(lines.iter().flat_map(one).collect()))
}

fn list(server: &mut Server, request: &Request<'_>) -> CommandResult {
    match request.args[2..] {
        [] => Ok(Reply::Array(top_level(server).map(|line| Reply::bulk(line.spec.name)).collect())),
        // There are no modules.
        [by, kind, _] if is_word(by, "FILTERBY") && is_word(kind, "MODULE") => {
            Ok(Reply::Array(Vec::new()))
        }
        _ => Err(ErrorReply::SYNTAX),
    }
}
