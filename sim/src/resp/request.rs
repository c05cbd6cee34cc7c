//! RESP request.
