//! Each kind of page in a browser: no error on its console, no request to anywhere, hostile strings are texts, nothing is cut off
//! on a telephone, and by night charts are dark.

mod cli_support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::Room;
use serde_json::Value;

/// As a text it is harmless; as HTML it runs scripts and asks servers. It is also the name of a file, so it has no `/`.
const HOSTILE: &str = "<img src=q onerror=console.error(1)>&quot;'\"<svg onload=console.error(2)>";
/// The width of a telephone, in pixels.
const PHONE: u32 = 390;
/// The ground of charts by night.
const NIGHT: &str = "rgb(28, 32, 38)";

/// What a browser has shown of a page.
struct Visit {
    /// The lines of its console.
    console: Vec<String>,
    /// The addresses that the page asked for.
    requests: BTreeSet<String>,
    /// The page as it stands after everything on it has been loaded and run.
    dom: String,
}

/// The browser: the variable `PICKLOCK_CHROMIUM`, or the first of these on PATH.
fn browser() -> PathBuf {
    let named = std::env::var_os("PICKLOCK_CHROMIUM").map(PathBuf::from);
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = named.or_else(|| names.into_iter().find_map(|name| which::which(name).ok()));
    found.expect(
        "these tests need Chromium: `ci/test` installs it, or run `apt-get install chromium`",
    )
}

fn visit(page: &Path, options: &[&str]) -> Visit {
    let room = tempfile::tempdir().unwrap();
    let log = room.path().join("net.json");
    let output = Command::new(browser())
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        // Nothing leaves the machine, whatever a page or the browser itself asks for.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .args(["--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", room.path().join("profile").display()))
        .arg(format!("--log-net-log={}", log.display()))
        .args(options)
        .arg(page)
        .env("HOME", room.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let log: Value = serde_json::from_slice(&fs::read(log).unwrap()).unwrap();
    let events = log["events"].as_array().expect("a log of what was asked for");
    let of_page = |event: &Value| {
        // What the browser asks for by itself has no origin.
        let initiator = event["params"]["initiator"].as_str()?;
        (initiator != "not an origin")
            .then(|| event["params"]["url"].as_str().map(str::to_owned))?
    };
    Visit {
        console: stderr.lines().filter(|it| it.contains(":CONSOLE")).map(str::to_owned).collect(),
        requests: events.iter().filter_map(of_page).collect(),
        dom: String::from_utf8(output.stdout).unwrap(),
    }
}

/// Opens a page that holds the hostile text.
#[track_caller]
fn is_harmless(page: &Path) {
    let text = fs::read_to_string(page).unwrap();
    let Visit { console, requests, dom } = visit(page, &[]);
    let page = page.display();
    assert_eq!(console, [""; 0], "{page}");
    assert!(requests.is_empty(), "{page}: {requests:?}");
    // What a browser has made of the page has no element that the page was not given.
    let count = |dom: &str, name: &str| dom.matches(&format!("<{name}")).count();
    for element in ["img", "script", "iframe", "link"] {
        assert_eq!(count(&dom, element), 0, "{page} has <{element}>");
    }
    assert_eq!(count(&dom, "svg"), text.matches("<svg xmlns").count(), "{page}");
    assert!(dom.contains("&lt;img src=q onerror=console.error(1)&gt;"), "{page} lacks the text");

    for (scheme, is_night) in [("1", false), ("0", true)] {
        let (width, ground) = measured(&text, scheme);
        assert!(width <= PHONE, "{page} is {width} pixels wide");
        // A page may have no chart.
        assert!(ground.is_empty() || (ground == NIGHT) == is_night, "{page}: {ground:?}");
    }
}

/// How wide a page is on a telephone, and the ground of its first chart, in a light (1) or dark (0) scheme.
fn measured(page: &str, scheme: &str) -> (u32, String) {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    let script = "const it = document.querySelector('iframe'); it.onload = () => {
        const page = it.contentDocument, chart = page.querySelector('svg rect');
        const ground = chart ? it.contentWindow.getComputedStyle(chart).fill : '';
        document.title = page.documentElement.scrollWidth + ';' + ground;
    };";
    let around = format!(
        "<!DOCTYPE html><title></title><iframe style=\"width: {PHONE}px; border: 0\" srcdoc=\"{escaped}\"></iframe>\
         <script>{script}</script>"
    );
    let room = tempfile::tempdir().unwrap();
    let file = room.path().join("around.html");
    fs::write(&file, around).unwrap();
    let dom = visit(&file, &[&format!("--blink-settings=preferredColorScheme={scheme}")]).dom;
    let title = dom.split("<title>").nth(1).and_then(|it| it.split("</title>").next());
    let (width, ground) = title.and_then(|it| it.split_once(';')).expect("the script ran");
    (width.parse().unwrap(), ground.to_owned())
}

/// A run that violates something, whose stored texts are hostile; where it is.
fn hostile_run(room: &Room) -> String {
    room.run(&[
        "--scenario",
        "gc-pause",
        "--lock",
        "del-release",
        "--world",
        "virtual",
        "--seed",
        "1",
    ]);
    let run = room.only_run();
    let hostile = serde_json::to_string(HOSTILE).unwrap();
    for name in ["manifest.json", "result.json", "history.jsonl"] {
        let mut text = fs::read_to_string(run.join(name)).unwrap();
        for word in ["gc-pause", "del-release", "mutual-exclusion", "acquire", "7.0.15"] {
            // Not where it is the name of a field or of a kind of event.
            text = text.replace(&format!(": \"{word}\""), &format!(": {hostile}"));
            text = text
                .replace(&format!("\"scenario\":\"{word}\""), &format!("\"scenario\":{hostile}"));
            text = text.replace(&format!("\"lock\":\"{word}\""), &format!("\"lock\":{hostile}"));
        }
        let inner = hostile.trim_matches('"');
        text = text.replace("client 1 deleted", &format!("{inner} deleted"));
        fs::write(run.join(name), text).unwrap();
    }
    run.to_str().unwrap().to_owned()
}

/// A scenario with a hostile name, in a file; its path.
fn hostile_scenario(room: &Room) -> String {
    let text = room.run(&["show", "--toml", "gc-pause"]).ended(0).stdout;
    room.file(&format!("{HOSTILE}.toml"), text)
}

fn latest(room: &Room, of: &str, page: &str) -> PathBuf {
    room.path().join("picklock-out").join(of).join("latest").join(page)
}

#[test]
fn a_browser_shows_what_these_tests_look_for() {
    let room = Room::new();
    let page = room.file(
        "page.html",
        "<!DOCTYPE html><script>console.error('a script')</script><img src='http://127.0.0.1:9/x'>",
    );
    let Visit { console, requests, dom } = visit(Path::new(&page), &[]);
    assert!(console.iter().any(|it| it.contains("a script")), "{console:?}");
    assert_eq!(Vec::from_iter(requests), ["http://127.0.0.1:9/x"]);
    assert!(dom.contains("<img src="), "{dom}");
    let (width, _) = measured("<!DOCTYPE html><div style='width: 500px'>wide</div>", "1");
    assert!(width > PHONE, "{width}");
}

#[test]
fn the_page_of_a_run_and_that_of_runs_compared_are_harmless() {
    let room = Room::new();
    let run = hostile_run(&room);
    room.run(&["report", &run]).ended(0);
    let page = latest(&room, "report", "report.html");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.matches("<svg").count() >= 6, "three pictures for two widths");
    is_harmless(&page);
    room.run(&["report", &run, &run]).ended(0);
    is_harmless(&latest(&room, "report", "compare.html"));
}

#[test]
fn the_pages_of_a_sweep_and_of_a_matrix_are_harmless() {
    let room = Room::new();
    let file = hostile_scenario(&room);
    let sweep = ["--scenario", &file, "--lock", "del-release", "--world", "virtual", "--searched"];
    room.run(&[&sweep[..], &["--seeds", "0..40", "--out", "swept"]].concat()).ended(1);
    let swept = fs::read_dir(room.path().join("swept")).unwrap().next().unwrap().unwrap().path();
    let page = swept.join("latest/sweep.html");
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("The worst schedules") && text.contains("Faults and what was violated"));
    is_harmless(&page);

    let matrix = ["matrix", "--scenario", &file, "--lock", "single,del-release", "--seeds", "1..2"];
    room.run(&[&matrix[..], &["--format", "html=matrix.html"]].concat()).ended(0);
    is_harmless(&room.path().join("matrix.html"));
}

#[test]
fn the_page_of_a_soak_is_harmless() {
    let room = Room::new();
    let file = hostile_scenario(&room);
    let soak = ["soak", "--scenario", &file, "--lock", "single", "--for", "500ms"];
    room.run(&[&soak[..], &["--out", "soaked"]].concat()).ended(0);
    is_harmless(&room.path().join("soaked/soak.html"));
}

#[test]
fn the_page_of_a_tuning_is_harmless() {
    let room = Room::new();
    let tune = ["tune", "--preset", "go", "--hold", "lognormal:5ms,p99=80ms", "--holds", "2000"];
    room.run(&[&tune[..], &["--ttl", "1s,5s", "--out", HOSTILE]].concat()).ended(0);
    is_harmless(&room.path().join(HOSTILE).join("tune/latest/report.html"));
}
