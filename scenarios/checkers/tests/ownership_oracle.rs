//! The ownership checker against an oracle that tries every order.
//!
//! Small histories are made by carrying random commands out on a key, with answers that come late or
//! never, some of which show whose value was there. In some of them keys never expire, and holds are over by their own
//! stamps. The oracle then forgets what happened: it tries
//! every order of the commands that real time allows, each unanswered one carried out or not, each
//! expiry taken or not, at the earliest moments, and says *violated* where every order that explains the
//! answers has somebody harmed. It shares no code with the checker.
//!
//! In some of them the server loses its keys, or its clock jumps, or commands are sent without an acquisition. The checker excuses
//! more then than the oracle, so only false alarms count. In others some keys never expire, or the server's clock differs.
//!
//! `PICKLOCK_ORACLE_HISTORIES=A..B` sets which histories are tried, by their seeds; `--nocapture` shows the counts.

use std::collections::BTreeMap;

use history::fault::Fault;
use history::verdict::{Outcome, Verdict};
use history::{Answer, Event, FORMAT, Head, History, Intent, Touch, What};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

const HISTORIES: u64 = 300_000;
const TTL_NS: u64 = 1_000;
const LOCK: &str = "lock";
/// The end of a command without an answer, and the life of a key without a TTL.
const NEVER: u64 = u64::MAX;
/// Who sets up and clears away, and a client that sends commands without an acquisition.
const RUN: u32 = 0;
const OUTSIDER: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Create,
    CompareDelete,
    Delete,
    CompareExtend,
    Extend,
    Overwrite,
    /// Overwrites, and is told what was there.
    GetSet,
    /// Ends its own hold and gives the key to another, or to nobody; no answer says to whom.
    HandOver,
}

/// A command as clients saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    kind: Kind,
    by: u32,
    sent_ns: u64,
    done_ns: u64,
    /// Whether it changed anything.
    did: bool,
    /// Its number, from 1.
    number: u32,
    /// Which command had written the value that it was told of; 0 for none.
    found: u32,
    /// How long the key lives from then on, where it sets that.
    ttl_ns: u64,
}

/// What happened to the server.
#[derive(Clone, Copy, Debug)]
struct Strike {
    fault: Fault,
    from_ns: u64,
    until_ns: u64,
}

impl Strike {
    /// None in most histories. It is drawn by itself: the commands of a seed are the same with it and without.
    fn draw(seed: u64) -> Option<Self> {
        let mut random = Pcg64Mcg::seed_from_u64(!seed);
        if below(&mut random, 4) != 0 {
            return None;
        }
        let fault = any_of(&mut random, &[Fault::PowerLoss, Fault::Failover, Fault::ClockStep]);
        let from_ns = 10 * TTL_NS + below(&mut random, 3 * TTL_NS);
        let for_ns = if fault == Fault::ClockStep { 0 } else { below(&mut random, TTL_NS) };
        Some(Self { fault, from_ns, until_ns: from_ns + for_ns })
    }
}

/// What kind of history it is. Each part is drawn by itself: the commands of a seed are the same where nothing is added.
#[derive(Clone, Copy, Debug, Default)]
struct Setting {
    /// Holds are over by their own stamps.
    stamped: bool,
    strike: Option<Strike>,
    /// Who sends commands beside three acquisitions.
    guest: Option<u32>,
    /// Some keys never expire.
    for_ever: bool,
    /// How far the server's clock may differ.
    margin_ns: u64,
}

impl Setting {
    fn draw(seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ (1 << 63));
        let mut setting =
            Self { stamped: seed % 3 == 2, strike: Strike::draw(seed), ..Self::default() };
        if below(&mut random, 2) == 0 {
            setting.guest = any_of(&mut random, &[None, Some(RUN), Some(OUTSIDER)]);
            setting.for_ever = below(&mut random, 3) == 0;
            setting.margin_ns = any_of(&mut random, &[0, 1, TTL_NS / 10, TTL_NS / 2, 2 * TTL_NS]);
        }
        setting
    }

    /// Whether the checker has to find whatever the oracle does.
    fn is_exact(&self) -> bool {
        self.strike.is_none() && self.guest.is_none()
    }
}

fn below(random: &mut Pcg64Mcg, bound: u64) -> u64 {
    (u64::from(random.next_u32()) * bound) >> 32
}

fn any_of<T: Copy>(random: &mut Pcg64Mcg, all: &[T]) -> T {
    all[usize::try_from(below(random, all.len() as u64)).unwrap()]
}

/// Commands carried out one after the other on a key that nobody else touches.
fn carry_out(seed: u64, setting: Setting) -> Vec<Seen> {
    let Setting { stamped, strike, guest, for_ever, .. } = setting;
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let added = &mut Pcg64Mcg::seed_from_u64(seed ^ (1 << 62));
    use Kind::{CompareDelete, CompareExtend, Create, Delete, Extend, GetSet, HandOver, Overwrite};
    let kinds = [
        Create,
        Create,
        Create,
        Create,
        CompareDelete,
        CompareDelete,
        Delete,
        Delete,
        CompareExtend,
        CompareExtend,
        Extend,
        Overwrite,
        // A lock that is handed over shows no values.
        if below(random, 3) == 0 { HandOver } else { GetSet },
    ];
    // A quarter are long and lose many answers: there the most orders explain them.
    let is_hard = below(random, 4) == 0;
    let count = if is_hard { 5 + below(random, 3) } else { 2 + below(random, 6) };
    let latency_ns = any_of(random, &[1, TTL_NS / 4, TTL_NS, 2 * TTL_NS]);
    let pace_ns = any_of(random, &[TTL_NS / 8, TTL_NS / 2, TTL_NS]);
    let lost_of = if is_hard { Some(3) } else { (below(random, 3) == 0).then_some(4) };
    let mut now_ns = 10 * TTL_NS;
    // Whose value the key holds, until when it lives, and which command wrote it.
    let mut key: Option<(u32, u64, u32)> = None;
    let mut all = Vec::new();
    for (nth, number) in (0..count).zip(1..) {
        let before_ns = now_ns;
        now_ns += 1 + below(random, pace_ns);
        key = key.filter(|(_, until_ns, _)| stamped || now_ns < *until_ns);
        if let Some(Strike { fault, from_ns, .. }) = strike
            && (before_ns..now_ns).contains(&from_ns)
            // A clock that goes forward; and a server that has kept nothing, in every other history.
            && (fault != Fault::ClockStep || !stamped)
            && from_ns % 2 == 0
        {
            key = None;
        }
        let by = any_of(random, &[1, 2, 3]);
        let by = guest.filter(|_| below(added, 3) == 0).unwrap_or(by);
        let kind = match if nth == 0 { Create } else { any_of(random, &kinds) } {
            CompareDelete | HandOver if guest == Some(by) => Delete,
            CompareExtend | Extend if by == RUN => Overwrite,
            CompareExtend if by == OUTSIDER => Extend,
            kind => kind,
        };
        let kind = match kind {
            CompareExtend | Extend | HandOver if stamped => Overwrite,
            kind => kind,
        };
        let ttls_ns = [TTL_NS, TTL_NS, TTL_NS / 4, 4 * TTL_NS, 1, 0];
        let ttls_ns = match kind {
            CompareExtend | Extend => &ttls_ns[..],
            HandOver => &ttls_ns[..1],
            _ => &ttls_ns[..4],
        };
        let ttl_ns = any_of(random, ttls_ns);
        let sets_life = matches!(kind, Create | Overwrite | GetSet);
        let ttl_ns = if for_ever && sets_life && below(added, 3) == 0 { NEVER } else { ttl_ns };
        let mine = key.is_some_and(|(value, ..)| value == by);
        let found = key.filter(|_| kind == GetSet).map_or(0, |(.., writer)| writer);
        let did = match kind {
            Create => key.is_none(),
            CompareDelete | CompareExtend | HandOver => mine,
            Delete | Extend => key.is_some(),
            Overwrite | GetSet => true,
        };
        if did {
            key = match (kind, key) {
                (CompareDelete | Delete, _) => None,
                (CompareExtend | Extend, Some((value, _, writer))) => {
                    Some((value, now_ns + ttl_ns, writer))
                }
                (HandOver, _) => {
                    let heir = u32::try_from(below(random, 4)).unwrap();
                    (heir != 0).then_some((heir, now_ns + ttl_ns, number))
                }
                _ => Some((by, now_ns.saturating_add(ttl_ns), number)),
            };
        }
        let (there_ns, back_ns) = (below(random, latency_ns), below(random, latency_ns));
        let lost = lost_of.is_some_and(|of| below(random, of) == 0) && by != RUN;
        let done_ns = if lost { NEVER } else { now_ns + back_ns };
        let sent_ns = now_ns - there_ns;
        all.push(Seen { kind, by, sent_ns, done_ns, did, number, found, ttl_ns });
    }
    numbered_as_sent(all)
}

/// The same in the order of their sending, and numbered so.
fn numbered_as_sent(mut all: Vec<Seen>) -> Vec<Seen> {
    all.sort_by_key(|it| it.sent_ns);
    let numbers: BTreeMap<u32, u32> = all.iter().map(|it| it.number).zip(1..).collect();
    for it in &mut all {
        it.number = numbers[&it.number];
        it.found = numbers.get(&it.found).copied().unwrap_or(0);
    }
    all
}

fn history(seen: &[Seen], setting: Setting) -> History {
    let Setting { stamped, strike, margin_ns, .. } = setting;
    let mut history = History::new(Head {
        format: FORMAT.to_owned(),
        locks: true,
        clients: 3,
        lock_key: LOCK.to_owned(),
        ttl_ns: TTL_NS,
        stamped,
        margin_ns,
        ..Head::default()
    });
    let (key, name) = (history.texts.intern(LOCK), history.texts.intern("CMD"));
    let why = history.texts.intern("reset");
    for (op, it) in (1..).zip(seen) {
        let ttl_ns = (it.ttl_ns != NEVER).then_some(it.ttl_ns);
        let (touch, compares) = match it.kind {
            Kind::Create => (Touch::Create(ttl_ns), false),
            Kind::CompareDelete => (Touch::Delete, true),
            Kind::Delete => (Touch::Delete, false),
            Kind::CompareExtend => (Touch::Extend(it.ttl_ns), true),
            Kind::Extend => (Touch::Extend(it.ttl_ns), false),
            Kind::Overwrite | Kind::GetSet => (Touch::Overwrite(ttl_ns), false),
            Kind::HandOver => (Touch::Unknown, false),
        };
        let intent = Intent { touch, compares };
        let touch = match it.kind {
            Kind::GetSet if it.found == 0 => Touch::Create(ttl_ns),
            _ if it.did => touch,
            _ => Touch::None,
        };
        let end = match it.done_ns {
            NEVER => (it.sent_ns + 1, What::Unanswered(why)),
            done_ns => (done_ns, What::Answered { touch, answer: Answer::Ok, found: it.found }),
        };
        let (client, acquisition) = match it.by {
            RUN => (0, 0),
            OUTSIDER => (3, 0),
            by => (by, by),
        };
        for (at_ns, what) in [(it.sent_ns, What::Command { node: 0, name, key, intent }), end] {
            let event = Event { at_ns, client, acquisition, op, what };
            history.events.push(event);
        }
    }
    if let Some(Strike { fault, from_ns, until_ns }) = strike {
        let for_ns = until_ns - from_ns;
        let what = What::Fault { fault, node: Some(0), for_ns, in_hold: true, staged: None };
        history.events.push(Event { at_ns: from_ns, client: 0, acquisition: 0, op: 0, what });
    }
    history.events.sort_by_key(|event| event.at_ns);
    history
}

/// Whose the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    None,
    /// Nobody knows: it may have been there before.
    Unknown,
    /// Of an acquisition, until then, with the value that this command wrote; and since when that is its life.
    Of(u32, u64, u32, u64),
    /// It was of that acquisition, with the value that this command wrote, and its time has passed.
    Left(u32, u32),
}

/// What the orders that explain the answers have in common.
#[derive(Debug, Default)]
struct Oracle {
    setting: Setting,
    explained: bool,
    harmless: bool,
}

impl Oracle {
    fn judge(seen: &[Seen], setting: Setting) -> Self {
        let changes = |it: &&Seen| it.done_ns == NEVER || it.did;
        let changes: Vec<Seen> = seen.iter().filter(changes).copied().collect();
        let mut oracle = Self { setting, ..Self::default() };
        oracle.go_on(&changes, &mut vec![false; changes.len()], Key::Unknown, 0, false);
        oracle
    }

    /// Tries every command that may be next.
    fn go_on(&mut self, all: &[Seen], gone: &mut [bool], key: Key, now_ns: u64, harmed: bool) {
        if self.harmless {
            return;
        }
        let ends_ns = |gone: &[bool], but: usize| {
            let left = (0..all.len()).filter(|&other| !gone[other] && other != but);
            left.map(|other| all[other].done_ns).min().unwrap_or(NEVER)
        };
        if ends_ns(gone, all.len()) == NEVER {
            self.explained = true;
            self.harmless |= !harmed;
            return;
        }
        for place in 0..all.len() {
            let it = all[place];
            // Whatever is left must still have time, and so must this one.
            let latest_ns = ends_ns(gone, place).min(it.done_ns);
            let at_ns = now_ns.max(it.sent_ns);
            // What is answered in the nanosecond in which a later one is sent stands on an earlier line.
            let mut earlier = all[..place].iter().zip(&*gone);
            let is_behind = earlier.any(|(other, gone)| !gone && other.done_ns == it.sent_ns);
            if gone[place] || at_ns > latest_ns || is_behind {
                continue;
            }
            gone[place] = true;
            self.next(all, gone, key, at_ns, harmed, it);
            match key {
                // Or the key has expired first.
                Key::Of(owner, until_ns, writer, _) if at_ns.max(until_ns) <= latest_ns => {
                    let over =
                        if self.setting.stamped { Key::Left(owner, writer) } else { Key::None };
                    self.next(all, gone, over, at_ns.max(until_ns), harmed, it);
                }
                // Or there was none.
                Key::Unknown => self.next(all, gone, Key::None, at_ns, harmed, it),
                _ => {}
            }
            // Or the server has lost it, and perhaps come back with another; or its clock has ended it.
            if let Some(Strike { fault, from_ns, until_ns }) = self.setting.strike {
                let (left, until_ns): (&[Key], u64) = match (fault, key) {
                    (Fault::ClockStep, Key::Of(.., set_ns))
                        if !self.setting.stamped && set_ns <= from_ns =>
                    {
                        (&[Key::None], latest_ns)
                    }
                    (Fault::ClockStep, _) => (&[], 0),
                    _ => (&[Key::None, Key::Unknown], until_ns),
                };
                let lost_ns = now_ns.max(from_ns);
                if lost_ns <= until_ns.min(latest_ns) {
                    for left in left {
                        self.next(all, gone, *left, at_ns.max(lost_ns), harmed, it);
                    }
                }
            }
            gone[place] = false;
        }
    }

    /// Carries a command out, if it can do what it did, and goes on.
    fn next(
        &mut self,
        all: &[Seen],
        gone: &mut [bool],
        key: Key,
        at_ns: u64,
        harmed: bool,
        it: Seen,
    ) {
        let from_ns = if self.setting.stamped { it.sent_ns } else { at_ns };
        let lives =
            |from_ns: u64| from_ns.saturating_add(it.ttl_ns).saturating_sub(self.setting.margin_ns);
        let until_ns = if it.ttl_ns == NEVER { NEVER } else { lives(from_ns) };
        let mine = Key::Of(it.by, until_ns, it.number, at_ns);
        let anothers = matches!(key, Key::Of(owner, ..) if owner != it.by);
        // Of what nobody knows, nobody is accused.
        let is_held = matches!(key, Key::Of(owner, ..) if ![RUN, OUTSIDER].contains(&owner));
        let harms = anothers && is_held && it.by != RUN && it.kind != Kind::HandOver;
        let compares = matches!(it.kind, Kind::CompareDelete | Kind::CompareExtend);
        // An unanswered comparison does nothing to another's key.
        let left = matches!(key, Key::Left(owner, _) if owner != it.by);
        let idle = it.done_ns == NEVER && compares && (anothers || left);
        // What an answer shows was there was there, written by a command of before, so that it was not there from the
        // beginning; and where it shows nothing, there was nothing.
        let shows_another = match key {
            Key::Of(_, _, writer, _) | Key::Left(_, writer) => it.found != writer,
            Key::None => it.found != 0,
            Key::Unknown => true,
        };
        let shows = it.kind == Kind::GetSet && it.done_ns != NEVER;
        let after = match (it.kind, key) {
            _ if idle || (shows && shows_another) => return,
            (Kind::HandOver, _) => Key::Unknown,
            (Kind::Create, Key::None) | (Kind::Overwrite | Kind::GetSet, _) => mine,
            (Kind::Create, _) | (_, Key::None) => return,
            (Kind::CompareDelete | Kind::Delete, _) => Key::None,
            (Kind::CompareExtend | Kind::Extend, Key::Of(owner, _, writer, _)) => {
                Key::Of(owner, lives(at_ns), writer, at_ns)
            }
            (Kind::CompareExtend | Kind::Extend, Key::Unknown | Key::Left(..)) => key,
        };
        self.go_on(all, gone, after, at_ns, harmed || harms);
    }
}

#[test]
fn the_checker_agrees_with_an_oracle_that_tries_every_order() {
    let seeds = std::env::var("PICKLOCK_ORACLE_HISTORIES").ok();
    let seeds = seeds.map_or(0..HISTORIES, |seeds| {
        let (from, until) = seeds.split_once("..").expect("A..B");
        from.parse().expect("a seed")..until.parse().expect("a seed")
    });
    let wanted = seeds.end - seeds.start;
    let [mut violating, mut contradictory, mut inconclusive, mut unknown] = [0_u64; 4];
    let (mut misses, mut alarms) = (Vec::new(), Vec::new());
    for seed in seeds {
        let setting = Setting::draw(seed);
        let seen = carry_out(seed, setting);
        let oracle = Oracle::judge(&seen, setting);
        let findings = checkers::judge(&history(&seen, setting), true);
        let verdict = &findings.iter().find(|it| it.name == "ownership").unwrap().verdict;
        // Nobody acquires anything in these histories, so what is held is called vacuous.
        let undecided = matches!(verdict, Verdict::Inconclusive(_));
        let expected = oracle.explained && !oracle.harmless;
        unknown += u64::from(seen.iter().any(|it| it.done_ns == NEVER));
        violating += u64::from(expected);
        contradictory += u64::from(!oracle.explained);
        inconclusive += u64::from(undecided);
        match (expected, verdict.outcome() == Outcome::Violated) {
            (true, false) if !undecided && setting.is_exact() => misses.push((seed, seen)),
            (false, true) => alarms.push((seed, seen)),
            _ => {}
        }
    }
    println!(
        "{wanted} histories, {unknown} with unanswered commands: {violating} violating, {} missed, \
         {} false alarms, {inconclusive} inconclusive, {contradictory} that no order explains",
        misses.len(),
        alarms.len()
    );
    let first = |all: &[(u64, Vec<Seen>)]| {
        let (seed, seen) = all.first()?;
        let lines: Vec<String> = seen.iter().map(|it| format!("{it:?}")).collect();
        Some(format!("seed {seed} {:?}\n{}", Setting::draw(*seed), lines.join("\n")))
    };
    assert_eq!(first(&alarms), None, "a false alarm");
    assert_eq!(first(&misses), None, "a miss");
    assert_eq!(contradictory, 0, "what happened explains the answers");
    assert!(violating * 5 >= wanted, "at least a fifth is violating: {violating} of {wanted}");
    assert!(inconclusive * 100 <= wanted, "at most one in a hundred is inconclusive");
}
