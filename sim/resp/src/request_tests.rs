//! Requests whole, cut anywhere, and broken.

use proptest::prelude::*;

use super::*;
use crate::encode_request;

fn parse(bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, String> {
    let mut parser = RequestParser::new();
    match parser.parse(bytes, true).map_err(|error| error.to_string())? {
        Parsed::Request { used } => {
            assert!(used <= bytes.len());
            let mut args = Vec::new();
            parser.args(bytes, &mut args);
            Ok(Some(args.into_iter().map(<[u8]>::to_vec).collect()))
        }
        Parsed::Nothing { .. } | Parsed::Incomplete => Ok(None),
    }
}

fn words(line: &str) -> Option<Vec<String>> {
    let words = split_args(line.as_bytes())?;
    Some(words.iter().map(|word| word.escape_ascii().to_string()).collect())
}

#[test]
fn protocol_errors_read_as_redis_writes_them() {
    for (bytes, error) in [
        (&b"*1\r\n$-1\r\n"[..], "Protocol error: invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "Protocol error: invalid bulk length"),
        (b"*x\r\n", "Protocol error: invalid multibulk length"),
        (b"*2147483648\r\n", "Protocol error: invalid multibulk length"),
        (b"*1\r\nx3\r\n", "Protocol error: expected '$', got 'x'"),
        (b"get \"a\r\n", "Protocol error: unbalanced quotes in request"),
        (b"get \"a\"b\r\n", "Protocol error: unbalanced quotes in request"),
    ] {
        assert_eq!(parse(bytes), Err(error.to_owned()), "{}", bytes.escape_ascii());
    }
    let long = vec![b'a'; INLINE_MAX_BYTES + 1];
    assert_eq!(parse(&long), Err("Protocol error: too big inline request".to_owned()));
    assert_eq!(parse(&long[1..]), Ok(None));
    let count = [b"*", &long[..]].concat();
    assert_eq!(parse(&count), Err("Protocol error: too big mbulk count string".to_owned()));
    let length = [b"*1\r\n$", &long[..]].concat();
    assert_eq!(parse(&length), Err("Protocol error: too big bulk count string".to_owned()));
}

#[test]
fn a_byte_that_is_no_text_is_shown_as_it_is() {
    let shown = |byte| ErrorReply::from(ProtocolError::ExpectedBulk(byte));
    assert_eq!(shown(0x9a).text(), b"ERR Protocol error: expected '$', got '\x9a'");
    assert_eq!(shown(b'x').text(), b"ERR Protocol error: expected '$', got 'x'");
}

#[test]
fn nothing_is_seen_behind_a_nul_before_the_end_of_a_line() {
    for bytes in [&b"*1\0\r\n$4\r\nPING\r\n"[..], b"*1\r\n$4\0\r\nPING\r\n", b"PING\0\r\n"] {
        assert_eq!(parse(bytes), Ok(None), "{}", bytes.escape_ascii());
    }
}

#[test]
fn before_auth_only_small_requests_are_read() {
    let mut parser = RequestParser::new();
    assert_eq!(parser.parse(b"*11\r\n", false), Err(ProtocolError::UnauthenticatedCount));
    let mut parser = RequestParser::new();
    let error = parser.parse(b"*1\r\n$16385\r\n", false);
    assert_eq!(error, Err(ProtocolError::UnauthenticatedLength));
    let mut parser = RequestParser::new();
    assert_eq!(parser.parse(b"*1\r\n$16384\r\n", false), Ok(Parsed::Incomplete));
}

#[test]
fn inline_words_follow_the_quoting_rules() {
    assert_eq!(words("\u{b}a\u{b}b\tc\u{c}"), Some(vec![r"a\x0bb".into(), r"c\x0c".into()]));
    assert_eq!(words("  set k v "), Some(vec!["set".into(), "k".into(), "v".into()]));
    assert_eq!(words(r#""\x41\n\q" 'it\'s'"#), Some(vec!["A\\nq".into(), "it\\'s".into()]));
    assert_eq!(words(r#"a"b c""#), Some(vec!["ab c".into()]));
    assert_eq!(words(""), Some(vec![]));
    assert_eq!(words("'a"), None);
    assert_eq!(words("\"a\\"), None);
}

#[test]
fn behind_a_nul_no_line_ends() {
    assert_eq!(parse(b"GET a\0b\r\nPING\r\n"), Ok(None));
    let long = [b"GET a\0", &vec![b'\n'; INLINE_MAX_BYTES][..]].concat();
    assert_eq!(parse(&long), Err("Protocol error: too big inline request".to_owned()));
}

#[test]
fn empty_requests_are_skipped() {
    let mut parser = RequestParser::new();
    assert_eq!(parser.parse(b"\r\nPING\r\n", true), Ok(Parsed::Nothing { used: 2 }));
    assert_eq!(parser.parse(b"*0\r\n", true), Ok(Parsed::Nothing { used: 4 }));
    assert_eq!(parser.parse(b"*-1\r\n", true), Ok(Parsed::Nothing { used: 5 }));
    assert_eq!(parser.parse(b"PING\r\n", true), Ok(Parsed::Request { used: 6 }));
}

#[test]
fn integers_are_as_strict_as_string2ll() {
    assert_eq!(decimal(b"-9223372036854775808"), Some(i64::MIN));
    assert_eq!(decimal(b"9223372036854775807"), Some(i64::MAX));
    for wrong in ["9223372036854775808", "-9223372036854775809", "+1", "01", "-0", "", "-", " 1"] {
        assert_eq!(decimal(wrong.as_bytes()), None, "{wrong}");
    }
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(
        prop_oneof![4 => proptest::sample::select(&b"*$\r\n-0123456789\"'\\x "[..]), 1 => any::<u8>()],
        0..60,
    )) {
        let mut parser = RequestParser::new();
        let mut rest = &bytes[..];
        while let Ok(Parsed::Nothing { used } | Parsed::Request { used }) = parser.parse(rest, true) {
            prop_assert!(used > 0 && used <= rest.len());
            rest = &rest[used..];
        }
    }

    #[test]
    fn a_request_cut_anywhere_reads_the_same(
        args in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 1..6),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut wire = Vec::new();
        encode_request(&args.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut wire);
        let mut parser = RequestParser::new();
        let cut = cut.index(wire.len());
        prop_assert_eq!(parser.parse(&wire[..cut], true), Ok(Parsed::Incomplete));
        prop_assert_eq!(parser.parse(&wire, true), Ok(Parsed::Request { used: wire.len() }));
        let mut read = Vec::new();
        parser.args(&wire, &mut read);
        prop_assert_eq!(read, args.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
}
