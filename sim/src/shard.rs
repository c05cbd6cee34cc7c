//! A part of a sweep, matrix, attack or exploration, done on one machine and kept in a file for `picklock merge`.
//!
//! Invariant: a file says what is needed to merge it with others: what was asked, the build, which part it is, and
//! whether all of it was done. It is replaced as a whole, so a reader sees what was saved at some moment.

#![expect(clippy::disallowed_methods, reason = "shards are saved by the user's clock")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::time::{Duration, Instant};

use attack::{AttackReport, PlanReport};
use explore::{LastNumber, SearchStage};
use harness::partition::{Partition, Scheme};
use nix::time::{ClockId, clock_gettime};
use picklock::time::span_ns;
use ring::digest::{self, SHA256};
use scenarios::matrix::{Cell, INTERRUPTED, Matrix, Pair};
use scenarios::scenario::Scenario;
use scenarios::sweep::Sweep;
use serde::{Deserialize, Serialize};

use super::args::ShardArgs;
use super::failure::Failure;
use super::input;
use super::saved::SavedFile;

/// The version of the format.
const FORMAT: &str = "picklock.shard/1";
/// How often what was found is saved.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// How long a batch should last.
const BATCH_LASTS: Duration = Duration::from_secs(5);
/// The size of the first batch, before the pace is known, in items.
const FIRST_BATCH: u64 = 64;

/// What is asked of all parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    /// The version of picklock.
    picklock: String,
    /// A digest of the program.
    build: String,
    /// The command line without what differs between parts, word by word.
    pub(super) command: Vec<String>,
    /// A digest of the scenarios as they run.
    scenarios: String,
}

/// A part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Shard {
    format: String,
    pub(super) asked: Question,
    partition: String,
    /// Whether all of it was done.
    pub(super) complete: bool,
    /// What it has taken so far, in nanoseconds of processor time.
    pub(super) cpu_ns: u64,
    pub(super) found: PartFound,
}

/// What was found so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PartFound {
    /// Of a sweep, whose seeds below `next` are done.
    Sweep { next: u64, sweep: Sweep },
    /// Of an attack.
    Attack(Box<AttackFound>),
    /// Of an exploration: of the schedules with the most faults, those are done that are made of the first `next` with
    /// one fault less. `stages` has what they have shown, `found` the first that violate something.
    Explore { next: u64, stages: Vec<SearchStage>, found: Vec<LastNumber> },
    /// Of a matrix: pairs by their place among all, and the server they ran against.
    Matrix { server: Option<String>, pairs: BTreeMap<u64, Pair> },
}

impl PartFound {
    /// Which of its counts is impossible, if any.
    fn contradiction(&self) -> Option<String> {
        match self {
            Self::Sweep { sweep, .. } => sweep.contradiction(),
            Self::Matrix { pairs, .. } => pairs.values().find_map(|pair| {
                let Pair { scenario, lock, cells, .. } = pair;
                pair.contradiction().or_else(|| {
                    let is_uneven = |two: &[Cell]| two[0].runs.total() != two[1].runs.total();
                    let uneven = cells.windows(2).any(is_uneven);
                    uneven.then(|| format!("{scenario} with {lock}: its levels differ in runs"))
                })
            }),
            Self::Explore { stages, .. } => stages.iter().find_map(|it| {
                let counts = [it.violating, it.undecided, it.vacuous];
                let sum = counts.into_iter().try_fold(0_u64, u64::checked_add);
                let (size, faults, schedules) = (it.size, it.faults, it.schedules);
                let is_possible = sum.is_some_and(|sum| sum <= schedules);
                (!is_possible).then(|| format!("{size}, {faults} faults: more than {schedules}"))
            }),
            Self::Attack(_) => None,
        }
    }
}

/// What was found so far of an attack.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AttackFound {
    /// The names of all plans, in their order.
    pub(super) plans: Vec<String>,
    /// The report without plans; none before there is one.
    pub(super) report: Option<AttackReport>,
    /// The run without faults, if it is to be reported.
    pub(super) faultless: Option<KeptPlan>,
    /// Those that were run, by their place among all.
    pub(super) kept: BTreeMap<u64, KeptPlan>,
}

/// A plan that was run, and the text of its history if it shows something.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptPlan {
    pub(super) report: PlanReport,
    pub(super) history: Option<String>,
}

impl Question {
    /// The question of this command line, with the words that all parts share, about these scenarios.
    pub(super) fn new<'a>(
        command: Vec<String>,
        scenarios: impl IntoIterator<Item = &'a Scenario>,
    ) -> Result<Self, Failure> {
        let mut all = digest::Context::new(&SHA256);
        for scenario in scenarios {
            all.update(&serde_json::to_vec(scenario).map_err(Failure::internal)?);
        }
        Ok(Self {
            picklock: env!("CARGO_PKG_VERSION").to_owned(),
            build: build().map_err(Failure::unavailable)?,
            command,
            scenarios: hex(all),
        })
    }

    /// How this question differs from the other, if it does.
    pub(super) fn differs(&self, other: &Self) -> Option<String> {
        match () {
            () if self.picklock != other.picklock => Some(format!(
                "one is of picklock {}, the other of {}",
                self.picklock, other.picklock
            )),
            () if self.build != other.build => {
                Some("they are of two builds of picklock, which may run other schedules".to_owned())
            }
            () if self.command != other.command => {
                let [mine, theirs] = [self, other].map(|it| it.command.join(" "));
                Some(format!("one was asked for `{mine}`, the other for `{theirs}`"))
            }
            () if self.scenarios != other.scenarios => {
                Some("a scenario file is no longer what it was".to_owned())
            }
            () => None,
        }
    }
}

/// Processor time of this process so far, in nanoseconds.
pub(super) fn cpu_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or(0, |spent| span_ns(Duration::from(spent)))
}

/// A digest of this program. It is computed for every shard, so by a library that uses the processor's instructions.
fn build() -> io::Result<String> {
    let mut program = fs::File::open(std::env::current_exe()?)?;
    let (mut digest, mut bytes) = (digest::Context::new(&SHA256), vec![0; 1 << 16]);
    loop {
        match program.read(&mut bytes)? {
            0 => return Ok(hex(digest)),
            read => digest.update(&bytes[..read]),
        }
    }
}

fn hex(digest: digest::Context) -> String {
    digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses the question if the same words mean something else here.
pub(super) fn refuse_changed(asked: &Question, here: &Question) -> Result<(), Failure> {
    match asked.differs(here) {
        None => Ok(()),
        Some(why) => Err(Failure::usage_text(
            format!("the shards are of something else than their command line means here: {why}"),
            "merge with the build that wrote them, beside the same scenario files",
        )),
    }
}

impl Shard {
    /// The shard in this file, and the file's text.
    pub(super) fn read(path: &Path) -> Result<(Self, String), Failure> {
        let refused = |why: String| {
            Failure::usage_text(
                format!("{} is no shard: {why}", path.display()),
                "name files that a run with --shards has written, or their directory",
            )
        };
        let text = input::text(path).map_err(|error| refused(error.to_string()))?;
        let shard: Self =
            serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
        if shard.format != FORMAT {
            return Err(refused(format!(
                "its format is {:?}, and this picklock reads {FORMAT:?}",
                shard.format
            )));
        }
        shard.partition.parse::<Partition>().map_err(refused)?;
        if let Some(why) = shard.found.contradiction() {
            return Err(Failure::usage_text(
                format!("{} does not add up: {why}", path.display()),
                "it is damaged or edited: run this part again",
            ));
        }
        Ok((shard, text))
    }

    /// Which part it is.
    pub(super) fn partition(&self) -> Partition {
        self.partition.parse().unwrap_or(Partition::WHOLE)
    }
}

/// A shard under way, and its file.
pub(super) struct ShardFile {
    file: SavedFile,
    pub(super) shard: Shard,
    /// When it was saved last.
    saved: Instant,
    /// When the batch began.
    began: Instant,
    /// The size of the next batch, in items.
    batch_size: u64,
}

impl ShardFile {
    /// A new shard with nothing found yet, or the stored one if that is to be continued. It is saved at once, so that
    /// no work is done that cannot be kept.
    pub(super) fn open(
        args: &ShardArgs,
        asked: Question,
        nothing: PartFound,
    ) -> Result<Self, Failure> {
        let directory = args.shards.clone().unwrap_or_default();
        let partition = args.partition.unwrap_or(Partition::WHOLE);
        let scheme = match partition.scheme {
            Scheme::Slice => "slice",
            Scheme::Hash => "hash",
        };
        let Partition { nth, of, .. } = partition;
        // With zeros in front a list of files is in the order of the parts.
        let digits = of.to_string().len();
        let path = directory.join(format!("{scheme}-{nth:0digits$}-of-{of}.json"));
        let (shard, text) = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let shard = Shard {
                    format: FORMAT.to_owned(),
                    asked,
                    partition: partition.to_string(),
                    complete: false,
                    cpu_ns: 0,
                    found: nothing,
                };
                (shard, None)
            }
            Ok(_) if !args.resume => {
                return Err(Failure::usage_text(
                    format!("{} is there already", path.display()),
                    "add --resume to go on with it, or choose another directory with --shards",
                ));
            }
            Err(error) => return Err(Failure::unwritable(&path, &error, "--shards")),
            Ok(_) => {
                let (shard, text) = Shard::read(&path)?;
                if let Some(why) = shard.asked.differs(&asked) {
                    return Err(Failure::usage_text(
                        format!("{} is of something else: {why}", path.display()),
                        "choose another directory with --shards, or ask for the same with the same build",
                    ));
                }
                (shard, Some(text))
            }
        };
        let mut file = Self {
            file: SavedFile::new(path, "--shards", text)?,
            shard,
            saved: Instant::now(),
            began: Instant::now(),
            batch_size: FIRST_BATCH,
        };
        file.save()?;
        Ok(file)
    }

    /// The size of the next batch, in items.
    pub(super) fn batch_size(&self) -> u64 {
        self.batch_size
    }

    /// Notes that a batch was done, chooses the size of the next by how long it took, and saves the shard if it is due.
    pub(super) fn end_batch(&mut self) -> Result<(), Failure> {
        let lasted = self.began.elapsed();
        self.began = Instant::now();
        let first = self.batch_size == FIRST_BATCH;
        if lasted < BATCH_LASTS / 2 {
            self.batch_size = self.batch_size.saturating_mul(2);
        } else if lasted > BATCH_LASTS * 2 {
            self.batch_size = (self.batch_size / 2).max(1);
        }
        if first || self.saved.elapsed() >= SAVE_EVERY { self.save() } else { Ok(()) }
    }

    /// The pairs that were found, by their place.
    pub(super) fn pairs(&self) -> Result<&BTreeMap<u64, Pair>, Failure> {
        match &self.shard.found {
            PartFound::Matrix { pairs, .. } => Ok(pairs),
            _ => Err(self.of_another_kind()),
        }
    }

    /// Keeps the pairs that were run, whose places these are.
    pub(super) fn keep_pairs(
        &mut self,
        found: Matrix,
        places: impl Iterator<Item = u64>,
    ) -> Result<(), Failure> {
        match &mut self.shard.found {
            PartFound::Matrix { server, pairs } => {
                *server = found.server.or(server.take());
                let ran = |(_, pair): &(u64, Pair)| pair.not_run.as_deref() != Some(INTERRUPTED);
                pairs.extend(places.zip(found.pairs).filter(ran));
                Ok(())
            }
            _ => Err(self.of_another_kind()),
        }
    }

    /// The refusal of a shard of another command.
    pub(super) fn of_another_kind(&self) -> Failure {
        Failure::usage_text(
            format!("{} is of another command", self.file.path().display()),
            "choose another directory with --shards",
        )
    }

    /// Saves it.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        self.file.save(&self.shard)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// The summary at the end: how much was done of what.
    pub(super) fn summary(&self, done: &str) -> String {
        let Shard { partition, complete, .. } = &self.shard;
        let path = self.file.path();
        let directory = path.parent().unwrap_or(Path::new(".")).display();
        let next = match complete {
            true => format!("when all are there: picklock merge {directory}"),
            false => "cut short: go on with --resume".to_owned(),
        };
        format!("{partition}: {done}\nsaved: {}\n{next}\n", path.display())
    }
}
