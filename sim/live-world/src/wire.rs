//! One connection to a server, on which commands go out and replies come back, one at a time.
//!
//! Invariant: what is sent is exactly what was given, and a reply counts only if it is RESP. redis-rs would send
//! commands of its own, and hides the server's answer to a failed login.

use std::io;

use fault_proxy::{Stream, Upstream};
use picklock::command::Command;
use picklock::reply::{Reply, ServerError};
use resp::decimal;
use resp::frame::{Limits, Scanner};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How much is quoted of something that is not a reply.
const QUOTED_BYTES: usize = 60;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It was closed in order, before the reply.
    #[error("the connection was closed")]
    Closed,
    /// What came back is not RESP; it begins like this.
    #[error("not a Redis reply: {}", String::from_utf8_lossy(.0))]
    NotResp(Vec<u8>),
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection. After an error, or after a future was dropped, it must not be used any more.
pub(crate) struct RespWire {
    stream: Box<dyn Duplex>,
    scanner: Scanner,
    input: Vec<u8>,
}

impl RespWire {
    pub(crate) async fn connect(upstream: &Upstream) -> io::Result<Self> {
        let stream: Box<dyn Duplex> = match Stream::connect(upstream).await? {
            Stream::Tcp(stream) => Box::new(stream),
            Stream::Tls(stream) => stream,
        };
        Ok(Self { stream, scanner: Scanner::replies(Limits::default()), input: Vec::new() })
    }

    /// Sends a command and reads its reply; the inner error is the server's answer.
    pub(crate) async fn call(
        &mut self,
        command: &Command,
    ) -> Result<Result<Reply, ServerError>, WireError> {
        let mut request = Vec::new();
        encode(command, &mut request);
        let sent = self.send(&request).await;
        // A server that refuses a connection says why and closes it: its answer can still be read when the request
        // could not be written any more.
        match (self.reply().await, sent) {
            (Ok(reply), _) => Ok(reply),
            (Err(WireError::Closed), Err(error)) => Err(WireError::Io(error)),
            (Err(error), _) => Err(error),
        }
    }

    /// Sends commands in one go, and puts the raw reply to each into `frames`.
    pub(crate) async fn pipeline(
        &mut self,
        commands: &[Command],
        frames: &mut Vec<Vec<u8>>,
    ) -> Result<(), WireError> {
        let mut request = Vec::new();
        commands.iter().for_each(|command| encode(command, &mut request));
        self.send(&request).await?;
        for _ in commands {
            frames.push(self.frame().await?);
        }
        Ok(())
    }

    async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    async fn reply(&mut self) -> Result<Result<Reply, ServerError>, WireError> {
        let frame = self.frame().await?;
        decode(&mut &frame[..]).ok_or_else(|| WireError::NotResp(beginning(&frame)))
    }

    /// The next reply as it came, in RESP2 or RESP3.
    async fn frame(&mut self) -> Result<Vec<u8>, WireError> {
        loop {
            match self.scanner.scan(&self.input) {
                Ok(Some(frame)) => {
                    let rest = self.input.split_off(frame.len);
                    return Ok(std::mem::replace(&mut self.input, rest));
                }
                Ok(None) => {}
                Err(_) => return Err(WireError::NotResp(beginning(&self.input))),
            }
            match self.stream.read_buf(&mut self.input).await {
                Ok(0) if self.input.is_empty() => return Err(WireError::Closed),
                Ok(0) => return Err(WireError::NotResp(beginning(&self.input))),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The command of these words.
pub(crate) fn command_of(words: &[&str]) -> Command {
    let (name, arguments) = words.split_first().expect("a command has a name");
    arguments.iter().fold(Command::new(name), |it, word| it.arg(*word))
}

fn encode(command: &Command, request: &mut Vec<u8>) {
    request.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for arg in command.args() {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
}

/// The first line, or as much of it as is quoted.
fn beginning(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == b'\r' || *byte == b'\n');
    bytes[..end.unwrap_or(bytes.len()).min(QUOTED_BYTES)].to_vec()
}

/// The value at the front of a complete frame; none if it is not RESP2. The scanner has limited its
/// depth.
fn decode(bytes: &mut &[u8]) -> Option<Result<Reply, ServerError>> {
    let (kind, line) = (*bytes.first()?, take_line(bytes)?);
    Some(Ok(match kind {
        b'+' if line == b"OK" => Reply::Ok,
        b'+' => Reply::Status(String::from_utf8_lossy(line).into()),
        b'-' => return Some(Err(ServerError::from_line(&String::from_utf8_lossy(line)))),
        b':' => Reply::Int(decimal(line)?),
        b'$' | b'*' if line == b"-1" => Reply::Nil,
        b'$' => {
            let length = usize::try_from(decimal(line)?).ok()?;
            let (body, rest) = bytes.split_at_checked(length)?;
            *bytes = rest.strip_prefix(b"\r\n")?;
            Reply::bulk(body)
        }
        b'*' => {
            let count = usize::try_from(decimal(line)?).ok()?;
            let mut items = Vec::new();
            for _ in 0..count {
                // An error inside an array says that a part was not carried out, as in EXEC, which is not sent
                // here; it must not pass for a value.
                items.push(decode(bytes)?.ok()?);
            }
            Reply::Array(items)
        }
        _ => return None,
    }))
}

/// The rest of the line after the type byte; `bytes` then begins after the line.
fn take_line<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = bytes.get(1..end)?;
    *bytes = &bytes[end + 2..];
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<Result<Reply, ServerError>> {
        decode(&mut &bytes[..])
    }

    #[test]
    fn replies_of_resp2_are_read() {
        assert_eq!(read(b"+OK\r\n"), Some(Ok(Reply::Ok)));
        assert_eq!(read(b"+PONG\r\n"), Some(Ok(Reply::Status("PONG".into()))));
        assert_eq!(read(b":-7\r\n"), Some(Ok(Reply::Int(-7))));
        assert_eq!(read(b"$-1\r\n"), Some(Ok(Reply::Nil)));
        assert_eq!(read(b"$4\r\na\r\nb\r\n"), Some(Ok(Reply::bulk(b"a\r\nb"))));
        let nested = Reply::Array(vec![Reply::bulk(b"0"), Reply::Array(vec![Reply::Int(1)])]);
        assert_eq!(read(b"*2\r\n$1\r\n0\r\n*1\r\n:1\r\n"), Some(Ok(nested)));
        let error = ServerError::from_line("NOAUTH Authentication required.");
        assert_eq!(read(b"-NOAUTH Authentication required.\r\n"), Some(Err(error)));
    }

    #[test]
    fn what_is_not_resp2_is_no_value() {
        for bytes in [&b"_\r\n"[..], b":x\r\n", b"$3\r\nab\r\n", b"*1\r\n-ERR\r\n", b"", b"+"] {
            assert_eq!(read(bytes), None, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_quotation_is_one_short_line() {
        assert_eq!(
            beginning(b"HTTP/1.1 400 Bad Request\r\nServer: x"),
            b"HTTP/1.1 400 Bad Request"
        );
        assert_eq!(beginning(&[b'x'; 100]).len(), QUOTED_BYTES);
    }
}
