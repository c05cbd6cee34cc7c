//! The violated run in the README is what picklock prints, and its picture what picklock draws.

use crate::cli_support::Room;

#[test]
fn the_violated_run_of_the_readme_is_what_picklock_prints() {
    let readme = include_str!("../../../README.md");
    let (_, run) = readme.split_once("```sh\npicklock --scenario gc-pause").expect("it has one");
    let mut blocks = run.split("```");
    let words = blocks.next().expect("the rest of the command").split_whitespace();
    let printed = blocks.nth(1).and_then(|it| it.strip_prefix("text\n")).expect("what it prints");
    let args: Vec<&str> = ["--scenario", "gc-pause"].into_iter().chain(words).collect();
    let room = Room::new();
    let said = room.run(&args).ended(1);
    assert!(said.stdout.contains(printed), "{args:?} prints\n{}", said.stdout);
    let drawn = std::fs::read(room.only_run().join("incident.png")).unwrap();
    let picture = include_bytes!("../../../docs/violated.png");
    assert!(
        drawn == picture,
        "docs/violated.png is another: run README's command and copy incident.png"
    );
}
