//! The scenarios that come with picklock.
//!
//! Invariant: every file of `catalog/` is listed, by name: `build.rs` writes the list.

use std::collections::BTreeSet;

use history::nearest::nearest;

use crate::scenario::{Overrides, Scenario, ScenarioError};

include!(concat!(env!("OUT_DIR"), "/catalog.rs"));

/// The articles that sources call 1 to 4: titles, and what they say of where they come from.
const ARTICLES: [&str; 4] = [
    "基于redis单实例实现的分布式锁 (Chinese)",
    "基于单Redis节点的分布式锁 (Chinese, 2019-01-28), after http://zhangtielei.com/posts/blog-redlock-reasoning.html",
    "단일 인스턴스로 구성된 레디스에서의 분산 락 구현 (Korean), by 윤종원",
    "Introduction to the correct implementation of Redis distributed lock (php.cn, 2019-12-11, from cnblogs.com)",
];

/// The numbers of the articles that a source names, as in `article 3` and `articles 1, 2 and 3`, and their titles.
pub fn articles(source: &str) -> Vec<(usize, &'static str)> {
    let (mut numbers, mut is_list) = (BTreeSet::new(), false);
    for word in source.split_whitespace() {
        let bare = word.trim_end_matches([',', ':']);
        is_list = match bare {
            "article" | "articles" => true,
            "and" => is_list,
            _ => bare.parse().is_ok_and(|number: usize| is_list && numbers.insert(number)),
        };
        is_list &= !word.ends_with(':');
    }
    let named = numbers.into_iter();
    named.filter_map(|it| Some((it, *ARTICLES.get(it.checked_sub(1)?)?))).collect()
}

/// Why there is no such scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no scenario is called {name:?}")]
pub struct UnknownScenario {
    /// What was asked for.
    pub name: String,
    /// The name it comes nearest to.
    pub nearest: Option<&'static str>,
}

/// The text of the scenario of this name.
///
/// # Errors
/// [`UnknownScenario`], with the nearest name.
pub fn text(name: &str) -> Result<&'static str, UnknownScenario> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| UnknownScenario {
        name: name.to_owned(),
        nearest: nearest(name, ALL.map(|(known, _)| known)),
    })
}

/// Every scenario as its file has it.
///
/// # Errors
/// None, as long as the catalogue's files are right, which a test sees to.
pub fn all() -> Result<Vec<Scenario>, ScenarioError> {
    let parse =
        |(name, text)| Scenario::parse(name, &format!("{name}.toml"), text, &Overrides::default());
    ALL.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_catalogue_is_listed_and_right() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/catalog");
        let mut files: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut listed: Vec<String> = ALL.iter().map(|(name, _)| format!("{name}.toml")).collect();
        listed.sort();
        assert_eq!(files, listed);
        for scenario in all().unwrap() {
            for expectation in &scenario.expect {
                for lock in expectation.locks.iter().filter(|lock| *lock != "*") {
                    crate::recipe::about(lock).unwrap();
                }
            }
            assert!(
                scenario.unsearched.is_some() || scenario.unsearchable().is_none(),
                "{}: add a [search], or say in `unsearched` why there is none",
                scenario.name
            );
        }
    }

    #[test]
    fn a_source_names_articles_by_their_numbers() {
        let numbers = |source| articles(source).into_iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(numbers("article 1: the prize pool, 100 threads and 10 prizes"), [1]);
        assert_eq!(numbers("articles 1, 2 and 3: failover"), [1, 2, 3]);
        assert_eq!(numbers("beyond the articles: article 3 ends at the notice"), [3]);
        assert_eq!(numbers("a lost reply, which articles 1 and 3 pass over"), [1, 3]);
        assert_eq!(numbers("beside the articles: 2 clocks, as in article 9"), [0; 0]);
    }

    #[test]
    fn an_unknown_name_is_met_with_the_nearest() {
        assert_eq!(text("bonus-pol").unwrap_err().nearest, Some("bonus-pool"));
        assert_eq!(text("solitaire").unwrap_err().nearest, None);
    }
}
