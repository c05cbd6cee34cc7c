//! The table of what was convicted, for the terminal and as a page of the book.

use std::fmt::Write as _;
use std::time::Duration;

use super::PlantedError;
use super::conviction::ErrorTrial;

const HEAD: &str = "\
# Planted errors

What the scenarios convict. Each error below is one that real lock libraries have had; `ci/planted` plants it in a copy of the
shipped lock, alone, and runs `picklock matrix` for the recipes concerned: first the scenarios as they are staged, then, if
none convicts it, their searched forms with 400 seeds. An error is convicted where an invariant is violated that the
catalogue expects to be held. Unit tests are not run: users' own locks have none of ours.

The errors are data in `ci/planted-errors`, with the place that each changes. This page is made by `ci/planted --markdown`.
*Seeds* is how many schedules it took. Of several convictions the one at the nearest level is shown: key before belief before
effect before progress. Behind each class stands how many of its errors that do harm are convicted. *Second* is a set of every
class that was written without a look at the scenarios: it says how much the others say of errors that nobody has thought of.
";

/// How many errors do harm, and how many of those were convicted, in one of their recipes at least.
pub(super) fn counts(trials: &[ErrorTrial<'_>]) -> (usize, usize) {
    let mut errors: Vec<(&str, bool)> = Vec::new();
    for trial in trials.iter().filter(|it| it.error.harmless.is_none()) {
        let convicted = trial.found.is_some();
        match errors.last_mut() {
            Some((name, any)) if *name == trial.error.name => *any |= convicted,
            _ => errors.push((&trial.error.name, convicted)),
        }
    }
    (errors.len(), errors.iter().filter(|(_, convicted)| *convicted).count())
}

/// One line of what came out.
pub(super) fn summary(trials: &[ErrorTrial<'_>], took: Duration) -> String {
    let (harmful, convicted) = counts(trials);
    let harmful_trials = || trials.iter().filter(|it| it.error.harmless.is_none());
    let of = |searched: bool| {
        let found = harmful_trials().filter_map(|it| it.found.as_ref());
        found.filter(|it| it.searched == searched).count()
    };
    let endless = trials.iter().filter(|it| !it.endless.is_empty()).count();
    let longest = trials.iter().max_by_key(|it| it.took);
    let longest = longest.map_or(String::new(), |it| {
        format!("; longest: {} in {}, {} s", it.error.name, it.recipe, it.took.as_secs())
    });
    format!(
        "{convicted} of {harmful} errors that do harm are convicted; in {} recipes: {} by what is staged, {} \
         searched; {endless} ran into the time limit; {} s{longest}",
        harmful_trials().count(),
        of(false),
        of(true),
        took.as_secs()
    )
}

/// The whole page.
pub(super) fn page(trials: &[ErrorTrial<'_>]) -> String {
    let (harmful, convicted) = counts(trials);
    format!(
        "{HEAD}\n{convicted} of {harmful} errors that do harm are convicted.\n{}",
        tables(trials)
    )
}

/// A table for each class.
pub(super) fn tables(trials: &[ErrorTrial<'_>]) -> String {
    let mut out = String::new();
    for class in trials.chunk_by(|one, other| one.error.class == other.error.class) {
        let (harmful, convicted) = counts(class);
        let _ = write!(
            out,
            "\n## {}: {convicted} of {harmful}\n\n| error | recipe | scenario | level | seeds |\n| --- | --- | --- | --- | \
             --- |\n",
            capital(&class[0].error.class)
        );
        class.iter().for_each(|trial| row(&mut out, trial));
    }
    out
}

fn row(out: &mut String, trial: &ErrorTrial<'_>) {
    let ErrorTrial { error, recipe, found, endless, .. } = trial;
    let (scenario, level, seeds) = match found {
        Some(it) => {
            let searched = if it.searched { ", searched" } else { "" };
            (format!("{}{searched}", it.scenario), it.level(), it.seeds.to_string())
        }
        None => (why(error), "", String::new()),
    };
    let endless: Vec<&str> = endless.iter().map(String::as_str).collect();
    let endless = match endless[..] {
        [] => String::new(),
        _ => format!(" (no end within the limit: {})", endless.join(", ")),
    };
    let (name, what) = (&error.name, &error.what);
    let _ =
        writeln!(out, "| `{name}`: {what} | {recipe} | {scenario}{endless} | {level} | {seeds} |");
}

/// Why nothing convicts it.
fn why(error: &PlantedError) -> String {
    match (&error.harmless, &error.missing) {
        (Some(why), _) => format!("harmless: {why}"),
        (None, Some(missing)) => format!("**not convicted**: {missing}"),
        (None, None) => "**not convicted**".to_owned(),
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
