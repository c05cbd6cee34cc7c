//! What is known of operations or acquisitions, by their numbers.
//!
//! Invariant: it is a map. Numbers are given one after the other, and most is asked of the latest: these are found by
//! their place. What has been removed is forgotten, so that the memory follows what is kept and not the length of a history.

use std::collections::BTreeMap;

/// So many places there are at most for the latest, each found by its number alone.
const NEAR: u32 = 256;
/// So many are made at first; then all.
const FIRST_PLACES: usize = 32;

/// What is known of each.
#[derive(Clone, Debug)]
pub struct Recent<T> {
    /// The latest, with their numbers, at the places that follow from these. There are none, the first ones, or all.
    near: Vec<Option<(u32, T)>>,
    /// Those whose place was needed for another.
    far: BTreeMap<u32, T>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { near: Vec::new(), far: BTreeMap::new() }
    }
}

impl<T> Recent<T> {
    /// Keeps this of a number, in the place of what was known.
    pub fn insert(&mut self, number: u32, known: T) {
        self.remove_far(number);
        let place = place(number);
        if place >= self.near.len() {
            let places = if place < FIRST_PLACES { FIRST_PLACES } else { NEAR as usize };
            self.near.resize_with(places, || None);
        }
        let before = self.near[place].replace((number, known));
        if let Some((other, known)) = before.filter(|(other, _)| *other != number) {
            self.far.insert(other, known);
        }
    }

    /// Forgets a number; what was known of it, if anything.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        match self.near.get_mut(place(number))?.take_if(|(near, _)| *near == number) {
            Some((_, known)) => Some(known),
            None => self.remove_far(number),
        }
    }

    /// What is known of a number.
    pub fn get(&self, number: u32) -> Option<&T> {
        match self.near.get(place(number))? {
            Some((near, known)) if *near == number => Some(known),
            _ => self.far.get(&number),
        }
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.near.get_mut(place(number))? {
            Some((near, known)) if *near == number => Some(known),
            _ => self.far.get_mut(&number),
        }
    }

    /// Whether anything is known of a number.
    pub fn contains(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// What is known of a number, to be changed; of a new one the default.
    pub fn entry(&mut self, number: u32) -> &mut T
    where
        T: Default,
    {
        if !self.contains(number) {
            self.insert(number, T::default());
        }
        self.get_mut(number).expect("it is there")
    }

    /// All of them, in an order that means nothing, and is the same each time.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let near = self.near.iter().flatten().map(|(number, known)| (*number, known));
        near.chain(self.far.iter().map(|(number, known)| (*number, known)))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let near = self.near.iter_mut().flatten().map(|(number, known)| (*number, known));
        near.chain(self.far.iter_mut().map(|(number, known)| (*number, known)))
    }

    /// Forgets those of which this is false.
    pub fn retain(&mut self, mut keep: impl FnMut(u32, &mut T) -> bool) {
        for place in &mut self.near {
            _ = place.take_if(|(number, known)| !keep(*number, known));
        }
        self.far.retain(|number, known| keep(*number, known));
    }

    /// All of them, in the order of their numbers.
    pub fn into_sorted(self) -> Vec<(u32, T)> {
        let mut rest: Vec<_> = self.near.into_iter().flatten().chain(self.far).collect();
        rest.sort_unstable_by_key(|(number, _)| *number);
        rest
    }

    /// Asked for so often, and so seldom there, that it pays to ask first whether anything is.
    fn remove_far(&mut self, number: u32) -> Option<T> {
        if self.far.is_empty() { None } else { self.far.remove(&number) }
    }
}

/// Where the latest with this number is kept. Where there is no such place, no number with it has ever come.
fn place(number: u32) -> usize {
    (number % NEAR) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_lags_far_behind_is_found_all_the_same() {
        let mut recent = Recent::default();
        (1..50_000).for_each(|number| recent.insert(number, number));
        assert_eq!((recent.remove(1), recent.remove(1)), (Some(1), None));
        (2..40_000).for_each(|number| assert_eq!(recent.remove(number), Some(number)));
        assert_eq!(recent.near.len() + recent.far.len(), 10_000, "the others are forgotten");
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_map(
            steps in prop::collection::vec((0..5_u8, 0..9_u32, 0..3_u32), 0..200),
        ) {
            let (mut recent, mut map) = (Recent::default(), BTreeMap::new());
            for (nth, (step, near, far)) in steps.into_iter().enumerate() {
                let number = near + far * NEAR;
                prop_assert_eq!(recent.get(number), map.get(&number));
                prop_assert_eq!(recent.contains(number), map.contains_key(&number));
                match step {
                    0 | 1 => {
                        recent.insert(number, nth);
                        map.insert(number, nth);
                    }
                    2 => {
                        *recent.entry(number) += 1;
                        *map.entry(number).or_default() += 1;
                    }
                    3 => prop_assert_eq!(recent.remove(number), map.remove(&number)),
                    _ => {
                        recent.retain(|_, known| *known % 3 != 0);
                        map.retain(|_, known| *known % 3 != 0);
                    }
                }
                let all: BTreeMap<u32, usize> = recent.iter().map(|(it, known)| (it, *known)).collect();
                prop_assert_eq!(all, map.clone());
            }
            prop_assert_eq!(recent.into_sorted(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
