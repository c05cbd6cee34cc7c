//! Which part of a batch one machine does.
//!
//! Invariant: every item belongs to exactly one of the parts, whatever machine asks.

use std::fmt;
use std::hash::{DefaultHasher, Hasher as _};
use std::str::FromStr;

/// One part of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// How items are dealt out.
    pub scheme: Scheme,
    /// Which part, from 1.
    pub nth: u64,
    /// How many there are.
    pub of: u64,
}

/// How items are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// In turn, by their place: every item `of` places on.
    Slice,
    /// By a hash of their name: an item keeps its part when others are added or left out.
    Hash,
}

/// What a partition looks like.
const SHAPE: &str = "use slice:M/N or hash:M/N, such as slice:3/8: the third of eight parts";

impl Partition {
    /// All there is, in one part.
    pub const WHOLE: Self = Self { scheme: Scheme::Slice, nth: 1, of: 1 };

    /// Whether the item at this place, counted from 0, and of this name is in the part.
    pub fn takes(&self, place: u64, name: &[u8]) -> bool {
        let number = match self.scheme {
            Scheme::Slice => place,
            Scheme::Hash => {
                // The same on every machine, if not in every build.
                let mut hasher = DefaultHasher::new();
                hasher.write(name);
                hasher.finish()
            }
        };
        number % self.of == self.nth - 1
    }
}

impl FromStr for Partition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, part) = text.split_once(':').ok_or(SHAPE)?;
        let scheme = match scheme {
            "slice" => Scheme::Slice,
            "hash" => Scheme::Hash,
            _ => return Err(SHAPE.to_owned()),
        };
        let (nth, of) = part.split_once('/').ok_or(SHAPE)?;
        let (nth, of) = (nth.parse().map_err(|_| SHAPE)?, of.parse().map_err(|_| SHAPE)?);
        match nth {
            _ if of == 0 => Err("there is at least one part, as in slice:1/1".to_owned()),
            0 => Err(format!("parts are counted from 1: the first is 1/{of}")),
            _ if nth > of => Err(format!("there is no part {nth} of {of}")),
            _ => Ok(Self { scheme, nth, of }),
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Slice => "slice",
            Scheme::Hash => "hash",
        };
        write!(f, "{scheme}:{}/{}", self.nth, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_exactly_one_part() {
        for scheme in ["slice", "hash"] {
            for of in [1, 2, 7, 64] {
                let parts: Vec<Partition> =
                    (1..=of).map(|nth| format!("{scheme}:{nth}/{of}").parse().unwrap()).collect();
                let mut taken = vec![0; parts.len()];
                for place in 0..500_u64 {
                    let name = place.to_string();
                    let takes = |part: &Partition| part.takes(place, name.as_bytes());
                    let all: Vec<usize> =
                        (0..parts.len()).filter(|nth| takes(&parts[*nth])).collect();
                    assert_eq!(all.len(), 1, "{scheme} {of}: {place} is in {all:?}");
                    taken[all[0]] += 1;
                }
                assert!(taken.iter().all(|it| *it > 0), "{scheme} {of}: a part has nothing");
            }
        }
    }

    #[test]
    fn an_item_keeps_its_part_by_its_name_alone() {
        let part: Partition = "hash:3/7".parse().unwrap();
        assert_eq!(part.takes(0, b"gc-pause single"), part.takes(99, b"gc-pause single"));
    }

    #[test]
    fn partitions_are_read_as_they_are_written_and_others_refused() {
        for text in ["slice:1/1", "slice:8/8", "hash:3/64"] {
            assert_eq!(text.parse::<Partition>().unwrap().to_string(), text);
        }
        for (text, says) in [
            ("slice:0/8", "counted from 1"),
            ("slice:9/8", "no part 9 of 8"),
            ("hash:1/0", "at least one"),
            ("3/8", "slice:M/N"),
            ("count:3/8", "slice:M/N"),
            ("slice:3", "slice:M/N"),
            ("slice:x/8", "slice:M/N"),
            ("slice:-1/8", "slice:M/N"),
        ] {
            let error = text.parse::<Partition>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
