//! Commands of later servers that compare and delete: DELEX (Redis 8.4) and DELIFEQ (Valkey 9).
//!
//! Invariant: a server of other software does not know them. They are held to those servers by
//! `tests/model_agrees_with_servers.rs`, where these are there. Not modelled: DIGEST, and conditions on
//! digests.

use resp::{Blob, ErrorReply, Reply, is_word};

use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};
use crate::value::StoredValue;

const FLAGS: u32 = flag::WRITE | flag::FAST;

pub(crate) const SPECS: &[CommandSpec] = &[
    group::STRING.keyed("delex", -2, FLAGS | flag::REDIS_84, delex),
    group::STRING.keyed("delifeq", 3, FLAGS | flag::VALKEY_9, delifeq),
];

fn delete(server: &mut Server, request: &Request<'_>, slot: u32) -> CommandResult {
    server.remove(request, slot);
    server.propagate(request, &[b"DEL", request.args[1]]);
    Ok(Reply::Int(1))
}

fn delex(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let condition = match request.args {
        [_, _] => None,
        [_, _, word, value] => Some((*word, *value)),
        _ => return Err(ErrorReply::arity("delex")),
    };
    let slot = server.find(request, request.args[1]);
    let Some((word, value)) = condition else {
        let Some(slot) = slot else { return Ok(Reply::Int(0)) };
        // The request is propagated unchanged.
        server.remove(request, slot);
        return Ok(Reply::Int(1));
    };
    // Comparing is reading.
    let Some(slot) = slot else {
        server.stats.misses += 1;
        return Ok(Reply::Int(0));
    };
    server.stats.hits += 1;
    let StoredValue::Str(held) = &server.db(request).at(slot).value else {
        return Err(ErrorReply::new(
            "ERR Key should be of string type if conditions are specified",
        ));
    };
    let equal = held[..] == *value;
    let wanted = match word {
        word if is_word(word, "IFEQ") => equal,
        word if is_word(word, "IFNE") => !equal,
        _ => return Err(ErrorReply::new("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")),
    };
    if wanted { delete(server, request, slot) } else { Ok(Reply::Int(0)) }
}

fn delifeq(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let Some(slot) = server.find(request, request.args[1]) else { return Ok(Reply::Int(0)) };
    let equal = server.value::<Blob>(request, slot)?[..] == *request.args[2];
    if equal { delete(server, request, slot) } else { Ok(Reply::Int(0)) }
}

#[cfg(test)]
mod tests {
    use resp::{ErrorReply, Reply};
    use scenarios::topology::Software;

    use crate::options::ModelOptions;
    use crate::test_model::TestModel;

    fn replies(software: Software, lines: &[&str]) -> Vec<Reply> {
        let mut model = TestModel::new(ModelOptions { software, ..ModelOptions::default() });
        lines.iter().map(|line| model.run(line)).collect()
    }

    #[test]
    fn each_profile_knows_its_own_commands_only() {
        let lines = ["SET k t", "SET k u IFEQ x", "SET k u IFEQ t PX 50", "DELEX k IFEQ t"];
        let known = replies(Software::Redis84, &lines);
        assert_eq!(known, [Reply::Ok, Reply::Nil, Reply::Ok, Reply::Int(0)]);
        let lines = ["SET k t", "DELIFEQ k u", "DELIFEQ k t", "DELIFEQ k t", "SET k u IFEQ t"];
        let known = replies(Software::Valkey9, &lines);
        let (no, yes) = (Reply::Int(0), Reply::Int(1));
        assert_eq!(known, [Reply::Ok, no.clone(), yes, no, Reply::Nil]);
        let unknown = replies(Software::Redis70, &["SET k u IFEQ t", "DELIFEQ k t"]);
        let words = "ERR unknown command 'DELIFEQ', with args beginning with: 'k' 't' ";
        assert_eq!(
            unknown,
            [Reply::Error(ErrorReply::SYNTAX), Reply::Error(ErrorReply::of(words))]
        );
        let script = &["EVAL return{redis.pcall('delex','k').err} 0"];
        let words = Reply::bulk("ERR Unknown Redis command called from script");
        assert_eq!(replies(Software::Valkey9, script), [Reply::Array(vec![words])]);
    }

    #[test]
    fn conditions_are_on_strings_and_exclude_others() {
        let lines = [
            "SET k t",
            "SET k u IFEQ t GET",
            "SET k v IFEQ u NX",
            "DELEX k IFNE u",
            "DELEX k",
            "RPUSH k a",
            "SET k v IFEQ a",
            "DELEX k IFEQ a",
            "DELEX k IFEQ",
        ];
        let no_string = "ERR Key should be of string type if conditions are specified";
        let expected = [
            Reply::Ok,
            Reply::bulk("t"),
            Reply::Error(ErrorReply::SYNTAX),
            Reply::Int(0),
            Reply::Int(1),
            Reply::Int(1),
            Reply::Error(ErrorReply::WRONG_TYPE),
            Reply::Error(ErrorReply::new(no_string)),
            Reply::Error(ErrorReply::arity("delex")),
        ];
        assert_eq!(replies(Software::Redis84, &lines), expected);
    }
}
