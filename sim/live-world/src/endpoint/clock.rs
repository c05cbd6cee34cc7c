//! The wall clock of a server that was started with a page.

#![expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]

use std::time::Duration;

use picklock::reply::Reply;
use tokio::time::{Instant, sleep};

use super::Endpoint;

/// How long a server may take to report the new time.
const STEPPED_WITHIN: Duration = Duration::from_secs(2);
/// How often it is asked.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Endpoint {
    /// Steps the server's wall clock by `by_ns` and waits until it reports the new time; true if it does in time, none
    /// if its clock cannot be stepped. Some servers (Valkey 9.1) read the machine's clock only ten times a second, and
    /// extrapolate in between.
    pub async fn step_wall(&self, by_ns: i64) -> Option<bool> {
        let before_us = self.time_us().await;
        let begun = Instant::now();
        let is_written = self.process().await?.page.as_mut()?.step_wall(by_ns).is_ok();
        if !is_written {
            return None;
        }
        let Some(before_us) = before_us else { return Some(false) };
        let by_us = by_ns / 1_000;
        while begun.elapsed() < STEPPED_WITHIN {
            let Some(now_us) = self.time_us().await else { return Some(false) };
            let passed_us = i64::try_from(begun.elapsed().as_micros()).unwrap_or(i64::MAX);
            // Nearer to the new time than to the old one.
            if (now_us - before_us - passed_us - by_us).abs() < by_us.abs() / 2 {
                return Some(true);
            }
            sleep(LOOK_EVERY).await;
        }
        Some(false)
    }

    /// The time by the server's clock, in microseconds.
    async fn time_us(&self) -> Option<i64> {
        let Ok(Reply::Array(time)) = self.ask(&["TIME"]).await else { return None };
        let number = |part: &Reply| std::str::from_utf8(part.as_bytes()?).ok()?.parse::<i64>().ok();
        let [seconds, rest_us] = &time[..] else { return None };
        Some(number(seconds)? * 1_000_000 + number(rest_us)?)
    }
}
