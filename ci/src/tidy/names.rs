//! Nothing but the lists of them knows a scenario or a recipe by name, so that adding one is adding
//! a file.
//!
//! A name is a string literal equal to it: `"gc-pause"`, or with underscores. Its own file may say
//! it, and so may tests.

use std::collections::BTreeMap;

use super::Diagnostic;
use crate::rust::RustSource;
use crate::tree::{File, Tree};

const SCENARIOS: &str = "scenarios/catalog/";
const RECIPES: &str = "scenarios/src/recipe";
const LIST_OF_RECIPES: &str = "scenarios/src/recipe.rs";
/// What every recipe says of itself, and no part that they share.
const ABOUT: &str = "ABOUT";
/// Faults have names of their own, and a scenario about one of them has the same.
const LIST_OF_FAULTS: &str = "scenarios/history/src/fault.rs";
/// A name that is also a word of Redis's and of everybody's: its literal says nothing.
const COMMON_WORD: &str = "none";
const LOOKED_AT: [&str; 3] = ["scenarios/src/", "sim/", "reports/src/"];

/// Finds code that names a scenario or a recipe.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let names = names(tree);
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let looked_at = LOOKED_AT.iter().any(|dir| file.path.starts_with(dir));
        let is_list = [LIST_OF_RECIPES, LIST_OF_FAULTS].contains(&&*file.path);
        if !looked_at || is_list || file.is_test {
            continue;
        }
        for token in &source.tokens {
            // What stands between the first two quotes: an escaped quote is in no name.
            let Some(name) = token.text.split('"').nth(1).map(dashed) else { continue };
            let Some(kind) = names.get(&name) else { continue };
            if dashed(file.stem()) == name || source.is_test_at(token.span) {
                continue;
            }
            let what = format!(
                "code names the {kind} `{name}`: let the {kind} say what is special about it, or ask \
                 the list"
            );
            findings.push(Diagnostic::new(&file.path, token.span.start().line, what));
        }
    }
    findings
}

/// Every name, with dashes, and what it names.
fn names(tree: &Tree) -> BTreeMap<String, &'static str> {
    let named = tree.files.iter().filter_map(|file| Some((dashed(file.stem()), kind(file)?)));
    named.filter(|(name, _)| name != COMMON_WORD).collect()
}

fn kind(file: &File) -> Option<&'static str> {
    let is_scenario = file.path.starts_with(SCENARIOS) && file.name().ends_with(".toml");
    let says = |source: &RustSource| source.tokens.iter().any(|token| token.text == ABOUT);
    let is_recipe = file.dir() == RECIPES && !file.is_test && file.rust().is_some_and(says);
    is_scenario.then_some("scenario").or(is_recipe.then_some("recipe"))
}

fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    const NAMES: [(&str, &str); 4] = [
        ("scenarios/catalog/gc-pause.toml", ""),
        ("scenarios/catalog/deep/power-loss.toml", ""),
        ("scenarios/src/recipe/single_watchdog.rs", "static ABOUT: &str = \"single-watchdog\";"),
        ("scenarios/src/recipe/mod.rs", ""),
    ];

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let said = findings(check, NAMES.iter().chain(files).copied());
        said.into_iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn a_name_in_code_is_found_however_it_is_spelt() {
        for name in ["gc-pause", "gc_pause", "power-loss", "single-watchdog", "single_watchdog"] {
            for text in
                [format!("\nfn g() {{ f(\"{name}\") }}"), format!("\nf!(a, r#\"{name}\"#);")]
            {
                for path in [
                    "scenarios/src/a.rs",
                    "sim/src/a.rs",
                    "sim/harness/src/a.rs",
                    "reports/src/a.rs",
                ] {
                    assert_eq!(found(&[(path, &text)]), [format!("{path}:2")], "{text}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_name_or_may_be_said_passes() {
        let text = "const A: &str = \"gc-pause\";";
        for (path, text) in [
            // Only the whole literal counts.
            ("sim/src/a.rs", "// \"gc-pause\"\nconst A: &str = \"a gc-pause\";"),
            ("sim/src/a.rs", "const B: &str = \"mod\";"),
            ("sim/src/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"gc-pause\"; }"),
            ("scenarios/src/recipe.rs", text),
            ("scenarios/history/src/fault.rs", text),
            ("scenarios/src/workload/gc_pause.rs", text),
            ("sim/tests/a.rs", text),
            ("sim/src/a/tests.rs", text),
            ("benches/src/a.rs", text),
        ] {
            assert_eq!(found(&[(path, text)]), [""; 0], "{path}");
        }
        assert!(findings(check, [("sim/src/a.rs", text)]).is_empty());
    }

    #[test]
    fn a_shared_part_is_no_recipe() {
        let user = ("sim/src/a.rs", "const A: [&str; 2] = [\"token\", \"single-watchdog\"];\n");
        let part = |text| ("scenarios/src/recipe/token.rs", text);
        assert_eq!(found(&[part("fn draw() {}"), user]), ["sim/src/a.rs:1"]);
        assert_eq!(found(&[part("static ABOUT: u8 = 1;"), user]).len(), 2);
    }
}
