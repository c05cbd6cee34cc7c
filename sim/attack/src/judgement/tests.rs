//! Which claims of workers are true, and which are not.

use history::{Event, Head, Texts, What};
use redis_model::witness::InsideChange;

use super::*;

const MS: u64 = 1_000_000;

/// A test's clock, and what happened by it.
struct Tape {
    start: Instant,
    sent: Vec<TracedCommand>,
    phases: Vec<Phases>,
}

impl Tape {
    /// Client 1 has acquisition 1 from the start, client 2 acquisition 2 from 500 ms on.
    fn new() -> Self {
        let start = crate::clock::now();
        let phases = [(1, 0), (2, 500)].map(|(client, ms)| Phases {
            client,
            acquisition: client,
            begun: start + Duration::from_millis(ms),
            acquired: None,
            release: None,
        });
        Self { start, sent: Vec::new(), phases: phases.to_vec() }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// A client sent a command that did this to the key when it arrived.
    fn does(mut self, client: u32, sent_ms: u64, arrived_ms: u64, touch: Touch) -> Self {
        let change = KeyChange { db: 0, key: b"k".to_vec(), touch, inside: InsideChange::None };
        let arrived = TracedCommand::carried_out(client, self.at(arrived_ms), "SET", vec![change]);
        self.sent.push(TracedCommand { sent: self.at(sent_ms), ..arrived });
        self
    }

    /// Judges a run of two seconds, with a lock of 300 ms.
    fn judge<T>(&self, look: impl FnOnce(&PlanEvidence<'_>, &[Tenure]) -> T) -> T {
        let lock_key = String::from("k");
        let head = Head { lock_key, ttl_ns: 300 * MS, ..Head::default() };
        let history = History { head, ..History::default() };
        let shown = PlanEvidence {
            plan: None,
            quorum: 1,
            promises: Promises { checks: true, reports: true, ..Promises::default() },
            key: b"k",
            history: &history,
            sent: &self.sent,
            phases: &self.phases,
            claims: &[],
            validities: &[],
            doubts: &KeyDoubts::default(),
            failures: &[],
            start: self.start,
            struck: None,
            healed: Some(self.at(1_000)),
            end: self.at(2_000),
            unserved: None,
        };
        look(&shown, &tenures(&self.sent, &self.phases, b"k", shown.end))
    }

    /// What is wrong with this claim.
    fn claim(&self, client: u32, of: ClaimOf, from: u64, to: u64) -> Option<AttackFinding> {
        let (asked, answered) = (self.at(from), self.at(to));
        let claim = Claim { client, acquisition: client, of, asked, answered };
        self.judge(|shown, tenures| dishonest(shown, tenures, &claim, false))
    }

    /// The same where the server has forgotten the lock.
    fn claim_forgotten(&self, of: ClaimOf, from: u64, to: u64) -> Option<AttackFinding> {
        let (asked, answered) = (self.at(from), self.at(to));
        let claim = Claim { client: 1, acquisition: 1, of, asked, answered };
        self.judge(|shown, tenures| dishonest(shown, tenures, &claim, true))
    }
}

#[test]
fn a_validity_counts_from_the_last_renewal_before_it_was_told() {
    let tape = Tape::new().does(1, 10, 11, Touch::Create(Some(300 * MS)));
    let tape = tape.does(1, 200, 201, Touch::Extend(300 * MS));
    for (told, until, is_true) in
        [(12, 350, true), (12, 360, false), (202, 540, true), (202, 550, false)]
    {
        let claim = (tape.at(told), 1, 1, tape.at(until));
        let found = tape.judge(|shown, tenures| overlong(shown, tenures, claim));
        assert_eq!(found.is_none(), is_true, "told at {told}: {found:?}");
    }
}

#[test]
fn no_validity_is_longer_than_the_life_of_a_key_that_does_not_expire() {
    let tape = Tape::new().does(1, 10, 11, Touch::Create(None));
    let claim = (tape.at(700), 1, 1, tape.at(1_000));
    let found = tape.judge(|shown, tenures| overlong(shown, tenures, claim));
    assert!(found.is_none(), "{found:?}");
}

#[test]
fn a_claim_is_true_while_the_key_is_ones_own() {
    let tape = Tape::new().does(1, 10, 11, Touch::Create(Some(300 * MS))).does(
        1,
        200,
        201,
        Touch::Extend(300 * MS),
    );
    for (asked, answered, is_true) in [(9, 12, true), (400, 450, true), (502, 600, false)] {
        let found = tape.claim(1, ClaimOf::Held, asked, answered);
        assert_eq!(found.is_none(), is_true, "asked at {asked}: {found:?}");
    }
    let found = tape.claim(2, ClaimOf::Acquired, 500, 600).unwrap();
    assert_eq!((found.severity, found.level), (Severity::Bug, Level::Belief));
    assert_eq!(tape.claim(1, ClaimOf::Released, 700, 701).unwrap().severity, Severity::Api);
}

#[test]
fn who_extends_a_lock_that_the_server_has_forgotten_is_told_so() {
    let tape = Tape::new().does(1, 10, 11, Touch::Create(Some(300 * MS)));
    let tape = tape.does(1, 100, 101, Touch::Delete);
    let severity = |of, asked| tape.claim_forgotten(of, asked, asked + 5).map(|it| it.severity);
    assert_eq!(severity(ClaimOf::Extended, 50), None);
    assert_eq!(
        severity(ClaimOf::Extended, 900),
        Some(Severity::Assumption),
        "asked before the fault was over"
    );
    assert_eq!(severity(ClaimOf::Extended, 1_001), Some(Severity::Bug));
    assert_eq!(
        severity(ClaimOf::Held, 1_001),
        Some(Severity::Assumption),
        "its client may have looked before"
    );
}

#[test]
fn a_command_belongs_to_whom_sent_it_however_late_it_comes() {
    let tape = Tape::new()
        .does(1, 10, 11, Touch::Create(Some(100 * MS)))
        .does(2, 501, 502, Touch::Create(Some(900 * MS)))
        .does(1, 50, 600, Touch::Delete);
    assert!(tape.claim(2, ClaimOf::Held, 590, 595).is_none());
    let found = tape.claim(2, ClaimOf::Held, 605, 606).unwrap();
    assert!(found.story.iter().any(|it| it.text.contains("deleted or taken over")), "{found:?}");
}

#[test]
fn a_key_is_left_behind_only_if_nobody_clears_it_away() {
    let taken = || Tape::new().does(1, 10, 11, Touch::Create(Some(300 * MS)));
    let found = taken().claim(1, ClaimOf::NotAcquired(None), 9, 50).unwrap();
    assert!(found.summary.contains("261 ms"), "{}", found.summary);
    let cleared = taken().does(1, 60, 61, Touch::Delete);
    assert!(cleared.claim(1, ClaimOf::NotAcquired(None), 9, 50).is_none());
    assert!(
        taken().claim(1, ClaimOf::NotAcquired(None), 9, 400).is_none(),
        "it had expired by then"
    );
}

#[test]
fn a_release_that_is_said_to_be_done_leaves_no_key() {
    let held = || Tape::new().does(1, 10, 11, Touch::Create(Some(300 * MS)));
    let released = |tape: Tape| tape.claim(1, ClaimOf::Released, 100, 101);
    let found = released(held()).unwrap();
    assert_eq!((found.severity, found.invariant.as_str()), (Severity::Bug, "released-is-clean"));
    assert!(found.summary.ends_with("left its key behind for 210 ms"), "{}", found.summary);
    assert!(released(held().does(1, 100, 100, Touch::Delete)).is_none());
    // It is on its way yet.
    assert!(released(held().does(1, 100, 150, Touch::Delete)).is_none());
    for (left_ms, is_clean) in [(74, true), (75, false)] {
        let found = released(held().does(1, 100, 101, Touch::Extend(left_ms * MS)));
        assert_eq!(found.is_none(), is_clean, "{left_ms} ms: {found:?}");
    }
}

#[test]
fn a_release_that_is_said_to_be_needless_leaves_no_key_either() {
    let held = || Tape::new().does(1, 10, 11, Touch::Create(Some(300 * MS)));
    let found = held().claim(1, ClaimOf::NotReleased, 100, 101).unwrap();
    let says = "client 1 said that it had nothing to release, and left its key behind for 210 ms";
    assert_eq!((found.severity, found.summary.as_str()), (Severity::Bug, says));
    assert!(held().claim(1, ClaimOf::NotReleased, 400, 401).is_none(), "it had expired");
    let gone = held().does(1, 100, 100, Touch::Delete);
    assert!(gone.claim(1, ClaimOf::NotReleased, 100, 101).is_none());
    let plan = AttackPlan { boundary: None, fault: AttackFault::HolderStop, servers: 1 };
    let tape = held();
    let (asked, answered) = (tape.at(100), tape.at(101));
    let claim = Claim { client: 1, acquisition: 1, of: ClaimOf::NotReleased, asked, answered };
    let severity = |reports, forgets| {
        tape.judge(|shown, tenures| {
            let promises = Promises { reports, ..Promises::default() };
            let shown = PlanEvidence { plan: Some(&plan), promises, ..*shown };
            dishonest(&shown, tenures, &claim, forgets).map(|it| it.severity)
        })
    };
    assert_eq!(severity(true, false), Some(Severity::Api));
    assert_eq!(severity(false, false), None, "it promises nothing");
    assert_eq!(severity(true, true), None, "the server has forgotten the key");
}

#[test]
fn that_one_client_stands_still_excuses_no_overlap_of_two_others() {
    let plan = AttackPlan { boundary: None, fault: AttackFault::HolderStop, servers: 1 };
    for (clients, severity) in [([1, 2], Severity::Assumption), ([2, 3], Severity::Bug)] {
        let mut texts = Texts::default();
        let released = What::Released(texts.intern("released"));
        let done = [
            (1, 1, What::Acquire, 1),
            (2, 1, What::Acquired, 1),
            (3, 2, What::Acquire, 2),
            (4, 2, What::Acquired, 2),
            (50, 1, What::Release, 3),
            (51, 1, released, 3),
            (60, 2, What::Release, 4),
            (61, 2, released, 4),
        ];
        let event = |(ms, acquisition, what, op): (u64, u32, What, u32)| {
            let client = clients[acquisition as usize - 1];
            Event { at_ns: ms * MS, client, acquisition, op, what }
        };
        let events = done.map(event).to_vec();
        let lock_key = String::from("k");
        let head = Head { lock_key, locks: true, clients: 3, ttl_ns: 300 * MS, ..Head::default() };
        let history = History { head, texts, events };
        let found = Tape::new().judge(|shown, _| {
            judge(&PlanEvidence { plan: Some(&plan), history: &history, ..*shown }).findings
        });
        let found: Vec<_> = found.iter().map(|it| (it.level, it.severity)).collect();
        assert_eq!(found, [(Level::Belief, severity)], "{clients:?}");
    }
}

#[test]
fn what_follows_from_something_graver_is_not_told() {
    let finding = |severity, invariant: &str| AttackFinding {
        severity,
        invariant: invariant.to_owned(),
        level: Level::Key,
        summary: String::new(),
        story: Vec::new(),
    };
    let all = vec![
        finding(Severity::Api, "released-is-true"),
        finding(Severity::Bug, "ownership"),
        finding(Severity::Bug, "ownership"),
        finding(Severity::Bug, "mutual-exclusion"),
    ];
    let harmless = vec![finding(Severity::Assumption, "held-is-true"), all[0].clone()];
    let kept: Vec<Severity> = gravest(harmless).into_iter().map(|it| it.severity).collect();
    assert_eq!(kept, [Severity::Api, Severity::Assumption]);
    let kept: Vec<String> = gravest(all).into_iter().map(|it| it.invariant).collect();
    assert_eq!(kept, ["ownership", "mutual-exclusion"]);
}

#[test]
fn nobody_gets_the_lock_any_more_if_others_are_refused_again_and_again() {
    let tape = Tape::new();
    let claim = |client, of, asked| {
        let (asked, answered) = (tape.at(asked), tape.at(asked + 10));
        Claim { client, acquisition: 9, of, asked, answered }
    };
    let no = |client, asked| claim(client, ClaimOf::NotAcquired(None), asked);
    let found = |claims: &[Claim]| {
        tape.judge(|shown, _| unserved(&PlanEvidence { claims, ..*shown }, tape.at(1_000)))
    };
    let bug = found(&[no(2, 999), no(2, 1_000), no(3, 1_800)]).unwrap();
    assert_eq!((bug.severity, bug.level), (Severity::Bug, Level::Progress));
    let says = "others asked 2 times in 810 ms, and the last answer was no";
    assert!(bug.summary.ends_with(says), "{}", bug.summary);
    for (claims, why) in [
        (&[no(2, 999), no(3, 1_800)][..], "one asked before"),
        (&[no(1, 1_000), no(1, 1_800)], "the victim"),
        (&[no(2, 1_000), claim(2, ClaimOf::Acquired, 1_100), no(3, 1_800)], "one got it"),
    ] {
        assert!(found(claims).is_none(), "{why}");
    }
}
