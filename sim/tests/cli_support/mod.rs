//! picklock as its user meets it: a process with arguments, two streams and an exit code.
//!
//! Every [`Room`] has a directory for reports and one for temporary files of its own, so that what a
//! run leaves behind can be seen, in files and in processes.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![expect(clippy::disallowed_methods, reason = "these tests watch real processes")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scenarios::result::RunResult;

/// Longer than anything picklock does in these tests, on the slowest machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often an attack is run while the machine is too busy for a result.
const ATTACKS_MOST: usize = 3;

/// A history without events.
pub(crate) const HEAD: &str = r#"{"format":"picklock/history/1","scenario":"s","lock":"l","tracked":false,"locks":true,"world":"w","seed":1,"clients":3,"lock_key":"k","ttl_ns":1000,"margin_ns":10}"#;

/// The words of a command line without quotes.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A short run of the shipped scenario, with these options.
pub(crate) fn short<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let short = "--scenario bonus-pool --clients 20 --set lock.pause=5ms --set lock.retries=200";
    [&words(short)[..], options].concat()
}

/// A run that lasts until it is ended, with these options, of which none is given twice.
pub(crate) fn long<'a>(lock: &'a str, hold: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    let long = "--scenario bonus-pool --clients 10 --ttl 10m --set lock.retries=100000";
    [&words(long)[..], &["--lock", lock, "--hold", hold], options].concat()
}

/// Waits for something with a deadline; looks often.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a run printed, and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        let Output { status, stdout, stderr } = output;
        let [stdout, stderr] = [stdout, stderr].map(|it| String::from_utf8(it).unwrap());
        Self { code: status.code(), stdout, stderr }
    }

    /// Checks the exit code, and what holds for every run.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "\nstdout: {stdout}\nstderr: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert!(!format!("{stdout}{stderr}").contains('\x1b'), "colour without a terminal");
        self
    }

    /// The message on stderr without the breaks and bars of its layout.
    pub(crate) fn message(&self) -> String {
        let words = self.stderr.split_whitespace().filter(|word| *word != "│");
        words.collect::<Vec<_>>().join(" ")
    }

    /// What is on stdout, without the breaks of its layout.
    pub(crate) fn results(&self) -> String {
        words(&self.stdout).join(" ")
    }

    /// The line of the output that begins with this word, behind it.
    #[track_caller]
    pub(crate) fn after(&self, word: &str) -> &str {
        let line = self.stdout.lines().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("{word} in {}", self.stdout)).trim()
    }
}

/// Where picklock runs.
pub(crate) struct Room {
    dir: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Room {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        Self { dir, variables: Vec::new() }
    }

    /// The same, with a variable in its environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The directory picklock runs in.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file there and returns its path.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes a program there and returns its path.
    pub(crate) fn program(&self, name: &str, script: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.file(name, format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Checks JSON against the schema that is printed, which forbids nonsense in this place of it.
    #[track_caller]
    pub(crate) fn fits_schema(
        &self,
        schema: &[&str],
        json: &[u8],
        place: impl Fn(&mut serde_json::Value) -> &mut serde_json::Value,
    ) {
        let mut compiler = boon::Compiler::new();
        let schema = serde_json::from_str(&self.run(schema).ended(0).stdout).unwrap();
        compiler.add_resource("schema.json", schema).unwrap();
        let mut schemas = boon::Schemas::new();
        let index = compiler.compile("schema.json", &mut schemas).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(json).unwrap();
        schemas.validate(&value, index).unwrap();
        *place(&mut value) = "splendid".into();
        assert!(schemas.validate(&value, index).is_err(), "the schema cannot fail");
    }

    pub(crate) fn command<S: AsRef<str>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picklock"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PICKLOCK_") {
                command.env_remove(name);
            }
        }
        command
            .args(args.iter().map(AsRef::as_ref))
            .current_dir(self.path())
            .env("TMPDIR", self.path().join("tmp"))
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs picklock to its end.
    pub(crate) fn run<S: AsRef<str>>(&self, args: &[S]) -> Said {
        self.start(args).said()
    }

    /// Runs an attack to its end; again while the machine is too busy for a result.
    pub(crate) fn attack<S: AsRef<str>>(&self, args: &[S]) -> Said {
        let mut said = self.run(args);
        for _ in 1..ATTACKS_MOST {
            if !said.stdout.contains("the machine was too busy") {
                break;
            }
            said = self.run(args);
        }
        said
    }

    /// Starts picklock; its streams go to files, which are never full.
    pub(crate) fn start<S: AsRef<str>>(&self, args: &[S]) -> Playing {
        self.begin(self.command(args))
    }

    /// Starts a program that becomes picklock.
    pub(crate) fn start_program(&self, path: &str) -> Playing {
        // By its shell: a process that another test is starting may have the script open for writing, and then it
        // cannot be executed.
        let mut command = Command::new("sh");
        command.arg(path).current_dir(self.path()).stdin(Stdio::null());
        self.begin(command)
    }

    fn begin(&self, mut command: Command) -> Playing {
        let streams = tempfile::tempdir().unwrap();
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| streams.path().join(name));
        let child = command
            .stdout(File::create(&stdout).unwrap())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        Playing { child: Some(child), stdout, stderr, _streams: streams }
    }

    /// Directories of runs, without the links.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let list = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).filter(|path| !path.is_symlink()).collect()
        };
        list(&self.path().join("picklock-out")).iter().flat_map(|dir| list(dir)).collect()
    }

    /// The directory of the only run.
    #[track_caller]
    pub(crate) fn only_run(&self) -> PathBuf {
        let [run] = self.runs().try_into().expect("one run");
        run
    }

    /// The result of the only run.
    #[track_caller]
    pub(crate) fn result(&self) -> RunResult {
        let text = fs::read(self.only_run().join("result.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Processes that work in this room: picklock, its supervisor, its servers.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let room = self.path().canonicalize().unwrap();
        let inside = |process: &Path| {
            let cwd = fs::read_link(process.join("cwd")).unwrap_or_default();
            cwd.starts_with(&room)
        };
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let ours = processes.filter(|process| inside(process));
        ours.filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect()
    }

    /// Waits until nothing is left: no server, no temporary file.
    pub(crate) fn is_left_clean(&self) {
        eventually("the processes are gone", || self.processes().is_empty().then_some(()));
        let temp = self.path().join("tmp");
        let is_empty = || fs::read_dir(&temp).unwrap().next().is_none();
        eventually("the temporary files are gone", || is_empty().then_some(()));
    }

    /// The redis-servers that were started here: their processes and ports.
    pub(crate) fn servers(&self) -> Vec<(i32, u16)> {
        let server = |pid: i32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            let port = line.split_once("redis-server")?.1.split("127.0.0.1:").nth(1)?;
            let digits = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
            Some((pid, port[..digits].parse().ok()?))
        };
        self.processes().into_iter().filter_map(server).collect()
    }

    /// The first of them.
    pub(crate) fn server(&self) -> (i32, u16) {
        eventually("the server runs", || self.servers().first().copied())
    }
}

/// picklock at work. Dropped, it is killed.
pub(crate) struct Playing {
    child: Option<Child>,
    stdout: PathBuf,
    stderr: PathBuf,
    _streams: tempfile::TempDir,
}

impl Playing {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.as_ref().unwrap().id()).unwrap())
    }

    /// What it has said on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// What it has said on stdout so far.
    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap()
    }

    /// Whether it handles this signal by itself.
    pub(crate) fn catches(&self, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let caught = status.lines().find_map(|it| it.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|it| u64::from_str_radix(it.trim(), 16).ok());
        caught.unwrap_or(0) & 1 << (signal as i32 - 1) != 0
    }

    /// Whether it has a thread of this name.
    pub(crate) fn has_thread(&self, name: &str) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten();
        threads.flatten().any(|thread| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|it| it.trim() == name)
        })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let child = self.child.as_mut().unwrap();
        eventually("picklock ends", || child.try_wait().unwrap())
    }

    pub(crate) fn said(mut self) -> Said {
        let code = self.end().code();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        Said { code, stdout: read(&self.stdout), stderr: read(&self.stderr) }
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Where it has ended there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What the server on this port answers to inline commands, one a line.
pub(crate) fn asked(port: u16, commands: &str) -> String {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(format!("{commands}\r\nQUIT\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().unwrap_or_default()
}

/// The line by which one logs in to the server on this port, if picklock has started it.
pub(crate) fn login(port: u16) -> String {
    let config = |process: PathBuf| {
        let line = fs::read_to_string(process.join("cmdline")).ok()?;
        let is_it = line.contains("redis-server") && line.contains(&format!("127.0.0.1:{port}"));
        is_it.then(|| fs::read_to_string(process.join("cwd/redis.conf")).ok())?
    };
    let config = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| config(entry.path()));
    let config = config.unwrap_or_default();
    let password = config.lines().find_map(|line| line.strip_prefix("requirepass "));
    password.map(|password| format!("AUTH {password}\r\n")).unwrap_or_default()
}

/// How often the server on this port has carried out SET.
pub(crate) fn sets(port: u16) -> u64 {
    let text = asked(port, &format!("{}INFO commandstats", login(port)));
    let calls = text.split("cmdstat_set:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
}
