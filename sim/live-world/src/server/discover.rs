//! Finds a redis-server to start.
//!
//! Invariant: what is found has answered `--version` as a Redis or Valkey server does.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long `--version` may take: on a busy machine it has taken more than five seconds.
const VERSION_WITHIN: Duration = Duration::from_secs(30);
/// How much of its output is read.
const OUTPUT_MOST: u64 = 4096;
/// The names looked for on `PATH`, in this order.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// A server that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBinary {
    /// The executable.
    pub path: PathBuf,
    /// Its version, such as `7.0.15`.
    pub version: String,
    /// The whole line it printed.
    pub banner: String,
    /// Where it was named: `--server-bin`, `PICKLOCK_REDIS_SERVER` or `PATH`.
    pub found_by: &'static str,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// Nothing was named, and `PATH` holds none.
    #[error(
        "no redis-server on PATH: install one, or name it with --server-bin or PICKLOCK_REDIS_SERVER; \
         run, matrix and attack need none with --world embedded"
    )]
    NotFound,
    /// A name without a directory was named, and `PATH` has none of it.
    #[error(
        "no {name} on PATH (from {found_by}): name a redis-server that is there, and with its directory if it is not on \
         PATH, such as ./redis-server; run, matrix and attack need none with --world embedded",
        name = name.display()
    )]
    NotOnPath {
        /// What was named.
        name: PathBuf,
        /// Where.
        found_by: &'static str,
    },
    /// The file named is not there or cannot be run.
    #[error(
        "cannot run {path} (from {found_by}): {why}; name a redis-server that runs; \
         run, matrix and attack need none with --world embedded",
        path = path.display()
    )]
    CannotRun {
        /// What was named.
        path: PathBuf,
        /// Where.
        found_by: &'static str,
        /// What is wrong.
        why: String,
    },
    /// It runs, but is something else.
    #[error(
        "{path} (from {found_by}) is not a Redis server: `--version` printed {printed:?}; name a \
         redis-server; run, matrix and attack need none with --world embedded",
        path = path.display()
    )]
    NotRedis {
        /// What was named.
        path: PathBuf,
        /// Where.
        found_by: &'static str,
        /// The first line of what it printed, be it a complaint.
        printed: String,
    },
}

/// The server named on the command line, else the one of `PICKLOCK_REDIS_SERVER` (pass its value),
/// else the first on `PATH`. If the one that is named is unusable, that is an error: no other one is tried.
///
/// # Errors
/// [`DiscoverError`] with what to do.
pub fn find_server(
    explicit: Option<&Path>,
    from_env: Option<&Path>,
) -> Result<ServerBinary, DiscoverError> {
    let named = explicit
        .map(|path| (path, "--server-bin"))
        .or(from_env.map(|path| (path, "PICKLOCK_REDIS_SERVER")));
    let (path, found_by) = match named {
        Some((path, found_by)) => {
            // A bare name is looked for on PATH, as a shell would.
            let found = which::which(path).or_else(|_| match is_bare(path) {
                true => Err(DiscoverError::NotOnPath { name: path.to_owned(), found_by }),
                false => Ok(path.to_owned()),
            });
            (found?, found_by)
        }
        None => {
            let found = NAMES.iter().find_map(|name| which::which(name).ok());
            (found.ok_or(DiscoverError::NotFound)?, "PATH")
        }
    };
    let printed = version_output(&path).map_err(|why| DiscoverError::CannotRun {
        path: path.clone(),
        found_by,
        why,
    })?;
    let mut lines = printed.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next().unwrap_or_default().to_owned();
    // It may print warnings before its version.
    let found = lines.find_map(|line| Some((version(line)?.to_owned(), line.to_owned())));
    match found {
        Some((version, banner)) => Ok(ServerBinary { path, version, banner, found_by }),
        None => Err(DiscoverError::NotRedis { path, found_by, printed: first }),
    }
}

fn is_bare(path: &Path) -> bool {
    path.parent() == Some(Path::new(""))
}

/// The version in `Redis server v=7.0.15 sha=…` or `Valkey server v=8.0.1 sha=…`.
fn version(banner: &str) -> Option<&str> {
    let rest = banner.strip_prefix("Redis server v=").or(banner.strip_prefix("Valkey server v="))?;
    rest.split_whitespace()
        .next()
        .filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// What it prints, on either stream: the loader reports a missing library on stderr.
fn version_output(path: &Path) -> Result<String, String> {
    let (output, stdout) = io::pipe().map_err(|error| error.to_string())?;
    let stderr = stdout.try_clone().map_err(|error| error.to_string())?;
    // Once the command is dropped, only the program has the other end, so reading ends with it.
    let child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn();
    let mut child = child.map_err(|error| cannot_run(path, &error))?;
    let (sender, receiver) = mpsc::channel();
    // In a thread, because a read from a pipe has no time-out.
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = output.take(OUTPUT_MOST).read_to_end(&mut text);
        let _ = sender.send(text);
    });
    let printed = receiver.recv_timeout(VERSION_WITHIN);
    let _ = child.kill();
    child.wait().map_err(|error| error.to_string())?;
    let printed = printed.map_err(|_| format!("--version took longer than {VERSION_WITHIN:?}"))?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// Why a program does not run, in more detail than the system gives.
fn cannot_run(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        _ if path.is_dir() => "it is a directory".to_owned(),
        ErrorKind::PermissionDenied if path.is_file() => {
            format!("{error}: is it executable (chmod +x)?")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_banners() {
        assert_eq!(version("Redis server v=7.0.15 sha=00000000:0 malloc=libc"), Some("7.0.15"));
        assert_eq!(version("Valkey server v=8.0.1 sha=0"), Some("8.0.1"));
        assert_eq!(version("Redis server v= sha"), None);
        assert_eq!(version("redis-cli 7.0.15"), None);
    }

    #[test]
    fn a_named_server_that_is_unusable_is_an_error() {
        let missing = Path::new("/nonexistent/redis-server");
        let error = find_server(Some(missing), None).unwrap_err();
        assert!(matches!(error, DiscoverError::CannotRun { found_by: "--server-bin", .. }));
        let error = find_server(Some(Path::new("nonexistent")), None).unwrap_err();
        assert!(error.to_string().starts_with("no nonexistent on PATH (from --server-bin)"));
        let error = find_server(None, Some(Path::new("true"))).unwrap_err();
        assert!(matches!(
            error,
            DiscoverError::NotRedis { found_by: "PICKLOCK_REDIS_SERVER", ref printed, .. }
                if printed.is_empty() || printed.contains("true")
        ));
    }
}
