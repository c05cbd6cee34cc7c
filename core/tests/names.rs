//! Every type that a public module has is also at the crate's root: nobody has to know modules to write a signature.

use std::fs;
use std::path::{Path, PathBuf};

fn source(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The name behind one of these words at the beginning of a line.
fn named(line: &str, words: &[&str]) -> Option<String> {
    let rest = words.iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}

#[test]
fn every_public_type_is_at_the_root() {
    const TYPES: [&str; 4] = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let src = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let root = source(&src.join("lib.rs"));
    let exported: Vec<&str> = root
        .lines()
        .filter_map(|line| line.strip_prefix("pub use "))
        .flat_map(|line| line.split([':', '{', '}', ',', ';', ' ']))
        .collect();
    let mut types = 0;
    for module in root.lines().filter_map(|line| named(line, &["pub mod "])) {
        for line in source(&src.join(format!("{module}.rs"))).lines() {
            if let Some(name) = named(line, &TYPES) {
                assert!(exported.contains(&name.as_str()), "{module}::{name} is not at the root");
                types += 1;
            }
        }
    }
    assert!(types > 30, "{types} types were found");
}
