//! Words that no file of the project may contain: paths of somebody's machine, placeholders, and
//! hosts of package registries (a mirror or a proxy must be able to stand in for them). Nor may a
//! Rust file, or a name in it, be called by a word for which the field has another.
//!
//! The words are put together from pieces, so that this file passes its own check.

use super::Diagnostic;
use crate::tree::{File, Tree};

/// Directories of one machine.
const PLACES: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/bash", "_jobs"), HOMES];
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
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let written_by_us = tree.files.iter().filter(|file| file.name() != "Cargo.lock");
    written_by_us.flat_map(|file| [lines(file), terms(file)].concat()).collect()
}

fn lines(file: &File) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for (place, line) in file.text.lines().enumerate() {
        let mut say = |what: String| findings.push(Diagnostic::new(&file.path, place + 1, what));
        if let Some(path) = machine_path(line) {
            say(format!("`{path}` is a path of one machine: use a relative or a temporary one"));
        }
        if let Some(word) = PLACEHOLDERS.iter().find(|word| alone(line, word).next().is_some()) {
            say(format!("`{word}`: finish it, or say what is absent"));
        }
        if let Some(host) = REGISTRIES.iter().find(|host| names_host(line, host)) {
            say(format!(
                "`{host}` is the host of a package registry: name the package, not the host"
            ));
        }
    }
    findings
}

/// A path counts from its root only: `./a` and `${dir}/a` are somebody else's choice.
fn machine_path(line: &str) -> Option<&str> {
    let mut places = PLACES.iter().flat_map(|place| line.match_indices(place));
    let found = places.find(|(at, place)| {
        let before = &line[..*at];
        let from_root = !before.ends_with(|c: char| c.is_alphanumeric() || "_-.})*~%$".contains(c));
        let names_user = line[at + place.len()..].starts_with(char::is_alphanumeric);
        from_root && (*place != HOMES || names_user)
    });
    found.map(|(_, place)| place)
}

/// A host stands alone or under a subdomain; a longer name that only begins like it is another.
fn names_host(line: &str, host: &str) -> bool {
    let longer = |at: usize| line[..at].ends_with('-') || line[at + host.len()..].starts_with('-');
    alone(line, host).any(|at| !longer(at))
}

/// Where `needle` stands in `text` as a word of its own.
fn alone<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let touches_before = text[..at].ends_with(part_of_word);
        let after = &text[at + needle.len()..];
        // No letter makes a needle longer that ends with punctuation.
        let touches_after = needle.ends_with(part_of_word) && after.starts_with(part_of_word);
        !touches_before && !touches_after
    })
}

/// Each term once a file, in its path or where a name has it first.
fn terms(file: &File) -> Vec<Diagnostic> {
    let Some(source) = file.rust() else { return Vec::new() };
    let text = file.text.to_ascii_lowercase();
    let found = TERMS.into_iter().filter_map(|(term, say)| {
        let in_code = || {
            // Most files have none of the terms, and looking at every name takes a while.
            let names = source.tokens.iter().filter(|token| token.is_word());
            text.contains(term).then_some(names)?.find(|name| is_called(&name.text, term))
        };
        let line = if is_called(&file.path, term) { 1 } else { in_code()?.span.start().line };
        Some(Diagnostic::new(&file.path, line, format!("`{term}` in a name: say {say}")))
    });
    found.collect()
}

/// True where a part of a name is this word.
fn is_called(name: &str, word: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let hump = name[at..].starts_with(|c: char| c.is_ascii_uppercase())
            && name[..at].ends_with(|c: char| c.is_ascii_lowercase());
        let begins = hump || !name[..at].ends_with(|c: char| c.is_ascii_alphabetic());
        let rest = &name[at + word.len()..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
        begins && ENDINGS.contains(&&rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    fn found(path: &str, text: &str) -> Vec<usize> {
        findings(check, [(path, text)]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_word_is_found_in_every_kind_of_file() {
        let all = PLACES[..3].iter().chain(&PLACEHOLDERS).chain(&REGISTRIES);
        let address = format!("https://index.{}/config.json", REGISTRIES[0]);
        for word in all.copied().map(str::to_owned).chain([format!("{HOMES}ann/a"), address]) {
            for path in ["a.rs", "README.md", "ci/test", "a.yaml"] {
                assert_eq!(found(path, &format!("// one\n// see `{word}` there\n")), [2], "{word}");
            }
            assert_eq!(found("Cargo.lock", &word), [0; 0]);
        }
    }

    #[test]
    fn what_only_looks_alike_passes() {
        for text in [
            format!(".{}a", PLACES[0]),
            format!("net{}a", PLACES[0]),
            format!("${{dir}}{}a", PLACES[1]),
            format!("under {HOMES} there are users"),
            "work/a /tmp/a /usr/bin".to_owned(),
            format!("mktemp a.{}", PLACEHOLDERS[3].repeat(2)),
            format!("{}-index", REGISTRIES[0]),
            format!("my{}x", REGISTRIES[1]),
            "todo = \"warn\"".to_owned(),
            format!("my_{} {}s", PLACEHOLDERS[2], PLACEHOLDERS[2]),
        ] {
            assert_eq!(found("a.md", &text), [0; 0], "{text}");
        }
    }

    #[test]
    fn a_term_is_found_as_a_part_of_a_name() {
        for (path, text, line) in [
            ("a/dial.rs", "", 1),
            ("travels/a.rs", "", 1),
            ("a.rs", "\nfn a_travel_ns() {}", 2),
            ("a.rs", "\n\nstruct HasErrands;", 3),
            ("a.rs", "fn is_befallen() {}", 1),
            ("a.rs", "f!(a, dialing);", 1),
            ("a.rs", "const AT_EARS: u8 = 1;", 1),
        ] {
            assert_eq!(found(path, text), [line], "{path} {text}");
        }
        for text in
            ["use dialect::{clears, YEARS, Gears};", "// ears", "f!(\"crew\");", "use unbefallen;"]
        {
            assert_eq!(found("a.rs", text), [0; 0], "{text}");
            assert_eq!(found("ears.md", text), [0; 0], "{text}");
        }
    }
}
