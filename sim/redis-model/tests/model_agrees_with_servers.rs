//! The models of later servers against these servers, as far as the models go: commands that act on a
//! condition, and what may come before, between and behind them. Reply by reply, byte by byte, with what is
//! propagated to the append-only file, as in `model_agrees_with_redis`.
//!
//! The servers are those that `ci/servers` has brought. Where there is none, nothing is compared, and the
//! test says so; where `PICKLOCK_SERVERS` names their directory, it fails instead.
//!
//! ```text
//! ci/servers && cargo test -p redis-model --test model_agrees_with_servers -- --nocapture
//! ```

mod model_support;
#[path = "../../tests/servers_support/mod.rs"]
mod servers_support;

use model_support::conditional::CONDITIONAL;
use model_support::explore::{explore, setting};
use model_support::pair::{Pair, Tamper};
use model_support::server::RealServer;
use resp::{ErrorReply, Reply};
use scenarios::topology::Software;

const SEQUENCES: u64 = 500;

/// The model that is like this server; none where there is none. It is what it can do.
fn software(server: &RealServer) -> Option<Software> {
    let mut connection = server.connect();
    let mut knows = |words: &[&[u8]]| connection.call(words) == b":0\r\n";
    match () {
        () if knows(&[b"DELEX", b"nokey", b"IFEQ", b"x"]) => Some(Software::Redis84),
        () if knows(&[b"DELIFEQ", b"nokey", b"x"]) => Some(Software::Valkey9),
        () => None,
    }
}

/// What Redis says by now in the place of what 7.0 said, which the model says for all.
fn words_of_redis(command: &[Vec<u8>], reply: Reply) -> Reply {
    let Reply::Error(error) = &reply else { return reply };
    match error.text().strip_suffix(b", with args beginning with: ") {
        Some(rest) if command.len() == 1 => Reply::Error(ErrorReply::of(rest)),
        _ => reply,
    }
}

/// And Valkey, also within a transaction.
fn words_of_valkey(_command: &[Vec<u8>], reply: Reply) -> Reply {
    in_words_of_valkey(reply)
}

fn in_words_of_valkey(reply: Reply) -> Reply {
    match reply {
        Reply::Array(parts) => Reply::Array(parts.into_iter().map(in_words_of_valkey).collect()),
        Reply::Error(error) if error.text() == b"ERR Unknown Redis command called from script" => {
            Reply::Error(ErrorReply::new("ERR Unknown command called from script"))
        }
        reply => reply,
    }
}

#[test]
fn conditions_are_as_on_the_servers_that_have_them() {
    let servers = servers_support::all();
    let seed = setting("PICKLOCK_DIFF_SEED", 1);
    let count = setting("PICKLOCK_DIFF_SEQUENCES", SEQUENCES);
    for (name, path) in servers {
        let Some(software) = software(&RealServer::start(&path)) else {
            println!("not compared: {name}, which no model is like");
            continue;
        };
        let (words, other, own): (Tamper, _, _) = match software {
            Software::Valkey9 => (words_of_valkey, Software::Redis84, "delifeq"),
            Software::Redis70 | Software::Redis84 => (words_of_redis, Software::Valkey9, "delex"),
        };
        let mut pair = Pair::of(path.clone(), software, Some(words));
        let run = |draws: &[_], protocol: u8| pair.run(draws, &protocol.to_string());
        let outcome = explore(CONDITIONAL, seed, count, run);
        outcome.unwrap_or_else(|why| panic!("{name}, as {software:?}: {why}"));
        println!("{name} and its model, {software:?}: {count} sequences alike");
        println!("{:<20}{:>9}{:>9}", "command", "ok", "error");
        let tally = pair.tally.into_inner();
        for (command, (succeeded, failed)) in &tally {
            println!("{command:<20}{succeeded:>9}{failed:>9}");
        }
        for command in ["set", own] {
            let (succeeded, failed) = tally[command];
            assert!(succeeded > 0 && failed > 0, "{command} has been compared by half");
        }
        // And what is not alike is found.
        let mut wrong = Pair::of(path, other, Some(words));
        let run = |draws: &[_], protocol: u8| wrong.run(draws, &protocol.to_string());
        let why = explore(CONDITIONAL, seed, count, run).expect_err("these two are not alike");
        assert!(why.contains("differ"), "{why}");
    }
}
