//! Exponential, logarithm and normal quantile from `+`, `-`, `*`, `/` and the square root alone.
//!
//! Invariant: the same arguments give the same bits on every machine. IEEE 754 fixes the results of
//! those five, and the compiler may not merge them; `f64::exp` and `f64::ln` are the platform's, and
//! would let a seed mean one history here and another there.
//!
//! Loops count down by hand: in a build that is not optimised an iterator costs several times what it
//! adds up, and tests of what is rare ask for millions of logarithms.

/// ln 2 in two parts; the first has so few digits that small multiples of it are exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// e to the power of `x`, to the last digit or two. Beyond ±700 the result is that of ±700.
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let twos = (x / (LN2_HIGH + LN2_LOW) + 0.5).floor();
    let rest = x - twos * LN2_HIGH - twos * LN2_LOW;
    // The rest is below 0.35, where fifteen terms of the series are more than a double holds.
    let (mut series, mut term) = (1.0, 15.0);
    while term > 0.0 {
        series = 1.0 + series * rest / term;
        term -= 1.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a whole number within ±1010")]
    let power = i64::from(twos as i32);
    series * f64::from_bits((1023 + power).unsigned_abs() << 52)
}

/// The natural logarithm, to the last digit or two, of a positive number that is not denormal.
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    let power = i32::try_from(bits >> 52).unwrap_or(0) - 1023;
    // Nearest to 1, where the series is shortest.
    let (mantissa, power) = if mantissa > std::f64::consts::SQRT_2 {
        (mantissa / 2.0, power + 1)
    } else {
        (mantissa, power)
    };
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let (mut series, mut odd) = (0.0, 25.0);
    while odd > 0.0 {
        series = series * square + 1.0 / odd;
        odd -= 2.0;
    }
    let twos = f64::from(power);
    twos * LN2_HIGH + (twos * LN2_LOW + 2.0 * s * series)
}

/// The point below which a standard normal variable lies with probability `share`, for shares
/// between 1e-10 and 1 − 1e-10; near 1 the share itself has few digits, so ask for 1 − share there.
///
/// Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics
/// 37 (1988), its PPND16 without the branch for shares below e⁻²⁵; to about sixteen digits.
pub(super) fn normal_quantile(share: f64) -> f64 {
    let q = share - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(&CENTRE, r);
    }
    let tail = if q < 0.0 { share } else { 1.0 - share };
    let r = (-ln(tail)).sqrt() - 1.6;
    let point = ratio(&TAIL, r);
    if q < 0.0 { -point } else { point }
}

/// As a double, whose digits do for shares; of durations beyond 104 days it loses the last nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "said above")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// The nearest whole number, or the nearest of 64 bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
pub(super) fn rounded(number: f64) -> u64 {
    number.round() as u64
}

/// One polynomial by another.
fn ratio(of: &[[f64; 8]; 2], r: f64) -> f64 {
    let at = |polynomial: &[f64; 8]| polynomial.iter().rev().fold(0.0, |sum, c| sum * r + c);
    at(&of[0]) / at(&of[1])
}

const CENTRE: [[f64; 8]; 2] = [
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
];

const TAIL: [[f64; 8]; 2] = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 4e-15 * expected.abs().max(1e-3)
    }

    #[test]
    fn they_agree_with_the_platforms() {
        for step in -2000..2000 {
            let x = f64::from(step) * 0.017;
            assert!(near(exp(x), x.exp()), "exp({x}) = {} and not {}", exp(x), x.exp());
            let y = x.exp();
            assert!(near(ln(y), y.ln()), "ln({y}) = {} and not {}", ln(y), y.ln());
        }
        assert!(exp(1e9).is_finite() && exp(-1e9) > 0.0);
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (share, point) in [
            (0.5, 0.0),
            (0.75, 0.674_489_750_196_081_7),
            (0.9, 1.281_551_565_544_600_4),
            (0.99, 2.326_347_874_040_841),
            (0.01, -2.326_347_874_040_841),
            (0.001, -3.090_232_306_167_813_5),
            (1e-6, -4.753_424_308_822_899),
            (1e-10, -6.361_340_902_404_056),
        ] {
            let found = normal_quantile(share);
            assert!((found - point).abs() < 1e-13, "{share}: {found} and not {point}");
        }
    }

    /// Fixed bits: a platform or a compiler that computes another way is found out here.
    #[test]
    fn the_bits_are_the_same_everywhere() {
        let mut sum = 0_u64;
        for step in 1..10_000_u32 {
            let share = f64::from(step) / 20_000.0;
            let value = exp(1.7 * normal_quantile(share)) + ln(share);
            sum = sum.rotate_left(5) ^ value.to_bits();
        }
        assert_eq!(sum, 0x3e34_f014_6209_f850, "{sum:#x}");
    }
}
