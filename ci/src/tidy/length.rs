//! No Rust file is so long that a reader loses the thread, and no package so large that nobody
//! knows all of it.

use super::Diagnostic;
use crate::tree::Tree;

/// Beyond this a file wants splitting.
const MOST: usize = 500;
/// Beyond this it is worth a thought.
const MANY: usize = 400;
/// A `main.rs` starts things and decides the exit code; the rest has a file of its own.
const MOST_IN_MAIN: usize = 60;

/// The most lines of Rust in a package, tests apart, and in one of the packages under `sim/`.
const MOST_IN_PACKAGE: usize = 15_000;
const MOST_UNDER_SIM: usize = 10_000;

/// Finds files and packages that are too long.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut findings: Vec<Diagnostic> =
        tree.packages.iter().filter_map(|dir| check_package(tree, dir)).collect();
    for (file, _) in tree.rust() {
        let lines = file.text.lines().count();
        if lines > MOST {
            let what = format!("{lines} lines, {MOST} are the most: split the file by subject");
            findings.push(Diagnostic::new(&file.path, MOST + 1, what));
        } else if file.name() == "main.rs" && lines > MOST_IN_MAIN {
            let what = format!(
                "{lines} lines, {MOST_IN_MAIN} are the most in main.rs: move the rest into a module"
            );
            findings.push(Diagnostic::new(&file.path, MOST_IN_MAIN + 1, what));
        }
    }
    findings
}

fn check_package(tree: &Tree, dir: &str) -> Option<Diagnostic> {
    let files = tree.rust().filter(|(file, _)| !file.is_test && tree.package_of(file) == Some(dir));
    let lines: usize =
        files.map(|(file, source)| file.text.lines().count() - source.lines_of_tests()).sum();
    let under_sim = dir.split('/').next() == Some("sim");
    let most = if under_sim { MOST_UNDER_SIM } else { MOST_IN_PACKAGE };
    let what =
        format!("{lines} lines without tests, {most} are the most in this package: split it");
    (lines > most).then(|| Diagnostic::new(&format!("{dir}/Cargo.toml"), 1, what))
}

/// Names files that will soon be too long.
pub(super) fn notes(tree: &Tree) -> Vec<Diagnostic> {
    let lengths = tree.rust().map(|(file, _)| (file, file.text.lines().count()));
    let long = lengths.filter(|&(_, lines)| lines > MANY && lines <= MOST);
    long.map(|(file, lines)| {
        let what = format!("{lines} lines; past {MOST} the file must be split");
        Diagnostic::new(&file.path, lines, what)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_each_limit() {
        for (path, lines, wrong, noted) in [
            ("a.rs", 400, false, false),
            ("a.rs", 401, false, true),
            ("a.rs", 500, false, true),
            ("a.rs", 501, true, false),
            ("main.rs", 60, false, false),
            ("main.rs", 61, true, false),
            ("a.toml", 501, false, false),
        ] {
            let tree = Tree::new([(path, "\n".repeat(lines))]);
            assert_eq!(!check(&tree).is_empty(), wrong, "{path} {lines}");
            assert_eq!(!notes(&tree).is_empty(), noted, "{path} {lines}");
        }
    }

    #[test]
    fn both_sides_of_the_limits_of_packages() {
        for (dir, most) in
            [("a", MOST_IN_PACKAGE), ("sim", MOST_UNDER_SIM), ("sim/b", MOST_UNDER_SIM)]
        {
            for (more, wrong) in [(0, false), (1, true)] {
                let nested = format!("{dir}/nested");
                let tree = Tree::new([
                    (format!("{dir}/Cargo.toml"), "[package]\n".to_owned()),
                    (format!("{dir}/src/a.rs"), "\n".repeat(400)),
                    (format!("{dir}/src/b.rs"), "\n".repeat(most - 401 + more)),
                    (format!("{dir}/src/c.rs"), "fn f() {}\n#[cfg(test)]\nmod t {\n}\n".to_owned()),
                    (format!("{dir}/src/d_tests.rs"), "\n".repeat(400)),
                    (format!("{dir}/tests/e.rs"), "\n".repeat(400)),
                    (format!("{nested}/Cargo.toml"), "[package]\n".to_owned()),
                    (format!("{nested}/src/f.rs"), "\n".repeat(400)),
                ]);
                let said = check(&tree);
                let manifest = format!("{dir}/Cargo.toml");
                assert_eq!(said.iter().any(|finding| finding.path == manifest), wrong, "{said:?}");
            }
        }
    }
}
