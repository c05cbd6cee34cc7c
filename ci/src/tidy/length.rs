//! No Rust file is so long that a reader loses the thread.

use super::finding::Finding;
use super::tree::Tree;

/// Beyond this a file wants splitting.
const MOST: usize = 500;
/// Beyond this it is worth a thought.
const MANY: usize = 400;
/// A `main.rs` starts things and decides the exit code; the rest has a file of its own.
const MOST_IN_MAIN: usize = 60;

/// Finds files that are too long.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let lines = file.text.lines().count();
        if lines > MOST {
            let what = format!("{lines} lines, {MOST} are the most: split the file by subject");
            findings.push(Finding::new(&file.path, MOST + 1, what));
        } else if file.name() == "main.rs" && lines > MOST_IN_MAIN {
            let what = format!(
                "{lines} lines, {MOST_IN_MAIN} are the most in main.rs: move the rest into a module"
            );
            findings.push(Finding::new(&file.path, MOST_IN_MAIN + 1, what));
        }
    }
    findings
}

/// Names files that will soon be too long.
pub fn notes(tree: &Tree) -> Vec<Finding> {
    let lengths = tree.rust().map(|(file, _)| (file, file.text.lines().count()));
    let long = lengths.filter(|&(_, lines)| lines > MANY && lines <= MOST);
    long.map(|(file, lines)| {
        let what = format!("{lines} lines; past {MOST} the file must be split");
        Finding::new(&file.path, lines, what)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, lines: usize) -> Tree {
        Tree::new([(path, "\n".repeat(lines))])
    }

    #[test]
    fn both_sides_of_each_limit() {
        for (path, lines, wrong) in [
            ("a.rs", 500, false),
            ("a.rs", 501, true),
            ("main.rs", 60, false),
            ("main.rs", 61, true),
            ("a.toml", 501, false),
        ] {
            assert_eq!(!check(&tree(path, lines)).is_empty(), wrong, "{path} {lines}");
        }
    }

    #[test]
    fn notes_stand_between_the_limits() {
        for (lines, noted) in [(400, false), (401, true), (500, true), (501, false)] {
            assert_eq!(!notes(&tree("a.rs", lines)).is_empty(), noted, "{lines}");
        }
    }
}
