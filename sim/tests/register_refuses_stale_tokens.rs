//! The register, when clients present fencing tokens that have grown old.

mod bare_world;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bare_world::BareEnv;
use history::words::STALE;
use history::{FORMAT, Head, History, Journal, Timeline, Update, UpdateEnd};
use picklock::env::{Env, Node};
use scenarios::recipe::{
    Acquired, BoxFuture, Handle, Held, Recipe, ReleaseOutcome, Stateless, stateless,
};
use scenarios::record::{Dialect, Recorded};
use scenarios::scenario::{Overrides, Scenario};
use scenarios::workload::{self, Process};

/// Grants to everybody at once, with the next of these tokens.
struct Granting {
    tokens: Mutex<VecDeque<Option<u64>>>,
}

struct Granted(Option<u64>);

impl<E: Env> Recipe<E> for Granting {
    fn handle(self: Arc<Self>, env: E, client: u32) -> Arc<dyn Handle> {
        stateless(self, env, client)
    }
}

impl<E: Env> Stateless<E> for Granting {
    fn acquire(&self, _env: E, _client: u32) -> BoxFuture<'_, Acquired> {
        let token = self.tokens.lock().unwrap().pop_front().expect("a token for every round");
        Box::pin(async move { Ok(Box::new(Granted(token)) as Box<dyn Held>) })
    }
}

impl Held for Granted {
    fn is_valid(&self) -> bool {
        true
    }

    fn fence(&self) -> Option<u64> {
        self.0
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ReleaseOutcome> {
        Box::pin(async { ReleaseOutcome::Answered("released") })
    }
}

/// What a client does: how long after the start, and with which tokens, one a round.
type Part = (Duration, Vec<Option<u64>>);

/// Has these clients at a register, which takes 50 ms of work.
fn run(fenced: bool, parts: Vec<Part>) -> History {
    let rounds = parts.iter().map(|(_, tokens)| tokens.len()).max().unwrap();
    let text = scenarios::catalog::text("long-job").unwrap();
    let set = [
        ("workload.register.hold", "50ms".to_owned()),
        ("workload.register.rounds", rounds.to_string()),
        ("workload.register.fenced", fenced.to_string()),
    ];
    let set = set.map(|(key, value)| (key.to_owned(), value)).to_vec();
    let overrides = Overrides { set, ..Overrides::default() };
    let scenario = Scenario::parse("register", "register.toml", text, &overrides).unwrap();
    let journal = Journal::new(Head { format: FORMAT.to_owned(), ..Head::default() });
    let written = journal.clone();
    bare_world::run(7, async move {
        let work = Arc::new(workload::build(&scenario.workload, "{test}:", Node(1)));
        let observe =
            |client| Recorded::new(BareEnv::new(), journal.clone(), Dialect::default(), client);
        let run = observe(0);
        work.set_up(&run).await.unwrap();
        for (client, (after, tokens)) in (1..).zip(parts) {
            let (env, work) = (observe(client), Arc::clone(&work));
            let recipe = Arc::new(Granting { tokens: Mutex::new(tokens.into()) });
            run.spawn(async move {
                env.sleep(after).await;
                work.task(Process::begin(env, recipe)).await;
            });
        }
        // Longer than all of them together take.
        run.sleep(Duration::from_secs(10)).await;
        work.look_back(&run).await.unwrap();
    });
    written.history()
}

/// Read, written and presented; or why not.
type End = Result<(i64, i64, Option<u64>), String>;

/// How the updates ended, client by client.
fn ends(history: &History) -> Vec<End> {
    let timeline = Timeline::of(history);
    let mut all = timeline.acquisitions.iter().collect::<Vec<_>>();
    all.sort_by_key(|it| (it.client, it.number));
    let updates = all.iter().flat_map(|it| &it.updates);
    let ends = updates.map(|update| match update.end {
        Some((_, UpdateEnd::Ok(Update { read, written, token }))) => Ok((read, written, token)),
        Some((_, UpdateEnd::Fail(why))) => Err(history.text(why).to_owned()),
        other => panic!("every answer arrives: {other:?}"),
    });
    ends.collect()
}

fn left(history: &History) -> i64 {
    Timeline::of(history).register_left.expect("the run looked at it").1
}

const NOW: Duration = Duration::ZERO;

#[test]
fn a_token_is_refused_below_the_highest_and_not_at_it() {
    let tokens = [Some(2), Some(1), Some(2), Some(10), Some(9), None];
    let history = run(true, vec![(NOW, tokens.to_vec())]);
    let refused = || Err(STALE.to_owned());
    let expected = [
        Ok((0, 1, Some(2))),
        refused(),
        Ok((1, 2, Some(2))),
        // As numbers, and not as text, 9 is lower than 10.
        Ok((2, 3, Some(10))),
        refused(),
        Ok((3, 4, None)),
    ];
    assert_eq!(ends(&history), expected);
    assert_eq!(left(&history), 4);
}

/// The later client has read, and not written yet, when the earlier one writes.
#[test]
fn a_read_raises_the_mark_against_a_late_write() {
    let late = || {
        let behind = Duration::from_millis(20);
        vec![(NOW, vec![Some(1)]), (behind, vec![Some(2)])]
    };
    let history = run(true, late());
    assert_eq!(ends(&history), [Err(STALE.to_owned()), Ok((0, 1, Some(2)))]);
    assert_eq!(left(&history), 1);
    // One that does not ask for tokens is not told any, and loses an update.
    let history = run(false, late());
    assert_eq!(ends(&history), [Ok((0, 1, None)), Ok((0, 1, None))]);
    assert_eq!(left(&history), 1);
}
