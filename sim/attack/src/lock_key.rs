//! A key of a server, in its database.

use picklock::command::Command;

/// A key of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockKey {
    pub(crate) db: u16,
    pub(crate) name: Vec<u8>,
}

impl LockKey {
    /// A command with this key as its only argument, in the key's database.
    pub(crate) fn command(&self, name: &str) -> Command {
        if self.db == 0 {
            return Command::new(name).arg(&self.name);
        }
        let script = "redis.call('select', ARGV[2]) return redis.call(ARGV[1], KEYS[1])";
        let eval = Command::new("EVAL").arg(script).arg("1").arg(&self.name);
        eval.arg(name).arg(self.db.to_string())
    }
}
