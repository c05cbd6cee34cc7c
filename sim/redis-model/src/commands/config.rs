//! CONFIG GET, SET, RESETSTAT.
//!
//! Invariant: CONFIG SET changes all its parameters or none. Not modelled: REWRITE.

use resp::{ErrorReply, Reply, decimal, glob, until_nul};

use crate::options::{PARAMETERS, ParameterKind};
use crate::server::notify;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};

const FLAGS: u32 = flag::ADMIN | flag::NOSCRIPT | flag::LOADING | flag::STALE;

pub(crate) const SPECS: &[CommandSpec] = &[CommandSpec::container("config", SUBCOMMANDS)];

const SUBCOMMANDS: &[CommandSpec] = &[
    group::DANGEROUS.command("get", -3, FLAGS, get),
    group::DANGEROUS.command("set", -4, FLAGS, set),
    group::DANGEROUS.command("resetstat", 2, FLAGS, resetstat),
];

fn get(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let wanted =
        |name: &str| request.args[2..].iter().any(|pattern| glob(pattern, name.as_bytes(), true));
    let shown = |(name, kind, value): (&str, _, &[u8])| {
        let classes = (kind == ParameterKind::Events).then(|| notify::parse(value)).flatten();
        let value = classes.map_or_else(|| Reply::bulk(value), |it| Reply::bulk(notify::shown(it)));
        [Reply::bulk(name), value]
    };
    let known = server.parameters.iter().filter(|(name, ..)| wanted(name));
    Ok(Reply::Map(known.flat_map(shown).collect()))
}

fn set(server: &mut Server, request: &Request<'_>) -> CommandResult {
    if request.args.len() % 2 == 1 {
        return Err(ErrorReply::SYNTAX);
    }
    let mut changes: Vec<(&'static str, Vec<u8>)> = Vec::new();
    for pair in request.args[2..].chunks_exact(2) {
        let lower = pair[0].to_ascii_lowercase();
        let Some(&(name, kind, _)) = PARAMETERS.iter().find(|(name, ..)| name.as_bytes() == lower)
        else {
            let text = b"ERR Unknown option or number of arguments for CONFIG SET - '";
            return Err(ErrorReply::of([&text[..], until_nul(pair[0]), b"'"].concat()));
        };
        let fail = |why: &str| {
            let text =
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
            Err(ErrorReply::of(text))
        };
        if kind == ParameterKind::Immutable {
            return fail("can't set immutable config");
        }
        if changes.iter().any(|(before, _)| *before == name) {
            return fail("duplicate parameter");
        }
        match accept(kind, pair[1]) {
            Ok(value) => changes.push((name, value)),
            Err(why) => return fail(&why),
        }
    }
    for (name, value) in changes {
        server.parameters.set(name, value);
    }
    server.apply_parameters();
    Ok(Reply::Ok)
}

fn accept(kind: ParameterKind, value: &[u8]) -> Result<Vec<u8>, String> {
    // In Redis, texts and numbers know their length; the rest are strings of C.
    let word = until_nul(value);
    let lower = word.to_ascii_lowercase();
    let (taken, why) = match kind {
        ParameterKind::Text | ParameterKind::Immutable => return Ok(value.to_vec()),
        ParameterKind::YesNo => {
            let known = lower == b"yes" || lower == b"no";
            (known.then_some(lower), "argument must be 'yes' or 'no'")
        }
        ParameterKind::Number(least, most) => {
            let number = decimal(value);
            if number.is_some_and(|number| !(0..=i64::from(i32::MAX)).contains(&number)) {
                return Err("argument must be between 0 and 2147483647 inclusive".to_owned());
            }
            let taken = number.map(|number| number.clamp(least, most).to_string().into_bytes());
            (taken, "argument couldn't be parsed into an integer")
        }
        ParameterKind::SavePoints => (save_points(word), "Invalid save parameters"),
        ParameterKind::Memory => {
            let bytes = memory(&lower).map(|bytes| bytes.to_string().into_bytes());
            (bytes, "argument must be a memory value")
        }
        ParameterKind::Events => {
            let why = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            (notify::parse(word).map(|_| word.to_vec()), why)
        }
        ParameterKind::Choice(choices) => {
            let known = choices.iter().any(|choice| choice.as_bytes() == lower);
            return known.then_some(lower).ok_or_else(|| {
                format!("argument(s) must be one of the following: {}", choices.join(", "))
            });
        }
    };
    taken.ok_or_else(|| why.to_owned())
}

/// The pairs of seconds and changes of `save`, which may be none.
fn save_points(text: &[u8]) -> Option<Vec<u8>> {
    let words: Vec<&[u8]> = text.split(|&byte| byte == b' ').filter(|_| !text.is_empty()).collect();
    let fits = |(place, word): (usize, &&[u8])| {
        // Seconds stand at even places.
        decimal(word).is_some_and(|number| number >= i64::from(place.is_multiple_of(2)))
    };
    (words.len().is_multiple_of(2) && words.iter().enumerate().all(fits)).then(|| text.to_vec())
}

/// `1`, `1k` (1,000), `1kb` (1,024) and so on.
fn memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: u64 = match &text[..digits] {
        // No digits count as 0.
        b"" => 0,
        digits => std::str::from_utf8(digits).ok()?.parse().ok()?,
    };
    let factor = match &text[digits..] {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

fn resetstat(server: &mut Server, _request: &Request<'_>) -> CommandResult {
    server.stats.reset();
    Ok(Reply::Ok)
}
