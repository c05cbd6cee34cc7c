//! Starting a private server, and what is said when that fails.

mod cli_support;

use std::path::Path;
use std::time::Duration;

use cli_support::Room;
use live_world::server::{PrivateServer, PrivateServerError, ServerSpec, find_server};
use live_world::supervisor::{Signal, Supervisor};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

fn supervisor() -> Supervisor {
    Supervisor::spawn(Some(Path::new(env!("CARGO_BIN_EXE_picklock")))).unwrap()
}

fn spec() -> ServerSpec {
    ServerSpec::new(find_server(None, None).unwrap().path)
}

async fn connect(server: &PrivateServer) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{}", server.addr())).unwrap();
    // However long a disk takes to sync.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

#[tokio::test]
async fn several_servers_answer_and_stop() {
    let supervisor = supervisor();
    let mut first = PrivateServer::start(&supervisor, spec()).await.unwrap();
    let second = PrivateServer::start(&supervisor, spec()).await.unwrap();
    assert_ne!(first.addr(), second.addr());
    assert!(first.addr().ip().is_loopback());
    assert_eq!(first.version(), find_server(None, None).unwrap().version);
    let mut connection = connect(&second).await;
    let pong: String = redis::cmd("PING").query_async(&mut connection).await.unwrap();
    assert_eq!(pong, "PONG");
    first.stop().await.unwrap();
    assert!(!first.is_running());
    assert!(matches!(first.signal(Signal::Stop), Err(PrivateServerError::NotRunning(_))));
    let dir = second.dir().to_owned();
    assert!(dir.exists());
    drop((first, second));
    supervisor.shutdown().await;
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_killed_server_starts_again_on_its_port_with_its_data() {
    let supervisor = supervisor();
    let args = ["--appendonly", "yes", "--appendfsync", "always"].map(String::from).to_vec();
    let mut server =
        PrivateServer::start(&supervisor, ServerSpec { args, ..spec() }).await.unwrap();
    let (addr, pid) = (server.addr(), server.pid());
    let mut connection = connect(&server).await;
    let () = redis::cmd("SET").arg("k").arg("v").query_async(&mut connection).await.unwrap();
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    assert_eq!(server.addr(), addr);
    assert_ne!(server.pid(), pid);
    let mut connection = connect(&server).await;
    let value: String = redis::cmd("GET").arg("k").query_async(&mut connection).await.unwrap();
    assert_eq!(value, "v");
}

#[tokio::test]
async fn a_server_that_dies_at_start_shows_its_own_log() {
    let bad = ServerSpec { config: "no-such-option 1\n".into(), ..spec() };
    let error = PrivateServer::start(&supervisor(), bad).await.unwrap_err();
    assert!(matches!(error, PrivateServerError::Died { .. }), "{error}");
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

#[tokio::test]
async fn a_port_that_somebody_else_took_is_not_the_last() {
    let room = Room::new();
    let tries = room.path().join("tries");
    let once = format!(
        "echo >> {tries}\ntest $(wc -l < {tries}) -gt 1 && exec {real} \"$@\"\n\
         echo 'bind: Address already in use'; exit 1",
        tries = tries.display(),
        real = spec().binary.display()
    );
    let spec = ServerSpec::new(room.program("server", &once));
    let mut server = PrivateServer::start(&supervisor(), spec).await.unwrap();
    assert_eq!(std::fs::read_to_string(&tries).unwrap().lines().count(), 2);
    // One that has to have its own port again says so.
    server.kill().await.unwrap();
    let _taken = std::net::TcpListener::bind(server.addr()).unwrap();
    let error = server.restart().await.unwrap_err();
    assert!(matches!(error, PrivateServerError::Died { .. }), "{error}");
    assert!(error.to_string().contains("Address already in use"), "{error}");
}

#[tokio::test]
async fn a_missing_binary_is_named() {
    let missing = ServerSpec::new("/nonexistent/redis-server");
    let error = PrivateServer::start(&supervisor(), missing).await.unwrap_err();
    assert!(matches!(error, PrivateServerError::Refused(_)), "{error}");
    assert!(error.to_string().contains("/nonexistent/redis-server"), "{error}");
}

#[tokio::test]
async fn a_program_that_never_answers_is_given_up() {
    let room = Room::new();
    let silent = ServerSpec::new(room.program("server", "exec sleep 600"));
    let spec = ServerSpec { ready_within: Duration::from_millis(200), ..silent };
    let error = PrivateServer::start(&supervisor(), spec).await.unwrap_err();
    assert!(matches!(error, PrivateServerError::NotReady { .. }), "{error}");
}
