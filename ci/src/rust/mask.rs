//! Blanks comments and the insides of literals, so that what is left is code.
//!
//! Invariant: the masked text has the length and the lines of the original, so an offset means the
//! same in both. Escapes in literals are not decoded: nothing here needs them.

/// A string literal: where it begins, and what stands between its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Offset of the opening quote.
    pub offset: usize,
    /// The text between the quotes, escapes as written.
    pub value: String,
}

/// RustSource text apart from its comments and literals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Masked {
    /// The text with every comment, and the inside of every literal, turned into spaces.
    pub code: String,
    /// The string literals, in order.
    pub literals: Vec<Literal>,
}

/// Splits `text` into code and literals.
pub fn mask(text: &str) -> Masked {
    let mut scan = Scan { text: text.as_bytes(), code: text.as_bytes().to_vec(), at: 0 };
    let mut literals = Vec::new();
    while scan.at < scan.text.len() {
        if let Some(inside) = scan.step() {
            let value = String::from_utf8_lossy(&scan.text[inside.0..inside.1]).into_owned();
            literals.push(Literal { offset: inside.0.saturating_sub(1), value });
        }
    }
    Masked { code: String::from_utf8_lossy(&scan.code).into_owned(), literals }
}

struct Scan<'a> {
    text: &'a [u8],
    code: Vec<u8>,
    at: usize,
}

impl Scan<'_> {
    /// Takes one token; the inside of a string literal if it was one.
    fn step(&mut self) -> Option<(usize, usize)> {
        let rest = &self.text[self.at..];
        if rest.starts_with(b"//") {
            let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            self.blank_to(self.at + end);
        } else if rest.starts_with(b"/*") {
            let end = self.comment_end();
            self.blank_to(end);
        } else if rest[0] == b'"' {
            return Some(self.quoted());
        } else if rest[0] == b'\'' {
            self.quote_or_lifetime();
        } else if is_ident(rest[0]) {
            return self.word();
        } else {
            self.at += 1;
        }
        None
    }

    /// Takes an identifier or number whole, so that a prefix such as `r` is seen only where a
    /// word is nothing else.
    fn word(&mut self) -> Option<(usize, usize)> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|&byte| is_ident(byte)) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if !matches!(word, b"r" | b"br" | b"cr" | b"b" | b"c") {
            return None;
        }
        let hashes = self.text[self.at..].iter().take_while(|&&byte| byte == b'#').count();
        let quote = self.text.get(self.at + hashes) == Some(&b'"');
        if quote && word.contains(&b'r') {
            self.at += hashes;
            return Some(self.raw(hashes));
        }
        (quote && hashes == 0).then(|| self.quoted())
    }

    /// A literal with escapes, from its opening quote.
    fn quoted(&mut self) -> (usize, usize) {
        let start = self.at + 1;
        let mut end = start;
        while end < self.text.len() && self.text[end] != b'"' {
            end += if self.text[end] == b'\\' { 2 } else { 1 };
        }
        self.take(start, end.min(self.text.len()), 1)
    }

    /// A raw literal, from its opening quote.
    fn raw(&mut self, hashes: usize) -> (usize, usize) {
        let start = self.at + 1;
        let mut close = vec![b'"'];
        close.resize(1 + hashes, b'#');
        let found = self.text[start..].windows(close.len()).position(|window| window == close);
        let end = found.map_or(self.text.len(), |place| start + place);
        self.take(start, end, close.len())
    }

    fn take(&mut self, start: usize, end: usize, close: usize) -> (usize, usize) {
        self.at = start.min(self.text.len());
        self.blank_to(end);
        self.at = (end + close).min(self.text.len());
        (start.min(end), end)
    }

    /// `'x'` and `'\n'` are characters; `'x` is a lifetime.
    fn quote_or_lifetime(&mut self) {
        let start = self.at + 1;
        let end = match self.text.get(start) {
            Some(b'\\') => {
                let tail = self.text.get(start + 2..).unwrap_or_default();
                tail.iter().position(|&byte| byte == b'\'').map(|place| start + 2 + place)
            }
            Some(&first) => {
                let after = start + utf8_len(first);
                (self.text.get(after) == Some(&b'\'')).then_some(after)
            }
            None => None,
        };
        match end {
            Some(end) => {
                self.take(start, end, 1);
            }
            None => self.at = start,
        }
    }

    /// Where the block comment that begins here ends; they nest.
    fn comment_end(&self) -> usize {
        let mut depth = 0_usize;
        let mut at = self.at;
        while at < self.text.len() {
            if self.text[at..].starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else if self.text[at..].starts_with(b"*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            } else {
                at += 1;
            }
        }
        self.text.len()
    }

    fn blank_to(&mut self, end: usize) {
        for byte in &mut self.code[self.at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        self.at = end;
    }
}

fn utf8_len(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        mask(text).literals.into_iter().map(|literal| literal.value).collect()
    }

    #[test]
    fn comments_go_and_offsets_stay() {
        let text = "a // é \"x\"\nb /* c /* d */ \"e\" */ f";
        let masked = mask(text);
        assert_eq!(masked.code.len(), text.len());
        assert_eq!(masked.code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "f"]);
        assert_eq!(masked.code.lines().count(), 2);
        assert!(masked.literals.is_empty());
    }

    #[test]
    fn every_kind_of_string_is_a_literal() {
        let text = r####"f("a\"b", b"c", r"d\", r##"e"#f"##, c"g", br#"h"#)"####;
        assert_eq!(values(text), ["a\\\"b", "c", "d\\", "e\"#f", "g", "h"]);
        assert!(!mask(text).code.contains('e'));
    }

    #[test]
    fn characters_are_not_lifetimes() {
        let text = "fn f<'a>(x: &'a str) -> char { '\"' } g('\\'', 'é', b'\"', \"s\")";
        assert_eq!(values(text), ["s"]);
        assert!(mask(text).code.contains("<'a>(x: &'a str)"));
    }

    #[test]
    fn raw_identifiers_and_prefixed_words_are_code() {
        let masked = mask("r#type number\"x\" bar");
        assert!(masked.code.starts_with("r#type number"));
        assert_eq!(masked.literals.len(), 1);
    }

    #[test]
    fn the_offset_is_that_of_the_quote() {
        assert_eq!(mask("x = \"y\";").literals[0].offset, 4);
        assert_eq!(mask("x = \"\";").literals[0].offset, 4);
    }

    #[test]
    fn an_unfinished_token_ends_with_the_text() {
        for text in ["\"abc", "\"abc\\", "/* a", "r#\"a\"", "'", "'\\", "b", "r#"] {
            assert_eq!(mask(text).code.len(), text.len(), "{text}");
        }
    }
}
