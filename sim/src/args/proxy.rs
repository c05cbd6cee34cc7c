//! Options of `proxy`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;

use super::number::seed;
use super::run::TlsArgs;

/// Options of `proxy`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Address to listen on, such as 127.0.0.1:6400 or cache=6400; without a host: loopback only. Repeatable,
    /// with one --upstream each
    #[arg(
        long,
        value_name = "[NAME=]ADDRESS",
        env = "PICKLOCK_LISTEN",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(crate) listen: Vec<String>,
    /// Redis server to forward to, such as 127.0.0.1:6379, or rediss://redis.local:6380 for TLS
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PICKLOCK_UPSTREAM",
        hide_env_values = true,
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pub(crate) upstream: Vec<String>,
    /// Fault to inject, such as latency=5ms, 'drop-reply SET nth=3' or cut; docs/proxy.md lists them all;
    /// repeatable
    #[arg(long, value_name = "FAULT", env = "PICKLOCK_FAULT", value_delimiter = ';')]
    pub(crate) fault: Vec<String>,
    /// Serve the control API (compatible with Toxiproxy) on this loopback port, such as 8475; with --token-file on any address
    #[arg(long, value_name = "ADDRESS", env = "PICKLOCK_CONTROL", allow_negative_numbers = true)]
    pub(crate) control: Option<String>,
    /// Answer only requests with the token in this file; it must be yours alone to change, and not for all to read
    #[arg(long, value_name = "FILE", env = "PICKLOCK_TOKEN_FILE", requires = "control")]
    pub(crate) token_file: Option<PathBuf>,
    /// Have replies name the proxies in the place of the servers that they lead to, so that clients of a cluster or of Sentinel
    /// stay behind them: one --listen and --upstream for each server
    #[arg(long, visible_aliases = ["cluster", "sentinel"], env = "PICKLOCK_REWRITE", value_parser = BoolishValueParser::new())]
    pub(crate) rewrite: bool,
    /// Seed of latencies, and of the connections that faults strike; default: random
    #[arg(long, value_name = "N", value_parser = seed, env = "PICKLOCK_SEED", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Log every fault to this file, one JSON object per line
    #[arg(long, value_name = "FILE", env = "PICKLOCK_LOG")]
    pub(crate) log: Option<PathBuf>,
    /// Log every request as well
    #[arg(long, env = "PICKLOCK_LOG_REQUESTS", value_parser = BoolishValueParser::new())]
    pub(crate) log_requests: bool,
    /// Whom to trust.
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}
