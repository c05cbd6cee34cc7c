//! A drawing on a page: for each width one, which can be enlarged.
//!
//! Invariant: enlarging takes no script, so it works where pages may run none: a choice of three, which the style sheet acts on.

use maud::{Markup, PreEscaped, html};

use crate::chart::{self, ChartError, Drawing};

/// A drawing of a page, for each width that it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// For a screen.
    wide: String,
    /// For a telephone; where there is none, the other one, which is then scrolled.
    narrow: Option<String>,
}

impl Picture {
    /// What is drawn, for a screen and for a telephone.
    ///
    /// # Errors
    /// Where a drawing fails, which would be a defect.
    pub fn new(wide: &dyn Drawing, narrow: &dyn Drawing) -> Result<Self, ChartError> {
        Ok(Self { wide: chart::svg(wide)?, narrow: Some(chart::svg(narrow)?) })
    }

    /// What is drawn for a screen alone.
    ///
    /// # Errors
    /// Where the drawing fails, which would be a defect.
    pub fn wide(drawing: &dyn Drawing) -> Result<Self, ChartError> {
        Ok(Self { wide: chart::svg(drawing)?, narrow: None })
    }

    /// The same for a page with so many pictures that one of each has to do.
    #[must_use]
    pub fn single(self) -> Self {
        Self { narrow: None, ..self }
    }

    /// As an SVG document, for a screen.
    pub fn svg(&self) -> &str {
        &self.wide
    }

    /// The figure. `name` tells it from the others of its page, and is a word of letters, digits and dashes.
    pub(crate) fn figure(&self, name: &str) -> Markup {
        html! {
            @if let Some(narrow) = &self.narrow {
                (figure("wide", name, &self.wide))
                (figure("narrow", name, narrow))
            } @else {
                (figure("only", name, &self.wide))
            }
        }
    }
}

fn figure(width: &str, name: &str, drawing: &str) -> Markup {
    let group = format!("zoom-{name}-{width}");
    html! {
        figure class=(width) {
            @for times in ["1", "2", "4"] {
                @let id = format!("{group}-{times}");
                input class=(format!("zoom-{times}")) type="radio" name=(group) id=(id) checked[times == "1"] autocomplete="off";
                label for=(id) { (times) "×" }
            }
            div.view tabindex="0" role="region" aria-label="Drawing" { (PreEscaped(drawing)) }
        }
    }
}
