//! The state with which a soak is continued, and its page: two files in its directory.
//!
//! Invariant: both are replaced as a whole, and only if they are regular files that a soak has written. A soak of
//! something else, or of another build, is never continued.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use picklock::time::span_ns;
use reports::file;
use reports::html::soak_page;
use scenarios::soak::{Sitting, Soak};
use serde::{Deserialize, Serialize};

use crate::args::SoakArgs;
use crate::failure::Failure;
use crate::input;
use crate::run::now;
use crate::saved::SavedFile;
use crate::shard::Question;

/// The version of the format.
const FORMAT: &str = "picklock.soak/1";
const STATE: &str = "soak.json";
const PAGE: &str = "soak.html";

/// A soak as it is kept.
#[derive(Serialize, Deserialize)]
pub(super) struct SoakState {
    format: String,
    asked: Question,
    sittings: Vec<Sitting>,
    found: Soak,
}

/// A soak under way, and its files.
pub(super) struct SoakFile {
    file: SavedFile,
    asked: Question,
    pub(super) asked_ns: u64,
    pub(super) sittings: Vec<Sitting>,
    pub(super) found: Soak,
    /// How many schedules there were before this sitting.
    before: u64,
}

impl SoakFile {
    /// A new soak, or the stored one if that is to be continued. It is saved at once, so that nobody soaks for what
    /// cannot be kept.
    pub(super) fn open(
        args: &SoakArgs,
        asked: Question,
        fresh: impl FnOnce() -> Result<Soak, Failure>,
    ) -> Result<Self, Failure> {
        let [path, page] = [STATE, PAGE].map(|name| args.out.join(name));
        let (sittings, found, text) = match there(&path)? {
            false if there(&page)? => return Err(not_ours(&page, "there is no soak beside it")),
            false => (Vec::new(), fresh()?, None),
            true if !args.resume => {
                return Err(Failure::usage_text(
                    format!("{} is there already", path.display()),
                    "add --resume to go on with it, or choose another directory with --out",
                ));
            }
            true => {
                let (SoakState { sittings, found, .. }, text) = read(args, &asked)?;
                (sittings, found, Some(text))
            }
        };
        let file = SavedFile::new(path, "--out", text)?;
        file::check(&page).map_err(|error| Failure::unwritable(&page, &error, "--out"))?;
        let before = found.whole.schedules;
        let asked_ns = args.span.ns();
        let mut file = Self { file, asked, asked_ns, sittings, found, before };
        // Only reporting a soak again is no sitting.
        if !file.is_over(args.span.0) {
            file.sittings.push(Sitting { started_utc: now(), ..Sitting::default() });
        }
        file.write_state()?;
        Ok(file)
    }

    /// How long all sittings have lasted.
    pub(super) fn lasted(&self) -> Duration {
        Duration::from_nanos(self.sittings.iter().map(|it| it.lasted_ns).sum())
    }

    /// Whether it has ended: by a violation, or after this time.
    pub(super) fn is_over(&self, span: Duration) -> bool {
        self.found.conviction.is_some() || self.lasted() >= span
    }

    /// Where the page is.
    pub(super) fn page(&self) -> PathBuf {
        self.file.path().with_file_name(PAGE)
    }

    /// Notes what was found, and what the sitting has taken until now.
    pub(super) fn note(&mut self, found: Soak, lasted: Duration) {
        let [memory_bytes, highest_bytes] = memory();
        if let Some(sitting) = self.sittings.last_mut() {
            sitting.lasted_ns = span_ns(lasted);
            sitting.schedules = found.whole.schedules - self.before;
            (sitting.memory_bytes, sitting.highest_bytes) = (memory_bytes, highest_bytes);
        }
        self.found = found;
    }

    /// Writes both files.
    pub(super) fn save(&mut self, again: &str, is_running: bool) -> Result<(), Failure> {
        self.write_state()?;
        let page = self.page();
        there(&page)?;
        file::write(&page, &soak_page(&self.report(again, is_running)))
            .map_err(|error| Failure::full(&page, &error, "--out"))
    }

    fn write_state(&mut self) -> Result<(), Failure> {
        there(self.file.path())?;
        self.file.save(&SoakState {
            format: FORMAT.to_owned(),
            asked: self.asked.clone(),
            sittings: self.sittings.clone(),
            found: self.found.clone(),
        })
    }
}

/// The stored soak, to be continued, and the text of its file.
fn read(args: &SoakArgs, asked: &Question) -> Result<(SoakState, String), Failure> {
    let path = args.out.join(STATE);
    let text = input::text(&path).map_err(|error| not_ours(&path, &error.to_string()))?;
    let state: SoakState =
        serde_json::from_str(&text).map_err(|error| not_ours(&path, &error.to_string()))?;
    let of_something_else = |why: String| {
        Failure::usage_text(
            format!("{} is of something else: {why}", path.display()),
            "choose another directory with --out, or ask for the same with the same build",
        )
    };
    if state.format != FORMAT {
        return Err(of_something_else(format!(
            "its format is {:?}, and this picklock reads {FORMAT:?}",
            state.format
        )));
    }
    if let Some(why) = state.asked.differs(asked) {
        return Err(of_something_else(why));
    }
    match args.seed {
        Some(seed) if seed != state.found.base => Err(of_something_else(format!(
            "its seeds are drawn from {}, not from {seed}",
            state.found.base
        ))),
        _ => Ok((state, text)),
    }
}

/// Whether there is a regular file.
fn there(path: &Path) -> Result<bool, Failure> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::unwritable(path, &error, "--out")),
        Ok(found) if !found.is_file() => Err(not_ours(path, "it is no regular file")),
        Ok(_) => Ok(true),
    }
}

fn not_ours(path: &Path, why: &str) -> Failure {
    Failure::usage_text(
        format!("{} is no file of a soak, and is left alone: {why}", path.display()),
        "choose another directory with --out",
    )
}

/// The memory of this process, in bytes: now, and the most that it had; 0 if the system does not report it.
fn memory() -> [u64; 2] {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or_default() * 1024
    })
}
