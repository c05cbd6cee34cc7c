//! picklock's own lock on one server, with its watchdog.

use std::error::Error;
use std::future::pending;

use attack_workers::worker::{self, Answer, held, serve};
use picklock::{Guard, Locks, Options, Outcome, Released, Single, TokioEnv};

struct Worker {
    lock: Single<TokioEnv>,
    guard: Option<Guard<TokioEnv>>,
    /// Whether the loss of this guard has been told.
    told: bool,
}

impl worker::Lock for Worker {
    const PROMISES: &str = "renews checks";

    async fn acquire(&mut self) -> Answer {
        match self.lock.try_acquire().await {
            Ok(guard) => {
                let answer = held(guard.remaining());
                (self.guard, self.told) = (Some(guard), false);
                Ok(answer)
            }
            Err(error) if error.outcome() == Outcome::No => Ok("no".into()),
            Err(error) => Err(error.into()),
        }
    }

    async fn check(&mut self) -> Answer {
        let guard = self.guard.as_ref().ok_or("no guard")?;
        Ok(if guard.is_valid() { held(guard.remaining()) } else { "no".into() })
    }

    async fn release(&mut self) -> Answer {
        match self.guard.take().ok_or("no guard")?.release().await {
            Released::Released => Ok("ok".into()),
            Released::AlreadyExpired | Released::TakenByOther => Ok("no".into()),
            Released::Unknown(error) => Err(error.into()),
        }
    }

    async fn lost(&mut self) {
        match &self.guard {
            Some(guard) if !self.told => guard.lost().await,
            _ => pending().await,
        };
        self.told = true;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::builder(worker::ttl()).watchdog().build()?;
    let lock = Locks::open(worker::url(), options)?.single(worker::key().into_bytes())?;
    serve(Worker { lock: lock.clone(), guard: None, told: false }).await;
    lock.drain().await;
    Ok(())
}
