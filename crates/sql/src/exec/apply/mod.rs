//! Subqueries that are run for the rows around them.
//!
//! An analyzer rule ([`Extract`]) takes every subquery out of a plan that DataFusion would not surely
//! turn into a right join ([`joins`]), and puts a call of a [`SubPlan`] in its place: a function of the
//! outer columns that the subquery reads, and of the operand of IN, ANY and ALL. All that is said
//! about expressions holds of it (where it may stand, which columns it needs, when it is evaluated),
//! so subqueries work in every clause. A LATERAL item becomes a node of its own ([`lateral`]).
//!
//! | step | when | where |
//! |---|---|---|
//! | subqueries become calls, their outer columns placeholders | analysis | [`extract`], [`outer`] |
//! | inner plans are optimised by themselves; AND and OR become lazy | optimisation | [`logical`], [`lazy`] |
//! | inner plans become physical, placeholders read a cell | a physical plan is made | [`physical`] |
//! | the inner plan runs for each combination of outer values | evaluation | [`run`], [`memo`], [`compare`] |
//!
//! The body of a function of users is such a subquery, whose outer values are the arguments of the call ([`body`]).
//!
//! How deep an outer column lies is not written in DataFusion's plans. A column belongs to the
//! innermost query around it that has a column of that qualified name, unless the field of its
//! [`Expr::OuterReferenceColumn`](datafusion::logical_expr::Expr) says how many queries further out by
//! its metadata [`DEPTH`] (1, the default, is the next one).
//!
//! Guarantees, beside the answers of PostgreSQL:
//! 1. A subquery, or what may fail, runs only for rows that its expression is evaluated for: those that reach its branch of
//!    CASE or coalesce, or its side of AND and OR (the left side goes first). In WHERE and HAVING
//!    the other conditions of the same AND go before.
//! 2. One that reads no outer column runs once per execution, when its value is first asked for; others
//!    once for each combination of outer values while the memo has room, unless they call volatile
//!    functions.
//! 3. An inner plan is made once per physical plan, before any outer value is there, and started
//!    again for each run. So are its key ranges: they are computed when a run begins.
//! 4. Memory of the memo and of rows that are kept is the query's; a run notices a cancel and the
//!    statement's timeout.

mod block;
mod body;
mod compare;
mod extract;
mod fallible;
mod function;
mod joins;
mod lateral;
mod lateral_exec;
mod lazy;
mod logical;
mod memo;
mod outer;
mod physical;
mod run;

pub(crate) use block::wait;
pub(crate) use body::body_call;
pub(crate) use extract::Extract;
pub(crate) use fallible::{
    DAY_FROM, DAY_OF, cost, holds_integers, is_harmless_in_scans, is_harmless_operator, may_fail,
};
pub(crate) use function::{is_call, is_constant_call, plan_of_call, subplan_id, walk};
pub(crate) use lateral::is_lateral;
pub(crate) use lateral_exec::{Planner, lateral_of};
pub(crate) use logical::optimize;
pub(crate) use outer::outer_name;
pub(crate) use physical::{Bind, Run, ShownSubquery, physical};
