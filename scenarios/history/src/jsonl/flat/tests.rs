//! The strict reader of lines against `serde_json`: both take the same lines, and read the same.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value};

use super::*;

/// What `serde_json` makes of a line, which lets null pass for a field that is left out.
fn oracle(text: &str) -> Option<EventFields<'_>> {
    let line = serde_json::from_str(text).ok()?;
    let fields: Map<String, Value> = serde_json::from_str(text).ok()?;
    fields.values().all(|value| !value.is_null()).then_some(line)
}

fn parse(text: &str) -> Result<EventFields<'_>, Flaw> {
    let mut line = EventFields::default();
    super::parse(text, &mut line).map(|_| line)
}

#[track_caller]
fn agree(text: &str) -> bool {
    let parsed = parse(text);
    assert_eq!(
        parsed.as_ref().ok(),
        oracle(text).as_ref(),
        "{text:?}: {:?}",
        parsed.as_ref().err()
    );
    parsed.is_ok()
}

const NUMBERS: [&str; 20] = [
    "0",
    "7",
    "-1",
    "-0",
    "00",
    "01",
    "1.0",
    "1e3",
    "1E",
    "-",
    "+1",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
];

const STRINGS: [&str; 18] = [
    r#""""#,
    r#""ok""#,
    r#""\u006fk""#,
    r#""\"\\\/\b\f\n\r\t""#,
    "\"é\u{1F512}\u{7f}\"",
    r#""\ud83d\udd12""#,
    r#""\uD83D\uDD12 after""#,
    r#""\ud83d""#,
    r#""\ud83d\u0020""#,
    r#""\udd12""#,
    r#""\ud83dx""#,
    r#""\u00g0""#,
    r#""\u00e""#,
    r#""\x""#,
    "\"\t\"",
    "\"\u{1f}\"",
    r#""open"#,
    r#""a"b""#,
];

const OTHERS: [&str; 12] =
    ["true", "false", "null", "tru", "falsey", "True", "[]", "{}", "{\"a\":1}", "", "'a'", "NaN"];

const NAMES: [&str; 8] =
    ["at_ns ", "AT_NS", "", "colour", "\\u0061t_ns", "w\\u0068at", "stage\\n", "cliént"];

fn blank() -> impl Strategy<Value = &'static str> {
    select(vec!["", "", "", "", " ", "\t", "\r", "\n", "  ", "\u{a0}", "\u{c}"])
}

/// A value, the more often of the kind that the field takes.
fn value(field: usize) -> impl Strategy<Value = &'static str> {
    let numbers =
        ["client", "acquisition", "op", "node", "value", "left", "written", "token", "staged"];
    let name = Field::ALL.get(field).map_or("", |field| field.name());
    let (of_number, of_text, of_truth) = match name {
        "compares" | "in_hold" => (1, 1, 8),
        _ if numbers.contains(&name) || name.ends_with("_ns") => (12, 1, 1),
        _ => (1, 12, 1),
    };
    prop_oneof![
        of_number => select(&NUMBERS[..2]),
        of_text => select(&STRINGS[..5]),
        of_truth => select(&OTHERS[..2]),
        1 => select(&NUMBERS[..]),
        1 => select(&STRINGS[..]),
        1 => select(&OTHERS[..]),
    ]
}

fn field() -> impl Strategy<Value = String> {
    let name = prop_oneof![40 => 4..Field::ALL.len(), 1 => 0..Field::ALL.len() + NAMES.len()];
    name.prop_flat_map(|place| {
        let name =
            Field::ALL.get(place).map_or_else(|| NAMES[place - Field::ALL.len()], |it| it.name());
        (blank(), blank(), value(place), blank()).prop_map(move |(before, mid, value, after)| {
            format!("{before}\"{name}\"{mid}:{mid}{value}{after}")
        })
    })
}

/// Most of these are whole; the order is any.
fn object() -> impl Strategy<Value = String> {
    let always = ["\"at_ns\":5", "\"client\" : 1", "\"stage\":\"ok\"", "\"what\": \"take\""];
    let fields = vec(field(), 0..5).prop_map(move |mut fields| {
        fields.extend(always.map(str::to_owned));
        fields
    });
    let ends = prop_oneof![12 => Just(("{", "}")), 1 => Just(("", "}")), 1 => Just(("{", "}}")), 1 => Just(("{", ",}"))];
    (fields.prop_shuffle(), ends)
        .prop_map(|(fields, (begin, end))| format!("{begin}{}{end}", fields.join(",")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn both_take_and_refuse_the_same(text in object()) {
        agree(&text);
    }

    #[test]
    fn both_do_so_after_a_slip_of_the_pen(
        text in object(),
        at in any::<prop::sample::Index>(),
        slip in select(vec!["", "\"", "\\", "{", "}", ",", ":", "0", "-", " ", "\u{0}", "é", "e"]),
        instead in any::<bool>(),
    ) {
        let mut letters: Vec<String> = text.chars().map(String::from).collect();
        let at = at.index(letters.len());
        letters[at] = if instead { slip.to_owned() } else { format!("{slip}{}", letters[at]) };
        agree(&letters.concat());
    }

    #[test]
    fn both_do_so_with_whatever_is_cut_off(text in object(), at in any::<prop::sample::Index>()) {
        let ends: Vec<usize> = text.char_indices().map(|(end, _)| end).collect();
        agree(&text[..ends[at.index(ends.len())]]);
    }
}

/// Strings of every length, so that what has a meaning stands at each place among eight bytes.
#[test]
fn strings_end_where_they_end() {
    for length in 0..40 {
        for place in 0..=length {
            for odd in [
                "", "\"", "\\n", "\\", "\u{1f}", "\u{0}", " ", "!", "#", "[", "]", "\u{7f}", "é",
                "\u{80}",
            ] {
                let text = format!("{}{odd}{}", "x".repeat(place), "~".repeat(length - place));
                agree(&format!(r#"{{"at_ns":5,"client":1,"stage":"ok","what":"{text}"}}"#));
                agree(&format!(r#"{{"at_ns":5,"client":1,"stage":"ok","what":"{text}"#));
            }
        }
    }
}

const EVENT: &str =
    r#"{"at_ns":5,"client":1,"op":2,"stage":"info","what":"take","value":-3,"text":"why \u00e9"}"#;

#[test]
fn each_value_is_taken_or_refused_alike_in_each_field() {
    let values = NUMBERS.iter().chain(&STRINGS).chain(&OTHERS);
    let (mut taken, mut all) = (0, 0);
    for value in values {
        for field in Field::ALL {
            let mut rest = String::new();
            for always in
                [r#","at_ns":5"#, r#","client":1"#, r#","stage":"ok""#, r#","what":"take""#]
            {
                if !always.contains(&format!("\"{}\"", field.name())) {
                    rest.push_str(always);
                }
            }
            taken += u32::from(agree(&format!(r#"{{"{}":{value}{rest}}}"#, field.name())));
            all += 1;
        }
    }
    assert!(taken > 100 && all - taken > 100, "{taken} of {all} were taken");
}

#[test]
fn a_line_that_was_cut_off_is_unfinished_wherever_it_was_cut() {
    assert!(agree(EVENT));
    for end in 1..EVENT.len() {
        assert_eq!(parse(&EVENT[..end]).unwrap_err(), Flaw::Unfinished, "{}", &EVENT[..end]);
        agree(&EVENT[..end]);
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_column() {
    for (text, column) in [
        (r#"["at_ns"]"#, 1),
        (r#"{at_ns:5}"#, 2),
        (r#"{"at_ns";5}"#, 9),
        (r#"{"at_ns":05}"#, 11),
        (r#"{"at_ns":-}"#, 11),
        (r#"{"at_ns":5 "client":1}"#, 12),
        (r#"{"at_ns":5,}"#, 12),
        (r#"{"stage":"\q"}"#, 12),
        ("{\"stage\":\"a\u{1}\"}", 12),
        (r#"{"stage":"\ud83d."}"#, 17),
        (&format!("{EVENT} x"), EVENT.len() + 2),
        (&format!("{EVENT}{EVENT}"), EVENT.len() + 1),
        ("\u{feff}{}", 1),
    ] {
        let Err(Flaw::NotJson { column: found, .. }) = parse(text) else {
            panic!("{text}: {:?}", parse(text));
        };
        assert_eq!(found, column, "{text}");
        agree(text);
    }
    for blank in ["", "  ", "\r"] {
        assert_eq!(parse(blank).unwrap_err(), Flaw::Blank);
    }
}
