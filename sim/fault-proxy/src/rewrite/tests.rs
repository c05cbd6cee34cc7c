//! Every reply that names servers, in both protocols, and those that only look like it.

use super::*;

/// A frame of these lines, separated by blanks: `.text` is a bulk string, `=text` a verbatim string, and
/// any other stands as it is. An underscore is a blank.
fn frame(lines: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines.split_whitespace() {
        let text = line[1..].replace('_', " ");
        let line = match line.as_bytes()[0] {
            b'.' => format!("${}\r\n{text}\r\n", text.len()),
            b'=' => format!("={}\r\ntxt:{text}\r\n", text.len() + 4),
            _ => line.replace('_', " ") + "\r\n",
        };
        bytes.extend_from_slice(line.as_bytes());
    }
    bytes
}

/// Servers on ports 6379 to 6381 have links on ports 40079 to 40081.
fn links() -> Addresses {
    let addresses = Addresses::default();
    for place in 79..=81_u16 {
        let of = |base| SocketAddr::from(([127, 0, 0, 1], base + place));
        addresses.insert(SocketAddr::from(([10, 0, 0, 1], 6300 + place)), of(40_000));
        addresses.insert(SocketAddr::from(([127, 0, 0, 1], 6300 + place)), of(40_000));
    }
    addresses
}

/// A rewritten reply, and the addresses left.
fn sent(asked: &AddressQuery, lines: &str) -> (Vec<u8>, Vec<String>) {
    let bytes = frame(lines);
    let own = Some([10, 0, 0, 1].into());
    let Rewritten { bytes: anew, left } = rewrite(&bytes, asked, &links(), own);
    (anew.map_or(bytes, |anew| anew.to_vec()), left)
}

#[track_caller]
fn becomes(asked: &AddressQuery, before: &str, after: &str) {
    let (bytes, left) = sent(asked, before);
    assert_eq!(bytes.escape_ascii().to_string(), frame(after).escape_ascii().to_string());
    assert_eq!(left, [""; 0]);
}

#[track_caller]
fn stays(asked: &AddressQuery, lines: &str) {
    becomes(asked, lines, lines);
}

#[test]
fn a_sentinel_names_the_primary() {
    let asked = AddressQuery::SentinelAddress;
    becomes(&asked, "*2 .10.0.0.1 .6379", "*2 .127.0.0.1 .40079");
    stays(&asked, "*-1");
    stays(&asked, "_");
    stays(&asked, "-IDONTKNOW_No_such_master");
}

#[test]
fn a_sentinel_lists_instances_in_both_protocols() {
    let (before, after) = (
        ".name .10.0.0.1:6380 .ip .10.0.0.1 .port .6380 .flags .slave .master-host .10.0.0.1 .master-port .6379",
        ".name .127.0.0.1:40080 .ip .127.0.0.1 .port .40080 .flags .slave .master-host .127.0.0.1 .master-port .40079",
    );
    for map in ["*12", "%6"] {
        let list = |fields| format!("*2 {map} {fields} {map} {fields}");
        becomes(&AddressQuery::SentinelInstances, &list(before), &list(after));
        becomes(
            &AddressQuery::SentinelInstance,
            &format!("{map} {before}"),
            &format!("{map} {after}"),
        );
    }
    // A primary has a name of its own, and a replica that knows no primary says so.
    let named = ".name .mymaster .ip .10.0.0.1 .port .6379 .master-host .? .master-port .0";
    let anew = named.replace("10.0.0.1 .port .6379", "127.0.0.1 .port .40079");
    becomes(&AddressQuery::SentinelInstance, &format!("%5 {named}"), &format!("%5 {anew}"));
    let sentinel = "*1 %3 .name .0123abc .ip .10.0.0.1 .port .26379";
    let (bytes, left) = sent(&AddressQuery::SentinelInstances, sentinel);
    assert_eq!((bytes, left), (frame(sentinel), vec!["10.0.0.1:26379".to_owned()]));
}

#[test]
fn what_a_sentinel_publishes_names_servers_in_its_words() {
    for head in ["*3 .message", ">3 .message", "*4 .pmessage .*", ">4 .pmessage .*"] {
        for (before, after) in [
            (
                ".+switch-master .m_10.0.0.1_6379_10.0.0.1_6380",
                ".+switch-master .m_127.0.0.1_40079_127.0.0.1_40080",
            ),
            (
                ".+slave .slave_10.0.0.1:6380_10.0.0.1_6380_@_m_10.0.0.1_6379",
                ".+slave .slave_127.0.0.1:40080_127.0.0.1_40080_@_m_127.0.0.1_40079",
            ),
            (".-sdown .master_m_10.0.0.1_6381", ".-sdown .master_m_127.0.0.1_40081"),
            (
                ".+odown .master_m_10.0.0.1_6379_#quorum_2/2",
                ".+odown .master_m_127.0.0.1_40079_#quorum_2/2",
            ),
        ] {
            becomes(
                &AddressQuery::Message,
                &format!("{head} {before}"),
                &format!("{head} {after}"),
            );
        }
    }
    let sentinel = "*3 .message .+sentinel .sentinel_ab12_10.0.0.1_26379_@_m_10.0.0.1_6379";
    let (bytes, left) = sent(&AddressQuery::Message, sentinel);
    let anew = sentinel.replace("10.0.0.1_6379", "127.0.0.1_40079");
    assert_eq!((bytes, left), (frame(&anew), vec!["10.0.0.1:26379".to_owned()]));
}

#[test]
fn other_messages_stay() {
    for message in [
        "*3 .message .news .m_10.0.0.1_6379_10.0.0.1_6380",
        "*3 .message .+switch-master .m_10.0.0.1_6379_10.0.0.1",
        "*3 .message .+switch-master .m_10.0.0.1_port_10.0.0.1_port",
        "*3 .message .+new-epoch .7",
        "*3 .message .+vote-for-leader .ab12_10.0.0.1_6379",
        "*3 .message .+slave .slave_x_10.0.0.1",
        "*3 .message .__sentinel__:hello .10.0.0.1,6379,ab12,0,m,10.0.0.1,6379,0",
    ] {
        stays(&AddressQuery::Message, message);
    }
}

#[test]
fn role_names_the_other_side() {
    becomes(
        &AddressQuery::Role,
        "*3 .master :3129 *2 *3 .10.0.0.1 .6380 .3129 *3 .10.0.0.1 .6381 .3100",
        "*3 .master :3129 *2 *3 .127.0.0.1 .40080 .3129 *3 .127.0.0.1 .40081 .3100",
    );
    becomes(
        &AddressQuery::Role,
        "*5 .slave .10.0.0.1 :6379 .connected :3167",
        "*5 .slave .127.0.0.1 :40079 .connected :3167",
    );
    stays(&AddressQuery::Role, "*2 .sentinel *1 .10.0.0.1:6379");
}

#[test]
fn cluster_slots_name_nodes_by_address_by_name_and_by_nothing() {
    let slots = |first: &str, second: &str, more: [&str; 2]| {
        let [none, ip] = more;
        format!(
            "*2 *3 :0 :5460 *4 {first} .id {none} \
             *4 :5461 :16383 *4 {second} .id {ip} *3 {second} .id"
        )
    };
    for [none, before, after] in [
        ["*0", "*2 .ip .10.0.0.1", "*2 .ip .127.0.0.1"],
        ["%0", "%1 .ip .10.0.0.1", "%1 .ip .127.0.0.1"],
    ] {
        becomes(
            &AddressQuery::ClusterSlots,
            &slots(".10.0.0.1 :6379", ".10.0.0.1 :6380", [none, before]),
            &slots(".127.0.0.1 :40079", ".127.0.0.1 :40080", [none, after]),
        );
    }
    // The host that the client is connected to, which for it is the link's.
    for nothing in [".", "$-1", "_"] {
        becomes(
            &AddressQuery::ClusterSlots,
            &format!("*1 *3 :0 :5460 *4 {nothing} :6379 .id *0"),
            &format!("*1 *3 :0 :5460 *4 {nothing} :40079 .id *0"),
        );
    }
    becomes(
        &AddressQuery::ClusterSlots,
        "*1 *3 :0 :1 *4 .db-1 :6379 .id *2 .ip .10.0.0.1",
        "*1 *3 :0 :1 *4 .127.0.0.1 :40079 .id *2 .ip .127.0.0.1",
    );
    let unknown = "*1 *3 :0 :1 *4 .db-1 :6379 .id *0";
    let (bytes, left) = sent(&AddressQuery::ClusterSlots, unknown);
    assert_eq!((bytes, left), (frame(unknown), vec!["db-1:6379".to_owned()]));
}

#[test]
fn cluster_shards_name_nodes_and_their_ports() {
    let shards = |maps: [&str; 2], host: &str, [port, tls]: [&str; 2]| {
        let [shard, node] = maps;
        format!(
            "*1 {shard} .slots *2 :0 :16383 .nodes *1 {node} .id .abc .port :{port} \
             .tls-port :{tls} .ip .{host} .endpoint .{host} .role .master .health .online"
        )
    };
    for maps in [["*4", "*14"], ["%2", "%7"]] {
        becomes(
            &AddressQuery::ClusterShards,
            &shards(maps, "10.0.0.1", ["6379", "6381"]),
            &shards(maps, "127.0.0.1", ["40079", "40081"]),
        );
    }
    becomes(
        &AddressQuery::ClusterShards,
        "*1 %1 .nodes *1 %3 .port :6380 .ip . .endpoint .",
        "*1 %1 .nodes *1 %3 .port :40080 .ip . .endpoint .",
    );
}

#[test]
fn cluster_nodes_keep_all_but_the_address() {
    let line = |place: &str| format!("abc_{place}_myself,master_-_0_0_1_connected_0-5460\n");
    let text = |places: [&str; 4], kind: &str| {
        let text = places.map(line).concat().replace('\n', "\x0b");
        format!("{kind}{text}")
    };
    let before = ["10.0.0.1:6379@16379", "10.0.0.1:6380@16380,db-2", ":6381@16381", ":0@0"];
    let after = ["127.0.0.1:40079@16379", "127.0.0.1:40080@16380,db-2", ":40081@16381", ":0@0"];
    for kind in [".", "="] {
        // Here a line end does not separate the lines of a frame.
        let [before, after] = [before, after].map(|places| text(places, kind));
        let feed = |text: &str| {
            let mut bytes = frame(&text.replace('\x0b', "~"));
            bytes.iter_mut().for_each(|byte| *byte = if *byte == b'~' { b'\n' } else { *byte });
            bytes
        };
        let own = Some([10, 0, 0, 1].into());
        let rewritten = rewrite(&feed(&before), &AddressQuery::ClusterNodes, &links(), own);
        assert_eq!(rewritten.left, [""; 0]);
        let got = rewritten.bytes.unwrap();
        assert_eq!(got.escape_ascii().to_string(), feed(&after).escape_ascii().to_string());
    }
    becomes(
        &AddressQuery::ClusterNodes,
        "*1 .abc_10.0.0.1:6380@16380_slave_def_0_0_1_connected",
        "*1 .abc_127.0.0.1:40080@16380_slave_def_0_0_1_connected",
    );
}

#[test]
fn redirections_are_rewritten_whatever_was_asked() {
    for asked in [AddressQuery::Other, AddressQuery::Role, AddressQuery::ClusterSlots] {
        becomes(&asked, "-MOVED_3999_10.0.0.1:6381", "-MOVED_3999_127.0.0.1:40081");
        becomes(&asked, "-ASK_3999_10.0.0.1:6381", "-ASK_3999_127.0.0.1:40081");
        becomes(&asked, "-MOVED_3999_:6381", "-MOVED_3999_:40081");
        stays(&asked, "-MOVED_by_10.0.0.1:6381");
        stays(&asked, "-MOVED_3999");
        stays(&asked, "-ERR_3999_10.0.0.1:6381");
    }
    let (_, left) = sent(&AddressQuery::Other, "-MOVED_3999_10.0.0.9:6381");
    assert_eq!(left, ["10.0.0.9:6381"]);
    let blob = b"!24\r\nMOVED 3999 10.0.0.1:6381\r\n";
    let anew = rewrite(blob, &AddressQuery::Other, &links(), None).bytes.unwrap();
    assert_eq!(&anew[..], b"!26\r\nMOVED 3999 127.0.0.1:40081\r\n");
}

#[test]
fn exec_has_the_answers_of_what_was_queued() {
    let asked =
        AddressQuery::Exec(vec![AddressQuery::Other, AddressQuery::Role, AddressQuery::Other]);
    becomes(
        &asked,
        "*3 -MOVED_1_10.0.0.1:6380 *5 .slave .10.0.0.1 :6379 .connected :1 *2 .10.0.0.1 .6379",
        "*3 -MOVED_1_127.0.0.1:40080 *5 .slave .127.0.0.1 :40079 .connected :1 *2 .10.0.0.1 .6379",
    );
    becomes(&asked, "-MOVED_1_10.0.0.1:6380", "-MOVED_1_127.0.0.1:40080");
    // If the numbers differ, it is not known which reply answers which request: redirections need no request.
    becomes(
        &asked,
        "*2 *5 .slave .10.0.0.1 :6379 .connected :1 -ASK_1_10.0.0.1:6380",
        "*2 *5 .slave .10.0.0.1 :6379 .connected :1 -ASK_1_127.0.0.1:40080",
    );
    stays(&asked, "*-1");
}

#[test]
fn replies_to_other_commands_stay_whatever_they_hold() {
    for lines in [
        "*2 .10.0.0.1 .6379",
        "*3 .master :0 *1 *3 .10.0.0.1 .6380 .1",
        "*1 -MOVED_3999_10.0.0.1:6381",
        ".MOVED_3999_10.0.0.1:6381",
        "*3 .message .+switch-master .m_10.0.0.1_6379_10.0.0.1_6380",
    ] {
        stays(&AddressQuery::Other, lines);
        assert!(!AddressQuery::Other.concerns(FrameKind::Value, &frame(lines)));
    }
    assert!(!AddressQuery::Role.concerns(FrameKind::Error, b"-ERR MOVED 1 10.0.0.1:6379\r\n"));
    assert!(AddressQuery::Other.concerns(FrameKind::Error, b"-MOVED 1 10.0.0.1:6379\r\n"));
    assert!(AddressQuery::Other.concerns(FrameKind::Error, b"!1\r\nx\r\n"));
    // The same if the answer does not have the expected shape.
    for asked in [
        AddressQuery::Role,
        AddressQuery::ClusterShards,
        AddressQuery::SentinelAddress,
        AddressQuery::Message,
    ] {
        stays(&asked, "+QUEUED");
        stays(&asked, "*1 *1 .10.0.0.1");
    }
}

#[test]
fn a_reply_that_is_too_big_is_left_and_noted() {
    let bytes = [b"*300000\r\n".to_vec(), b":1\r\n".repeat(300_000)].concat();
    let rewritten = rewrite(&bytes, &AddressQuery::Role, &links(), None);
    assert_eq!((rewritten.bytes, rewritten.left.len()), (None, 1));
}
