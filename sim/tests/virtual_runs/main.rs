//! The catalogue in virtual time: what is claimed is found, and the same seeds give the same bytes.

mod catalogue_page;
mod replays;
mod searched_forms;
mod sound_at_any_size;
mod sound_whatever_is_set;
mod stories_tell_the_cause;
