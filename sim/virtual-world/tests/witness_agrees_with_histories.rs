//! What a history says that a command has done to its key, read from the command and its answer, is what the effects
//! witness says, which compares what keys hold before and behind the command.
//!
//! Every recipe in every scenario, as it is staged and as it is searched. Each command that a server carries out is
//! compared, also one whose answer gets lost on its way. Both speak of
//!
//! - a command's first key. Of further ones (the fence of a lock, the line of a queue) a history says nothing: none
//!   of these may be the lock's key;
//! - what an answer tells. A history says *unknown* of a script that hands the lock over and of the register's own
//!   script, and of nothing else. Of commands in a transaction the answer of EXEC tells;
//! - what has changed. A write of the value that stood there is an extension to the witness, and nothing if the key
//!   does not live longer for it. Counting is nothing to either. *Overwrite* in a history says that there may have been
//!   a key: to the witness it may be a creation;
//! - the life of the key, to the millisecond in which servers count. Where the key's value says how long a hold
//!   lasts, the history has the life of the hold, and only what was done is compared.
//!
//! A refused command, and one that waits, have changed nothing. What is no command's doing is neither's: an expiry,
//! or what a server has lost or taken over. Else nothing changes between commands.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use history::fault::Fault;
use history::{Touch, What};
use picklock::command::Command;
use picklock::reply::Reply;
use picklock::time::WallTime;
use scenarios::catalog;
use scenarios::matrix::{Pair, locks};
use scenarios::recipe::KeyValue;
use scenarios::record::Dialect;
use scenarios::scenario::Scenario;
use virtual_world::{Choices, Runner, WitnessedCommand};

const SEEDS: u64 = 5;
/// The same with many clients.
const CROWDED: u64 = 1;
const NS_PER_MS: u64 = 1_000_000;

/// What is read and what is seen, how often at least. Nothing else may come together.
const KINDS: [((&str, &str), u64); 9] = [
    (("create", "create"), 50_000),
    (("delete", "delete"), 50_000),
    (("extend", "extend"), 5_000),
    (("extend", "none"), 1),
    (("none", "none"), 500_000),
    (("overwrite", "create"), 5_000),
    (("overwrite", "extend"), 2_000),
    (("overwrite", "none"), 2_000),
    (("overwrite", "overwrite"), 20_000),
];
/// Of so many a history may say *unknown*, in a thousand.
const UNKNOWN_MOST: u64 = 20;
/// So many writes may be of a value that perhaps stood there, in a thousand of all that write over one.
const ON_TRUST_MOST: u64 = 2;
/// How the key of a second lock ends.
const SECOND_LOCK: &[u8] = b":other";

/// A key as commands have left it.
struct KnownKey {
    /// Unknown where a script or a server has written it.
    value: Option<Vec<u8>>,
    expires_ms: Option<u64>,
}

/// Which server, and which key there.
type Place = (u32, Vec<u8>);

/// What one run says in both ways.
struct Comparison<'a> {
    lock: &'static str,
    lock_key: Vec<u8>,
    dialect: &'a Dialect,
    known: BTreeMap<Place, KnownKey>,
    /// The commands that wait in the transactions of connections.
    queued: BTreeMap<u32, Vec<Command>>,
    found: &'a mut Found,
}

/// How often what was read and seen, and what does not agree.
#[derive(Default)]
struct Found {
    kinds: BTreeMap<(&'static str, &'static str), u64>,
    /// Of which keys a history says *unknown*; of the lock's, with the recipe.
    unknown: BTreeMap<String, u64>,
    /// Writes of a value that perhaps stood there: a server had come by it in its own way.
    on_trust: u64,
    different: Vec<String>,
}

impl Found {
    fn add(&mut self, part: Self) {
        let Self { kinds, unknown, on_trust, different } = part;
        for (kind, times) in kinds {
            *self.kinds.entry(kind).or_default() += times;
        }
        for (key, times) in unknown {
            *self.unknown.entry(key).or_default() += times;
        }
        self.on_trust += on_trust;
        self.different.extend(different);
    }
}

fn kind(touch: Touch) -> &'static str {
    match touch {
        Touch::None => "none",
        Touch::Create(_) => "create",
        Touch::Overwrite(_) => "overwrite",
        Touch::Delete => "delete",
        Touch::Extend(_) => "extend",
        Touch::Unknown => "unknown",
    }
}

/// What a command writes that does nothing but write.
fn value_of(command: &Command) -> Option<Vec<u8>> {
    let writes = [&b"SET"[..], b"SETNX", b"GETSET"].contains(&command.name());
    command.args().nth(2).filter(|_| writes).map(<[u8]>::to_vec)
}

impl Comparison<'_> {
    /// What a history says of the commands that end with this answer.
    fn read(&mut self, it: &WitnessedCommand) -> Vec<(Command, Touch)> {
        let queued = self.queued.entry(it.conn).or_default();
        let ends = [&b"EXEC"[..], b"DISCARD"].contains(&it.command.name());
        let waiting = if ends { std::mem::take(queued) } else { Vec::new() };
        let read = |command: Command, answer: &Reply| {
            let touch = match command.name() {
                // A history has its own word for these.
                b"SUBSCRIBE" | b"UNSUBSCRIBE" => Touch::None,
                _ => self.dialect.touch(&command, answer),
            };
            (command, touch)
        };
        match &it.answer {
            Some(Ok(Reply::Status(status))) if &**status == "QUEUED" => {
                queued.push(it.command.clone());
                vec![(it.command.clone(), Touch::None)]
            }
            Some(Ok(Reply::Array(answers))) if ends => {
                assert_eq!(waiting.len(), answers.len(), "{}", self.lock);
                waiting.into_iter().zip(answers).map(|(it, answer)| read(it, answer)).collect()
            }
            Some(Ok(answer)) => vec![read(it.command.clone(), answer)],
            Some(Err(_)) | None => vec![(it.command.clone(), Touch::None)],
        }
    }

    fn compare(&mut self, it: WitnessedCommand) {
        let now_ms = it.wall.as_unix_ms();
        for change in &it.unasked {
            self.learn((it.server, change.key.clone()), change.touch, None, now_ms);
        }
        let mut changes = it.changes.clone();
        for (command, read) in self.read(&it) {
            let key = self.dialect.intent(&command).0.to_vec();
            let of_key = changes.iter().position(|change| change.key == key);
            let seen = of_key.map_or(Touch::None, |at| changes.remove(at).touch);
            let place = (it.server, key);
            if read == Touch::Unknown {
                let key = String::from_utf8_lossy(&place.1);
                let of = if self.is_of_lock(&place) { self.lock } else { "" };
                *self.found.unknown.entry(format!("{key} {of}")).or_default() += 1;
            } else {
                *self.found.kinds.entry((kind(read), kind(seen))).or_default() += 1;
                if !self.agrees(&place, &command, read, seen, it.wall) {
                    self.differs(&it, &format!("{read:?} is read and {seen:?} seen"));
                }
            }
            self.learn(place, seen, value_of(&command), now_ms);
        }
        if changes.iter().any(|change| change.key == self.lock_key) {
            self.differs(&it, "nothing is read of a change of the lock's key");
        }
    }

    fn is_of_lock(&self, place: &Place) -> bool {
        place.1 == self.lock_key || place.1.ends_with(SECOND_LOCK)
    }

    fn agrees(
        &mut self,
        place: &Place,
        command: &Command,
        read: Touch,
        seen: Touch,
        wall: WallTime,
    ) -> bool {
        let before = self.known.get(place);
        let of_hold = self.dialect.value == KeyValue::Stamp && self.is_of_lock(place);
        let life = |life_ns: Option<u64>| life_ns.filter(|_| !of_hold);
        let expires_ms = |life_ns: Option<u64>| expires_ms(life_ns, wall.as_unix_ms());
        let ends_as_before =
            |life_ns| before.is_some_and(|it| it.expires_ms == expires_ms(life_ns));
        let is_on_trust = before.is_some_and(|it| it.value.is_none());
        let same_value = before.is_some_and(|it| is_on_trust || it.value == value_of(command));
        match (read, seen) {
            (Touch::None, Touch::None) | (Touch::Delete, Touch::Delete) => true,
            (Touch::Create(ttl), Touch::Create(left))
            | (Touch::Overwrite(ttl), Touch::Create(left) | Touch::Overwrite(left)) => {
                life(ttl) == left
            }
            (Touch::Overwrite(ttl), Touch::Extend(left)) => {
                self.found.on_trust += u64::from(is_on_trust);
                same_value && ttl == Some(left)
            }
            (Touch::Overwrite(ttl), Touch::None) => {
                self.found.on_trust += u64::from(is_on_trust);
                same_value && ends_as_before(life(ttl))
            }
            (Touch::Extend(ttl_ns), Touch::Extend(left_ns)) => ttl_ns == left_ns,
            (Touch::Extend(ttl_ns), Touch::None) => ends_as_before(Some(ttl_ns)),
            _ => false,
        }
    }

    fn learn(&mut self, place: Place, seen: Touch, value: Option<Vec<u8>>, now_ms: u64) {
        match seen {
            Touch::None | Touch::Unknown => {}
            Touch::Delete => drop(self.known.remove(&place)),
            Touch::Create(life_ns) | Touch::Overwrite(life_ns) => {
                let expires_ms = expires_ms(life_ns, now_ms);
                self.known.insert(place, KnownKey { value, expires_ms });
            }
            Touch::Extend(life_ns) => {
                let known = self.known.entry(place);
                let known = known.or_insert(KnownKey { value: None, expires_ms: None });
                known.expires_ms = expires_ms(Some(life_ns), now_ms);
            }
        }
    }

    fn differs(&mut self, it: &WitnessedCommand, how: &str) {
        let WitnessedCommand { command, answer, .. } = it;
        self.found.different.push(format!("{}: {command:?}: {answer:?}: {how}", self.lock));
    }
}

fn expires_ms(life_ns: Option<u64>, now_ms: u64) -> Option<u64> {
    life_ns.map(|life_ns| now_ms + life_ns / NS_PER_MS)
}

/// Runs schedules of a scenario, and compares.
fn compare(scenario: &Scenario, found: &mut Found) {
    let about = scenario.about_lock();
    // Tasks that share a connection get into each other's transactions, and no answer tells whose is whose.
    if about.name == "watch-multi" && ["shared-handle", "long-line"].contains(&&*scenario.name) {
        return;
    }
    let dialect = Dialect::of(about);
    let mut runner = Runner::new(scenario).unwrap();
    let seeds = if scenario.is_crowded() { CROWDED } else { SEEDS };
    for seed in 0..seeds {
        let (_, commands) = runner.run_witnessed(seed, Choices::seeded(seed));
        let (lock_key, moves_keys) = runner.journal().look(|history| {
            let struck = history.events.iter().map(|event| event.what);
            // A server that takes a primary's place has keys that no command brought it, and so has one on which
            // something else is kept.
            let others = [Fault::Switchover, Fault::ForeignKey, Fault::ForeignList];
            let moves = |fault: Fault| fault.loses_keys() || others.contains(&fault);
            let struck_so = |what| matches!(what, What::Fault { fault, .. } if moves(fault));
            (history.head.lock_key.clone().into_bytes(), struck.clone().any(struck_so))
        });
        let (lock, dialect) = (about.name, &dialect);
        let (known, queued) = (BTreeMap::new(), BTreeMap::new());
        let mut run = Comparison { lock, lock_key, dialect, known, queued, found };
        let first_different = run.found.different.len();
        for command in commands {
            if !command.unasked.is_empty() && !moves_keys {
                run.differs(&command, "a key has changed before that by itself");
            }
            run.compare(command);
        }
        for line in &mut found.different[first_different..] {
            *line = format!("{}, seed {seed}: {line}", scenario.name);
        }
    }
}

fn pairs() -> Vec<Scenario> {
    let all = catalog::all().unwrap();
    let staged = all.iter().flat_map(|it| locks().map(|lock| Pair::scenario(&it.name, lock)));
    let searched = all.iter().filter(|it| it.unsearchable().is_none());
    let searched = searched.flat_map(|it| locks().map(|lock| Pair::searched(&it.name, lock)));
    staged.chain(searched).collect::<Result<_, _>>().unwrap()
}

#[test]
fn what_is_read_from_commands_is_what_they_do() {
    let pairs = pairs();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Found::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let mut part = Found::default();
                while let Some(scenario) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    compare(scenario, &mut part);
                }
                found.lock().unwrap().add(part);
            });
        }
    });
    let Found { kinds, unknown, on_trust, different } = found.into_inner().unwrap();
    println!("{kinds:?}, unknown: {unknown:?}, on trust: {on_trust}");
    let shown = different.iter().take(20).map(String::as_str).collect::<Vec<_>>();
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), shown.join("\n"));

    assert!(kinds.keys().eq(KINDS.iter().map(|(kind, _)| kind)), "{kinds:?}");
    for (kind, least) in KINDS {
        assert!(kinds[&kind] >= least, "{kind:?}: {}", kinds[&kind]);
    }
    let of_unknown = [
        "picklock:virtual:lock queue",
        "picklock:{virtual}:lock queue",
        "picklock:{virtual}:other queue",
        "picklock:{virtual}:register ",
        "picklock:{virtual}:register:reader ",
    ];
    assert!(unknown.keys().eq(&of_unknown), "{unknown:?}");
    let all = kinds.values().sum::<u64>();
    assert!(unknown.values().sum::<u64>() * 1_000 <= all * UNKNOWN_MOST, "{unknown:?} of {all}");
    let over = kinds.iter().filter(|((read, seen), _)| *read == "overwrite" && *seen != "create");
    let over = over.map(|(_, times)| times).sum::<u64>();
    assert!(on_trust * 1_000 <= over * ON_TRUST_MOST, "{on_trust} of {over}");
}

#[test]
fn a_schedule_is_the_same_whether_or_not_it_is_witnessed() {
    for (scenario, lock) in
        [("power-loss", "queue"), ("failover", "redlock"), ("gc-pause", "single")]
    {
        let mut runner = Runner::new(&Pair::scenario(scenario, lock).unwrap()).unwrap();
        let unseen = (runner.run(7, Choices::seeded(7)), runner.journal().history());
        let (schedule, commands) = runner.run_witnessed(7, Choices::seeded(7));
        assert!(commands.iter().any(|it| !it.changes.is_empty()));
        assert_eq!((schedule, runner.journal().history()), unseen, "{scenario} {lock}");
    }
}
