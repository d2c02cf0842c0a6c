//! Which types are meant on a thread.

use std::cell::RefCell;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::UserTypes;
use crate::styles::{self, Styles};

/// Who knows the types as they are now.
pub trait TypeSource: Debug + Send + Sync {
    /// Those that its transaction sees; `None` if they cannot be read.
    fn user_types(&self) -> Option<Arc<UserTypes>>;
    /// The name of its database.
    fn database(&self) -> Option<String> {
        None
    }
    /// When its transaction began, in microseconds since 1970.
    fn transaction_start(&self) -> Option<i64> {
        None
    }
    /// In which form it shows and reads dates and intervals.
    fn styles(&self) -> Styles {
        Styles::default()
    }
}

thread_local! {
    static SOURCE: RefCell<Option<Arc<dyn TypeSource>>> = const { RefCell::new(None) };
}

struct Before(Option<Arc<dyn TypeSource>>, #[expect(dead_code, reason = "it puts them back")] styles::Before);

impl Before {
    /// The thread works for `source` from now on.
    fn begin(source: &Arc<dyn TypeSource>) -> Self {
        let styles = styles::set(source.styles());
        Self(SOURCE.replace(Some(Arc::clone(source))), styles)
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        SOURCE.replace(self.0.take());
    }
}

/// Does work for which the types of `source` are meant.
pub fn with<T>(source: &Arc<dyn TypeSource>, work: impl FnOnce() -> T) -> T {
    let _before = Before::begin(source);
    work()
}

/// The same of work that may wait. (No `async fn`, whose future would have room for the work twice.)
pub fn scope<F: Future>(source: Arc<dyn TypeSource>, work: F) -> Scope<F> {
    Scope { source, work }
}

/// See [`scope`].
pub struct Scope<F> {
    source: Arc<dyn TypeSource>,
    work: F,
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: nothing is moved out of what is behind the reference.
        let this = unsafe { self.get_unchecked_mut() };
        let _before = Before::begin(&this.source);
        // SAFETY: `work` is part of what is pinned, is never moved, and there is no `Drop` of `Scope` that could.
        let work = unsafe { Pin::new_unchecked(&mut this.work) };
        work.poll(cx)
    }
}

/// The name of the database of the session whose work this is; `None`: it is nobody's.
pub fn database() -> Option<String> {
    crate::running::database().or_else(|| SOURCE.with_borrow(Clone::clone)?.database())
}

/// The moment that `now` means here, in microseconds since 1970: when the transaction began of the statement that computes on
/// this thread, or of the session whose work this is; the present if it is nobody's.
pub fn transaction_start() -> i64 {
    let of_statement = crate::running::transaction_start();
    let of_session = || SOURCE.with_borrow(Clone::clone)?.transaction_start();
    of_statement.or_else(of_session).unwrap_or_else(crate::datetime::clock_us)
}

/// The types that are meant here: of the statement that computes on this thread, else of the session whose work this is.
pub fn current() -> Option<Arc<UserTypes>> {
    if let Some(types) = crate::running::types() {
        return Some(types);
    }
    SOURCE.with_borrow(Clone::clone)?.user_types()
}
