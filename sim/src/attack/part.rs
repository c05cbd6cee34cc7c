//! One part of an attack, for `picklock merge`, and all of them together.
//!
//! Invariant: every part learns the worker's commands by itself, and all must learn the same plans: the number of a
//! plan says to which part it belongs.

use attack::{AttackPlan, AttackReport, PlanReport};
use harness::partition::Partition;

use super::super::args::AttackArgs;
use super::super::exit::Exit;
use super::super::failure::Failure;
use super::super::print;
use super::super::shard::{
    AttackFound, KeptPlan, PartFound, Question, Shard, ShardFile, refuse_changed,
};
use super::super::terminal::Terminal;
use super::{asked, run, write};

/// A part under way.
pub(super) struct AttackPart {
    file: ShardFile,
    /// How many plans are its own.
    mine: usize,
}

impl AttackPart {
    /// Opens the shard of these plans, and keeps only those in `plans` that this part has still to run.
    pub(super) fn open(args: &AttackArgs, plans: &mut Vec<AttackPlan>) -> Result<Self, Failure> {
        let names: Vec<String> = plans.iter().map(AttackPlan::to_string).collect();
        let nothing = AttackFound { plans: names.clone(), ..AttackFound::default() };
        let file =
            ShardFile::open(&args.shard, question(args)?, PartFound::Attack(Box::new(nothing)))?;
        let PartFound::Attack(found) = &file.shard.found else {
            return Err(file.of_another_kind());
        };
        let AttackFound { plans: known, kept, .. } = &**found;
        if *known != names {
            return Err(Failure::usage_text(
                "your worker sends other commands than when the shard was begun",
                "begin anew, in another directory with --shards",
            ));
        }
        let part = args.shard.partition.unwrap_or(Partition::WHOLE);
        let mut mine: Vec<(u64, AttackPlan)> = (0..).zip(plans.drain(..)).collect();
        mine.retain(|(place, plan)| part.takes(*place, plan.to_string().as_bytes()));
        let count = mine.len();
        mine.retain(|(place, _)| !kept.contains_key(place));
        plans.extend(mine.into_iter().map(|(_, plan)| plan));
        Ok(Self { file, mine: count })
    }

    /// Keeps the findings. The exit code says whether all was done, and nothing of the findings.
    pub(super) fn keep(mut self, mut report: AttackReport) -> Result<Exit, Failure> {
        let found = std::mem::take(&mut report.plans);
        let PartFound::Attack(all) = &mut self.file.shard.found else {
            return Err(self.file.of_another_kind());
        };
        for plan in found {
            let place = (0..).zip(&all.plans).find(|(_, name)| **name == plan.plan);
            match place.map(|(place, _)| place) {
                Some(place) => _ = all.kept.insert(place, kept_plan(plan)?),
                None => all.faultless = Some(kept_plan(plan)?),
            }
        }
        all.report = Some(report);
        let (done, mine) = (all.kept.len(), self.mine);
        self.file.shard.complete = done == mine;
        self.file.save()?;
        print::results(&self.file.summary(&format!("{done} of {mine} plans")))?;
        // Only a signal ends an attack early.
        Ok(Exit::of_shard(self.file.shard.complete, true))
    }
}

/// A plan as it is kept; with its history if it shows something.
fn kept_plan(report: PlanReport) -> Result<KeptPlan, Failure> {
    let mut history = Vec::new();
    history::write(&report.history, &mut history).map_err(Failure::internal)?;
    let history = String::from_utf8(history).map_err(Failure::internal)?;
    let shows = !report.findings.is_empty();
    Ok(KeptPlan { report, history: shows.then_some(history) })
}

/// The question that all parts have in common.
fn question(args: &AttackArgs) -> Result<Question, Failure> {
    let line = asked(args, &args.only)
        .options("--faults", &args.faults)
        .option("--again", args.again)
        .option("--start-within", args.start_within)
        .word("--");
    let line = args.command.iter().fold(line, |line, it| line.argument(&it.to_string_lossy()));
    Question::new(line.words(), [])
}

/// What the shards of an attack have found together, printed as by one run of the whole.
pub(in super::super) fn merged(
    args: &AttackArgs,
    asked: &Question,
    shards: impl Iterator<Item = Shard>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    refuse_changed(asked, &question(args)?)?;
    let mut whole: Option<Box<AttackFound>> = None;
    for shard in shards {
        let PartFound::Attack(theirs) = shard.found else {
            return Err(Failure::internal("an attack has a shard of something else"));
        };
        let Some(whole) = &mut whole else {
            whole = Some(theirs);
            continue;
        };
        let servers = [&*whole, &theirs].map(|it| it.report.as_ref().map(|it| &it.server));
        // A part that was cut short before its first plan does not know its server.
        let is_of_another = matches!(servers, [Some(one), Some(other)] if one != other);
        if whole.plans != theirs.plans || is_of_another {
            return Err(Failure::usage_text(
                "your worker sent other commands in one shard than in another, or to another server",
                "merge shards of one worker and one server",
            ));
        }
        whole.report = whole.report.take().or(theirs.report);
        whole.faultless = whole.faultless.take().or(theirs.faultless);
        whole.kept.extend(theirs.kept);
    }
    let AttackFound { plans, report, faultless, kept } = *whole.unwrap_or_default();
    let mut report = report.ok_or_else(|| {
        Failure::usage_text("no plan was run", "go on with the shards: add --resume")
    })?;
    report.complete = kept.len() == plans.len();
    let all = faultless.into_iter().chain(kept.into_values());
    report.plans = all.map(told).collect::<Result<_, _>>()?;
    write(args, &report, run::directory(&args.out, "attack", 1)?, terminal)?;
    Ok(Exit::of_attacked(&report))
}

/// A plan with its history.
fn told(kept: KeptPlan) -> Result<PlanReport, Failure> {
    let KeptPlan { mut report, history } = kept;
    if let Some(history) = history {
        report.history = history::read(history.as_bytes()).map_err(|error| {
            let what = format!("a history in a shard cannot be read: {error}");
            Failure::usage_text(what, "the shard is edited, or of another picklock")
        })?;
    }
    Ok(report)
}
