//! How many threads a command uses.

use clap::Args;

use super::number::whole;

/// The option `--threads`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Threads {
    /// Threads; default: one per CPU
    #[arg(long, value_name = "N", env = "PICKLOCK_THREADS", allow_negative_numbers = true, value_parser = whole::<u16>(1..=u16::MAX.into()))]
    threads: Option<u16>,
}

impl Threads {
    /// As many as the user asks for, or one per CPU.
    pub(crate) fn count(&self) -> usize {
        self.or_per_cpu(1)
    }

    /// As many as the user asks for, or so many per CPU.
    pub(crate) fn or_per_cpu(&self, each: usize) -> usize {
        self.threads.map_or_else(|| each * cpus(), usize::from)
    }
}

/// How many CPUs picklock may use; 1 if the system does not say.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
