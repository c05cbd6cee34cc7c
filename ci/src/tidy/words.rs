//! Words that no file of the project may contain: paths of somebody's machine, placeholders, and
//! hosts of package registries (a mirror or a proxy must be able to stand in for them). Nor may a
//! Rust file, or a name in it, be called by a word for which the field has another.
//!
//! The words are put together from pieces, so that this file passes its own check.

use super::diagnostic::Diagnostic;
use super::tree::{File, Tree};
use crate::rust::{close, line_of, skip_space, word_at, words};

/// Directories of one machine.
const PLACES: [&str; 3] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/bash", "_jobs")];
const HOMES: &str = concat!("/ho", "me/");
const PLACEHOLDERS: [&str; 4] =
    [concat!("to", "do!"), concat!("unimple", "mented!"), concat!("FIX", "ME"), concat!("XX", "X")];
const REGISTRIES: [&str; 12] = [
    concat!("crates", ".io"),
    concat!("docs", ".rs"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("registry.npm", "js.org"),
    concat!("rubygems", ".org"),
    concat!("proxy.go", "lang.org"),
    concat!("sum.go", "lang.org"),
    concat!("repo.maven", ".apache.org"),
    concat!("repo1.maven", ".org"),
    concat!("deb.deb", "ian.org"),
    concat!("archive.ubu", "ntu.com"),
];

/// Words that no name in Rust has in it, and what to say.
const TERMS: [(&str, &str); 9] = [
    ("astray", "ambiguous"),
    ("audience", "pubsub"),
    ("befall", "strike"),
    ("companion", "slot key"),
    ("crew", "clients"),
    ("dial", "connect"),
    ("ears", "subscriber"),
    ("errand", "server operation"),
    ("travel", "latency"),
];
/// What may follow them.
const ENDINGS: [&str; 5] = ["", "s", "ed", "en", "ing"];

/// Finds forbidden words in every text file, `Cargo.lock` excepted: cargo writes it.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let written_by_us = tree.files.iter().filter(|file| file.name() != "Cargo.lock");
    written_by_us.flat_map(|file| [lines(file), ignored(file), terms(file)].concat()).collect()
}

fn lines(file: &File) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for (place, line) in file.text.lines().enumerate() {
        let said = machine_path(line)
            .map(|path| {
                format!("`{path}` is a path of one machine: use a relative or a temporary one")
            })
            .into_iter()
            .chain(
                placeholder(line).map(|word| format!("`{word}`: finish it, or say what is absent")),
            )
            .chain(registry(line).map(|host| {
                format!(
                    "`{host}` is the host of a package registry: name the package, not the host"
                )
            }));
        findings.extend(said.map(|what| Diagnostic::new(&file.path, place + 1, what)));
    }
    findings
}

/// A path counts from its root only: `./a` and `${dir}/a` are somebody else's choice.
fn machine_path(line: &str) -> Option<String> {
    let from_root =
        |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.})*~%$".contains(c));
    for place in PLACES {
        if line.match_indices(place).any(|(at, _)| from_root(at)) {
            return Some(place.to_owned());
        }
    }
    line.match_indices(HOMES).find_map(|(at, _)| {
        let after = &line[at + HOMES.len()..];
        let user: String =
            after.chars().take_while(|&c| c.is_alphanumeric() || "_-.".contains(c)).collect();
        (from_root(at) && !user.is_empty()).then(|| format!("{HOMES}{user}"))
    })
}

fn placeholder(line: &str) -> Option<&'static str> {
    PLACEHOLDERS.into_iter().find(|word| words(line, word).next().is_some())
}

/// A host stands alone or under a subdomain; a longer name that only begins like it is another.
fn registry(line: &str) -> Option<&'static str> {
    REGISTRIES.into_iter().find(|host| {
        words(line, host)
            .any(|at| !line[..at].ends_with('-') && !line[at + host.len()..].starts_with('-'))
    })
}

/// A test that is left out says why.
fn ignored(file: &File) -> Vec<Diagnostic> {
    let Some(source) = &file.rust else { return Vec::new() };
    let bare = words(&source.code, "ignore").filter(|&at| {
        let before = source.code[..at].trim_end();
        let attribute = before.ends_with("#[")
            || (before.ends_with(',') && in_attribute(&source.code, at, "cfg_attr"));
        let after = skip_space(&source.code, at + word_at(&source.code, at).len());
        attribute && !source.code[after..].starts_with('=')
    });
    let what = "an ignored test without a reason: write #[ignore = \"why\"]";
    bare.map(|at| Diagnostic::new(&file.path, line_of(&file.text, at), what)).collect()
}

/// Each term once a file, in its path or where a name has it first.
fn terms(file: &File) -> Vec<Diagnostic> {
    let Some(source) = &file.rust else { return Vec::new() };
    let found = TERMS.into_iter().filter_map(|(term, say)| {
        let in_code = || Some(line_of(&file.text, named(&source.code, term)?));
        let line = named(&file.path, term).map(|_| 1).or_else(in_code)?;
        Some(Diagnostic::new(&file.path, line, format!("`{term}` in a name: say {say}")))
    });
    found.collect()
}

/// Where a part of a name is first this word.
fn named(text: &str, word: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(word).map(|(at, _)| at).find(|&at| {
        let hump = text[at..].starts_with(|c: char| c.is_ascii_uppercase())
            && text[..at].ends_with(|c: char| c.is_ascii_lowercase());
        let begins = hump || !text[..at].ends_with(|c: char| c.is_ascii_alphabetic());
        let rest = &text[at + word.len()..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
        begins && ENDINGS.contains(&&rest[..end])
    })
}

fn in_attribute(code: &str, at: usize, name: &str) -> bool {
    code[..at].rfind("#[").is_some_and(|start| {
        code[start + 2..].trim_start().starts_with(name) && close(code, start + 1) > at
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::new([(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_word_is_found_in_every_kind_of_file() {
        let all = PLACES.iter().chain(&PLACEHOLDERS).chain(&REGISTRIES);
        for word in all.copied().map(str::to_owned).chain([format!("{HOMES}ann/a")]) {
            for path in ["a.rs", "README.md", "ci/test", "a.yaml"] {
                assert_eq!(found(path, &format!("one\n// see `{word}` there\n")), [2], "{word}");
            }
        }
    }

    #[test]
    fn paths_of_nobody_pass() {
        for (before, place) in [(".", PLACES[0]), ("net", PLACES[0]), ("${dir}", PLACES[1])] {
            assert_eq!(found("a.md", &format!("{before}{place}a")), [0; 0], "{before}{place}");
        }
        assert_eq!(found("a.md", &format!("under {HOMES} there are users")), [0; 0]);
        assert_eq!(found("a.md", "work/a /tmp/a /usr/bin"), [0; 0]);
    }

    #[test]
    fn words_that_only_look_alike_pass() {
        let longer_marker = PLACEHOLDERS[3].repeat(2);
        let index = format!("{}-index", REGISTRIES[0]);
        for text in
            [&*format!("mktemp a.{longer_marker}"), &*index, "todo = \"warn\"", "mydocs.rsx"]
        {
            assert_eq!(found("a.md", text), [0; 0], "{text}");
        }
    }

    #[test]
    fn hosts_are_found_in_addresses() {
        let address = format!("https://index.{}/config.json", REGISTRIES[0]);
        assert_eq!(found("a.toml", &address), [1]);
    }

    #[test]
    fn the_lock_file_is_not_looked_at() {
        assert_eq!(found("Cargo.lock", REGISTRIES[0]), [0; 0]);
    }

    #[test]
    fn a_test_left_out_says_why() {
        let bad = "#[test]\n#[ignore]\nfn a() {}\n#[cfg_attr(miri, ignore)]\nfn b() {}";
        assert_eq!(found("a.rs", bad), [2, 4]);
        let good = "#[ignore = \"needs a cluster\"]\nfn a() { f(x, ignore); [ignore] }\n// #[ignore]\n\
            #[cfg_attr(miri, ignore = \"slow\")]";
        assert_eq!(found("a.rs", good), [0; 0]);
    }

    #[test]
    fn a_term_is_found_as_a_part_of_a_name() {
        for (path, text, line) in [
            ("a/dial.rs", "", 1),
            ("travels/a.rs", "", 1),
            ("a.rs", "\nfn a_travel_ns() {}", 2),
            ("a.rs", "\n\nstruct HasErrands;", 3),
            ("a.rs", "fn is_befallen(dialing: u8) {}", 1),
            ("a.rs", "const AT_EARS: u8 = 1;", 1),
        ] {
            assert_eq!(found(path, text).first(), Some(&line), "{path} {text}");
        }
        for text in ["dialect, clears, YEARS, Gears", "// ears", "\"crew\"", "unbefallen"] {
            assert_eq!(found("a.rs", text), [0; 0], "{text}");
            assert_eq!(found("ears.md", text), [0; 0], "{text}");
        }
    }
}
