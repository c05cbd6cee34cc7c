//! rslock, on one server.

use std::time::Duration;

use attack_workers::worker::{self, Answer, held, serve};
use rslock::{LockError, LockManager};

struct Worker {
    manager: LockManager,
    lock: Option<rslock::Lock>,
}

impl worker::Lock for Worker {
    const PROMISES: &str = "checks";

    async fn acquire(&mut self) -> Answer {
        match self.manager.lock(&*worker::key(), worker::ttl()).await {
            Ok(lock) => {
                let validity = Duration::from_millis(lock.validity_time as u64);
                self.lock = Some(lock);
                Ok(held(validity))
            }
            Err(LockError::Unavailable) => Ok("no".into()),
            Err(error) => Err(error.into()),
        }
    }

    async fn check(&mut self) -> Answer {
        let lock = self.lock.as_ref().ok_or("no lock")?;
        match self.manager.is_freed(lock).await {
            Ok(false) => Ok("ok".into()),
            Ok(true) | Err(LockError::RedisKeyMismatch | LockError::RedisKeyNotFound) => {
                Ok("no".into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&mut self) -> Answer {
        // It does not say whether it has released anything.
        self.lock.take().ok_or("no lock")?.release().await;
        Ok("ok".into())
    }
}

#[tokio::main]
async fn main() {
    serve(Worker { manager: LockManager::new(vec![worker::url()]), lock: None }).await;
}
