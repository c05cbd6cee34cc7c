//! Frames of every type, hostile ones, and any split of a stream.

use proptest::prelude::*;

use super::*;

fn all(mut scanner: Scanner, stream: &[u8]) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    let mut rest = stream;
    while let Some(frame) = scanner.scan(rest)? {
        frames.push(frame);
        rest = &rest[frame.len..];
    }
    assert!(rest.is_empty(), "{} bytes left over", rest.len());
    Ok(frames)
}

fn reply(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
    all(Scanner::replies(Limits::default()), bytes)
}

fn request(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
    all(Scanner::requests(Limits::default()), bytes)
}

#[test]
fn every_type_of_resp2_and_resp3_is_one_frame() {
    let frames: [&[u8]; 19] = [
        b"+OK\r\n",
        b":-12\r\n",
        b"$3\r\na\r\n\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",1.5\r\n",
        b"(12345678901234567890\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"%1\r\n+k\r\n*1\r\n:1\r\n",
        b"%0\r\n",
        b"~2\r\n:1\r\n:2\r\n",
        b"|1\r\n+ttl\r\n:3600\r\n:7\r\n",
        b"*1\r\n|1\r\n+a\r\n+b\r\n:1\r\n",
        b"|0\r\n+x\r\n",
    ];
    for bytes in frames {
        let whole = Frame { len: bytes.len(), kind: FrameKind::Value };
        assert_eq!(reply(bytes), Ok(vec![whole]), "{}", bytes.escape_ascii());
    }
}

#[test]
fn kinds_are_told_apart() {
    let kind = |bytes: &[u8]| reply(bytes).unwrap()[0].kind;
    assert_eq!(kind(b"-ERR no\r\n"), FrameKind::Error);
    assert_eq!(kind(b"!5\r\nERR n\r\n"), FrameKind::Error);
    assert_eq!(kind(b">2\r\n+a\r\n-b\r\n"), FrameKind::Push);
    assert_eq!(kind(b"|1\r\n+a\r\n+b\r\n>1\r\n+a\r\n"), FrameKind::Push);
    let kind = |bytes: &[u8]| request(bytes).unwrap()[0].kind;
    assert_eq!(kind(b"*1\r\n$4\r\nPING\r\n"), FrameKind::Command);
    assert_eq!(kind(b"PING\n"), FrameKind::Inline);
    assert_eq!(kind(b"\r\n"), FrameKind::Empty);
    assert_eq!(kind(b"*0\r\n"), FrameKind::Empty);
    assert_eq!(kind(b"*-1\r\n"), FrameKind::Empty);
    assert_eq!(kind(b"*-25\r\n"), FrameKind::Empty);
}

#[test]
fn hostile_numbers_are_refused() {
    assert_eq!(reply(b"$99999999999999999999\r\n"), Err(FrameError::BadNumber));
    assert_eq!(request(b"*2147483648\r\n"), Err(FrameError::BadNumber));
    assert_eq!(request(b"*--2\r\n"), Err(FrameError::BadNumber));
    assert_eq!(request(b"*-\r\n"), Err(FrameError::BadNumber));
    assert_eq!(reply(b"*-2\r\n"), Err(FrameError::BadNumber));
    assert_eq!(reply(b"%18446744073709551615\r\n"), Err(FrameError::BadNumber));
    assert_eq!(reply(b"$18446744073709551615\r\n"), Err(FrameError::BadNumber));
    assert_eq!(request(b"*1\r\n$536870913\r\n"), Err(FrameError::TooLong(512 << 20)));
    assert_eq!(reply(b"*?\r\n"), Err(FrameError::Streamed));
    assert_eq!(reply(b"$?\r\n"), Err(FrameError::Streamed));
    assert_eq!(reply(b"$-2\r\n"), Err(FrameError::BadNumber));
    assert_eq!(reply(b"$\r\n"), Err(FrameError::BadNumber));
    assert_eq!(reply(b"$1\r\nabc"), Err(FrameError::MissingCrLf));
    assert_eq!(reply(b"+OK\n"), Err(FrameError::MissingCrLf));
    assert_eq!(reply(b"hello"), Err(FrameError::UnknownType(b'h')));
    assert_eq!(request(b"*1\r\n:1\r\n"), Err(FrameError::NotBulk(b':')));
    assert_eq!(request(b"*1\r\n$-1\r\n"), Err(FrameError::BadNumber));
    assert_eq!(request(&[b'x'; 70_000]), Err(FrameError::TooLong(64 << 10)));
    assert_eq!(reply(&[b'*'; 100]), Err(FrameError::TooLong(NUMBER_LINE)));
}

#[test]
fn nesting_is_allowed_up_to_the_limit_and_no_further() {
    let nested = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
    assert_eq!(reply(&nested(128)).unwrap().len(), 1);
    assert_eq!(reply(&nested(129)), Err(FrameError::TooDeep(128)));
}

#[test]
fn a_reply_may_be_as_long_as_the_server_likes() {
    let scan = |bytes: &[u8]| Scanner::replies(Limits::default()).scan(bytes);
    for begun in [&b"*17000000\r\n:1\r\n"[..], b"*18446744073709551615\r\n", b"$99999999999\r\n"] {
        assert_eq!(scan(begun), Ok(None), "{}", begun.escape_ascii());
    }
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        "[a-z ]{0,9}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"_\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| bulk(&bytes)),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..5);
        let pairs = prop::collection::vec((inner.clone(), inner), 0..3);
        prop_oneof![
            list.prop_map(|items| [head_of('*', items.len()), items.concat()].concat()),
            pairs.prop_map(|pairs| {
                let body: Vec<u8> = pairs.iter().flat_map(|(k, v)| [&k[..], v].concat()).collect();
                [head_of('%', pairs.len()), body].concat()
            }),
        ]
    })
}

fn head_of(type_char: char, count: usize) -> Vec<u8> {
    format!("{type_char}{count}\r\n").into_bytes()
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [head_of('$', bytes.len()), bytes.to_vec(), b"\r\n".to_vec()].concat()
}

fn command() -> impl Strategy<Value = Vec<u8>> {
    let args = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 1..6);
    prop_oneof![
        args.prop_map(|args| {
            let body: Vec<u8> = args.iter().flat_map(|arg| bulk(arg)).collect();
            [head_of('*', args.len()), body].concat()
        }),
        "[A-Z]{1,9}( [a-z]{1,5}){0,3}\r?\n".prop_map(String::into_bytes),
    ]
}

/// Feeds `stream` in pieces of the given sizes, as reads would bring it. The beginnings of frames are kept, or let go.
fn in_pieces(mut scanner: Scanner, stream: &[u8], sizes: &[usize], keeps: bool) -> Vec<usize> {
    let mut lens = Vec::new();
    let (mut start, mut end, mut gone) = (0, 0, 0);
    let mut sizes = sizes.iter().copied().cycle();
    while end < stream.len() {
        end = (end + sizes.next().unwrap_or(1)).min(stream.len());
        while let Some(frame) = scanner.scan(&stream[start..end]).unwrap() {
            lens.push(frame.len + std::mem::take(&mut gone));
            start += frame.len;
        }
        if !keeps {
            let len = scanner.let_go(&stream[start..end]);
            (start, gone) = (start + len, gone + len);
        }
    }
    lens
}

proptest! {
    #[test]
    fn any_split_of_replies_gives_the_same_frames(
        values in prop::collection::vec(value(), 1..8),
        sizes in prop::collection::vec(1_usize..20, 1..20),
        keeps: bool,
    ) {
        let expected: Vec<usize> = values.iter().map(Vec::len).collect();
        let scanner = Scanner::replies(Limits::default());
        prop_assert_eq!(in_pieces(scanner, &values.concat(), &sizes, keeps), expected);
    }

    #[test]
    fn any_split_of_requests_gives_the_same_frames(
        commands in prop::collection::vec(command(), 1..8),
        sizes in prop::collection::vec(1_usize..20, 1..20),
        keeps: bool,
    ) {
        let expected: Vec<usize> = commands.iter().map(Vec::len).collect();
        let scanner = Scanner::requests(Limits::default());
        prop_assert_eq!(in_pieces(scanner, &commands.concat(), &sizes, keeps), expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(&b"*$%>|?-19\r\n"[..])], 0..200),
        requests: bool,
    ) {
        let limits = Limits::default();
        let mut scanner =
            if requests { Scanner::requests(limits) } else { Scanner::replies(limits) };
        let (mut start, mut end) = (0, 0);
        // Another that lets go of what it has seen says the same.
        let (mut forgetful, mut kept) = (scanner.clone(), 0);
        while end < bytes.len() {
            end += 1;
            let found = scanner.scan(&bytes[start..end]);
            let same = forgetful.scan(&bytes[kept..end]);
            prop_assert_eq!(same.map(|it| it.map(|it| (kept + it.len, it.kind))),
                found.map(|it| it.map(|it| (start + it.len, it.kind))));
            kept += match same {
                Ok(Some(frame)) => frame.len,
                _ => forgetful.let_go(&bytes[kept..end]),
            };
            match found {
                Ok(Some(frame)) => {
                    let whole = &bytes[start..start + frame.len];
                    let _ = (head(whole), RequestFrame::new(whole).args().count());
                    prop_assert!(frame.len > 0);
                    start += frame.len;
                }
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
}
