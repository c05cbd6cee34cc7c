//! The checks, one a file, and what they look at and say.

pub mod apis;
pub mod cycles;
pub mod dependencies;
pub mod diagnostic;
pub mod heads;
pub mod length;
pub mod manifests;
pub mod names;
pub mod pages;
pub mod run;
pub mod tree;
pub mod type_names;
pub mod wiring;
pub mod words;
