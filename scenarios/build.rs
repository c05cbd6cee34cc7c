//! Lists the scenarios of `catalog/`, so that adding one is adding its file.
//!
//! Invariant: they are listed by name, whatever order the file system has.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=catalog");
    let mut names = Vec::new();
    for file in fs::read_dir("catalog")? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().and_then(|name| name.to_str());
            names.push(name.ok_or_else(|| format!("{path:?} has no name in UTF-8"))?.to_owned());
        }
    }
    names.sort_unstable();
    let row = |name: &String| {
        let path = format!(r#"concat!(env!("CARGO_MANIFEST_DIR"), "/catalog/{name}.toml")"#);
        format!("    ({name:?}, include_str!({path})),\n")
    };
    let rows: String = names.iter().map(row).collect();
    let head = "/// Name and text of every scenario, in the order in which they are shown.";
    let list = format!("{head}\npub static ALL: [(&str, &str); {}] = [\n{rows}];\n", names.len());
    fs::write(Path::new(&env::var("OUT_DIR")?).join("catalog.rs"), list)?;
    Ok(())
}
