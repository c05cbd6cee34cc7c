//! A run leaves no key behind, and touches nobody else's.

use live_world::endpoint::{Choice, Endpoint, Removal};
use picklock::command::Command;
use picklock::env::CallError;
use picklock::reply::Reply;

use crate::endpoint_support::{Theirs, keys, open, settings};

/// Names like the run's, none of them in it.
const FOREIGN: [&str; 5] = [
    "picklock:{test}",
    "picklock:{test2}:lock",
    "picklock:{tes}:lock",
    "xpicklock:{test}:lock",
    "PICKLOCK:{TEST}:lock",
];

async fn set(endpoint: &Endpoint, key: &[u8]) {
    let reply = endpoint.command(&Command::new("SET").arg(key).arg("v")).await;
    assert_eq!(reply, Ok(Reply::Ok));
}

async fn exists(endpoint: &Endpoint, key: &[u8]) -> bool {
    endpoint.command(&Command::new("EXISTS").arg(key)).await == Ok(Reply::Int(1))
}

/// Fills the server, clears up, and looks at what is left.
async fn clear_up(endpoint: &Endpoint) {
    let ours = ["lock", "counter", "queue*?[x]", ""].map(|name| keys().key(name));
    // More than one SCAN and one deletion take.
    let many: Vec<Vec<u8>> = (0..3_000).map(|n| keys().key(&format!("hold:{n}"))).collect();
    for key in ours.iter().chain(&many) {
        set(endpoint, key).await;
    }
    for key in FOREIGN {
        set(endpoint, key.as_bytes()).await;
    }
    // A caller's mistake, and a key that is not there any more.
    let known = [ours[0].clone(), FOREIGN[1].into(), keys().key("gone")];
    let removal = endpoint.remove_keys(&known).await.unwrap();
    assert_eq!(removal, Removal { removed: 3_004, searched: true });
    for key in ours.iter().chain(&many) {
        assert!(!exists(endpoint, key).await, "left: {}", key.escape_ascii());
    }
    for key in FOREIGN {
        assert!(exists(endpoint, key.as_bytes()).await, "gone: {key}");
    }
    let again = endpoint.remove_keys(&[]).await.unwrap();
    assert_eq!(again, Removal { removed: 0, searched: true });
}

#[tokio::test]
async fn a_real_server_is_cleared_of_the_run_and_of_nothing_else() {
    let theirs = Theirs::start(&[]).await;
    clear_up(&open(&theirs.url("", "/2")).await.unwrap()).await;
}

#[tokio::test]
async fn the_embedded_model_is_cleared_likewise_from_a_task() {
    let task = tokio::spawn(async {
        let endpoint = Endpoint::open(Choice::Embedded, keys(), &settings()).await.unwrap();
        clear_up(&endpoint).await;
        endpoint.close().await;
    });
    task.await.unwrap();
}

#[tokio::test]
async fn without_the_right_to_search_the_known_keys_go() {
    let mut theirs = Theirs::start(&[]).await;
    let create = ["ACL", "SETUSER", "bob", "on", ">hunter2", "+@all", "-scan", "-unlink", "~*"];
    theirs.admin(&create, "+OK\r\n").await;
    let endpoint = open(&theirs.url("bob:hunter2@", "")).await.unwrap();
    let (known, unknown) = (keys().key("lock"), keys().key("other"));
    set(&endpoint, &known).await;
    set(&endpoint, &unknown).await;
    let removal = endpoint.remove_keys(std::slice::from_ref(&known)).await.unwrap();
    assert_eq!(removal, Removal { removed: 1, searched: false });
    assert!(!exists(&endpoint, &known).await && exists(&endpoint, &unknown).await);
}

#[tokio::test]
async fn a_server_that_lets_nothing_be_deleted_is_an_error() {
    let mut theirs = Theirs::start(&[]).await;
    let create = ["ACL", "SETUSER", "bob", "on", ">hunter2", "+@all", "~*"];
    theirs.admin(&create, "+OK\r\n").await;
    let endpoint = open(&theirs.url("bob:hunter2@", "")).await.unwrap();
    let key = keys().key("lock");
    set(&endpoint, &key).await;
    theirs.admin(&["ACL", "SETUSER", "bob", "-del", "-unlink"], "+OK\r\n").await;
    let error = endpoint.remove_keys(std::slice::from_ref(&key)).await.unwrap_err();
    assert!(matches!(&error, CallError::Refused(error) if &*error.code == "NOPERM"), "{error}");
    assert!(exists(&endpoint, &key).await);
}
