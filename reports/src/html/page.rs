//! The page as a whole.
//!
//! Invariant: verdict first, then the picture of what went wrong, then its story, then what was checked, then figures, then
//! how to do it again.

use history::verdict::Level;
use maud::{Markup, html};
use scenarios::result::{RunResult, ServerFacts};

use super::document::document;
use super::figures::{acquisitions, commands, latencies};
use super::picture::Picture;
use super::verdicts::{badge, levels, stories};
use crate::format::{counted, plain};
use crate::terminal::INTERRUPTED;

/// What is drawn of a run; nothing where it could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPictures {
    /// What went wrong.
    pub incident: Option<Picture>,
    /// Latency by percentile.
    pub percentiles: Option<Picture>,
    /// Latency over time.
    pub over_time: Option<Picture>,
}

/// The page of a run: its result, what is drawn of it, and the files beside it.
pub fn page(result: &RunResult, pictures: &RunPictures, files: &[String]) -> String {
    let scenario = plain(&result.scenario);
    let title = format!("{scenario}: {} — picklock", result.verdict.name());
    let body = html! {
        header {
            h1 { (scenario) " " (badge(result.verdict)) }
            p.lead { (lead(result)) }
            p.summary {
                @for level in Level::ALL { span { (level.name()) " " (badge(result.level(level))) } }
            }
        }
        main { (sections(result, pictures, files)) }
    };
    document(&title, &body)
}

fn lead(result: &RunResult) -> String {
    let clients = counted(u64::from(result.stats.clients), "client");
    let RunResult { lock, world, seed, .. } = result;
    plain(&format!("{clients}, lock {lock}, world {world}, seed {seed}")).into_owned()
}

fn sections(result: &RunResult, pictures: &RunPictures, files: &[String]) -> Markup {
    let RunPictures { incident, percentiles, over_time } = pictures;
    html! {
        @if !result.complete {
            section.alert { strong { "Interrupted: " } (INTERRUPTED) "." }
        }
        @if let Some(incident) = incident {
            section {
                h2 { "Timeline" }
                (incident.figure("incident"))
            }
        }
        (stories(result))
        section {
            h2 { "Verdicts" }
            div.scroll tabindex="0" role="region" aria-label="Verdicts by level" { (levels(result)) }
        }
        @if !result.remarks.is_empty() {
            section {
                h2 { "Remarks" }
                ul { @for remark in &result.remarks { li { (plain(remark)) } } }
            }
        }
        section {
            h2 { "Latency" }
            @if let Some(it) = over_time { h3 { "Over time" } (it.figure("over-time")) }
            @if let Some(it) = percentiles { h3 { "By percentile" } (it.figure("percentiles")) }
            (latencies(&result.stats.latencies))
        }
        section {
            h2 { "Clients" }
            (acquisitions(result))
        }
        (commands(&result.stats))
        section {
            h2 { "Run" }
            (facts(result))
        }
        section {
            h2 { "Run it again" }
            pre { (plain(&result.replay)) }
        }
        (beside(files))
    }
}

fn facts(result: &RunResult) -> Markup {
    let ServerFacts { software, version, origin, .. } = &result.server;
    let can = result.server.capability_list();
    let rows = [
        ("Lock", result.lock.as_str()),
        ("Validity", result.validity.as_str()),
        ("World", result.world.as_str()),
        ("Server", software.as_str()),
        ("Version", version.as_str()),
        ("Origin", origin.as_str()),
        ("It can", can.as_str()),
    ];
    html! {
        dl {
            @for (name, value) in rows.into_iter().filter(|(_, value)| !value.is_empty()) {
                dt { (name) } dd { (plain(value)) }
            }
            dt { "Seed" } dd { (result.seed) }
        }
    }
}

/// Links to the other files of the directory.
fn beside(files: &[String]) -> Markup {
    let others: Vec<&String> = files.iter().filter(|name| *name != "report.html").collect();
    html! {
        @if !others.is_empty() {
            section {
                h2 { "Files beside this one" }
                ul.files {
                    @for name in others { li { a href=(link(name)) { (plain(name)) } } }
                }
            }
        }
    }
}

/// The name as a link to a file beside the page, whatever characters it has.
fn link(name: &str) -> String {
    let mut link = String::from("./");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            link.push(char::from(byte));
        } else {
            link.push_str(&format!("%{byte:02X}"));
        }
    }
    link
}

#[cfg(test)]
mod tests;
