//! The options SET and GETEX share: EX, PX, EXAT, PXAT, KEEPTTL, PERSIST, NX, XX, GET; and what later
//! servers compare: IFEQ, IFNE.
//!
//! Invariant: combinations are refused exactly where redis-server 7.0 refuses them: `EX 1 EX 2` is
//! taken (the last one counts), `EX 1 PX 2` is a syntax error; and those of a later server where it does.

use resp::{ErrorReply, decimal, until_nul};
use scenarios::topology::Software;

use crate::server::Request;

/// The longest option is one byte shorter.
const WORD_BYTES: usize = 8;

/// An option in small letters as one number, with zeros behind it: it is compared with many. As in C,
/// a NUL ends the argument; 0 for one that is longer than any option.
fn word(arg: &[u8]) -> u64 {
    let arg = until_nul(arg);
    if arg.len() < WORD_BYTES { packed(arg) } else { 0 }
}

const fn packed(word: &[u8]) -> u64 {
    let (mut number, mut place) = (0, word.len());
    while place > 0 {
        place -= 1;
        number = number << 8 | word[place].to_ascii_lowercase() as u64;
    }
    number
}

const NX: u64 = packed(b"nx");
const XX: u64 = packed(b"xx");
const IFEQ: u64 = packed(b"ifeq");
const IFNE: u64 = packed(b"ifne");
const GET: u64 = packed(b"get");
const KEEPTTL: u64 = packed(b"keepttl");
const PERSIST: u64 = packed(b"persist");
const EX: u64 = packed(b"ex");
const PX: u64 = packed(b"px");
const EXAT: u64 = packed(b"exat");
const PXAT: u64 = packed(b"pxat");

/// The unit and base of an expiry argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpireUnit {
    ms: i64,
    /// It is a point in time rather than a span.
    pub(crate) is_absolute: bool,
}

impl ExpireUnit {
    pub(crate) const EX: Self = Self { ms: 1_000, is_absolute: false };
    pub(crate) const PX: Self = Self { ms: 1, is_absolute: false };
    pub(crate) const EXAT: Self = Self { ms: 1_000, is_absolute: true };
    pub(crate) const PXAT: Self = Self { ms: 1, is_absolute: true };

    fn of(word: u64) -> Option<Self> {
        match word {
            EX => Some(Self::EX),
            PX => Some(Self::PX),
            EXAT => Some(Self::EXAT),
            PXAT => Some(Self::PXAT),
            _ => None,
        }
    }
}

/// Which command the options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// SET of this server.
    Set(Software),
    GetEx,
}

/// What SET asks of the value that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison<'a> {
    /// Whether it must be the same, and not another.
    pub(crate) equal: bool,
    pub(crate) value: &'a [u8],
}

/// The options of one command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExpireOptions<'a> {
    pub(crate) only_if_absent: bool,
    pub(crate) only_if_present: bool,
    pub(crate) compared: Option<Comparison<'a>>,
    pub(crate) get: bool,
    pub(crate) keep_ttl: bool,
    pub(crate) persist: bool,
    pub(crate) expiry: Option<(ExpireUnit, &'a [u8])>,
}

impl For {
    /// Whether it knows this condition: [`IFEQ`] or [`IFNE`].
    fn compares(self, word: u64) -> bool {
        match self {
            Self::Set(Software::Redis84) => true,
            Self::Set(Software::Valkey9) => word == IFEQ,
            Self::Set(Software::Redis70) | Self::GetEx => false,
        }
    }
}

impl Comparison<'_> {
    /// Whether a key that holds this is as it should be.
    pub(crate) fn holds(&self, held: &[u8]) -> bool {
        (held == self.value) == self.equal
    }
}

impl<'a> ExpireOptions<'a> {
    /// Reads the arguments behind key and value.
    pub(crate) fn parse(args: &[&'a [u8]], command: For) -> Result<Self, ErrorReply> {
        let mut options = Self::default();
        let set = command != For::GetEx;
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            let alone = options.compared.is_none();
            let word = word(arg);
            match word {
                NX if set && !options.only_if_present && alone => {
                    options.only_if_absent = true;
                }
                XX if set && !options.only_if_absent && alone => {
                    options.only_if_present = true;
                }
                IFEQ | IFNE if command.compares(word) => {
                    let equal = word == IFEQ;
                    // Redis takes the same condition twice, and the last one counts.
                    let same = options.compared.is_some_and(|it| it.equal == equal);
                    let first = alone && !options.only_if_absent && !options.only_if_present
                        || same && command == For::Set(Software::Redis84);
                    let value = args.next().filter(|_| first).ok_or(ErrorReply::SYNTAX)?;
                    options.compared = Some(Comparison { equal, value });
                }
                GET if set => options.get = true,
                KEEPTTL if set && options.expiry.is_none() => options.keep_ttl = true,
                PERSIST if !set && options.expiry.is_none() => options.persist = true,
                _ => {
                    let unit = ExpireUnit::of(word).ok_or(ErrorReply::SYNTAX)?;
                    let other = options.expiry.is_some_and(|(before, _)| before != unit);
                    if options.keep_ttl || options.persist || other {
                        return Err(ErrorReply::SYNTAX);
                    }
                    options.expiry = Some((unit, args.next().ok_or(ErrorReply::SYNTAX)?));
                }
            }
        }
        Ok(options)
    }

    /// When the key is to expire, in milliseconds since the epoch.
    pub(crate) fn when(&self, request: &Request<'_>) -> Result<Option<i64>, ErrorReply> {
        let Some((unit, text)) = self.expiry else { return Ok(None) };
        expires_at_ms(unit, text, request).map(Some)
    }
}

/// An expiry argument of SET and its kind, which must lie after the epoch.
pub(crate) fn expires_at_ms(
    unit: ExpireUnit,
    text: &[u8],
    request: &Request<'_>,
) -> Result<i64, ErrorReply> {
    let value = decimal(text).ok_or(ErrorReply::NOT_AN_INTEGER)?;
    let span = value.checked_mul(unit.ms).filter(|_| value > 0);
    let base_ms = if unit.is_absolute { 0 } else { request.now_ms() };
    let based = span.and_then(|span| span.checked_add(base_ms));
    based.ok_or_else(|| invalid_expire_time(request))
}

/// `ERR invalid expire time in '…' command`.
pub(crate) fn invalid_expire_time(request: &Request<'_>) -> ErrorReply {
    ErrorReply::of(format!("ERR invalid expire time in '{}' command", request.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &'static str) -> Result<ExpireOptions<'static>, ErrorReply> {
        parse_for(Software::Redis70, line)
    }

    fn parse_for(
        software: Software,
        line: &'static str,
    ) -> Result<ExpireOptions<'static>, ErrorReply> {
        let args: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        ExpireOptions::parse(&args, For::Set(software))
    }

    #[test]
    fn each_server_knows_its_own_conditions() {
        let [redis_70, redis_84, valkey_9] =
            [Software::Redis70, Software::Redis84, Software::Valkey9];
        for (line, taken) in [
            ("IFEQ a", &[redis_84, valkey_9][..]),
            ("px 5 ifeq a GET", &[redis_84, valkey_9]),
            ("IFNE a", &[redis_84]),
            ("IFEQ a IFEQ b", &[redis_84]),
            ("IFNE a ifne b", &[redis_84]),
            ("IFEQ a IFNE a", &[]),
            ("IFEQ a NX", &[]),
            ("XX IFNE a", &[]),
            ("IFEQ", &[]),
        ] {
            for software in [redis_70, redis_84, valkey_9] {
                let is_taken = parse_for(software, line).is_ok();
                assert_eq!(is_taken, taken.contains(&software), "{line} on {software:?}");
            }
        }
        let last = parse_for(redis_84, "IFEQ a IFEQ b").unwrap().compared.unwrap();
        assert!(last.holds(b"b") && !last.holds(b"a"));
        let other = parse_for(redis_84, "IFNE b").unwrap().compared.unwrap();
        assert!(other.holds(b"a") && !other.holds(b"b"));
    }

    #[test]
    fn options_combine_as_in_redis() {
        for line in ["nx px 5", "XX GET KEEPTTL", "EX 1 EX 2", "NX NX", "px 1 nx get"] {
            assert!(parse(line).is_ok(), "{line}");
        }
        for line in ["NX XX", "EX", "EX 1 PX 2", "KEEPTTL EX 1", "EX 1 KEEPTTL", "PERSIST", "n"] {
            assert_eq!(parse(line).unwrap_err(), ErrorReply::SYNTAX, "{line}");
        }
    }

    #[test]
    fn expiry_overflows_on_neither_side() {
        let request = Request { now_us: 1_000_000, session: 0, args: &[b"SET"] };
        let at = |unit, text: &str| expires_at_ms(unit, text.as_bytes(), &request);
        assert_eq!(at(ExpireUnit::PX, "5"), Ok(1_005));
        assert_eq!(at(ExpireUnit::EXAT, "5"), Ok(5_000));
        assert_eq!(at(ExpireUnit::PX, "9223372036854774807"), Ok(i64::MAX));
        for (unit, text) in [
            (ExpireUnit::PX, "0"),
            (ExpireUnit::PX, "-1"),
            (ExpireUnit::PX, "9223372036854774808"),
            (ExpireUnit::EX, "9223372036854776"),
        ] {
            assert_eq!(at(unit, text), Err(invalid_expire_time(&request)), "{text}");
        }
        assert_eq!(at(ExpireUnit::EX, "x"), Err(ErrorReply::NOT_AN_INTEGER));
    }
}
