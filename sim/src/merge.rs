//! `picklock merge`: shards, put together.
//!
//! Invariant: the output is what one run of the whole would have given. Shards of something else, the same part twice,
//! and missing parts are refused, or reported if the user allows it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{CommandFactory as _, FromArgMatches as _};
use harness::partition::Partition;
use history::verdict::Level;
use scenarios::scenario::Scenario;
use scenarios::sweep::Sweep;

use super::args::{Cli, CliCommand, MergeArgs, RunArgs, Seeds};
use super::exit::Exit;
use super::failure::Failure;
use super::run::{expectation, sweep};
use super::shard::{PartFound, Question, Shard, refuse_changed};
use super::terminal::Terminal;
use super::{attack, explore, load, matrix, output, print, variables};

/// How many parts are named at most.
const NAMED: usize = 8;

/// Merges, and returns the exit code.
pub(super) fn main(args: &MergeArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    output::check_places(&args.format)?;
    let shards = shards(&args.shards)?;
    let lacking = together(&shards)?;
    if let Some(lacking) = &lacking
        && !args.allow_missing
    {
        return Err(Failure::usage_text(
            lacking.clone(),
            "run what is missing, with --resume where it was cut short, or add --allow-missing: what was not run counts as \
             inconclusive",
        ));
    }
    let (path, first) = &shards[0];
    let (path, asked) = (path.clone(), first.asked.clone());
    let command = command(&asked)?;
    // A sweep reports it on its own page.
    if let Some(lacking) = lacking.as_ref().filter(|_| !matches!(command, CliCommand::Run(_))) {
        print::note(&format!("note: {lacking}; what was not run counts as inconclusive"));
    }
    let found = shards.into_iter().map(|(_, shard)| shard);
    let exit = match command {
        CliCommand::Run(run) => {
            output::check(&args.format)?;
            let run = RunArgs { out: args.out.clone(), format: args.format.clone(), ..*run };
            merged_sweep(&run, &asked, found, lacking.clone(), terminal)?
        }
        CliCommand::Matrix(mut matrix) => {
            matrix.format.clone_from(&args.format);
            matrix::merged(&matrix, &asked, found, lacking.is_none(), terminal)?
        }
        CliCommand::Attack(mut attack) => {
            output::check(&args.format)?;
            attack.format.clone_from(&args.format);
            attack.out.clone_from(&args.out);
            attack::merged(&attack, &asked, found, terminal)?
        }
        CliCommand::Explore(mut explore) => {
            output::refuse_tables("explore", &args.format)?;
            output::check(&args.format)?;
            explore.format.clone_from(&args.format);
            explore.out.clone_from(&args.out);
            explore::merged(&explore, &asked, found, lacking.clone(), terminal)?
        }
        _ => {
            return Err(Failure::usage_text(
                format!("{} is no shard: its command has none", path.display()),
                "it is edited: name files that a run with --shards has written, or their directory",
            ));
        }
    };
    Ok(exit.of_merged(lacking.is_none()))
}

/// What these shards of a sweep have found.
fn merged_sweep(
    run: &RunArgs,
    asked: &Question,
    found: impl Iterator<Item = Shard>,
    lacking: Option<String>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let scenario: Arc<Scenario> = Arc::new(load::scenario(run)?);
    refuse_changed(asked, &Question::new(asked.command.clone(), [&*scenario])?)?;
    let seeds: &Seeds =
        run.seeds.as_ref().ok_or_else(|| Failure::internal("a sweep without seeds"))?;
    let (mut whole, mut cpu_ns) = (Sweep::default(), 0_u64);
    for shard in found {
        let part = shard.partition();
        let PartFound::Sweep { next, sweep } = shard.found else {
            return Err(Failure::internal("a sweep has a shard of a matrix"));
        };
        let done = seeds.0.start..next.min(seeds.0.end);
        let done = done.filter(|seed| part.takes(*seed, &seed.to_le_bytes()));
        let (schedules, names) = (done.count() as u64, names(&sweep));
        if sweep.schedules != schedules {
            let why = format!("it has {} schedules, and not {schedules}", sweep.schedules);
            return Err(unequal(part, &why));
        }
        if !(names.is_empty() || whole.invariants.is_empty() || names == self::names(&whole)) {
            return Err(unequal(part, "its invariants are not those of the others"));
        }
        whole.merge(sweep, sweep::KEEP);
        cpu_ns = cpu_ns.saturating_add(shard.cpu_ns);
    }
    whole.interrupted = lacking.is_some();
    sweep::merged(run, seeds, &scenario, (&whole, cpu_ns), lacking, terminal)?;
    let level = |level| whole.level(level);
    Ok(expectation::exit(run, &scenario, Exit::of_swept(&whole), true, level, terminal))
}

/// The names and levels of what a sweep has judged.
fn names(sweep: &Sweep) -> BTreeSet<(String, Level)> {
    sweep.invariants.iter().map(|it| (it.name.clone(), it.level)).collect()
}

fn unequal(part: Partition, why: &str) -> Failure {
    Failure::usage_text(
        format!("the shard {part} does not add up: {why}"),
        "it is damaged or edited: run this part again",
    )
}

/// Every shard in these files and directories, in the order of their parts.
fn shards(asked: &[PathBuf]) -> Result<Vec<(PathBuf, Shard)>, Failure> {
    let mut shards = Vec::new();
    for path in asked {
        for file in files(path)? {
            let (shard, _) = Shard::read(&file)?;
            shards.push((file, shard));
        }
    }
    shards.sort_by_key(|(_, shard)| shard.partition());
    if shards.is_empty() {
        let places: Vec<String> = asked.iter().map(|it| it.display().to_string()).collect();
        return Err(Failure::usage_text(
            format!("there is no shard in {}", places.join(", ")),
            "name the directory of --shards",
        ));
    }
    Ok(shards)
}

/// The file, or those in the directory that end in `.json` and are not hidden.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: std::io::Error| {
        Failure::usage_text(
            format!("cannot read {}: {error}", path.display()),
            "name files that a run with --shards has written, or their directory",
        )
    };
    let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(unreadable)?.collect();
    let mut files: Vec<PathBuf> =
        entries.map_err(unreadable)?.into_iter().map(|entry| entry.path()).collect();
    let hidden =
        |file: &Path| file.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"."));
    files.retain(|file| file.extension().is_some_and(|it| it == "json") && !hidden(file));
    files.sort();
    Ok(files)
}

/// Whether they are parts of one whole, and what is missing of it, if anything.
fn together(shards: &[(PathBuf, Shard)]) -> Result<Option<String>, Failure> {
    let (first, rest) = shards.split_first().ok_or_else(|| Failure::internal("no shards"))?;
    let apart = |other: &Path, why: String| {
        Failure::usage_text(
            format!(
                "{} and {} are no parts of one whole: {why}",
                first.0.display(),
                other.display()
            ),
            "merge shards that were asked for with the same command line, of the same build",
        )
    };
    let Partition { scheme, of, .. } = first.1.partition();
    for (path, shard) in rest {
        if let Some(why) = first.1.asked.differs(&shard.asked) {
            return Err(apart(path, why));
        }
        let theirs = shard.partition();
        if (theirs.scheme, theirs.of) != (scheme, of) {
            return Err(apart(path, format!("one is {}, the other {theirs}", first.1.partition())));
        }
    }
    for pair in shards.windows(2) {
        if pair[0].1.partition() == pair[1].1.partition() {
            return Err(apart_twice(&pair[0], &pair[1].0));
        }
    }
    let there: Vec<u64> = shards.iter().map(|(_, shard)| shard.partition().nth).collect();
    let missing = (1..=of).filter(|nth| there.binary_search(nth).is_err());
    let missing = missing.map(|nth| Partition { scheme, nth, of }.to_string());
    let short: Vec<&Path> = shards
        .iter()
        .filter(|(_, shard)| !shard.complete)
        .map(|(path, _)| path.as_path())
        .collect();
    let shown = short.iter().map(|path| path.display().to_string());
    let lacks = [
        ("missing", named(of - there.len() as u64, missing)),
        ("cut short", named(short.len() as u64, shown)),
    ];
    let lacks: Vec<String> = lacks
        .into_iter()
        .filter(|(_, which)| !which.is_empty())
        .map(|(how, which)| format!("{how}: {which}"))
        .collect();
    Ok((!lacks.is_empty()).then(|| format!("not all shards are there whole; {}", lacks.join("; "))))
}

/// `count` names in order; only the first ones and the last if there are many: there may be a billion.
fn named(count: u64, mut names: impl DoubleEndedIterator<Item = String>) -> String {
    if count <= NAMED as u64 {
        return names.collect::<Vec<_>>().join(", ");
    }
    let last = names.next_back().unwrap_or_default();
    let first: Vec<String> = names.take(NAMED - 1).collect();
    format!("{} and {} more, to {last}", first.join(", "), count - NAMED as u64)
}

fn apart_twice((one, shard): &(PathBuf, Shard), other: &Path) -> Failure {
    Failure::usage_text(
        format!("{} and {} are both {}", one.display(), other.display(), shard.partition()),
        "name each part once",
    )
}

/// The command that the shards are of. The line says everything: the variables of the machine that merges do not count.
fn command(asked: &Question) -> Result<CliCommand, Failure> {
    let words = ["picklock"].into_iter().chain(asked.command.iter().map(String::as_str));
    let unread = |error: String| {
        Failure::usage_text(
            format!("the shards' command line is invalid: {error}"),
            "they are edited, or of another picklock",
        )
    };
    let cli = variables::without_any(Cli::command())
        .try_get_matches_from(words)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| unread(error.to_string()))?;
    cli.command.ok_or_else(|| unread("it has no command".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_of_many_are_named() {
        let named = |all: std::ops::RangeInclusive<u64>| {
            let count = (all.end() + 1).saturating_sub(*all.start());
            named(count, all.map(|it| it.to_string()))
        };
        assert_eq!(super::named(0, std::iter::empty()), "");
        assert_eq!(named(3..=10), "3, 4, 5, 6, 7, 8, 9, 10");
        assert_eq!(named(1..=9), "1, 2, 3, 4, 5, 6, 7 and 1 more, to 9");
        assert_eq!(
            named(2..=1_000_000_000),
            "2, 3, 4, 5, 6, 7, 8 and 999999991 more, to 1000000000"
        );
    }
}
