//! Steps over items, attributes and brackets in masked code.
//!
//! Invariant: every step takes and gives byte offsets, and never goes beyond the end of the code.

/// The first offset at or after `at` that is not white space.
pub fn skip_space(code: &str, at: usize) -> usize {
    let rest = &code.as_bytes()[at.min(code.len())..];
    at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// The identifier at `at`; empty where there is none.
pub fn word_at(code: &str, at: usize) -> &str {
    let rest = code.get(at..).unwrap_or_default();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    &rest[..end]
}

/// The offset after the bracket that closes the one at `open`; the end of the code if none does.
pub fn close(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (place, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    code.len()
}

/// The offset after the attribute at `at`, or `None` where no attribute stands.
pub fn skip_attribute(code: &str, at: usize) -> Option<usize> {
    let rest = code.get(at..)?.strip_prefix('#')?;
    let open = at + 1 + usize::from(rest.starts_with('!'));
    code.get(open..)?.starts_with('[').then(|| close(code, open))
}

/// The offset after the item or statement at `at`: its `;`, the brace that closes its body, or the
/// end of the block around it. Its attributes may come first.
pub fn item_end(code: &str, at: usize) -> usize {
    let mut at = skip_space(code, at);
    while let Some(next) = skip_attribute(code, at) {
        at = skip_space(code, next);
    }
    while let Some(byte) = code.as_bytes().get(at) {
        at = match byte {
            b';' => return at + 1,
            b'{' => return close(code, at),
            b')' | b']' | b'}' => return at,
            b'(' | b'[' => close(code, at),
            _ => at + 1,
        };
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(code: &str) -> &str {
        &code[..item_end(code, 0)]
    }

    #[test]
    fn an_item_ends_with_its_body_or_its_semicolon() {
        assert_eq!(item("fn f() -> [u8; 3] { { } } fn g() {}"), "fn f() -> [u8; 3] { { } }");
        assert_eq!(item("#[a(b)] #[c] mod m; mod n;"), "#[a(b)] #[c] mod m;");
        assert_eq!(item("field: u8, }"), "field: u8, ");
        assert_eq!(item("fn f("), "fn f(");
    }

    #[test]
    fn attributes_are_stepped_over_whole() {
        assert_eq!(skip_attribute("#![a([])] b", 0), Some(9));
        assert_eq!(skip_attribute("#[a]", 0), Some(4));
        assert_eq!(skip_attribute("a", 0), None);
        assert_eq!(skip_attribute("", 0), None);
    }

    #[test]
    fn words_end_at_punctuation() {
        assert_eq!(word_at("use_it::now", 0), "use_it");
        assert_eq!(word_at("::", 0), "");
        assert_eq!(word_at("a", 7), "");
    }
}
