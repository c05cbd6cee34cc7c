//! The live worlds: real sockets, real time.
