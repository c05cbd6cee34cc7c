//! How every test and every example of the workspace starts a redis-server of its own.
//!
//! It depends on no package of the workspace, so that the tests of all may use it.

mod redis_server;

pub use redis_server::RedisServer;
