//! What faults do to a client, whatever a client is.

/// A client as the nemesis controls it.
pub(crate) trait ClientControl: Send + Sync {
    /// Stops it; whether it ran.
    fn stop(&self) -> bool;
    /// Lets it go on after a stop.
    fn resume(&self);
    /// Ends it for good, and its connections; whether it was there.
    fn kill(&self) -> bool;
    /// Keeps it waiting, until it has been [unblocked](Self::unblock) as often as blocked.
    fn block(&self);
    /// Undoes one [block](Self::block).
    fn unblock(&self);
    /// From now on its clocks run faster by so many parts per million, or slower.
    fn set_drift(&self, ppm: i32);
    /// Its wall clock jumps.
    fn step_clock(&self, by_ns: i64);
    /// Whether it is stopped, and not gone.
    fn is_stopped(&self) -> bool;
    /// Whether it may still do something before it is resumed.
    fn is_busy(&self) -> bool;
}
