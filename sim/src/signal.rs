//! SIGINT, SIGTERM and SIGHUP: the run is cut short, and a partial report is written.
//!
//! Invariant: after the first signal picklock ends by itself, in bounded time, and never in the middle of a file. A
//! second one ends it at once, unless keys on a server of the user's would stay. What was half written then has a
//! temporary name, and the supervisor ends the servers, as after SIGKILL.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::libc::SIGXFSZ;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::exit::Exit;
use super::failure::Failure;
use super::print;

/// Signals within this time are one: timeout(1) sends each to the process and to its group.
const SAME: Duration = Duration::from_secs(1);

/// Turns true with the first signal; none before anybody wants to know.
static FIRST: Mutex<Option<watch::Sender<bool>>> = Mutex::new(None);

/// Whether a second signal is ignored.
static PATIENT: AtomicBool = AtomicBool::new(false);

/// Turns true with the first signal that the process gets from now on, or has got since this was called first.
pub(super) fn watch() -> io::Result<watch::Receiver<bool>> {
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = &*first {
        return Ok(sender.subscribe());
    }
    // A thread of its own, because signals also come while no other runtime runs: while a run is judged, or written.
    let runtime = own_runtime()?;
    let entered = runtime.enter();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [int, term, hup] = kinds.map(signal);
    let signals = [int?, term?, hup?];
    drop(entered);
    let (sender, receiver) = watch::channel(false);
    let theirs = sender.clone();
    let listening = move || runtime.block_on(listen(signals, &theirs));
    std::thread::Builder::new().name("picklock-signals".into()).spawn(listening)?;
    *first = Some(sender);
    Ok(receiver)
}

fn own_runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Has a second signal ignored from now on: a server of the user's is used, and its keys are removed before the end.
pub(super) fn be_patient() {
    PATIENT.store(true, Ordering::Relaxed);
}

/// Has a file that grows beyond the limit of its size be an error like that of a full disk, and not the end of the
/// process. Processes that are started are not affected: a handler, unlike an ignored signal, is not inherited.
pub(super) fn survive_file_size_limit() {
    let handled = own_runtime().and_then(|runtime| {
        let _entered = runtime.enter();
        signal(SignalKind::from_raw(SIGXFSZ))
    });
    // Where there are no descriptors for it, whatever the user wants to do says so.
    drop(handled);
}

async fn listen(mut signals: [Signal; 3], first: &watch::Sender<bool>) {
    next(&mut signals).await;
    first.send_replace(true);
    let again = async {
        loop {
            next(&mut signals).await;
        }
    };
    let _ = tokio::time::timeout(SAME, again).await;
    if PATIENT.load(Ordering::Relaxed) {
        return;
    }
    print::note("interrupted: writing what there is; a second signal ends at once, without it");
    next(&mut signals).await;
    super::end_at_once(Exit::Interrupted)
}

async fn next([int, term, hup]: &mut [Signal; 3]) {
    tokio::select! {
        biased;
        _ = int.recv() => {}
        _ = term.recv() => {}
        _ = hup.recv() => {}
    }
}

/// The same, for work that looks at a flag. Must be called on a tokio runtime.
pub(super) fn flag() -> io::Result<Arc<AtomicBool>> {
    let (mut signals, flag) = (watch()?, Arc::new(AtomicBool::new(false)));
    let theirs = Arc::clone(&flag);
    tokio::spawn(async move {
        if signals.wait_for(|interrupted| *interrupted).await.is_ok() {
            theirs.store(true, Ordering::Relaxed);
        }
    });
    Ok(flag)
}

/// Waits for the work of a thread, which the first signal asks to stop; whether one came.
pub(super) async fn finish<T>(
    mut work: JoinHandle<T>,
    mut signals: watch::Receiver<bool>,
    stop: &AtomicBool,
) -> Result<(T, bool), Failure> {
    let (ended, interrupted) = tokio::select! {
        biased;
        ended = &mut work => (ended, false),
        Ok(_) = signals.wait_for(|interrupted| *interrupted) => {
            stop.store(true, Ordering::Relaxed);
            // It looks at this after each part of the work, and then returns what it has.
            (work.await, true)
        }
    };
    ended.map(|found| (found, interrupted)).map_err(Failure::internal)
}
