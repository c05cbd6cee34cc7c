//! No import cycle among the modules of one directory: each can be read after those it uses.
//!
//! A module counts together with everything below it, so `x.rs` and `x/` are one; what a module and
//! its own parts use of each other is their affair. An import is a `use`, or a path that begins with
//! `crate`, `self` or `super`. It counts for the module that defines what it names, as far as `use`
//! items lead there; a glob leads only to the module it stands for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::slice;

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use super::Diagnostic;
use crate::rust::{RustSource, flat};
use crate::tree::{File, Tree};

/// The names of a module and of those it lies in, outermost first; or the words of a path.
type ModulePath = Vec<String>;
/// From each module of a directory to those it imports from, with the file and line of the first.
type Edges<'a> = BTreeMap<String, BTreeMap<String, (&'a str, usize)>>;

/// Names the shortest cycle among modules that import each other.
pub(super) fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for dir in &tree.packages {
        for (parent, edges) in Modules::new(tree, dir).edges() {
            let name = [slice::from_ref(dir), &parent].concat().join("/");
            findings.extend(cycles(&edges).iter().map(|cycle| describe(&name, cycle, &edges)));
        }
    }
    findings
}

/// What is known of a package's modules.
#[derive(Default)]
struct Modules<'a> {
    all: BTreeSet<ModulePath>,
    /// What a module names by `use`: the path behind the name.
    names: BTreeMap<(ModulePath, String), ModulePath>,
    imports: Vec<Import<'a>>,
}

struct Import<'a> {
    /// The module that imports.
    module: ModulePath,
    path: ModulePath,
    file: &'a str,
    line: usize,
}

impl<'a> Modules<'a> {
    /// Reads the package's library, or its program where it has no library.
    fn new(tree: &'a Tree, dir: &str) -> Self {
        let has_library = tree.get(&format!("{dir}/src/lib.rs")).is_some();
        let mut modules = Self::default();
        let ours =
            tree.rust().filter(|(file, _)| !file.is_test && tree.package_of(file) == Some(dir));
        for (file, source) in ours {
            let Some(module) = module_of(dir, file, has_library) else { continue };
            modules.all.insert(module.clone());
            let mut reader = ImportReader { file, source, module, modules: &mut modules };
            reader.visit_file(&source.syntax);
        }
        modules
    }

    /// The module that defines what a path names; nothing where that is another package's.
    fn definer(&self, from: &ModulePath, path: &[String], renamings: usize) -> Option<ModulePath> {
        let mut at = from.clone();
        for (place, word) in path.iter().enumerate() {
            match word.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ => {
                    let child = [&at, slice::from_ref(word)].concat();
                    if self.all.contains(&child) {
                        at = child;
                        continue;
                    }
                    let key = (at.clone(), word.clone());
                    let named = self.names.get(&key).filter(|_| renamings > 0);
                    let longer = named.map(|named| [named, &path[place + 1..]].concat());
                    let definer = longer.and_then(|path| self.definer(&at, &path, renamings - 1));
                    return definer.or((place > 0).then_some(at));
                }
            }
        }
        Some(at)
    }

    /// The edges among the modules of each directory.
    fn edges(&self) -> BTreeMap<ModulePath, Edges<'a>> {
        let mut edges: BTreeMap<ModulePath, Edges<'a>> = BTreeMap::new();
        for Import { module, path, file, line } in &self.imports {
            // Longer chains of `use` than this form a cycle themselves.
            let Some(definer) = self.definer(module, path, 9) else { continue };
            let common = module.iter().zip(&definer).take_while(|(a, b)| a == b).count();
            if let (Some(user), Some(used)) = (module.get(common), definer.get(common)) {
                let among = edges.entry(module[..common].to_vec()).or_default();
                let of_user = among.entry(user.clone()).or_default();
                of_user.entry(used.clone()).or_insert((file, *line));
            }
        }
        edges
    }
}

/// The module that a file is; nothing for programs beside the library.
fn module_of(dir: &str, file: &File, has_library: bool) -> Option<ModulePath> {
    let inside = file.path.strip_prefix(dir)?.trim_start_matches('/').strip_prefix("src/")?;
    let mut module: ModulePath =
        inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module[0] == "bin" || (has_library && module == ["main"]) {
        return None;
    }
    if file.name() == "mod.rs" || module == ["lib"] || module == ["main"] {
        module.pop();
    }
    Some(module)
}

/// Collects the imports of a file.
struct ImportReader<'a, 'b> {
    file: &'a File,
    source: &'a RustSource,
    /// The module at which it is.
    module: ModulePath,
    modules: &'b mut Modules<'a>,
}

impl ImportReader<'_, '_> {
    fn import(&mut self, path: ModulePath, name: Option<String>, span: Span) {
        if self.source.is_test_at(span) {
            return;
        }
        if let Some(name) = name {
            self.modules.names.insert((self.module.clone(), name), path.clone());
        }
        let (module, line) = (self.module.clone(), span.start().line);
        self.modules.imports.push(Import { module, path, file: &self.file.path, line });
    }

    /// Each branch of a `use` is an import.
    fn branches(&mut self, tree: &UseTree, before: &[String]) {
        let path = |ident: &Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(step) => self.branches(&step.tree, &path(&step.ident)),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.branches(tree, before));
            }
            UseTree::Name(name) => {
                let is_parent = name.ident == "self";
                let here =
                    if is_parent { before.last().cloned() } else { Some(name.ident.to_string()) };
                self.import(path(&name.ident), here, name.ident.span());
            }
            UseTree::Rename(name) => {
                self.import(path(&name.ident), Some(name.rename.to_string()), name.ident.span());
            }
            UseTree::Glob(glob) => self.import(before.to_vec(), None, glob.star_token.span),
        }
    }

    /// Finds the paths among the tokens of an item: those in macros are nothing else to syn.
    fn paths(&mut self, item: &Item) {
        let tokens = flat(item.to_token_stream());
        let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
        for (at, token) in tokens.iter().enumerate() {
            let begins = matches!(texts[at..], ["crate" | "self" | "super", ":", ":", ..]);
            // `pub(in crate::a)` imports nothing.
            if !begins || matches!(texts[..at], [.., ":", ":"] | [.., "(", "in"]) {
                continue;
            }
            let mut path = vec![token.text.clone()];
            let mut rest = &texts[at + 1..];
            while let [":", ":", word, after @ ..] = rest {
                path.push((*word).to_owned());
                rest = after;
            }
            self.import(path, None, token.span);
        }
    }
}

impl<'ast> Visit<'ast> for ImportReader<'_, '_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Use(item) => self.branches(&item.tree, &[]),
            Item::Mod(inline) if inline.content.is_some() => {
                self.module.push(inline.ident.to_string());
                self.modules.all.insert(self.module.clone());
                visit::visit_item(self, item);
                self.module.pop();
            }
            _ => {
                self.paths(item);
                // A function may have `use` items in it.
                visit::visit_item(self, item);
            }
        }
    }
}

/// The shortest cycle of each group of modules that all reach each other.
fn cycles<'a>(edges: &'a Edges<'_>) -> Vec<Vec<&'a str>> {
    let mut all: Vec<_> = edges.keys().filter_map(|at| way(edges, at, at)).collect();
    all.sort_by_key(Vec::len);
    let mut shortest: Vec<Vec<&str>> = Vec::new();
    for cycle in all {
        let at = cycle[0];
        let joined = |other: &Vec<&str>| {
            way(edges, at, other[0]).is_some() && way(edges, other[0], at).is_some()
        };
        if !shortest.iter().any(joined) {
            shortest.push(cycle);
        }
    }
    shortest
}

/// The shortest way along one edge or more; it begins at `from` and ends at `to`.
fn way<'a>(edges: &'a Edges<'_>, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![from]]);
    while let Some(way) = ways.pop_front() {
        for next in edges.get(way[way.len() - 1]).into_iter().flat_map(BTreeMap::keys) {
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
    let mut what = format!("import cycle in {parent}: {}", cycle[0]);
    for step in cycle.windows(2) {
        let (path, line) = edges[step[0]][step[1]];
        what += &format!(" -> {} ({path}:{line})", step[1]);
    }
    what += "; reverse one import, or move what both need to a module of its own";
    let (path, line) = edges[cycle[0]][cycle[1]];
    Diagnostic::new(path, line, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings;

    /// What is said of a package `a` with these files under `a/src`.
    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| (format!("a/src/{path}"), *text));
        let files = files.chain([("a/Cargo.toml".to_owned(), "[package]\n")]);
        findings(check, files).iter().map(ToString::to_string).collect()
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
        let steps = "b -> c (a/src/b.rs:2) -> d (a/src/c/deep.rs:3) -> b (a/src/d.rs:1); reverse \
            one import, or move what both need to a module of its own";
        assert_eq!(said, [format!("a/src/b.rs:2: import cycle in a: {steps}")]);
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

    /// Beside a module `b` that imports from `c`.
    #[test]
    fn every_import_of_c_from_b_is_found() {
        for c in [
            "use crate::b::B as D;",
            "use super::{d, b::*};",
            "use crate::{b::{self, d}};",
            "fn f(x: Vec<super::b::B>) {}",
            "fn f() { let x = self::super::b::B::<u8>::new() as u8; }",
            "fn f() { use crate::{b::B, d}; }",
            "fn f() { g!(h, vec![crate::b::B]); }",
            "macro_rules! m { () => { $crate::b::go() } }",
            "#[derive(crate::b::B)] struct D;",
            "impl crate::b::B for D { type E = u8; }",
            // By way of a name that another module passes on.
            "use crate::B;",
            "use crate::Renamed;",
            "use crate::d::deep::B;",
        ] {
            let said = said(&[
                ("lib.rs", "pub use b::{A, B}; pub use crate::b::inner::X as Renamed;"),
                ("b.rs", "use crate::c::C;"),
                ("c.rs", c),
                ("d/mod.rs", "pub mod deep { pub use crate::b::B; }"),
            ]);
            assert!(said.len() == 1 && said[0].contains("in a: b -> c"), "{c}: {said:?}");
        }
    }

    #[test]
    fn what_is_no_import_of_the_package_passes() {
        let back = "use crate::c::C;";
        let inside = format!("#[cfg(test)]\nmod tests {{ {back} }}\n// {back}");
        for (path, text) in [
            ("b/tests.rs", back),
            ("b.rs", &inside),
            ("bin/b.rs", back),
            ("main.rs", back),
            ("b.rs", "use c::C; use other::crate_like; pub(in crate::c) fn f() {}"),
            ("b.rs", "fn f() -> impl Iterator<Item = u8> + use<'_> { Self::c() }"),
            ("../tests/b.rs", back),
            // A module and its own parts may use each other.
            ("c/d.rs", "use super::C; use crate::{Root, c::E}; use self::f::G;"),
            // Names that only lead to each other end the search.
            ("d.rs", "pub use crate::d::X as Y; pub use crate::d::Y as X;"),
        ] {
            let c = "mod d; use d::D; use crate::{b::B, c::d::F, main::M};";
            assert_eq!(said(&[("lib.rs", ""), (path, text), ("c.rs", c)]), [""; 0], "{path}");
        }
        let nested =
            [("c.rs", "use crate::b::B;"), ("b/Cargo.toml", "[package]"), ("b/src/lib.rs", back)];
        assert_eq!(said(&nested), [""; 0]);
    }

    #[test]
    fn a_module_in_a_file_is_a_module() {
        let inner = "mod d { use super::super::c::C; use super::e::E; }\nmod e { fn f() {} }";
        assert_eq!(said(&[("b.rs", inner), ("c.rs", "use crate::b::d::D;")]).len(), 1);
        let cycle = "mod d { use super::e::E; }\nmod e { fn f() -> super::d::D {} }";
        assert!(said(&[("b.rs", cycle)])[0].contains("in a/b: d -> e"));
    }
}
