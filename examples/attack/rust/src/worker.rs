//! The protocol of a worker: reads orders, answers them. See docs/attack.md.

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::future::pending;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, stdin};

/// What a worker answers to an order. An error is an unknown outcome.
pub type Answer = Result<String, Box<dyn Error>>;

/// A lock under test.
#[expect(async_fn_in_trait, reason = "a worker has one task")]
pub trait Lock {
    const PROMISES: &str;

    async fn acquire(&mut self) -> Answer;
    async fn check(&mut self) -> Answer;
    async fn release(&mut self) -> Answer;

    /// Waits until the library says by itself that the lock is lost; it is told once for each hold.
    async fn lost(&mut self) {
        pending().await
    }
}

pub fn url() -> String {
    variable("REDIS_URL")
}

pub fn key() -> String {
    variable("PICKLOCK_KEY")
}

pub fn ttl() -> Duration {
    Duration::from_millis(variable("PICKLOCK_TTL_MS").parse().expect("a number of milliseconds"))
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// The answer of a lock that may be relied on for so long.
pub fn held(validity: Duration) -> String {
    format!("ok valid_ms={}", validity.as_millis())
}

pub fn unknown(reason: impl Display) -> String {
    format!("unknown {reason}").replace('\n', " ")
}

/// Carries out orders until there are no more.
pub async fn serve<L: Lock>(mut lock: L) {
    println!("ready {}", L::PROMISES);
    let mut orders = BufReader::new(stdin()).lines();
    loop {
        let order = tokio::select! {
            order = orders.next_line() => order.expect("orders are text"),
            () = lock.lost() => {
                println!("lost");
                continue;
            }
        };
        let answer = match order.as_deref() {
            Some("acquire") => lock.acquire().await,
            Some("check") => lock.check().await,
            Some("release") => lock.release().await,
            Some(other) => panic!("no such order: {other}"),
            None => return,
        };
        println!("{}", answer.unwrap_or_else(unknown));
    }
}
