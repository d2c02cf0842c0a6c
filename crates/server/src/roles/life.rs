//! What page servers and log services have in common from their start to their end: signals, certificates that are read again, and a
//! line in the terminal when something has changed.

use std::sync::Arc;
use std::time::Duration;

use resurgam_cluster::{Tls, TlsStats};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::tls;
use crate::serve::say;

/// How often it is looked whether there is something to be said.
const LOOK: Duration = Duration::from_secs(10);

/// How a part is.
pub struct How {
    /// In a sentence.
    pub line: String,
    /// Connections that were refused since the start.
    pub refused: u64,
    pub tls: Option<TlsStats>,
}

/// See the module.
pub struct Life {
    runtime: Runtime,
    hang_up: Signal,
}

fn no_signals(error: std::io::Error) -> String {
    format!("could not watch for signals: {error}")
}

impl Life {
    /// Before the part starts, which takes as long as there is log to look through: whoever replaces certificates meanwhile, and says so by
    /// SIGHUP, would end the process.
    ///
    /// # Errors
    /// A sentence for the terminal.
    pub fn begin() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("could not start threads: {error}"))?;
        let hang_up = runtime.block_on(async { signal(SignalKind::hangup()) }).map_err(no_signals)?;
        Ok(Self { runtime, hang_up })
    }

    /// Says how the part is, when that has changed, until a signal to end comes.
    ///
    /// # Errors
    /// A sentence for the terminal.
    pub fn until_told(&mut self, tls: Option<&Arc<Tls>>, how: impl Fn() -> How) -> Result<(), String> {
        let Self { runtime, hang_up } = self;
        let wait = async {
            let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let mut said = tls::Said::default();
            loop {
                tokio::select! {
                    _ = interrupt.recv() => return Ok(()),
                    _ = terminate.recv() => return Ok(()),
                    () = tls::read_again_at(hang_up, tls) => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
                let How { line, refused, tls } = how();
                if let Some(line) = said.next(&line, refused, tls) {
                    say(&line);
                }
            }
        };
        runtime.block_on(wait).map_err(no_signals)
    }

    /// From now on another signal ends the process at once.
    pub fn end_at_once_if_told_again(self) {
        std::thread::spawn(move || {
            self.runtime.block_on(async {
                let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
                let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                std::process::exit(130);
            });
        });
    }
}
