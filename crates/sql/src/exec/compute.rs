//! Where plans run: beside the threads that serve connections.
//!
//! A plan may compute for a long time between two moments at which it lets others go on: a batch of a cross join, a
//! string function over long texts, a sort. On the threads that read the clients' messages that would hold up every
//! session, logins, and the cancel that is to end it. So plans run on threads of their own ([`pool`]), a thread for
//! each (the system shares the processors among them, whatever they do), with a lower priority, and hand their batches over.
//!
//! Handing over takes two wake-ups of threads, which is more than a short plan takes. A plan whose last run was
//! short ([`Pace`]) therefore begins where its session is, and moves when it has computed for [`HERE_MAX`]; one that
//! calls a function which may take long for a single row never does.
//!
//! Invariants:
//! 1. Whoever reads the stream can leave it at any time: the plan is told to stop ([`running`]), and what it holds is let
//!    go on its own thread, at the latest at the end of the batch that it is in. Nothing waits for that.
//! 2. The end of a result is said. A plan that breaks off (a panic) is an error, never an end.
//! 3. A plan's streams are gone when its end arrives: it can be kept for another run.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, exec_datafusion_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::logical_expr::{Expr, LogicalPlan};
use futures::{Stream, StreamExt};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::exec::context::StopFlag;
use crate::exec::memory::Measured;
use crate::exec::{apply, bridge, panics};
use crate::parse::depth::STACK_BYTES;
use crate::pg::memory;
use crate::pg::running::{self, Stop};
use crate::pg::styles::Styles;
use crate::pg::user_types::UserTypes;
use crate::wire::SqlError;

type Result<T, E = DataFusionError> = std::result::Result<T, E>;

/// How long a plan computes on its session's thread before it moves to one of [`pool`].
const HERE_MAX: Duration = Duration::from_millis(1);
/// Plans that run at the same time at most; others wait for one to end.
const THREADS_MAX: usize = 1024;
/// Batches that are ready beside the one that is being read.
const READY_MAX: usize = 2;
/// Added to the threads' niceness: who asks for one row goes before who asks for a million.
const NICENESS: i32 = 5;

/// Plans that moved to threads of their own, since the process began; for metrics.
static MOVED: AtomicU64 = AtomicU64::new(0);

/// Plans that run on threads of their own now.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// Plans that run on threads of their own at this moment, those among them that were told to stop.
pub fn plans_running() -> u64 {
    RUNNING.load(Ordering::Relaxed)
}

/// Counts a plan as running.
pub(super) struct Running;

impl Running {
    pub(super) fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Plans that were run, or went on, on threads of their own, since the process began.
pub fn plans_moved() -> u64 {
    MOVED.load(Ordering::Relaxed)
}

/// Whether the last run of a plan was short.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    short: AtomicBool,
    /// A single row may take long.
    never_here: bool,
}

impl Pace {
    /// That of a plan which was not run yet.
    pub(crate) fn of(plan: &LogicalPlan) -> Self {
        let mut never_here = false;
        let _ = apply::walk(plan, &mut |node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::ScalarFunction(call) = expr {
                        never_here |= SLOW.contains(&call.name());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        });
        Self { short: AtomicBool::new(false), never_here }
    }
}

/// Functions that may take long for a single row.
const SLOW: &[&str] = &[
    "pg_sleep",
    "resurgam_backup",
    "resurgam_fail_device",
    "repeat",
    "lpad",
    "rpad",
    "levenshtein",
    "regexp_like",
    "regexp_match",
    "regexp_matches",
    "regexp_replace",
    "regexp_count",
    "regexp_instr",
    "regexp_substr",
    "regexp_split_to_array",
    "string_to_array",
    "generate_series",
];

/// A running plan, for [`running`].
struct Run {
    statement: Arc<StopFlag>,
    measured: Measured,
    /// Nobody reads its rows any more.
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
        self.measured.add(bytes);
    }
    fn check_memory(&self, bytes: isize) -> Result<(), SqlError> {
        self.measured.check(bytes)
    }
}

/// The plan has let go of what it had. An allocator keeps freed memory for its thread, which may do nothing for long.
struct Ended(Arc<Run>);

impl Drop for Ended {
    fn drop(&mut self) {
        if self.0.measured.was_much() {
            memory::collect();
        }
    }
}

impl Run {
    /// A batch leaves the plan: who reads it frees it. What the plan has allocated by now may be too much.
    fn handed_over(&self, batch: Result<RecordBatch>) -> Result<RecordBatch> {
        let batch = batch?;
        let bytes = isize::try_from(batch.get_array_memory_size()).unwrap_or(isize::MAX);
        if memory::is_metered() {
            self.measured.add(-bytes);
        }
        self.measured.check(0).map_err(crate::exec::bridge::failure)?;
        Ok(batch)
    }
}

/// The calling thread goes behind those that serve sessions from now on.
pub(super) fn lower_priority() {
    // SAFETY: takes no pointers; `0` is the calling thread. That it fails is no harm.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

/// The threads: as many as there are plans that run.
pub(super) fn pool() -> Result<&'static Runtime> {
    static POOL: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    POOL.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(THREADS_MAX)
            .thread_name("compute")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(lower_priority)
            .enable_all()
            .build()
    })
    .as_ref()
    .map_err(|error| exec_datafusion_err!("no threads to run plans: {error}"))
}

/// Does what may take long without a moment at which it lets others go on (parsing, planning): what else this thread
/// would have to do goes to another one first.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// A plan's stream, which `start` makes; see the module's head.
///
/// # Errors
/// Those of `start`.
pub(crate) fn beside(
    pace: &Arc<Pace>,
    statement: &Arc<StopFlag>,
    start: impl FnOnce() -> Result<SendableRecordBatchStream>,
) -> Result<SendableRecordBatchStream> {
    let pool = pool()?;
    // What it spawns when it starts belongs there, too.
    let stream = {
        let _there = pool.enter();
        start()?
    };
    let schema = stream.schema();
    let run =
        Arc::new(Run { statement: Arc::clone(statement), measured: Measured::default(), left: AtomicBool::new(false) });
    let place = match pace.short.load(Ordering::Relaxed) && !pace.never_here {
        true => Place::Here(stream),
        false => Place::moved(stream, &run, pool),
    };
    Ok(Box::pin(Beside { schema, place, run, pace: Arc::clone(pace), computed: Duration::ZERO }))
}

/// What a thread of the pool says.
enum Said {
    Batch(Result<RecordBatch>),
    /// The result has ended, and took that long to compute.
    End(Duration),
}

enum Place {
    Here(SendableRecordBatchStream),
    There { said: mpsc::Receiver<Said>, task: JoinHandle<()> },
    Ended,
}

impl Place {
    fn moved(stream: SendableRecordBatchStream, run: &Arc<Run>, pool: &'static Runtime) -> Self {
        MOVED.fetch_add(1, Ordering::Relaxed);
        let (sender, said) = mpsc::channel(READY_MAX);
        let measured = Arc::clone(run);
        let run = Arc::clone(run) as Arc<dyn Stop>;
        let running = Running::new();
        let work = async move {
            let _running = running;
            let _ended = Ended(Arc::clone(&measured));
            // Let go before that.
            let mut stream = stream;
            let mut computed = Duration::ZERO;
            loop {
                let next = poll_fn(|cx| {
                    let begun = Instant::now();
                    let polled = running::with(&run, || stream.poll_next_unpin(cx));
                    computed += begun.elapsed();
                    polled
                });
                let batch = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    batch = next => batch,
                };
                let Some(batch) = batch else { break };
                let batch = measured.handed_over(batch);
                let failed = batch.is_err();
                if sender.send(Said::Batch(batch)).await.is_err() {
                    return;
                }
                if failed {
                    break;
                }
            }
            drop(stream);
            let _ = sender.send(Said::End(computed)).await;
        };
        let task = pool.spawn_blocking(|| pool.block_on(work));
        Self::There { said, task }
    }
}

struct Beside {
    schema: SchemaRef,
    place: Place,
    run: Arc<Run>,
    pace: Arc<Pace>,
    /// What it took here so far.
    computed: Duration,
}

impl Beside {
    fn end(&mut self, short: bool) {
        self.place = Place::Ended;
        self.pace.short.store(short, Ordering::Relaxed);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.run.left.store(true, Ordering::Relaxed);
    }
}

impl Stream for Beside {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.computed > HERE_MAX {
            this.place = match std::mem::replace(&mut this.place, Place::Ended) {
                Place::Here(stream) => Place::moved(stream, &this.run, pool()?),
                other => other,
            };
        }
        match &mut this.place {
            Place::Here(stream) => {
                let begun = Instant::now();
                let run = Arc::clone(&this.run) as Arc<dyn Stop>;
                let polled = match panics::caught(|| running::with(&run, || stream.poll_next_unpin(cx))) {
                    Ok(polled) => polled,
                    Err(error) => {
                        this.end(false);
                        return Poll::Ready(Some(Err(bridge::failure(error))));
                    }
                };
                this.computed += begun.elapsed();
                match &polled {
                    Poll::Ready(None) => this.end(this.computed <= HERE_MAX),
                    Poll::Pending if this.computed > HERE_MAX => cx.waker().wake_by_ref(),
                    _ => {}
                }
                polled.map(|next| next.map(|batch| this.run.handed_over(batch)))
            }
            Place::There { said, task } => match said.poll_recv(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Said::Batch(batch))) => Poll::Ready(Some(batch)),
                Poll::Ready(Some(Said::End(computed))) => {
                    this.end(this.computed + computed <= HERE_MAX);
                    Poll::Ready(None)
                }
                // It broke off: say why.
                Poll::Ready(None) => match Pin::new(task).poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(ended) => {
                        this.end(false);
                        let error = match ended {
                            Err(error) if error.is_panic() => {
                                bridge::failure(panics::error_of(error.into_panic().as_ref()))
                            }
                            Err(error) => DataFusionError::Execution(format!("a plan was broken off: {error}")),
                            Ok(()) => DataFusionError::Internal("a plan ended without saying so".to_owned()),
                        };
                        Poll::Ready(Some(Err(error)))
                    }
                },
            },
            Place::Ended => Poll::Ready(None),
        }
    }
}

impl RecordBatchStream for Beside {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int32Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]))
    }

    fn stream(next: impl FnMut(i32) -> Option<i32> + Send + 'static) -> SendableRecordBatchStream {
        let batches = futures::stream::iter((0..).map_while(next))
            .map(|value| Ok(RecordBatch::try_new(schema(), vec![Arc::new(Int32Array::from(vec![value]))])?));
        Box::pin(RecordBatchStreamAdapter::new(schema(), batches))
    }

    async fn values(mut stream: SendableRecordBatchStream) -> Vec<i32> {
        let mut out = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch.expect("a batch");
            out.push(batch.column(0).as_any().downcast_ref::<Int32Array>().expect("its column").value(0));
        }
        out
    }

    fn thread() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn every_row_comes_once_wherever_it_is_computed() {
        let pace = Arc::new(Pace::default());
        let run = |slow_at: Option<i32>| {
            let pace = Arc::clone(&pace);
            async move {
                let threads = Arc::new(parking_lot::Mutex::new(Vec::new()));
                let seen = Arc::clone(&threads);
                let rows = move || {
                    Ok(stream(move |at| {
                        seen.lock().push(thread());
                        if slow_at == Some(at) {
                            std::thread::sleep(HERE_MAX * 2);
                        }
                        (at < 20).then_some(at)
                    }))
                };
                assert_eq!(
                    values(beside(&pace, &Arc::default(), rows).expect("a stream")).await,
                    (0..20).collect::<Vec<_>>()
                );
                let threads = threads.lock().clone();
                threads.iter().map(|name| name == "compute").collect::<Vec<_>>()
            }
        };
        assert!(run(None).await.iter().all(|there| *there), "nothing is known of it yet");
        assert!(run(None).await.iter().all(|there| !there), "it was short");
        let there = run(Some(7)).await;
        assert!(!there[7] && there[8..].iter().all(|there| *there), "{there:?}");
        assert!(run(None).await.iter().all(|there| *there), "it was long");
    }

    #[tokio::test]
    async fn who_leaves_waits_for_nothing() {
        let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let flags = (Arc::clone(&begun), Arc::clone(&ended));
        let rows = move || {
            Ok(stream(move |_| {
                flags.0.store(true, Ordering::SeqCst);
                while !flags.1.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Some(1)
            }))
        };
        let mut rows = beside(&Arc::default(), &Arc::default(), rows).expect("a stream");
        let next = tokio::time::timeout(Duration::from_millis(50), rows.next()).await;
        assert!(next.is_err() && begun.load(Ordering::SeqCst));
        drop(rows);
        ended.store(true, Ordering::SeqCst);
    }

    #[tokio::test]
    async fn a_panic_is_no_end() {
        for short in [false, true] {
            let pace = Arc::new(Pace { short: AtomicBool::new(short), never_here: false });
            let rows = || Ok(stream(|at| if at < 3 { Some(at) } else { panic!("in the middle") }));
            let mut rows = beside(&pace, &Arc::default(), rows).expect("a stream");
            let mut count = 0;
            let error = loop {
                match rows.next().await {
                    Some(Ok(_)) => count += 1,
                    Some(Err(error)) => break error,
                    None => panic!("an end"),
                }
            };
            assert_eq!(count, 3);
            let error = crate::pg::errors::from_datafusion(error, "");
            assert_eq!(error.sqlstate, "XX000");
            assert!(error.message.contains("in the middle"), "{error}");
        }
    }
}
