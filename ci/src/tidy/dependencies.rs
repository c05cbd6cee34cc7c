//! Who may depend on whom: the arrows of ARCHITECTURE.md, and where the runtime may appear.
//!
//! Normal, build and development dependencies count alike: a test that reaches upwards ties the
//! packages together as firmly as code does. A package that is not in the map is a finding, so the
//! map cannot fall behind.

use cargo_metadata::{Dependency, DependencyKind, Metadata, Package};

use super::diagnostic::Diagnostic;
use super::tree::Tree;

/// Every package, those of the workspace that it may depend on, and its runtime: a row for each.
const PACKAGES: [(&str, &str, Runtime); 17] = [
    ("picklock", "test-server", Runtime::Optional),
    ("test-server", "", Runtime::Never),
    ("durations", "picklock", Runtime::Never),
    ("scenarios", "picklock durations", Runtime::Never),
    ("ttl-model", "picklock scenarios", Runtime::Never),
    ("reports", "scenarios ttl-model", Runtime::Never),
    ("harness", "picklock scenarios", Runtime::Never),
    ("resp", "picklock", Runtime::Never),
    ("redis-lua", "resp", Runtime::Never),
    ("redis-model", "picklock scenarios resp redis-lua test-server", Runtime::Never),
    ("virtual-world", "picklock scenarios harness resp redis-model ttl-model", Runtime::Never),
    ("fault-proxy", "picklock scenarios resp redis-model", Runtime::Free),
    (
        "live-world",
        "picklock scenarios reports harness resp redis-model ttl-model fault-proxy",
        Runtime::Free,
    ),
    ("attack", "picklock scenarios reports live-world fault-proxy redis-model resp", Runtime::Free),
    (
        "sim",
        "picklock attack scenarios reports harness resp redis-model ttl-model virtual-world fault-proxy live-world \
         test-server",
        Runtime::Free,
    ),
    (
        "benches",
        "picklock scenarios reports harness resp redis-model ttl-model virtual-world fault-proxy live-world",
        Runtime::Free,
    ),
    ("ci", "", Runtime::Never),
];
const FEATURE: &str = "tokio";

/// Whether a package may depend on tokio and redis-rs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    /// Not even in tests: it takes time as an argument.
    Never,
    /// Behind the feature `tokio`, and in tests.
    Optional,
    Free,
}

/// Finds dependencies that go the wrong way.
pub fn check(tree: &Tree, metadata: &Metadata) -> Vec<Diagnostic> {
    let packages = metadata.workspace_packages();
    let members: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let root = &metadata.workspace_root;
        let manifest = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        let text = tree.get(manifest.as_str()).map_or("", |file| file.text.as_str());
        for (name, what) in check_package(package, &members) {
            findings.push(Diagnostic::new(manifest.as_str(), line_of_key(text, &name), what));
        }
    }
    findings
}

/// What is wrong with a package: the key it is about, and what to say.
fn check_package(package: &Package, members: &[&str]) -> Vec<(String, String)> {
    let name = package.name.as_str();
    let mut wrong = Vec::new();
    if name == "core" {
        let what = "a package called core breaks paths such as ::core::fmt: call it something else";
        wrong.push(("name".to_owned(), what.to_owned()));
    }
    let Some(&(_, allowed, may)) = PACKAGES.iter().find(|(known, ..)| *known == name) else {
        let what =
            format!("{name} is not in the map of packages: add it to ci/src/tidy/dependencies.rs");
        wrong.push(("name".to_owned(), what));
        return wrong;
    };
    for dependency in &package.dependencies {
        let other = dependency.name.as_str();
        if members.contains(&other) && !lists(allowed, other) {
            let what = format!(
                "{name} may not depend on {other} (of the workspace, it may on: {}): reverse \
                 the dependency, or move the code",
                if allowed.is_empty() { "none" } else { allowed }
            );
            wrong.push((other.to_owned(), what));
        }
        if let Some(what) = runtime(package, dependency, may) {
            wrong.push((other.to_owned(), what));
        }
    }
    wrong
}

/// What is wrong with a dependency that brings the runtime in.
fn runtime(package: &Package, dependency: &Dependency, may: Runtime) -> Option<String> {
    let name = package.name.as_str();
    let other = dependency.name.as_str();
    // redis-rs is here on tokio, so it brings the runtime with it.
    let is_runtime = other == "tokio" || other.starts_with("tokio-") || other == "redis";
    if !is_runtime || may == Runtime::Free {
        return None;
    }
    if may == Runtime::Never {
        return Some(format!(
            "{name} may not depend on {other}: pass the time in, and keep the runtime out"
        ));
    }
    if dependency.kind == DependencyKind::Development {
        return None;
    }
    if !dependency.optional {
        return Some(format!("{other} is not optional: put it behind the feature {FEATURE}"));
    }
    let opens = |wanted: &String| {
        wanted == &format!("dep:{other}") || wanted.starts_with(&format!("{other}/"))
    };
    let with_feature = |feature: &str, wants: &[String]| {
        feature == FEATURE || wants.iter().any(|wanted| wanted == FEATURE)
    };
    let elsewhere = package
        .features
        .iter()
        .find(|(feature, wants)| wants.iter().any(opens) && !with_feature(feature, wants));
    elsewhere.map(|(feature, _)| {
        format!("the feature {feature} brings {other} in without the feature {FEATURE}: include that one")
    })
}

fn lists(list: &str, word: &str) -> bool {
    list.split(' ').any(|other| other == word)
}

/// The line on which a manifest speaks of this key; the first where it does not.
fn line_of_key(manifest: &str, key: &str) -> usize {
    let speaks = |line: &str| {
        let rest = line.strip_prefix(key);
        rest.is_some_and(|rest| rest.starts_with([' ', '=', '.']))
    };
    manifest.lines().position(speaks).map_or(1, |place| place + 1)
}

/// Metadata for tests, without a workspace on disk.
#[cfg(test)]
pub(crate) mod fixture {
    /// A dependency: its name, its kind, and whether it is optional.
    pub(crate) type Needs<'a> = (&'a str, &'a str, bool);

    /// The metadata of these packages; each lives in a directory of its name, the library in core.
    pub(crate) fn workspace(packages: &[(&str, &[Needs<'_>])]) -> String {
        with_features(packages, "{}")
    }

    /// The same, every package with these features.
    pub(crate) fn with_features(packages: &[(&str, &[Needs<'_>])], features: &str) -> String {
        // Whatever is depended on is a member too, unless it is plainly not ours.
        let mut names: Vec<&str> = packages.iter().map(|(name, _)| *name).collect();
        let needed = packages.iter().flat_map(|(_, needs)| needs.iter().map(|need| need.0));
        for name in needed.filter(|name| super::PACKAGES.iter().any(|(known, ..)| known == name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let of = |name: &str| packages.iter().find(|(other, _)| *other == name);
        let described: Vec<String> = names
            .iter()
            .map(|name| package(name, of(name).map_or(&[][..], |(_, needs)| needs), features))
            .collect();
        let ids: Vec<String> = names.iter().map(|name| format!("\"{name} id\"")).collect();
        format!(
            "{{\"packages\":[{}],\"workspace_members\":[{}],\"workspace_root\":\"/r\",\
             \"target_directory\":\"/r/target\",\"version\":1,\"resolve\":null}}",
            described.join(","),
            ids.join(",")
        )
    }

    fn package(name: &str, needs: &[Needs<'_>], features: &str) -> String {
        let needs: Vec<String> = needs.iter().map(dependency).collect();
        let dir = if name == "picklock" { "core" } else { name };
        format!(
            "{{\"name\":\"{name}\",\"version\":\"0.1.0\",\"id\":\"{name} id\",\"targets\":[],\
             \"dependencies\":[{}],\"features\":{features},\"manifest_path\":\"/r/{dir}/Cargo.toml\"}}",
            needs.join(",")
        )
    }

    fn dependency((name, kind, optional): &Needs<'_>) -> String {
        format!(
            "{{\"name\":\"{name}\",\"kind\":\"{kind}\",\"optional\":{optional},\"req\":\"*\",\
             \"uses_default_features\":true,\"features\":[],\"target\":null}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use cargo_metadata::MetadataCommand;

    use super::fixture::{Needs, with_features, workspace};
    use super::*;

    fn said(json: String) -> Vec<String> {
        let metadata = MetadataCommand::parse(json).expect("the fixture is well formed");
        let manifest =
            "[package]\nname = \"a\"\n[dependencies]\nsim = \"1\"\ntokio.workspace = true\n";
        let files = ["core", "scenarios", "reports", "sim", "benches", "ci"];
        let tree = Tree::new(files.map(|dir| (format!("{dir}/Cargo.toml"), manifest)));
        check(&tree, &metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_arrow_is_judged_in_every_kind() {
        for (from, allowed, _) in PACKAGES {
            for (to, ..) in PACKAGES {
                for kind in ["normal", "dev", "build"] {
                    let said = said(workspace(&[(from, &[(to, kind, false)])]));
                    assert_eq!(said.is_empty(), lists(allowed, to), "{from} -> {to} {kind}");
                }
            }
        }
    }

    #[test]
    fn a_finding_names_the_line() {
        let said = said(workspace(&[("ci", &[("sim", "normal", false)])]));
        assert!(said[0].starts_with("ci/Cargo.toml:4: ci may not depend on sim"), "{said:?}");
    }

    #[test]
    fn unknown_packages_and_core_are_found() {
        assert!(said(workspace(&[("extra", &[])]))[0].contains("not in the map"));
        assert!(said(workspace(&[("core", &[])])).iter().any(|line| line.contains("::core::fmt")));
    }

    #[test]
    fn the_runtime_stays_where_it_belongs() {
        for name in ["tokio", "tokio-rustls", "redis"] {
            for kind in ["normal", "dev", "build"] {
                let needs: &[Needs<'_>] = &[(name, kind, false)];
                let pure = [
                    "scenarios",
                    "reports",
                    "harness",
                    "redis-model",
                    "ttl-model",
                    "virtual-world",
                    "ci",
                ];
                for package in pure {
                    assert_eq!(said(workspace(&[(package, needs)])).len(), 1, "{package}");
                }
                for package in ["fault-proxy", "live-world", "sim", "benches"] {
                    assert_eq!(said(workspace(&[(package, needs)])), [""; 0], "{package}");
                }
            }
        }
        let unlike: &[Needs<'_>] =
            &[("tokior", "normal", false), ("redis-protocol", "normal", false)];
        assert_eq!(said(workspace(&[("scenarios", unlike)])), [""; 0]);
    }

    #[test]
    fn the_library_has_it_behind_a_feature() {
        let optional: &[(&str, &[Needs<'_>])] = &[("picklock", &[("tokio", "normal", true)])];
        let good = "{\"tokio\":[\"dep:tokio\"],\"tls\":[\"tokio\",\"tokio/net\"],\"x\":[\"y\"]}";
        assert_eq!(said(with_features(optional, good)), [""; 0]);
        for bad in ["{\"x\":[\"dep:tokio\"]}", "{\"tokio\":[\"dep:tokio\"],\"x\":[\"tokio/net\"]}"]
        {
            let said = said(with_features(optional, bad));
            assert!(said.len() == 1 && said[0].contains("the feature x"), "{said:?}");
        }
        let always: &[(&str, &[Needs<'_>])] = &[("picklock", &[("tokio", "normal", false)])];
        assert!(
            said(with_features(always, good))[0]
                .contains("core/Cargo.toml:5: tokio is not optional")
        );
        let in_tests: &[(&str, &[Needs<'_>])] = &[("picklock", &[("tokio", "dev", false)])];
        assert_eq!(said(with_features(in_tests, "{}")), [""; 0]);
    }
}
