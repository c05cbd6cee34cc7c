//! Which part of a command goes into the stream.
//!
//! Invariant: a command that changed nothing is not propagated. One that changed something is propagated
//! unchanged, unless its handler has said otherwise. So carrying the stream out later or elsewhere gives the
//! same keys.

use resp::{Reply, integer};
use smallvec::{SmallVec, smallvec};

use super::notify;
use super::table::Handler;
use super::{Request, Server};
use crate::stats::ErrorCount;

impl Server {
    /// Carries out a command on the state, counts it and propagates it.
    pub(crate) fn run_handler(
        &mut self,
        command: u16,
        handler: Handler,
        request: &Request<'_>,
    ) -> Reply {
        let dirty = self.dirty;
        self.rewritten = false;
        let spec = self.table.spec(command);
        if self.notify_classes != 0 {
            self.event = notify::named(spec.name);
        }
        let reply: Reply = handler(self, request).into();
        // A command that waits is counted when it begins to.
        self.stats.called(command, ErrorCount::from(&reply));
        if self.journal.on && self.dirty != dirty && !self.rewritten {
            self.journal.write(self.db_number(request), request.args);
        }
        self.send_to_monitors(spec, request);
        reply
    }

    /// Propagates this instead of the command under way, after what was already propagated for it.
    pub(crate) fn propagate(&mut self, request: &Request<'_>, args: &[&[u8]]) {
        self.rewritten = true;
        if self.journal.on {
            self.journal.write(self.db_number(request), args);
        }
    }

    /// Propagates a SET with its expiry as a point in time, which means the same at any time.
    pub(crate) fn propagate_set(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
        value: &[u8],
        when: i64,
    ) {
        self.rewritten = true;
        if self.journal.on {
            self.propagate(request, &[b"SET", key, value, b"PXAT", &integer(when)]);
        }
    }

    /// Propagates that a key has got an expiry, with what `conditions` there were.
    pub(crate) fn propagate_expiry(
        &mut self,
        request: &Request<'_>,
        key: &[u8],
        when: i64,
        conditions: &[&[u8]],
    ) {
        self.rewritten = true;
        if self.journal.on {
            let when = integer(when);
            let mut args: SmallVec<[&[u8]; 6]> = smallvec![&b"PEXPIREAT"[..], key, &when[..]];
            args.extend_from_slice(conditions);
            self.propagate(request, &args);
        }
    }

    /// A request has been carried out whole.
    pub(crate) fn finish(&mut self, request: &Request<'_>) {
        if self.journal.has_pending() {
            self.journal.commit();
            self.after_commit();
        }
        let end = self.journal.end();
        self.session(request).written_to = end;
        if !self.blocking.ready.is_empty() {
            self.serve_ready(request.now_us);
            self.after_commit();
        }
    }
}
