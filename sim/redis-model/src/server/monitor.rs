//! MONITOR: what every client sends, shown to those who ask.
//!
//! Invariant: a command is shown when it has been carried out, so a script's commands come before the script.
//! No command that administers the server is shown, and no password. Without monitors, it costs one comparison.

use resp::Reply;

use super::table::{CommandSpec, flag};
use super::{Request, SCRIPT_SESSION, Server};

impl Server {
    /// Shows a command that has been carried out.
    pub(crate) fn send_to_monitors(&mut self, spec: &CommandSpec, request: &Request<'_>) {
        if !self.monitors.is_empty() && !spec.has(flag::SKIP_MONITOR | flag::ADMIN) {
            self.send_to_all_monitors(request);
        }
    }

    /// Shows a request, whatever it is.
    pub(crate) fn send_to_all_monitors(&mut self, request: &Request<'_>) {
        let (seconds, micros) = (request.now_us / 1_000_000, request.now_us % 1_000_000);
        let mut line = format!("{seconds}.{micros:06} [{} ", self.db_number(request)).into_bytes();
        match request.session {
            SCRIPT_SESSION => line.extend_from_slice(b"lua"),
            session => line.extend_from_slice(&self.sessions[session as usize].address),
        }
        line.push(b']');
        for (place, arg) in request.args.iter().enumerate() {
            let shown = if is_secret(request.args, place) { b"(redacted)" } else { *arg };
            line.extend_from_slice(b" \"");
            shown.iter().for_each(|&byte| quoted(byte, &mut line));
            line.push(b'"');
        }
        for &session in &self.monitors {
            self.outbox.push((session, Reply::status(&line)));
        }
    }

    /// The session is no longer a monitor.
    pub(crate) fn remove_monitor(&mut self, session: u32) {
        self.sessions[session as usize].monitors = false;
        self.monitors.retain(|&other| other != session);
    }
}

/// Whether the argument at this place is a password, or the user name that belongs to it.
fn is_secret(args: &[&[u8]], place: usize) -> bool {
    let auth = |at: usize| args[at].eq_ignore_ascii_case(b"AUTH");
    place > 0 && auth(0)
        || args[0].eq_ignore_ascii_case(b"HELLO")
            && (place > 2 && auth(place - 1) || place > 3 && auth(place - 2))
}

/// A byte as it stands between quotes.
fn quoted(byte: u8, line: &mut Vec<u8>) {
    match byte {
        b'\\' | b'"' => line.extend([b'\\', byte]),
        b'\n' => line.extend(b"\\n"),
        b'\r' => line.extend(b"\\r"),
        b'\t' => line.extend(b"\\t"),
        7 => line.extend(b"\\a"),
        8 => line.extend(b"\\b"),
        b' '..=b'~' => line.push(byte),
        _ => line.extend(format!("\\x{byte:02x}").into_bytes()),
    }
}
