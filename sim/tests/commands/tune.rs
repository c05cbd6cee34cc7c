//! `picklock tune` as its user meets it: what it says, what it writes, what it refuses, and that the examples of
//! docs/tune.md are what it says.

use nix::sys::signal::Signal;
use ttl_model::tuning::{TargetStatus, Tuning};

use crate::cli_support::{Room, eventually, words};

const FEW: [&str; 8] =
    ["tune", "--preset", "go", "--hold", "lognormal:5ms,p99=80ms", "--holds", "2000", "--format"];

#[test]
fn a_setting_is_advised_and_everything_is_written() {
    let room = Room::new();
    let out = room.path().join("out").display().to_string();
    let grid = ["--ttl", "1s,5s,20s", "--out", &out];
    let said = room.run(&[&FEW[..], &["json"], &grid].concat()).ended(0);
    let found: Tuning = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((found.advice.answer, found.points.len()), (TargetStatus::Met, 3 * 2 * 3));
    let advised = &found.points[found.advice.point.unwrap()];
    assert_eq!((advised.ttl.to_string().as_str(), advised.renew), ("5s", None));
    assert!(advised.meets() && found.points.iter().any(|it| !it.meets()));
    assert!(found.inputs.iter().any(|it| it.source.contains("The Go Blog")));
    let file = |name: &str| room.path().join("out/tune/latest").join(name);
    let read = |name: &str| std::fs::read(file(name)).unwrap();
    assert_eq!(serde_json::from_slice::<Tuning>(&read("tune.json")).unwrap(), found);
    assert!(
        read("frontier.svg").starts_with(b"<svg ") && read("frontier.png").starts_with(b"\x89PNG")
    );
    let page = String::from_utf8(read("report.html")).unwrap();
    assert!(
        page.contains("take a TTL of 5 s") && page.contains("<svg ") && !page.contains("<script")
    );
}

#[test]
fn the_replay_line_has_what_variables_set() {
    let room = ["TUNE_HOLD=7ms", "TUNE_RTT=1ms", "TUNE_TTL=", "TUNE_MEASURE=no"]
        .map(|it| it.split_once('=').unwrap());
    let room = room
        .into_iter()
        .fold(Room::new(), |room, (name, value)| room.with(&format!("PICKLOCK_{name}"), value));
    let asked = "tune --preset go --rtt 2ms --holds 2000 --ttl 1s --format json";
    let found: Tuning = serde_json::from_str(&room.run(&words(asked)).ended(0).stdout).unwrap();
    assert_eq!(found.replay, format!("picklock {asked} --hold 7ms"));
}

#[test]
fn what_cannot_be_met_ends_as_designed() {
    let room = Room::new();
    let out = room.path().join("out").display().to_string();
    let ended = |code: i32, more: &[&str]| {
        let common =
            ["tune", "--holds", "2000", "--out", &out, "--hold", "20ms", "--clients", "100"];
        room.run(&[&common[..], more].concat()).ended(code).stdout
    };
    let long = ["--pause", "lognormal:1s,p99=30s", "--pauses", "1/minute"];
    let short = [&long[..], &["--lock", "none", "--ttl", "1s,2s"]].concat();
    let said = ended(1, &short);
    assert!(
        said.contains("no TTL makes overlaps rare enough") && said.contains("use fencing"),
        "{said}"
    );
    let slow = [&long[..], &["--ttl", "5s,1h", "--lost", "1/day"]].concat();
    assert!(ended(5, &slow).contains("no setting meets all targets at once"));

    let log = room.path().join("pauses.csv");
    std::fs::write(&log, "1ms,990\n20ms,10\n").unwrap();
    let pause = format!("file:{}", log.display());
    let measured = ["--pause", &pause, "--pauses", "1/s", "--ttl", "5s", "--lost", "1/month"];
    let said = ended(3, &measured);
    assert!(said.contains("cannot say") && said.contains("measure for longer"), "{said}");
}

#[test]
fn a_few_measured_holds_are_no_reason_to_leave_renewal_out() {
    let room = Room::new();
    let work = room.path().join("work.csv");
    std::fs::write(&work, "value_ms,count\n5,10\n20,9\n85,1\n").unwrap();
    let work = format!("file:{}", work.display());
    let tune = ["tune", "--preset", "go", "--holds", "2000", "--ttl", "1s,5s", "--hold", &work];
    let said = room.run(&tune).ended(0).results();
    assert!(said.contains("take a TTL of 5 s, renewed every 1.67 s"), "{said}");
    assert!(said.contains("renewal is needed") && said.contains("up to 6,500,000 a day"), "{said}");
}

#[test]
fn a_hold_of_months_is_ended_early_too() {
    let room = Room::new();
    // Each has millions of pauses, and each setting thousands of holds.
    let months =
        "tune --preset go --hold 300d --clients 1 --every 1y --locks 1 --ttl 5s --threads 1";
    let tune = room.start(&words(months));
    eventually("it watches for SIGINT", || tune.catches(Signal::SIGINT).then_some(()));
    tune.signal(Signal::SIGINT);
    assert!(tune.said().ended(130).stdout.contains("interrupted after 0 of"));
}

#[test]
fn what_cannot_be_counted_with_is_refused_with_an_advice() {
    let room = Room::new();
    let (empty, broken) = (room.path().join("empty.hlog"), room.path().join("broken.hlog"));
    std::fs::write(&empty, "#[Histogram log format version 1.3]\n").unwrap();
    std::fs::write(&broken, "0.0,1.0,5.0,HISTFAAAnothing\n").unwrap();
    let file = |path: &std::path::Path| format!("file:{}", path.display());
    let (empty, broken) = (file(&empty), file(&broken));
    let hold = ["--hold", "5ms"];
    let cases: [(&[&str], &str); 26] = [
        (&["--preset", "go"], "--hold"),
        (&hold, "--preset"),
        (&["--preset", "java"], "jvm-g1"),
        (&["--preset", "go", "--hold", "lognormal:80ms,p99=5ms"], "below the median"),
        (&["--preset", "go", "--hold", "-5ms"], "negative"),
        (&["--preset", "go", "--hold", "NaN"], "no distribution"),
        (&["--preset", "go", "--hold", &empty], "empty"),
        (&["--preset", "go", "--hold", &broken], "line 1"),
        (&["--preset", "go", "--hold", "5ms", "--ttl", "20ms", "--rtt", "50ms"], "too short"),
        (&["--preset", "go", "--hold", "5ms", "--rtt", "3s"], "no TTL is long enough"),
        (&["--preset", "go", "--hold", "5ms", "--rtt", "3s", "--ttl", "5s"], "shorter round trip"),
        (&["--preset", "go", "--hold", "0s"], "takes no time"),
        (
            &["--preset", "go", "--hold", "5ms", "--ttl", "5s", "--renew", "9s"],
            "no setting to evaluate",
        ),
        (&["--preset", "go", "--hold", "5ms", "--renew", "3/2"], "not a fraction"),
        (&["--preset", "go", "--hold", "5ms", "--overlaps", "NaN/year"], "no number"),
        (&["--preset", "go", "--hold", "5ms", "--overlaps", "0/year"], "how rare"),
        (&["--preset", "go", "--hold", "1s"], "too few locks"),
        // The work alone would leave time for it, and its pauses leave none.
        (&["--pause", "2s", "--pauses", "1/s", "--hold", "100ms"], "too few locks"),
        // Whoever is at work is done at once, and has the lock until the write.
        (&["--preset", "go", "--hold", "1ms", "--write", "300ms"], "too few locks"),
        (&["--preset", "go", "--hold", "5ms", "--drift", "20000"], "allowance"),
        (&["--pause", "5ms", "--hold", "5ms"], "--pauses"),
        (&["--preset", "go", "--hold", "5ms", "--holds", "1000000001"], "from 1000 to 1000000000"),
        (&["--preset", "go", "--hold", "5ms", "--holds", "-1"], "from 1000 to 1000000000"),
        (&["--preset", "go", "--hold", "5ms", "--overlaps", "-1/day"], "-1/day"),
        (&["--preset", "go", "--hold", "5ms", "--renew", "-1s"], "cannot be negative"),
        (&["--preset", "go", "--hold", "5ms", "--out", "/dev/null"], "choose another place"),
    ];
    for (args, says) in cases {
        let said = room.run(&[&["tune"][..], args].concat()).ended(2);
        assert!(said.stderr.contains(says), "{args:?}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{args:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named_before_anything_is_simulated() {
    let room = Room::new();
    let file = room.file("file", "mine");
    // So many holds take hours.
    let tune = ["tune", "--preset", "go", "--hold", "5ms", "--holds", "1000000000"];
    for out in [file.as_str(), &format!("{file}/deeper"), "/proc/picklock"] {
        let said = room.run(&[&tune[..], &["--out", out]].concat()).ended(2);
        assert!(said.message().contains("choose another place with --out"), "{}", said.stderr);
    }
}

#[test]
fn a_measurement_that_is_interrupted_says_so_and_leaves_nothing() {
    let room = Room::new();
    let tune = "tune --measure --measure-for 1h --hold 5ms";
    let playing = room.start(&words(tune));
    eventually("it measures", || playing.stderr().contains("measuring for").then_some(()));
    playing.signal(Signal::SIGINT);
    let said = playing.said().ended(130);
    assert!(said.message().contains("interrupted while measuring"), "{}", said.stderr);
    assert!(!room.path().join("picklock-out").exists());
    room.is_left_clean();
}

const CRON: &str = "tune --preset go --hold 30s --clients 3 --every 1m --locks 1 --holds 2000";

#[test]
fn replicas_of_a_cron_job_have_an_advice() {
    let room = Room::new();
    let cron = |more: &str| room.run(&words(&format!("{CRON} {more}")));
    let waits = cron("").ended(2);
    assert!(waits.message().contains("--if-taken skip"), "{}", waits.stderr);
    let said = cron("--if-taken skip --ttl 30s,45s").ended(0).results();
    for text in [
        "take a TTL of 45 s, without renewal",
        "66.7 % of all runs find the lock taken and are skipped",
        "a crash misses 0.00 runs on average, at most 0 in 99 % of cases (target: 0)",
        "a shorter TTL without renewal is not enough: a TTL of 30 s",
        "99 % of holds last 30 s or longer",
        "runs missed (p99)",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    // A key that outlives the next tick leaves that run to nobody.
    let long = "--if-taken skip --ttl 1m,2m --renew none";
    let said = cron(long).ended(5).results();
    assert!(said.contains("missed runs (up to 1 after a crash)"), "{said}");
    let said = cron(&format!("{long} --takeover 5m")).ended(0).stdout;
    assert!(said.contains("take a TTL of 1 min, without renewal"), "{said}");
}

#[test]
fn a_batch_of_hours_is_renewed_as_often_as_the_formula_says() {
    let room = Room::new();
    let batch = "tune --pause 300ms --pauses 6/hour --hold 2h --ttl 1m --clients 5 --every 12h \
                 --locks 5 --takeover 2m --holds 1000 --format json";
    let said = room.run(&words(batch)).ended(0);
    let found: Tuning = serde_json::from_str(&said.stdout).unwrap();
    let advised = &found.points[found.advice.point.unwrap()];
    // Five clients hold for a sixth of the time, and renew once in 20 s.
    let formula = 5.0 / 6.0 / 20.0;
    assert_eq!(advised.renew.map(|it| it.to_string()), Some("20s".to_owned()));
    assert!((advised.renewals_per_second / formula - 1.0).abs() < 0.05, "{advised:?}");
}

#[test]
fn who_ends_it_early_has_what_was_found_and_is_told_that_it_is_not_all() {
    let room = Room::new();
    let tune = room.start(&[&FEW[..5], &["--holds", "100000000", "--threads", "2"]].concat());
    // Its end is asked for when it listens to signals.
    eventually("it watches for SIGINT", || tune.catches(Signal::SIGINT).then_some(()));
    tune.signal(Signal::SIGINT);
    let said = tune.said().ended(130);
    assert!(
        said.stdout.contains("incomplete: interrupted after 0 of 72 settings"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("answer: cannot say"), "{}", said.stdout);
    assert!(
        said.message().contains("for the rest run: picklock tune --preset go"),
        "{}",
        said.stderr
    );
    let json = std::fs::read(room.path().join("picklock-out/tune/latest/tune.json")).unwrap();
    let found: Tuning = serde_json::from_slice(&json).unwrap();
    assert!(
        found.points.iter().all(|it| it.unfinished && !it.meets()) && found.cut_short.is_some()
    );
}

/// Each command of the page prints the block below it behind its inputs and its table, and draws the chart that is kept.
#[test]
fn the_examples_of_the_page_are_what_it_says() {
    let page = include_str!("../../../docs/tune.md");
    let room = Room::new();
    let mut seen = 0;
    // A block begins with its language, which ends with the line.
    let blocks = page.split("```").skip(1).step_by(2);
    let mut blocks = blocks.filter_map(|it| it.split_once('\n')).map(|(_, text)| text.trim());
    while let Some(block) = blocks.next() {
        let Some(line) = block.strip_prefix("picklock ") else { continue };
        let line = line.replace("\\\n", " ");
        let mut args = words(&line);
        let out = room.path().join(format!("out{seen}"));
        let out_text = out.display().to_string();
        args.extend(["--out", &out_text]);
        let said = room.run(&args);
        let expected = blocks.next().expect("what it says stands below each command");
        let expected = expected.strip_prefix("…").expect("inputs and table are left out").trim();
        assert!(said.stdout.contains(expected), "{args:?} says\n{}", said.stdout);
        let kept = ["web", "jvm", "batch", "cron"][seen];
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tune");
        let kept = std::fs::read_to_string(root.join(format!("{kept}.svg"))).unwrap();
        let drawn = std::fs::read_to_string(out.join("tune/latest/frontier.svg")).unwrap();
        assert!(drawn == kept, "docs/tune has another chart than {args:?} draws");
        seen += 1;
    }
    assert_eq!(seen, 4);
}
