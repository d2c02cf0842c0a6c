//! What the programs of Rust's drivers share: steps with a line for each.

use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;

/// What a step ends with.
pub type Done = Result<(), Failure>;
/// Whatever went wrong.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A program of steps.
pub struct Program {
    name: &'static str,
    failed: bool,
}

impl Program {
    /// With the name that its lines begin with.
    pub fn new(name: &'static str) -> Self {
        Self { name, failed: false }
    }

    /// Runs a step, for a minute at most, and says how it has ended.
    pub async fn step(&mut self, name: &str, run: impl Future<Output = Done>) {
        let run = AssertUnwindSafe(run).catch_unwind();
        let outcome = match tokio::time::timeout(Duration::from_secs(60), run).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("it panics".into()),
            Err(_) => Err("it does not end".into()),
        };
        let program = self.name;
        match outcome {
            Ok(()) => println!("ok {program}: {name}"),
            Err(error) => {
                self.failed = true;
                let text = format!("{error} {error:?}").split_whitespace().collect::<Vec<_>>().join(" ");
                println!("FAILED {program}: {name}: {}", text.chars().take(700).collect::<String>());
            }
        }
    }

    /// Ends the process: 1 if any failed.
    pub fn end(self) -> ! {
        std::process::exit(i32::from(self.failed))
    }
}

/// Fails unless both are equal.
#[track_caller]
pub fn equal<T: PartialEq<U> + Debug, U: Debug>(got: T, wanted: U, what: &str) -> Done {
    if got == wanted {
        return Ok(());
    }
    Err(format!("line {}: {what}: got {got:?}, wanted {wanted:?}", std::panic::Location::caller().line()).into())
}

/// The host and the port that the program was given.
pub fn place() -> (String, u16) {
    let mut given = std::env::args().skip(1);
    let host = given.next().unwrap_or_else(|| "127.0.0.1".to_owned());
    (host, given.next().and_then(|port| port.parse().ok()).unwrap_or(5432))
}
