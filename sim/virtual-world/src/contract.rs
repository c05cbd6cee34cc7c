//! The virtual world, behind the contract of the worlds.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use harness::world::{ChoicePlan, CutShort, Run, RunError, RunRequest, World};
use history::verdict::{Witness, WitnessStep};
use redis_model::options::VERSION;
use scenarios::result::ServerFacts;
use scenarios::scenario::Scenario;

use super::budget::Livelock;
use super::choices::Choices;
use super::run::{Runner, Schedule, WORLD};

/// Runs one schedule after the other, each from its seed. There is one such world per thread.
#[derive(Default)]
pub struct VirtualWorld {
    /// The scenario that was run last, ready to be run again.
    ready: Option<(Arc<Scenario>, Runner)>,
    lua_only: bool,
    stop: Option<Arc<AtomicBool>>,
}

impl VirtualWorld {
    /// A world whose servers, with `lua_only`, run every script in Lua, even one that could run natively. The result of
    /// a schedule is the same.
    pub fn new(lua_only: bool) -> Self {
        Self { lua_only, ..Self::default() }
    }

    /// The same; a schedule ends early once this is true.
    #[must_use]
    pub fn interruptible(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    fn runner(&mut self, scenario: &Arc<Scenario>) -> Result<&mut Runner, RunError> {
        let ready = match self.ready.take() {
            // The same one, not an equal one: comparing them would take longer than some schedules.
            Some(ready) if Arc::ptr_eq(&ready.0, scenario) => ready,
            _ => {
                let runner = Runner::new(scenario)?.lua_only(self.lua_only);
                (Arc::clone(scenario), runner.interruptible(self.stop.clone()))
            }
        };
        Ok(&mut self.ready.insert(ready).1)
    }
}

impl World for VirtualWorld {
    fn name(&self) -> &'static str {
        WORLD
    }

    fn check(&self, scenario: &Scenario) -> Result<(), RunError> {
        drop(Runner::new(scenario)?);
        Ok(())
    }

    fn run(&mut self, request: &RunRequest) -> Result<Run, RunError> {
        let runner = self.runner(&request.scenario)?;
        let seeded = Choices::seeded(request.seed);
        let choices = match &request.choices {
            ChoicePlan::Drawn => seeded,
            ChoicePlan::Recorded => seeded.recorded(),
            ChoicePlan::Listed(list) => Choices::listed(list.to_vec()).recorded(),
        };
        let schedule = runner.run(request.seed, choices);
        let stuck = match &schedule.livelock {
            Some(livelock) => Some(goes_on(livelock)),
            None if schedule.interrupted || schedule.stuck.is_empty() => None,
            None => Some(waits(&schedule)),
        };
        let cut_short = match schedule.interrupted {
            true => Some(CutShort::Interrupted),
            false => schedule.livelock.map(|_| CutShort::Livelock),
        };
        let server = ServerFacts {
            software: "picklock model".to_owned(),
            version: format!("{VERSION}{}", request.scenario.software().besides()),
            origin: "virtual time".to_owned(),
            ..ServerFacts::default()
        };
        let history = runner.journal().take();
        let (facts, choices) = (schedule.facts, schedule.taken);
        Ok(Run {
            history,
            facts,
            choices,
            cut_short,
            stuck,
            server,
            is_private: true,
            ..Run::default()
        })
    }

    fn recycle(&mut self, run: Run) {
        if let Some((_, runner)) = &self.ready {
            runner.journal().give_back(run.history);
        }
    }
}

/// The witness that tasks went on for ever.
fn goes_on(livelock: &Livelock) -> Witness {
    let Livelock { at_ns, what, ran } = livelock;
    let of = ran.iter().map(|(_, polls)| polls).sum::<u32>();
    let steps = ran.iter().map(|&(client, polls)| {
        let text = format!("a task of it ran {polls} times of the last {of}");
        WitnessStep { at_ns: *at_ns, client, text }
    });
    Witness {
        summary: format!("a livelock: the schedule was ended after {what}"),
        clients: ran.iter().map(|&(process, _)| process).collect(),
        steps: steps.collect(),
        occurrences: 1,
        ..Witness::default()
    }
}

/// The witness that tasks waited for ever.
fn waits(schedule: &Schedule) -> Witness {
    let (mut clients, tasks) = (schedule.stuck.clone(), schedule.stuck.len());
    clients.sort_unstable();
    clients.dedup();
    let step = |&client: &u32| {
        let text = "a task of it is still waiting".to_owned();
        WitnessStep { at_ns: schedule.facts.virtual_ns, client, text }
    };
    Witness {
        summary: format!("{tasks} tasks were still waiting when everything had been put right"),
        steps: clients.iter().map(step).collect(),
        clients,
        occurrences: 1,
        ..Witness::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_that_is_interrupted_is_judged_as_far_as_it_came() {
        let text = scenarios::catalog::text("gc-pause").unwrap();
        let rounds = ("workload.register.rounds".to_owned(), "2000".to_owned());
        let overrides = scenarios::scenario::Overrides { set: vec![rounds], ..Default::default() };
        let scenario = Scenario::parse("gc-pause", "gc-pause.toml", text, &overrides).unwrap();
        let request = RunRequest::new(Arc::new(scenario), 1);
        let stop = Arc::new(AtomicBool::new(false));
        let mut world = VirtualWorld::default().interruptible(Arc::clone(&stop));
        let whole = world.run(&request).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let part = world.run(&request).unwrap();
        assert_eq!((whole.cut_short, part.cut_short), (None, Some(CutShort::Interrupted)));
        assert!(part.stuck.is_none());
        let (part, whole) = (part.history.events, whole.history.events);
        assert!(!part.is_empty() && part.len() < whole.len() / 2, "{}", part.len());
        // Tasks that are dropped at the end may still report something.
        assert_eq!(part[..part.len() / 2], whole[..part.len() / 2]);
    }

    #[test]
    fn who_waits_for_ever_is_named_once_and_their_tasks_are_counted() {
        let witness = waits(&Schedule { stuck: vec![2, 1, 2], ..Schedule::default() });
        assert!(witness.summary.starts_with("3 tasks were still waiting"), "{witness:?}");
        assert_eq!((witness.clients, witness.steps.len()), (vec![1, 2], 2));
    }
}
