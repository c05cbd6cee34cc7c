//! What is written reads back, what is not a history is refused by its line, and the document of the
//! format says all of it.

use super::*;
use crate::history::Text;

fn every_event(texts: &mut Texts) -> Vec<What> {
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
        What::Lost,
    ];
    all.extend(Phase::ALL.map(What::Phase));
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
        all.extend(answers.map(|answer| What::Answered { touch, answer }));
    }
    all
}

#[test]
fn every_event_reads_back_as_it_was_written() {
    let head = Head { format: FORMAT.to_owned(), prizes: Some(10), ..Head::default() };
    let mut history = History::new(head);
    let events = every_event(&mut history.texts);
    for (place, what) in (0_u32..).zip(events) {
        let (acquisition, op) = (place % 3, place % 5);
        let at_ns = u64::from(place);
        history.events.push(Event { at_ns, client: 1, acquisition, op, what });
    }
    let mut bytes = Vec::new();
    write(&history, &mut bytes).unwrap();
    let back = read(&bytes[..]).unwrap();
    let mut again = Vec::new();
    write(&back, &mut again).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), String::from_utf8(again).unwrap());
    assert_eq!(back, history);
}

#[test]
fn what_is_no_history_is_refused_by_its_line() {
    let head = serde_json::to_string(&Head { format: FORMAT.to_owned(), ..Head::default() });
    let head = head.unwrap();
    let refusal = |text: String| read(text.as_bytes()).unwrap_err().to_string();
    assert!(refusal(String::new()).contains("line 1"));
    assert!(refusal(head.replace(FORMAT, "picklock/history/2")).contains("picklock/history/2"));
    let event = r#"{"at_ns":1,"client":1,"stage":"invoke","what":"acquire"}"#;
    assert!(read(format!("{head}\n{event}\n").as_bytes()).is_ok());
    for bad in [
        "{}",
        r#"{"at_ns":1,"client":1,"stage":"ok","what":"dance"}"#,
        r#"{"at_ns":1,"client":1,"stage":"ok","what":"lost"}"#,
        r#"{"at_ns":1,"client":1,"stage":"ok","what":"take","value":1}"#,
        r#"{"at_ns":1,"client":1,"stage":"invoke","what":"acquire","colour":"red"}"#,
    ] {
        assert!(refusal(format!("{head}\n{event}\n{bad}\n")).contains("line 3"), "{bad}");
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
    assert!(kinds.collect::<std::collections::BTreeSet<_>>().len() > 5, "it shows most kinds");
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
    let of_line = fields(serde_json::from_str::<Line<'_>>(unknown).unwrap_err());
    assert!(of_head.len() > 9 && of_line.len() > 9, "{of_head:?} {of_line:?}");
    for field in of_head.iter().chain(&of_line) {
        assert!(named(field), "docs/history.md does not name the field `{field}`");
    }
    let mut texts = Texts::default();
    for what in every_event(&mut texts) {
        let line = line(&Event { at_ns: 1, client: 1, acquisition: 1, op: 1, what }, &texts);
        let words =
            [Some(line.what), Some(line.stage), line.touch, line.answer, line.phase, line.fault];
        for word in words.into_iter().flatten() {
            assert!(named(word), "docs/history.md does not name `{word}`");
        }
    }
    assert!(named(FORMAT));
}
