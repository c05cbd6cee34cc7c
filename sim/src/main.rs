//! The binary: one line for the hidden supervisor, the rest is the command line's.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|arg| arg == sim::live::supervisor::COMMAND) {
        return sim::live::supervisor::main();
    }
    ExitCode::SUCCESS
}
