//! A Rust file as `syn` reads it, and what only a test build compiles of it.
//!
//! To syn the arguments of a macro are tokens. So a check that must see into them looks at `tokens`,
//! one that asks for items at `syntax`.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, LineColumn, Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::{Item, Meta, Token};

pub(crate) struct RustSource {
    /// Every token, flat: brackets are tokens too.
    pub(crate) tokens: Vec<RustToken>,
    pub(crate) syntax: syn::File,
    tests: Vec<RangeInclusive<LineColumn>>,
}

pub(crate) struct RustToken {
    /// As written, quotes included; punctuation is one character.
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl RustSource {
    /// Reads the text of a Rust file.
    ///
    /// # Errors
    /// Where rustc would not read it either.
    pub(crate) fn new(text: &str) -> syn::Result<Self> {
        let stream: TokenStream = text.parse()?;
        let mut tests = Vec::new();
        test_parts(stream.clone(), &mut tests);
        Ok(Self { tokens: flat(stream.clone()), syntax: syn::parse2(stream)?, tests })
    }

    /// True where the whole file is for tests: it begins with `#![cfg(test)]`.
    pub(crate) fn is_test(&self) -> bool {
        self.syntax.attrs.iter().any(|attribute| needs_test(&attribute.meta))
    }

    /// True where only a test build compiles what stands at `span`.
    pub(crate) fn is_test_at(&self, span: Span) -> bool {
        // The end, because the documentation of a test stands before its attribute.
        self.tests.iter().any(|part| part.contains(&span.end()))
    }

    /// The modules that only a test build compiles and that have files of their own.
    pub(crate) fn test_modules(&self) -> impl Iterator<Item = String> {
        self.syntax.items.iter().filter_map(|item| match item {
            Item::Mod(module) if module.content.is_none() => {
                self.is_test_at(module.ident.span()).then(|| module.ident.to_string())
            }
            _ => None,
        })
    }

    /// How many lines only a test build compiles.
    pub(crate) fn lines_of_tests(&self) -> usize {
        self.tests.iter().map(|part| part.end().line - part.start().line + 1).sum()
    }

    /// The tokens from each one on, as text, to be compared with patterns.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.tokens.iter().map(|token| token.text.as_str()).collect()
    }
}

impl RustToken {
    pub(crate) fn is_word(&self) -> bool {
        self.text.chars().all(|c| c.is_alphanumeric() || c == '_')
    }
}

/// The tokens with those inside brackets, and the brackets themselves, in one list.
pub(crate) fn flat(stream: TokenStream) -> Vec<RustToken> {
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    tokens
}

fn flatten(stream: TokenStream, tokens: &mut Vec<RustToken>) {
    for tree in stream {
        let TokenTree::Group(group) = tree else {
            tokens.push(RustToken { text: tree.to_string(), span: tree.span() });
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        tokens.push(RustToken { text: open.to_owned(), span: group.span_open() });
        flatten(group.stream(), tokens);
        tokens.push(RustToken { text: close.to_owned(), span: group.span_close() });
    }
}

/// Adds where the items and statements stand that an attribute keeps for tests.
fn test_parts(stream: TokenStream, parts: &mut Vec<RangeInclusive<LineColumn>>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut rest = &trees[..];
    while let [tree, after @ ..] = rest {
        rest = after;
        match (tree, after) {
            (TokenTree::Punct(hash), [TokenTree::Group(attribute), item @ ..])
                if hash.as_char() == '#'
                    && syn::parse2(attribute.stream()).is_ok_and(|meta| needs_test(&meta)) =>
            {
                let end = item.iter().position(|tree| is_semicolon(tree) || is_body(tree));
                let mut end = end.map_or(item.len(), |end| end + 1);
                // `use a::{b};` has a semicolon after what looks like its body.
                end += usize::from(item.get(end).is_some_and(is_semicolon));
                let last = item[..end].last().unwrap_or(tree);
                parts.push(hash.span().start()..=last.span().end());
                rest = &item[end..];
            }
            (TokenTree::Group(group), _) => test_parts(group.stream(), parts),
            _ => {}
        }
    }
}

fn is_semicolon(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ';')
}

fn is_body(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// True for `test`, `cfg(test)`, and for `cfg(all(…))` with `test` among its parts.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") || list.path.is_ident("all") => {
            let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(needs_test))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> RustSource {
        RustSource::new(text).expect("well formed")
    }

    #[test]
    fn comments_are_no_tokens_and_macros_hide_none() {
        let text = "// a\nfn f<'a>() { g!(r#\"h\"#, b::c, '\"', x: /* y */ u8) }";
        let tokens = "fn f < ' a > ( ) { g ! ( r#\"h\"# , b : : c , '\"' , x : u8 ) }";
        assert_eq!(source(text).texts().join(" "), tokens);
        for (text, line) in [("fn f( {}", 1), ("\n\"a", 2), ("use a;\n//! b", 2)] {
            let error = RustSource::new(text).err().expect("broken");
            assert_eq!(error.span().start().line, line, "{text}: {error}");
        }
    }

    #[test]
    fn what_only_tests_compile_is_known() {
        for (yes, lines) in [
            ("#[cfg(test)]\nmod tests { fn it() {} }", 2),
            ("#[cfg( test )] #[path = \"x\"] mod it;", 1),
            ("/// Docs.\n#[cfg(all(unix, all(test)))]\nfn it(\n) -> [u8; 3]\n{}", 4),
            ("mod a { impl B {\n#[cfg(test)] fn it() {} } }", 1),
            ("#[test]\nfn it() {}", 2),
            ("#[cfg(test)]\nuse a::{it};", 2),
        ] {
            let source = source(&format!("fn before() {{}}\n{yes}\nfn after() {{}}"));
            let at = |word| {
                let token = source.tokens.iter().find(|token| token.text == word);
                source.is_test_at(token.expect("it is there").span)
            };
            assert!((at("before"), at("it"), at("after")) == (false, true, false), "{yes}");
            assert_eq!(source.lines_of_tests(), lines, "{yes}");
        }
        for no in ["any(test, unix)", "not(test)", "all(unix, not(test))", "testing", "all()"] {
            assert_eq!(source(&format!("#[cfg({no})] fn f() {{}}")).lines_of_tests(), 0, "{no}");
        }
        assert!(source("#![cfg(test)]\nfn f() {}").is_test());
        assert!(!source("#![cfg(unix)]\nfn f() {}").is_test());
    }

    #[test]
    fn test_modules_of_other_files_are_named() {
        let text = "#[cfg(test)] #[a] pub(crate) mod far;\n#[cfg(test)] mod near {}\nmod plain;";
        assert_eq!(source(text).test_modules().collect::<Vec<_>>(), ["far"]);
    }
}
