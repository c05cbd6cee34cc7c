//! Every member inherits from the workspace, and every dependency says in a line why it is there.
//!
//! Read as text, not as TOML, because the reason is a comment.

use super::diagnostic::Diagnostic;
use super::tree::{File, Tree};

const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];
const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Finds members that do not inherit, and dependencies without a reason.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    manifests.filter_map(check_manifest).flatten().collect()
}

/// Nothing for a manifest without a package, such as the root's.
fn check_manifest(file: &File) -> Option<Vec<Diagnostic>> {
    let entries = entries(&file.text);
    let package = entries.iter().find(|entry| entry.section == "package")?;
    let mut findings = Vec::new();
    for key in INHERITED {
        if !entries.iter().any(|entry| entry.section == "package" && entry.inherits(key)) {
            let what = format!("the package does not inherit {key}: write {key}.workspace = true");
            findings.push(Diagnostic::new(&file.path, package.line, what));
        }
    }
    let lints = |entry: &ManifestEntry<'_>| {
        (entry.section == "lints" && entry.code == "workspace=true")
            || (entry.section.is_empty() && entry.inherits("lints"))
    };
    if !entries.iter().any(lints) {
        let what = "the package does not inherit lints: add [lints] with workspace = true";
        findings.push(Diagnostic::new(&file.path, package.line, what));
    }
    for entry in &entries {
        if let Some(what) = dependency(entry) {
            findings.push(Diagnostic::new(&file.path, entry.line, what));
        }
    }
    Some(findings)
}

/// What is wrong with a dependency; nothing for other entries.
fn dependency(entry: &ManifestEntry<'_>) -> Option<String> {
    let name = entry.key();
    match kind(entry.section) {
        SectionKind::Other => None,
        // The header itself is an entry without code.
        SectionKind::Table if entry.code.is_empty() => {
            Some("a dependency as a table: write it on one line, with its reason".to_owned())
        }
        SectionKind::Table => None,
        SectionKind::List if entry.code.is_empty() => None,
        SectionKind::List if !entry.code.contains("workspace=true") => Some(format!(
            "{name} does not inherit: name its version in the root and write {name}.workspace = true"
        )),
        SectionKind::List if !entry.reason.contains(char::is_alphanumeric) => {
            Some(format!("{name} has no reason: say on its line, after #, what it is needed for"))
        }
        SectionKind::List => None,
    }
}

enum SectionKind {
    /// `[dependencies]`, perhaps of a target.
    List,
    /// `[dependencies.name]`.
    Table,
    Other,
}

fn kind(section: &str) -> SectionKind {
    let of_target = section.starts_with("target.");
    let list =
        |kind: &str| section == kind || (of_target && section.ends_with(&format!(".{kind}")));
    let table = |kind: &str| {
        section.starts_with(&format!("{kind}."))
            || (of_target && section.contains(&format!(".{kind}.")))
    };
    if KINDS.into_iter().any(list) {
        SectionKind::List
    } else if KINDS.into_iter().any(table) {
        SectionKind::Table
    } else {
        SectionKind::Other
    }
}

/// A `key = value`, or a section's header, which has no code.
struct ManifestEntry<'a> {
    line: usize,
    section: &'a str,
    /// Without white space.
    code: String,
    /// The comments on its lines.
    reason: String,
}

impl ManifestEntry<'_> {
    fn key(&self) -> &str {
        let key = self.code.split('=').next().unwrap_or_default();
        key.strip_suffix(".workspace").unwrap_or(key)
    }

    fn inherits(&self, key: &str) -> bool {
        let rest = self.code.strip_prefix(key);
        rest.is_some_and(|rest| rest == ".workspace=true" || rest == "={workspace=true}")
    }
}

fn entries(text: &str) -> Vec<ManifestEntry<'_>> {
    let mut entries: Vec<ManifestEntry<'_>> = Vec::new();
    let mut section = "";
    let mut depth = 0;
    for (place, line) in text.lines().enumerate() {
        let (code, comment) = split_comment(line);
        if depth > 0 {
            // A list of features over several lines.
            if let Some(entry) = entries.last_mut() {
                entry.code.extend(code.split_whitespace());
                entry.reason.push_str(comment);
            }
        } else if code.trim().starts_with('[') {
            section = code.trim().trim_matches(['[', ']']).trim();
            let line = place + 1;
            entries.push(ManifestEntry {
                line,
                section,
                code: String::new(),
                reason: String::new(),
            });
            continue;
        } else if !code.trim().is_empty() {
            let code = code.split_whitespace().collect();
            entries.push(ManifestEntry {
                line: place + 1,
                section,
                code,
                reason: comment.to_owned(),
            });
        }
        depth += balance(code);
    }
    entries
}

/// The parts of a line before and after its `#`; one inside a string begins no comment.
fn split_comment(line: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return (&line[..at], &line[at + 1..]),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    (line, "")
}

/// Brackets opened less brackets closed, those inside strings apart.
fn balance(code: &str) -> i32 {
    let mut quote = None;
    let mut depth = 0;
    for c in code.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            _ => {}
        }
    }
    depth
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
    \"d#e\", # the part we use
] }

[target.'cfg(unix)'.dev-dependencies]
f = { workspace = true } # signals

[lints]
workspace = true
";

    fn found(text: &str) -> Vec<(usize, String)> {
        let tree = Tree::new([("a/Cargo.toml", text)]);
        check(&tree).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn a_good_manifest_passes() {
        assert_eq!(found(GOOD), []);
        assert_eq!(found(&GOOD.replace("[lints]\nworkspace = true", "")).len(), 1);
        let dotted =
            format!("lints.workspace = true\n{}", GOOD.replace("[lints]\nworkspace = true", ""));
        assert_eq!(found(&dotted), []);
    }

    #[test]
    fn each_key_must_be_inherited() {
        for line in ["version.workspace", "edition.workspace", "license.workspace"] {
            let text = GOOD.replace(&format!("\n{line} = true"), &format!("\n{line} = false"));
            assert_eq!(found(&text).len(), 1, "{line}");
        }
        let text = GOOD.replace("rust-version = { workspace = true }", "rust-version = \"1.88\"");
        assert!(found(&text)[0].1.contains("rust-version"));
    }

    #[test]
    fn each_dependency_needs_a_reason() {
        for (reason, line) in
            [(" # it is # needed", 12), (" # the part we use", 13), (" # signals", 18)]
        {
            let said = found(&GOOD.replace(reason, " #"));
            assert!(
                said.len() == 1 && said[0].0 == line && said[0].1.contains("reason"),
                "{said:?}"
            );
        }
    }

    #[test]
    fn each_dependency_inherits() {
        let said = found(&GOOD.replace("b.workspace = true", "b = \"1\""));
        assert!(said.len() == 1 && said[0].1.contains("b does not inherit"), "{said:?}");
        let said = found(&GOOD.replace("f = { workspace = true }", "f = { path = \"../f\" }"));
        assert!(said.len() == 1 && said[0].1.contains("f does not inherit"), "{said:?}");
    }

    #[test]
    fn a_dependency_is_no_table() {
        for header in ["dependencies.g", "target.'cfg(unix)'.build-dependencies.g"] {
            let text = format!("{GOOD}\n[{header}]\nworkspace = true\n");
            assert_eq!(found(&text).len(), 1, "{header}");
        }
    }

    #[test]
    fn the_root_names_versions_and_is_not_looked_at() {
        assert_eq!(found("[workspace.dependencies]\na = \"1\"\n"), []);
    }
}
