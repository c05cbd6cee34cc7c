//! Which world a run is made in, and why.
//!
//! Invariant: what was asked for by name is used or is an error; only `auto` looks further.

use std::path::{Path, PathBuf};
use std::sync::Once;

use tokio::runtime::{Handle, Runtime};

use super::args::{ServerArgs, TlsArgs, World};
use super::exit::Exit;
use super::failure::Failure;
use super::{input, print, signal};
use fault_proxy::Trust;
use live_world::LiveWorld;
use live_world::endpoint::{Choice, RedisUrl};
use live_world::server::{DiscoverError, ServerBinary, find_server};
use virtual_world::{EndlessPoll, VirtualWorld};

/// A world, and what to say of the choice.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Its name.
    pub(super) world: World,
    /// The server of that world.
    pub(super) choice: Choice,
    /// Which, why, and what else could be had; the first line printed.
    pub(super) why: String,
}

impl World {
    /// Its name in files and on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Virtual => "virtual",
            Self::Embedded => "embedded",
            Self::Redis => "redis",
        }
    }
}

/// A world, ready to be run in.
pub(super) struct Opened {
    pub(super) world: Box<dyn harness::world::World>,
    /// Which, why, and what else could be had, where there was a choice.
    pub(super) why: Option<String>,
}

/// The world that was asked for; with `lua`, its model runs every script in Lua. Belongs to the tokio runtime it is
/// called on.
pub(super) fn open(asked: World, server: &ServerArgs, lua: bool) -> Result<Opened, Failure> {
    if asked == World::Virtual {
        refuse_server(server)?;
        let world = simulated(lua).interruptible(signal::flag().map_err(Failure::unavailable)?);
        return Ok(Opened { world: Box::new(world), why: None });
    }
    let Chosen { choice, why, .. } = choose(asked, server)?;
    let interrupted = signal::watch().map_err(Failure::unavailable)?;
    let world = LiveWorld::new(choice, Handle::current(), interrupted).lua_only(lua);
    Ok(Opened { world: Box::new(world), why: Some(why) })
}

/// A virtual world; with `lua`, its model runs every script in Lua. From the first one on, a poll that never returns ends
/// the process, for nothing else can end it.
pub(super) fn simulated(lua: bool) -> VirtualWorld {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        virtual_world::watch_polls(|endless| {
            let EndlessPoll { scenario, recipe, seed, client } = endless;
            print::note(&format!(
                "violated (progress): a livelock in scenario {scenario}, lock {recipe}, seed {seed}: a task of client \
                 {client} has computed for a minute without asking its environment for anything.\n  Nothing can end \
                 it from within, so picklock ends here, without a report. Leave out the seed with --seeds, or the lock with --lock."
            ));
            super::end_at_once(Exit::ProgressOnly)
        });
    });
    VirtualWorld::new(lua)
}

/// The runtime of the live worlds, and of whatever is shown meanwhile.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Failure::unavailable)
}

/// Chooses.
pub(super) fn choose(asked: World, server: &ServerArgs) -> Result<Chosen, Failure> {
    if let Some(url) = &server.redis {
        return of_url(asked, url, server);
    }
    if server.tls.tls_ca.is_some() || server.tls.tls_insecure {
        return Err(Failure::usage_text(
            "--tls-ca and --tls-insecure say whom to trust on the way to a server of yours",
            "name the server too: --redis rediss://host:port",
        ));
    }
    match asked {
        World::Virtual => unreachable!("the virtual world has no server to choose"),
        World::Embedded if is_named_on_line(server) => Err(Failure::usage_text(
            "--server-bin names a redis-server to start, and the embedded world starts none",
            "omit one of the two",
        )),
        World::Embedded => {
            Ok(embedded("world embedded: picklock's own Redis model, as you asked".to_owned()))
        }
        World::Redis => {
            let binary = find(server).map_err(Failure::unavailable)?;
            Ok(started(&binary))
        }
        World::Auto => match find(server) {
            Ok(binary) => Ok(started(&binary)),
            Err(DiscoverError::NotFound) => Ok(embedded(
                "world embedded: no redis-server was found on PATH, so picklock's own Redis model \
                 stands in for it.\n  For the real thing install one (Debian and Ubuntu: \
                 apt-get install redis-server), or name one with --server-bin PATH or --redis URL."
                    .to_owned(),
            )),
            Err(error) => Err(Failure::unavailable(error)),
        },
    }
}

/// Refuses a server that was named for the virtual world.
pub(super) fn refuse_server(server: &ServerArgs) -> Result<(), Failure> {
    // A variable that names the redis-server for other runs is no contradiction.
    let contradicts = match server {
        server if server.redis.is_some() => "--redis",
        server if is_named_on_line(server) => "--server-bin",
        server if server.tls.tls_ca.is_some() => "--tls-ca",
        server if server.tls.tls_insecure => "--tls-insecure",
        _ => return Ok(()),
    };
    Err(Failure::usage_text(
        format!("{contradicts} is about a server, and the virtual world has none"),
        "omit one of the two",
    ))
}

/// Refuses `--lua` where a redis-server runs the scripts, or may.
pub(super) fn refuse_lua(asked: World, lua: bool) -> Result<(), Failure> {
    if !lua || matches!(asked, World::Virtual | World::Embedded) {
        return Ok(());
    }
    Err(Failure::usage_text(
        "--lua has picklock's own Redis model run every script in Lua; a redis-server always does",
        "add --world virtual or --world embedded, or omit --lua",
    ))
}

/// The redis-server that would be started.
pub(super) fn find(server: &ServerArgs) -> Result<ServerBinary, DiscoverError> {
    match named_by_variable(server) {
        Some(path) => find_server(None, Some(path)),
        None => find_server(named(server), None),
    }
}

/// Whether the command line names a redis-server to start.
pub(super) fn is_named_on_line(server: &ServerArgs) -> bool {
    named(server).is_some() && named_by_variable(server).is_none()
}

/// The redis-server that was named; the first one, where there are several.
pub(super) fn named(server: &ServerArgs) -> Option<&Path> {
    server.server_bin.first().map(AsRef::as_ref)
}

/// Refuses several servers for what takes one.
pub(super) fn refuse_several(server: &ServerArgs) -> Result<(), Failure> {
    match &server.server_bin[..] {
        [_, second, ..] => Err(Failure::usage_text(
            format!("a run has one server, and --server-bin {} names another", second.display()),
            "name one; `picklock matrix` takes several, and runs on one after the other",
        )),
        _ => Ok(()),
    }
}

/// The servers that were named, each as if it were the only one; one that is none where none was.
pub(super) fn each(server: &ServerArgs) -> Result<Vec<ServerArgs>, Failure> {
    let all = &server.server_bin;
    if all.len() < 2 {
        return Ok(vec![server.clone()]);
    }
    if server.redis.is_some() {
        return Err(Failure::usage_text(
            "--redis names a server that is there, and --server-bin several to start",
            "omit one of the two",
        ));
    }
    if let Some(twice) = all.iter().enumerate().find(|(place, it)| all[..*place].contains(it)) {
        return Err(Failure::usage_text(
            format!("--server-bin names {} twice", twice.1.display()),
            "name each server once",
        ));
    }
    let only = |path: &PathBuf| ServerArgs { server_bin: vec![path.clone()], ..server.clone() };
    Ok(all.iter().map(only).collect())
}

/// Whether an option that begins so is on the command line, rather than in a variable.
pub(super) fn is_on_line(option: &str) -> bool {
    std::env::args_os().any(|arg| arg.to_string_lossy().starts_with(option))
}

/// The command line's parser gives what the variable says as if it had been an option.
fn named_by_variable(server: &ServerArgs) -> Option<&Path> {
    let named = named(server)?;
    let variable = std::env::var_os("PICKLOCK_REDIS_SERVER")?;
    (!is_on_line("--server-bin") && variable == named.as_os_str()).then_some(named)
}

/// Whom to trust. A CA file that is none is refused, so that nobody reads a device for ever.
pub(super) fn trust(tls: &TlsArgs) -> Result<Trust, Failure> {
    Ok(match &tls.tls_ca {
        _ if tls.tls_insecure => Trust::Anyone,
        Some(path) => {
            input::open(path).map_err(|error| {
                let what = format!("--tls-ca: cannot read {}: {error}", path.display());
                Failure::usage_text(what, "name a PEM file with the certificate of the server's CA")
            })?;
            Trust::SystemAnd(path.clone())
        }
        None => Trust::System,
    })
}

/// The server behind a URL of the user's.
pub(super) fn parse_url(url: &str, server: &ServerArgs) -> Result<RedisUrl, Failure> {
    let trust = trust(&server.tls)?;
    let url = RedisUrl::parse(url, trust.clone()).map_err(|error| {
        Failure::usage_text(
            format!("--redis: {error}"),
            "write it as redis://[user:password@]host[:port][/database], or rediss:// for TLS",
        )
    })?;
    trust.check().map_err(|error| {
        let help = "name a PEM file with the certificate of the server's CA";
        Failure::usage_text(format!("--tls-ca: {error}"), help)
    })?;
    Ok(url)
}

fn of_url(asked: World, url: &str, server: &ServerArgs) -> Result<Chosen, Failure> {
    if !matches!(asked, World::Auto | World::Redis) {
        return Err(Failure::usage_text(
            format!("--redis names a server, and the {} world has none", asked.name()),
            "omit one of the two",
        ));
    }
    if is_named_on_line(server) {
        return Err(Failure::usage_text(
            "--redis names a server that is there, and --server-bin one to start",
            "omit one of the two",
        ));
    }
    let url = parse_url(url, server)?;
    signal::be_patient();
    let why = format!(
        "world redis: {url}, as you asked; keys lie under a prefix of this run and are removed \
         afterwards"
    );
    Ok(Chosen { world: World::Redis, choice: Choice::Url(url), why })
}

fn started(binary: &ServerBinary) -> Chosen {
    let ServerBinary { path, version, found_by, .. } = binary;
    let found = match *found_by {
        "PATH" => "found on PATH".to_owned(),
        named => format!("named by {named}"),
    };
    let why = format!(
        "world redis: a private redis-server {version} ({}, {found}), started for this run",
        path.display()
    );
    Chosen { world: World::Redis, choice: Choice::Started(binary.clone()), why }
}

fn embedded(why: String) -> Chosen {
    Chosen { world: World::Embedded, choice: Choice::Embedded, why }
}
