//! SUBSCRIBE, UNSUBSCRIBE, PUBLISH, their forms for patterns (P…) and for shards (S…), and PUBSUB.
//!
//! Invariant: every subscription is confirmed by a message of its own, in the order asked for; without
//! names all are taken back in the order in which they were made (Redis promises none).

use resp::{Blob, ErrorReply, Reply, glob};

use crate::server::pubsub::Topic;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const FLAGS: u32 = flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE;
const SEND: u32 = flag::PUBSUB | flag::LOADING | flag::STALE | flag::FAST | flag::MAY_REPLICATE;
const ASK: u32 = flag::PUBSUB | flag::LOADING | flag::STALE;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::PUBSUB.command("subscribe", -2, FLAGS, |s, r| add(s, r, Topic::Channel)),
    group::PUBSUB.command("psubscribe", -2, FLAGS, |s, r| add(s, r, Topic::Pattern)),
    group::PUBSUB.command("unsubscribe", -1, FLAGS, |s, r| remove(s, r, Topic::Channel)),
    group::PUBSUB.command("punsubscribe", -1, FLAGS, |s, r| remove(s, r, Topic::Pattern)),
    group::PUBSUB.command("ssubscribe", -2, FLAGS, |s, r| add(s, r, Topic::Shard)).keys(1, -1, 1),
    group::PUBSUB
        .command("sunsubscribe", -1, FLAGS, |s, r| remove(s, r, Topic::Shard))
        .keys(1, -1, 1),
    group::PUBSUB.keyed("spublish", 3, SEND, spublish),
    group::PUBSUB.command("publish", 3, SEND, publish),
    CommandSpec::container("pubsub", SUBCOMMANDS),
];

const SUBCOMMANDS: &[CommandSpec] = &[
    group::PUBSUB.command("channels", -2, ASK, |s, r| channels(s, r, Topic::Channel)),
    group::PUBSUB.command("numsub", -2, ASK, |s, r| numsub(s, r, Topic::Channel)),
    group::PUBSUB.command("shardchannels", -2, ASK, |s, r| channels(s, r, Topic::Shard)),
    group::PUBSUB.command("shardnumsub", -2, ASK, |s, r| numsub(s, r, Topic::Shard)),
    group::PUBSUB.command("numpat", 2, ASK, numpat),
];

fn add(server: &mut Server, request: &Request<'_>, kind: Topic) -> CommandResult {
    // Those that came before 7.0 are taken in a transaction, though nobody reads their messages there.
    if kind == Topic::Shard && server.in_exec.is_some() {
        return Err(ErrorReply::new("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    let verb = request.name();
    let one = |name: &&[u8]| {
        let total = server.subscribe(request.session, kind, name);
        Reply::Push(vec![Reply::bulk(&verb), Reply::bulk(name), Reply::count(total)])
    };
    Ok(Reply::Burst(request.args[1..].iter().map(one).collect()))
}

fn remove(server: &mut Server, request: &Request<'_>, kind: Topic) -> CommandResult {
    let verb = request.name();
    let named: Vec<Blob> = match request.args {
        [_] => server.session(request).subscribed_mut(kind).clone(),
        [_, names @ ..] => names.iter().map(|name| Blob::from_slice(name)).collect(),
        [] => Vec::new(),
    };
    if named.is_empty() {
        let total = Reply::count(server.session(request).subscriptions(kind));
        return Ok(Reply::Push(vec![Reply::bulk(&verb), Reply::Nil, total]));
    }
    let one = |name: Blob| {
        let total = server.unsubscribe(request.session, kind, &name);
        Reply::Push(vec![Reply::bulk(&verb), Reply::Bulk(name), Reply::count(total)])
    };
    Ok(Reply::Burst(named.into_iter().map(one).collect()))
}

fn publish(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let sent = server.publish(request.args[1], request.args[2]);
    Ok(published(server, request, sent))
}

fn spublish(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let sent = server.publish_to(Topic::Shard, "smessage", request.args[1], request.args[2]);
    Ok(published(server, request, sent))
}

fn published(server: &mut Server, request: &Request<'_>, sent: usize) -> Reply {
    // Replicas have subscribers of their own; the file has none.
    if !server.replicas.is_empty() {
        server.propagate(request, request.args);
    }
    Reply::count(sent)
}

fn channels(server: &mut Server, request: &Request<'_>, kind: Topic) -> CommandResult {
    let pattern = match request.args {
        [_, _] => None,
        [_, _, pattern] => Some(*pattern),
        _ => return Err(super::keys::unknown_form(request)),
    };
    let wanted = |name: &Blob| pattern.is_none_or(|pattern| glob(pattern, name, false));
    let names = server.subscriptions.names(kind).filter(|name| wanted(name));
    Ok(Reply::Array(names.cloned().map(Reply::Bulk).collect()))
}

fn numsub(server: &mut Server, request: &Request<'_>, kind: Topic) -> CommandResult {
    let one = |name: &&[u8]| {
        [Reply::bulk(name), Reply::count(server.subscriptions.subscribers(kind, name))]
    };
    Ok(Reply::Array(request.args[2..].iter().flat_map(one).collect()))
}

fn numpat(server: &mut Server, _request: &Request<'_>) -> CommandResult {
    Ok(Reply::count(server.subscriptions.names(Topic::Pattern).count()))
}
