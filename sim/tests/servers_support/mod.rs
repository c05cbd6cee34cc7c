//! Further servers, as `ci/servers` has brought them.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::path::{Path, PathBuf};

/// The servers that are there, by the name of their directory, as in `valkey-9.1.2`.
///
/// Whoever names the directory wants them to be there; where nobody has, a machine may be without.
pub(crate) fn all() -> Vec<(String, PathBuf)> {
    let named = std::env::var_os("PICKLOCK_SERVERS").filter(|it| !it.is_empty());
    let directory = match &named {
        Some(directory) => PathBuf::from(directory),
        None => {
            // Tests of several packages look here, so the workspace's root is found by its lock file.
            let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
            let root = above.find(|directory| directory.join("Cargo.lock").is_file());
            root.expect("a package lies in a workspace").join("target/servers")
        }
    };
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let server = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let (software, _version) = name.rsplit_once('-')?;
        let path = entry.path().join(format!("{software}-server"));
        path.is_file().then_some((name, path))
    };
    let mut servers: Vec<_> = entries.filter_map(server).collect();
    servers.sort();
    let directory = directory.display();
    if servers.is_empty() {
        println!("not tried: there are no further servers; ci/servers brings them");
    }
    assert!(!servers.is_empty() || named.is_none(), "PICKLOCK_SERVERS: no server in {directory}");
    servers
}
