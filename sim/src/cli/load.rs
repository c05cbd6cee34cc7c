//! From the command line to a scenario.
//!
//! Invariant: a file is a file (it ends in `.toml`, or has a `/`), everything else is a name; the two
//! are never confused.

use std::io::Read;
use std::path::Path;

use scenarios::catalog;
use scenarios::scenario::{Overrides, Scenario};

use super::args::RunArgs;
use super::failure::Failure;

/// A longer file is not a scenario.
const FILE_MOST: u64 = 1024 * 1024;

/// The scenario that was asked for, with everything the command line says beside it.
pub(super) fn scenario(args: &RunArgs) -> Result<Scenario, Failure> {
    let Some(asked) = &args.scenario else {
        return Err(Failure::usage_text(
            "no scenario was named",
            format!("say which, as in --scenario {}; `picklock list` shows them all", first_name()),
        ));
    };
    let overrides = Overrides {
        lock: args.lock.clone(),
        clients: args.clients,
        ttl: args.ttl,
        hold: args.hold,
        set: args.set.clone(),
        searched: args.searched,
    };
    let parsed = if is_file(asked) {
        let text = read(asked).map_err(|why| {
            let help = "give the path of a scenario file, or a name of `picklock list`";
            Failure::usage_text(format!("cannot read the scenario {asked}: {why}"), help)
        })?;
        let stem = Path::new(asked).file_stem().unwrap_or_default().to_string_lossy();
        Scenario::parse(&stem, asked, &text, &overrides)
    } else {
        let text = catalog::text(asked).map_err(|unknown| {
            let help = match unknown.nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "`picklock list` shows the scenarios; a file of your own ends in .toml"
                    .to_owned(),
            };
            Failure::usage_text(unknown.to_string(), help)
        })?;
        Scenario::parse(asked, &format!("{asked}.toml"), text, &overrides)
    };
    parsed.map_err(Failure::usage)
}

fn read(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_MOST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_MOST {
        return Err(format!("it is longer than {FILE_MOST} bytes, which no scenario is"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        format!("it is no UTF-8 text (byte {valid} is wrong)")
    })
}

fn is_file(asked: &str) -> bool {
    asked.contains(['/', '\\']) || Path::new(asked).extension().is_some_and(|it| it == "toml")
}

fn first_name() -> &'static str {
    catalog::ALL[0].0
}
