//! What a thread has allocated and not freed, counted by an allocator that calls [`count`].
//!
//! Whoever runs statements bounds them by it. What the engine allocates once for all, on whichever thread needs it first, is no
//! statement's: [`aside`].

use std::cell::Cell;

thread_local! {
    static NET: Cell<isize> = const { Cell::new(0) };
}

/// Adds to what this thread has; for allocators.
#[inline]
pub fn count(bytes: isize) {
    // A thread that is ending counts no more.
    let _ = NET.try_with(|net| net.set(net.get().wrapping_add(bytes)));
}

/// Bytes that this thread has allocated and not freed since it began, but for those [`aside`]; always 0 where no allocator counts.
#[inline]
pub fn net() -> isize {
    NET.try_with(Cell::get).unwrap_or(0)
}

/// Does `work`, whose allocations are not the thread's: they stay when it has ended.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    struct Before(isize);
    impl Drop for Before {
        fn drop(&mut self) {
            let _ = NET.try_with(|net| net.set(self.0));
        }
    }
    let _before = Before(net());
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_aside_does_not_count() {
        let before = net();
        count(100);
        aside(|| {
            count(1000);
            assert_eq!(net() - before, 1100);
        });
        assert_eq!(net() - before, 100);
        count(-100);
        assert_eq!(net(), before);
    }
}
