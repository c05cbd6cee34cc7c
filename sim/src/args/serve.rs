//! Options of `serve`.

use clap::Args;
use clap::builder::BoolishValueParser;

/// Options of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on; without a host: loopback only; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:6379",
        env = "PICKLOCK_LISTEN",
        allow_negative_numbers = true
    )]
    pub(crate) listen: String,
    /// Password that clients must give with AUTH; default: none
    #[arg(long, value_name = "PASSWORD", env = "PICKLOCK_PASSWORD", hide_env_values = true)]
    pub(crate) password: Option<String>,
    /// Run every script in Lua, as Redis does: the same results, slower
    #[arg(long, env = "PICKLOCK_LUA", value_parser = BoolishValueParser::new())]
    pub(crate) lua: bool,
}
