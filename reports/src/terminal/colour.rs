//! Colour, and breaking lines.
//!
//! Invariant: a text that is put into the output is made harmless first, by `format::plain`.

use history::verdict::Outcome;

use super::Style;

/// A way to set text off.
#[derive(Clone, Copy, Debug)]
pub(super) enum Emphasis {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Emphasis {
    /// The one for a verdict.
    pub(super) fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Held => Self::Green,
            Outcome::Violated => Self::Red,
            Outcome::Inconclusive => Self::Yellow,
            Outcome::NotApplicable => Self::Dim,
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "1;31",
            Self::Green => "32",
            Self::Yellow => "33",
        }
    }
}

impl Style {
    /// The text in this ink, where colour may be used.
    pub(super) fn ink(self, ink: Emphasis, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code())
        } else {
            text.to_owned()
        }
    }

    /// The word for a verdict, filled up with blanks to this width.
    pub(super) fn verdict(self, outcome: Outcome, width: usize) -> String {
        let name = outcome.name();
        let blanks = " ".repeat(width.saturating_sub(name.len()));
        format!("{}{blanks}", self.ink(Emphasis::of(outcome), name))
    }

    /// The columns left beside an indent; without end where the width is not known.
    pub(super) fn room(self, indent: usize) -> usize {
        self.width.map_or(usize::MAX, |width| width.saturating_sub(indent))
    }

    /// The text in lines that fit beside this indent, the second and later ones indented.
    pub(crate) fn wrap(self, text: &str, indent: usize) -> String {
        // Narrower than this, words no longer form lines worth reading.
        let room = self.room(indent).max(20);
        let mut lines = Vec::new();
        let mut line = String::new();
        for word in text.split_whitespace() {
            let longer = line.chars().count() + 1 + word.chars().count();
            if !line.is_empty() && longer > room {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
        lines.join(&format!("\n{}", " ".repeat(indent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_where_the_width_says() {
        let style = Style { width: Some(26), ..Style::default() };
        let text = "a line that is broken between its words";
        assert_eq!(style.wrap(text, 4), "a line that is broken\n    between its words");
        assert_eq!(Style::default().wrap(text, 4), text);
        assert_eq!(style.wrap("", 4), "");
    }

    #[test]
    fn colour_is_only_where_it_may_be() {
        let style = Style { colour: true, ..Style::default() };
        assert_eq!(style.verdict(Outcome::Held, 6), "\u{1b}[32mheld\u{1b}[0m  ");
        assert_eq!(Style::default().verdict(Outcome::NotApplicable, 5), "n/a  ");
    }
}
