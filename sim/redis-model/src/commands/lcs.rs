//! LCS: the longest string of bytes that two strings have in common, in order but with gaps.
//!
//! Invariant: if there are several, it finds the same one as redis-server, which walks back from the ends and
//! leaves out a byte of the first string only if nothing else keeps the length.

use resp::{Blob, ErrorReply, Reply, is_word};

use super::arguments::number;
use crate::server::{CommandResult, CommandSpec, Request, Server, flag, group};
use crate::value::StoredValue;

pub(crate) const SPECS: &[CommandSpec] =
    &[group::STRING.command("lcs", -3, flag::READONLY, lcs).keys(1, 2, 1)];

/// The largest number of cells of the table.
const CELLS_MAX: usize = 1 << 28;

fn lcs(server: &mut Server, request: &Request<'_>) -> CommandResult {
    let mut values = Vec::with_capacity(2);
    for key in &request.args[1..3] {
        values.push(match server.read(request, key).map(|entry| &entry.value) {
            None => Some(Blob::new()),
            Some(StoredValue::Str(value)) => Some(value.clone()),
            Some(_) => None,
        });
    }
    // Both are looked up before either is refused.
    let [Some(a), Some(b)] = &values[..] else {
        return Err(ErrorReply::new("ERR The specified keys must contain string values"));
    };
    let (mut only_length, mut places, mut with_lengths, mut shortest) = (false, false, false, 0);
    let mut args = request.args[3..].iter();
    while let Some(word) = args.next() {
        match word {
            word if is_word(word, "IDX") => places = true,
            word if is_word(word, "LEN") => only_length = true,
            word if is_word(word, "WITHMATCHLEN") => with_lengths = true,
            word if is_word(word, "MINMATCHLEN") => {
                shortest = number(args.next().ok_or(ErrorReply::SYNTAX)?)?;
            }
            _ => return Err(ErrorReply::SYNTAX),
        }
    }
    if only_length && places {
        return Err(ErrorReply::new(
            "ERR If you want both the length and indexes, please just use IDX.",
        ));
    }
    let width = b.len() + 1;
    if (a.len() + 1).saturating_mul(width) > CELLS_MAX {
        return Err(ErrorReply::new(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    // The cell of i and j: the longest length for the first i bytes of `a` and j bytes of `b`.
    let mut table = vec![0_u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let at = i * width + j;
            table[at] = match a[i - 1] == b[j - 1] {
                true => table[at - width - 1] + 1,
                false => table[at - width].max(table[at - 1]),
            };
        }
    }
    let total = Reply::count(table[a.len() * width + b.len()] as usize);
    if only_length {
        return Ok(total);
    }
    // From the ends back to the beginnings; stretches without a gap, each by its first places and length.
    let (mut i, mut j) = (a.len(), b.len());
    let (mut common, mut stretches) = (Vec::new(), Vec::<(usize, usize, usize)>::new());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            common.push(a[i]);
            match stretches.last_mut() {
                Some(last) if (last.0, last.1) == (i + 1, j + 1) => *last = (i, j, last.2 + 1),
                _ => stretches.push((i, j, 1)),
            }
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    if !places {
        common.reverse();
        return Ok(Reply::bulk(common));
    }
    let shown = |(i, j, len): (usize, usize, usize)| {
        let range =
            |start: usize| Reply::Array(vec![Reply::count(start), Reply::count(start + len - 1)]);
        let len = with_lengths.then(|| Reply::count(len));
        Reply::Array([range(i), range(j)].into_iter().chain(len).collect())
    };
    let long_enough = |stretch: &(usize, usize, usize)| {
        shortest <= 0 || i64::try_from(stretch.2).is_ok_and(|len| len >= shortest)
    };
    let matches = stretches.into_iter().filter(long_enough).map(shown).collect();
    Ok(Reply::map([("matches", Reply::Array(matches)), ("len", total)]))
}
