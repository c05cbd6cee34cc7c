//! rslock on one server, with `using`, which renews the lock while a routine runs.

use std::future::{Future, pending};
use std::pin::Pin;

use attack_workers::worker::{self, Answer, serve};
use rslock::{LockError, LockManager};
use tokio::sync::{mpsc, oneshot};

struct Worker {
    manager: LockManager,
    hold: Option<Hold>,
}

/// A routine under the lock. It confirms that it runs, and ends when nobody can ask it any more.
struct Hold {
    using: Pin<Box<dyn Future<Output = Result<(), LockError>>>>,
    questions: mpsc::UnboundedSender<oneshot::Sender<()>>,
}

impl Hold {
    fn begin(manager: LockManager) -> Self {
        let (questions, mut asked) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
        let using = Box::pin(async move {
            let routine = async || {
                while let Some(question) = asked.recv().await {
                    let _ = question.send(());
                }
            };
            manager.using(worker::key().as_bytes(), worker::ttl(), routine).await
        });
        Self { using, questions }
    }

    /// Waits until the routine confirms that it runs, under the lock.
    async fn confirm(&mut self) -> Result<(), LockError> {
        let (question, confirmed) = oneshot::channel();
        let _ = self.questions.send(question);
        tokio::select! {
            ended = &mut self.using => ended,
            _ = confirmed => Ok(()),
        }
    }
}

impl worker::Lock for Worker {
    const PROMISES: &str = "renews checks";

    async fn acquire(&mut self) -> Answer {
        // This waits until the lock is free: `using` has no limit, and says that dropping it leaves the key.
        let mut hold = Hold::begin(self.manager.clone());
        hold.confirm().await?;
        self.hold = Some(hold);
        Ok("ok".into())
    }

    async fn check(&mut self) -> Answer {
        let Some(hold) = &mut self.hold else { return Ok("no".into()) };
        if hold.confirm().await.is_err() {
            self.hold = None;
        }
        Ok(if self.hold.is_some() { "ok".into() } else { "no".into() })
    }

    async fn release(&mut self) -> Answer {
        let Some(Hold { using, questions }) = self.hold.take() else { return Ok("no".into()) };
        drop(questions);
        using.await?;
        Ok("ok".into())
    }

    async fn lost(&mut self) {
        match &mut self.hold {
            Some(hold) => drop(hold.using.as_mut().await),
            None => pending().await,
        }
        self.hold = None;
    }
}

#[tokio::main]
async fn main() {
    serve(Worker { manager: LockManager::new(vec![worker::url()]), hold: None }).await;
}
