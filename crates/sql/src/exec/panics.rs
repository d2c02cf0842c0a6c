//! A bug that makes a statement panic is an error of that statement.
//!
//! Whoever parses, plans or runs one catches the panic and gives `XX000` in its place; the transaction is rolled back as after any
//! error. What cannot be rolled back panics again, which ends the session, and nothing else (`server`).
//! [`watch_panics`] counts them all and logs where each was.

use std::any::Any;
use std::backtrace::Backtrace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Once};
use std::time::Duration;

use futures::FutureExt;

use crate::wire::SqlError;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Panics of the process since [`watch_panics`] was called, on whatever thread.
pub fn panics() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Counts panics from now on, and writes a line with the place of each to the log.
pub fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            COUNT.fetch_add(1, Ordering::Relaxed);
            let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
            let what = info.payload_as_str().unwrap_or("without a message");
            let thread = std::thread::current();
            let trace = Backtrace::capture();
            tracing::error!(place, thread = thread.name().unwrap_or("?"), "panic: {what}");
            if trace.status() == std::backtrace::BacktraceStatus::Captured {
                tracing::error!("{trace}");
            }
        }));
    });
}

/// The error that stands for a panic.
pub(crate) fn error_of(panic: &(dyn Any + Send)) -> SqlError {
    let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".to_owned());
    SqlError::internal(format!("internal error: {what}")).with_hint("This is a bug in Resurgam.")
}

/// # Errors
/// `XX000` if the work panics.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, SqlError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| error_of(panic.as_ref()))
}

/// As [`caught`], of what may wait.
pub(crate) async fn caught_in<T>(work: impl Future<Output = Result<T, SqlError>>) -> Result<T, SqlError> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| Err(error_of(panic.as_ref())))
}

/// For how long a planted statement keeps its thread.
const STALL: Duration = Duration::from_secs(4);

static PLANTED: AtomicBool = AtomicBool::new(false);

/// From now on a statement with a certain text panics: `plant: planning` while it is planned, `plant: running` while it runs; or,
/// with `plant: stall`, it keeps its session's thread for some seconds.
/// For tests of who survives it; the environment variable `RESURGAM_PLANT_PANICS` does it for a server.
#[doc(hidden)]
pub fn plant_panics() {
    PLANTED.store(true, Ordering::Relaxed);
}

/// Panics if that was planted there.
pub(crate) fn planted(place: &str, text: &str) {
    static WANTED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("RESURGAM_PLANT_PANICS").is_some());
    if !(*WANTED || PLANTED.load(Ordering::Relaxed)) {
        return;
    }
    if text.contains("plant: stall") && place == "running" {
        std::thread::sleep(STALL);
    }
    if text.contains(&format!("plant: {place}")) {
        panic!("planted in {place}");
    }
}
