//! The text files of the workspace, in memory.
//!
//! Invariant: files git ignores are not seen, files not yet added are; so a finding comes before the
//! commit and not after it. Without git (an unpacked archive) the directory is walked instead.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::rust::RustSource;

/// Programs as users write them, in packages of their own.
const EXAMPLES: &str = "examples/";
/// Directories that are never part of the source, for a tree without git.
const NOT_SOURCE: [&str; 3] = [".git", "target", "picklock-out"];

pub(crate) struct File {
    /// From the root of the workspace, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The file as Rust, if it is to be Rust.
    pub(crate) read: Option<syn::Result<RustSource>>,
    /// True where only a test build compiles any of it.
    pub(crate) is_test: bool,
}

impl File {
    pub(crate) fn rust(&self) -> Option<&RustSource> {
        self.read.as_ref()?.as_ref().ok()
    }

    /// The last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The last part of the path without its ending.
    pub(crate) fn stem(&self) -> &str {
        self.name().rsplit_once('.').map_or(self.name(), |(stem, _)| stem)
    }

    /// The path of the directory; empty at the root.
    pub(crate) fn dir(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(dir, _)| dir)
    }

    /// The line, counted from 1, of a byte offset.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        1 + self.text[..offset].matches('\n').count()
    }
}

/// The files a check looks at.
#[derive(Default)]
pub(crate) struct Tree {
    /// In the order of their paths.
    pub(crate) files: Vec<File>,
    /// The paths of pictures, fonts and what else is no text.
    not_text: Vec<String>,
    /// The directories of the packages; one may lie inside another's.
    pub(crate) packages: Vec<String>,
}

impl Tree {
    /// A tree of these paths and texts.
    pub(crate) fn new<P, T>(files: impl IntoIterator<Item = (P, T)>) -> Self
    where
        P: Into<String>,
        T: Into<String>,
    {
        let mut files: Vec<File> =
            files.into_iter().map(|(path, text)| file(path.into(), text.into())).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let test_modules: BTreeSet<String> = files.iter().flat_map(test_modules).collect();
        for file in &mut files {
            file.is_test |= test_modules.iter().any(|module| belongs_to(&file.path, module));
        }
        let manifests = files.iter().filter(|file| file.name() == "Cargo.toml");
        let packages = manifests.filter(|file| file.text.lines().any(|line| line == "[package]"));
        let packages = packages.map(|file| file.dir().to_owned()).collect();
        Self { files, packages, not_text: Vec::new() }
    }

    /// Reads the text files under `root`.
    ///
    /// # Errors
    /// Where a directory or a file that is listed cannot be read.
    pub(crate) fn load(root: &Path) -> io::Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = Vec::new();
        let mut not_text = Vec::new();
        for path in paths {
            let place = root.join(&path);
            // A link has its text elsewhere; a listed file may have been deleted and not committed.
            if !place.symlink_metadata().is_ok_and(|found| found.is_file()) {
                continue;
            }
            match String::from_utf8(fs::read(&place)?) {
                Ok(text) => files.push((path, text)),
                Err(_) => not_text.push(path),
            }
        }
        Ok(Self { not_text, ..Self::new(files) })
    }

    /// The Rust files, with their source.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &RustSource)> {
        self.files.iter().filter_map(|file| Some((file, file.rust()?)))
    }

    /// The directory of the package that a file belongs to: the nearest above it.
    pub(crate) fn package_of(&self, file: &File) -> Option<&str> {
        let holds = |dir: &&String| dir.is_empty() || belongs_to(&file.path, dir);
        self.packages.iter().filter(holds).max_by_key(|dir| dir.len()).map(String::as_str)
    }

    /// True where a file or a directory is at this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let mut paths = self.files.iter().map(|file| &file.path).chain(&self.not_text);
        paths.any(|other| {
            other == path || other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// The file at this path.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

fn file(path: String, text: String) -> File {
    let is_ours = path.ends_with(".rs") && !path.starts_with(EXAMPLES);
    let read = is_ours.then(|| RustSource::new(&text));
    let in_tests =
        |part: &str| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs");
    let is_test = path.split('/').any(in_tests);
    let mut file = File { path, text, read, is_test };
    file.is_test |= file.rust().is_some_and(RustSource::is_test);
    file
}

/// The paths, without an ending, of the test-only modules that a file declares.
fn test_modules(file: &File) -> Vec<String> {
    let Some(source) = file.rust() else { return Vec::new() };
    let inside = match file.name() {
        "mod.rs" | "lib.rs" | "main.rs" => file.dir().to_owned(),
        _ => file.path.trim_end_matches(".rs").to_owned(),
    };
    source.test_modules().map(|name| format!("{inside}/{name}")).collect()
}

fn belongs_to(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").arg("-C").arg(root).args(listing).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: BTreeSet<&str> = text.split('\0').filter(|path| !path.is_empty()).collect();
    // Nothing listed: not a repository, or an archive unpacked inside another one that ignores it.
    (output.status.success() && !paths.is_empty())
        .then(|| paths.into_iter().map(str::to_owned).collect())
}

fn walked(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
            match entry.file_type()? {
                kind if kind.is_file() => paths.push(path),
                kind if kind.is_dir() && !NOT_SOURCE.contains(&name.as_str()) => pending.push(path),
                _ => {}
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_tests_is_known_by_its_place_or_its_parent() {
        let files = [
            ("a/src/lib.rs", "#[cfg(test)] mod check;\nmod plain;", false),
            ("a/src/check.rs", "", true),
            ("a/src/check/deep.rs", "", true),
            ("a/src/checks.rs", "", false),
            ("a/src/plain.rs", "#[cfg(all(test, picklock_loom))] mod loom;", false),
            ("a/src/plain/loom.rs", "", true),
            ("a/src/whole.rs", "#![cfg(test)]", true),
            ("a/tests/whole.rs", "", true),
            ("a/src/b/tests.rs", "", true),
            ("a/src/c_tests.rs", "", true),
        ];
        let tree = Tree::new(files.map(|(path, text, _)| (path, text)));
        for (path, _, is_test) in files {
            assert_eq!(tree.get(path).map(|file| file.is_test), Some(is_test), "{path}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_nearest_package() {
        let files = [
            ("Cargo.toml", "[workspace]\n", None),
            ("a/Cargo.toml", "[package]\nname = \"a\"\n", Some("a")),
            ("a/b/Cargo.toml", "# A package.\n[package]\n", Some("a/b")),
            ("a/src/x.rs", "", Some("a")),
            ("a/b/src/x.rs", "", Some("a/b")),
            ("a/bc/x.rs", "", Some("a")),
            ("c/x", "", None),
        ];
        let tree = Tree::new(files.map(|(path, text, _)| (path, text)));
        for (path, _, package) in files {
            assert_eq!(tree.get(path).and_then(|file| tree.package_of(file)), package, "{path}");
        }
        let parts = |file: &File| [file.dir(), file.name(), file.stem()].map(str::to_owned);
        assert_eq!(
            tree.get("a/b/src/x.rs").map(parts),
            Some(["a/b/src", "x.rs", "x"].map(str::to_owned))
        );
        assert_eq!(
            tree.get("Cargo.toml").map(parts),
            Some(["", "Cargo.toml", "Cargo"].map(str::to_owned))
        );
    }

    #[test]
    fn without_git_the_directory_is_walked() {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (path, bytes) in
            [("a/b.rs", &b"//! b"[..]), ("target/c.rs", b""), ("d.png", b"\xff\xfe")]
        {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().expect("it has one")).expect("created");
            fs::write(place, bytes).expect("written");
        }
        let tree = Tree::load(root.path()).expect("readable");
        assert!(tree.files.len() == 1 && tree.get("a/b.rs").is_some());
        assert!(tree.has("a/b.rs") && tree.has("a") && tree.has("d.png"));
        assert!(!tree.has("a/b") && !tree.has("target") && !tree.has("d"));
    }
}
