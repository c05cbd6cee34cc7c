//! What servers can do is found by trying, and trying leaves nothing behind.

mod endpoint_support;
mod proxy_support;
mod servers_support;

use endpoint_support::{PASSWORD, Theirs, keys, open, settings};
use live_world::capability::{self, Capability};
use live_world::endpoint::{Choice, Endpoint, Settings};
use live_world::server::find_server;
use picklock::command::Command;
use picklock::reply::Reply;
use scenarios::result::Capable;
use scenarios::topology::Software;

/// What a server answered with *yes* to; it did not know of the rest.
fn yes(found: &[Capability]) -> Vec<&'static str> {
    let odd = found.iter().find(|it| !matches!(it.can, Capable::Yes | Capable::No));
    assert_eq!(odd, None);
    found.iter().filter(|it| it.can == Capable::Yes).map(|it| it.name).collect()
}

/// Tries a server out, twice: the first time has changed nothing.
async fn tried(choice: Choice, settings: &Settings) -> Vec<Capability> {
    let endpoint = Endpoint::open(choice, keys(), settings).await.unwrap();
    let id = Command::new("CLIENT").arg("ID");
    let before = endpoint.command(&id).await.unwrap();
    let found = capability::of(&endpoint).await;
    assert_eq!(found, capability::of(&endpoint).await);
    assert_eq!(endpoint.command(&id).await.unwrap(), before, "the connection is the same");
    assert_eq!(endpoint.command(&Command::new("DBSIZE")).await, Ok(Reply::Int(0)));
    endpoint.close().await;
    found
}

#[tokio::test]
async fn the_model_can_do_what_the_server_can_that_it_models() {
    let common = ["SET NX GET", "Lua scripts", "FUNCTION", "RESP3"];
    for (software, own) in [
        (Software::Redis70, &[][..]),
        (Software::Redis84, &["SET IFEQ", "DELEX"]),
        (Software::Valkey9, &["SET IFEQ", "DELIFEQ"]),
    ] {
        let settings = Settings { software, ..settings() };
        let found = tried(Choice::Embedded, &settings).await;
        assert_eq!(yes(&found), [own, &common].concat(), "{software:?}");
    }
}

#[tokio::test]
async fn further_servers_can_do_what_their_documentation_says() {
    let common = ["SET NX GET", "Lua scripts", "FUNCTION", "WAITAOF", "RESP3"];
    for (name, path) in servers_support::all() {
        let own = match &name[..] {
            // WAITAOF came with Redis 7.2, DELEX with 8.4; SET IFEQ with Valkey 8.1, DELIFEQ with 9.
            "redis-8.2.3" => &[][..],
            "redis-8.10.2" => &["SET IFEQ", "DELEX"],
            "valkey-8.1.8" => &["SET IFEQ"],
            "valkey-9.1.2" => &["SET IFEQ", "DELIFEQ"],
            other => panic!("{other} is new here: say what it can do"),
        };
        let binary = find_server(Some(&path), None).unwrap();
        let found = tried(Choice::Started(binary), &settings()).await;
        assert_eq!(yes(&found), [own, &common].concat(), "{name}");
        println!("{name}: {}", yes(&found).join(", "));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_may_not_do_is_refused_and_no_error() {
    let mut theirs = Theirs::start(&[]).await;
    let create = ["ACL", "SETUSER", "bob", "on", ">hunter2", "+@all", "-eval", "-function", "~*"];
    theirs.admin(&create, "+OK\r\n").await;
    let endpoint = open(&theirs.url(&format!("bob:{PASSWORD}@"), "")).await.unwrap();
    let found = capability::of(&endpoint).await;
    let of = |name: &str| found.iter().find(|it| it.name == name).unwrap();
    assert_eq!((of("Lua scripts").can, of("FUNCTION").can), (Capable::Refused, Capable::Refused));
    assert!(of("Lua scripts").said.as_ref().unwrap().starts_with("NOPERM"), "{found:?}");
    assert_eq!((of("SET NX GET").can, of("RESP3").can), (Capable::Yes, Capable::Yes));
    theirs.admin(&["DBSIZE"], ":0\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_gone_is_unknown_and_no_error() {
    let mut theirs = Theirs::start(&[]).await;
    let endpoint = open(&theirs.url("", "")).await.unwrap();
    theirs.server.kill();
    let found = capability::of(&endpoint).await;
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|it| (it.can, &it.said) == (Capable::Unknown, &None)), "{found:?}");
}
