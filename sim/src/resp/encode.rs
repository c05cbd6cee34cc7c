//! RESP encode.
