//! "Did you mean …?"
//!
//! Invariant: a suggestion is near enough to be a slip of the finger; otherwise there is none.

/// The name that `given` most likely meant.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |name: &str| {
        let distance = strsim::damerau_levenshtein(given, name);
        (distance <= (name.len() / 3).max(1)).then_some(distance)
    };
    let ranked = names.into_iter().filter_map(|name| near(name).map(|distance| (distance, name)));
    ranked.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
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
    }
}
