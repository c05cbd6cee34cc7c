//! `picklock serve`: the Redis model as a server, for tests on a machine without Redis.
//!
//! Invariant: it says that it is no Redis; nothing listens beyond loopback unless the command line names the address. There
//! is no verdict: a signal ends it with 0.

use std::io::ErrorKind;

use fault_proxy::switchboard::listen_address;
use live_world::embedded::{self, StartError};
use live_world::limits::ensure_open_files;
use redis_model::options::{ModelOptions, VERSION};

use super::args::ServeArgs;
use super::exit::Exit;
use super::failure::Failure;
use super::terminal::Terminal;
use super::{print, signal, world};

/// Open files that a test of some size needs.
const FILES: u64 = 4096;

/// Serves until a signal comes.
pub(super) fn main(args: &ServeArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let wanted = listen_address(&args.listen).map_err(Failure::usage_error)?;
    let _ = ensure_open_files(FILES);
    let runtime = world::runtime()?;
    runtime.block_on(async {
        let mut stop = signal::watch().map_err(Failure::unavailable)?;
        let options = ModelOptions {
            password: args.password.clone(),
            lua_only: args.lua,
            ..ModelOptions::default()
        };
        let server = embedded::start_at(wanted, options, None).map_err(refused)?;
        let addr = server.addr();
        if !addr.ip().is_loopback() && !terminal.options.quiet {
            print::note("note: it accepts connections from other machines");
        }
        print::results(&format!(
            "picklock serve: a model of Redis {VERSION}, for tests and not for production; nothing is kept when it ends\n\
             listening: {addr}\n"
        ))?;
        // An error means that the sender is gone, which counts as a signal.
        let _ = stop.wait_for(|is_over| *is_over).await;
        Ok(Exit::Held)
    })
}

fn refused(error: StartError) -> Failure {
    match &error {
        StartError::Listen(_, source) if source.kind() == ErrorKind::AddrInUse => {
            Failure::unavailable_text(
                error.to_string(),
                "stop the process that uses this port, or choose another with --listen; 0 picks a free one",
            )
        }
        _ => Failure::unavailable(error),
    }
}
