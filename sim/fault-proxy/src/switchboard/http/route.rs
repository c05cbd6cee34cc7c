//! Routing of the control API: which request gets which response.
//!
//! Invariant: another method on a known path is answered with 405, any other path with 404.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use super::{ApiResponse, status};
use crate::switchboard::toxic::BodyFields;
use crate::switchboard::{
    ProxySpec, ProxyStatus, SwitchError, Switchboard, Toxic, ToxicError, listen_address,
    resolve_upstream,
};

/// Default number of log records in a response.
const RECORDS_USUALLY: usize = 1000;

type ApiResult = Result<ApiResponse, SwitchError>;

pub(super) fn answer(
    method: &Method,
    path: &str,
    query: &str,
    body: &[u8],
    board: &Switchboard,
) -> ApiResponse {
    let Some(words) = words(path) else {
        return ApiResponse::error(StatusCode::BAD_REQUEST, "the path is not valid UTF-8");
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answered = match (method, &words[..]) {
        (&Method::GET, ["version"]) => {
            ok(json!({ "version": format!("picklock-{}", env!("CARGO_PKG_VERSION")) }))
        }
        (&Method::POST, ["reset"]) => board.reset().map(|()| nothing()),
        (&Method::POST, ["populate"]) => populate(body, board),
        (&Method::GET, ["proxies"]) => {
            let all = board.all().into_iter().map(|it| (it.name.clone(), shown(&it)));
            ok(Value::Object(all.collect()))
        }
        (&Method::POST, ["proxies"]) => json(body).and_then(|value| create(&value, board)),
        (&Method::GET, ["proxies", name]) => board.one(name).and_then(|it| ok(shown(&it))),
        (&Method::POST | &Method::PATCH, ["proxies", name]) => {
            json(body).and_then(|value| change(name, &value, board))
        }
        (&Method::DELETE, ["proxies", name]) => board.remove(name).map(|()| nothing()),
        (&Method::GET, ["proxies", name, "log"]) => log(name, query, board),
        (&Method::GET, ["proxies", name, "toxics"]) => {
            board.one(name).and_then(|it| ok(json!(it.toxics)))
        }
        (&Method::POST, ["proxies", name, "toxics"]) => json(body).and_then(|value| {
            board.one(name)?;
            board.put(name, Toxic::from_json(&value)?).and_then(|toxic| ok(json!(toxic)))
        }),
        (&Method::GET, ["proxies", name, "toxics", toxic]) => {
            toxic_of(name, toxic, board).and_then(|toxic| ok(json!(toxic)))
        }
        (&Method::POST | &Method::PATCH, ["proxies", name, "toxics", toxic]) => json(body)
            .and_then(|value| {
                let anew = toxic_of(name, toxic, board)?.updated(&value)?;
                board.replace(name, anew).and_then(|toxic| ok(json!(toxic)))
            }),
        (&Method::DELETE, ["proxies", name, "toxics", toxic]) => {
            board.take(name, toxic).map(|()| nothing())
        }
        (
            _,
            ["version" | "reset" | "populate" | "proxies"]
            | ["proxies", _]
            | ["proxies", _, "log" | "toxics"]
            | ["proxies", _, "toxics", _],
        ) => {
            let says = format!("{method} is not supported here");
            return ApiResponse::error(StatusCode::METHOD_NOT_ALLOWED, says);
        }
        _ => {
            return ApiResponse::error(StatusCode::NOT_FOUND, format!("not found: {path}"));
        }
    };
    answered.unwrap_or_else(|error| ApiResponse::error(status(&error), error))
}

#[expect(clippy::unnecessary_wraps, reason = "a link in chains of what can fail")]
fn ok(body: Value) -> ApiResult {
    Ok(ApiResponse(StatusCode::OK, Some(body)))
}

fn nothing() -> ApiResponse {
    ApiResponse(StatusCode::NO_CONTENT, None)
}

fn json(body: &[u8]) -> Result<Value, SwitchError> {
    serde_json::from_slice(body).map_err(|error| ToxicError::Shape(error.to_string()).into())
}

fn shown(status: &ProxyStatus) -> Value {
    json!({
        "name": status.name,
        "listen": status.listen.to_string(),
        "upstream": status.upstream,
        "enabled": status.enabled,
        "toxics": status.toxics,
    })
}

fn toxic_of(name: &str, toxic: &str, board: &Switchboard) -> Result<Toxic, SwitchError> {
    let found = board.one(name)?.toxics.into_iter().find(|it| it.name == toxic);
    found.ok_or_else(|| SwitchError::NoToxic(toxic.to_owned()))
}

fn create(value: &Value, board: &Switchboard) -> ApiResult {
    let status = board.add(wanted(value)?)?;
    Ok(ApiResponse(StatusCode::CREATED, Some(shown(&status))))
}

/// Several proxies: those that exist already are changed as requested.
fn populate(body: &[u8], board: &Switchboard) -> ApiResult {
    let value = json(body)?;
    let list = value.as_array().ok_or_else(|| shape("it must be a list of proxies"))?;
    let wanted = list.iter().map(wanted).collect::<Result<Vec<ProxySpec>, _>>()?;
    let mut proxies = Vec::new();
    for wanted in wanted {
        let status = match board.one(&wanted.name) {
            Err(_) => board.add(wanted)?,
            Ok(there) => {
                // If no port was named, the proxy keeps the one that it got.
                let listen =
                    Some(wanted.listen).filter(|it| it.port() != 0 || it.ip() != there.listen.ip());
                let upstream = Some((wanted.upstream, wanted.way));
                board.change(&wanted.name, listen, upstream, Some(wanted.enabled))?
            }
        };
        proxies.push(shown(&status));
    }
    Ok(ApiResponse(StatusCode::CREATED, Some(json!({ "proxies": proxies }))))
}

fn wanted(value: &Value) -> Result<ProxySpec, SwitchError> {
    let fields = BodyFields::of_proxy(value)?;
    let needed = |name: &str| {
        let text = fields.text(name)?.filter(|it| !it.is_empty());
        text.map(str::to_owned).ok_or_else(|| ToxicError::Missing(name.to_owned()))
    };
    let (name, upstream) = (needed("name")?, needed("upstream")?);
    let listen = fields.text("listen")?.filter(|it| !it.is_empty()).unwrap_or("0");
    let listen = own_address(listen)?;
    let way = resolve_upstream(&upstream)?;
    let enabled = fields.boolean("enabled")?.unwrap_or(true);
    Ok(ProxySpec { name, listen, upstream, way, enabled })
}

fn change(name: &str, value: &Value, board: &Switchboard) -> ApiResult {
    board.one(name)?;
    let fields = BodyFields::of_proxy(value)?;
    if fields.text("name")?.is_some_and(|new| !new.is_empty() && new != name) {
        return Err(shape("name cannot be changed"));
    }
    let [listen, upstream] = ["listen", "upstream"].map(|name| fields.text(name));
    let listen = listen?.filter(|it| !it.is_empty()).map(own_address).transpose()?;
    let upstream = upstream?.filter(|it| !it.is_empty());
    let upstream =
        upstream.map(|it| resolve_upstream(it).map(|way| (it.to_owned(), way))).transpose()?;
    let enabled = fields.boolean("enabled")?;
    board.change(name, listen, upstream, enabled).and_then(|status| ok(shown(&status)))
}

/// Beyond loopback a proxy listens only where the command line has named it.
fn own_address(text: &str) -> Result<std::net::SocketAddr, SwitchError> {
    let addr = listen_address(text)?;
    if addr.ip().is_loopback() { Ok(addr) } else { Err(SwitchError::Beyond(text.to_owned())) }
}

/// The newest records: `?limit=` of them, and only those behind `?since=`.
fn log(name: &str, query: &str, board: &Switchboard) -> ApiResult {
    let (mut limit, mut since) = (RECORDS_USUALLY, 0);
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let wrong = || shape(format!("unknown parameter `{part}`: use limit=N and since=SEQ"));
        let (word, number) = part.split_once('=').ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        match word {
            "limit" => limit = usize::try_from(number).unwrap_or(usize::MAX),
            "since" => since = number,
            _ => return Err(wrong()),
        }
    }
    let records = board.records(name, limit, since)?;
    ok(records.iter().map(|record| record.to_json(name)).collect())
}

fn shape(says: impl Into<String>) -> SwitchError {
    ToxicError::Shape(says.into()).into()
}

/// The segments of a path, unescaped.
fn words(path: &str) -> Option<Vec<String>> {
    path.split('/').filter(|word| !word.is_empty()).map(unescaped).collect()
}

fn unescaped(word: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?].map(|it| char::from(it).to_digit(16));
        let [Some(high), Some(low)] = digits else { return None };
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switchboard::tests::board;

    /// Status and body of the response to `POST /path body`.
    fn ask(board: &Switchboard, line: &str) -> (u16, Value) {
        let (method, rest) = line.split_once(' ').unwrap();
        let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let method = method.parse().unwrap();
        let ApiResponse(status, body) = answer(&method, path, query, body.as_bytes(), board);
        (status.as_u16(), body.unwrap_or(Value::Null))
    }

    const CREATE: &str = r#"POST /proxies {"name":"r","upstream":"127.0.0.1:1"}"#;

    #[test]
    fn proxies_come_change_and_go() {
        let board = board();
        assert_eq!(ask(&board, "GET /proxies"), (200, json!({})));
        let (code, made) = ask(&board, CREATE);
        let seen = (code, made["name"].as_str(), &made["enabled"], &made["toxics"]);
        assert_eq!(seen, (201, Some("r"), &json!(true), &json!([])));
        assert_eq!(ask(&board, CREATE).0, 409);
        assert_eq!(ask(&board, "GET /proxies/r"), (200, made.clone()));
        assert_eq!(ask(&board, "GET /proxies"), (200, json!({ "r": made })));
        let (code, off) = ask(&board, r#"POST /proxies/r {"enabled":false}"#);
        assert_eq!((code, &off["enabled"], &off["listen"]), (200, &json!(false), &made["listen"]));
        let (code, to) =
            ask(&board, r#"PATCH /proxies/r {"upstream":"127.0.0.1:2","enabled":true}"#);
        assert_eq!(
            (code, &to["enabled"], &to["upstream"]),
            (200, &json!(true), &json!("127.0.0.1:2"))
        );
        assert_eq!(ask(&board, "POST /reset"), (204, Value::Null));
        assert_eq!(ask(&board, "DELETE /proxies/r"), (204, Value::Null));
        assert_eq!(ask(&board, "DELETE /proxies/r").0, 404);
    }

    #[test]
    fn toxics_come_change_and_go() {
        let board = board();
        ask(&board, CREATE);
        let post = r#"POST /proxies/r/toxics {"type":"latency","attributes":{"latency":5}}"#;
        let (code, made) = ask(&board, post);
        let toxic = json!({
            "name": "latency_downstream", "type": "latency", "stream": "downstream",
            "toxicity": 1.0, "attributes": {"latency": 5},
        });
        assert_eq!((code, made), (200, toxic.clone()));
        assert_eq!(ask(&board, post).0, 409);
        assert_eq!(ask(&board, "GET /proxies/r/toxics"), (200, json!([toxic])));
        let change = r#"PATCH /proxies/r/toxics/latency_downstream {"attributes":{"jitter":2}}"#;
        let (code, anew) = ask(&board, change);
        assert_eq!((code, &anew["attributes"]), (200, &json!({"latency": 5, "jitter": 2})));
        assert_eq!(ask(&board, "GET /proxies/r/toxics/latency_downstream"), (200, anew));
        let refused = ask(&board, r#"POST /proxies/r/toxics/latency_downstream {"toxicity":2}"#);
        assert_eq!(refused.0, 400);
        assert_eq!(ask(&board, "DELETE /proxies/r/toxics/latency_downstream").0, 204);
        assert_eq!(ask(&board, "DELETE /proxies/r/toxics/latency_downstream").0, 404);
        let (code, log) = ask(&board, "GET /proxies/r/log?limit=1");
        assert_eq!((code, &log[0]["event"]), (200, &json!("effect-taken")));
        assert_eq!(log.as_array().unwrap().len(), 1);
        let last = log[0]["seq"].as_u64().unwrap();
        assert_eq!(ask(&board, &format!("GET /proxies/r/log?since={last}")), (200, json!([])));
    }

    #[test]
    fn a_population_makes_what_is_missing_and_changes_what_is_there() {
        let board = board();
        let (_, made) = ask(&board, CREATE);
        let two = r#"POST /populate [{"name":"r","upstream":"127.0.0.1:3"},{"name":"s","upstream":"127.0.0.1:1","enabled":false}]"#;
        let (code, body) = ask(&board, two);
        assert_eq!((code, body["proxies"].as_array().map(Vec::len)), (201, Some(2)));
        assert_eq!(body["proxies"][0]["listen"], made["listen"]);
        assert_eq!(body["proxies"][0]["upstream"], json!("127.0.0.1:3"));
        assert_eq!(body["proxies"][1]["enabled"], json!(false));
        assert_eq!(ask(&board, r#"POST /populate {"name":"r"}"#).0, 400);
    }

    #[test]
    fn a_proxy_is_sent_back_as_it_was_shown() {
        let board = board();
        ask(&board, CREATE);
        ask(&board, r#"POST /proxies/r/toxics {"type":"latency","attributes":{"latency":5}}"#);
        let (_, shown) = ask(&board, "GET /proxies/r");
        assert_eq!(ask(&board, &format!("POST /proxies/r {shown}")), (200, shown.clone()));
        let (code, all) = ask(&board, &format!("POST /populate [{shown}]"));
        assert_eq!((code, &all["proxies"][0]), (201, &shown));
        // Clients of Toxiproxy that have put no toxics on it send null.
        let made = r#"POST /proxies {"name":"s","upstream":"127.0.0.1:1","toxics":null}"#;
        assert_eq!(ask(&board, made).0, 201);
    }

    #[test]
    fn a_wrong_request_is_refused_with_the_reason() {
        let board = board();
        ask(&board, CREATE);
        for (line, code, says) in [
            ("POST /proxies {", 400, "bad request body"),
            ("POST /proxies", 400, "bad request body"),
            ("POST /proxies []", 400, "an object"),
            (r#"POST /proxies {"upstream":"127.0.0.1:1"}"#, 400, "missing required field: name"),
            (r#"POST /proxies {"name":"x"}"#, 400, "missing required field: upstream"),
            (r#"POST /proxies {"name":7,"upstream":"127.0.0.1:1"}"#, 400, "name must be a string"),
            (r#"POST /proxies {"name":"a/b","upstream":"127.0.0.1:1"}"#, 400, "not a valid name"),
            (r#"POST /proxies {"name":"x","upstream":"here"}"#, 400, "not a server address"),
            (
                r#"POST /proxies {"name":"x","upstream":"127.0.0.1:1","listen":"0.0.0.0:0"}"#,
                400,
                "command line",
            ),
            (
                r#"POST /proxies {"name":"x","upstream":"127.0.0.1:1","enabled":1}"#,
                400,
                "true or false",
            ),
            (
                r#"POST /proxies {"name":"x","upstream":"127.0.0.1:1","enable":false}"#,
                400,
                "a proxy has no field `enable`; its fields: name, listen, upstream, enabled, toxics",
            ),
            (
                r#"POST /populate [{"name":"x","upstreem":"127.0.0.1:1"}]"#,
                400,
                "no field `upstreem`",
            ),
            (r#"POST /proxies/r {"Enabled":false}"#, 400, "a proxy has no field `Enabled`"),
            (r#"PATCH /proxies/r {"name":"s"}"#, 400, "name cannot be changed"),
            (r#"POST /proxies/r {"listen":"x"}"#, 400, "not an address to listen on"),
            (r#"POST /proxies/x {}"#, 404, "no proxy is called x"),
            (r#"POST /proxies/r/toxics {"type":"slicer"}"#, 400, "`slicer` is not supported"),
            (r#"POST /proxies/x/toxics {"type":"latency"}"#, 404, "no proxy is called x"),
            ("GET /proxies/r/toxics/x", 404, "no toxic is called x"),
            ("GET /proxies/r/log?all=1", 400, "limit=N and since=SEQ"),
            ("GET /proxies/x/log", 404, "no proxy is called x"),
            ("PUT /proxies/r", 405, "PUT is not supported here"),
            ("DELETE /version", 405, "not supported"),
            ("GET /metrics", 404, "not found: /metrics"),
            ("GET /", 404, "not found: /"),
            ("GET /proxies/%zz", 400, "not valid UTF-8"),
            ("GET /proxies/%ff", 400, "not valid UTF-8"),
            ("GET /proxies/%72x", 404, "no proxy is called rx"),
            (r#"POST /proxies {"name":"x","upstream":"ann:s3cret@127.0.0.1:1"}"#, 400, "password"),
            (r#"POST /populate [{"name":"x","upstream":"a:s3cret@h:1"}]"#, 400, "password"),
            (r#"POST /proxies/r {"upstream":"ann:s3cret@127.0.0.1:1"}"#, 400, "password"),
        ] {
            let (status, body) = ask(&board, line);
            assert_eq!((status, &body["status"]), (code, &json!(code)), "{line}: {body}");
            let error = body["error"].as_str().unwrap();
            assert!(error.contains(says) && !error.contains("s3cret"), "{line}: {body}");
        }
        assert_eq!(ask(&board, "GET /version").0, 200);
    }
}
