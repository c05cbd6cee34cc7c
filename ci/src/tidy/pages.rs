//! What the pages lead to is there: the files and headings of their links, every page of the book in
//! its summary, and every path that the pages for contributors name in backticks. Links of the book stay in
//! the book: rendered, it has no other files.
//!
//! A path is written from the root, so that it can be checked and found. Fenced blocks are not looked
//! at, nor are names with a placeholder such as `<name>`.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::Diagnostic;
use crate::tree::{File, Tree};

const BOOK: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
const FRONT: [&str; 3] = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"];
/// The pages whose paths in backticks are files of the tree.
const NAME_FILES: [&str; 2] = ["CONTRIBUTING.md", "ARCHITECTURE.md"];
/// The endings by which a bare name in backticks is a file of the tree.
const ENDINGS: [&str; 3] = [".rs", ".toml", ".md"];

/// Finds links and paths that lead nowhere, and pages that the summary leaves out.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let in_book = |file: &&File| file.dir() == BOOK && file.name().ends_with(".md");
    let in_front = |file: &&File| FRONT.contains(&file.path.as_str());
    let pages = tree.files.iter().filter(|file| in_front(file) || in_book(file));
    let mut findings: Vec<Diagnostic> = pages.flat_map(|page| check_page(tree, page)).collect();
    if let Some(summary) = tree.get(SUMMARY) {
        let prose = Prose::new(&summary.text);
        let listed = |page: &File| prose.links.iter().any(|(_, target)| target == page.name());
        let left_out = tree.files.iter().filter(in_book);
        for page in left_out.filter(|page| page.path != SUMMARY && !listed(page)) {
            let what = format!("{} is not in the summary of the book: add it", page.path);
            findings.push(Diagnostic::new(SUMMARY, 1, what));
        }
    }
    findings
}

fn check_page(tree: &Tree, page: &File) -> Vec<Diagnostic> {
    let prose = Prose::new(&page.text);
    let names_files = NAME_FILES.contains(&page.path.as_str());
    let links = prose.links.iter().map(|(at, target)| (at, dead_link(tree, page, target)));
    let code = prose.code.iter().filter(|_| names_files);
    let all = links.chain(code.map(|(at, code)| (at, dead_path(tree, code))));
    all.filter_map(|(at, what)| Some(Diagnostic::new(&page.path, page.line_of(*at), what?)))
        .collect()
}

/// What is wrong with a link; other sites are not asked.
fn dead_link(tree: &Tree, page: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.path.clone() } else { joined(page.dir(), path) };
    if !tree.has(&path) {
        return Some(format!("broken link to {target}: there is no {path}"));
    }
    if page.dir() == BOOK && !path.starts_with(&format!("{BOOK}/")) {
        return Some(format!("broken link to {target}: it leaves the book, so write `{path}`"));
    }
    let to = tree.get(&path).filter(|to| !anchor.is_empty() && to.name().ends_with(".md"))?;
    (!Prose::new(&to.text).anchors.iter().any(|heading| heading == anchor))
        .then(|| format!("broken link to {target}: {path} has no such heading"))
}

/// `path` as seen from the directory, from the root.
fn joined(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// What is wrong with a path in backticks; nothing where it is no path.
fn dead_path(tree: &Tree, span: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !span.chars().all(plain) || span.starts_with(['/', '.']) {
        return None;
    }
    let Some((_, name)) = span.rsplit_once('/') else {
        let is_file = ENDINGS.iter().any(|ending| span.ends_with(ending));
        let there = tree.files.iter().any(|file| file.name() == span);
        return (is_file && !there)
            .then(|| format!("no file is called {span}: name one that exists"));
    };
    let first = span.split('/').next().unwrap_or_default();
    let is_path = name.is_empty() || name.contains('.') || tree.has(first);
    if !is_path || tree.has(span.trim_end_matches('/')) {
        return None;
    }
    let longer = tree.files.iter().find(|file| file.path.ends_with(&format!("/{span}")));
    Some(match longer {
        Some(file) => format!("there is no {span}: write the path from the root, {}", file.path),
        None => format!("there is no {span}: name a file that exists, from the root"),
    })
}

/// What a page leads to, with the offsets; fenced blocks apart.
#[derive(Default)]
struct Prose {
    /// The targets of links and pictures.
    links: Vec<(usize, String)>,
    /// What stands in backticks.
    code: Vec<(usize, String)>,
    /// What a link to one of the headings ends with, after the `#`.
    anchors: Vec<String>,
}

impl Prose {
    fn new(text: &str) -> Self {
        let mut prose = Self::default();
        let mut heading = String::new();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    prose.links.push((range.start, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading.clear(),
                Event::End(TagEnd::Heading(_)) => {
                    let words = heading.to_lowercase().replace(' ', "-");
                    let kept = |c: &char| c.is_alphanumeric() || "-_".contains(*c);
                    prose.anchors.push(words.chars().filter(kept).collect());
                }
                Event::Code(code) => {
                    heading.push_str(&code);
                    prose.code.push((range.start, code.into_string()));
                }
                Event::Text(text) => heading.push_str(&text),
                _ => {}
            }
        }
        prose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a tree with a few files and this one.
    fn said(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::new([
            ("README.md", "# A `b` & C_d: e!\n```\n# not one\n```\n## Twice"),
            ("a/src/b.rs", ""),
            ("docs/a.md", "[to](b.svg)"),
            ("docs/b.svg", ""),
            (path, text),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_leads_to_a_file_a_directory_or_a_heading() {
        for good in [
            "[x](README.md)",
            "[x](./docs/a.md)",
            "[x](docs)",
            "[x](docs/b.svg#x)",
            "[x](README.md#a-b--c_d-e)",
            "[x](#here)",
            "[x](https://example.org/none.md)",
            "[x](mailto:a@example.org)",
            "[x](README.md \"with a title\")",
            "![y](docs/b.svg)",
            "`[x](none)` ``[`](none)``",
            "```text\n[x](none)\n```",
            "`a\n[x](none) b`",
        ] {
            assert_eq!(said("ARCHITECTURE.md", &format!("# Here\n{good}")), [""; 0], "{good}");
        }
        for target in ["none.md", "REA", "README.md#none", "README.md#not-one", "#none", "../c/"] {
            for page in ["CONTRIBUTING.md", "ARCHITECTURE.md", "docs/c.md"] {
                for text in [format!("# Here\n\n[`y`]({target})"), format!("#\n\n![]({target})")] {
                    let said = said(page, &text);
                    let place = format!("{page}:3: broken link to {target}: ");
                    assert!(said.len() == 1 && said[0].starts_with(&place), "{text} {said:?}");
                }
            }
        }
        assert_eq!(said("a/none.md", "[x](none)"), [""; 0]);
        assert_eq!(said("docs/c.md", "[x](a.md) [y](#z)\n# z"), [""; 0]);
        let expected =
            "docs/c.md:1: broken link to ../README.md: it leaves the book, so write `README.md`";
        assert_eq!(said("docs/c.md", "[x](../README.md)"), [expected]);
    }

    #[test]
    fn paths_in_backticks_are_there() {
        for good in [
            "a/src/b.rs",
            "a/src",
            "a/",
            "b.rs",
            "README.md",
            "a/src/<name>.rs",
            "none/of/ours",
            "*.rs",
            "redis://host/0.x",
            "a b/c.rs",
            "/usr/b.so",
            ".rs",
            "result.json",
            "a::b",
        ] {
            assert_eq!(said("CONTRIBUTING.md", &format!("See `{good}`.")), [""; 0], "{good}");
        }
        for bad in ["src/b.rs", "src/", "a/none", "none.rs", "none.toml", "a/src/b", "a/none.rs"] {
            for page in NAME_FILES {
                let said = said(page, &format!("\nSee `{bad}`."));
                let found = said.len() == 1 && said[0].starts_with(&format!("{page}:2: "));
                assert!(found, "{bad} {said:?}");
            }
            assert_eq!(said("docs/c.md", &format!("See `{bad}`.")), [""; 0]);
        }
    }

    #[test]
    fn the_summary_lists_every_page() {
        assert_eq!(said(SUMMARY, "- [A](a.md)"), [""; 0]);
        let expected = format!("{SUMMARY}:1: docs/a.md is not in the summary of the book: add it");
        assert_eq!(said(SUMMARY, "- [B](b.svg) `[A](a.md)`"), [expected]);
    }
}
