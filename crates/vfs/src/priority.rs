//! Threads that step back: what they do may take longer when others want the processors. And whether these do.

use std::ops::AddAssign;
use std::time::Duration;

/// Work in the background, as `nice` counts it: about a quarter of a processor beside one thread that wants all of it.
#[cfg(target_os = "linux")]
const BACKGROUND: i32 = 5;

/// Lowers the priority of the calling thread, and of those that it will start. Where the system has no priorities of threads, nothing
/// happens. It cannot be raised again.
pub fn lower_priority() {
    #[cfg(target_os = "linux")]
    // SAFETY: no memory is passed. Linux counts 0 as the calling thread, not its process; a failure changes nothing.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, BACKGROUND)
    };
}

/// What a thread has had of the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// How long it ran.
    pub ran: Duration,
    /// How long it was ready to run, and others did.
    pub waited: Duration,
}

impl ProcessorTime {
    /// Of the calling thread since it began; nothing at all where the system does not tell.
    pub fn of_thread() -> Self {
        // Two numbers of nanoseconds, and one of slices (Linux, Documentation/scheduler/sched-stats).
        let text = match cfg!(target_os = "linux") {
            true => std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default(),
            false => String::new(),
        };
        let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(ran), Some(waited)) => Self { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited) },
            _ => Self::default(),
        }
    }

    /// What has been added since `before`.
    pub fn since(self, before: Self) -> Self {
        Self { ran: self.ran.saturating_sub(before.ran), waited: self.waited.saturating_sub(before.waited) }
    }
}

impl AddAssign for ProcessorTime {
    fn add_assign(&mut self, more: Self) {
        self.ran += more.ran;
        self.waited += more.waited;
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_what_it_has_had() {
        let before = ProcessorTime::of_thread();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        let had = ProcessorTime::of_thread().since(before);
        // Kernels without the statistics say nothing.
        assert!(had == ProcessorTime::default() || had.ran + had.waited >= Duration::from_millis(15), "{had:?}");
    }

    #[test]
    fn only_the_calling_thread_steps_back() {
        // SAFETY: no memory is passed.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let of_thread = std::thread::spawn(move || {
            lower_priority();
            nice()
        });
        assert_eq!(of_thread.join().expect("it ends"), BACKGROUND.max(before));
        assert_eq!(nice(), before);
    }
}
