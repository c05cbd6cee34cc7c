//! Which lines of a story are told where there are more than it may have.
//!
//! Invariant: no story is longer than a dozen lines, and a line that has to stand is in it.

use history::verdict::WitnessStep;

/// No story is longer.
const LINES_MOST: usize = 12;
/// Of a longer one, so many lines from its beginning and its end at most, beside those that have to stand.
const ENDS_MOST: usize = 11;

/// A line of a story.
pub(super) struct StoryLine {
    /// How well it can be done without: 0 is not at all.
    pub(super) rank: u8,
    pub(super) weight: LineWeight,
    pub(super) step: WitnessStep,
}

/// Which lines stand where not all of them fit that cannot be done without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LineWeight {
    /// It stands however long the story is.
    Must,
    /// Who has the lock, or how a key ended.
    Lock,
    /// What strikes.
    Fault,
    Rest,
}

/// As many lines as a story may have: those that it can do without are left out.
pub(super) fn fit(lines: Vec<StoryLine>) -> Vec<WitnessStep> {
    let up_to = |most: u8| lines.iter().filter(|it| it.rank <= most).count();
    let most = (0..=2).rev().find(|most| up_to(*most) <= LINES_MOST).unwrap_or(0);
    let kept: Vec<StoryLine> = lines.into_iter().filter(|it| it.rank <= most).collect();
    if kept.len() <= LINES_MOST {
        return kept.into_iter().map(|it| it.step).collect();
    }
    // What keeps the lock and what strikes says more than what was done meanwhile, and than how it all ended.
    for (weight, ends) in [(LineWeight::Fault, 2), (LineWeight::Lock, 2), (LineWeight::Must, 0)] {
        let cut = (ends..=ENDS_MOST).rev().map(|ends| cut(&kept, ends, weight));
        if let Some(cut) = cut.into_iter().find(|it| it.len() <= LINES_MOST) {
            return cut;
        }
    }
    let must = kept.into_iter().filter(|it| it.weight == LineWeight::Must);
    must.map(|it| it.step).take(LINES_MOST).collect()
}

/// So many of them from the beginning and the end, those of at least this weight, and how many are left out
/// between them.
fn cut(lines: &[StoryLine], ends: usize, weight: LineWeight) -> Vec<WitnessStep> {
    let (beginning, ending) = (ends.div_ceil(2), lines.len() - ends / 2);
    let stands =
        |place: usize| place < beginning || place >= ending || lines[place].weight <= weight;
    let mut kept = Vec::new();
    let mut place = 0;
    while place < lines.len() {
        let left_out = (place..lines.len()).take_while(|place| !stands(*place)).count();
        if left_out > 0 {
            kept.push(WitnessStep::gap(lines[place].step.at_ns, left_out));
            place += left_out;
        } else {
            kept.push(lines[place].step.clone());
            place += 1;
        }
    }
    kept
}
