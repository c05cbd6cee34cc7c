//! "Did you mean …?"
//!
//! Invariant: a suggestion is near enough to be a slip of the finger; otherwise there is none. In a name of
//! four letters or fewer another letter makes another word (`nope` is not `none`), and only a letter that is
//! missing, doubled or out of place is a slip.

use std::collections::BTreeSet;

/// A name of so many letters is short.
const SHORT: usize = 4;

/// The name that `given` most likely meant.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |name: &str| {
        let distance = strsim::damerau_levenshtein(given, name);
        let is_near = distance <= (name.len() / 3).max(1);
        let is_other =
            name.len() <= SHORT && given.len() == name.len() && letters(given) != letters(name);
        (is_near && !is_other).then_some(distance)
    };
    let ranked = names.into_iter().filter_map(|name| near(name).map(|distance| (distance, name)));
    ranked.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Which letters there are, however often.
fn letters(word: &str) -> BTreeSet<char> {
    word.chars().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_met_and_other_words_are_not() {
        let names = ["polling", "single", "single-watchdog"];
        assert_eq!(nearest("poling", names), Some("polling"));
        assert_eq!(nearest("single-watchdgo", names), Some("single-watchdog"));
        assert_eq!(nearest("single_watchdog", names), Some("single-watchdog"));
        assert_eq!(nearest("redlock", names), None);
        assert_eq!(nearest("", names), None);
        let short = ["none", "ttl"];
        assert_eq!(nearest("nope", short), None);
        assert_eq!(nearest("nnoe", short), Some("none"));
        assert_eq!(nearest("nonne", short), Some("none"));
        assert_eq!(nearest("tll", short), Some("ttl"));
    }
}
