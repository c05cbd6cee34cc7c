//! What a recipe may need where times are exact: little more than it was measured to need.
//!
//! Invariant: these limits are of a scenario as its file stages it, for that was measured. In its searched form, and
//! once anything else in it is set, there are none.

use serde::{Deserialize, Serialize};

use super::Scenario;
use super::error::KeyError;
use super::parse::{check_commands, known_recipe, overlap};
use crate::span::Span;

/// The limits of one recipe, each in the place of the scenario's of that name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub struct RecipeLimits {
    /// For how long nobody may get a lock that is wanted and that nobody has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_within: Option<Span>,
    /// For how long nobody may sleep on while the lock is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken_within: Option<Span>,
    /// How many commands it may take to get the lock once, retries and release included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_within: Option<f64>,
}

impl Scenario {
    /// What its recipe may need: as measured, where times are `exact`, and else what the scenario allows all.
    pub(crate) fn limits(&self, exact: bool) -> RecipeLimits {
        let measured = self.measured(exact);
        RecipeLimits {
            available_within: measured.available_within.or(self.available_within),
            woken_within: measured.woken_within.or(self.woken_within),
            commands_within: measured.commands_within.or(self.commands_within),
        }
    }

    /// Whether its recipe has a limit for a time, as measured: it holds whatever else the recipe promises.
    pub(super) fn is_timed(&self, exact: bool) -> bool {
        let measured = self.measured(exact);
        measured.available_within.or(measured.woken_within).is_some()
    }

    fn measured(&self, exact: bool) -> RecipeLimits {
        let measured = self.limits.get(&self.lock.recipe).filter(|_| exact);
        measured.copied().unwrap_or_default()
    }

    /// Forgets what was measured if any of these keys makes it another scenario.
    pub(super) fn remeasure(&mut self, touched: &[&str]) {
        if touched.iter().any(|it| *it != "lock.recipe" && !overlap(it, "limits")) {
            self.limits.clear();
        }
    }

    /// What is wrong with its limits, and by which key.
    pub(super) fn check_limits(&self) -> Result<(), KeyError> {
        check_commands("commands_within", self.commands_within)?;
        self.limits.iter().try_for_each(|(lock, limits)| {
            let path = format!("limits.{lock}");
            known_recipe(&path, lock)?;
            check_commands(&format!("{path}.commands_within"), limits.commands_within)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::catalog;
    use crate::scenario::{Overrides, RecipeLimits, Scenario};
    use crate::span::Span;
    use std::time::Duration;

    const OF_SINGLE: &str = "[limits]\n\
        single = { available_within = \"7ms\", woken_within = \"8ms\", commands_within = 2.5 }\n";

    fn parse(overrides: &Overrides) -> Scenario {
        let text = catalog::text("job-ends").unwrap();
        let alone = text.split("\n\n").filter(|it| !it.contains("[limits]"));
        let text = alone.collect::<Vec<_>>().join("\n\n") + "\n" + OF_SINGLE;
        Scenario::parse("job-ends", "job-ends.toml", &text, overrides).unwrap()
    }

    fn ms(ms: u64) -> Option<Span> {
        Some(Span(Duration::from_millis(ms)))
    }

    fn wide() -> RecipeLimits {
        RecipeLimits { available_within: ms(5_000), woken_within: ms(2_000), commands_within: None }
    }

    fn measured() -> RecipeLimits {
        RecipeLimits { available_within: ms(7), woken_within: ms(8), commands_within: Some(2.5) }
    }

    #[test]
    fn they_are_of_one_recipe_where_times_are_exact() {
        let scenario = parse(&Overrides::default());
        assert_eq!((scenario.limits(true), scenario.limits(false)), (measured(), wide()));
        assert_eq!((scenario.is_timed(true), scenario.is_timed(false)), (true, false));
        let of =
            |lock: &str| parse(&Overrides { lock: Some(lock.to_owned()), ..Overrides::default() });
        assert_eq!(of("single").limits(true), measured());
        assert_eq!(of("queue").limits(true), wide());
        assert!(!of("queue").is_timed(true));
    }

    #[test]
    fn they_are_of_the_scenario_as_its_file_stages_it() {
        let set = |key: &str, value: &str| Overrides {
            set: vec![(key.to_owned(), value.to_owned())],
            ..Overrides::default()
        };
        let second = Some(Span(Duration::from_secs(1)));
        let others = [
            Overrides { searched: true, ..Overrides::default() },
            Overrides { clients: Some(9), ..Overrides::default() },
            Overrides { ttl: second, ..Overrides::default() },
            Overrides { hold: second, ..Overrides::default() },
            set("lock.pause", "1s"),
        ];
        for other in others {
            assert_eq!(parse(&other).limits(true), wide(), "{other:?}");
        }
        let wider = parse(&set("limits.single.available_within", "9ms"));
        assert_eq!(wider.limits(true), RecipeLimits { available_within: ms(9), ..measured() });
    }

    #[test]
    fn they_name_recipes_and_possible_numbers() {
        let wrong = |limits: &str| {
            let text = format!("{}\n{limits}", catalog::text("in-time").unwrap());
            let parsed = Scenario::parse("in-time", "in-time.toml", &text, &Overrides::default());
            parsed.unwrap_err().to_string()
        };
        assert!(wrong("[limits.solitaire]").contains("solitaire"));
        assert!(wrong("[limits.single]\ncommands_within = -1").contains("-1 commands"));
    }
}
