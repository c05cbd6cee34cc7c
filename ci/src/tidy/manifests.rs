//! Every member inherits from the workspace, and every dependency says in a line why it is there.

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::Diagnostic;
use crate::tree::{File, Tree};

const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];
const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Finds members that do not inherit, and dependencies without a reason.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    manifests.filter_map(check_manifest).flatten().collect()
}

/// Nothing for a manifest without a package, such as the root's, for a package that is a workspace of its own, and for
/// one that cargo refuses.
fn check_manifest(file: &File) -> Option<Vec<Diagnostic>> {
    let manifest = DeTable::parse(&file.text).ok()?.into_inner();
    if manifest.contains_key("workspace") {
        return None;
    }
    let (key, package) = manifest.get_key_value("package")?;
    let mut findings = Vec::new();
    let mut say =
        |at: usize, what| findings.push(Diagnostic::new(&file.path, file.line_of(at), what));
    for inherited in INHERITED {
        if !inherits(package.get_ref().get(inherited)) {
            let write = format!("write {inherited}.workspace = true");
            say(key.span().start, format!("the package does not inherit {inherited}: {write}"));
        }
    }
    if !inherits(manifest.get("lints")) {
        let what = "the package does not inherit lints: add [lints] with workspace = true";
        say(key.span().start, what.to_owned());
    }
    let targets = manifest.get("target").and_then(|targets| targets.get_ref().as_table());
    let targets = targets.into_iter().flat_map(DeTable::values);
    let tables = targets.filter_map(|target| target.get_ref().as_table()).chain([&manifest]);
    let lists = tables.flat_map(|table| KINDS.map(|kind| table.get(kind))).flatten();
    for (name, value) in lists.filter_map(|list| list.get_ref().as_table()).flatten() {
        if let Some(what) = dependency(&file.text, name, value) {
            say(name.span().start, what);
        }
    }
    Some(findings)
}

/// True for `x.workspace = true` and `x = { workspace = true }`, by the value of `x`.
fn inherits(value: Option<&Spanned<DeValue<'_>>>) -> bool {
    let workspace = value.and_then(|value| value.get_ref().get("workspace"));
    workspace.and_then(|workspace| workspace.get_ref().as_bool()) == Some(true)
}

/// What is wrong with a dependency.
fn dependency(
    text: &str,
    key: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
) -> Option<String> {
    let name = key.get_ref();
    let line = text[..key.span().start].rsplit('\n').next().unwrap_or_default();
    if line.starts_with('[') {
        return Some("a dependency as a table: write it on one line, with its reason".to_owned());
    }
    if !inherits(Some(value)) {
        let what = "name its version in the root and write";
        return Some(format!("{name} does not inherit: {what} {name}.workspace = true"));
    }
    // The reason is a comment, which the parser leaves out.
    let after = text[end(value)..].lines().next().unwrap_or_default();
    let reason = after.split_once('#').map_or("", |(_, reason)| reason);
    (!reason.contains(char::is_alphanumeric))
        .then(|| format!("{name} has no reason: say on its line, after #, what it is needed for"))
}

/// Where a value ends. The span of `x` in `x.workspace = true` is that of its key alone.
fn end(value: &Spanned<DeValue<'_>>) -> usize {
    let parts = value.get_ref().as_table().into_iter().flat_map(DeTable::values);
    parts.map(|part| part.span().end).fold(value.span().end, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[package]
name = \"a\"
version.workspace = true
edition.workspace = true
rust-version = { workspace = true }
license.workspace = true

[features]
x = [\"dep:b\"]

[dependencies]
b.workspace = true # it is # needed
c = { workspace = true, features = [
    \"d#e\",
] } # the part we use

[target.'cfg(unix)'.dev-dependencies]
f = { workspace = true } # signals

[lints]
workspace = true
";

    /// What is said of the good manifest with something replaced.
    fn said(from: &str, to: &str) -> Vec<String> {
        assert!(GOOD.contains(from), "{from}");
        let tree = Tree::new([("a/Cargo.toml", GOOD.replacen(from, to, 1))]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_manifest_passes_and_the_root_is_not_looked_at() {
        assert_eq!(said("", ""), [""; 0]);
        assert_eq!(said("[lints]\nworkspace", "[lints]\n\"workspace\""), [""; 0]);
        let root = "[workspace.dependencies]\na = \"1\"\n";
        assert_eq!(check(&Tree::new([("Cargo.toml", root)])), []);
    }

    #[test]
    fn each_breach_is_found() {
        for (from, to, line, what) in [
            ("version.workspace = true", "version.workspace = false", 1, "inherit version:"),
            ("edition.workspace = true", "edition = \"2024\"", 1, "inherit edition:"),
            ("rust-version = { workspace = true }", "", 1, "inherit rust-version:"),
            ("license.workspace", "licence.workspace", 1, "inherit license:"),
            ("[lints]\nworkspace = true", "", 1, "inherit lints:"),
            (" # it is # needed", " #", 12, "b has no reason"),
            (" # the part we use", "", 13, "c has no reason"),
            (" # signals", "\n# signals", 18, "f has no reason"),
            ("b.workspace = true", "b = \"1\"", 12, "b does not inherit"),
            ("f = { workspace = true }", "f = { path = \"../f\" }", 18, "f does not inherit"),
            ("[lints]", "[dependencies.g]\nworkspace = true\n[lints]", 20, "as a table"),
            (
                "[lints]",
                "[target.a.build-dependencies.g]\nworkspace = true\n[lints]",
                20,
                "as a table",
            ),
        ] {
            let said = said(from, to);
            assert_eq!(said.len(), 1, "{to}: {said:?}");
            assert!(said[0].starts_with(&format!("a/Cargo.toml:{line}: ")), "{said:?}");
            assert!(said[0].contains(what), "{said:?}");
        }
    }
}
