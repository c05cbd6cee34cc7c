//! Known scripts, natively and in Lua, on the same random states.

use picklock::time::WallTime;

use super::texts;
use crate::redis::effect::Effect;
use crate::redis::model::{ClientId, Model};
use crate::redis::options::Options;
use crate::redis::reply::Reply;

struct One {
    model: Model,
    client: ClientId,
}

impl One {
    fn new(native_scripts: bool) -> Self {
        let mut model = Model::new(Options { native_scripts, ..Options::default() });
        let client = model.connect(WallTime::from_unix_ns(0), "127.0.0.1:1");
        model.attach_replica("127.0.0.1", 7001);
        Self { model, client }
    }

    fn run(&mut self, now_ms: u64, args: &[&[u8]]) -> (Reply, Vec<Effect>) {
        let now = WallTime::from_unix_ns(now_ms * 1_000_000);
        let reply = self.model.execute(now, self.client, args);
        (reply, self.model.effects().to_vec())
    }

    fn stream(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        assert!(self.model.copy_stream(0, self.model.offset(), &mut stream));
        stream
    }
}

/// One request for both models.
type Line = Vec<Vec<u8>>;

fn lines() -> impl proptest::strategy::Strategy<Value = Vec<(u64, Line)>> {
    use proptest::prelude::*;
    let words = |line: &'static str| -> Line { line.split(' ').map(|word| word.into()).collect() };
    let plain = prop::sample::select(vec![
        "SET k a PX 30",
        "SET k b",
        "SET k a",
        "SET l a PX 10",
        "HSET k f v",
        "DEL k",
        "SELECT 1",
        "SELECT 0",
        "SCRIPT FLUSH",
        "MULTI",
        "EXEC",
        "WATCH k",
        "CONFIG SET appendonly yes",
    ])
    .prop_map(words);
    let script = prop::sample::select(texts());
    let rest = prop::sample::select(vec![
        "1 k a",
        "1 k b",
        "1 k a 20",
        "1 k a 0",
        "1 k a -5",
        "1 k a x",
        "2 k l a 15",
        "1 l a 10",
        "0",
        "0 a",
        "1 k",
        "x k a",
        "1 k a 9223372036854775807",
    ]);
    let eval = (script, rest, 0..4).prop_map(move |((text, ..), rest, form)| {
        let digest = sha1_smol::Sha1::from(text).digest().to_string();
        let body = match form {
            0 => return vec![b"SCRIPT".to_vec(), b"LOAD".to_vec(), text.into()],
            1 => (b"EVAL".to_vec(), text.as_bytes().to_vec()),
            2 => (b"EVALSHA".to_vec(), digest.into_bytes()),
            _ => (b"evalsha".to_vec(), digest.to_uppercase().into_bytes()),
        };
        [vec![body.0, body.1], words(rest)].concat()
    });
    prop::collection::vec((0..20_u64, prop_oneof![plain, eval]), 1..40)
}

proptest::proptest! {
    #[test]
    fn native_and_lua_cannot_be_told_apart(lines in lines()) {
        let (mut native, mut lua) = (One::new(true), One::new(false));
        let mut now_ms = 1_000;
        for (span_ms, line) in lines {
            now_ms += span_ms;
            let args: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
            proptest::prop_assert_eq!(native.run(now_ms, &args), lua.run(now_ms, &args));
        }
        let info: [&[u8]; 2] = [b"INFO", b"everything"];
        native.run(now_ms, &[b"DISCARD"]);
        lua.run(now_ms, &[b"DISCARD"]);
        proptest::prop_assert_eq!(native.run(now_ms, &info), lua.run(now_ms, &info));
        proptest::prop_assert_eq!(native.stream(), lua.stream());
    }
}
