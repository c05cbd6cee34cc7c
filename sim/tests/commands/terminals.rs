//! picklock on a terminal: as wide as that is, and in colours where it knows them.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use nix::pty::{Winsize, openpty};

use crate::cli_support::Room;

/// What picklock prints on a terminal of this kind and so many columns.
fn on(terminal: &str, columns: u16, args: &[&str]) -> String {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).unwrap();
    let room = Room::new().with("TERM", terminal);
    let mut command = room.command(args);
    command.stdout(pty.slave.try_clone().unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Once nobody has the other end, reading from this one fails: that is its end.
    drop((command, pty.slave));
    let mut bytes = Vec::new();
    let _ = File::from(pty.master).read_to_end(&mut bytes);
    assert!(child.wait().unwrap().code().is_some());
    String::from_utf8(bytes).unwrap()
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.trim_end().chars().count()).max().unwrap()
}

#[test]
fn a_terminal_is_filled_and_not_more() {
    for columns in [60, 110] {
        let text = on("xterm", columns, &["list"]);
        let widest = widest(&text);
        let columns = usize::from(columns);
        assert!((columns - 9..=columns).contains(&widest), "{widest} of {columns}:\n{text}");
    }
    // Of a terminal that does not know its width nothing can be said.
    assert!((91..=100).contains(&widest(&on("xterm", 0, &["list"]))));
}

#[test]
fn colours_are_for_terminals_that_know_them() {
    let args = ["--scenario", "gc-pause", "--world", "virtual", "--seed", "1"];
    assert!(on("xterm", 100, &args).contains('\x1b'));
    assert!(!on("dumb", 100, &args).contains('\x1b'));
    let asked = [&args[..], &["--color", "always"]].concat();
    assert!(on("dumb", 100, &asked).contains('\x1b'));
}

#[test]
fn what_others_have_written_does_not_act_on_a_terminal() {
    let room = Room::new();
    let text = scenarios::catalog::text("gc-pause").unwrap();
    let kind = text.replacen("kind = \"pause\"", "kind = \"pa\\u001b[31muse\"", 1);
    let raw = text.replacen("[lock]", "# \u{1b}[31m\n[lok]", 1);
    assert!(kind != text && raw != text);
    let (kind, raw) = (room.file("kind.toml", kind), room.file("raw.toml", raw));
    // `ended` looks for the escape itself.
    let said = room.run(&["--scenario", &kind]).ended(2);
    assert!(said.stderr.contains(r"`pa\u{1b}[31muse`"), "{}", said.stderr);
    let said = room.run(&["--scenario", &raw]).ended(2);
    assert!(said.message().contains("raw.toml:"), "{}", said.stderr);

    let played = ["--scenario", "gc-pause", "--world", "virtual", "--seed", "1", "-q"];
    room.run(&played);
    let run = room.only_run();
    let path = run.join("manifest.json");
    let manifest = std::fs::read_to_string(&path).unwrap();
    let edited = manifest.replace("\"world\": \"virtual\"", "\"world\": \"v\\u001b[31m\"");
    assert_ne!(edited, manifest);
    std::fs::write(&path, edited).unwrap();
    let said = room.run(&["replay", run.to_str().unwrap()]).ended(2);
    assert!(said.stderr.contains(r"v\u{1b}[31m"), "{}", said.stderr);

    let version = "test \"$1\" = --version && echo 'Redis server v=7.0.15 sha=0' && exit";
    let server = room.program("server", &format!("{version}\nprintf '\\033[31mfatal\\n'\nexit 1"));
    let said = room.run(&["--scenario", "gc-pause", "--server-bin", &server]).ended(69);
    assert!(said.stderr.contains("fatal"), "{}", said.stderr);
}
