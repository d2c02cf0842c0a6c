//! Parsing and planning on threads of their own, of statements that may take long to plan.
//!
//! The query engine plans without asking anybody whether to go on: between two of its rules, or within one, seconds may pass.
//! So what may take long is done where nobody has to wait for its end ([`plan_apart`]).
//!
//! Invariants:
//! 1. Who is told to stop does so at once. The work that is left ends at its next question ([`running`]), and its result is
//!    dropped where it was made.
//! 2. A session has one such thread, and all together have [`THREADS_MAX`]; a thread keeps its place until its work has ended,
//!    left or not. Who finds no place waits for one, as long as the statement may.
//! 3. What such work has allocated, as of its last question, counts with what all plans have, left or not: beyond what these
//!    may have it ends with `53200`.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::exec::compute::{Running, aside, pool};
use crate::exec::context::StopFlag;
use crate::exec::memory::Measured;
use crate::exec::panics;
use crate::pg::memory;
use crate::pg::running::{self, Stop};
use crate::pg::styles::Styles;
use crate::pg::user_types::UserTypes;
use crate::wire::SqlError;

/// Threads that plan at the same time at most, those among them that nobody waits for.
const THREADS_MAX: usize = 64;
/// How often who waits looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Places of threads that plan.
#[derive(Debug)]
struct Places {
    max: usize,
    taken: AtomicUsize,
    /// All that were ever taken.
    taken_ever: AtomicU64,
    /// Taken by work that nobody waits for any more.
    left: AtomicUsize,
    /// All that was ever left.
    left_ever: AtomicU64,
}

static PLACES: Places = Places::new(THREADS_MAX);

/// Statements that are planned on threads of their own now, and those among them that were told to stop and whose threads
/// compute on.
pub fn plannings() -> (u64, u64) {
    (PLACES.taken.load(Ordering::Relaxed) as u64, PLACES.left.load(Ordering::Relaxed) as u64)
}

/// Statements that were parsed or planned on threads of their own, since the process began; one may be so more than once.
pub fn plannings_ever() -> u64 {
    PLACES.taken_ever.load(Ordering::Relaxed)
}

/// Statements that were told to stop while they were planned on threads of their own, since the process began.
pub fn plannings_left() -> u64 {
    PLACES.left_ever.load(Ordering::Relaxed)
}

impl Places {
    const fn new(max: usize) -> Self {
        let (taken, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { max, taken, taken_ever: AtomicU64::new(0), left, left_ever: AtomicU64::new(0) }
    }

    /// A place for the statement's session; `None` if it has one, or there is none.
    fn take(&'static self, statement: &Arc<StopFlag>) -> Option<Arc<Place>> {
        if statement.planning.load(Ordering::Acquire) {
            return None;
        }
        let more = |taken| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).ok()?;
        self.taken_ever.fetch_add(1, Ordering::Relaxed);
        statement.planning.store(true, Ordering::Release);
        Some(Arc::new(Place { places: self, statement: Arc::clone(statement), state: AtomicU8::new(WAITED_FOR) }))
    }
}

const WAITED_FOR: u8 = 0;
const LEFT: u8 = 1;
const ENDED: u8 = 2;

/// One of [`Places`].
struct Place {
    places: &'static Places,
    statement: Arc<StopFlag>,
    state: AtomicU8,
}

impl Place {
    /// Nobody waits for its work any more.
    fn leave(&self) {
        self.places.left.fetch_add(1, Ordering::Relaxed);
        match self.state.compare_exchange(WAITED_FOR, LEFT, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => drop(self.places.left_ever.fetch_add(1, Ordering::Relaxed)),
            // It has just ended.
            Err(_) => drop(self.places.left.fetch_sub(1, Ordering::Relaxed)),
        }
    }
}

/// Gives the place back when the work ends, however it does.
struct Work(Arc<Place>);

impl Drop for Work {
    fn drop(&mut self) {
        let Place { places, statement, state } = &*self.0;
        if state.swap(ENDED, Ordering::AcqRel) == LEFT {
            places.left.fetch_sub(1, Ordering::Relaxed);
        }
        places.taken.fetch_sub(1, Ordering::AcqRel);
        statement.planning.store(false, Ordering::Release);
    }
}

/// The work, for [`running`].
struct Run {
    statement: Arc<StopFlag>,
    measured: Measured,
    /// What was counted so far of what the thread has allocated for it.
    counted: AtomicIsize,
    left: AtomicBool,
}

impl Stop for Run {
    fn types(&self) -> Option<Arc<UserTypes>> {
        self.statement.types()
    }
    fn database(&self) -> Option<String> {
        self.statement.database()
    }
    fn styles(&self) -> Option<Styles> {
        self.statement.styles()
    }
    fn transaction_start(&self) -> Option<i64> {
        self.statement.transaction_start()
    }
    fn check(&self) -> Result<(), SqlError> {
        match self.left.load(Ordering::Relaxed) {
            true => Err(SqlError::new("57014", "canceling statement due to user request")),
            false => self.statement.check_time(),
        }
    }
    fn allocated(&self, bytes: isize) {
        self.measured.add(bytes.wrapping_sub(self.counted.swap(bytes, Ordering::Relaxed)));
    }
    fn check_memory(&self, bytes: isize) -> Result<(), SqlError> {
        self.allocated(bytes);
        self.measured.check(0)
    }
    fn check_value(&self, had: isize, bytes: usize) -> Result<(), SqlError> {
        self.statement.check_value(had, bytes)
    }
}

thread_local! {
    /// This thread plans.
    static PLANS: Cell<bool> = const { Cell::new(false) };
}

/// Parses or plans a statement on a thread of its own, and waits for it as long as the statement is not told to stop.
///
/// # Errors
/// `57014` and whatever else the statement is stopped with; `XX000` if the work panics.
pub(crate) fn plan_apart<T: Send + 'static>(
    statement: &Arc<StopFlag>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SqlError> {
    // Within such work the thread is there.
    if PLANS.get() {
        return panics::caught(work);
    }
    aside(|| in_place(&PLACES, statement, work))
}

fn in_place<T: Send + 'static>(
    places: &'static Places,
    statement: &Arc<StopFlag>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SqlError> {
    let pool = pool().map_err(|error| SqlError::internal(error.to_string()))?;
    let place = loop {
        if let Some(place) = places.take(statement) {
            break place;
        }
        statement.check_time()?;
        std::thread::sleep(LOOK_EVERY);
    };
    let of_work = Work(Arc::clone(&place));
    let run = Arc::new(Run {
        statement: Arc::clone(statement),
        measured: Measured::default(),
        counted: AtomicIsize::new(0),
        left: AtomicBool::new(false),
    });
    let (sender, done) = std::sync::mpsc::channel();
    let (of_thread, running) = (Arc::clone(&run), Running::new());
    pool.spawn_blocking(move || {
        let _running = running;
        PLANS.set(true);
        let stop = Arc::clone(&of_thread) as Arc<dyn Stop>;
        let done = panics::caught(|| running::with(&stop, work));
        PLANS.set(false);
        // What nobody waits for goes here, before its place is somebody else's.
        let unread = match of_thread.left.load(Ordering::Acquire) {
            true => Some(done),
            false => {
                drop(of_work);
                return drop(sender.send(done));
            }
        };
        drop(unread);
        if of_thread.measured.was_much() {
            memory::collect();
        }
        drop((stop, of_thread, of_work));
    });
    loop {
        match done.recv_timeout(LOOK_EVERY) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = statement.check_time() {
                    run.left.store(true, Ordering::Release);
                    place.leave();
                    return Err(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(SqlError::internal("work of a statement ended without a result"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::exec::context::StopReason;

    const SOON: Duration = Duration::from_secs(20);

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < SOON, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn places(max: usize) -> &'static Places {
        Box::leak(Box::new(Places::new(max)))
    }

    fn taken(places: &Places) -> (usize, usize, u64) {
        let load = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (load(&places.taken), load(&places.left), places.left_ever.load(Ordering::SeqCst))
    }

    fn statement() -> Arc<StopFlag> {
        let statement = Arc::<StopFlag>::default();
        statement.begin();
        statement
    }

    /// Work that goes on until it is let go, for a statement that is told to stop meanwhile.
    fn left(places: &'static Places, statement: &Arc<StopFlag>) -> Arc<AtomicBool> {
        let (go, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (told, has_begun, of_other) = (Arc::clone(&go), Arc::clone(&begun), Arc::clone(statement));
        let other = std::thread::spawn(move || {
            in_place(places, &of_other, move || {
                has_begun.store(true, Ordering::SeqCst);
                until("it is let go", || told.load(Ordering::SeqCst));
            })
        });
        until("it begins", || begun.load(Ordering::SeqCst));
        statement.stop(StopReason::Cancel);
        let error = other.join().expect("no panic").expect_err("it was told to stop");
        assert_eq!(error.sqlstate, "57014");
        go
    }

    #[test]
    fn what_is_left_keeps_its_place_until_it_ends() {
        let places = places(2);
        let (a, b, c) = (statement(), statement(), statement());
        let (of_a, of_b) = (left(places, &a), left(places, &b));
        assert_eq!(taken(places), (2, 2, 2));
        // There is no place, and who waits for one can be told to stop.
        c.set_deadline(Instant::now() + Duration::from_millis(50));
        let error = in_place(places, &c, || ()).expect_err("there is no place");
        assert_eq!(error.sqlstate, "57014");
        of_a.store(true, Ordering::SeqCst);
        until("the place of the first comes back", || taken(places) == (1, 1, 2));
        c.begin();
        assert_eq!(in_place(places, &c, || 7).expect("there is a place"), 7);
        // The session of the other has its one thread.
        b.begin();
        b.set_deadline(Instant::now() + Duration::from_millis(50));
        assert!(in_place(places, &b, || ()).is_err());
        of_b.store(true, Ordering::SeqCst);
        b.begin();
        assert_eq!(in_place(places, &b, || 8).expect("its thread is free"), 8);
        assert_eq!(taken(places), (0, 0, 2));
    }

    #[test]
    fn a_panic_gives_its_place_back() {
        let places = places(1);
        let a = statement();
        let error = in_place(places, &a, || panic!("in the middle")).map(|(): ()| ()).expect_err("it panics");
        assert_eq!(error.sqlstate, "XX000");
        assert_eq!(in_place(places, &a, || 1).expect("the place is free"), 1);
        assert_eq!(taken(places), (0, 0, 0));
    }

    #[test]
    fn what_it_allocates_counts_while_it_works() {
        let run = Run {
            statement: statement(),
            measured: Measured::default(),
            counted: AtomicIsize::new(0),
            left: AtomicBool::new(false),
        };
        run.check_memory(1000).expect("little");
        run.check_memory(600).expect("less");
        assert_eq!(run.measured.bytes(), 600);
        run.allocated(50);
        assert_eq!(run.measured.bytes(), 50);
        assert_eq!(run.check_memory(isize::MAX).expect_err("too much").sqlstate, "53200");
    }
}
