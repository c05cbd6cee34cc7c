//! What every page stands in: its head with the style, and nothing that is fetched.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::style::SHEET;

/// The page with this title and this body.
pub fn document(title: &str, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(SHEET)) }
            }
            body { (body) }
        }
    };
    markup.into_string()
}
