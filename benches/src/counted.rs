//! What clients have sent and what it took of the server, as the server counts it.
//!
//! Invariant: commands inside scripts are none of the clients', so a library that sends no plain SET is
//! counted without any. Commands with which connections begin are not counted.

use std::error::Error;
use std::time::Duration;

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
    let text = info(control, "commandstats").await?;
    let names = SENT.into_iter().chain(sets.then_some("set"));
    Ok(names.map(|name| calls(&text, name)).sum())
}

/// What the server has done since it began.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Leases it has set anew: the one command that the script of a renewal calls where the lock is still its
    /// sender's, and that nothing else calls.
    pub renewals: u64,
    /// How long it has kept a processor busy.
    pub busy: Duration,
}

/// What the server has done.
///
/// # Errors
/// Where it does not say.
pub async fn done(control: &TokioEnv) -> Result<Done, Box<dyn Error>> {
    let renewals = calls(&info(control, "commandstats").await?, "pexpire");
    let text = info(control, "cpu").await?;
    let busy = seconds(&text, "used_cpu_user").zip(seconds(&text, "used_cpu_sys"));
    let (user, system) = busy.ok_or("the server does not say what it took of the processors")?;
    Ok(Done { renewals, busy: user + system })
}

async fn info(control: &TokioEnv, section: &str) -> Result<String, Box<dyn Error>> {
    let conn = control.connect(Node(0)).await?;
    let reply = conn.call(Command::new("INFO").arg(section)).await?;
    Ok(String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned())
}

/// The calls of one command.
fn calls(stats: &str, name: &str) -> u64 {
    let line = stats.lines().find_map(|line| {
        line.strip_prefix("cmdstat_")?.strip_prefix(name)?.strip_prefix(":calls=")
    });
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// A field that counts seconds.
fn seconds(text: &str, name: &str) -> Option<Duration> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Duration::try_from_secs_f64(value.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_its_whole_name() {
        let stats = "cmdstat_evalsha:calls=7,usec=1\r\ncmdstat_eval:calls=2,usec=1\r\n";
        assert_eq!((calls(stats, "eval"), calls(stats, "evalsha"), calls(stats, "set")), (2, 7, 0));
    }

    #[test]
    fn seconds_are_those_of_the_whole_name() {
        let text = "# CPU\r\nused_cpu_sys_children:7.0\r\nused_cpu_sys:0.250000\r\nbad:x\r\n";
        assert_eq!(seconds(text, "used_cpu_sys"), Some(Duration::from_millis(250)));
        assert_eq!((seconds(text, "used_cpu"), seconds(text, "bad")), (None, None));
    }
}
