//! What a hostile statement came to, and whether that harmed anybody.

use std::time::Duration;

use super::beside::Seen;
use crate::answers::client::Reply;

/// What the session that sent it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    Answer,
    /// An error, by its SQLSTATE and message.
    State(String, String),
    /// The connection ended, or there was nothing for longer than the bound.
    Nothing(String),
    /// The server's process is no more.
    Dead,
}

impl Got {
    pub fn of(reply: &crate::Result<Reply>) -> Self {
        match reply {
            Ok(reply) => match reply.error() {
                None => Self::Answer,
                Some(error) if error.severity == "ERROR" => Self::State(error.code.clone(), error.message.clone()),
                Some(error) => Self::Nothing(error.to_string()),
            },
            Err(why) => Self::Nothing(why.clone()),
        }
    }

    /// In a word.
    pub fn word(&self) -> &str {
        match self {
            Self::Answer => "ok",
            Self::State(code, _) => code,
            Self::Nothing(_) => "nothing",
            Self::Dead => "DEAD",
        }
    }
}

/// One run of a text.
#[derive(Clone, Debug)]
pub struct Run {
    pub got: Got,
    pub time: Duration,
}

/// What is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From the text's first byte to the end of its answer.
    pub time: Duration,
    pub memory_bytes: u64,
    /// From a question beside it to its answer.
    pub beside: Duration,
}

/// What is wrong with a run, in words; nothing if it harmed nobody.
pub fn harm(run: &Run, seen: &Seen, bounds: &Bounds) -> Vec<String> {
    let mut all = Vec::new();
    match &run.got {
        Got::Answer => {}
        Got::State(code, message) if code == "XX000" => all.push(format!("a bug: {message}")),
        Got::State(..) => {}
        Got::Nothing(why) => all.push(format!("no answer: {why}")),
        Got::Dead => all.push("the process ended".to_owned()),
    }
    if run.time > bounds.time {
        all.push(format!("took {:.1} s", run.time.as_secs_f64()));
    }
    if seen.memory_bytes > bounds.memory_bytes {
        all.push(format!("took {} MB", seen.memory_bytes >> 20));
    }
    let slowest = seen.latencies.iter().max().copied().unwrap_or_default();
    if slowest > bounds.beside {
        all.push(format!("kept others waiting for {} ms", slowest.as_millis()));
    }
    if seen.failures > 0 && run.got != Got::Dead {
        all.push(format!("{} questions beside it failed", seen.failures));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_harm_is_seen() {
        let ms = Duration::from_millis;
        let bounds = Bounds { time: ms(1000), memory_bytes: 100, beside: ms(200) };
        let quiet = Seen { latencies: vec![ms(1), ms(200)], memory_bytes: 100, failures: 0 };
        let run = |got| Run { got, time: ms(1000) };
        let state = |code: &str| Got::State(code.to_owned(), "x".to_owned());
        assert!(harm(&run(Got::Answer), &quiet, &bounds).is_empty());
        assert!(harm(&run(state("54001")), &quiet, &bounds).is_empty());
        assert_eq!(harm(&run(state("XX000")), &quiet, &bounds), ["a bug: x"]);
        assert_eq!(harm(&run(Got::Dead), &Seen { failures: 3, ..quiet.clone() }, &bounds), ["the process ended"]);
        assert_eq!(harm(&run(Got::Nothing("EOF".into())), &quiet, &bounds), ["no answer: EOF"]);
        let loud = Seen { latencies: vec![ms(1), ms(201)], memory_bytes: 1 << 30, failures: 1 };
        assert_eq!(harm(&Run { got: Got::Answer, time: ms(1001) }, &loud, &bounds).len(), 4);
    }
}
