//! What is propagated: the append-only file of the real server, and the model's stream.

use super::wire::request_words;

/// Writes with the number of their database; how many SELECTs told it does not matter.
pub(crate) fn writes(stream: &[u8]) -> Vec<(String, Vec<Vec<u8>>)> {
    let mut db = "?".to_owned();
    let mut writes = Vec::new();
    let mut rest = stream;
    while let Some((words, used)) = request_words(rest) {
        match &words[..] {
            [verb, number] if verb == b"SELECT" => {
                db = String::from_utf8_lossy(number).into_owned();
            }
            [verb] if verb == b"MULTI" || verb == b"EXEC" => {
                writes.push((String::new(), words));
            }
            _ => writes.push((db.clone(), words)),
        }
        rest = &rest[used..];
    }
    writes
}

/// Whether both say the same. A point in time that was reckoned from a span differs by moments.
pub(crate) fn same_streams(
    real: &[(String, Vec<Vec<u8>>)],
    mine: &[(String, Vec<Vec<u8>>)],
) -> bool {
    let number = |word: &[u8]| std::str::from_utf8(word).ok().and_then(|s| s.parse::<i64>().ok());
    let same_word = |(real, mine): (&Vec<u8>, &Vec<u8>)| {
        let close = |real: i64, mine: i64| real > 1_000_000_000_000 && real.abs_diff(mine) < 1_000;
        real == mine || number(real).zip(number(mine)).is_some_and(|(real, mine)| close(real, mine))
    };
    real.len() == mine.len()
        && real.iter().zip(mine).all(|((db, words), (my_db, my_words))| {
            // Where a part of the stream begins, the database may have been told before.
            (db == my_db || db == "?" || my_db == "?")
                && words.len() == my_words.len()
                && words.iter().zip(my_words).all(same_word)
        })
}
