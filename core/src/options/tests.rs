//! Both sides of every boundary of the options.

use super::*;

const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

fn exact(ttl: Duration) -> OptionsBuilder {
    Options::builder(ttl).drift(Drift::NONE)
}

fn renewed(ttl: Duration, every: Duration) -> Result<Options, OptionsError> {
    exact(ttl).renewal(Renewal { every, max_hold: None }).build()
}

#[test]
fn a_ttl_has_two_ends() {
    let short = MS.saturating_sub(NS);
    assert_eq!(exact(short).build(), Err(OptionsError::TtlTooShort { ttl: short }));
    assert_eq!(
        exact(Duration::ZERO).build(),
        Err(OptionsError::TtlTooShort { ttl: Duration::ZERO })
    );
    assert_eq!(exact(MS).build().unwrap().ttl(), MS);
    assert_eq!(exact(TTL_MAX).build().unwrap().ttl(), TTL_MAX);
    let long = TTL_MAX + NS;
    assert_eq!(exact(long).build(), Err(OptionsError::TtlTooLong { ttl: long, max: TTL_MAX }));
}

#[test]
fn a_ttl_is_cut_to_milliseconds_before_validity_is_counted() {
    let options = exact(2 * MS - NS).build().unwrap();
    assert_eq!((options.ttl(), options.validity()), (MS, MS));
}

#[test]
fn the_drift_allowance_leaves_something() {
    let with = |fixed| exact(10 * MS).drift(Drift { ppm: 0, fixed }).build();
    assert_eq!(with(10 * MS - NS).unwrap().validity(), NS);
    assert_eq!(with(10 * MS), Err(OptionsError::NothingLeft { ttl: 10 * MS, allowance: 10 * MS }));
    assert!(Options::builder(2 * MS).build().is_err(), "the default allowance is over 2 ms");
    assert!(Options::builder(3 * MS).build().is_ok());
}

#[test]
fn a_renewal_comes_before_validity_ends() {
    assert_eq!(renewed(10 * MS, Duration::ZERO), Err(OptionsError::RenewalZero));
    assert!(renewed(10 * MS, NS).is_ok());
    assert!(renewed(10 * MS, 10 * MS - NS).is_ok());
    assert_eq!(
        renewed(10 * MS, 10 * MS),
        Err(OptionsError::RenewalTooLate { every: 10 * MS, validity: 10 * MS })
    );
    // Compared with validity, not with the TTL.
    let drift = Drift { ppm: 0, fixed: 4 * MS };
    let renewal = Renewal { every: 6 * MS, max_hold: None };
    let options = exact(10 * MS).drift(drift).renewal(renewal).build();
    assert_eq!(options, Err(OptionsError::RenewalTooLate { every: 6 * MS, validity: 6 * MS }));
}

#[test]
fn the_other_spans_are_not_zero() {
    let renewal = |max_hold| Renewal { every: MS, max_hold: Some(max_hold) };
    let build = |max_hold| exact(10 * MS).renewal(renewal(max_hold)).build();
    assert_eq!(build(Duration::ZERO), Err(OptionsError::MaxHoldZero));
    assert!(build(NS).is_ok());
    let timeout = |span| exact(10 * MS).call_timeout(span).build();
    assert_eq!(timeout(Duration::ZERO), Err(OptionsError::CallTimeoutZero));
    assert!(timeout(NS).is_ok());
}

#[test]
fn no_answer_is_waited_for_beyond_the_ttl() {
    let timeout = |span| exact(10 * MS).call_timeout(span).build().unwrap();
    assert_eq!(timeout(10 * MS - NS).call_timeout(), 10 * MS - NS);
    assert_eq!(timeout(Duration::MAX).call_timeout(), 10 * MS);
    assert_eq!(timeout(Duration::MAX).linger(), 20 * MS);
}

#[test]
fn replicas_are_waited_for_within_a_call() {
    let build = |count, within| exact(30 * MS).call_timeout(10 * MS).wait_for(count, within);
    assert_eq!(build(0, MS).build(), Err(OptionsError::ReplicasZero));
    let refused = |within| OptionsError::ReplicasTime { within, call_timeout: 10 * MS };
    for within in [MS - NS, 10 * MS] {
        assert_eq!(build(1, within).build(), Err(refused(within)));
    }
    for within in [MS, 10 * MS - NS] {
        let replicas = build(1, within).build().unwrap().replicas();
        assert_eq!(replicas, Some(Replicas { count: 1, within }));
    }
}

#[test]
fn defaults_follow_the_ttl() {
    let short = exact(300 * MS).watchdog().build().unwrap();
    assert_eq!(short.call_timeout(), 100 * MS);
    assert_eq!(short.linger(), 400 * MS);
    assert_eq!(short.renewal(), Some(Renewal { every: 100 * MS, max_hold: None }));
    let long = exact(Duration::from_secs(30)).build().unwrap();
    assert_eq!(long.call_timeout(), Duration::from_secs(2));
    assert_eq!(long.renewal(), None);
}

#[test]
fn a_key_has_two_ends() {
    assert_eq!(check_key_len(0), Err(OptionsError::KeyEmpty));
    assert_eq!(check_key_len(1), Ok(()));
    assert_eq!(check_key_len(KEY_LEN_MAX), Ok(()));
    let len = KEY_LEN_MAX + 1;
    assert_eq!(check_key_len(len), Err(OptionsError::KeyTooLong { len }));
}
