//! Who may depend on whom, and where the runtime may appear.
//!
//! Normal, build and development dependencies count alike: a test that reaches upwards ties the
//! packages together as firmly as code does. A package that is not in the map is a finding, so the
//! map cannot fall behind.

use cargo_metadata::{Dependency, DependencyKind, Metadata, Package};

use super::Diagnostic;
use crate::tree::Tree;

/// Every package, those of the workspace that it may depend on, and its runtime: a row for each.
const PACKAGES: [(&str, &str, Runtime); 20] = [
    ("picklock", "test-server", Runtime::Optional),
    ("test-server", "", Runtime::Never),
    ("durations", "picklock", Runtime::Never),
    ("history", "picklock durations", Runtime::Never),
    ("checkers", "picklock durations history", Runtime::Never),
    ("scenarios", "picklock durations history checkers", Runtime::Never),
    ("harness", "picklock history checkers scenarios", Runtime::Never),
    ("ttl-model", "picklock scenarios harness", Runtime::Never),
    ("reports", "history scenarios ttl-model", Runtime::Never),
    ("resp", "picklock", Runtime::Never),
    ("redis-lua", "resp", Runtime::Never),
    ("redis-model", "picklock history scenarios resp redis-lua test-server", Runtime::Never),
    (
        "virtual-world",
        "picklock history checkers scenarios harness resp redis-model ttl-model",
        Runtime::Never,
    ),
    ("fault-proxy", "picklock history scenarios resp redis-model", Runtime::Free),
    (
        "live-world",
        "picklock history scenarios harness resp redis-model ttl-model fault-proxy",
        Runtime::Free,
    ),
    (
        "attack",
        "picklock history checkers scenarios reports live-world fault-proxy redis-model resp",
        Runtime::Free,
    ),
    ("explore", "picklock history scenarios harness virtual-world", Runtime::Never),
    (
        "sim",
        "picklock attack explore history checkers scenarios reports harness resp redis-model ttl-model virtual-world fault-proxy live-world \
         test-server",
        Runtime::Free,
    ),
    (
        "benches",
        "picklock history checkers scenarios reports harness resp redis-model virtual-world fault-proxy live-world",
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
pub(super) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Diagnostic> {
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let root = &metadata.workspace_root;
        let manifest = package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path);
        let text = tree.get(manifest.as_str()).map_or("", |file| file.text.as_str());
        for (key, what) in check_package(package) {
            findings.push(Diagnostic::new(manifest.as_str(), line_of_key(text, key), what));
        }
    }
    findings
}

/// What is wrong with a package: the key it is about, and what to say.
fn check_package(package: &Package) -> Vec<(&str, String)> {
    let name = package.name.as_str();
    let mut wrong = Vec::new();
    if name == "core" {
        let what = "a package called core breaks paths such as ::core::fmt: call it something else";
        wrong.push(("name", what.to_owned()));
    }
    let row = |name: &str| PACKAGES.iter().find(|(known, ..)| *known == name);
    let Some(&(_, allowed, may)) = row(name) else {
        let what =
            format!("{name} is not in the map of packages: add it to ci/src/tidy/dependencies.rs");
        wrong.push(("name", what));
        return wrong;
    };
    for dependency in &package.dependencies {
        let other = dependency.name.as_str();
        if row(other).is_some() && !lists(allowed, other) {
            let may_use = if allowed.is_empty() { "none" } else { allowed };
            let what = format!(
                "{name} may not depend on {other} (of the workspace, it may on: {may_use}): reverse \
                 the dependency, or move the code"
            );
            wrong.push((other, what));
        }
        wrong.extend(runtime(package, dependency, may).map(|what| (other, what)));
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
    let speaks = |line: &str| line.split([' ', '=', '.']).next() == Some(key);
    manifest.lines().position(speaks).map_or(1, |place| place + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    const KINDS: [&str; 3] = ["normal", "dev", "build"];

    /// The metadata of a workspace of one package that needs these: a name, a kind, and whether it
    /// is optional.
    fn metadata(
        name: &str,
        needs: &[(&str, &str, bool)],
        features: &[(&str, &[&str])],
    ) -> Metadata {
        let need = |(name, kind, optional): &(&str, &str, bool)| {
            json!({
                "name": name, "kind": kind, "optional": optional, "req": "*", "features": [],
                "uses_default_features": true, "target": null,
            })
        };
        let features = features.iter().map(|(name, wants)| ((*name).to_owned(), json!(wants)));
        let dir = if name == "picklock" { "core" } else { name };
        let metadata = json!({
            "packages": [{
                "name": name, "version": "0.1.0", "id": name, "targets": [],
                "manifest_path": format!("/r/{dir}/Cargo.toml"),
                "features": features.collect::<Map<_, _>>(),
                "dependencies": needs.iter().map(need).collect::<Vec<Value>>(),
            }],
            "workspace_members": [name], "workspace_root": "/r", "version": 1, "resolve": null,
            "target_directory": "/r/target",
        });
        serde_json::from_value(metadata).expect("well formed")
    }

    fn said(name: &str, needs: &[(&str, &str, bool)], features: &[(&str, &[&str])]) -> Vec<String> {
        let manifest =
            "[package]\nname = \"a\"\n[dependencies]\nsim = \"1\"\ntokio.workspace = true\n";
        let tree = Tree::new(["core", "ci"].map(|dir| (format!("{dir}/Cargo.toml"), manifest)));
        check(&tree, &metadata(name, needs, features)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_arrow_is_judged_in_every_kind() {
        for (from, allowed, _) in PACKAGES {
            for kind in KINDS {
                let said = said(from, &PACKAGES.map(|(to, ..)| (to, kind, false)), &[]);
                for (to, ..) in PACKAGES {
                    let wrong = format!("{from} may not depend on {to} (of");
                    let found = said.iter().any(|line| line.contains(&wrong));
                    assert_eq!(found, !lists(allowed, to), "{from} -> {to} {kind}");
                }
            }
        }
        let said = said("ci", &[("sim", "normal", false)], &[]);
        assert!(said[0].starts_with("ci/Cargo.toml:4: ci may not depend on sim"), "{said:?}");
    }

    #[test]
    fn unknown_packages_and_core_are_found() {
        assert!(said("extra", &[], &[])[0].contains("not in the map"));
        assert!(said("core", &[], &[]).iter().any(|line| line.contains("::core::fmt")));
    }

    #[test]
    fn the_runtime_stays_where_it_belongs() {
        for (package, _, may) in PACKAGES {
            for kind in KINDS {
                for optional in [false, true] {
                    let names = ["tokio", "tokio-rustls", "redis", "tokior", "redis-protocol"];
                    let said = said(package, &names.map(|name| (name, kind, optional)), &[]);
                    let refused = match may {
                        Runtime::Never => 3,
                        Runtime::Optional if kind != "dev" && !optional => 3,
                        Runtime::Optional | Runtime::Free => 0,
                    };
                    assert_eq!(said.len(), refused, "{package} {kind} {said:?}");
                }
            }
        }
        let said = said("picklock", &[("tokio", "normal", false)], &[]);
        assert!(said[0].starts_with("core/Cargo.toml:5: tokio is not optional"), "{said:?}");
    }

    #[test]
    fn the_library_has_the_runtime_behind_one_feature() {
        let tokio: (&str, &[&str]) = ("tokio", &["dep:tokio"]);
        for (features, right) in [
            (&[tokio, ("tls", &["tokio", "tokio/net"]), ("x", &["y"])][..], true),
            (&[("x", &["dep:tokio"])], false),
            (&[tokio, ("x", &["tokio/net"])], false),
        ] {
            let said = said("picklock", &[("tokio", "normal", true)], features);
            assert_eq!(said.is_empty(), right, "{features:?}");
            assert!(said.iter().all(|line| line.contains("the feature x")), "{said:?}");
        }
    }
}
