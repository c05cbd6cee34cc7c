//! The binary: a process that looks after servers, or the command line.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sim::live::supervisor::main(std::env::args_os().skip(1))
        .unwrap_or_else(|| sim::cli::main().into())
}
