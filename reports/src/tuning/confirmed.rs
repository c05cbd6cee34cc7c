//! What a real server has shown of the model, as the cells of a table.
//!
//! Invariant: a share that was counted says what it may be.

use scenarios::span::Span;
use ttl_model::tuning::{ComparedShare, Confirmation, ConfirmationOutcome, Confirmed};

use crate::format::count;
use ttl_model::format::time;

/// What the columns are called.
pub(super) const HEADER: [&str; 6] =
    ["tried", "as a lease of", "holds", "lost before done", "outlive their lease", "agrees"];

/// A setting as the cells of a row.
pub(super) fn row(tried: &Confirmed) -> [String; 6] {
    let renewed =
        tried.renew.map_or("not renewed".to_owned(), |it| format!("renewed every {}", time(it)));
    let ours = if tried.in_grid { "" } else { ", shorter than asked for" };
    let setting = format!("TTL {}, {renewed}{ours}", short(tried.ttl));
    match &tried.found {
        ConfirmationOutcome::Seen(seen) => [
            setting,
            time(seen.ttl),
            count(seen.holds),
            share(seen.lost),
            share(seen.outlived),
            if seen.agrees() { "yes" } else { "no" }.to_owned(),
        ],
        ConfirmationOutcome::Unseen(_) => {
            let dash = || "-".to_owned();
            [setting, dash(), dash(), dash(), dash(), "cannot say".to_owned()]
        }
    }
}

/// What is to be said beside the table.
pub(super) fn notes(confirmation: &Confirmation) -> Vec<String> {
    let mut notes = Vec::new();
    if confirmation.agrees().is_some() {
        notes.push(
        "All times but round trips were stretched alike. The model counts with work, pauses and round trips as they \
         were measured there. In brackets stands what the share may be with a confidence of 99.9 %, and the model agrees \
         where it lies within."
            .to_owned(),
        );
    }
    if let Some(why) = &confirmation.cut_short {
        notes.push(format!("not all was tried: {why}"));
    }
    for tried in &confirmation.tried {
        if let ConfirmationOutcome::Seen(seen) = &tried.found
            && seen.left_out > 0
        {
            let left_out = count(seen.left_out);
            notes.push(format!("{left_out} more holds had no answer in time, and are left out"));
        }
        if let ConfirmationOutcome::Unseen(why) = &tried.found {
            let kind = if tried.renew.is_some() { "with renewal" } else { "without renewal" };
            notes.push(format!("{kind}: {why}"));
        }
    }
    notes
}

/// What was counted, what it may be, and what the model says.
fn share(compared: ComparedShare) -> String {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let (low, high) = (percent(compared.low), percent(compared.high));
    format!("{} % ({low} to {high}), model {} %", percent(compared.share), percent(compared.model))
}

/// A TTL that was halved again and again, without digits that say nothing.
fn short(span: Span) -> String {
    time(Span(std::time::Duration::from_micros(
        u64::try_from(span.0.as_micros()).unwrap_or(u64::MAX),
    )))
}
