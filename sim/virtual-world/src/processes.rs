//! Processes: the nodes that clients run on. Process 0 is the run itself.
//!
//! Invariant: a process's clocks go on while it is paused, and the numbers it draws follow from the
//! seed, the process and how many it has drawn. Deliberately absent: whether it runs; the executor knows.

use std::ops::{Index, IndexMut};

use harness::clock::Clock;

use super::network::Purpose;
use super::time::EPOCH_NS;

/// A process.
#[derive(Debug)]
pub(super) struct VirtualProcess {
    pub(super) clock: Clock,
    /// The seed of the numbers that it draws, and how many it has drawn.
    seed: u64,
    drawn: u64,
    /// The connection that it uses to each server, by purpose and server.
    conns: [Vec<Option<u32>>; 2],
}

/// All processes.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: Vec<VirtualProcess>,
}

impl Default for VirtualProcess {
    fn default() -> Self {
        Self { clock: Clock::exact(EPOCH_NS), seed: 0, drawn: 0, conns: [Vec::new(), Vec::new()] }
    }
}

impl Index<u32> for Processes {
    type Output = VirtualProcess;

    fn index(&self, process: u32) -> &VirtualProcess {
        &self.all[process as usize]
    }
}

impl IndexMut<u32> for Processes {
    fn index_mut(&mut self, process: u32) -> &mut VirtualProcess {
        &mut self.all[process as usize]
    }
}

impl Processes {
    /// Starts again with this many, keeping the memory.
    pub(super) fn reset(&mut self, seed: u64, count: usize) {
        self.all.resize_with(count, VirtualProcess::default);
        for (process, it) in (0..).zip(&mut self.all) {
            (it.clock, it.drawn) = (Clock::exact(EPOCH_NS), 0);
            it.seed = mix(seed ^ mix(process + 1));
            it.forget_conns();
        }
    }

    /// How many there are, the run itself included.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// The process's next number.
    pub(super) fn random(&mut self, process: u32) -> u64 {
        let it = &mut self.all[process as usize];
        it.drawn += 1;
        mix(it.seed.wrapping_add(it.drawn))
    }
}

impl VirtualProcess {
    /// The connection that it uses to a server.
    pub(super) fn conn(&self, server: u32, purpose: Purpose) -> Option<u32> {
        *self.conns[purpose as usize].get(server as usize)?
    }

    /// It is another process now, which has no connections yet.
    pub(super) fn forget_conns(&mut self) {
        self.conns.iter_mut().for_each(Vec::clear);
    }

    /// Has it use this connection; returns the one it used before.
    pub(super) fn use_conn(&mut self, server: u32, purpose: Purpose, conn: u32) -> Option<u32> {
        let conns = &mut self.conns[purpose as usize];
        if conns.len() <= server as usize {
            conns.resize(server as usize + 1, None);
        }
        conns[server as usize].replace(conn)
    }
}

/// SplitMix64: neighbouring numbers give unrelated ones.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
