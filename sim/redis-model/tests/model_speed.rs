//! How long the model takes for the commands that schedules are made of. It measures and asserts
//! nothing, so it is run by hand: `cargo test --release -p redis-model --test model_speed -- --ignored --nocapture`.

use std::time::Instant;

use picklock::scripts::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};
use picklock::time::WallTime;
use redis_model::model::Model;
use redis_model::options::ModelOptions;

const ROUNDS: u32 = 1_000_000;

type Line<'a> = &'a [&'a [u8]];

#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
fn measure(name: &str, options: ModelOptions, lines: &[Line<'_>]) {
    let mut model = Model::new(options);
    let client = model.connect(WallTime::from_unix_ns(0), "127.0.0.1:1");
    if name.ends_with("replica") {
        model.attach_replica("127.0.0.1", 7001);
    }
    let mut best_ns = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for round in 0..ROUNDS {
            let now = WallTime::from_unix_ns(u64::from(round) * 10_000_000);
            for line in lines {
                std::hint::black_box(model.execute(now, client, line));
            }
            model.forget_stream(model.offset());
        }
        let taken_ns = start.elapsed().as_secs_f64() * 1e9;
        best_ns = best_ns.min(taken_ns / f64::from(ROUNDS));
    }
    println!("{name:<44}{best_ns:>8.0} ns");
}

#[test]
#[ignore = "a measurement: run it by hand, in release"]
fn time_of_the_common_commands() {
    let set: Line<'_> = &[b"SET", b"lock", b"0123456789abcdef0123", b"NX", b"PX", b"30000"];
    let (delete, extend) = (COMPARE_AND_DELETE.text(), COMPARE_AND_EXTEND.text());
    let token: &[u8] = b"0123456789abcdef0123";
    let eval_delete: Line<'_> = &[b"EVAL", delete.as_bytes(), b"1", b"lock", token];
    let sha_delete: Line<'_> =
        &[b"EVALSHA", COMPARE_AND_DELETE.sha1().as_bytes(), b"1", b"lock", token];
    let sha_extend: Line<'_> =
        &[b"EVALSHA", COMPARE_AND_EXTEND.sha1().as_bytes(), b"1", b"lock", token, b"30000"];
    let eval_extend: Line<'_> = &[b"EVAL", extend.as_bytes(), b"1", b"lock", token, b"30000"];
    let plain = ModelOptions::default;
    measure("GET of nothing", plain(), &[&[b"GET", b"lock"]]);
    measure("DECR", plain(), &[&[b"DECR", b"prizes"]]);
    measure("SET NX PX refused", plain(), &[set]);
    measure("SET NX PX, DEL", plain(), &[set, &[b"DEL", b"lock"]]);
    measure("SET NX PX, EVAL compare-and-delete", plain(), &[set, eval_delete]);
    measure(
        "the same, EVALSHA extend between",
        plain(),
        &[set, eval_delete, eval_extend, set, sha_extend, sha_delete],
    );
    measure("SET NX PX, DEL, for a replica", plain(), &[set, &[b"DEL", b"lock"]]);
    let lua = || ModelOptions { lua_only: true, ..ModelOptions::default() };
    measure("SET NX PX, EVAL compare-and-delete in Lua", lua(), &[set, eval_delete]);
}
