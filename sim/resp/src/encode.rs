//! Replies as bytes, in RESP2 and RESP3.
//!
//! Invariant: byte for byte what redis-server 7.0 writes for the same reply; a line break inside a status
//! or an error becomes a space, so that no reply can fake the end of another.

use crate::number::{double, integer};
use crate::reply::Reply;

/// The protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// RESP2, as every connection begins.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// Appends a request to `out`.
pub fn encode_request(args: &[&[u8]], out: &mut Vec<u8>) {
    count(b'*', args.len(), out);
    args.iter().for_each(|arg| bulk(b'$', arg, out));
}

/// Appends the reply to `out`.
pub fn encode(reply: &Reply, protocol: ProtocolVersion, out: &mut Vec<u8>) {
    let resp3 = protocol == ProtocolVersion::Resp3;
    match reply {
        Reply::Nil | Reply::NilArray if resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Status(text) => line(b'+', text, out),
        Reply::Error(fail) => line(b'-', fail.text(), out),
        Reply::Int(value) => number(b':', *value, out),
        Reply::Bulk(bytes) => bulk(b'$', bytes, out),
        Reply::Array(parts) => aggregate(b'*', parts.len(), parts, protocol, out),
        Reply::Map(parts) if resp3 => aggregate(b'%', parts.len() / 2, parts, protocol, out),
        Reply::Set(parts) if resp3 => aggregate(b'~', parts.len(), parts, protocol, out),
        Reply::Push(parts) if resp3 => aggregate(b'>', parts.len(), parts, protocol, out),
        Reply::Map(parts) | Reply::Set(parts) | Reply::Push(parts) => {
            aggregate(b'*', parts.len(), parts, protocol, out);
        }
        Reply::Burst(parts) => parts.iter().for_each(|part| encode(part, protocol, out)),
        Reply::Double(value) if resp3 => line(b',', double(*value).as_bytes(), out),
        Reply::Double(value) => bulk(b'$', double(*value).as_bytes(), out),
        Reply::Bool(value) if resp3 => {
            out.extend_from_slice(if *value { b"#t\r\n" } else { b"#f\r\n" });
        }
        Reply::Bool(value) => number(b':', i64::from(*value), out),
        Reply::BigNumber(digits) if resp3 => line(b'(', digits, out),
        Reply::BigNumber(digits) => bulk(b'$', digits, out),
        Reply::Verbatim(text) if resp3 => {
            count(b'=', text.len() + 4, out);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Verbatim(text) => bulk(b'$', text, out),
    }
}

fn aggregate(kind: u8, size: usize, parts: &[Reply], protocol: ProtocolVersion, out: &mut Vec<u8>) {
    count(kind, size, out);
    for part in parts {
        encode(part, protocol, out);
    }
}

fn bulk(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    count(kind, bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    let unbroken = |&byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
    out.extend(text.iter().map(unbroken));
    out.extend_from_slice(b"\r\n");
}

fn count(kind: u8, size: usize, out: &mut Vec<u8>) {
    match u8::try_from(size) {
        // Most counts and lengths of a stream of writes are of one digit.
        Ok(digit @ 0..=9) => out.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
        _ => number(kind, i64::try_from(size).unwrap_or(i64::MAX), out),
    }
}

fn number(kind: u8, value: i64, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&integer(value));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::ErrorReply;
    use crate::text::blob;

    fn both(reply: &Reply) -> (String, String) {
        let one = |protocol| {
            let mut out = Vec::new();
            encode(reply, protocol, &mut out);
            out.escape_ascii().to_string().replace("\\r\\n", " ")
        };
        (one(ProtocolVersion::Resp2), one(ProtocolVersion::Resp3))
    }

    #[test]
    fn each_kind_is_written_in_both_protocols() {
        let pair = vec![Reply::bulk("k"), Reply::Int(-1)];
        for (reply, resp2, resp3) in [
            (Reply::Nil, "$-1 ", "_ "),
            (Reply::NilArray, "*-1 ", "_ "),
            (Reply::Ok, "+OK ", "+OK "),
            (Reply::status("PONG"), "+PONG ", "+PONG "),
            (Reply::Error(ErrorReply::SYNTAX), "-ERR syntax error ", "-ERR syntax error "),
            (Reply::Int(i64::MIN), ":-9223372036854775808 ", ":-9223372036854775808 "),
            (Reply::bulk(""), "$0  ", "$0  "),
            (Reply::Array(pair.clone()), "*2 $1 k :-1 ", "*2 $1 k :-1 "),
            (Reply::Map(pair.clone()), "*2 $1 k :-1 ", "%1 $1 k :-1 "),
            (Reply::Set(pair.clone()), "*2 $1 k :-1 ", "~2 $1 k :-1 "),
            (Reply::Push(pair), "*2 $1 k :-1 ", ">2 $1 k :-1 "),
            (Reply::Double(3.5), "$3 3.5 ", ",3.5 "),
            (Reply::Double(f64::NEG_INFINITY), "$4 -inf ", ",-inf "),
            (Reply::Bool(true), ":1 ", "#t "),
            (Reply::Bool(false), ":0 ", "#f "),
            (Reply::BigNumber(blob(b"12")), "$2 12 ", "(12 "),
            (Reply::Verbatim(blob(b"hi")), "$2 hi ", "=6 txt:hi "),
        ] {
            assert_eq!(both(&reply), (resp2.to_owned(), resp3.to_owned()), "{reply:?}");
        }
    }

    #[test]
    fn a_line_break_cannot_fake_the_end_of_an_error() {
        let reply = Reply::Error(ErrorReply::of("ERR a\r\nb"));
        assert_eq!(both(&reply).0, "-ERR a  b ");
    }
}
