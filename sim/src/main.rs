//! The binary: the command line, or the supervisor process of servers.

mod args;
mod attack;
mod budget;
mod check;
mod confirm;
mod dispatch;
mod doctor;
mod example;
mod exit;
mod explore;
mod failure;
mod input;
mod line;
mod list;
mod load;
mod man;
mod matrix;
mod merge;
mod output;
mod print;
mod progress;
mod proxy;
mod proxy_control;
mod regressions;
mod run;
mod saved;
mod serve;
mod shard;
mod show;
mod shrink;
mod signal;
mod soak;
mod terminal;
mod tune;
mod variables;
mod world;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    live_world::supervisor::main(std::env::args_os().skip(1))
        .unwrap_or_else(|| dispatch::main().into())
}

/// Ends the process at once: for a thread that watches another one which nothing else can end.
fn end_at_once(exit: exit::Exit) -> ! {
    std::process::exit(exit as i32)
}
