//! How releases end in the lane of a client.

use history::What;
use history::fault::Fault;
use history::verdict::Level;

use super::release_unknown;
use crate::incident::IncidentLayout;
use crate::incident::layout::BarKind;
use crate::incident::testing::{Script, violated};
use crate::support;

#[test]
fn an_unknown_release_says_why() {
    for (why, said) in [
        ("outcome unknown: no answer within 2s", "release: no answer"),
        ("refused by the server: READONLY You can't write.", "release fails: READONLY"),
        ("dropped half-way", "dropped half-way"),
        ("not sent: connection refused", "not sent: connection refused"),
    ] {
        assert_eq!(release_unknown(why), said);
    }
}

#[test]
fn the_dead_release_nothing() {
    let script = Script::new().hold((0, 10, 50), 1).set((2, 8), 1);
    let history = script.fault(60, 1, Fault::Crash, 0).note(90, 2, What::Lost).finish();
    let finding = violated(("mutual-exclusion", Level::Belief), "it went wrong", &[1], (0, 90));
    let result = support::result(&history, vec![finding]);
    let layout = IncidentLayout::of(&history, &result).unwrap();
    let bars = layout.lanes.iter().flat_map(|it| &it.bars);
    let release = bars.filter(|it| it.kind == BarKind::Releases).collect::<Vec<_>>();
    assert_eq!(release[0].until_ns, 60_000_000);
}
