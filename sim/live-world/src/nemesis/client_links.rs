//! The clients' links to the servers of the lock, and how each is cut.
//!
//! Invariant: a link is cut in the same directions as its client, and in both while its server's machine has no power.

use fault_proxy::{Cut, Link, Upstream};

/// The clients' links, by client and then by node; with sentinels or in a cluster, to every server and sentinel.
#[derive(Default)]
pub(crate) struct ClientLinks {
    pub(super) links: Vec<Vec<Link>>,
    /// How many nodes are the lock's: faults do not strike the resource, whose node follows them.
    lock_nodes: usize,
    /// How each client is cut off.
    cuts: Vec<Cut>,
    /// By node, whether its server's machine has power.
    powered: Vec<bool>,
}

impl ClientLinks {
    /// Links of which none is cut yet.
    pub(crate) fn new(links: Vec<Vec<Link>>, lock_nodes: usize) -> Self {
        let cuts = vec![Cut::None; links.len()];
        let powered = vec![true; links.first().map_or(0, Vec::len)];
        Self { links, lock_nodes, cuts, powered }
    }

    pub(super) fn is_of_lock(&self, node: u16) -> bool {
        usize::from(node) < self.lock_nodes
    }

    /// Whether a client is cut off, or a server without power.
    pub(super) fn is_any_cut(&self) -> bool {
        self.cuts.iter().any(|it| *it != Cut::None) || self.powered.contains(&false)
    }

    /// Cuts or mends all links of a client.
    pub(super) fn cut(&mut self, client: u32, cut: Cut) {
        let client = client as usize;
        let Some(mine) = self.cuts.get_mut(client) else { return };
        *mine = cut;
        for node in 0..self.links[client].len() {
            self.apply(client, node);
        }
    }

    /// The machine of the server behind this link of every client loses its power, or has it again. Without power,
    /// clients hear nothing from it; only afterwards do they find out that their connections are broken.
    pub(super) fn set_power(&mut self, node: Option<usize>, on: bool) {
        let Some(node) = node else { return };
        if std::mem::replace(&mut self.powered[node], on) == on {
            return;
        }
        for client in 0..self.links.len() {
            if on {
                self.links[client][node].reset_connections();
            }
            self.apply(client, node);
        }
    }

    /// From now on node 0 leads to another server; connections to the old one stay.
    pub(super) fn redirect(&self, upstream: &Upstream) {
        for links in &self.links {
            links[0].set_upstream(upstream.clone());
        }
    }

    /// From now on node 0 leads these clients to another server; their connections to the old one are broken.
    pub(super) fn lead_away(&self, upstream: &Upstream, whom: impl Fn(u32) -> bool) {
        for (_, links) in (0_u32..).zip(&self.links).filter(|(client, _)| whom(*client)) {
            links[0].set_upstream(upstream.clone());
            links[0].reset_connections();
        }
    }

    fn apply(&self, client: usize, node: usize) {
        let cut = if self.powered[node] { self.cuts[client] } else { Cut::Both };
        self.links[client][node].cut(cut);
    }
}
