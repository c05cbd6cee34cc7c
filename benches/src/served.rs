//! A measurement beside a redis-server of its own.
//!
//! Invariant: the server listens on the loopback interface alone, and is gone when the measurement is over, however
//! that ended.

use std::error::Error;
use std::process::ExitCode;

use live_world::limits::ensure_open_files;
use live_world::server::{PrivateServer, ServerSpec, find_server};
use live_world::supervisor::{self, Supervisor};
use tokio::runtime::Builder;

/// As many open files as the largest measurement takes: five hundred clients with two connections each, and more
/// to be sure. The server inherits the limit.
const FILES: u64 = 4096;

/// The whole of a program that measures something on a server; `name` stands before what went wrong.
pub fn beside_server(
    name: &str,
    mut threads: Builder,
    work: impl AsyncFnOnce(&PrivateServer) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    // The supervisor of the server is this program once more.
    if let Some(ended) = supervisor::main(std::env::args_os().skip(1)) {
        return ended;
    }
    let runtime = threads.enable_all().build();
    let measured = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(serve(work)));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(
    work: impl AsyncFnOnce(&PrivateServer) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    ensure_open_files(FILES)?;
    let binary = find_server(None, None)?;
    let supervisor = Supervisor::spawn(None)?;
    let mut server = PrivateServer::start(&supervisor, ServerSpec::new(&binary.path)).await?;
    let measured = work(&server).await;
    let stopped = server.stop().await;
    drop(server);
    supervisor.shutdown().await;
    measured?;
    Ok(stopped?)
}
