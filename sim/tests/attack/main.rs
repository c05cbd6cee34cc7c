//! `picklock attack` as its user meets it. In one program, as most of an attack is waiting.

mod busy;
#[path = "../cli_support/mod.rs"]
mod cli_support;
mod followed;
mod oracle;
mod orders;

use std::path::Path;

/// A file of the examples in shell.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/attack/shell").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}
