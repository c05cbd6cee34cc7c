//! A canonical line is the same event for the strict reader.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::tests::{every_event, written};
use super::super::{event as strict, kind};
use super::*;

/// The event of a line, if it is canonical; then the strict reader must return the same, with the same texts.
#[track_caller]
fn taken(line: &str, texts: &Texts) -> Option<Event> {
    let (mut here, mut there) = (texts.clone(), texts.clone());
    let event = event(line.as_bytes(), &mut here)?;
    assert_eq!(strict(line, &mut there), Ok(event), "{line}");
    assert_eq!(written(event.what, &here), written(event.what, &there), "{line}");
    Some(event)
}

fn lines() -> Vec<(What, String)> {
    let mut texts = Texts::default();
    every_event(&mut texts).into_iter().map(|what| (what, written(what, &texts))).collect()
}

#[test]
fn what_is_written_is_canonical_except_rare_events() {
    let (mut rare, mut left) = (BTreeSet::new(), 0);
    let beyond = u64::MAX.to_string();
    for (what, line) in lines() {
        if line.contains(&beyond) {
            assert_eq!(taken(&line, &Texts::default()), None, "of so many digits it is not sure");
        }
        let line = line.replace(&beyond, "7");
        let is_plain = !line.contains('\\');
        match taken(&line, &Texts::default()) {
            Some(event) => assert!(is_plain && event.what.stage() == what.stage(), "{line}"),
            None if is_plain => drop(rare.insert((kind(what), what.stage().name()))),
            None => left += 1,
        }
    }
    let info = ["acquire", "command", "release", "take", "update"].map(|kind| (kind, "info"));
    let note = ["fault", "lost", "pool-left", "probe", "register-left"].map(|kind| (kind, "note"));
    assert_eq!(rare, info.into_iter().chain(note).collect());
    assert!(left > 0, "texts with escapes are left");
}

const NUMBERS: [&str; 12] = [
    "0",
    "-0",
    "00",
    "01",
    "1.0",
    "1e3",
    "-1",
    "",
    "65536",
    "4294967296",
    "-9223372036854775808",
    "18446744073709551616",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn whatever_is_taken_the_strict_reader_takes(
        line in select(lines()),
        at in any::<Index>(),
        slip in select(vec!["", "\"", "\\", "{", "}", ",", ":", "0", "-", " ", "\u{0}", "\u{7f}", "é", "e", "x"]),
        instead in any::<bool>(),
    ) {
        let mut letters: Vec<String> = line.1.chars().map(String::from).collect();
        let at = at.index(letters.len());
        letters[at] = if instead { slip.to_owned() } else { format!("{slip}{}", letters[at]) };
        taken(&letters.concat(), &Texts::default());
    }

    #[test]
    fn so_it_is_with_any_number_and_any_field_left_out(
        line in select(lines()),
        at in any::<Index>(),
        number in select(NUMBERS.to_vec()),
        leaves_out in any::<bool>(),
    ) {
        let mut fields: Vec<String> = line.1.split(',').map(str::to_owned).collect();
        let at = at.index(fields.len());
        let end = if at + 1 == fields.len() { "}" } else { "" };
        match fields[at].split_once(':') {
            _ if leaves_out => drop(fields.remove(at)),
            Some((name, _)) => fields[at] = format!("{name}:{number}{end}"),
            None => {}
        }
        taken(&fields.join(","), &Texts::default());
    }
}
