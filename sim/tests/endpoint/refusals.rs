//! A real server that a run cannot be made against is refused beforehand, with one clear reason.

use live_world::endpoint::Refusal;
use live_world::server::find_server;

use crate::endpoint_support::{PASSWORD, Theirs, open, refusal};
use crate::proxy_support::DEADLINE;

#[tokio::test]
async fn a_server_without_a_fault_is_taken() {
    let theirs = Theirs::start(&[]).await;
    let endpoint = open(&theirs.url("", "")).await.unwrap();
    assert_eq!(endpoint.server().version, find_server(None, None).unwrap().version);
    assert!(!endpoint.is_private());
    endpoint.close().await;
}

#[tokio::test]
async fn a_missing_password_is_asked_for_and_a_wrong_one_refused() {
    let mut theirs = Theirs::start(&[]).await;
    theirs.admin(&["CONFIG", "SET", "requirepass", "secret"], "+OK\r\n").await;
    assert_eq!(refusal(&theirs.url("", "")).await, Refusal::NeedsPassword);
    for (login, name) in [(":hunter2@", "default"), ("ann:hunter2@", "ann")] {
        let refusal = refusal(&theirs.url(login, "")).await;
        let Refusal::WrongPassword { user, said } = &refusal else { panic!("{refusal}") };
        assert_eq!(user, name);
        assert!(said.starts_with("WRONGPASS"), "{said}");
    }
    open(&theirs.url(":secret@", "")).await.unwrap();
    open(&theirs.url("default:secret@", "/3?protocol=resp3")).await.unwrap();
}

#[tokio::test]
async fn a_password_for_a_server_without_one_is_refused() {
    let theirs = Theirs::start(&[]).await;
    assert_eq!(refusal(&theirs.url(":hunter2@", "")).await, Refusal::NoPasswordSet);
}

#[tokio::test]
async fn missing_rights_are_all_named_and_what_is_advised_suffices() {
    let mut theirs = Theirs::start(&[]).await;
    let create = ["ACL", "SETUSER", "bob", "on", ">hunter2", "+@all", "-set", "-del", "~other:*"];
    theirs.admin(&create, "+OK\r\n").await;
    let url = theirs.url("bob:hunter2@", "");
    // The right to the key is missing for GET as well.
    let first = refusal(&url).await;
    let Refusal::NoPermission { user, commands, rights, key, .. } = &first else {
        panic!("{first}")
    };
    assert_eq!((user.as_str(), commands.as_str()), ("bob", "SET, GET, DEL"));
    assert_eq!(key, "picklock:{test}:probe");
    let advice = format!("ACL SETUSER bob {rights}");
    assert!(first.to_string().contains(&advice), "{first}");
    let words: Vec<&str> = advice.split(' ').collect();
    theirs.admin(&["ACL", "SETUSER", "bob", "~picklock:*"], "+OK\r\n").await;
    let second = refusal(&url).await;
    assert!(second.to_string().contains("`bob` may not run SET, DEL on"), "{second}");
    theirs.admin(&words, "+OK\r\n").await;
    open(&url).await.unwrap();
}

#[tokio::test]
async fn a_server_that_refuses_info_is_taken_all_the_same() {
    let mut theirs = Theirs::start(&[]).await;
    let create = ["ACL", "SETUSER", "bob", "on", ">hunter2", "+@all", "-info", "~*"];
    theirs.admin(&create, "+OK\r\n").await;
    let endpoint = open(&theirs.url("bob:hunter2@", "")).await.unwrap();
    assert_eq!(endpoint.server().version, "of unknown version");
    assert_eq!(endpoint.command_stats().await, Ok(None));
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_refused_with_what_to_do() {
    for (args, said, advice) in [
        (&["--replicaof", "127.0.0.1 1"][..], "(READONLY ", "give the URL of its primary"),
        (&["--maxmemory", "1", "--maxmemory-policy", "noeviction"], "(OOM ", "its `maxmemory`"),
        (&["--min-replicas-to-write", "1"], "(NOREPLICAS ", "`min-replicas-to-write 0`"),
        (&["--cluster-enabled", "yes"], "(CLUSTERDOWN ", "not in cluster mode"),
    ] {
        let theirs = Theirs::start(args).await;
        let refusal = refusal(&theirs.url("", "")).await.to_string();
        assert!(refusal.contains(said) && refusal.contains(advice), "{args:?}: {refusal}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_save_is_refused() {
    let mut theirs = Theirs::start(&["--save", "3600 1"]).await;
    // A snapshot cannot replace a directory, whoever runs the server.
    std::fs::create_dir(theirs.server.directory().join("dump.rdb")).unwrap();
    theirs.admin(&["BGSAVE"], "+Background saving started\r\n").await;
    let url = theirs.url("", "");
    let saving = async { while open(&url).await.is_ok() {} };
    tokio::time::timeout(DEADLINE, saving).await.expect("the snapshot fails in time");
    let refusal = refusal(&url).await;
    assert!(matches!(&refusal, Refusal::CannotPersist(said) if said.starts_with("MISCONF")));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused() {
    let theirs = Theirs::start(&[]).await;
    let refusal = refusal(&theirs.url("", "/99")).await;
    assert!(matches!(refusal, Refusal::Database { database: 99, .. }), "{refusal}");
    open(&theirs.url("", "/15")).await.unwrap();
}

#[tokio::test]
async fn the_probe_leaves_no_key_behind() {
    let mut theirs = Theirs::start(&[]).await;
    let endpoint = open(&theirs.url("", "")).await.unwrap();
    theirs.admin(&["DBSIZE"], ":0\r\n").await;
    assert_eq!(endpoint.own_commands().await.get("set"), Some(&1), "it has written one");
}

#[tokio::test]
async fn the_embedded_model_refuses_in_the_same_words() {
    let options = redis_model::options::ModelOptions {
        password: Some("secret".into()),
        ..redis_model::options::ModelOptions::default()
    };
    let server = live_world::embedded::start(options).unwrap();
    let url = |login: &str, rest: &str| format!("redis://{login}{}{rest}", server.addr());
    assert_eq!(refusal(&url("", "")).await, Refusal::NeedsPassword);
    let wrong = refusal(&url(&format!(":{PASSWORD}@"), "")).await;
    assert!(matches!(wrong, Refusal::WrongPassword { .. }), "{wrong}");
    let database = refusal(&url(":secret@", "/99")).await;
    assert!(matches!(database, Refusal::Database { database: 99, .. }), "{database}");
    open(&url(":secret@", "/3")).await.unwrap();
}
