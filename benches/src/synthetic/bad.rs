//! A history that is hard to search: everybody wants the lock at once, and late in it one client
//! deletes another's key.
//!
//! Invariant: just one hold is harmed. All clients' requests overlap, so that as many orders are
//! possible as there can be; whoever looks for one that explains everything looks for ever.

use scenarios::history::{Answer, History, Touch, What};

use super::{CREATE, Does, Tape};

/// A history of so many clients and at least so many operations, of a share of which nobody knows the
/// outcome.
pub fn bad(clients: u32, operations: u32, unknown_percent: u32) -> History {
    let mut tape = Tape::new(clients, None, unknown_percent);
    // Two operations of each client, and two of a release.
    let rounds = operations.div_ceil(2 * clients + 2);
    for round in 0..rounds {
        tape.round(clients, round, round == rounds - 2);
    }
    tape.write(0, 0, 0, What::Probe(-2));
    tape.history
}

impl Tape {
    /// All clients ask, one of them is told yes, and the others no once it has the lock.
    fn round(&mut self, clients: u32, round: u32, is_harmed: bool) {
        let winner = 1 + round % clients;
        let get = Does::on(self.lock, CREATE, Answer::Ok);
        let not = Does { did: Touch::None, answer: Answer::Nil, ..get };
        let acquiring: Vec<(u32, u32, u32)> = (1..=clients)
            .map(|client| {
                let (number, acquire) = self.acquire(client);
                (client, number, acquire)
            })
            .collect();
        let asked: Vec<((u32, u32), u32, u32)> = acquiring
            .into_iter()
            .map(|(client, number, acquire)| {
                let who = (client, number);
                (who, acquire, self.send(who, "SET", get))
            })
            .collect();
        let (who, acquire, set) = asked[(winner - 1) as usize];
        self.answer(who, set, get);
        self.has_it(who, acquire);
        if is_harmed {
            self.harm(asked[(winner % clients) as usize]);
        }
        for (other, acquire, set) in asked {
            if other == who || is_harmed && other.0 == 1 + winner % clients {
                continue;
            }
            if self.is_lost() {
                self.lose(other, set, What::Unanswered);
                self.lose(other, acquire, What::AcquireUnknown);
            } else {
                self.answer(other, set, not);
                let why = self.history.texts.intern("held by another");
                self.write(other.0, other.1, acquire, What::NotAcquired(why));
            }
        }
        self.let_go(who, !is_harmed);
    }

    fn has_it(&mut self, (client, number): (u32, u32), acquire: u32) {
        let until_ns = self.at_ns + super::TTL_NS / 2;
        self.write(client, number, 0, What::ValidUntil(until_ns));
        self.write(client, number, acquire, What::Acquired);
    }

    fn let_go(&mut self, who: (u32, u32), is_there: bool) {
        let release = self.begin(who.0, who.1, What::Release);
        let delete = Does::on(self.lock, Touch::Delete, Answer::Int(1));
        let in_vain = Does { did: Touch::None, answer: Answer::Int(0), ..delete };
        self.command(who, "DEL", if is_there { delete } else { in_vain });
        let told = self.history.texts.intern(if is_there { "released" } else { "already expired" });
        self.write(who.0, who.1, release, What::Released(told));
    }

    /// A client deletes the key of whoever has the lock, and gets it itself.
    fn harm(&mut self, (who, acquire, set): ((u32, u32), u32, u32)) {
        self.command(who, "DEL", Does::on(self.lock, Touch::Delete, Answer::Int(1)));
        self.answer(who, set, Does::on(self.lock, CREATE, Answer::Ok));
        self.has_it(who, acquire);
        self.let_go(who, true);
    }
}
