//! A model and one client of it, for tests.

use picklock::time::WallTime;
use resp::Reply;

use crate::model::{ConnectionId, Model, Submitted};
use crate::options::ModelOptions;

pub(crate) fn at(ms: u64) -> WallTime {
    WallTime::from_unix_ns(ms * 1_000_000)
}

pub(crate) struct TestModel {
    pub(crate) model: Model,
    pub(crate) client: ConnectionId,
    pub(crate) now_ms: u64,
}

impl Default for TestModel {
    fn default() -> Self {
        Self::new(ModelOptions::default())
    }
}

impl TestModel {
    pub(crate) fn new(options: ModelOptions) -> Self {
        let mut model = Model::new(options);
        let client = model.connect(at(1_000), "127.0.0.1:1");
        Self { model, client, now_ms: 1_000 }
    }

    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Reply {
        self.model.execute(at(self.now_ms), self.client, words)
    }

    /// A request whose words are parted at blanks.
    pub(crate) fn run(&mut self, line: &str) -> Reply {
        self.ask(&words(line))
    }

    /// The same when it is this late.
    pub(crate) fn run_at(&mut self, now_ms: u64, line: &str) -> Reply {
        self.now_ms = now_ms;
        self.run(line)
    }

    pub(crate) fn eval(&mut self, script: &str) -> Reply {
        self.ask(&[b"EVAL", script.as_bytes(), b"0"])
    }

    /// A request of this client, which waits.
    pub(crate) fn wait(&mut self, client: ConnectionId, line: &str) {
        let outcome = self.model.submit(at(self.now_ms), client, &words(line));
        assert_eq!(outcome, Submitted::Blocked, "{line}");
    }

    /// Another client, whose request waits.
    pub(crate) fn waiter(&mut self, line: &str) -> ConnectionId {
        let client = self.model.connect(at(self.now_ms), "127.0.0.1:2");
        self.wait(client, line);
        client
    }

    /// What clients have received other than by replies to their own requests.
    pub(crate) fn heard(&mut self) -> Vec<(ConnectionId, Reply)> {
        let mut heard = Vec::new();
        self.model.drain_outbox(|client, reply| heard.push((client, reply)));
        heard
    }

    /// The process ends and comes back, with a new connection.
    pub(crate) fn end_and_restart(&mut self, ending: crate::model::Termination, now_ms: u64) {
        self.model.end(ending);
        self.model.restart(at(now_ms));
        self.client = self.model.connect(at(now_ms), "127.0.0.1:1");
    }
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split_whitespace().map(str::as_bytes).collect()
}
