//! The virtual world, as whoever composes runs knows it.

use std::sync::Arc;

use harness::world::{Run, RunError, RunRequest, World};
use redis_model::options::VERSION;
use scenarios::result::ServerFacts;
use scenarios::scenario::Scenario;

use super::choices::Choices;
use super::run::{Runner, Schedule, WORLD};

/// One schedule after the other, each from its seed. There is one such world a thread.
#[derive(Default)]
pub struct VirtualWorld {
    /// The scenario that was run last, ready to be run again.
    ready: Option<(Arc<Scenario>, Runner)>,
    lua_only: bool,
}

impl VirtualWorld {
    /// One whose servers, with `lua_only`, run every script in Lua, also one that could run natively. What comes of a
    /// schedule is the same.
    pub fn new(lua_only: bool) -> Self {
        Self { lua_only, ..Self::default() }
    }

    fn runner(&mut self, scenario: &Arc<Scenario>) -> Result<&mut Runner, RunError> {
        let ready = match self.ready.take() {
            // The same one, not an equal one: to compare them would take longer than some schedules.
            Some(ready) if Arc::ptr_eq(&ready.0, scenario) => ready,
            _ => (Arc::clone(scenario), Runner::new(scenario)?.lua_only(self.lua_only)),
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
        let Schedule { facts, .. } = runner.run(request.seed, Choices::seeded(request.seed));
        let remarks = match facts.stuck {
            0 => Vec::new(),
            stuck => {
                vec![format!("{stuck} tasks were still waiting when everything had been put right")]
            }
        };
        let server = ServerFacts {
            software: "picklock model".to_owned(),
            version: format!("{VERSION}{}", request.scenario.software().besides()),
            origin: "virtual time".to_owned(),
            ..ServerFacts::default()
        };
        let history = runner.journal().take();
        Ok(Run { history, facts, remarks, server, is_private: true, ..Run::default() })
    }

    fn recycle(&mut self, run: Run) {
        if let Some((_, runner)) = &self.ready {
            runner.journal().give_back(run.history);
        }
    }
}
