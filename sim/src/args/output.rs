//! What picklock prints, where, and how.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{BoolishValueParser, OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

/// Options of `list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListArgs {
    /// Output format: human or json; FORMAT=FILE writes to a file; repeatable
    #[arg(long, value_name = "FORMAT[=FILE]", default_value = "human", value_parser = list_outputs(), value_delimiter = ';')]
    pub(crate) format: Vec<Output>,
}

/// A format, and the file it is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// The format.
    pub(crate) format: OutputFormat,
    /// `None`: stdout.
    pub(crate) file: Option<PathBuf>,
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for a terminal
    Human,
    /// JSON
    Json,
    /// JUnit XML for CI
    Junit,
    /// Markdown
    Markdown,
    /// A page (matrix only)
    Html,
}

/// Parses `--format`. A path is bytes and need not be UTF-8.
pub(super) fn outputs() -> impl TypedValueParser<Value = Output> {
    OsStringValueParser::new().try_map(|text| Output::read(&text))
}

/// The same of `list`, which has fewer.
fn list_outputs() -> impl TypedValueParser<Value = Output> {
    OsStringValueParser::new().try_map(|text| {
        let of_list = |it: &Output| matches!(it.format, OutputFormat::Human | OutputFormat::Json);
        Output::read(&text).ok().filter(of_list).ok_or("use human or json, as in json=list.json")
    })
}

impl Output {
    fn read(text: &OsStr) -> Result<Self, &'static str> {
        let bytes = text.as_bytes();
        let (format, file) = match bytes.iter().position(|byte| *byte == b'=') {
            Some(place) if place + 1 == bytes.len() => return Err("add a file name after the ="),
            Some(place) => {
                let file = OsStr::from_bytes(&bytes[place + 1..]);
                (&bytes[..place], Some(PathBuf::from(file)))
            }
            None => (bytes, None),
        };
        let format = OutputFormat::from_str(&String::from_utf8_lossy(format), false).map_err(
            |_| "use human, json, junit, markdown or (of a matrix) html, as in junit=report.xml",
        )?;
        Ok(Self { format, file })
    }
}

/// What picklock prints, and how.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// When to use colours
    #[arg(long, value_enum, default_value_t, global = true, env = "PICKLOCK_COLOR")]
    pub(crate) color: Color,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t, global = true, env = "PICKLOCK_PROGRESS")]
    pub(crate) progress: ProgressMode,
    /// Print less: of a run only what was run, what did not hold, and the verdict
    #[arg(short, long, global = true, env = "PICKLOCK_QUIET", value_parser = BoolishValueParser::new())]
    pub(crate) quiet: bool,
    /// Print more: of a run the reasons of every verdict, all that the clients did, and all figures
    #[arg(short, long, global = true, env = "PICKLOCK_VERBOSE", value_parser = BoolishValueParser::new())]
    pub(crate) verbose: bool,
}

/// A file with a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// result.json of a run
    #[default]
    Result,
    /// attack.json of an attack
    Attack,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How to show progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar on a terminal, otherwise a line every few seconds
    #[default]
    Auto,
    /// A bar
    Bar,
    /// A line every few seconds
    Lines,
    /// Nothing
    Off,
}
