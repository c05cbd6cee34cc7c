//! The table of what was convicted, for the terminal and as a page of the book.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::PlantedError;
use super::conviction::{ErrorTrial, MatrixForm};

const HEAD: &str = "\
# Planted errors

This page shows which errors of a lock the scenarios find: errors such as real lock libraries have had. `ci/planted` plants them,
one at a time, in a copy of picklock's lock library, and runs `picklock matrix` with the recipes concerned.

An error is *convicted* if a run violates an invariant that [the catalogue](catalogue.md) expects to hold. The scenarios run first
as they are staged, then, if none convicts the error, in their searched forms with 400 seeds. Errors in the code that talks to a
real server run in the embedded world, on real sockets. Unit tests are not run: your lock has none of ours.

| column | meaning |
| --- | --- |
| error | its name in `ci/planted-errors`, where the changed code is, and what is wrong |
| recipe | a recipe that runs the changed code. An error counts as convicted if it is convicted in one of its recipes |
| scenario | what convicts it, with *searched* or *embedded* if it was not as staged; of several, the one at the nearest level: key before belief, effect and progress. Of a harmless error, why it does no harm |
| level | the level of that violation |
| seeds | how many schedules it took |

Each heading says how many of its harmful errors are convicted. The *blind* sets come last. They were written without a look at
the scenarios, so they estimate how many unforeseen errors the scenarios find. `ci/planted --markdown` writes this page.
";
/// These sets: they measure, and nothing is asked of them.
const BLIND: [&str; 9] =
    ["second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

/// How many errors there are that do harm, and how many of those were convicted, in one of their recipes at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ErrorShare {
    pub(super) harmful: usize,
    pub(super) convicted: usize,
}

impl fmt::Display for ErrorShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.convicted, self.harmful)
    }
}

/// The share of those that were written for the scenarios, and of those that were written without a look at them.
pub(super) fn shares(trials: &[ErrorTrial<'_>]) -> (ErrorShare, ErrorShare) {
    let (mut known, mut blind) = (ErrorShare::default(), ErrorShare::default());
    let harmful = trials.iter().filter(|it| it.error.harmless.is_none());
    let harmful: Vec<&ErrorTrial<'_>> = harmful.collect();
    for error in harmful.chunk_by(|one, other| one.error.name == other.error.name) {
        let is_blind = BLIND.contains(&&*error[0].error.class);
        let share = if is_blind { &mut blind } else { &mut known };
        share.harmful += 1;
        share.convicted += usize::from(error.iter().any(|it| it.found.is_some()));
    }
    (known, blind)
}

/// In words.
fn both((known, blind): (ErrorShare, ErrorShare)) -> String {
    let share = |it: ErrorShare, whose| {
        (it.harmful > 0).then(|| format!("{it} harmful errors{whose} are convicted"))
    };
    let both = [share(known, ""), share(blind, " of the blind sets")];
    both.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// One line of what came out.
pub(super) fn summary(trials: &[ErrorTrial<'_>], took: Duration) -> String {
    let harmful_trials = || trials.iter().filter(|it| it.error.harmless.is_none());
    let of = |form: MatrixForm| {
        let found = harmful_trials().filter_map(|it| it.found.as_ref());
        found.filter(|it| it.form == form).count()
    };
    let endless = trials.iter().filter(|it| !it.endless.is_empty()).count();
    let longest = trials.iter().max_by_key(|it| it.took);
    let longest = longest.map_or(String::new(), |it| {
        format!("; longest: {} in {}, {} s", it.error.name, it.recipe, it.took.as_secs())
    });
    format!(
        "{}; in {} recipes: {} by what is staged, {} searched, {} on real sockets; {endless} ran into the time limit; {} s{longest}",
        both(shares(trials)),
        harmful_trials().count(),
        of(MatrixForm::Staged),
        of(MatrixForm::Searched),
        of(MatrixForm::Embedded),
        took.as_secs()
    )
}

/// The whole page.
pub(super) fn page(trials: &[ErrorTrial<'_>]) -> String {
    format!("{HEAD}\n{}.\n{}", both(shares(trials)), tables(trials))
}

/// A table for each class, the blind sets last.
pub(super) fn tables(trials: &[ErrorTrial<'_>]) -> String {
    let mut out = String::new();
    let set = |class: &str| BLIND.iter().position(|it| *it == class);
    let classes = trials.chunk_by(|one, other| one.error.class == other.error.class);
    let mut classes: Vec<_> = classes.map(|class| (set(&class[0].error.class), class)).collect();
    classes.sort_by_key(|(set, _)| *set);
    for (set, class) in classes {
        let (known, blind) = shares(class);
        let share = if known.harmful > 0 { known } else { blind };
        let kind = if set.is_some() { " blind set" } else { "" };
        let _ = write!(
            out,
            "\n## {}{kind}: {share}\n\n| error | recipe | scenario | level | seeds |\n| --- | --- | --- | --- | \
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
            let scenario = format!("{}{}", it.scenario, it.form.suffix());
            (scenario, it.level(), it.seeds.to_string())
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

pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
