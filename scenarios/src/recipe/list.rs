//! All recipes, by name.
//!
//! Invariant: this list and a recipe's own file are the only code that names it.

use picklock::env::Env;

use super::article;
use super::client_token::{self, ClientToken};
use super::del_release::{self, DelRelease};
use super::evalsha_only::{self, EvalshaOnly};
use super::exists_then_set::{self, ExistsThenSet};
use super::fixed_value::{self, FixedValue};
use super::get_del_release::{self, GetDelRelease};
use super::get_set_watchdog::{self, GetSetWatchdog};
use super::getset_timestamp::{self, GetsetTimestamp};
use super::no_ttl::{self, NoTtl};
use super::polling::{self, Polling};
use super::setnx_expire::{self, SetnxExpire};
use super::watch_multi::{self, WatchMulti};
use super::{About, BuildError, Params, Recipe};
use super::{
    fenced, native_cas, none, notify, notify_no_recheck, queue, redlock, single, single_wait,
    single_watchdog,
};
use crate::nearest::nearest;

/// What there is to say of every recipe, in the order in which they are shown.
pub static ALL: [&About; 22] = [
    &none::ABOUT,
    &client_token::ABOUT,
    &del_release::ABOUT,
    &evalsha_only::ABOUT,
    &exists_then_set::ABOUT,
    &fixed_value::ABOUT,
    &get_del_release::ABOUT,
    &get_set_watchdog::ABOUT,
    &getset_timestamp::ABOUT,
    &no_ttl::ABOUT,
    &notify_no_recheck::ABOUT,
    &polling::ABOUT,
    &setnx_expire::ABOUT,
    &watch_multi::ABOUT,
    &single::ABOUT,
    &single_watchdog::ABOUT,
    &native_cas::ABOUT,
    &notify::ABOUT,
    &queue::ABOUT,
    &fenced::ABOUT,
    &single_wait::ABOUT,
    &redlock::ABOUT,
];

/// What there is to say of the recipe of this name.
///
/// # Errors
/// [`BuildError::Unknown`] with the nearest name.
pub fn about(name: &str) -> Result<&'static About, BuildError> {
    ALL.into_iter().find(|about| about.name == name).ok_or_else(|| BuildError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, ALL.map(|about| about.name)),
    })
}

/// The recipe of this name.
///
/// # Errors
/// [`BuildError`] where there is none, or where it cannot work with these parameters.
pub fn build<E: Env>(name: &str, params: Params) -> Result<Box<dyn Recipe<E>>, BuildError> {
    let name = about(name)?.name;
    Ok(match () {
        () if name == none::ABOUT.name => Box::new(none::recipe()),
        () if name == client_token::ABOUT.name => Box::new(article::recipe::<ClientToken>(params)),
        () if name == del_release::ABOUT.name => Box::new(article::recipe::<DelRelease>(params)),
        () if name == evalsha_only::ABOUT.name => Box::new(article::recipe::<EvalshaOnly>(params)),
        () if name == exists_then_set::ABOUT.name => {
            Box::new(article::recipe::<ExistsThenSet>(params))
        }
        () if name == fixed_value::ABOUT.name => Box::new(article::recipe::<FixedValue>(params)),
        () if name == get_del_release::ABOUT.name => {
            Box::new(article::recipe::<GetDelRelease>(params))
        }
        () if name == get_set_watchdog::ABOUT.name => {
            Box::new(article::recipe::<GetSetWatchdog>(params))
        }
        () if name == getset_timestamp::ABOUT.name => {
            Box::new(article::recipe::<GetsetTimestamp>(params))
        }
        () if name == no_ttl::ABOUT.name => Box::new(article::recipe::<NoTtl>(params)),
        () if name == notify_no_recheck::ABOUT.name => Box::new(notify_no_recheck::recipe(params)),
        () if name == polling::ABOUT.name => Box::new(article::recipe::<Polling>(params)),
        () if name == setnx_expire::ABOUT.name => Box::new(article::recipe::<SetnxExpire>(params)),
        () if name == watch_multi::ABOUT.name => Box::new(article::recipe::<WatchMulti>(params)),
        () if name == single::ABOUT.name => Box::new(single::recipe(params)?),
        () if name == single_watchdog::ABOUT.name => Box::new(single_watchdog::recipe(params)?),
        () if name == native_cas::ABOUT.name => Box::new(native_cas::recipe(params)?),
        () if name == notify::ABOUT.name => Box::new(notify::recipe(params)?),
        () if name == queue::ABOUT.name => Box::new(queue::recipe(params)?),
        () if name == fenced::ABOUT.name => Box::new(fenced::recipe(params)?),
        () if name == single_wait::ABOUT.name => Box::new(single_wait::recipe(params)?),
        () if name == redlock::ABOUT.name => Box::new(redlock::recipe(params)?),
        () => unreachable!("every recipe of the list can be built: {name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_met_with_the_nearest() {
        let error = about("singel").unwrap_err();
        assert_eq!(
            error,
            BuildError::Unknown { name: "singel".to_owned(), nearest: Some("single") }
        );
        assert!(matches!(about("zookeeper"), Err(BuildError::Unknown { nearest: None, .. })));
    }
}
