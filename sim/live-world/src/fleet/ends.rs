//! Servers that end, lose their power, come back, take each other's place, and whose clocks go wrong.
//!
//! Invariant: what is said to have happened has happened: a server that is killed has ended before anybody is told,
//! and one whose library was not loaded has neither lost its power nor its time. Deliberately absent: an election;
//! which replica takes over is named, or the one that has heard most.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use picklock::reply::Reply;
use scenarios::topology::Topology;
use tokio::time::{Instant, sleep};

use super::Fleet;
use crate::server::page::Page;
use crate::server::{CutAt, ServerError};

/// So long servers may take to have on their disks what they were told.
const SYNCED_WITHIN: Duration = Duration::from_secs(20);

/// How far a clock jumps to show that it does.
const TRIED_NS: i64 = 100_000_000_000;
/// How long a server may take to tell of it.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);
/// How often is looked whether something is on a disk.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How early in a second a run begins whose servers sync once in each.
const EARLY_MS: u64 = 300;

impl Fleet {
    /// The server that is meant: this one, or the primary.
    pub(crate) fn meant(&self, server: Option<u32>) -> usize {
        server.map_or_else(|| self.state().primary, |server| server as usize)
    }

    /// The node whose clients lose something with this server.
    pub(crate) fn node_of(&self, server: usize) -> Option<u16> {
        match self.topology {
            Topology::Replicated { .. } | Topology::Cluster { .. } => {
                (server == self.state().primary).then_some(0)
            }
            Topology::Standalone | Topology::Independent { .. } => u16::try_from(server).ok(),
        }
    }

    /// The way of every client that leads to this server, if one does.
    pub(crate) fn way_of(&self, server: usize) -> Option<usize> {
        if self.is_watched() || self.is_cluster() {
            Some(server)
        } else {
            self.node_of(server).map(usize::from)
        }
    }

    /// Whether a server has not ended.
    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.state().down.get(server).is_some_and(|down| !down)
    }

    /// Kills a server that is up, as a crash of its process does.
    ///
    /// # Errors
    /// [`ServerError`] where it is not ours to be killed, or its supervisor is gone.
    pub(crate) async fn kill(&self, server: usize) -> Result<(), ServerError> {
        // What is under way between it and its replicas is lost with it, every time.
        self.hold_feeds(server);
        let process = self.targets[server].process().await;
        let killed = process.ok_or_else(not_ours)?.kill().await;
        self.sever(server);
        killed?;
        let mut state = self.state();
        (state.down[server], state.recounted) = (true, true);
        Ok(())
    }

    /// What a server that has been killed had not on its disk is lost.
    ///
    /// # Errors
    /// [`ServerError`] where nobody knows what that is.
    pub(crate) async fn lose_power(&self, server: usize) -> Result<Option<CutAt>, ServerError> {
        self.targets[server].process().await.ok_or_else(not_ours)?.lose_power()
    }

    /// Whether what a server has on its disk, and what it takes for the time, is in our hands.
    pub(crate) fn is_paged(&self, server: usize) -> bool {
        self.state().paged[server]
    }

    /// Has the clock of every server jump, and back: one that does not tell another time (its executable may be a
    /// static one) takes no notice of its page. There is nothing in it yet that could expire.
    pub(super) async fn try_pages(&self) {
        for server in 0..self.targets.len() {
            let page =
                self.targets[server].process().await.is_some_and(|mut it| it.page().is_some());
            if !page {
                continue;
            }
            // Back first: a server that syncs its file while its clock is ahead would not do so again until the
            // time has come that it has noted.
            let there = self.jump(server, -TRIED_NS).await == Some(true);
            let back = self.jump(server, TRIED_NS).await == Some(true);
            self.state().paged[server] = there && back;
        }
    }

    /// Has the wall clock of a server jump, and waits until the server tells of it: whether it has, before long;
    /// none where nobody can make it jump. Some look at the machine's clock ten times a second, and count on from
    /// there by themselves: Valkey 9.1 does.
    async fn jump(&self, server: usize, by_ns: i64) -> Option<bool> {
        let before_us = self.time_us(server).await;
        let begun = Instant::now();
        if !self.step_wall(server, by_ns).await {
            return None;
        }
        let Some(before_us) = before_us else { return Some(false) };
        let by_us = by_ns / 1_000;
        while begun.elapsed() < SHOWN_WITHIN {
            let Some(now_us) = self.time_us(server).await else { return Some(false) };
            let passed_us = i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX);
            // Nearer to where the jump leads than to where it begins.
            if (now_us - before_us - passed_us - by_us).abs() < by_us.abs() / 2 {
                return Some(true);
            }
            sleep(LOOK_EVERY).await;
        }
        Some(false)
    }

    /// What a server takes for the time, in microseconds.
    async fn time_us(&self, server: usize) -> Option<i64> {
        let Ok(Reply::Array(time)) = self.command(server, &["TIME"]).await else { return None };
        let number = |part: &Reply| std::str::from_utf8(part.as_bytes()?).ok()?.parse::<i64>().ok();
        let [seconds, rest_us] = &time[..] else { return None };
        Some(number(seconds)? * 1_000_000 + number(rest_us)?)
    }

    async fn step_wall(&self, server: usize, by_ns: i64) -> bool {
        let process = self.targets[server].process().await;
        process.is_some_and(|mut it| it.page().is_some_and(|page| page.step_wall(by_ns).is_ok()))
    }

    /// Starts a server that has ended, with what its file has. Who follows whom is for
    /// [`gather`](Self::gather) to say.
    ///
    /// # Errors
    /// [`ServerError`], with the end of its log where it has one.
    pub(crate) async fn restart(&self, server: usize) -> Result<(), ServerError> {
        if self.is_up(server) {
            return Ok(());
        }
        self.targets[server].process().await.ok_or_else(not_ours)?.restart().await?;
        // The connection from before is broken, which the first to use it finds out.
        let _ = self.command(server, &["PING"]).await;
        self.state().down[server] = false;
        Ok(())
    }

    /// A server's wall clock jumps; whether it does.
    pub(crate) async fn step_clock(&self, server: usize, by_ns: i64) -> bool {
        // One that takes notice of its page does so of this jump, too, whoever hears it say so.
        self.is_paged(server) && self.jump(server, by_ns).await.is_some()
    }

    /// A server's clocks run that fast from now on; whether they do.
    pub(crate) async fn set_drift(&self, server: usize, ppm: i32) -> bool {
        let process = self.targets[server].process().await;
        let set = |page: &mut Page| page.set_drift(ppm).is_ok();
        self.is_paged(server) && process.is_some_and(|mut it| it.page().is_some_and(set))
    }

    /// A server forgets its scripts; whether it does.
    pub(crate) async fn flush_scripts(&self, server: usize) -> bool {
        self.is_up(server) && self.command(server, &["SCRIPT", "FLUSH"]).await.is_ok()
    }

    /// Waits until what has been written so far is on the disks, and a second has just begun: a server that syncs
    /// once a second does so with the first write of a second, so what is written from now on is not on its disk
    /// before the next. False where the disks are too slow for it.
    pub(crate) async fn begin_second(&self) -> bool {
        let end = Instant::now() + SYNCED_WITHIN;
        for server in 0..self.targets.len() {
            if let Some(mut process) = self.targets[server].process().await {
                // The number of a file may have been another's, which is gone.
                let _ = process.page().map(|page| page.forget_synced());
            }
        }
        while Instant::now() < end {
            sleep(Duration::from_millis(1_001 - into_second_ms())).await;
            if self.write_and_sync().await && into_second_ms() < EARLY_MS {
                return true;
            }
        }
        false
    }

    /// Has every server write something; whether it is on all disks before long.
    async fn write_and_sync(&self) -> bool {
        for server in 0..self.targets.len() {
            // A replica refuses, and has nothing to write by itself.
            let _ = self.write_probe(server).await;
        }
        while into_second_ms() < EARLY_MS {
            let mut all = true;
            for target in &self.targets {
                all &= target.process().await.is_none_or(|process| process.is_synced());
            }
            if all {
                return true;
            }
            sleep(LOOK_EVERY).await;
        }
        false
    }
}

fn not_ours() -> ServerError {
    ServerError::NotRunning(String::from("it is not one that picklock has started"))
}

/// How much of this second has passed.
fn into_second_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_millis())
}
