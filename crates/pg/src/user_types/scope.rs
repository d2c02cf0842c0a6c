//! Which types are meant on a thread.

use std::cell::RefCell;
use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use super::UserTypes;

/// Who knows the types as they are now.
pub trait TypeSource: Debug + Send + Sync {
    /// Those that its transaction sees; `None` if they cannot be read.
    fn user_types(&self) -> Option<Arc<UserTypes>>;
}

thread_local! {
    static SOURCE: RefCell<Option<Arc<dyn TypeSource>>> = const { RefCell::new(None) };
}

struct Before(Option<Arc<dyn TypeSource>>);

impl Drop for Before {
    fn drop(&mut self) {
        SOURCE.replace(self.0.take());
    }
}

/// Does work for which the types of `source` are meant.
pub fn with<T>(source: &Arc<dyn TypeSource>, work: impl FnOnce() -> T) -> T {
    let _before = Before(SOURCE.replace(Some(Arc::clone(source))));
    work()
}

/// The same of work that may wait.
pub async fn scope<T>(source: Arc<dyn TypeSource>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    std::future::poll_fn(move |cx: &mut Context<'_>| -> Poll<T> {
        let _before = Before(SOURCE.replace(Some(Arc::clone(&source))));
        let work: Pin<&mut _> = work.as_mut();
        work.poll(cx)
    })
    .await
}

/// The types that are meant here: of the statement that computes on this thread, else of the session whose work this is.
pub fn current() -> Option<Arc<UserTypes>> {
    if let Some(types) = crate::running::types() {
        return Some(types);
    }
    SOURCE.with_borrow(Clone::clone)?.user_types()
}
