//! RESP frame.
