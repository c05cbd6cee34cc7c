//! What `--format` writes to: regular files are replaced, anything else is written to and stays what it is.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::cli_support::{HEAD, Room, Said, eventually, words};

/// Somebody without any rights of their own.
const NOBODY: u32 = 65_534;

/// picklock as a user runs it: as whoever runs the test, or as nobody.
struct User {
    room: Room,
    program: Option<std::path::PathBuf>,
}

impl User {
    /// The one who runs the tests, and where that is root, one who is not.
    fn all() -> Vec<Self> {
        let mut all = vec![Self { room: Room::new(), program: None }];
        if is_root(&all[0].room) {
            let room = Room::new();
            // The place of the build need not be open to others.
            let program = room.path().join("picklock");
            fs::copy(env!("CARGO_BIN_EXE_picklock"), &program).unwrap();
            for path in [room.path(), &room.path().join("tmp")] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            all.push(Self { room, program: Some(program) });
        }
        all
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.room.command(args);
        if let Some(program) = &self.program {
            command = Command::new(program);
            command.args(args).current_dir(self.room.path()).stdin(Stdio::null());
            command.env_clear().env("TMPDIR", self.room.path().join("tmp"));
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// A run of each command that writes reports, whose JSON goes there.
    fn each_to(&self, file: &Path) -> Vec<Said> {
        let history = self.history();
        let json = format!("json={}", file.display());
        let commands: [&[&str]; 5] = [
            &["--scenario", "gc-pause", "--lock", "single", "--world", "virtual", "--seed", "1"],
            &words("--scenario gc-pause --lock single --world virtual --seeds 0..2"),
            &["matrix", "--scenario", "gc-pause", "--lock", "single", "--seeds", "0..1"],
            &["check", &history],
            &["list"],
        ];
        commands.map(|args| self.run(&[args, &["--format", &json]].concat())).into()
    }

    fn history(&self) -> String {
        let path = self.room.path().join("history.jsonl");
        fs::write(&path, format!("{HEAD}\n")).unwrap();
        path.display().to_string()
    }
}

/// Whether the test runs as root: what it makes is root's.
fn is_root(room: &Room) -> bool {
    fs::metadata(room.path().join("tmp")).unwrap().uid() == 0
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_device_stays_a_device_and_one_that_is_full_is_no_success() {
    for user in User::all() {
        let link = user.room.path().join("link");
        symlink("/dev/full", &link).unwrap();
        for device in [Path::new("/dev/full"), &link] {
            for said in user.each_to(device) {
                let said = said.ended(69);
                assert!(said.message().contains("No space left"), "{}", said.stderr);
            }
            assert!(fs::metadata(device).unwrap().file_type().is_char_device());
        }
        assert!(link.is_symlink());
        for said in user.each_to(Path::new("/dev/null")) {
            assert_eq!(said.stdout, "", "{}", said.stderr);
            assert_ne!(said.code, Some(69), "{}", said.stderr);
        }
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}

#[test]
fn a_pipe_gives_its_reader_everything_and_stays_a_pipe() {
    for user in User::all() {
        let pipe = user.room.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::set_permissions(&pipe, Permissions::from_mode(0o666)).unwrap();
        let path = pipe.clone();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            File::open(path).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        let json = format!("json={}", pipe.display());
        let said = user.run(&["list", "--format", "human", "--format", &json]).ended(0);
        assert!(said.stdout.contains("known flaw"));
        let read: serde_json::Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
        assert_eq!(read["schema"], "picklock/list/1");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_waited_for_until_a_signal_comes() {
    let room = Room::new();
    let pipe = room.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let json = format!("json={}", pipe.display());
    let run =
        ["--scenario", "gc-pause", "--lock", "fenced", "--world", "virtual", "--seeds", "0..2"];
    let playing = room.start(&[&run[..], &["--format", &json, "--format", "human"]].concat());
    eventually("it opens the pipe", || playing.has_thread("picklock-output").then_some(()));
    // One signal: a second would end it at once, without a word.
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    assert!(said.stderr.contains("interrupted while writing to"), "{}", said.stderr);
}

#[test]
fn stdout_by_its_name_is_stdout_whatever_it_is() {
    for user in User::all() {
        let args = ["list", "--format", "human", "--format", "json=/dev/stdout"];
        let piped = user.run(&args).ended(0).stdout;
        let file = user.room.path().join("out");
        fs::write(&file, "").unwrap();
        let stdout = File::options().write(true).open(&file).unwrap();
        assert!(user.command(&args).stdout(stdout).status().unwrap().success());
        let filed = fs::read_to_string(&file).unwrap();
        for text in [piped, filed] {
            assert!(text.contains("known flaw"), "what is for people came first: {text}");
            let json = &text[text.find("{\n").unwrap()..];
            serde_json::from_str::<serde_json::Value>(json).unwrap();
        }
    }
}

#[test]
fn a_regular_file_is_replaced_behind_its_links_and_keeps_its_permissions() {
    for user in User::all() {
        let at = |name: &str| user.room.path().join(name);
        fs::write(at("file"), "long".repeat(100_000)).unwrap();
        fs::set_permissions(at("file"), Permissions::from_mode(0o604)).unwrap();
        if user.program.is_some() {
            chown(at("file"), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        symlink("file", at("link")).unwrap();
        for said in user.each_to(&at("link")) {
            assert_ne!(said.code, Some(69), "{}", said.stderr);
            let text = fs::read_to_string(at("file")).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
            assert!(at("link").is_symlink());
            assert_eq!(mode(&at("file")), 0o604);
        }
    }
}

#[test]
fn a_file_that_may_not_be_written_is_refused_and_one_in_a_closed_directory_is_written() {
    for user in User::all() {
        let at = |name: &str| user.room.path().join(name);
        fs::create_dir(at("closed")).unwrap();
        for (name, mode) in [("closed/open", 0o666), ("closed/fixed", 0o444)] {
            fs::write(at(name), "mine").unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(at("closed"), Permissions::from_mode(0o555)).unwrap();
        let json = |name: &str| format!("json={}", at(name).display());
        user.run(&["list", "--format", &json("closed/open")]).ended(0);
        assert!(fs::read_to_string(at("closed/open")).unwrap().starts_with('{'));
        assert_eq!(fs::read_dir(at("closed")).unwrap().count(), 2);
        // Root may write anything.
        let may_all = is_root(&user.room) && user.program.is_none();
        if !may_all {
            for name in ["closed/fixed", "closed/new"] {
                let said = user.run(&["list", "--format", &json(name)]).ended(2);
                assert!(said.message().contains("name a file in a directory"), "{}", said.stderr);
            }
            assert_eq!(fs::read_to_string(at("closed/fixed")).unwrap(), "mine");
        }
        fs::set_permissions(at("closed"), Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn the_log_of_a_proxy_leaves_a_device_alone() {
    let room = Room::new();
    let playing =
        room.start(&["proxy", "--listen", "0", "--upstream", "127.0.0.1:1", "--log", "/dev/null"]);
    eventually("it listens", || playing.stdout().contains(" -> ").then_some(()));
    playing.signal(Signal::SIGTERM);
    playing.said().ended(0);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn what_was_found_is_printed_although_the_disk_is_full() {
    let room = Room::new();
    let run = "--scenario late-messages --lock del-release --world virtual";
    for (command, says) in [
        (format!("{run} --seed 1"), "verdict: "),
        (format!("{run} --seeds 0..20"), "verdict: violated"),
        ("explore --lock del-release --no-confirm".to_owned(), "verdict: violated"),
        ("tune --preset go --hold 5ms --holds 1000".to_owned(), "TTL"),
    ] {
        // A file takes so little that it is as if the disk were full. Stdout is a pipe, and takes all.
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 4; exec \"$0\" \"$@\""]);
        limited.arg(env!("CARGO_BIN_EXE_picklock")).args(words(&command));
        limited.current_dir(room.path()).stdin(Stdio::null());
        let said = Said::of(limited.output().unwrap()).ended(69);
        assert!(said.stdout.contains(says), "{command}: {}", said.stdout);
        assert!(said.message().contains("make room"), "{command}: {}", said.stderr);
        let mut left = Command::new("find");
        left.args([".", "-name", ".writing-*"]).current_dir(room.path());
        let left = left.output().unwrap();
        assert!(left.stdout.is_empty(), "{command}: {:?}", String::from_utf8(left.stdout));
    }
}
