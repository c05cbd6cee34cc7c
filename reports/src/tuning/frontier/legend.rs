//! What the lines of a tuning's chart are, beside it.
//!
//! Invariant: every line is named, and one that is wholly below the scale is said to be.

use plotters::style::text_anchor::HPos;
use ttl_model::tuning::{Protection, Tuning};

use super::look;
use super::plot::{Plot, PlotLine, RIGHT, TOP};
use super::series::{FailureMode, RenewalRule};
use crate::chart::ChartError;
use crate::chart::font::Type;
use crate::chart::layout::{BOTTOM, LINE_WIDTH, MARGIN, MARK_RADIUS, NAME, NOTE, SIZE};
use crate::chart::palette::{FAINT_INK, INK};
use crate::chart::pen::Pen;

const MARKS: f64 = RIGHT + 34.0;
const TEXTS: f64 = MARKS + 22.0;
const STEP: f64 = 16.0;
const GAP: f64 = 14.0;

/// Names the lines: those in the scale from the top, those below it at the foot.
pub(super) fn paint(pen: &Pen<'_>, tuning: &Tuning, plot: &Plot<'_>) -> Result<(), ChartError> {
    let mut at = TOP + 10.0;
    for line in plot.lines.iter().filter(|it| !it.is_below()) {
        at = entry(pen, Some(line), &said(line), at)? + GAP;
    }
    if at > TOP + 10.0 {
        at = entry(pen, None, &["beside the marks: the TTL".to_owned()], at)?;
    }
    let mut foot: Vec<(Option<&PlotLine<'_>>, Vec<String>)> = Vec::new();
    for line in plot.lines.iter().filter(|it| it.is_below()) {
        let mut said = said(line);
        said.push("rarer than the scale at every TTL".to_owned());
        foot.push((Some(line), said));
    }
    if tuning.keeping == Protection::Fenced {
        let said = ["overlaps cannot be", "the resource refuses old tokens"];
        foot.push((None, said.map(str::to_owned).to_vec()));
    }
    let height: f64 = foot.iter().map(|it| STEP * it.1.len() as f64 + GAP).sum();
    let mut at = (BOTTOM + GAP - height + 12.0).max(at + GAP);
    for (line, said) in &foot {
        at = entry(pen, *line, said, at)? + GAP;
    }
    Ok(())
}

/// What a line shows, the name first.
pub(super) fn said(line: &PlotLine<'_>) -> Vec<String> {
    let of = |wrong: FailureMode| -> Vec<RenewalRule> {
        line.shows.iter().filter(|it| it.0 == wrong).map(|it| it.1).collect()
    };
    let shown: Vec<(FailureMode, Vec<RenewalRule>)> =
        FailureMode::ALL.map(|it| (it, of(it))).into_iter().filter(|it| !it.1.is_empty()).collect();
    let names: Vec<&str> = shown.iter().map(|it| it.0.name()).collect();
    let mut said = vec![names.join(" and ")];
    match &shown[..] {
        [(_, one)] => said.push(renewals(one)),
        [(_, one), (_, other)] if one == other => said.push(renewals(one)),
        _ => said.extend(shown.iter().map(|(wrong, it)| {
            let short = match &it[..] {
                [RenewalRule::Never] => "not renewed",
                [_] => "renewed",
                _ => "renewed or not",
            };
            format!("{}: {short}", wrong.name())
        })),
    }
    said
}

fn renewals(all: &[RenewalRule]) -> String {
    match all {
        [one] => one.name(),
        _ => "renewed or not".to_owned(),
    }
}

/// An entry whose first line stands here; where its last one does.
fn entry(
    pen: &Pen<'_>,
    line: Option<&PlotLine<'_>>,
    said: &[String],
    top: f64,
) -> Result<f64, ChartError> {
    let width = f64::from(SIZE.0) - MARGIN / 2.0 - TEXTS;
    if let Some(line) = line {
        let ((colour, mark), at) = (look(line), (MARKS, top - 4.5));
        pen.line(&[(MARKS - 14.0, at.1), (MARKS + 14.0, at.1)], colour, LINE_WIDTH)?;
        pen.shape(&mark.corners(at, MARK_RADIUS), colour)?;
    }
    let mut baseline = top;
    for (number, text) in said.iter().enumerate() {
        let (face, ink): (Type, _) =
            if number == 0 && said.len() > 1 { (NAME, INK) } else { (NOTE, FAINT_INK) };
        pen.text((TEXTS, baseline), &face.fit(text, width)?, face, ink, HPos::Left)?;
        baseline += STEP;
    }
    Ok(baseline)
}
