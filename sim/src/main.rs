//! The binary: the hidden supervisor, or the command line.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|arg| arg == sim::live::supervisor::COMMAND) {
        return sim::live::supervisor::main();
    }
    sim::cli::main().into()
}
