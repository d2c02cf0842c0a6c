//! The primitives that the pieces use, by the names that `parking_lot` and the standard library give them.

use std::ops::{Deref, DerefMut};
pub use std::sync::atomic::Ordering;
use std::time::Duration;

pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
pub use shuttle::thread::yield_now;

/// As `parking_lot`'s: a panic in one thread is the model's end anyway.
#[derive(Default)]
pub struct Mutex<T> {
    inner: shuttle::sync::Mutex<T>,
    /// No step of the model: one thread runs at a time.
    held: std::sync::atomic::AtomicBool,
}

pub struct MutexGuard<'m, T> {
    inner: Option<shuttle::sync::MutexGuard<'m, T>>,
    mutex: &'m Mutex<T>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self { inner: shuttle::sync::Mutex::new(value), held: false.into() }
    }
    fn guard<'m>(&'m self, inner: shuttle::sync::MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.held.store(true, Ordering::SeqCst);
        MutexGuard { inner: Some(inner), mutex: self }
    }
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.inner.lock().expect("no panic"))
    }
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(self.guard(self.inner.try_lock().ok()?))
    }
    /// May say no a moment early. (Others run before it does, or who asks in a loop would ask for ever.)
    pub fn is_locked(&self) -> bool {
        let held = self.held.load(Ordering::SeqCst);
        if !held {
            yield_now();
        }
        held
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("held")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.held.store(false, Ordering::SeqCst);
    }
}

/// As `parking_lot`'s, but that **no wait ends by time**: what depends on it is a deadlock here.
#[derive(Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _at_most: Duration) {
        guard.mutex.held.store(false, Ordering::SeqCst);
        let inner = guard.inner.take().expect("held");
        guard.inner = Some(self.0.wait(inner).expect("no panic"));
        guard.mutex.held.store(true, Ordering::SeqCst);
    }
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}
