//! From the command line to a scenario.
//!
//! Invariant: a word that ends in `.toml` or has a `/` is a file; everything else is a name.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use scenarios::catalog;
use scenarios::scenario::{Overrides, Scenario};

use super::args::RunArgs;
use super::failure::{Failure, did_you_mean};
use super::print;

/// Maximum size of a scenario file, in bytes.
const FILE_MOST: u64 = 1024 * 1024;

/// The text of a scenario, and its name.
pub(super) struct Source {
    /// Its name, unless the text has one.
    pub(super) name: String,
    /// The file as messages name it.
    pub(super) file: String,
    pub(super) text: Cow<'static, str>,
    pub(super) is_file: bool,
}

/// The scenario of the command line, with its overrides.
pub(super) fn scenario(args: &RunArgs) -> Result<Scenario, Failure> {
    let Some(asked) = &args.scenario else {
        let first = catalog::ALL[0].0;
        let help =
            format!("choose one, such as --scenario {first}; `picklock list` shows them all");
        return Err(Failure::usage_text("no scenario given", help));
    };
    let overrides = Overrides {
        lock: args.lock.clone(),
        clients: args.clients,
        ttl: args.ttl,
        hold: args.hold,
        set: args.set.clone(),
        searched: args.searched,
    };
    parsed(asked, &overrides)
}

/// The scenario of this file or name.
pub(super) fn parsed(asked: &OsStr, overrides: &Overrides) -> Result<Scenario, Failure> {
    let Source { name, file, text, .. } = source(asked)?;
    Scenario::parse(&name, &file, &text, overrides).map_err(Failure::usage)
}

/// The text of a file, or of the catalogue.
pub(super) fn source(asked: &OsStr) -> Result<Source, Failure> {
    let file = asked.to_string_lossy().into_owned();
    if is_file(asked) {
        let text = read(Path::new(asked)).map_err(|why| {
            let help = "give the path of a scenario file, or a name from `picklock list`";
            Failure::usage_text(format!("cannot read the scenario {file}: {why}"), help)
        })?;
        let name = Path::new(asked).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Source { name, file, text: text.into(), is_file: true });
    }
    let text = catalog::text(&file).map_err(|unknown| {
        let instead = "`picklock list` shows the scenarios; a file of your own ends in .toml";
        let help = did_you_mean(unknown.nearest, instead);
        Failure::usage_text(unknown.to_string(), help)
    })?;
    Ok(Source { file: format!("{file}.toml"), name: file, text: text.into(), is_file: false })
}

fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    print::note_pipe(path);
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(FILE_MOST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_MOST {
        return Err(format!("it is longer than {FILE_MOST} bytes, so it is no scenario"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        format!("it is no UTF-8 text (byte {valid} is invalid)")
    })
}

pub(super) fn is_file(asked: &OsStr) -> bool {
    asked.as_encoded_bytes().iter().any(|byte| matches!(byte, b'/' | b'\\'))
        || Path::new(asked).extension().is_some_and(|it| it == "toml")
}
