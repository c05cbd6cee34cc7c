//! The Redis model: what a server would answer, given the time and a command. Sans-I/O.
