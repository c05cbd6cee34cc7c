//! A client: acquires the lock, works under it and releases it; all of this is recorded.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Instant;

use history::words::RELEASED;
use history::{Update, What};

use crate::board::PlanStage;
use crate::clock::{now, pause};
use crate::protocol::{LockGrant, Order, WorkerAnswer};
use crate::recorder::{Attempt, ClaimOf};
use crate::worker::{Worker, WorkerError};

/// How often per TTL a holder extends its lock, if it has to: after one lost request the next is still in time.
const EXTENDS_PER_TTL: u32 = 3;

/// Has a worker acquire the lock; true if it says that it has it.
pub(crate) async fn acquire(
    stage: &PlanStage,
    attempt: &Attempt<'_>,
    worker: &mut Worker,
) -> Result<bool, WorkerError> {
    let asked = now();
    let op = attempt.invoke(What::Acquire);
    match worker.ask(Order::Acquire, stage.attack.answer_within).await {
        Ok((read, WorkerAnswer::Ok(grant))) => {
            // A hold begins when its answer has been looked at: before that nobody could act on it. Its validity counts from
            // when the answer was there.
            let at = now();
            granted(attempt, (read, at), op, grant);
            attempt.claim(ClaimOf::Acquired, asked, at);
            let place = attempt.client as usize - 1;
            stage.board.send_modify(|board| board.acquired[place] += 1);
            Ok(true)
        }
        Ok((at, WorkerAnswer::No)) => {
            attempt.write(at, op, |texts| What::NotAcquired(texts.intern("not free")));
            attempt.claim(ClaimOf::NotAcquired(None), asked, at);
            Ok(false)
        }
        Ok((at, WorkerAnswer::Unknown(why))) => {
            let why = attempt.intern(&why);
            attempt.write(at, op, |_| What::AcquireUnknown(why));
            attempt.claim(ClaimOf::NotAcquired(Some(why)), asked, at);
            Ok(false)
        }
        Err(error) => {
            let why = first_line(&error);
            attempt.write(now(), op, |texts| What::AcquireUnknown(texts.intern(&why)));
            Err(error)
        }
    }
}

/// Records what `ok` to `acquire` says.
fn granted(attempt: &Attempt<'_>, (read, at): (Instant, Instant), op: u32, grant: LockGrant) {
    // Before the *ok*, as locks of the library mark it.
    if let Some(fence) = grant.fence {
        attempt.write(at, 0, |_| What::Fence(fence));
    }
    attempt.write(at, op, |_| What::Acquired);
    if let Some(valid) = grant.valid() {
        attempt.note_validity(at, read + valid);
    }
}

/// The work under the lock, and how long a worker that renews its lock by itself waits for a processor meanwhile.
pub(crate) async fn work(
    stage: &PlanStage,
    attempt: &Attempt<'_>,
    worker: &mut Worker,
    busy: impl Future<Output = ()>,
) -> Result<(), WorkerError> {
    if !stage.promises.renews {
        return update(stage, attempt, worker, busy).await;
    }
    let process = worker.process();
    let before = process.run_delays();
    let updated = update(stage, attempt, worker, busy).await;
    attempt.delayed(process.run_delays().longest_since(&before));
    updated
}

/// Reads the register, works, asks whether the lock is still held, and only then writes.
async fn update(
    stage: &PlanStage,
    attempt: &Attempt<'_>,
    worker: &mut Worker,
    busy: impl Future<Output = ()>,
) -> Result<(), WorkerError> {
    let begun = now();
    let op = attempt.invoke(What::Update);
    let read = stage.register.load(Ordering::SeqCst);
    let kept = keep(stage, attempt, worker, busy).await;
    note_end(stage, attempt, worker, begun);
    if let Some((asked, why)) = kept? {
        // From the moment it asks, the client does not rely on the lock until the answer is yes.
        attempt.write(asked, 0, |_| What::Lost);
        attempt.write(now(), op, |texts| What::NotUpdated(texts.intern(&why)));
        return Ok(());
    }
    if let Some(at) = worker.lost() {
        attempt.write(at.max(begun), 0, |_| What::Lost);
        attempt.write(now(), op, |texts| What::NotUpdated(texts.intern("lock lost")));
        return Ok(());
    }
    let asked = now();
    let still = worker.ask(Order::Check, stage.attack.answer_within).await;
    let at = now();
    note_end(stage, attempt, worker, begun);
    attempt.looked(asked, at);
    let why = match still {
        Ok((_, WorkerAnswer::Ok(_))) if worker.lost().is_none() => {
            attempt.claim(ClaimOf::Held, asked, at);
            let written = read + 1;
            stage.register.store(written, Ordering::SeqCst);
            let update = Update { read, written, token: None };
            attempt.write(now(), op, |_| What::Updated(update));
            return Ok(());
        }
        Ok((_, WorkerAnswer::Unknown(why))) => why,
        Ok(_) => String::from("lock lost"),
        Err(error) => {
            let why = first_line(&error);
            attempt.write(at, op, |texts| What::NotUpdated(texts.intern(&why)));
            return Err(error);
        }
    };
    attempt.write(asked, 0, |_| What::Lost);
    attempt.write(at, op, |texts| What::NotUpdated(texts.intern(&why)));
    Ok(())
}

/// Records that a worker's process has ended, if it has: a process that has ended believes nothing.
fn note_end(stage: &PlanStage, attempt: &Attempt<'_>, worker: &Worker, begun: Instant) {
    if let Some(at) = worker.ended() {
        stage.recorder.ended(attempt.client, at.max(begun));
    }
}

/// Works until `busy` is done. A worker that promises `extends` extends the lock meanwhile. If it fails to extend,
/// this returns when it was asked, and why it failed.
async fn keep(
    stage: &PlanStage,
    attempt: &Attempt<'_>,
    worker: &mut Worker,
    busy: impl Future<Output = ()>,
) -> Result<Option<(Instant, String)>, WorkerError> {
    let mut busy = pin!(busy);
    if !stage.promises.extends {
        busy.await;
        return Ok(None);
    }
    let every = stage.ttl() / EXTENDS_PER_TTL;
    let (mut is_done, mut asked) = (false, now());
    loop {
        if !is_done {
            tokio::select! {
                biased;
                () = &mut busy => is_done = true,
                () = pause(every) => {}
            }
        }
        // What was asked before a fault was over says nothing of what the fault has done.
        let is_known = stage.board.borrow().healed.is_none_or(|healed| asked >= healed);
        if is_done && is_known {
            return Ok(None);
        }
        asked = now();
        let (read, answer) = {
            let mut answer = pin!(worker.ask(Order::Extend, stage.attack.answer_within));
            loop {
                tokio::select! {
                    biased;
                    answer = &mut answer => break answer?,
                    () = &mut busy, if !is_done => is_done = true,
                }
            }
        };
        let at = now();
        match answer {
            WorkerAnswer::Ok(grant) => {
                attempt.claim(ClaimOf::Extended, asked, at);
                if let Some(valid) = grant.valid() {
                    attempt.note_validity(at, read + valid);
                }
            }
            WorkerAnswer::No => return Ok(Some((asked, String::from("lock lost")))),
            WorkerAnswer::Unknown(why) => return Ok(Some((asked, why))),
        }
    }
}

/// Has a worker release the lock.
pub(crate) async fn release(
    stage: &PlanStage,
    attempt: &Attempt<'_>,
    worker: &mut Worker,
) -> Result<(), WorkerError> {
    let asked = now();
    let op = attempt.invoke(What::Release);
    let released = worker.ask(Order::Release, stage.attack.answer_within).await;
    let at = now();
    match released {
        Ok((_, WorkerAnswer::Ok(_))) => {
            attempt.claim(ClaimOf::Released, asked, at);
            attempt.write(at, op, |texts| What::Released(texts.intern(RELEASED)));
        }
        Ok((_, WorkerAnswer::No)) => {
            attempt.claim(ClaimOf::NotReleased, asked, at);
            attempt.write(at, op, |texts| What::Released(texts.intern("not held")));
        }
        Ok((_, WorkerAnswer::Unknown(why))) => {
            attempt.write(at, op, |texts| What::ReleaseUnknown(texts.intern(&why)));
        }
        Err(error) => {
            let why = first_line(&error);
            attempt.write(at, op, |texts| What::ReleaseUnknown(texts.intern(&why)));
            return Err(error);
        }
    }
    Ok(())
}

fn first_line(error: &WorkerError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use history::Head;

    use super::*;
    use crate::recorder::Recorder;
    use crate::transcript;

    #[test]
    fn a_fencing_token_stands_before_the_end_of_its_acquisition() {
        let (recorder, start) = (Recorder::default(), now());
        let attempt = recorder.attempt(1);
        let op = attempt.invoke(What::Acquire);
        let at = now();
        granted(&attempt, (at, at), op, LockGrant { fence: Some(7), valid_ms: Some(9) });
        let history = transcript::history(Head::default(), b"", recorder.take(), &[], start);
        let told: Vec<What> = history.events.iter().map(|it| it.what).collect();
        let [What::Acquire, What::Fence(7), What::Acquired, What::ValidUntil(_)] = told[..] else {
            panic!("{told:?}");
        };
    }
}
