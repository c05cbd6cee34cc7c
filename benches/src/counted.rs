//! What clients have sent, as the server counts it.
//!
//! Invariant: commands inside scripts are none of the clients', so a library that sends no plain SET is
//! counted without any. Deliberately absent: the commands with which connections begin.

use std::error::Error;

use picklock::command::Command;
use picklock::env::{Conn, Env};
use picklock::{Node, TokioEnv};

/// A script is sent in full once, before anything is counted, so these are all that clients send.
const SENT: [&str; 3] = ["evalsha", "eval", "subscribe"];

/// How many commands clients have sent since the server began; `sets`: plain SETs, too.
///
/// # Errors
/// Where the server does not say.
pub async fn sent(control: &TokioEnv, sets: bool) -> Result<u64, Box<dyn Error>> {
    let conn = control.connect(Node(0)).await?;
    let reply = conn.call(Command::new("INFO").arg("commandstats")).await?;
    let text = String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned();
    let names = SENT.into_iter().chain(sets.then_some("set"));
    Ok(names.map(|name| calls(&text, name)).sum())
}

/// The calls of one command.
fn calls(stats: &str, name: &str) -> u64 {
    let line = stats.lines().find_map(|line| {
        line.strip_prefix("cmdstat_")?.strip_prefix(name)?.strip_prefix(":calls=")
    });
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_its_whole_name() {
        let stats = "cmdstat_evalsha:calls=7,usec=1\r\ncmdstat_eval:calls=2,usec=1\r\n";
        assert_eq!((calls(stats, "eval"), calls(stats, "evalsha"), calls(stats, "set")), (2, 7, 0));
    }
}
