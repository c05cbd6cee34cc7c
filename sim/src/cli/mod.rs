//! The command line.

pub mod args;
mod doctor;
mod exit;
mod failure;
mod list;
mod load;
mod main;
mod progress;
mod run;
mod show;
mod signal;
mod terminal;
mod world;

pub use exit::Exit;
pub use main::main;
