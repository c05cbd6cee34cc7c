//! The command line.

pub mod args;
mod check;
mod dispatch;
mod doctor;
mod exit;
mod failure;
mod line;
mod list;
mod load;
mod matrix;
mod output;
mod print;
mod progress;
mod proxy;
mod run;
mod show;
mod signal;
mod terminal;
mod tune;
mod variables;
mod world;

pub use dispatch::main;
pub use exit::Exit;
