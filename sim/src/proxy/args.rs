//! What `picklock proxy` takes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;

use crate::args::seed;

/// What `proxy` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Where to listen, such as 127.0.0.1:6400 or cache=6400; without a host on this machine alone. May
    /// be repeated, with an --upstream for each
    #[arg(long, value_name = "[NAME=]ADDRESS", env = "PICKLOCK_LISTEN", value_delimiter = ',')]
    pub(crate) listen: Vec<String>,
    /// Where to lead, such as 127.0.0.1:6379, or rediss://redis.local:6380 for TLS
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PICKLOCK_UPSTREAM",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) upstream: Vec<String>,
    /// A fault, such as latency=5ms, 'drop-reply SET nth=3' or cut; may be repeated. docs/proxy.md has
    /// them all
    #[arg(long, value_name = "FAULT", env = "PICKLOCK_FAULT", value_delimiter = ';')]
    pub(crate) fault: Vec<String>,
    /// Let faults be switched over HTTP on this address of this machine, such as 8475, as with Toxiproxy
    #[arg(long, value_name = "ADDRESS", env = "PICKLOCK_CONTROL")]
    pub(crate) control: Option<String>,
    /// What latency is drawn from, and which connections are struck; drawn itself where it is not given
    #[arg(long, value_name = "N", value_parser = seed, env = "PICKLOCK_SEED", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Write every decision to this file, a JSON object a line
    #[arg(long, value_name = "FILE", env = "PICKLOCK_LOG")]
    pub(crate) log: Option<PathBuf>,
    /// Write every request as well
    #[arg(long, env = "PICKLOCK_LOG_REQUESTS", value_parser = BoolishValueParser::new())]
    pub(crate) log_requests: bool,
    /// Trust the certificates in this PEM file, for rediss://
    #[arg(long, value_name = "FILE", env = "PICKLOCK_TLS_CA")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Trust any certificate, for rediss://
    #[arg(long, env = "PICKLOCK_TLS_INSECURE", value_parser = BoolishValueParser::new(), conflicts_with = "tls_ca")]
    pub(crate) tls_insecure: bool,
}
