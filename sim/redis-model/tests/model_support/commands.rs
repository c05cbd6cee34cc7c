//! Random commands: few keys, so that they meet; odd arguments, so that errors are met too.

use proptest::prelude::*;

use super::templates::*;

/// How many clients send.
pub(crate) const CLIENTS: usize = 3;

/// One command as drawn: a template, and which word of each list stands in it.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    pub(crate) who: usize,
    template: &'static str,
    place: Place,
    choices: [u16; 8],
    form: u8,
}

/// Sequences of draws. A draw that is none has been left out to make a failing sequence shorter.
pub(crate) fn sequences(
    templates: &'static [(&'static str, Place)],
) -> impl Strategy<Value = Vec<Option<Draw>>> {
    let choices = prop::array::uniform8(any::<u16>());
    let draw = (0..CLIENTS, 0..templates.len(), choices, 0..24_u8)
        .prop_map(|(who, template, choices, form)| {
            let (template, place) = templates[template];
            Draw { who, template, place, choices, form }
        })
        // What matters of a failing sequence is which commands can be left out, not which they are.
        .no_shrink();
    prop::collection::vec(prop::option::weighted(0.9999, draw), 22..=30)
}

impl Draw {
    /// The words, or nothing where they may not stand here. Most transactions are ended before long.
    pub(crate) fn command(&self, in_multi: bool) -> Option<Vec<Vec<u8>>> {
        let (template, place) = (self.template, self.place);
        if in_multi && self.choices[7].is_multiple_of(4) {
            let discards = self.choices[7].is_multiple_of(32);
            return Some(vec![if discards { b"DISCARD".to_vec() } else { b"EXEC".to_vec() }]);
        }
        if in_multi && place == Place::Alone {
            return None;
        }
        let mut choices = self.choices.iter().copied().cycle();
        let mut command = Vec::new();
        fill(template, &mut choices, &mut command);
        // Now and then an argument too few or too many.
        match self.form {
            // Without names or a count, it is up to Redis which come first.
            22 if template.starts_with("UNSUBSCRIBE") || template == "SPOP K 1000" => {}
            22 if command.len() > 1 => drop(command.pop()),
            // The set that SPOP takes from has one member at most.
            21..=23 if template != "SADD one a" => command.push(b"x".to_vec()),
            _ => {}
        }
        Some(command)
    }
}

fn fill(template: &str, choices: &mut impl Iterator<Item = u16>, command: &mut Vec<Vec<u8>>) {
    for word in template.split(' ') {
        let list: &[&str] = match word {
            "K" => KEYS,
            "V" => VALUES,
            "I" => INTEGERS,
            "S" => SPANS,
            "M" => MS_SPANS,
            "P" => POINTS,
            "Q" => MS_POINTS,
            "F" => FIELDS,
            "C" => CONDITIONS,
            "U" => SPAN_CONDITIONS,
            "G" => GLOBS,
            "D" => DATABASES,
            "L" => SCRIPTS,
            "J" => super::conditional::SCRIPTS,
            "j" => super::conditional::OPTIONS,
            // Few of them, so that some have been loaded before.
            "A" | "H" => &SCRIPTS[..3],
            "N" => SMALL,
            "E" => ENDS,
            "R" => SCORES,
            "B" => BOUNDS,
            "W" => TIMEOUTS,
            "X" => BYTE_BOUNDS,
            "T" => CHANNELS,
            "O" => OPTIONS,
            "Z" => ZADD_OPTIONS,
            "Y" => ZRANGE_OPTIONS,
            literal => {
                command.push(literal.into());
                continue;
            }
        };
        let choice = usize::from(choices.next().unwrap_or_default());
        let chosen = list[choice % list.len()];
        match word {
            "H" => command.push(sha1_smol::Sha1::from(chosen).digest().to_string().into()),
            "O" | "Y" | "j" => fill(chosen, choices, command),
            _ => command.push(chosen.into()),
        }
    }
}
