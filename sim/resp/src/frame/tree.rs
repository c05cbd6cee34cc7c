//! A complete frame as a tree of its elements, for the few replies whose meaning matters.
//!
//! Invariant: an element knows where in the frame it stands, so that one can be exchanged and every other
//! byte stay as it is; a frame that is deeper or has more elements than any such reply has no tree.
//! Attributes are skipped.

use std::ops::Range;

/// More elements than this has no reply whose meaning matters.
const ELEMENTS_MOST: usize = 1 << 18;
/// Nor is one deeper than this.
const DEPTH_MOST: usize = 16;

/// An element of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its type byte.
    pub kind: u8,
    /// Where it stands in the frame, its line ends included.
    pub span: Range<usize>,
    /// Where its text stands: of a verbatim string without the format before it, of an aggregate
    /// nowhere.
    pub text: Range<usize>,
    /// The null of either protocol.
    pub is_null: bool,
    /// The elements of an aggregate. A map has its keys and values in turn.
    pub parts: Vec<Element>,
}

impl Element {
    /// The tree of a frame that a [`Scanner`](super::Scanner) has found, or nothing where it has too
    /// many elements.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        Parser { frame, at: 0, elements: 0 }.element(0)
    }

    /// Its text in the frame.
    pub fn text_in<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.text.clone()).unwrap_or_default()
    }

    /// The element with this text instead, as bytes. Of an aggregate or a null there is none.
    pub fn with_text(&self, frame: &[u8], text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![self.kind];
        if matches!(self.kind, b'$' | b'!' | b'=') {
            let format = if self.kind == b'=' { self.text.start - 4 } else { self.text.start };
            let format = frame.get(format..self.text.start).unwrap_or_default();
            bytes.extend_from_slice((format.len() + text.len()).to_string().as_bytes());
            bytes.extend_from_slice(b"\r\n");
            bytes.extend_from_slice(format);
        }
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

struct Parser<'a> {
    frame: &'a [u8],
    at: usize,
    elements: usize,
}

impl Parser<'_> {
    fn element(&mut self, depth: usize) -> Option<Element> {
        self.elements += 1;
        if self.elements > ELEMENTS_MOST || depth > DEPTH_MOST {
            return None;
        }
        let start = self.at;
        let kind = *self.frame.get(start)?;
        let rest = self.frame.get(start + 1..)?;
        let line = start + 1..start + 1 + rest.iter().position(|byte| *byte == b'\r')?;
        self.at = line.end + 2;
        let number = || std::str::from_utf8(&self.frame[line.clone()]).ok()?.parse::<i64>().ok();
        let nowhere = start..start;
        let (mut text, mut is_null, mut parts) = (nowhere, false, Vec::new());
        match kind {
            b'$' | b'!' | b'=' => match usize::try_from(number()?) {
                Ok(len) => {
                    let from = if kind == b'=' && len >= 4 { self.at + 4 } else { self.at };
                    text = from..self.at.checked_add(len)?;
                    self.at = text.end.checked_add(2)?;
                }
                Err(_) => is_null = true,
            },
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let count = number()?;
                is_null = count < 0;
                let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                for _ in 0..count.checked_mul(each)? {
                    parts.push(self.element(depth + 1)?);
                }
            }
            b'_' => is_null = true,
            _ => text = line,
        }
        if kind == b'|' {
            return self.element(depth);
        }
        let span = start..self.at;
        (span.end <= self.frame.len()).then_some(Element { kind, span, text, is_null, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_know_their_text_and_their_place() {
        let frame = b"*5\r\n$2\r\nab\r\n:7\r\n%1\r\n+k\r\n=7\r\ntxt:abc\r\n$-1\r\n_\r\n";
        let tree = Element::parse(frame).unwrap();
        assert_eq!((tree.kind, tree.span.clone()), (b'*', 0..frame.len()));
        let texts: Vec<&[u8]> = tree.parts.iter().map(|part| part.text_in(frame)).collect();
        assert_eq!(texts, [&b"ab"[..], b"7", b"", b"", b""]);
        assert_eq!(tree.parts.iter().filter(|part| part.is_null).count(), 2);
        let map = &tree.parts[2].parts;
        assert_eq!((map[0].text_in(frame), map[1].text_in(frame)), (&b"k"[..], &b"abc"[..]));
        assert_eq!(&frame[map[1].span.clone()], b"=7\r\ntxt:abc\r\n");
    }

    #[test]
    fn an_element_is_written_anew_as_what_it_is() {
        for (frame, anew) in [
            (&b"$2\r\nab\r\n"[..], &b"$4\r\nlong\r\n"[..]),
            (b"=6\r\ntxt:ab\r\n", b"=8\r\ntxt:long\r\n"),
            (b"+ab\r\n", b"+long\r\n"),
            (b"-ab\r\n", b"-long\r\n"),
        ] {
            let tree = Element::parse(frame).unwrap();
            assert_eq!(tree.with_text(frame, b"long"), anew);
            assert_eq!(tree.with_text(frame, tree.text_in(frame)), frame);
        }
    }

    #[test]
    fn attributes_are_skipped_wherever_they_stand() {
        let frame = b"|1\r\n+a\r\n+b\r\n*1\r\n|1\r\n+a\r\n*1\r\n:0\r\n+x\r\n";
        let tree = Element::parse(frame).unwrap();
        assert_eq!((tree.kind, tree.parts.len(), tree.span.start), (b'*', 1, 12));
        assert_eq!(tree.parts[0].text_in(frame), b"x");
    }

    #[test]
    fn what_is_too_deep_or_too_much_has_no_tree() {
        let nested = |depth| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        assert!(Element::parse(&nested(DEPTH_MOST)).is_some());
        assert!(Element::parse(&nested(DEPTH_MOST + 1)).is_none());
        let wide =
            |count: usize| [format!("*{count}\r\n").into_bytes(), b":1\r\n".repeat(count)].concat();
        assert!(Element::parse(&wide(ELEMENTS_MOST - 1)).is_some());
        assert!(Element::parse(&wide(ELEMENTS_MOST)).is_none());
        assert!(Element::parse(b"|9\r\n").is_none(), "cut short");
        assert!(Element::parse(b"$9\r\nabc\r\n").is_none(), "cut short");
        assert!(Element::parse(b"$9223372036854775807\r\nabc\r\n").is_none());
    }
}
