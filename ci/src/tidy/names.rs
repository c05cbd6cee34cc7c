//! Nothing but the lists of them knows a scenario or a recipe by name, so that adding one is adding
//! a file.
//!
//! A name is a string literal equal to it: `"gc-pause"`, or with underscores. Its own file may say
//! it, and so may tests.

use std::collections::BTreeMap;

use super::diagnostic::Diagnostic;
use super::tree::{File, Tree};
use crate::rust::{line_of, words};

const SCENARIOS: &str = "scenarios/catalog";
const RECIPES: &str = "scenarios/src/recipe";
const LIST_OF_RECIPES: &str = "scenarios/src/recipe.rs";
/// What every recipe says of itself, and no part that they share.
const ABOUT: &str = "ABOUT";
/// Faults have names of their own, and a scenario about one of them has the same.
const LIST_OF_FAULTS: &str = "scenarios/src/fault.rs";
/// A name that is also a word of Redis's and of everybody's: its literal says nothing.
const COMMON_WORD: &str = "none";
const LOOKED_AT: [&str; 3] = ["scenarios/src/", "sim/", "reports/src/"];

/// Finds code that names a scenario or a recipe.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let names = names(tree);
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let looked_at = LOOKED_AT.iter().any(|dir| file.path.starts_with(dir));
        let lists = [LIST_OF_RECIPES, LIST_OF_FAULTS];
        let is_list = lists.contains(&file.path.as_str());
        if !looked_at || is_list || file.is_test {
            continue;
        }
        for literal in &source.literals {
            let name = dashed(&literal.value);
            let Some(kind) = names.get(&name) else { continue };
            if dashed(file.stem()) == name || source.is_test_at(literal.offset) {
                continue;
            }
            let what = format!(
                "code names the {kind} `{name}`: let the {kind} say what is special about it, or ask \
                 the list"
            );
            findings.push(Diagnostic::new(&file.path, line_of(&file.text, literal.offset), what));
        }
    }
    findings
}

/// Every name, with dashes, and what it names.
fn names(tree: &Tree) -> BTreeMap<String, &'static str> {
    let recipes = recipes(tree).into_iter().map(|stem| (dashed(stem), "recipe"));
    let in_catalog = |file: &&File| {
        let inside = file.path.strip_prefix(SCENARIOS).is_some_and(|rest| rest.starts_with('/'));
        inside && file.name().ends_with(".toml")
    };
    let scenarios =
        tree.files.iter().filter(in_catalog).map(|file| (dashed(file.stem()), "scenario"));
    recipes.chain(scenarios).filter(|(name, _)| name != COMMON_WORD).collect()
}

/// The stems of the recipes: the files among them that say what they are.
fn recipes(tree: &Tree) -> Vec<&str> {
    let beside = tree.rust().map(|(file, _)| file);
    let of_recipe = |file: &&File| {
        file.dir() == RECIPES && !file.is_test && words(&file.text, ABOUT).next().is_some()
    };
    beside.filter(of_recipe).map(File::stem).collect()
}

fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [(&str, &str); 4] = [
        ("scenarios/catalog/gc-pause.toml", ""),
        ("scenarios/catalog/deep/power-loss.toml", ""),
        ("scenarios/src/recipe/single_watchdog.rs", "static ABOUT: &str = \"single-watchdog\";"),
        ("scenarios/src/recipe/mod.rs", ""),
    ];

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::new(NAMES.iter().chain(files).copied());
        check(&tree)
            .into_iter()
            .map(|finding| format!("{}:{}", finding.path, finding.line))
            .collect()
    }

    #[test]
    fn a_name_in_code_is_found_either_way_it_is_spelt() {
        for name in ["gc-pause", "gc_pause", "power-loss", "single-watchdog", "single_watchdog"] {
            let text = format!("fn f() {{}}\nfn g() -> &'static str {{ \"{name}\" }}");
            for path in
                ["scenarios/src/a.rs", "sim/src/a.rs", "sim/harness/src/a.rs", "reports/src/a.rs"]
            {
                assert_eq!(found(&[(path, &text)]), [format!("{path}:2")], "{name}");
            }
        }
    }

    #[test]
    fn only_the_whole_literal_counts() {
        let text = "// \"gc-pause\"\nconst A: &str = \"a gc-pause\"; const B: &str = \"mod\";";
        assert_eq!(found(&[("sim/src/a.rs", text)]), [""; 0]);
    }

    #[test]
    fn lists_tests_benches_and_the_file_itself_may_name_it() {
        let text = "const A: &str = \"gc-pause\";";
        for path in [
            "scenarios/src/recipe.rs",
            "scenarios/src/fault.rs",
            "scenarios/src/workload/gc_pause.rs",
            "sim/tests/a.rs",
            "sim/src/a/tests.rs",
            "benches/src/a.rs",
        ] {
            assert_eq!(found(&[(path, text)]), [""; 0], "{path}");
        }
        let text = "#[cfg(test)]\nmod tests { const A: &str = \"gc-pause\"; }";
        assert_eq!(found(&[("sim/src/a.rs", text)]), [""; 0]);
    }

    #[test]
    fn a_shared_part_is_no_recipe() {
        let user = ("sim/src/a.rs", "const A: [&str; 2] = [\"token\", \"single-watchdog\"];\n");
        let part = |text| ("scenarios/src/recipe/token.rs", text);
        assert_eq!(found(&[part("fn draw() {}"), user]), ["sim/src/a.rs:1"]);
        assert_eq!(found(&[part("static ABOUT: u8 = 1;"), user]).len(), 2);
    }

    #[test]
    fn without_scenarios_nothing_is_a_name() {
        assert!(check(&Tree::new([("sim/src/a.rs", "const A: &str = \"gc-pause\";")])).is_empty());
    }
}
