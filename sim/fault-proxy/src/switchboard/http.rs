//! The control API over HTTP, compatible with clients of Toxiproxy.
//!
//! Invariant: every non-empty response is JSON; errors of a request are in its response, and none ends the server. A
//! new connection is served at once: when all slots are taken, the one idle for longest is closed. Requests of web
//! pages are refused. If there is a token, requests without it are refused before anything else in them is checked.

mod route;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN, USER_AGENT, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::{ControlToken, SwitchError, Switchboard};

const BODY_MOST: usize = 1 << 20;
/// How many connections are open at once.
const CONNECTIONS_MOST: usize = 64;
/// How long a client may take to send the head of a request, and then its body.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// How long to wait when the system has no file descriptor for a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// A listening control API.
#[derive(Debug)]
pub struct ControlApi {
    listener: TcpListener,
    token: Option<Arc<ControlToken>>,
}

/// A response: a status, and perhaps a body.
#[derive(Debug, PartialEq)]
struct ApiResponse(StatusCode, Option<Value>);

impl ApiResponse {
    fn error(status: StatusCode, says: impl ToString) -> Self {
        let body = json!({ "error": says.to_string(), "status": status.as_u16() });
        Self(status, Some(body))
    }
}

impl ControlApi {
    /// Listens on this address; port 0 is a free one. Without a token, everybody who can reach the address may do
    /// everything: then it should be a loopback address.
    ///
    /// # Errors
    /// The system's error, such as a port in use.
    pub async fn bind(addr: SocketAddr, token: Option<ControlToken>) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(addr).await?, token: token.map(Arc::new) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's error.
    pub fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until it is dropped.
    #[expect(clippy::disallowed_methods, reason = "the live worlds run in real time")]
    pub async fn serve(self, board: Arc<Switchboard>) -> Infallible {
        let connections = Arc::new(Connections::default());
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let (board, all) = (Arc::clone(&board), Arc::clone(&connections));
            let token = self.token.clone();
            connections.serve(async move {
                let service = service_fn(move |request| {
                    all.note_request();
                    let (board, token) = (Arc::clone(&board), token.clone());
                    async move {
                        let answered = answer(request, token.as_deref(), &board).await;
                        Ok::<_, Infallible>(response(answered))
                    }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
                // The client sees what is wrong with its connection.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

/// The open connections, the one that has been idle for longest first.
#[derive(Debug, Default)]
struct Connections(Mutex<VecDeque<AbortHandle>>);

impl Connections {
    /// Serves a connection on a task of its own. The one idle for longest makes room for it.
    fn serve(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|it| !it.is_finished());
        while open.len() >= CONNECTIONS_MOST
            && let Some(idle) = open.pop_front()
        {
            idle.abort();
        }
        // Under the lock, so that the first request of the task finds it here.
        open.push_back(tokio::spawn(connection).abort_handle());
    }

    /// A request has come on the connection whose task this is.
    fn note_request(&self) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = open.iter().position(|it| Some(it.id()) == tokio::task::try_id());
        if let Some(busy) = place.and_then(|place| open.remove(place)) {
            open.push_back(busy);
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    token: Option<&ControlToken>,
    board: &Switchboard,
) -> ApiResponse {
    let refused = token.and_then(|token| unauthorized(request.headers(), token));
    if let Some(refused) = refused.or_else(|| refused_page(request.headers(), token.is_some())) {
        return refused;
    }
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let query = head.uri.query().unwrap_or_default().to_owned();
    let too_big = || {
        let says = format!("bad request body: more than {BODY_MOST} bytes");
        ApiResponse::error(StatusCode::PAYLOAD_TOO_LARGE, says)
    };
    if body.size_hint().lower() > BODY_MOST as u64 {
        return too_big();
    }
    let body =
        match tokio::time::timeout(HEAD_WITHIN, Limited::new(body, BODY_MOST).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_big(),
            Ok(Err(error)) => {
                return ApiResponse::error(
                    StatusCode::BAD_REQUEST,
                    format!("bad request body: {error}"),
                );
            }
            Err(_) => {
                return ApiResponse::error(
                    StatusCode::REQUEST_TIMEOUT,
                    "timed out while reading the body",
                );
            }
        };
    route::answer(&head.method, &path, &query, &body, board)
}

/// Refuses requests that do not have the token.
fn unauthorized(headers: &HeaderMap, token: &ControlToken) -> Option<ApiResponse> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    // With several it would not be clear which one counts.
    let is_it = sent.next().is_some_and(|it| token.is_in(it.as_bytes())) && sent.next().is_none();
    (!is_it).then(|| {
        let says = "a token is required: send it as Authorization: Bearer TOKEN";
        ApiResponse::error(StatusCode::UNAUTHORIZED, says)
    })
}

/// Refuses requests that a web page can send from a browser. If there is a token, the Host may be any name.
fn refused_page(headers: &HeaderMap, has_token: bool) -> Option<ApiResponse> {
    let text = |name| headers.get(name).and_then(|it: &HeaderValue| it.to_str().ok()).unwrap_or("");
    if text(USER_AGENT).starts_with("Mozilla/") {
        return Some(ApiResponse::error(StatusCode::FORBIDDEN, "user agent not allowed"));
    }
    // A browser says which page sends the request; no other client has a reason to.
    if headers.contains_key(ORIGIN) || headers.contains_key("sec-fetch-site") {
        let says = "requests from web pages are not allowed (Origin or Sec-Fetch-Site header)";
        return Some(ApiResponse::error(StatusCode::FORBIDDEN, says));
    }
    let host = text(HOST);
    let host =
        host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map_or(host, |it| it.0);
    let is_own = matches!(host, "" | "localhost" | "127.0.0.1" | "[::1]");
    (!is_own && !has_token).then(|| {
        let says = "host not allowed: use localhost or 127.0.0.1";
        ApiResponse::error(StatusCode::FORBIDDEN, says)
    })
}

fn response(ApiResponse(status, body): ApiResponse) -> Response<Full<Bytes>> {
    let text = body.map_or_else(String::new, |body| format!("{body}\n"));
    let is_empty = text.is_empty();
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if !is_empty {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

fn status(error: &SwitchError) -> StatusCode {
    match error {
        SwitchError::NoProxy(_) | SwitchError::NoToxic(_) => StatusCode::NOT_FOUND,
        SwitchError::ProxyExists(_) | SwitchError::ToxicExists(_) => StatusCode::CONFLICT,
        SwitchError::Listen { .. } | SwitchError::TooMany => StatusCode::CONFLICT,
        SwitchError::Proxy(_) => StatusCode::INTERNAL_SERVER_ERROR,
        SwitchError::BadName(_)
        | SwitchError::BadListen(_)
        | SwitchError::BadUpstream(_)
        | SwitchError::Unresolved(..)
        | SwitchError::ToItself(_)
        | SwitchError::Credentials
        | SwitchError::Beyond(_)
        | SwitchError::Toxic(_) => StatusCode::BAD_REQUEST,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Notify, mpsc};

    use super::*;

    #[tokio::test]
    async fn the_connection_idle_for_longest_makes_room() {
        let connections = Arc::new(Connections::default());
        let (ends, mut ended) = mpsc::unbounded_channel();
        struct EndNotice(usize, mpsc::UnboundedSender<usize>);
        impl Drop for EndNotice {
            fn drop(&mut self) {
                let _ = self.1.send(self.0);
            }
        }
        let (request, noted) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        for number in 0..CONNECTIONS_MOST + 2 {
            if number == CONNECTIONS_MOST {
                assert!(ended.try_recv().is_err());
                // Only the first waits for it.
                request.notify_one();
                noted.notified().await;
            }
            let notice = EndNotice(number, ends.clone());
            let (all, request, noted) = (connections.clone(), request.clone(), noted.clone());
            connections.serve(async move {
                let _notice = notice;
                if number == 0 {
                    request.notified().await;
                    all.note_request();
                    noted.notify_one();
                }
                std::future::pending::<()>().await;
            });
        }
        assert_eq!([ended.recv().await, ended.recv().await], [Some(1), Some(2)]);
        assert_eq!(connections.0.lock().unwrap().len(), CONNECTIONS_MOST);
        connections.0.lock().unwrap().iter().for_each(AbortHandle::abort);
        for _ in 0..CONNECTIONS_MOST {
            ended.recv().await;
        }
        connections.serve(std::future::pending());
        assert_eq!(connections.0.lock().unwrap().len(), 1, "ended connections take no room");
    }
}
