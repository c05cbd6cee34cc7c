//! `picklock soak`: sound recipes in searched forms for hours, each time with fresh seeds.
//!
//! Invariant: what is saved is what was run, so a soak that was ended in whatever way is gone on with, and no schedule
//! counts twice. It ends at the first violation.

#![expect(clippy::disallowed_methods, reason = "a soak lasts by the user's clock")]

mod state;
mod violation;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use harness::soak::{SharedSoak, soak};
use harness::sweep::BatchProgress;
use reports::soak::SoakReport;
use scenarios::format::count;
use scenarios::recipe;
use scenarios::soak::{Soak, SoakConviction};

use self::state::SoakFile;
use super::args::{MatrixArgs, ServerArgs, ShardArgs, SoakArgs, Threads, World};
use super::exit::Exit;
use super::failure::Failure;
use super::line::Line;
use super::matrix::Asked;
use super::progress::{Progress, span};
use super::run::{draw, report};
use super::shard::Question;
use super::terminal::Terminal;
use super::{print, signal, world};

/// So often the page and the state are written.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// Soaks, and says how picklock ends.
pub(super) fn main(args: &SoakArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.span.0.is_zero() {
        return Err(Failure::usage_text(
            "--for 0s leaves no time to soak",
            "give a time, such as --for 8h, or omit --for",
        ));
    }
    let asked = Asked::read(&of_matrix(args))?;
    if asked.pairs.is_empty() {
        return Err(Failure::usage_text(
            "there is nothing to soak: no scenario that was named has a searched form",
            "name others with --scenario, or omit it for all",
        ));
    }
    let question = Question::new(line(args).words(), asked.pairs.iter().map(|it| &**it))?;
    let fresh = || -> Result<Soak, Failure> {
        // Short enough to be read out.
        let base = args.seed.map_or_else(|| draw().map(|it| it >> 32), Ok)?;
        Ok(Soak::new(base, asked.pairs.iter().map(|it| &**it)))
    };
    let mut file = SoakFile::open(args, question, fresh)?;
    if !terminal.options.quiet {
        print::note(&format!(
            "page: {}; seeds are drawn from {}",
            file.page().display(),
            file.found.base
        ));
    }
    // A soak that has ended, by a violation or by its time, is only reported again.
    let is_over = file.is_over(args.span.0);
    let interrupted = !is_over && run_sitting(args, &asked, &mut file, terminal)?;
    let conviction = file.found.conviction.clone();
    let again = again(args, &asked, conviction.as_ref());
    // Before the violation is shrunk, which takes a while.
    let saved = file.save(&again, false);
    let reported = conviction
        .as_ref()
        .map_or(Ok(()), |it| violation::write_report(args, &asked, it, terminal));
    let next = match file.is_over(args.span.0) {
        true => String::new(),
        false => format!("go on: {again}\n"),
    };
    let page = match saved {
        Ok(()) => format!("page: {}\n", file.page().display()),
        Err(_) => String::new(),
    };
    let summary = reports::terminal::soak(&file.report(&again, false), report::style(terminal));
    print::results(&format!("{summary}{page}{next}"))?;
    saved?;
    reported?;
    Ok(Exit::of_soak(&file.found, interrupted))
}

/// The matrix whose pairs are soaked.
fn of_matrix(args: &SoakArgs) -> MatrixArgs {
    let sound = recipe::ALL.into_iter().filter(|it| it.flaw.is_none());
    let lock = match &args.lock[..] {
        [] => sound.map(|it| it.name.to_owned()).collect(),
        asked => asked.to_vec(),
    };
    MatrixArgs {
        world: World::Virtual,
        scenario: args.scenario.clone(),
        lock,
        searched: true,
        lua: false,
        server: ServerArgs::default(),
        seeds: None,
        threads: Threads::default(),
        shard: ShardArgs::default(),
        format: Vec::new(),
    }
}

/// The options that are the same in all sittings.
fn line(args: &SoakArgs) -> Line {
    Line::new()
        .word("soak")
        .options("--scenario", args.scenario.iter().map(|it| it.display()))
        .options("--lock", &args.lock)
}

/// The line that continues the soak, or that runs the schedule again that ended it.
fn again(args: &SoakArgs, asked: &Asked, conviction: Option<&SoakConviction>) -> String {
    match conviction {
        Some(it) => violation::line(asked, it).text(),
        None => line(args)
            .option("--for", args.span)
            .option("--out", args.out.display())
            .word("--resume")
            .text(),
    }
}

/// One sitting: until the time of all sittings is over, something is violated, or a signal comes; true if one came.
fn run_sitting(
    args: &SoakArgs,
    asked: &Asked,
    file: &mut SoakFile,
    terminal: &Terminal,
) -> Result<bool, Failure> {
    let runtime = world::runtime()?;
    let began = Instant::now();
    let end = began + args.span.0.saturating_sub(file.lasted());
    let threads = args.threads.count();
    let shared = Arc::new(SharedSoak::new(file.found.clone()));
    let batch = Arc::new(BatchProgress::default());
    let again = again(args, asked, None);
    let outcome = runtime.block_on(async {
        let mut signals = signal::watch().map_err(Failure::unavailable)?;
        let _progress = shown(args, file, began, &batch, terminal);
        let (scenarios, theirs, progress) =
            (asked.pairs.clone(), Arc::clone(&shared), Arc::clone(&batch));
        let mut work = tokio::task::spawn_blocking(move || {
            soak(|| world::simulated(false), &scenarios, &theirs, threads, &progress)
        });
        let (mut save_at, mut interrupted) = (Instant::now(), false);
        loop {
            let is_stopping = batch.stop.load(Ordering::Relaxed);
            tokio::select! {
                biased;
                ended = &mut work => break ended.map_err(Failure::internal).map(|it| (it, interrupted)),
                Ok(_) = signals.wait_for(|it| *it), if !is_stopping => {
                    interrupted = true;
                    batch.stop.store(true, Ordering::Relaxed);
                }
                () = tokio::time::sleep_until(save_at.min(end).into()), if !is_stopping => {
                    if Instant::now() >= end {
                        batch.stop.store(true, Ordering::Relaxed);
                        continue;
                    }
                    save_at = Instant::now() + SAVE_EVERY;
                    file.note(shared.snapshot(), began.elapsed());
                    // A disk that is full now may not be in a minute.
                    if let Err(failure) = file.save(&again, true) {
                        print::raw(&failure.render(terminal));
                    }
                }
            }
        }
    });
    runtime.shutdown_background();
    let (worked, interrupted) = outcome?;
    file.note(shared.snapshot(), began.elapsed());
    worked?;
    Ok(interrupted)
}

/// Shows how far the soak has come.
fn shown(
    args: &SoakArgs,
    file: &SoakFile,
    began: Instant,
    batch: &Arc<BatchProgress>,
    terminal: &Terminal,
) -> Progress {
    let (before, asked, earlier) = (file.lasted(), args.span.0, file.found.whole.schedules);
    let batch = Arc::clone(batch);
    Progress::say(terminal, asked.as_secs(), move || {
        let (here, done) = (began.elapsed(), batch.done.load(Ordering::Relaxed));
        let [lasted, left] =
            [before + here, asked.saturating_sub(before + here)].map(|it| it.as_secs());
        #[expect(clippy::cast_precision_loss, reason = "a pace needs no more digits")]
        let pace = done as f64 / here.as_secs_f64().max(1.0);
        let schedules = count(earlier + done);
        let said = format!(
            "{schedules} schedules in {}, {pace:.0} a second, {} left",
            span(lasted),
            span(left)
        );
        (lasted, said)
    })
}

impl SoakFile {
    /// The soak as its page shows it.
    fn report<'a>(&'a self, again: &'a str, is_running: bool) -> SoakReport<'a> {
        SoakReport {
            found: &self.found,
            sittings: &self.sittings,
            asked_ns: self.asked_ns,
            is_running,
            again,
        }
    }
}
