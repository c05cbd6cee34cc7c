//! What is written reads back, what is no event is refused in its own words, and the document of the
//! format says all of it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::field::Field;
use super::*;
use crate::{FORMAT, Head, Text, read};

pub(super) fn every_event(texts: &mut Texts) -> Vec<What> {
    let mut text = |it: &str| -> Text { texts.intern(it) };
    let touches = [
        Touch::None,
        Touch::Create(Some(5)),
        Touch::Create(None),
        Touch::Overwrite(Some(6)),
        Touch::Overwrite(None),
        Touch::Delete,
        Touch::Extend(7),
        Touch::Unknown,
    ];
    // In the order in which events name them, so that they have the same numbers when they are read.
    let (why, name, key) = (text("because"), text("SET"), text("k"));
    let answers = [
        Answer::Nil,
        Answer::Ok,
        Answer::Int(-2),
        Answer::Text(text("a \"quoted\"\n\u{1F512} text")),
        Answer::List,
    ];
    let mut all = vec![
        What::Acquire,
        What::Acquired,
        What::NotAcquired(why),
        What::AcquireUnknown(why),
        What::Release,
        What::Released(why),
        What::ReleaseUnknown(why),
        What::Refused(why),
        What::Unanswered(why),
        What::Take,
        What::Taken { prize: 10, left: 9 },
        What::NotTaken(why),
        What::TakeUnknown { prize: 3, why },
        What::PoolLeft(-1),
        What::Update,
        What::NotUpdated(why),
        What::RegisterLeft(-7),
        What::Probe(-2),
        What::ValidUntil(u64::MAX),
        What::Fence(u64::MAX),
        What::Lost,
    ];
    all.extend(Phase::ALL.iter().copied().map(What::Phase));
    for (node, staged) in [(None, Some(0)), (Some(3), None)] {
        let fault = |fault| What::Fault { fault, node, for_ns: 9, in_hold: true, staged };
        all.extend(Fault::ALL.map(fault));
    }
    for token in [None, Some(u64::MAX)] {
        let update = Update { read: i64::MIN, written: -3, token };
        all.extend([What::Updated(update), What::UpdateUnknown { update, why }]);
    }
    for touch in touches {
        for compares in [false, true] {
            let intent = Intent { touch, compares };
            all.push(What::Command { node: 4, name, key, intent });
        }
        for found in [0, 3] {
            all.extend(answers.map(|answer| What::Answered { touch, answer, found }));
        }
    }
    all
}

pub(super) fn written(what: What, texts: &Texts) -> String {
    let event = Event { at_ns: 1, client: 2, acquisition: 3, op: 4, what };
    serde_json::to_string(&line(&event, texts)).unwrap()
}

#[test]
fn every_event_reads_back_as_it_was_written() {
    let mut texts = Texts::default();
    for what in every_event(&mut texts) {
        let text = written(what, &texts);
        let back = event(&text, &mut texts).unwrap_or_else(|flaw| panic!("{text}: {flaw}"));
        assert_eq!(back, Event { at_ns: 1, client: 2, acquisition: 3, op: 4, what }, "{text}");
    }
}

#[test]
fn every_event_takes_the_fields_it_is_written_with_and_no_others() {
    let mut texts = Texts::default();
    for what in every_event(&mut texts) {
        let text = written(what, &texts);
        let fields: Map<String, Value> = serde_json::from_str(&text).unwrap();
        for field in Field::ALL {
            let mut other = fields.clone();
            let refused = |fields: &Map<String, Value>, texts: &mut Texts| {
                event(&serde_json::to_string(fields).unwrap(), texts).err()
            };
            if other.remove(field.name()).is_some() {
                // Whether anything else would do: a key may live for ever, a fault strike no server.
                let flaw = refused(&other, &mut texts);
                let spared = matches!(
                    field,
                    Field::Acquisition
                        | Field::Op
                        | Field::TtlNs
                        | Field::Compares
                        | Field::Node
                        | Field::Token
                        | Field::Staged
                        | Field::Found
                );
                assert!(
                    flaw == Some(Flaw::MissingField(field.name())) || spared,
                    "{text} {flaw:?}"
                );
            } else {
                let value = match field {
                    Field::Compares | Field::InHold => Value::from(true),
                    Field::Command | Field::Key | Field::Text => Value::from("x"),
                    Field::Touch => Value::from("nothing"),
                    Field::Answer => Value::from("nil"),
                    Field::Phase => Value::from("hold"),
                    Field::Fault => Value::from("crash"),
                    _ => Value::from(1),
                };
                other.insert(field.name().to_owned(), value);
                let flaw = refused(&other, &mut texts);
                let misplaced = matches!(flaw, Some(Flaw::MisplacedField { field: it, .. }) if it == field.name());
                // What a key is left out of is what it could have had, too.
                let may = matches!(
                    (what, field),
                    (What::Command { .. }, Field::Compares | Field::TtlNs)
                        | (What::Answered { .. }, Field::TtlNs | Field::Found)
                        | (What::Fault { .. }, Field::Node | Field::Staged)
                        | (What::Updated(_) | What::UpdateUnknown { .. }, Field::Token)
                );
                assert!(misplaced || may, "{text} with {}: {flaw:?}", field.name());
            }
        }
    }
}

#[test]
fn how_long_a_key_lives_is_said_where_it_lives() {
    let mut texts = Texts::default();
    let mut read = |touch: &str, ttl: &str| {
        let text = format!(
            r#"{{"at_ns":1,"client":1,"op":1,"stage":"invoke","what":"command","node":0,"command":"C",
                "key":"k","touch":"{touch}"{ttl}}}"#
        );
        event(&text, &mut texts).map(|event| match event.what {
            What::Command { intent, .. } => intent.touch,
            other => panic!("{other:?}"),
        })
    };
    let ttl = r#","ttl_ns":7"#;
    assert_eq!(read("create", ttl), Ok(Touch::Create(Some(7))));
    assert_eq!(read("create", ""), Ok(Touch::Create(None)));
    assert_eq!(read("overwrite", ""), Ok(Touch::Overwrite(None)));
    assert_eq!(read("extend", ttl), Ok(Touch::Extend(7)));
    assert_eq!(read("extend", ""), Err(Flaw::MissingField("ttl_ns")));
    for touch in ["nothing", "delete", "unknown"] {
        assert!(read(touch, "").is_ok());
        assert!(matches!(read(touch, ttl), Err(Flaw::MisplacedField { field: "ttl_ns", .. })));
    }
}

#[test]
fn names_that_histories_have_not_are_refused_with_the_nearest() {
    let mut texts = Texts::default();
    let mut flaw = |rest: &str| {
        let text = format!(r#"{{"at_ns":1,"client":1,{rest}}}"#);
        event(&text, &mut texts).unwrap_err().to_string()
    };
    for (rest, says) in [
        (r#""stage":"ok","what":"dance""#, r#""dance" is no `what`"#),
        (r#""stage":"ok","what":"aquire""#, r#""aquire" is no `what`; did you mean `acquire`?"#),
        (r#""stage":"fine","what":"take""#, r#""fine" is no `stage`"#),
        (r#""stage":"ok","what":"lost""#, "`lost` has no stage `ok`"),
        (r#""stage":"fail","what":"release","text":"""#, "`release` has no stage `fail`"),
        (r#""stage":"note","what":"phase","phase":"holdd""#, r#"no `phase`; did you mean `hold`?"#),
        (
            r#""stage":"note","what":"fault","fault":"pauze""#,
            r#"no `fault`; did you mean `pause`?"#,
        ),
        (r#""stage":"ok","what":"command","answer":"nill""#, r#"no `answer`; did you mean `nil`?"#),
        (r#""stage":"ok","what":"command","answer":"ok","touch":"create!""#, "mean `create`?"),
        (r#""stage":"ok","what":"take","colour":"red""#, r#"there is no field "colour""#),
        (r#""stage":"ok","what":"take","valeu":"red""#, "did you mean `value`?"),
        (r#""stage":"ok","what":"take","value":1,"left":2,"value":1"#, "`value` is there twice"),
        (r#""stage":"ok","what":"take","value":1"#, "the field `left` is missing"),
        (r#""what":"take""#, "the field `stage` is missing"),
        (r#""stage":"ok","what":"take","value":1.5"#, "`value` must be a whole number"),
        (r#""stage":"ok","what":"take","value":null"#, "`value` must be a whole number"),
        (r#""stage":"ok","what":["take"]"#, "`what` must be a string"),
        (r#""stage":"ok","what":"take","value":1,"left":9223372036854775808"#, "to 92233720"),
        (r#""stage":"ok","what":"command","node":65536"#, "from 0 to 65535"),
    ] {
        let said = flaw(rest);
        assert!(said.contains(says), "{rest}: {said}");
    }
}

/// The document of the format.
const DOCUMENT: &str = include_str!("../../../../docs/history.md");

#[test]
fn the_example_of_the_document_is_a_history() {
    let (_, block) = DOCUMENT.split_once("```jsonl\n").expect("the document has an example");
    let (example, _) = block.split_once("```").expect("the example ends");
    let history = read(example.as_bytes()).unwrap();
    let mut again = Vec::new();
    write(&history, &mut again).unwrap();
    assert_eq!(example, String::from_utf8(again).unwrap(), "as it would be written");
    let kinds = history.events.iter().map(|event| kind(event.what));
    assert!(kinds.collect::<BTreeSet<_>>().len() > 5, "it shows most kinds");
}

#[test]
fn the_document_names_whatever_can_be_written() {
    let named = |name: &str| DOCUMENT.contains(&format!("`{name}`"));
    // Refusing a field, the parser lists all that it knows.
    let fields = |refusal: serde_json::Error| -> Vec<String> {
        let refusal = refusal.to_string();
        let (_, listed) = refusal.split_once("expected one of").expect("it lists them");
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let unknown = r#"{"no such field":1}"#;
    let of_head = fields(serde_json::from_str::<Head>(unknown).unwrap_err());
    let of_line = fields(serde_json::from_str::<EventFields<'_>>(unknown).unwrap_err());
    assert!(of_head.len() > 9 && of_line.len() > 9, "{of_head:?} {of_line:?}");
    assert_eq!(of_line, Field::ALL.map(Field::name), "the two readers know the same fields");
    for field in of_head.iter().chain(&of_line) {
        assert!(named(field), "docs/history.md does not name the field `{field}`");
    }
    let mut texts = Texts::default();
    for what in every_event(&mut texts) {
        let line = line(&Event { at_ns: 1, client: 1, acquisition: 1, op: 1, what }, &texts);
        assert!(KINDS.contains(&&*line.what), "{} is not in the list of kinds", line.what);
        // The kinds of fault are listed with the scenarios.
        let words = [Some(line.what), Some(line.stage), line.touch, line.answer, line.phase];
        for word in words.into_iter().flatten() {
            assert!(named(&word), "docs/history.md does not name `{word}`");
        }
    }
    assert!(named(FORMAT));
}
