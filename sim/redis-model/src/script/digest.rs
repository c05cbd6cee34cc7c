//! The names by which EVALSHA calls scripts.

/// A digest as EVALSHA names it.
pub(crate) type ScriptDigest = [u8; 40];

/// The SHA-1 of a script in lower-case hexadecimal.
pub(crate) fn digest(body: &[u8]) -> ScriptDigest {
    let text = sha1_smol::Sha1::from(body).digest().to_string();
    text.as_bytes().try_into().expect("a SHA-1 has 40 digits")
}
