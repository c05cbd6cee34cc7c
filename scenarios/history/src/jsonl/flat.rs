//! A line of a history as JSON: one flat object, strictly.
//!
//! Invariant: it takes what `serde_json` takes for the same fields, in any order and with any blanks and
//! escapes, and refuses what that refuses; a test compares the two. It exists because it is several
//! times as fast, and because it says what is wrong in the terms of a history. Besides, `null` is
//! refused: a field that has nothing to say is left out. Fields in the order in which picklock writes
//! them are guessed right and so read faster, and that is all the order does.

pub(super) mod cursor;

use super::EventFields;
use super::field::{Field, FieldSet};
use crate::flaw::{Flaw, Quoted};
use crate::nearest::nearest;
use cursor::Cursor;

/// Reads a line into an empty one, and says which fields it has.
pub(super) fn parse<'a>(text: &'a str, line: &mut EventFields<'a>) -> Result<FieldSet, Flaw> {
    let mut cursor = Cursor::new(text);
    let mut seen = FieldSet::default();
    if cursor.next().is_none() {
        return Err(Flaw::Blank);
    }
    cursor.expect(b'{', "`{`")?;
    let mut goes_on = cursor.next() != Some(b'}');
    let mut guess = 0;
    while goes_on {
        let field = cursor.name(guess)?;
        cursor.value(field, line)?;
        if seen.has(field) {
            return Err(Flaw::DuplicateField(field.name()));
        }
        seen.add(field);
        guess = field as usize + 1;
        goes_on = cursor.comma();
    }
    cursor.expect(b'}', "`,` or `}`")?;
    if cursor.next().is_some() {
        return Err(cursor.no_json("the end of the line"));
    }
    match Field::ALWAYS.into_iter().find(|field| !seen.has(*field)) {
        Some(field) => Err(Flaw::MissingField(field.name())),
        None => Ok(seen),
    }
}

impl<'a> Cursor<'a> {
    /// A field's name and what follows up to its value. The guess is a place among all fields.
    fn name(&mut self, guess: usize) -> Result<Field, Flaw> {
        self.next();
        if let Some(field) = Field::ALL.get(guess) {
            let begin = field.begins(&self.text.as_bytes()[self.at..]);
            if begin > 0 {
                self.at += begin;
                self.next();
                return Ok(*field);
            }
        }
        self.expect(b'"', "a field's name in quotes")?;
        let name = self.string()?;
        self.expect(b':', "`:`")?;
        self.next();
        Field::from_name(name.as_bytes()).ok_or_else(|| {
            let nearest = nearest(&name, Field::ALL.map(Field::name));
            Flaw::UnknownField { field: Quoted::new(&name), nearest }
        })
    }

    fn value(&mut self, field: Field, line: &mut EventFields<'a>) -> Result<(), Flaw> {
        match field {
            Field::AtNs => line.at_ns = self.number(field)?,
            Field::Client => line.client = self.number(field)?,
            Field::Acquisition => line.acquisition = self.number(field)?,
            Field::Op => line.op = self.number(field)?,
            Field::Stage => line.stage = self.text(field)?,
            Field::What => line.what = self.text(field)?,
            Field::Node => line.node = Some(self.number(field)?),
            Field::Command => line.command = Some(self.text(field)?),
            Field::Key => line.key = Some(self.text(field)?),
            Field::Touch => line.touch = Some(self.text(field)?),
            Field::TtlNs => line.ttl_ns = Some(self.number(field)?),
            Field::Compares => line.compares = self.truth(field)?,
            Field::Answer => line.answer = Some(self.text(field)?),
            Field::Text => line.text = Some(self.text(field)?),
            Field::Value => line.value = Some(self.number(field)?),
            Field::Left => line.left = Some(self.number(field)?),
            Field::Written => line.written = Some(self.number(field)?),
            Field::Token => line.token = Some(self.number(field)?),
            Field::UntilNs => line.until_ns = Some(self.number(field)?),
            Field::Phase => line.phase = Some(self.text(field)?),
            Field::Fault => line.fault = Some(self.text(field)?),
            Field::ForNs => line.for_ns = Some(self.number(field)?),
            Field::InHold => line.in_hold = Some(self.truth(field)?),
            Field::Staged => line.staged = Some(self.number(field)?),
            Field::Found => line.found = self.number(field)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
