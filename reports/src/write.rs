//! Writes every file of a run.
//!
//! Invariant: what cannot be made again comes first, so that a disk that fills up costs a picture
//! rather than the history; the manifest comes last and names only files that are there.

use std::fmt::Display;
use std::io::{self, Write};

use history::History;
use scenarios::result::RunResult;
use serde::Serialize;

use crate::chart::{self, ChartError, LatencyChart, LatencyOverTime};
use crate::directory::{RunDirectory, WriteError};
use crate::html::{Picture, RunPictures};
use crate::incident::{EVENTS_MOST, IncidentChart, IncidentLayout, mermaid, trace};
use crate::invariant_table::InvariantTable;
use crate::latency::Latencies;
use crate::manifest::{FORMAT, Manifest};
use crate::{hlog, html};

/// Writes the files of a run and returns their names.
///
/// `logs` are what servers have written, each with the name of its file. The manifest's format is filled in, and its
/// list of files added to; the rest of it is the caller's.
///
/// # Errors
/// At the first file that cannot be written; those before it are whole.
pub fn write_all(
    directory: &RunDirectory,
    result: &RunResult,
    history: &History,
    latencies: &Latencies,
    manifest: &Manifest,
    logs: &[(String, Vec<u8>)],
) -> Result<Vec<String>, WriteError> {
    let wide = LatencyChart::wide(latencies, &history.head);
    let percentiles = Picture::new(&wide, &LatencyChart::narrow(latencies, &history.head));
    let [over_wide, over_narrow] = LatencyOverTime::both(history);
    let over_time = Picture::new(&over_wide, &over_narrow);
    let mut files = manifest.files.clone();
    let mut done = |name: &str| files.push(name.to_owned());

    directory.write("result.json", |w| json(w, result))?;
    done("result.json");
    directory.write("history.jsonl", |w| history::write(history, w))?;
    done("history.jsonl");
    let duration_ns = history.duration_ns();
    directory.write("latency.hlog", |mut w| hlog::write(latencies, duration_ns, &mut w))?;
    done("latency.hlog");
    directory.write("latency.svg", |w| made(w, &percentiles.as_ref().map(Picture::svg)))?;
    done("latency.svg");
    directory
        .write_by_path("latency.png", |path| chart::png(&wide, path).map_err(io::Error::other))?;
    done("latency.png");
    directory.write("over-time.svg", |w| made(w, &over_time.as_ref().map(Picture::svg)))?;
    done("over-time.svg");

    let layout = IncidentLayout::of(history, result);
    let drawn = layout.as_ref().map(|it| draw(directory, "incident", it)).transpose()?;
    let (incident, names) = drawn.unzip();
    names.into_iter().flatten().for_each(|name| done(&name));
    if history.events.len() <= EVENTS_MOST {
        directory.write("trace.json", |w| trace(history, w))?;
        done("trace.json");
    }

    let mut table = InvariantTable::run(result);
    table.diagram = incident.as_ref().map(|it| it.mermaid.clone());
    directory.write("junit.xml", |w| made(w, &table.junit()))?;
    done("junit.xml");
    directory.write("summary.md", |w| w.write_all(table.markdown().as_bytes()))?;
    done("summary.md");

    for (name, log) in logs {
        directory.write(name, |w| w.write_all(log))?;
        done(name);
    }

    files.extend(["report.html", "manifest.json"].map(str::to_owned));
    let pictures = RunPictures {
        incident: incident.map(|it| it.picture),
        percentiles: percentiles.ok(),
        over_time: over_time.ok(),
    };
    let page = html::page(result, &pictures, &files);
    directory.write("report.html", |w| w.write_all(page.as_bytes()))?;
    let manifest = Manifest { format: FORMAT.to_owned(), files: files.clone(), ..manifest.clone() };
    directory.write("manifest.json", |w| json(w, &manifest))?;
    Ok(files)
}

/// Draws what a run violates, as files of this name, and returns theirs; none if nothing was violated.
///
/// # Errors
/// At the first file that cannot be written.
pub fn write_incident(
    directory: &RunDirectory,
    name: &str,
    history: &History,
    result: &RunResult,
) -> Result<Vec<String>, WriteError> {
    let layout = IncidentLayout::of(history, result);
    let drawn = layout.as_ref().map(|it| draw(directory, name, it)).transpose()?;
    Ok(drawn.into_iter().flat_map(|(_, names)| names).collect())
}

/// What is drawn of an incident.
struct Drawn {
    picture: Picture,
    mermaid: String,
}

/// What a run violates, for a page; none if nothing was violated.
pub fn incident(history: &History, result: &RunResult) -> Option<Picture> {
    let layout = IncidentLayout::of(history, result)?;
    let (wide, narrow) = (IncidentChart::wide(&layout), IncidentChart::narrow(&layout));
    Picture::new(&wide.ok()?, &narrow.ok()?).ok()
}

/// Draws an incident and writes it; the names of the files.
fn draw(
    directory: &RunDirectory,
    name: &str,
    layout: &IncidentLayout,
) -> Result<(Drawn, [String; 3]), WriteError> {
    let names = ["svg", "png", "mmd"].map(|ending| format!("{name}.{ending}"));
    let [svg, png, mmd] = &names;
    let undrawn =
        |error: ChartError| WriteError::Write(directory.path().join(svg), io::Error::other(error));
    let chart = IncidentChart::wide(layout).map_err(undrawn)?;
    let narrow = IncidentChart::narrow(layout).map_err(undrawn)?;
    let picture = Picture::new(&chart, &narrow).map_err(undrawn)?;
    let mermaid = mermaid(layout);
    directory.write(svg, |w| w.write_all(picture.svg().as_bytes()))?;
    directory.write_by_path(png, |path| chart::png(&chart, path).map_err(io::Error::other))?;
    directory.write(mmd, |w| w.write_all(mermaid.as_bytes()))?;
    Ok((Drawn { picture, mermaid }, names))
}

/// Writes a text, if there is one.
fn made(w: &mut dyn Write, text: &Result<impl AsRef<str>, impl Display>) -> io::Result<()> {
    w.write_all(
        text.as_ref()
            .map(AsRef::as_ref)
            .map_err(|error| io::Error::other(error.to_string()))?
            .as_bytes(),
    )
}

fn json(mut w: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut w, value)?;
    w.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support;
    use std::fs;

    const FILES: [&str; 14] = [
        "result.json",
        "history.jsonl",
        "latency.hlog",
        "latency.svg",
        "latency.png",
        "over-time.svg",
        "incident.svg",
        "incident.png",
        "incident.mmd",
        "trace.json",
        "junit.xml",
        "summary.md",
        "report.html",
        "manifest.json",
    ];

    #[test]
    fn every_file_is_written_and_reads_back() {
        let out = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(out.path(), "pool", "20261121T061500Z", 7).unwrap();
        let history = support::bonus_pool();
        let result = support::result(&history, vec![support::overlap()]);
        let manifest = Manifest { seed: u64::MAX, ..Manifest::default() };
        let files =
            write_all(&directory, &result, &history, &Latencies::of(&history), &manifest, &[])
                .unwrap();
        assert_eq!(files, FILES);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), FILES.len());
        let read = |name: &str| fs::read(directory.path().join(name)).unwrap();

        let text = String::from_utf8(read("result.json")).unwrap();
        assert!(text.starts_with("{\n  \"schema\"") && text.ends_with("}\n"));
        assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
        let back = history::read(&read("history.jsonl")[..]).unwrap();
        assert_eq!(back.events.len(), history.events.len());
        let back: Manifest = serde_json::from_slice(&read("manifest.json")).unwrap();
        assert_eq!(back.format, FORMAT);
        assert_eq!((back.seed, back.files), (u64::MAX, files));
        assert!(read("latency.svg").starts_with(b"<svg "));
        assert!(read("latency.png").starts_with(b"\x89PNG"));
        assert!(read("incident.svg").starts_with(b"<svg "));
        assert!(read("incident.png").starts_with(b"\x89PNG"));
        let diagram = String::from_utf8(read("incident.mmd")).unwrap();
        let page = String::from_utf8(read("summary.md")).unwrap();
        assert!(page.contains(&format!("\n```mermaid\n{diagram}```\n")), "{page}");
        let page = String::from_utf8(read("report.html")).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>"));
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        let order =
            [">violated<", "Timeline</h2>", "What went wrong</h2>", "Verdicts</h2>"].map(place);
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn a_run_that_held_has_no_picture_and_a_very_long_one_no_trace() {
        let mut history = support::bonus_pool();
        for events in [EVENTS_MOST, EVENTS_MOST + 1] {
            let last = history.events.last().copied().unwrap();
            let note =
                history::Event { op: 0, acquisition: 0, what: history::What::Probe(-2), ..last };
            history.events.resize(events, note);
            let result = support::result(
                &history,
                vec![support::held("ownership", history::verdict::Level::Key)],
            );
            let out = tempfile::tempdir().unwrap();
            let directory =
                RunDirectory::create(out.path(), "pool", "20261121T061500Z", 7).unwrap();
            let (latencies, manifest) = (Latencies::of(&history), Manifest::default());
            let files =
                write_all(&directory, &result, &history, &latencies, &manifest, &[]).unwrap();
            assert!(!files.iter().any(|it| it.starts_with("incident")), "{files:?}");
            assert_eq!(
                files.contains(&"trace.json".to_owned()),
                events == EVENTS_MOST,
                "{files:?}"
            );
            let page = fs::read_to_string(directory.path().join("report.html")).unwrap();
            assert!(!page.contains("Timeline</h2>"));
        }
    }

    #[test]
    fn a_directory_that_has_gone_is_an_error_that_names_the_file() {
        let out = tempfile::tempdir().unwrap();
        let directory = RunDirectory::create(out.path(), "pool", "20261121T061500Z", 7).unwrap();
        fs::remove_dir(directory.path()).unwrap();
        let history = support::bonus_pool();
        let result = support::result(&history, Vec::new());
        let error = write_all(
            &directory,
            &result,
            &history,
            &Latencies::of(&history),
            &Manifest::default(),
            &[],
        )
        .unwrap_err();
        assert!(error.to_string().contains("result.json"), "{error}");
    }
}
