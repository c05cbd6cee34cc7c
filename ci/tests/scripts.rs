//! The scripts that a CI calls, with stubs in the place of the programs that they run.
//!
//! Invariant: each script runs as a copy in a directory of its own, so nothing here is built, attacked or overwritten.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

/// What a developer or a CI may have set, and a script reads.
const INHERITED: [&str; 6] = [
    "CARGO_TARGET_DIR",
    "GITHUB_ACTIONS",
    "GITHUB_OUTPUT",
    "GITHUB_STEP_SUMMARY",
    "PICKLOCK",
    "PICKLOCK_REDIS_SERVER",
];

/// A program that is still open for writing cannot be run, and a child that is being started inherits what is open: so no
/// program is written while another test starts one.
static STARTING: Mutex<()> = Mutex::new(());

/// A tree that has one script and the programs that it runs.
struct Tree {
    root: TempDir,
}

impl Tree {
    /// With this script of `ci/`, a cargo that builds nothing and a redis-server that is only there.
    fn new(script: &str) -> Self {
        let tree = Self { root: TempDir::new().unwrap() };
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        tree.program(&format!("ci/{script}"), &fs::read_to_string(original).unwrap());
        tree.program("bin/cargo", "#!/bin/sh\n");
        tree.program("bin/redis-server", "#!/bin/sh\n");
        tree
    }

    fn program(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// How the script ends and what it says, with these variables.
    fn run(&self, script: &str, words: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(self.path(&format!("ci/{script}")));
        command.args(words).current_dir(self.root.path());
        for inherited in INHERITED {
            command.env_remove(inherited);
        }
        command.env("PATH", path).envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn().unwrap();
        drop(starting);
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let said = [stdout, stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        (status.code().unwrap(), said)
    }
}

/// A picklock that lists one flawed recipe and one sound one, and explores like this.
fn explorer(explore: &str) -> String {
    format!(
        "#!/usr/bin/env bash\n\
         if [[ $1 == list ]]; then\n\
             echo '{{\"recipes\": [{{\"name\": \"single\"}}, {{\"name\": \"del-release\", \"flaw\": \"…\"}}]}}'\n\
             exit\n\
         fi\n\
         file=${{!#}}\n\
         file=${{file#json=}}\n\
         {explore}\n"
    )
}

const CONFIRMED: &str = r#"echo '{"counterexamples": [{"invariant": "mutual exclusion", "level": "belief",
    "confirmation": {"outcome": "confirmed", "server": "stub"}}]}' >"$file""#;

#[test]
fn confirm_passes_where_every_flawed_recipe_is_convicted_and_confirmed() {
    let tree = Tree::new("confirm");
    tree.program("target/release/picklock", &explorer(&format!("{CONFIRMED}\nexit 1")));
    let (status, said) = tree.run("confirm", &[], &[]);
    assert_eq!(status, 0, "{said}");
    assert_eq!(said, "del-release: mutual exclusion (belief): confirmed on stub\n");
    tree.program(
        "target/release/picklock",
        &explorer("echo '{\"counterexamples\": []}' >\"$file\""),
    );
    let (status, said) = tree.run("confirm", &[], &[]);
    assert_eq!((status, &*said), (1, "del-release: not convicted\n"));
}

#[test]
fn confirm_fails_where_the_recipes_cannot_be_listed() {
    let tree = Tree::new("confirm");
    for broken in
        ["exit 70", "echo '{\"recipes\": []}'", "echo '{\"recipes\": [{\"name\": \"single\"}]}'"]
    {
        tree.program("target/release/picklock", &format!("#!/bin/sh\n{broken}\n"));
        let (status, said) = tree.run("confirm", &[], &[]);
        assert_eq!(status, 1, "{broken}: {said}");
        assert!(said.contains("picklock list"), "{broken}: {said}");
    }
}

#[test]
fn confirm_believes_no_file_of_an_earlier_run() {
    let tree = Tree::new("confirm");
    let confirmed = explorer(&format!("{CONFIRMED}\nexit 1"));
    tree.program("target/release/picklock", &confirmed);
    assert_eq!(tree.run("confirm", &["del-release"], &[]).0, 0);
    tree.program("target/release/picklock", &explorer("exit 70"));
    let (status, said) = tree.run("confirm", &["del-release"], &[]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("exit code 70"), "{said}");
    // It ended well, and left nothing.
    tree.program("target/release/picklock", &explorer("exit 1"));
    assert_eq!(tree.run("confirm", &["del-release"], &[]).0, 1);
}

#[test]
fn confirm_builds_picklock_unless_one_is_named() {
    let tree = Tree::new("confirm");
    tree.program("bin/cargo", "#!/bin/sh\necho built >&2\n");
    let picklock = explorer(&format!("{CONFIRMED}\nexit 5"));
    tree.program("target/release/picklock", &picklock);
    let (status, said) = tree.run("confirm", &["del-release"], &[]);
    assert!(status == 0 && said.contains("built"), "{said}");
    let named = tree.program("elsewhere/picklock", &picklock);
    let variables = [("PICKLOCK", named.to_str().unwrap())];
    let (status, said) = tree.run("confirm", &["del-release"], &variables);
    assert!(status == 0 && !said.contains("built"), "{said}");
}

#[test]
fn what_was_built_is_found_in_the_target_directory_of_cargo() {
    for script in ["confirm", "regression"] {
        let tree = Tree::new(script);
        let picklock = explorer(&format!("echo ran\n[[ $1 == matrix ]] && exit\n{CONFIRMED}"));
        tree.program("elsewhere/release/picklock", &picklock);
        for place in [String::from("elsewhere"), tree.path("elsewhere").display().to_string()] {
            let (status, said) = tree.run(script, &[], &[("CARGO_TARGET_DIR", &place)]);
            assert!(status == 0 && said.contains("ran"), "{script}, {place}: {said}");
        }
    }
}

#[test]
fn a_regression_ends_as_the_worst_of_its_matrices() {
    let tree = Tree::new("regression");
    for (codes, worst) in [
        ([0, 0, 0], 0),
        ([0, 3, 0], 3),
        ([3, 1, 0], 1),
        ([1, 3, 3], 1),
        ([0, 3, 70], 70),
        ([70, 1, 3], 70),
    ] {
        let [matrix, searched, sweep] = codes;
        let picklock = format!(
            "#!/usr/bin/env bash\n\
             case \"$*\" in *--searched*) exit {searched} ;; *--scenario*) exit {sweep} ;; *) exit {matrix} ;; esac\n"
        );
        tree.program("target/release/picklock", &picklock);
        let (status, said) = tree.run("regression", &[], &[]);
        assert_eq!(status, worst, "{codes:?}: {said}");
    }
}

/// A picklock that leaves this as JUnit, and ends like this.
fn reporter(junit: &str, status: i32) -> String {
    format!(
        "#!/usr/bin/env bash\n\
         for word; do\n\
             case $word in\n\
             --format=junit=*) printf '%s' '{junit}' >\"${{word#*junit=}}\" ;;\n\
             --format=markdown=*) echo '# a report' >\"${{word#*markdown=}}\" ;;\n\
             esac\n\
         done\n\
         exit {status}\n"
    )
}

#[test]
fn the_action_ends_as_picklock_did_whatever_its_reports_are() {
    let failed = "<testsuites><testsuite><testcase name=\"mutual exclusion\" classname=\"gc-pause\">\
                  <failure message=\"two held it\">replay: picklock run</failure></testcase></testsuite></testsuites>";
    for (junit, readable) in [(failed, true), ("<testsuites><tests", false), ("", false)] {
        for status in [0, 1, 70] {
            let tree = Tree::new("action");
            tree.program("bin/picklock", &reporter(junit, status));
            let [output, summary] = ["output", "summary"].map(|it| tree.path(it));
            let variables = [
                ("GITHUB_ACTIONS", "true"),
                ("GITHUB_OUTPUT", output.to_str().unwrap()),
                ("GITHUB_STEP_SUMMARY", summary.to_str().unwrap()),
                ("INPUT_COMMAND", "run"),
            ];
            let (ended, said) = tree.run("action", &["run"], &variables);
            assert_eq!(ended, status, "{junit}: {said}");
            assert_eq!(fs::read_to_string(output).unwrap(), format!("exit-code={status}\n"));
            let summary = fs::read_to_string(summary).unwrap();
            assert!(summary.contains("# a report"), "{summary}");
            assert_eq!(summary.contains("two held it"), readable, "{summary}");
            assert_eq!(said.contains("::error title="), readable, "{said}");
            assert_eq!(said.contains("cannot be read"), !readable, "{said}");
        }
    }
}

#[test]
fn the_action_removes_the_reports_of_its_own_earlier_runs_and_nobody_elses() {
    let tree = Tree::new("action");
    tree.program("bin/picklock", "#!/bin/sh\nexit 2\n");
    let here = [("INPUT_REPORTS", ".")];
    fs::write(tree.path("summary.md"), "mine").unwrap();
    let (status, said) = tree.run("action", &["run"], &here);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("./summary.md is there"), "{said}");
    assert_eq!(fs::read_to_string(tree.path("summary.md")).unwrap(), "mine");

    tree.program("bin/picklock", &reporter("<testsuites/>", 0));
    assert_eq!(tree.run("action", &["run"], &[]).0, 0);
    let summary = tree.path("picklock-report/summary.md");
    assert!(summary.exists());
    tree.program("bin/picklock", "#!/bin/sh\nexit 2\n");
    assert_eq!(tree.run("action", &["run"], &[]).0, 2);
    assert!(!summary.exists(), "of the earlier run");

    // A mark that leads elsewhere is none of ours, and is not written through.
    let mark = tree.path("picklock-report/.picklock-action");
    fs::remove_file(&mark).unwrap();
    fs::write(tree.path("mine"), "mine").unwrap();
    fs::write(&summary, "mine").unwrap();
    std::os::unix::fs::symlink(tree.path("mine"), &mark).unwrap();
    let (status, said) = tree.run("action", &["run"], &[]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains(".picklock-action is no regular file"), "{said}");
    for file in [tree.path("mine"), summary] {
        assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    }
}

#[test]
fn the_arguments_of_the_action_are_words_and_nothing_is_expanded() {
    let tree = Tree::new("action");
    tree.program("bin/picklock", "#!/usr/bin/env bash\nprintf '<%s>' \"${@: -4}\"\n");
    let variables = [("INPUT_ARGUMENTS", "-- sh -c 'echo $HOME; `date` *'")];
    let (status, said) = tree.run("action", &["run"], &variables);
    assert_eq!((status, &*said), (0, "<--><sh><-c><echo $HOME; `date` *>"));
    let (status, said) = tree.run("action", &["run"], &[("INPUT_ARGUMENTS", "'open")]);
    assert_eq!(status, 2, "{said}");
}

#[test]
fn an_inconclusive_result_passes_where_that_is_allowed() {
    let tree = Tree::new("action");
    for (status, passes) in [(0, true), (1, false), (3, true), (5, false)] {
        tree.program("bin/picklock", &reporter("<testsuites/>", status));
        let variables = [("INPUT_ALLOW_INCONCLUSIVE", "true")];
        let (ended, said) = tree.run("action", &["run"], &variables);
        assert_eq!(ended == 0, passes, "{status}: {said}");
    }
}
