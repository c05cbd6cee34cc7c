//! All recipes, by name.
//!
//! Invariant: this list and a recipe's own file are the only code that names it.

use picklock::env::Env;

use super::{About, BuildError, Params, Recipe};
use super::{fenced, none, notify, polling, queue, redlock, single, single_wait, single_watchdog};
use crate::nearest::nearest;

/// What there is to say of every recipe, in the order in which they are shown.
pub static ALL: [&About; 9] = [
    &none::ABOUT,
    &polling::ABOUT,
    &single::ABOUT,
    &single_watchdog::ABOUT,
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
        () if name == polling::ABOUT.name => Box::new(polling::recipe(params)),
        () if name == single::ABOUT.name => Box::new(single::recipe(params)?),
        () if name == single_watchdog::ABOUT.name => Box::new(single_watchdog::recipe(params)?),
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
