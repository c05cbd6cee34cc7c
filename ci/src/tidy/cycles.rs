//! No import cycle among the modules of one directory: each can be read after those it uses.
//!
//! A module counts together with everything below it, so `x.rs` and `x/` are one; what a module and
//! its own parts use of each other is their affair. An import counts for the module that defines
//! what it names, as far as `use` items lead there; a glob leads only to the module it stands for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use super::diagnostic::Diagnostic;
use super::tree::{File, Tree};
use crate::rust::{close, imports, line_of, skip_space, word_at, words};

/// The names of a module and of those it lies in, outermost first.
type ModulePath<'a> = Vec<&'a str>;
/// For two modules of one directory, the first place where one imports from the other.
type Edges<'a> = BTreeMap<(&'a str, &'a str), (&'a File, usize)>;

/// Names the shortest cycle among modules that import each other.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for dir in &tree.packages {
        let sources = sources(tree, dir);
        for (parent, edges) in Modules::new(&sources).edges() {
            let name = [&[dir.as_str()], &parent[..]].concat().join("/");
            findings.extend(cycles(&edges).iter().map(|cycle| describe(&name, cycle, &edges)));
        }
    }
    findings
}

/// A file of a package's library, or of its program where it has no library.
struct ModuleFile<'a> {
    file: &'a File,
    module: ModulePath<'a>,
    code: String,
}

fn sources<'a>(tree: &'a Tree, dir: &str) -> Vec<ModuleFile<'a>> {
    let has_library = tree.get(&format!("{dir}/src/lib.rs")).is_some();
    let ours = tree.rust().filter(|(file, _)| !file.is_test && tree.package_of(file) == Some(dir));
    let sources = ours.filter_map(|(file, source)| {
        let inside = file.path.strip_prefix(dir)?.trim_start_matches('/').strip_prefix("src/")?;
        let mut module: ModulePath<'a> = inside.strip_suffix(".rs")?.split('/').collect();
        if module[0] == "bin" || (has_library && module == ["main"]) {
            return None;
        }
        if matches!(module[..], [.., "mod"] | ["lib"] | ["main"]) {
            module.pop();
        }
        Some(ModuleFile { file, module, code: source.code_without_tests() })
    });
    sources.collect()
}

/// What is known of a package's modules.
struct Modules<'a> {
    sources: &'a [ModuleFile<'a>],
    all: BTreeSet<ModulePath<'a>>,
    /// What a module names by `use`: the path behind the name.
    names: BTreeMap<(ModulePath<'a>, &'a str), ModulePath<'a>>,
    /// Where each import stands, in which module, and what it names.
    imports: Vec<(&'a ModuleFile<'a>, usize, ModulePath<'a>, ModulePath<'a>)>,
}

impl<'a> Modules<'a> {
    fn new(sources: &'a [ModuleFile<'a>]) -> Self {
        let all = sources.iter().map(|source| source.module.clone()).collect();
        let mut modules = Self { sources, all, names: BTreeMap::new(), imports: Vec::new() };
        for source in modules.sources {
            let inline = inline_modules(&source.code);
            for import in imports(&source.code) {
                let around = inline.iter().filter(|(range, _)| range.contains(&import.offset));
                let mut module = source.module.clone();
                module.extend(around.map(|(_, name)| name));
                if let Some(name) = import.name {
                    modules.names.insert((module.clone(), name), import.path.clone());
                }
                modules.all.insert(module.clone());
                modules.imports.push((source, import.offset, module, import.path));
            }
        }
        modules
    }

    /// The module that defines what a path names; nothing where that is another package's.
    fn definer(
        &self,
        from: &ModulePath<'a>,
        path: &[&'a str],
        renamings: usize,
    ) -> Option<ModulePath<'a>> {
        let mut at = from.clone();
        for (place, &word) in path.iter().enumerate() {
            match word {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ => {
                    let child = [&at[..], &[word]].concat();
                    if self.all.contains(&child) {
                        at = child;
                        continue;
                    }
                    let named = self.names.get(&(at.clone(), word)).filter(|_| renamings > 0);
                    let longer = named.map(|named| [named, &path[place + 1..]].concat());
                    let definer = longer.and_then(|path| self.definer(&at, &path, renamings - 1));
                    return definer.or((place > 0).then_some(at));
                }
            }
        }
        Some(at)
    }

    /// The edges among the modules of each directory.
    fn edges(&self) -> BTreeMap<ModulePath<'a>, Edges<'a>> {
        let mut edges: BTreeMap<ModulePath<'a>, Edges<'a>> = BTreeMap::new();
        for (source, offset, module, path) in &self.imports {
            // Longer chains of `use` than this form a cycle themselves.
            let Some(definer) = self.definer(module, path, 9) else { continue };
            let common = module.iter().zip(&definer).take_while(|(a, b)| a == b).count();
            if let (Some(&user), Some(&used)) = (module.get(common), definer.get(common)) {
                let among = edges.entry(module[..common].to_vec()).or_default();
                among.entry((user, used)).or_insert((source.file, *offset));
            }
        }
        edges
    }
}

/// Where the bodies of modules in the code stand, outermost first, and their names.
fn inline_modules(code: &str) -> Vec<(Range<usize>, &str)> {
    let bodies = words(code, "mod").filter_map(|at| {
        let name = word_at(code, skip_space(code, at + "mod".len()));
        let open = skip_space(code, skip_space(code, at + "mod".len()) + name.len());
        (!name.is_empty() && code[open..].starts_with('{')).then(|| (open..close(code, open), name))
    });
    bodies.collect()
}

/// The shortest cycle of each group of modules that all reach each other.
fn cycles<'a>(edges: &Edges<'a>) -> Vec<Vec<&'a str>> {
    let mut cycles: Vec<Vec<&str>> = Vec::new();
    let mut done = BTreeSet::new();
    for &(start, _) in edges.keys() {
        let reaches = |other: &&str| way(edges, start, other).is_some();
        let reached_by = |other: &&str| way(edges, other, start).is_some();
        if done.insert(start) && way(edges, start, start).is_some() {
            let all: BTreeSet<&str> = edges.keys().map(|&(user, _)| user).collect();
            let group: Vec<&str> = all.into_iter().filter(reaches).filter(reached_by).collect();
            cycles.extend(group.iter().filter_map(|at| way(edges, at, at)).min_by_key(Vec::len));
            done.extend(group);
        }
    }
    cycles
}

/// The shortest way along one edge or more; it begins at `from` and ends at `to`.
fn way<'a>(edges: &Edges<'a>, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![from]]);
    while let Some(way) = ways.pop_front() {
        let last = way[way.len() - 1];
        for &(_, next) in edges.keys().filter(|&&(user, _)| user == last) {
            let longer = [&way[..], &[next]].concat();
            if next == to {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn describe(parent: &str, cycle: &[&str], edges: &Edges<'_>) -> Diagnostic {
    let places = cycle.windows(2).map(|step| {
        let (file, offset) = edges[&(step[0], step[1])];
        (step[1], file.path.as_str(), line_of(&file.text, offset))
    });
    let places: Vec<_> = places.collect();
    let steps: Vec<String> =
        places.iter().map(|(used, path, line)| format!("{used} ({path}:{line})")).collect();
    let what = format!(
        "import cycle in {parent}: {} -> {}; reverse one import, or move what both need \
         to a module of its own",
        cycle[0],
        steps.join(" -> ")
    );
    Diagnostic::new(places[0].1, places[0].2, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a package `a` with these files under `a/src`.
    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| (format!("a/src/{path}"), *text));
        let tree = Tree::new(files.chain([("a/Cargo.toml".to_owned(), "[package]\n")]));
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cycle_names_a_line_for_each_step() {
        let said = said(&[
            ("lib.rs", "mod b; mod c; mod d;"),
            ("b.rs", "\nuse crate::c::C;"),
            ("c/mod.rs", "mod deep;"),
            ("c/deep.rs", "\n\nfn f() -> crate::d::D {}"),
            ("d.rs", "use super::{std, b::{self, B}};"),
        ]);
        let cycle = "b -> c (a/src/b.rs:2) -> d (a/src/c/deep.rs:3) -> b (a/src/d.rs:1);";
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with(&format!("a/src/b.rs:2: import cycle in a: {cycle}")),
            "{said:?}"
        );
    }

    #[test]
    fn the_shortest_of_a_group_is_named_and_each_group_has_one() {
        let said = said(&[
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::d::D;"),
            ("d.rs", "use crate::{b::B, c::C};"),
            ("x.rs", "mod y; mod z;"),
            ("x/y.rs", "use super::z::Z;"),
            ("x/z.rs", "use crate::x::y::Y;"),
        ]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("in a: c -> d (a/src/c.rs:1) -> c (a/src/d.rs:1);"), "{said:?}");
        assert!(said[1].contains("in a/x: y -> z"), "{said:?}");
    }

    #[test]
    fn a_module_and_its_own_parts_may_use_each_other() {
        let files = [
            ("lib.rs", "mod b; use b::B; use crate::b::c::C;"),
            ("b.rs", "mod c; use c::C; use crate::Root;"),
            ("b/c.rs", "use super::B; use crate::{Root, b::D}; use self::c::E;"),
        ];
        assert_eq!(said(&files), [""; 0]);
    }

    #[test]
    fn a_name_that_is_passed_on_counts_for_its_definer() {
        let user = ("c.rs", "use crate::B;");
        let definer = ("b.rs", "use crate::c::C;");
        assert_eq!(said(&[("lib.rs", ""), user, definer]), [""; 0]);
        for passes_on in ["pub use b::{A, B};", "pub use crate::b::inner::X as B;"] {
            assert_eq!(said(&[("lib.rs", passes_on), user, definer]).len(), 1, "{passes_on}");
        }
        let through = ("d/mod.rs", "pub use crate::b::B;");
        let user = ("c.rs", "use crate::d::B;");
        let said = said(&[("lib.rs", ""), through, user, definer]);
        assert!(said.len() == 1 && said[0].contains("b -> c (a/src/b.rs:1) -> b"), "{said:?}");
    }

    #[test]
    fn names_that_only_lead_to_each_other_end_the_search() {
        said(&[("b.rs", "pub use crate::c::X;"), ("c.rs", "pub use crate::b::X;")]);
    }

    #[test]
    fn a_module_in_a_file_is_a_module() {
        let inner = "mod d { use super::super::c::C; use super::e::E; }\nmod e { fn f() {} }";
        assert_eq!(said(&[("b.rs", inner), ("c.rs", "use crate::b::d::D;")]).len(), 1);
        let cycle = "mod d { use super::e::E; }\nmod e { fn f() -> super::d::D {} }";
        assert!(said(&[("b.rs", cycle)])[0].contains("in a/b: d -> e"));
    }

    #[test]
    fn tests_programs_and_other_packages_are_not_looked_at() {
        let back = "use crate::c::C;";
        let inside = format!("#[cfg(test)]\nmod tests {{ {back} }}\n// {back}");
        for (path, text) in [
            ("b/tests.rs", back),
            ("b.rs", &inside),
            ("bin/b.rs", back),
            ("main.rs", back),
            ("b.rs", "use c::C; use other::crate_like; pub(in crate::c) fn f() {}"),
            ("../tests/b.rs", back),
        ] {
            let files = [("lib.rs", ""), (path, text), ("c.rs", "use crate::{b::B, main::M};")];
            assert_eq!(said(&files), [""; 0], "{path}");
        }
        let tree = Tree::new([
            ("a/Cargo.toml", "[package]"),
            ("a/src/c.rs", "use crate::b::B;"),
            ("a/src/b/Cargo.toml", "[package]"),
            ("a/src/b/src/lib.rs", back),
        ]);
        assert_eq!(check(&tree), []);
    }
}
