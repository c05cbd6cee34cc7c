//! Servers to open as endpoints, for the tests of endpoints.

#![allow(dead_code, reason = "every test file uses a part of it")]

use fault_proxy::Trust;
use live_world::endpoint::{
    Choice, Endpoint, EndpointError, KeySpace, RedisUrl, Refusal, Settings,
};
use test_server::RedisServer;

use crate::proxy_support::{Raw, addr, command, connect};

/// Stands in every URL as password, and may stand in no message.
pub(crate) const PASSWORD: &str = "hunter2";

/// A server that somebody else runs.
pub(crate) struct Theirs {
    pub(crate) server: RedisServer,
    admin: Raw,
}

impl Theirs {
    pub(crate) async fn start(args: &[&str]) -> Self {
        let server = RedisServer::start(args);
        let admin = connect(addr(&server)).await;
        Self { server, admin }
    }

    /// Sends a command as its administrator, and reads exactly this answer.
    pub(crate) async fn admin(&mut self, words: &[&str], answer: &str) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.admin.exchange(command(&words), answer).await;
    }

    /// A URL of it, with a user and a password, or neither.
    pub(crate) fn url(&self, login: &str, rest: &str) -> String {
        format!("redis://{login}{}{rest}", addr(&self.server))
    }
}

pub(crate) fn keys() -> KeySpace {
    KeySpace::of_run("test")
}

pub(crate) fn settings() -> Settings {
    let supervisor = Some(env!("CARGO_BIN_EXE_picklock").into());
    Settings { supervisor, ..Settings::default() }
}

pub(crate) async fn open(url: &str) -> Result<Endpoint, EndpointError> {
    open_with(url, Trust::System, &settings()).await
}

pub(crate) async fn open_with(
    url: &str,
    trust: Trust,
    settings: &Settings,
) -> Result<Endpoint, EndpointError> {
    let url = RedisUrl::parse(url, trust).unwrap();
    Endpoint::open(Choice::Url(url), keys(), settings).await
}

/// Why the server at this URL is refused; checks what holds for every message.
pub(crate) async fn refusal(url: &str) -> Refusal {
    refusal_with(url, Trust::System, &settings()).await
}

pub(crate) async fn refusal_with(url: &str, trust: Trust, settings: &Settings) -> Refusal {
    let error = open_with(url, trust, settings).await.err().expect("this server is of no use");
    let message = error.to_string();
    assert!(!format!("{message} {error:?}").contains(PASSWORD), "{message}");
    let EndpointError::Refused { place, refusal } = error else { panic!("{message}") };
    assert!(message.starts_with("redis"), "it says which server: {message}");
    assert_eq!(message, format!("{place}: {refusal}"));
    refusal
}
