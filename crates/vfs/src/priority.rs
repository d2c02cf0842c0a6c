//! Threads that step back: what they do may take longer when others want the processors. And whether these do.

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

/// What a thread that answers somebody runs for at a time: as little as Linux lets one ask for.
#[cfg(target_os = "linux")]
const SHORT_SLICE: Duration = Duration::from_micros(100);

/// The calling thread has little to do at a time, for which somebody waits: when it wakes up it need not wait until another one has had its share of
/// the processor, and has a small one itself (Linux since 6.12, sched_setattr(2): `sched_runtime`). Elsewhere nothing happens. Its priority stays as it
/// is, and so does what it gets of a processor that others want as well.
pub fn ask_for_short_slices() {
    #[cfg(target_os = "linux")]
    {
        /// `SCHED_FLAG_KEEP_POLICY`: of another policy, which knows no slices, the call fails.
        const KEEP_POLICY: u64 = 8;
        #[repr(C)]
        struct Attributes {
            size: u32,
            policy: u32,
            flags: u64,
            nice: i32,
            priority: u32,
            runtime: u64,
            deadline: u64,
            period: u64,
        }
        // SAFETY: no memory is passed. Linux counts 0 as the calling thread.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: libc::SCHED_OTHER as u32,
            flags: KEEP_POLICY,
            nice,
            priority: 0,
            runtime: SHORT_SLICE.as_nanos() as u64,
            deadline: 0,
            period: 0,
        };
        // SAFETY: the attributes are there, of the size that they say, and are only read. A failure changes nothing.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// How long the calling thread has run since it began; nothing where the system does not tell.
pub fn thread_time() -> Duration {
    // Nanoseconds first (Linux, Documentation/scheduler/sched-stats).
    let ran = read("/proc/thread-self/schedstat").and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
    Duration::from_nanos(ran.unwrap_or(0))
}

/// What the machine's processors have done since it was started, all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Somebody ran.
    pub busy: Duration,
    /// That, and when nobody did.
    pub all: Duration,
}

impl MachineTime {
    /// Until now, in steps of a hundredth of a second; `None` where the system does not tell. In a container it is the host's.
    pub fn now() -> Option<Self> {
        Self::parse(&read("/proc/stat")?)
    }

    /// `cpu user nice system idle iowait irq softirq steal …`, in hundredths of a second (Linux, proc(5)). What guests had is in
    /// `user` and `nice` already.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|ticks| ticks.parse().ok()).collect();
        let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
        let all = ticks.iter().fold(0u64, |sum, ticks| sum.saturating_add(*ticks));
        let time = |ticks: u64| Duration::from_millis(ticks.saturating_mul(10));
        Some(Self { busy: time(all.saturating_sub(idle)), all: time(all) })
    }
}

fn read(path: &str) -> Option<String> {
    if cfg!(target_os = "linux") { std::fs::read_to_string(path).ok() } else { None }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_seen() {
        let (ours, before) = (thread_time(), MachineTime::now().expect("it is Linux"));
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        let (ran, after) = (thread_time().saturating_sub(ours), MachineTime::now().expect("as before"));
        assert!(after.all > before.all && after.busy >= before.busy, "{before:?} {after:?}");
        // Kernels without the statistics say nothing. Others may have run meanwhile.
        assert!(ours.is_zero() || ran > Duration::from_millis(1) && ran <= Duration::from_millis(120), "{ran:?}");
    }

    #[test]
    fn the_machines_line_is_read() {
        let line = |text: &str| MachineTime::parse(text);
        let (busy, all) = (Duration::from_millis(10 * 63), Duration::from_millis(10 * 163));
        assert_eq!(line("cpu  1 2 4 90 10 8 16 32 64 128\ncpu0 1 1 1 1 1\n"), Some(MachineTime { busy, all }));
        assert_eq!(
            (line(""), line("cpu  1 2 3"), line("cpu0 1 2 3 4 5"), line("cpu  1 2 3 x 5")),
            (None, None, None, None)
        );
        assert!(line("cpu  18446744073709551615 2 3 4 5 6 7 8").is_some());
    }

    #[test]
    fn short_slices_leave_the_priority_as_it_is() {
        // SAFETY: no memory is passed.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let of_thread = std::thread::spawn(move || {
            lower_priority();
            let before = nice();
            ask_for_short_slices();
            (before, nice())
        });
        let (before, after) = of_thread.join().expect("it ends");
        assert_eq!(before, after);
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
