//! Where plans run: beside the threads that serve connections.
//!
//! A plan may compute for a long time between two moments at which it lets others go on: a batch of a cross join, a
//! string function over long texts, a sort. On the threads that read the clients' messages that would hold up every
//! session, logins, and the cancel that is to end it. So plans run on threads of their own ([`pool`]),
//! with a lower priority, and hand their batches over.
//!
//! Handing over takes two wake-ups of threads, which is more than a short plan takes. A plan whose last run was
//! short ([`Pace`]) therefore begins where its session is, and moves when it has computed for [`HERE_MAX`].
//!
//! Invariants:
//! 1. Whoever reads the stream can leave it at any time: it is told to stop, and what it holds is let go on its
//!    own thread, at the end of the batch that it is in. Nothing waits for that.
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
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::parse::depth::STACK_BYTES;

/// How long a plan computes on its session's thread before it moves to one of [`pool`].
const HERE_MAX: Duration = Duration::from_millis(1);
/// Batches that are ready beside the one that is being read.
const READY_MAX: usize = 2;
/// Added to the threads' niceness: who asks for one row goes before who asks for a million.
const NICENESS: i32 = 5;

/// Plans that moved to threads of their own, since the process began; for metrics.
static MOVED: AtomicU64 = AtomicU64::new(0);

/// Plans that were run, or went on, on threads of their own, since the process began.
pub fn plans_moved() -> u64 {
    MOVED.load(Ordering::Relaxed)
}

/// Whether the last run of a plan was short.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicBool);

/// The threads, one for each processor.
fn pool() -> Result<&'static Runtime> {
    static POOL: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    POOL.get_or_init(|| {
        Builder::new_multi_thread()
            .thread_name("compute")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(|| {
                // SAFETY: takes no pointers; `0` is the calling thread. That it fails is no harm.
                let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
            })
            .enable_all()
            .build()
    })
    .as_ref()
    .map_err(|error| exec_datafusion_err!("no threads to run plans: {error}"))
}

/// A plan's stream, which `start` makes; see the module's head.
///
/// # Errors
/// Those of `start`.
pub(crate) fn beside(
    pace: &Arc<Pace>,
    start: impl FnOnce() -> Result<SendableRecordBatchStream>,
) -> Result<SendableRecordBatchStream> {
    let pool = pool()?;
    // What it spawns when it starts belongs there, too.
    let stream = {
        let _there = pool.enter();
        start()?
    };
    let schema = stream.schema();
    let place = match pace.0.load(Ordering::Relaxed) {
        true => Place::Here(stream),
        false => Place::moved(stream, pool),
    };
    Ok(Box::pin(Beside { schema, place, pace: Arc::clone(pace), computed: Duration::ZERO }))
}

/// What a thread of the pool says.
enum Said {
    Batch(Result<RecordBatch>),
    /// The result has ended, and took that long to compute.
    End(Duration),
}

enum Place {
    Here(SendableRecordBatchStream),
    There { said: mpsc::Receiver<Said>, task: Task },
    Ended,
}

impl Place {
    fn moved(mut stream: SendableRecordBatchStream, pool: &Runtime) -> Self {
        MOVED.fetch_add(1, Ordering::Relaxed);
        let (sender, said) = mpsc::channel(READY_MAX);
        let task = pool.spawn(async move {
            let mut computed = Duration::ZERO;
            loop {
                let next = poll_fn(|cx| {
                    let begun = Instant::now();
                    let polled = stream.poll_next_unpin(cx);
                    computed += begun.elapsed();
                    polled
                });
                let Some(batch) = next.await else { break };
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
        });
        Self::There { said, task: Task(task) }
    }
}

/// A plan on a thread of the pool, which is told to stop when nobody reads it any more.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Beside {
    schema: SchemaRef,
    place: Place,
    pace: Arc<Pace>,
    /// What it took here so far.
    computed: Duration,
}

impl Beside {
    fn end(&mut self, short: bool) {
        self.place = Place::Ended;
        self.pace.0.store(short, Ordering::Relaxed);
    }
}

impl Stream for Beside {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.computed > HERE_MAX {
            this.place = match std::mem::replace(&mut this.place, Place::Ended) {
                Place::Here(stream) => Place::moved(stream, pool()?),
                other => other,
            };
        }
        match &mut this.place {
            Place::Here(stream) => {
                let begun = Instant::now();
                let polled = stream.poll_next_unpin(cx);
                this.computed += begun.elapsed();
                match polled {
                    Poll::Ready(None) => this.end(this.computed <= HERE_MAX),
                    Poll::Pending if this.computed > HERE_MAX => cx.waker().wake_by_ref(),
                    _ => {}
                }
                polled
            }
            Place::There { said, task } => match said.poll_recv(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Said::Batch(batch))) => Poll::Ready(Some(batch)),
                Poll::Ready(Some(Said::End(computed))) => {
                    this.end(this.computed + computed <= HERE_MAX);
                    Poll::Ready(None)
                }
                // It broke off: say why.
                Poll::Ready(None) => match Pin::new(&mut task.0).poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(ended) => {
                        this.end(false);
                        let error = match ended {
                            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
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
        let mut next = next;
        let batches = futures::stream::iter((0..).map_while(move |at| next(at)))
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
                assert_eq!(values(beside(&pace, rows).expect("a stream")).await, (0..20).collect::<Vec<_>>());
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
        let mut rows = beside(&Arc::default(), rows).expect("a stream");
        let next = tokio::time::timeout(Duration::from_millis(50), rows.next()).await;
        assert!(next.is_err() && begun.load(Ordering::SeqCst));
        drop(rows);
        ended.store(true, Ordering::SeqCst);
    }

    #[tokio::test]
    #[should_panic(expected = "in the middle")]
    async fn a_panic_is_no_end() {
        let rows = || Ok(stream(|at| if at < 3 { Some(at) } else { panic!("in the middle") }));
        values(beside(&Arc::default(), rows).expect("a stream")).await;
    }
}
