//! Threads that step back: what they do may take longer when others want the processors.

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

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
