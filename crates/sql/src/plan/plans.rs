//! What is known about the statements that are planned: how often each ran and by what, how long
//! planning and running took, and how much memory it takes to keep.
//!
//! A run is *direct* (from the statement itself, without a physical plan), a *hit* (a physical plan
//! was there), a *miss* (one was made, to be kept) or *planned each time*: a physical plan of
//! that statement cannot be kept, see [`cell`](crate::exec::cell).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use parking_lot::Mutex;

use crate::exec::once::OnceDoes;
use crate::exec::spill::TempTotals;
use crate::pg::context::PlanRow;
use crate::plan::statement::{Kind, Prepared};

/// Bytes of a statement without its plan, of a node of a plan, of a column of a node, of an expression:
/// guesses that are on the high side, and count what is made of it to be run.
const STATEMENT_BYTES: usize = 4 << 10;
const NODE_BYTES: usize = 3 << 10;
const FIELD_BYTES: usize = 400;
const EXPR_BYTES: usize = 700;

/// Counters of one planned statement, or of many.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    direct: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    each_time: AtomicU64,
    plan_ns: AtomicU64,
    run_ns: AtomicU64,
    /// Where these go in the end.
    totals: OnceLock<Arc<Counts>>,
}

/// How a statement was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunBy {
    Direct,
    Hit,
    Miss,
    EachTime,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Counts {
    pub(crate) fn run(&self, by: RunBy) {
        let counter = match by {
            RunBy::Direct => &self.direct,
            RunBy::Hit => &self.hits,
            RunBy::Miss => &self.misses,
            RunBy::EachTime => &self.each_time,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn planned(&self, time: Duration) {
        self.plan_ns.fetch_add(ns(time), Ordering::Relaxed);
    }
    pub(crate) fn ran(&self, time: Duration) {
        self.run_ns.fetch_add(ns(time), Ordering::Relaxed);
    }

    fn fields(&self) -> [&AtomicU64; 6] {
        [&self.direct, &self.hits, &self.misses, &self.each_time, &self.plan_ns, &self.run_ns]
    }

    fn add(&self, other: &Self) {
        for (sum, other) in self.fields().into_iter().zip(other.fields()) {
            sum.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        if let Some(totals) = self.totals.get() {
            totals.add(self);
        }
    }
}

/// Numbers of all statements that were ever planned; for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanTotals {
    /// Runs without a physical plan.
    pub direct: u64,
    /// Runs of a physical plan that was there.
    pub hits: u64,
    /// Runs for which one was made and kept.
    pub misses: u64,
    /// Runs for which one was made that cannot be kept.
    pub each_time: u64,
    /// Time spent planning statements and making physical plans.
    pub planning: Duration,
    /// Time spent running them, up to the end of their results.
    pub running: Duration,
    /// Statements looked for by their text, and found.
    pub found: u64,
    /// Statements looked for by their text, and planned.
    pub not_found: u64,
    /// Statements that went to make room.
    pub evicted: u64,
    /// Statements that are kept for all sessions, their bytes, and the bound of these.
    pub kept: u64,
    pub kept_bytes: u64,
    pub kept_bytes_max: u64,
    /// Memory that statements have reserved, and may.
    pub reserved_bytes: u64,
    pub reserved_bytes_max: u64,
    /// What was written to temporary files.
    pub temp: TempTotals,
}

/// All statements that are planned and not gone.
#[derive(Default)]
pub(crate) struct Plans {
    alive: Mutex<Vec<Weak<Prepared>>>,
    gone: Arc<Counts>,
}

impl Plans {
    /// A statement was planned.
    pub(crate) fn add(&self, prepared: &Arc<Prepared>) {
        let Some(counts) = &prepared.counts else { return };
        if counts.totals.set(Arc::clone(&self.gone)).is_err() {
            return;
        }
        let mut alive = self.alive.lock();
        if alive.len() == alive.capacity() {
            alive.retain(|statement| statement.strong_count() > 0);
            let room = alive.len();
            alive.reserve(room);
        }
        alive.push(Arc::downgrade(prepared));
    }

    fn all(&self) -> Vec<Arc<Prepared>> {
        self.alive.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The rows of `resurgam_plans`.
    pub(crate) fn rows(&self) -> Vec<PlanRow> {
        let ms = |ns: u64| ns as f64 / 1e6;
        let row = |prepared: Arc<Prepared>| {
            let counts = prepared.counts.as_ref()?;
            let [direct, hits, misses, each_time, plan, run] =
                counts.fields().map(|counter| counter.load(Ordering::Relaxed));
            Some(PlanRow {
                query: prepared.text.to_string(),
                shape: shape(&prepared).to_owned(),
                is_shared: prepared.shareable,
                direct,
                hits,
                misses,
                each_time,
                plan_ms: ms(plan),
                run_ms: ms(run),
                bytes: prepared.bytes as u64,
            })
        };
        self.all().into_iter().filter_map(row).collect()
    }

    /// The sums of all counters.
    pub(crate) fn totals(&self) -> PlanTotals {
        let sum = Counts::default();
        sum.add(&self.gone);
        for prepared in self.all() {
            if let Some(counts) = &prepared.counts {
                sum.add(counts);
            }
        }
        let [direct, hits, misses, each_time, plan, run] = sum.fields().map(|counter| counter.load(Ordering::Relaxed));
        let (planning, running) = (Duration::from_nanos(plan), Duration::from_nanos(run));
        PlanTotals { direct, hits, misses, each_time, planning, running, ..PlanTotals::default() }
    }
}

/// What kind of execution a statement was planned for.
fn shape(prepared: &Prepared) -> &'static str {
    match &prepared.kind {
        Kind::Query(query) => match &query.direct {
            Some(select) if !select.may_be_long() => "one row",
            Some(_) => "range",
            None => "query",
        },
        Kind::Write(write) => match (&write.tree, write.op) {
            (Some(_), crate::plan::analyze::Op::Insert) => "insert rows",
            (Some(_), crate::plan::analyze::Op::Update) => "update rows",
            (Some(_), crate::plan::analyze::Op::Delete) => "delete rows",
            (None, crate::plan::analyze::Op::Insert) => "insert",
            (None, crate::plan::analyze::Op::Update) => "update",
            (None, crate::plan::analyze::Op::Delete) => "delete",
            (_, crate::plan::analyze::Op::Merge) => "merge",
        },
        _ => "other",
    }
}

/// About how much memory a statement takes while it is kept.
pub(crate) fn bytes_of(prepared: &Prepared) -> usize {
    let plan = match &prepared.kind {
        Kind::Query(query) => plan_bytes(&query.plan.logical),
        Kind::Write(write) => plan_bytes(&write.stream.logical),
        _ => 0,
    };
    let once = prepared.once.plans.iter().map(|once| match &once.does {
        OnceDoes::Read(query) => plan_bytes(&query.logical),
        OnceDoes::Write(write) => plan_bytes(&write.stream.logical),
    });
    // The text is the key as well.
    STATEMENT_BYTES + prepared.text.len() * 2 + prepared.param_oids.len() * 32 + plan + once.sum::<usize>()
}

fn plan_bytes(plan: &LogicalPlan) -> usize {
    let mut bytes = 0usize;
    let _ = plan.apply_with_subqueries(|node| {
        bytes = bytes.saturating_add(NODE_BYTES + node.schema().fields().len() * FIELD_BYTES);
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let value = if let Expr::Literal(value, _) = expr { value.size() } else { 0 };
                bytes = bytes.saturating_add(EXPR_BYTES + value);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    bytes
}
