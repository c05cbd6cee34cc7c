//! The table of what was convicted, for the terminal and as a page of the book.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::PlantedError;
use super::conviction::{ErrorTrial, MatrixForm};

const HEAD: &str = "\
# Planted errors

What the scenarios convict. Each error below is one that real lock libraries have had; `ci/planted` plants it in a copy of the
shipped lock, alone, and runs `picklock matrix` for the recipes concerned: first the scenarios as they are staged, then, if
none convicts it, their searched forms with 400 seeds. Errors of the code that leads to a real server are run on real sockets.
An error is convicted where an invariant is violated that the catalogue expects to be held. Unit tests are not run: users' own
locks have none of ours.

The errors are data in `ci/planted-errors`, with the place that each changes. This page is made by `ci/planted --markdown`.
*Seeds* is how many schedules it took. Of several convictions the one at the nearest level is shown: key before belief before
effect before progress. Behind each class stands how many of its errors that do harm are convicted. *Second* to
*tenth* are sets of every class, written without a look at the scenarios: they say what becomes of errors that nobody has thought of.
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
        (it.harmful > 0).then(|| format!("{it} errors that do harm{whose} are convicted"))
    };
    let both = [share(known, ""), share(blind, ", written blind,")];
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

/// A table for each class.
pub(super) fn tables(trials: &[ErrorTrial<'_>]) -> String {
    let mut out = String::new();
    for class in trials.chunk_by(|one, other| one.error.class == other.error.class) {
        let (known, blind) = shares(class);
        let share = if known.harmful > 0 { known } else { blind };
        let _ = write!(
            out,
            "\n## {}: {share}\n\n| error | recipe | scenario | level | seeds |\n| --- | --- | --- | --- | \
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
