//! Just enough of Rust's grammar to tell code from comments, literals and tests.

mod imports;
mod items;
mod mask;
mod source;

pub use imports::{Import, imports};
pub use items::{close, item_end, skip_attribute, skip_space, word_at};
pub use mask::{Literal, Masked, mask};
pub use source::{RustSource, line_of, words};
