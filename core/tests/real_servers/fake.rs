//! A peer that is no Redis, and answers every request as a test says.

use std::io::{Read, Write};
use std::net::TcpListener;

/// Answers what comes here, on every connection, until the test ends. The greeting of redis-rs is
/// accepted; of everything else `answer` says what it is answered, by the number of the connection,
/// from 0, and the words of the request.
pub(crate) fn answering(
    listener: TcpListener,
    answer: impl Fn(usize, &str) -> String + Clone + Send + 'static,
) {
    closing_after(listener, move |number, words| (answer(number, words), false));
}

/// The same; after an answer that is the last, the connection is closed.
pub(crate) fn closing_after(
    listener: TcpListener,
    answer: impl Fn(usize, &str) -> (String, bool) + Clone + Send + 'static,
) {
    std::thread::spawn(move || {
        for (number, mut peer) in listener.incoming().map(Result::unwrap).enumerate() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(len @ 1..) = peer.read(&mut request) {
                    let words = String::from_utf8_lossy(&request[..len]).into_owned();
                    let greetings = "+OK\r\n".repeat(words.matches("SETINFO").count());
                    let (answer, is_last) = answer(number, &words);
                    if peer.write_all((greetings + &answer).as_bytes()).is_err() || is_last {
                        break;
                    }
                }
            });
        }
    });
}
