//! `picklock doctor`: the servers and limits of this machine.
//!
//! Invariant: it tests capabilities instead of reading version numbers, and leaves nothing behind.

use std::fmt::Write;

use super::args::ServerArgs;
use super::failure::Failure;
use super::run::draw;
use super::{print, world};
use live_world::capability::{self, Capability};
use live_world::endpoint::{Choice, Endpoint, KeySpace, Settings};
use live_world::limits::{BESIDES, Links, ensure_open_files};
use live_world::server::DiscoverError;

/// Clients that the open-file limit should allow.
const CLIENTS: u64 = 500;

pub(super) fn text(server: &ServerArgs) -> Result<String, Failure> {
    let mut text = format!("picklock {}\n", env!("CARGO_PKG_VERSION"));
    let runtime = world::runtime()?;
    let mut wrong = None;
    if let Some(url) = &server.redis {
        let url = world::parse_url(url, server)?;
        wrong = runtime.block_on(probe(&mut text, "your server", Choice::Url(url))).err();
    } else {
        for server in world::each(server)? {
            let found = match world::find(&server) {
                Ok(binary) => {
                    let (path, banner) = (binary.path.display(), &binary.banner);
                    let _ = writeln!(text, "redis-server: {path} ({banner})");
                    runtime.block_on(probe(&mut text, "it", Choice::Started(binary)))
                }
                Err(error @ DiscoverError::NotFound) => {
                    let _ = writeln!(text, "redis-server: {error}");
                    Ok(())
                }
                Err(error) => Err(Failure::unavailable(error)),
            };
            wrong = wrong.or(found.err());
        }
    }
    if let Err(error) = runtime.block_on(probe(&mut text, "the embedded model", Choice::Embedded)) {
        wrong.get_or_insert(error);
    }
    let links = Links { external: CLIENTS, each: 1, ..Links::default() };
    let files = match ensure_open_files(links.needed() + BESIDES) {
        Ok(limit) => format!("{limit}, enough for {CLIENTS} clients"),
        Err(error) => error.to_string(),
    };
    let _ = writeln!(text, "open files: {files}");
    runtime.shutdown_background();
    match wrong {
        None => Ok(text),
        Some(failure) => {
            // Print the findings before the failure.
            print::results(&text)?;
            Err(failure)
        }
    }
}

async fn probe(text: &mut String, what: &str, choice: Choice) -> Result<(), Failure> {
    let keys = KeySpace::of_run(&format!("doctor-{:016x}", draw()?));
    let target = Endpoint::open(choice, keys, &Settings::default()).await;
    let target = target.map_err(Failure::unavailable)?;
    let info = target.server();
    let _ = writeln!(text, "  {what} works: {} {}, {}", info.software, info.version, info.origin);
    for Capability { name, can, said } in capability::of(&target).await {
        let said = said.map_or(String::new(), |said| format!(" ({said})"));
        let _ = writeln!(text, "    {name}: {}{said}", can.name());
    }
    target.close().await;
    Ok(())
}
