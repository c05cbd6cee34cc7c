//! An arena: one or several servers, the proxy's links to them, and workers that contend for one lock.
//!
//! Invariant: plans run one after the other in an arena, and none sees anything of the one before: keys and rules are
//! gone, clocks are right, and a worker is used again only if it just acquired and released a free lock.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fault_proxy::{ClientId, Detail, Link, Proxy, Record};
use live_world::endpoint::Choice;
use live_world::server::Password;
use live_world::supervisor::Supervisor;
use picklock::env::Node;
use picklock::time::span_ns;
use scenarios::span::rounded;

use crate::error::AttackError;
use crate::lock_key::LockKey;
use crate::protocol::{Order, PROTOCOL, WorkerAnswer, cut};
use crate::seen::CommandSeen;
use crate::server::WatchedServer;
use crate::worker::{Worker, WorkerError};

/// How many times the requested TTL a key may live: some libraries count in whole seconds.
const LIFE_MOST: u32 = 4;
/// How many workers are started for a client before the arena gives up.
const START_MOST: u32 = 3;

/// What is attacked, and how.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The worker's command and its arguments.
    pub command: Vec<OsString>,
    /// The server that the workers lock on.
    pub server: Choice,
    /// How many servers the lock is kept on.
    pub nodes: u16,
    /// How many workers contend; at least two.
    pub clients: u32,
    /// The TTL that workers are told.
    pub ttl: Duration,
    /// The name of the lock that workers are told.
    pub key: String,
    /// The lock's key on the server. If none, it is found in a run without faults.
    pub lock_key: Option<String>,
    /// How long a worker may take to start.
    pub start_within: Duration,
    /// How long it may take to answer.
    pub answer_within: Duration,
    /// Judges programs that are not workers; none if the command is a worker.
    pub oracle: Option<Oracle>,
}

impl Attack {
    /// The number of servers on which a client must have the key to have the lock.
    pub(crate) fn quorum(&self) -> usize {
        usize::from(self.nodes / 2 + 1)
    }
}

/// The command that judges programs that are not workers.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Its command line, for the shell. Exit code 0 says that what the programs have left is right.
    pub command: String,
    /// How long a program may take to end after its fault is over. The oracle has the same limit.
    pub end_within: Duration,
}

/// The requests of a run, as both sides of the wire saw them.
pub(crate) struct WireLog {
    /// What the proxy has seen, with times since `start`.
    pub(crate) records: Vec<Record>,
    pub(crate) start: Instant,
    /// What each server has carried out.
    pub(crate) commands: Vec<Vec<CommandSeen>>,
    /// Whether the witnesses have told all of it.
    pub(crate) is_complete: bool,
}

/// That the lock's key lives for so long, and `how` to lock with the TTL that was asked for.
pub(crate) fn other_life(life: Duration, ttl: Duration, how: &str) -> String {
    let (life, ttl) = (rounded(span_ns(life)), rounded(span_ns(ttl)));
    format!("the lock's key lives {life}, where {ttl} were asked for ({how})")
}

pub(crate) struct Arena {
    pub(crate) attack: Arc<Attack>,
    pub(crate) supervisor: Supervisor,
    // Dropped in this order: links before what they lead to.
    /// By server, and by client from client 1.
    pub(crate) links: Vec<Vec<Link>>,
    pub(crate) proxy: Proxy,
    pub(crate) servers: Vec<WatchedServer>,
    /// The key that stands for the lock, once it is known.
    pub(crate) lock_key: LockKey,
    /// How long the lock's key lives without renewal, as far as is known.
    pub(crate) life: Duration,
    /// Whether the lock has run here without faults since the server last lost its scripts.
    pub(crate) rehearsed: bool,
    /// By client, from client 1.
    pub(crate) workers: Vec<Option<Worker>>,
}

impl Arena {
    /// Starts the servers and the links to them, and no worker yet.
    pub(crate) async fn open(
        attack: &Arc<Attack>,
        supervisor: &Supervisor,
        run: &str,
    ) -> Result<Self, AttackError> {
        let proxy = Proxy::start(Detail::Replies)?;
        // After a lost message a connection is silent for a while, as on a network, and then breaks. So a client
        // without timeouts does not wait for ever.
        let plan = fault_proxy::Plan { grace: Some(attack.ttl * 2), ..Default::default() };
        let password = Password::draw();
        let (mut servers, mut links) = (Vec::new(), Vec::new());
        for node in 0..attack.nodes {
            let server = WatchedServer::open(&attack.server, &password, run).await?;
            let link = |client| {
                let upstream = server.endpoint.upstream();
                proxy.listen(ClientId(client), Node(node), upstream, plan.clone())
            };
            links.push((1..=attack.clients).map(link).collect::<Result<_, _>>()?);
            servers.push(server);
        }
        let workers = (0..attack.clients).map(|_| None).collect();
        let (attack, supervisor, life) = (Arc::clone(attack), supervisor.clone(), attack.ttl);
        let (rehearsed, lock_key) = (false, LockKey::default());
        Ok(Self { attack, supervisor, links, proxy, servers, lock_key, life, rehearsed, workers })
    }

    /// Empties the servers, and checks that each worker can acquire and release the lock.
    pub(crate) async fn prepare(&mut self) -> Result<(), AttackError> {
        self.reset().await?;
        for place in 0..self.workers.len() {
            let worker = match self.workers[place].take() {
                Some(mut used) if !used.spent => {
                    self.warm_up(&mut used).await.is_ok().then_some(used)
                }
                _ => None,
            };
            let worker = match worker {
                Some(worker) => worker,
                None => self.replacement(place).await?,
            };
            self.workers[place] = Some(worker);
        }
        self.clear().await
    }

    /// Starts a worker that has acquired and released the lock once. On a busy machine this may take several tries.
    async fn replacement(&self, place: usize) -> Result<Worker, AttackError> {
        let mut tries = 1;
        loop {
            // A key that the worker before has left must not keep this one from the lock.
            self.clear().await?;
            let started = match self.start(place).await {
                Ok(mut new) => self.warm_up(&mut new).await.map(|()| new),
                Err(error) => Err(error),
            };
            match started {
                Ok(new) => return Ok(new),
                // Another worker would fail in the same way.
                Err(
                    error @ AttackError::Worker(
                        WorkerError::Start(_)
                        | WorkerError::NoRoom(_)
                        | WorkerError::Misspelt { .. }
                        | WorkerError::Silent { .. },
                    ),
                ) => return Err(error),
                Err(error) if tries == START_MOST => return Err(error),
                Err(_) => tries += 1,
            }
        }
    }

    /// Sets the servers' clocks right and empties them. Not before a plan has been judged: a key that a clock which jumps
    /// back lets live on would count as left behind.
    pub(crate) async fn reset(&mut self) -> Result<(), AttackError> {
        for server in &mut self.servers {
            server.set_clock_right().await;
        }
        self.clear().await
    }

    /// Empties the servers.
    async fn clear(&self) -> Result<(), AttackError> {
        for server in &self.servers {
            server.command(&["FLUSHALL"]).await?;
        }
        Ok(())
    }

    /// Notes how long the lock's key was seen to live. `how` says how to lock with the TTL that was asked for.
    ///
    /// # Errors
    /// [`AttackError::NoLock`]: far longer than that.
    pub(crate) fn set_life(&mut self, life: Duration, how: &str) -> Result<(), AttackError> {
        let ttl = self.attack.ttl;
        if life > ttl * LIFE_MOST {
            return Err(AttackError::NoLock(other_life(life, ttl, how)));
        }
        self.life = life.max(ttl);
        Ok(())
    }

    /// Number, software and version of the servers, such as `3 x redis 7.0.15`.
    pub(crate) fn server_name(&self) -> String {
        let name = self.servers[0].name();
        if self.attack.nodes > 1 { format!("{} x {name}", self.attack.nodes) } else { name }
    }

    /// What the servers have carried out, by server.
    fn commands(&self) -> Vec<Vec<CommandSeen>> {
        self.servers.iter().map(|it| it.log.commands()).collect()
    }

    /// What the proxy and the witnesses have seen so far. A client may go on meanwhile, as with the servers that a majority does
    /// not need: so the proxy is asked first, and the witnesses have seen whatever it knows an answer to.
    pub(crate) async fn wire_log(&self) -> WireLog {
        let log = self.proxy.log();
        let (records, start) = (log.records(), log.start());
        let mut is_complete = true;
        for server in &self.servers {
            // A server that came back has broken the connection by which it is asked.
            is_complete &= server.catch_up().await || server.catch_up().await;
        }
        WireLog { records, start, commands: self.commands(), is_complete }
    }

    /// Ends the workers and the servers, and waits until the servers are gone.
    pub(crate) async fn close(mut self) {
        self.workers.clear();
        for server in self.servers {
            server.close().await;
        }
    }

    async fn start(&self, place: usize) -> Result<Worker, AttackError> {
        let Attack { command, start_within, .. } = &*self.attack;
        let addrs: Vec<SocketAddr> = self.links.iter().map(|links| links[place].addr()).collect();
        let mut variables = self.variables(place + 1, &addrs);
        variables.push((String::from("PICKLOCK_PROTOCOL"), PROTOCOL.to_string()));
        Ok(Worker::start(&self.supervisor, command, variables, true, *start_within).await?)
    }

    /// The environment variables for a program of this client. It reaches the servers at `addrs`.
    pub(crate) fn variables(&self, client: usize, addrs: &[SocketAddr]) -> Vec<(String, String)> {
        let Attack { ttl, key, .. } = &*self.attack;
        let password = self.servers[0].endpoint.password().unwrap_or_default();
        let urls: Vec<String> =
            addrs.iter().map(|addr| format!("redis://:{password}@{addr}/0")).collect();
        let addr = addrs[0];
        let variables = [
            ("REDIS_URL", urls[0].clone()),
            ("REDIS_URLS", urls.join(",")),
            ("REDIS_HOST", addr.ip().to_string()),
            ("REDIS_PORT", addr.port().to_string()),
            ("REDIS_PASSWORD", password.to_owned()),
            ("PICKLOCK_KEY", key.clone()),
            ("PICKLOCK_TTL_MS", ttl.as_millis().to_string()),
            ("PICKLOCK_CLIENT", client.to_string()),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// Has a worker acquire, check and release the free lock.
    async fn warm_up(&self, worker: &mut Worker) -> Result<(), AttackError> {
        let within = self.attack.answer_within;
        for order in [Order::Acquire, Order::Check, Order::Release] {
            let (_, answer) = worker.ask(order, within).await?;
            let word = order.word();
            let said = match answer {
                // Believed, it would end every hold before a fault could harm it.
                WorkerAnswer::Ok(_) if order == Order::Check && worker.lost().is_some() => {
                    format!("said `lost` while it had the lock and answered `{word}` with `ok`")
                }
                WorkerAnswer::Ok(_) => continue,
                WorkerAnswer::Unknown(why) => {
                    format!("answered `{word}` with `unknown {}`", cut(&why))
                }
                WorkerAnswer::No => format!("answered `{word}` with `no`"),
            };
            return Err(AttackError::NoLock(format!(
                "without any fault the worker {said}, though no other client wanted the lock"
            )));
        }
        Ok(())
    }
}
