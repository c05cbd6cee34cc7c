//! Servers that are killed, lose power or are started again, and whose clocks are changed.
//!
//! Invariant: what is reported has happened: a server that is killed has ended before this is reported, and a server
//! that has not loaded its library is never reported to have lost power or to have had its clock changed.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scenarios::topology::Topology;
use tokio::time::{Instant, sleep};

use super::Deployment;
use crate::page::Page;
use crate::server::{CutAt, PrivateServerError};

/// How long servers may take to sync what was written.
const SYNCED_WITHIN: Duration = Duration::from_secs(20);
/// How far a clock is stepped to find out whether the server uses its page.
const TRIAL_STEP_NS: i64 = 100_000_000_000;
/// How often to check whether something is on a disk.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// If servers sync once a second, a run begins at most this far into a second.
const EARLY_MS: u64 = 300;

impl Deployment {
    /// This server, or the primary if none is named.
    pub(crate) fn server_or_primary(&self, server: Option<u32>) -> usize {
        server.map_or_else(|| self.state().primary, |server| server as usize)
    }

    /// The node that leads to this server, if any.
    pub(crate) fn node_of(&self, server: usize) -> Option<u16> {
        match self.topology {
            Topology::Replicated { .. } | Topology::Cluster { .. } => {
                (server == self.state().primary).then_some(0)
            }
            Topology::Standalone | Topology::Independent { .. } => u16::try_from(server).ok(),
        }
    }

    /// Which link of every client leads to this server, if one does.
    pub(crate) fn link_of(&self, server: usize) -> Option<usize> {
        if self.has_sentinels() || self.is_cluster() {
            Some(server)
        } else {
            self.node_of(server).map(usize::from)
        }
    }

    /// Whether a server has not ended.
    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.state().down.get(server).is_some_and(|down| !down)
    }

    /// Whether a server has not ended and is not stalled.
    pub(crate) fn serves(&self, server: usize) -> bool {
        self.is_up(server) && !self.state().stalled[server]
    }

    /// Stalls a server until it is [woken](Self::wake).
    pub(crate) async fn stall(&self, server: usize) -> Result<(), PrivateServerError> {
        self.endpoints[server].stall().await?;
        self.state().stalled[server] = true;
        Ok(())
    }

    /// A stalled server goes on.
    pub(crate) async fn wake(&self, server: usize) -> Result<(), PrivateServerError> {
        // It may have been killed meanwhile.
        if std::mem::take(&mut self.state().stalled[server]) && self.is_up(server) {
            self.endpoints[server].wake().await?;
        }
        Ok(())
    }

    /// Kills a server that is up, as a crash of its process does.
    pub(crate) async fn kill(&self, server: usize) -> Result<(), PrivateServerError> {
        // Cut first, so that what is on its way to the replicas is lost with it every time.
        self.cut_replication(server);
        let process = self.endpoints[server].process().await;
        let killed = process.ok_or_else(PrivateServerError::not_ours)?.kill().await;
        self.reset_replication(server);
        killed?;
        let mut state = self.state();
        (state.down[server], state.counts_reset) = (true, true);
        state.stalled[server] = false;
        state.lingering = state.lingering.filter(|old| *old != server);
        Ok(())
    }

    /// A server that has been killed loses what was not on its disk.
    pub(crate) async fn lose_power(
        &self,
        server: usize,
    ) -> Result<Option<CutAt>, PrivateServerError> {
        self.endpoints[server]
            .process()
            .await
            .ok_or_else(PrivateServerError::not_ours)?
            .lose_power()
    }

    /// Whether a server uses its page, so that its clocks and its disk can be made to fail.
    pub(crate) fn is_paged(&self, server: usize) -> bool {
        self.state().paged[server]
    }

    /// Steps the clock of every server, and back: one that does not report the new time does not use its page; its
    /// executable may be linked statically. There is no key yet that could expire.
    pub(super) async fn verify_pages(&self) {
        for server in 0..self.endpoints.len() {
            let page = self.endpoints[server].process().await.is_some_and(|it| it.page.is_some());
            if !page {
                continue;
            }
            // Backwards first: a server that syncs its file while its clock is ahead does not sync again before
            // that time.
            let there = self.endpoints[server].step_wall(-TRIAL_STEP_NS).await == Some(true);
            let back = self.endpoints[server].step_wall(TRIAL_STEP_NS).await == Some(true);
            self.state().paged[server] = there && back;
        }
    }

    /// Starts a server that has ended, with what its file has. Its replication is restored by
    /// [`attach_replicas`](Self::attach_replicas).
    pub(crate) async fn restart(&self, server: usize) -> Result<(), PrivateServerError> {
        if self.is_up(server) {
            return Ok(());
        }
        self.endpoints[server]
            .process()
            .await
            .ok_or_else(PrivateServerError::not_ours)?
            .restart()
            .await?;
        // The control connection is broken, but that shows only when it is used.
        let _ = self.command(server, &["PING"]).await;
        self.state().down[server] = false;
        Ok(())
    }

    /// Steps a server's wall clock; false if that is impossible.
    pub(crate) async fn step_clock(&self, server: usize, by_ns: i64) -> bool {
        // A server that uses its page sees this step, too, even if its answer does not come.
        self.is_paged(server) && self.endpoints[server].step_wall(by_ns).await.is_some()
    }

    /// From now on a server's clocks drift; false if that is impossible.
    pub(crate) async fn set_drift(&self, server: usize, ppm: i32) -> bool {
        let process = self.endpoints[server].process().await;
        let set = |page: &mut Page| page.set_drift(ppm).is_ok();
        self.is_paged(server) && process.is_some_and(|mut it| it.page.as_mut().is_some_and(set))
    }

    /// Waits until what has been written so far is on the disks and a second has just begun. A server that syncs once
    /// a second does so with the first write of a second, so what is written from now on is not synced before the
    /// next one. False if the disks are too slow for that.
    pub(crate) async fn wait_for_second(&self) -> bool {
        let end = Instant::now() + SYNCED_WITHIN;
        for server in 0..self.endpoints.len() {
            if let Some(process) = self.endpoints[server].process().await {
                // Its file may have the inode of a file that is gone.
                let _ = process.page.as_ref().map(|page| page.forget_synced());
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

    /// Writes to every server; true if that is on all disks early enough in this second.
    async fn write_and_sync(&self) -> bool {
        for server in 0..self.endpoints.len() {
            // A replica refuses, and gets its writes from the primary.
            let _ = self.write_probe(server).await;
        }
        while into_second_ms() < EARLY_MS {
            let mut all = true;
            for endpoint in &self.endpoints {
                all &= endpoint.process().await.is_none_or(|process| process.is_synced());
            }
            if all {
                return true;
            }
            sleep(LOOK_EVERY).await;
        }
        false
    }
}

/// How much of this second has passed.
fn into_second_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since.subsec_millis())
}
