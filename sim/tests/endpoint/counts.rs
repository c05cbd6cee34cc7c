//! What an endpoint's clients send can be counted to the command, on both sides of the proxy.

use std::collections::BTreeMap;
use std::time::Duration;

use fault_proxy::{Action, ClientId, Detail, Gate, Plan, Proxy, Rule, Side};
use live_world::endpoint::{Choice, Endpoint};
use live_world::env::LiveEnv;
use live_world::server::find_server;
use picklock::command::Command;
use picklock::env::{CallError, Conn, Env, Node};
use picklock::reply::Reply;
use picklock::{Options, Single};

use crate::endpoint_support::{Theirs, keys, open, settings};
use crate::proxy_support::{DEADLINE, eventually, refused};

type Counts = BTreeMap<String, u64>;

fn more(after: Counts, before: &Counts) -> Counts {
    let less = |(name, count)| {
        let count = count - before.get(&name).copied().unwrap_or(0);
        (count > 0).then_some((name, count))
    };
    after.into_iter().filter_map(less).collect()
}

fn counts(expected: &[(&str, u64)]) -> Counts {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

async fn stats(endpoint: &Endpoint) -> Counts {
    endpoint.command_stats().await.unwrap().expect("INFO is allowed").calls
}

async fn logins(endpoint: &Endpoint) -> u64 {
    endpoint.command_stats().await.unwrap().expect("INFO is allowed").logins
}

fn link(proxy: &Proxy, endpoint: &Endpoint) -> fault_proxy::Link {
    proxy.listen(ClientId(1), Node(0), endpoint.upstream(), Plan::default()).unwrap()
}

#[tokio::test]
async fn a_client_sends_its_login_and_its_commands_and_nothing_else() {
    let mut theirs = Theirs::start(&[]).await;
    theirs.admin(&["CONFIG", "SET", "requirepass", "secret"], "+OK\r\n").await;
    for rest in ["/3", "/3?protocol=resp3"] {
        let endpoint = open(&theirs.url(":secret@", rest)).await.unwrap();
        let proxy = Proxy::start(Detail::Faults).unwrap();
        let link = link(&proxy, &endpoint);
        let env = LiveEnv::new(ClientId(1), 7, vec![endpoint.client(link.addr())]);
        let (before, logged_in) = (stats(&endpoint).await, logins(&endpoint).await);
        let conn = env.connect(Node(0)).await.unwrap();
        let key = keys().key("lock");
        conn.call(Command::new("SET").arg(&key).arg("v")).await.unwrap();
        let made = more(stats(&endpoint).await, &before);
        // The INFOs are those that asked before.
        assert_eq!(made, counts(&[("info", 2), ("select", 1), ("set", 1)]));
        assert_eq!(logins(&endpoint).await - logged_in, 1);
        // The proxy has read the same.
        let seen = link.counters();
        assert_eq!((seen.connections, seen.requests), (1, 3));
        // It was in the database of the URL, where the control connection is, too.
        let get = Command::new("GET").arg(&key);
        assert_eq!(endpoint.command(&get).await, Ok(Reply::bulk(b"v")));
        endpoint.remove_keys(&[key]).await.unwrap();
        endpoint.close().await;
    }
}

/// What the server counts is what we know to have sent.
async fn control_is_counted(endpoint: &Endpoint) {
    let before = (stats(endpoint).await, endpoint.own_commands().await);
    let set = Command::new("SET").arg(keys().key("lock")).arg("v");
    for _ in 0..3 {
        endpoint.command(&set).await.unwrap();
    }
    endpoint.command(&Command::new("client").arg("id")).await.unwrap();
    let made = more(stats(endpoint).await, &before.0);
    assert_eq!(made, counts(&[("client", 1), ("info", 1), ("set", 3)]));
    assert_eq!(more(endpoint.own_commands().await, &before.1), made);
}

#[tokio::test]
async fn a_private_server_counts_what_we_sent_and_ends_with_its_endpoint() {
    let binary = find_server(None, None).unwrap();
    let (version, path) = (binary.version.clone(), binary.path.display().to_string());
    let endpoint = Endpoint::open(Choice::Started(binary), keys(), &settings()).await.unwrap();
    control_is_counted(&endpoint).await;
    assert!(endpoint.is_private());
    assert_eq!(
        (&endpoint.server().version, endpoint.server().software.as_str()),
        (&version, "redis")
    );
    assert_eq!(endpoint.server().origin, format!("private server {path}, found on PATH"));
    let dir = endpoint.process().await.unwrap().dir().to_owned();
    assert!(dir.exists());
    endpoint.close().await;
    assert!(!dir.exists(), "the server's directory is left");
}

#[tokio::test]
async fn a_dropped_endpoint_leaves_nothing_either() {
    let binary = find_server(None, None).unwrap();
    let endpoint = Endpoint::open(Choice::Started(binary), keys(), &settings()).await.unwrap();
    let dir = endpoint.process().await.unwrap().dir().to_owned();
    drop(endpoint);
    eventually("the server's directory is gone", || !dir.exists()).await;
}

#[tokio::test]
async fn the_embedded_model_counts_likewise() {
    let endpoint = Endpoint::open(Choice::Embedded, keys(), &settings()).await.unwrap();
    control_is_counted(&endpoint).await;
    assert!(endpoint.is_private() && endpoint.process().await.is_none());
    assert_eq!(endpoint.server().software, "picklock model");
    let addr = endpoint.addr();
    endpoint.close().await;
    refused(addr).await;
}

#[tokio::test]
async fn a_broken_control_connection_is_made_anew_with_the_same_login() {
    let mut theirs = Theirs::start(&[]).await;
    theirs.admin(&["CONFIG", "SET", "requirepass", "secret"], "+OK\r\n").await;
    let endpoint = open(&theirs.url(":secret@", "/3")).await.unwrap();
    let set = Command::new("SET").arg(keys().key("lock")).arg("v");
    endpoint.command(&set).await.unwrap();
    let id = endpoint.command(&Command::new("CLIENT").arg("ID")).await.unwrap().as_int().unwrap();
    theirs.admin(&["CLIENT", "KILL", "ID", &id.to_string()], ":1\r\n").await;
    let error = endpoint.command(&set).await.unwrap_err();
    assert!(matches!(error, CallError::Indeterminate(_)), "{error}");
    let get = Command::new("GET").arg(keys().key("lock"));
    assert_eq!(endpoint.command(&get).await, Ok(Reply::bulk(b"v")));
}

#[tokio::test]
async fn idle_means_that_a_dropped_guard_has_released_its_lock() {
    let endpoint = Endpoint::open(Choice::Embedded, keys(), &settings()).await.unwrap();
    let proxy = Proxy::start(Detail::Faults).unwrap();
    let link = link(&proxy, &endpoint);
    let env = LiveEnv::new(ClientId(1), 7, vec![endpoint.client(link.addr())]);
    let key = keys().key("lock");
    let options = Options::builder(Duration::from_secs(60)).watchdog().build().unwrap();
    let lock = Single::new(env.clone(), Node(0), key.as_slice(), options).unwrap();
    let guard = lock.try_acquire().await.unwrap();
    let exists = Command::new("EXISTS").arg(&key);
    assert_eq!(endpoint.command(&exists).await, Ok(Reply::Int(1)));
    assert!(!env.idle(Duration::ZERO).await, "the watchdog is at work");
    let gate = Gate::shut();
    let hold = Action::Hold(Side::Request, gate.clone());
    proxy.rules().add(Rule::new(hold).key("picklock:{test}:lock"));
    drop(guard);
    assert!(!env.idle(Duration::ZERO).await, "the release is on its way");
    gate.open();
    assert!(env.idle(DEADLINE).await);
    assert_eq!(endpoint.command(&exists).await, Ok(Reply::Int(0)));
    endpoint.close().await;
}
