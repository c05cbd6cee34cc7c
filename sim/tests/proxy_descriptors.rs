//! Sockets that are not needed any more are closed. In a process of its own, which counts its files.

mod proxy_support;

use fault_proxy::{Effect, Latency, Side, Toxicity};
use proxy_support::{Pipe, eventually};

#[tokio::test]
async fn a_connection_of_which_both_ends_have_gone_is_over_even_if_half_open() {
    let pipe = Pipe::new(Latency::None, Latency::None).await;
    for side in [Side::Reply, Side::Request] {
        pipe.link.add_effect(side, Effect::HalfOpen, Toxicity::ALL);
    }
    let before = open_files();
    for _ in 0..8 {
        drop(pipe.connect().await);
    }
    eventually("its sockets are closed", || open_files() <= before).await;
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
