//! However picklock ends, nothing of its servers stays behind.

#![expect(clippy::disallowed_methods, reason = "these tests watch real processes")]

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use live_world::supervisor::{COMMAND, Signal, StartRequest, SupervisorEvent, SupervisorRequest};
use nix::errno::Errno;
use nix::sys::signal::{Signal as Sig, kill};
use nix::unistd::Pid;

const PICKLOCK: &str = env!("CARGO_BIN_EXE_picklock");

/// Waits for something with a deadline; looks often.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The state letter of a process, none where there is none.
fn process_state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

fn process_is_gone(pid: i32) -> bool {
    // A zombie whose parent is gone lingers until init reaps it; it holds nothing.
    process_state(pid) == Some('Z') || kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

/// A supervisor with a temporary directory of its own, in which what it leaves can be seen.
struct Supervised {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    temp: tempfile::TempDir,
}

impl Supervised {
    fn spawn() -> Self {
        Self::spawn_in(tempfile::tempdir().unwrap())
    }

    fn spawn_in(temp: tempfile::TempDir) -> Self {
        let mut child = Command::new(PICKLOCK)
            .arg(COMMAND)
            .env("TMPDIR", temp.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines, temp }
    }

    fn send(&mut self, request: &SupervisorRequest) {
        let line = serde_json::to_string(request).unwrap();
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&mut self) -> SupervisorEvent {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn start(&mut self, id: u32) -> (i32, u16, PathBuf) {
        self.send(&start(id));
        match self.next() {
            SupervisorEvent::Started { pid, port, dir, .. } => (pid, port, dir),
            other => panic!("{other:?}"),
        }
    }

    /// Closes the pipe; afterwards nothing may be left.
    fn end(mut self, pids: &[i32]) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
        assert!(pids.iter().all(|pid| process_is_gone(*pid)));
        assert_eq!(entries(self.temp.path()), 0, "the supervisor left files");
    }
}

fn start(id: u32) -> SupervisorRequest {
    let binary = "redis-server".into();
    let (port, args, config) = (None, Vec::new(), String::new());
    SupervisorRequest::Start(StartRequest { id, binary, port, args, config, paged: false })
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

fn connects(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[test]
fn closing_the_pipe_ends_servers_ports_and_directory() {
    let mut supervised = Supervised::spawn();
    let (first, second) = (supervised.start(0), supervised.start(1));
    eventually("both listen", || connects(first.1) && connects(second.1));
    let root = first.2.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    assert!(root.starts_with("picklock-"), "{root}");
    supervised.end(&[first.0, second.0]);
    assert!(!connects(first.1) && !connects(second.1));
}

#[test]
fn a_stopped_server_is_ended_too() {
    let mut supervised = Supervised::spawn();
    let (pid, port, _) = supervised.start(0);
    eventually("it listens", || connects(port));
    supervised.send(&SupervisorRequest::Signal { id: 0, signal: Signal::Stop });
    eventually("it is stopped", || process_state(pid) == Some('T'));
    supervised.end(&[pid]);
}

#[test]
fn signals_to_the_supervisor_change_nothing_and_its_servers_still_hear_theirs() {
    let mut supervised = Supervised::spawn();
    let (pid, port, _) = supervised.start(0);
    eventually("it listens", || connects(port));
    let supervisor = Pid::from_raw(i32::try_from(supervised.child.id()).unwrap());
    for signal in [Sig::SIGINT, Sig::SIGTERM, Sig::SIGHUP] {
        kill(supervisor, signal).unwrap();
    }
    supervised.send(&SupervisorRequest::Signal { id: 0, signal: Signal::Term });
    match supervised.next() {
        SupervisorEvent::Exited { id: 0, status, log } => {
            assert_eq!(status, "exit status: 0");
            assert!(log.contains("bye bye"), "{log}");
        }
        other => panic!("{other:?}"),
    }
    supervised.end(&[pid]);
}

#[test]
fn requests_that_make_no_sense_are_answered_and_survived() {
    let mut supervised = Supervised::spawn();
    writeln!(supervised.stdin.as_mut().unwrap(), "nonsense").unwrap();
    assert!(matches!(supervised.next(), SupervisorEvent::Error { id: None, .. }));
    supervised.send(&SupervisorRequest::Stop { id: 7 });
    assert!(matches!(supervised.next(), SupervisorEvent::Error { id: Some(7), .. }));
    let (pid, _, _) = supervised.start(0);
    supervised.send(&start(0));
    assert!(matches!(supervised.next(), SupervisorEvent::Error { id: Some(0), .. }));
    supervised.end(&[pid]);
}

/// The processes of a room, by the directory in their environment.
fn processes(temp: &Path) -> Vec<Pid> {
    let marker = format!("TMPDIR={}", temp.display());
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let is_of_room = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).split('\0').any(|it| it == marker)
    };
    numbers.filter(is_of_room).map(Pid::from_raw).collect()
}

#[test]
fn a_supervisor_that_is_killed_leaves_its_servers_to_the_watcher() {
    let mut supervised = Supervised::spawn();
    let (pid, port, _) = supervised.start(0);
    eventually("it listens", || connects(port));
    supervised.child.kill().unwrap();
    supervised.child.wait().unwrap();
    eventually("the server is gone", || process_is_gone(pid));
    eventually("the directory is gone", || entries(supervised.temp.path()) == 0);
}

#[test]
fn what_all_three_left_is_swept_by_the_next_one_and_nothing_else_is() {
    let mut supervised = Supervised::spawn();
    let (pid, port, dir) = supervised.start(0);
    eventually("it listens", || connects(port));
    let supervisor = Pid::from_raw(i32::try_from(supervised.child.id()).unwrap());
    // A process that is just being started has no environment yet to be found by.
    let mut both = Vec::new();
    eventually("the watcher runs", || {
        both = processes(supervised.temp.path());
        both.retain(|it| it.as_raw() != pid);
        both.len() == 2
    });
    assert!(both.contains(&supervisor), "a watcher: {both:?}");
    let watcher = both.into_iter().find(|it| *it != supervisor).unwrap();
    // The supervisor is stopped, so that it does not notice the end of its watcher. The other way round would not do: a
    // stopped process whose parent ends is continued by the kernel.
    kill(supervisor, Sig::SIGSTOP).unwrap();
    eventually("the supervisor is stopped", || process_state(supervisor.as_raw()) == Some('T'));
    kill(watcher, Sig::SIGKILL).unwrap();
    eventually("the watcher is gone", || process_is_gone(watcher.as_raw()));
    kill(supervisor, Sig::SIGKILL).unwrap();
    supervised.child.wait().unwrap();
    assert!(dir.exists() && !process_is_gone(pid), "the test has left nothing to be swept");
    let strangers = supervised.temp.path().join("picklock-of-somebody-else");
    std::fs::create_dir(&strangers).unwrap();

    let mut next = Supervised::spawn_in(supervised.temp);
    let (living, ..) = next.start(0);
    eventually("the server is gone", || process_is_gone(pid));
    eventually("the directory is gone", || !dir.exists());
    assert!(strangers.exists() && !process_is_gone(living));
    std::fs::remove_dir(&strangers).unwrap();
    next.end(&[living]);
}

/// Holds the only writing end of the supervisor's pipe, asks for two servers, and waits for ever.
const OWNER: &str = r#"
    mkfifo "$2/pipe" "$2/never"
    "$1" __supervise < "$2/pipe" > "$2/out" & echo $! > "$2/new"
    exec 9> "$2/pipe"
    mv "$2/new" "$2/pid"
    echo "$3" >&9; echo "$4" >&9
    read -r never < "$2/never"
"#;

/// Kills the owner of the pipe with SIGKILL: `moment` after its supervisor was started, or once two
/// servers run.
fn kill_owner(moment: Option<Duration>) {
    let (room, temp) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut owner = Command::new("sh")
        .args(["-c", OWNER, "owner", PICKLOCK])
        .arg(room.path())
        .args([0, 1].map(|id| serde_json::to_string(&start(id)).unwrap()))
        .env("TMPDIR", temp.path())
        .spawn()
        .unwrap();
    let started = || -> Vec<SupervisorEvent> {
        let text = std::fs::read_to_string(room.path().join("out")).unwrap_or_default();
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let pid_file = room.path().join("pid");
    eventually("the supervisor runs", || pid_file.exists());
    let supervisor = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    match moment {
        None => eventually("both servers run", || started().len() == 2),
        // Not a wait for something: the moment of the start-up at which to die.
        Some(moment) => std::thread::sleep(moment),
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the supervisor is gone", || process_is_gone(supervisor));
    for event in started() {
        if let SupervisorEvent::Started { pid, .. } = event {
            assert!(process_is_gone(pid), "server {pid} is left");
        }
    }
    assert_eq!(entries(temp.path()), 0, "a directory is left");
    // So would be a server nobody was told of.
    eventually("no process is left", || processes(temp.path()).is_empty());
}

#[test]
fn sigkill_of_the_owner_ends_everything() {
    kill_owner(None);
}

#[test]
fn twenty_kills_during_start_up_leave_nothing() {
    for round in 0..20_u64 {
        // Spread over 40 ms, in which processes are forked and directories made.
        kill_owner(Some(Duration::from_micros(round * 7_919 % 40_000)));
    }
}
