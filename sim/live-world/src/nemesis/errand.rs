//! What has to be done to a server: the nemesis sends for it, and hears when it has been done.
//!
//! Invariant: who came to the place goes on when it has been done, and what is owed later (a server that is to come
//! back) is done when its time has come, or at the heal. Deliberately absent: how it is done to a server.

use scenarios::fault::Fault;
use scenarios::history::What;

use super::strike::staged;
use super::{Director, LOOK_EVERY, Nemesis};
use fault_proxy::Upstream;

/// What has to be done to a server, by which cue and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    /// What.
    pub(crate) task: Task,
    /// The cue, and who came to its place; none for what is owed.
    cue: Option<(u32, u32)>,
    /// Whether it met a hold.
    in_hold: bool,
}

/// What has to be done to a server: to this one or, where none is named, to the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// It forgets its scripts.
    FlushScripts { server: Option<u32> },
    /// Its wall clock jumps.
    Step { server: Option<u32>, by_ns: i64 },
    /// Its clocks run off.
    Drift { server: Option<u32>, ppm: i32 },
    /// It ends.
    End { fault: Fault, server: Option<u32>, to: Option<u32>, for_ns: u64 },
    /// It is there again.
    Return { server: usize },
    /// A replica takes its place; it is there again so much later.
    Promote { old: usize, to: Option<u32>, for_ns: u64 },
}

impl Nemesis {
    /// What was sent for had this effect, on the clients of this node; whether the lock's key was kept
    /// all the same.
    pub(crate) fn struck(&self, errand: &Errand, node: Option<u16>, kept: bool) {
        let Some((place, _)) = errand.cue else { return };
        self.direct(|stage| {
            let cues = stage.state.cues.all();
            let Some(cue) = cues.get(place as usize) else { return };
            let (fault, for_ns) = match errand.task {
                Task::Step { by_ns, .. } => (cue.kind, by_ns.unsigned_abs()),
                Task::Drift { .. } => (cue.kind, 0),
                _ => (cue.kind, cue.lasts_ns().unwrap_or(0)),
            };
            let in_hold = errand.in_hold && !(cue.loses_hold && kept);
            let what = What::Fault { fault, node, for_ns, in_hold, staged: staged(place) };
            stage.write(0, what);
        });
    }

    /// What was sent for has been done, or cannot be.
    pub(crate) fn done(&self, errand: &Errand) {
        self.direct(|stage| {
            stage.state.errands -= 1;
            if let Some((_, client)) = errand.cue {
                stage.client(client, |env| env.process().release());
            }
        });
    }

    /// This is to be done so many nanoseconds later.
    pub(crate) fn owe(&self, task: Task, in_ns: u64) {
        let number = self.direct(|stage| {
            if !stage.state.cues.on() {
                // After the heal nothing is put off.
                stage.send(Errand { task, cue: None, in_hold: false });
                return None;
            }
            let number = stage.state.owed.last().map_or(0, |(last, _)| last + 1);
            stage.state.owed.push((number, task));
            Some(number)
        });
        if let Some(number) = number {
            self.later(in_ns, move |it| {
                it.direct(|stage| {
                    let owed = &mut stage.state.owed;
                    if let Some(at) = owed.iter().position(|(it, _)| *it == number) {
                        let (_, task) = owed.remove(at);
                        stage.send(Errand { task, cue: None, in_hold: false });
                    }
                });
            });
        }
    }

    /// Comes back when nothing is to be done to any server any more.
    pub(crate) async fn settled(&self) {
        while self.direct(|stage| stage.state.errands > 0 || !stage.state.owed.is_empty()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The machine of the server at the end of this way is without power, or has it again. Who was connected
    /// hears nothing until it has.
    pub(crate) fn darken(&self, way: Option<usize>, dark: bool) {
        let Some(node) = way else { return };
        self.direct(|stage| {
            let cast = &mut stage.state.cast;
            if std::mem::replace(&mut cast.dark[node], dark) == dark {
                return;
            }
            for client in 0..cast.ways.len() {
                if !dark {
                    cast.ways[client][node].reset_connections();
                }
                cast.switch(client, node);
            }
        });
    }

    /// A node leads to another server from now on.
    pub(crate) fn redirect(&self, node: u16, upstream: &Upstream) {
        self.direct(|stage| {
            for ways in &stage.state.cast.ways {
                ways[usize::from(node)].set_upstream(upstream.clone());
            }
        });
    }

    /// Says something that deserves attention.
    pub(crate) fn remark(&self, what: String) {
        self.state().remarks.push(what);
    }

    /// What deserved attention so far.
    pub(crate) fn remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.state().remarks)
    }
}

impl Director<'_> {
    /// Has something done to a server; whoever came to the place waits for it.
    pub(super) fn send_for(&mut self, task: Task) {
        let in_hold = self.meets_hold(0) || matches!(task, Task::Drift { .. });
        let client = self.state.cues.came();
        self.client(client, |env| env.process().hold());
        let cue = self.state.cues.striking().map(|cue| (u32::from(cue), client));
        self.send(Errand { task, cue, in_hold });
    }

    /// What is owed is done now.
    pub(super) fn send_owed(&mut self) {
        for (_, task) in std::mem::take(&mut self.state.owed) {
            self.send(Errand { task, cue: None, in_hold: false });
        }
    }

    fn send(&mut self, errand: Errand) {
        // Where nobody is there to be sent any more, the run is over.
        if self.nemesis.inner.errands.send(errand).is_ok() {
            self.state.errands += 1;
        } else if let Some((_, client)) = errand.cue {
            self.client(client, |env| env.process().release());
        }
    }
}
