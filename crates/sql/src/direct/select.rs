//! SELECT of a few rows of one table, in the order of one of its keys: from the cursor to the wire, row by
//! row. A sort is taken if the tree is in that order, or in the reverse.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use resurgam_engine::{RowBuf, StatementKind};

use super::expr::{Input, Row, Values};
use super::output::Output;
use super::parts::Parts;
use super::rows::{Located, ROWS_MAX, Rows};
use crate::planner::QueryPlan;
use crate::planning::Planning;
use crate::session::Session;
use crate::wire::{Format, RowChunk, SqlError};

/// Bytes of a result beyond which planned operators do it.
const BYTES_MAX: usize = 48 << 10;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct DirectSelect {
    pub rows: Rows,
    pub output: Output,
    pub skip: usize,
    pub fetch: Option<usize>,
}

impl DirectSelect {
    pub(crate) fn new(state: &SessionState, plan: &QueryPlan) -> Option<Self> {
        if !Planning::of(state.config()).direct {
            return None;
        }
        let parts = Parts::of(&plan.logical).filter(|parts| !parts.target)?;
        let fields = plan.logical.schema().fields();
        let output = Output::new(&parts.output, fields, &parts.table, &parts.schema)?;
        let (skip, fetch) = (parts.skip, parts.fetch);
        let paths = parts.paths();
        // One row is in any order.
        let one = paths.iter().filter(|path| path.is_one()).max_by_key(|path| path.score());
        if let Some(path) = one {
            return Some(Self { rows: Rows::new(&parts, path)?, output, skip, fetch });
        }
        let most_equal = paths.iter().map(|path| path.equal.len()).max().unwrap_or(0);
        let mut best: Option<_> = None;
        for mut path in paths {
            if let Some(backward) = parts.direction(&path)
                && best.as_ref().is_none_or(|(score, _)| path.score() > *score)
            {
                path.backward = backward;
                best = Some((path.score(), path));
            }
        }
        let (_, path) = best?;
        // Whole tables are read by planned operators, but for their first rows.
        let first = parts.filter.is_none() && fetch.is_some_and(|rows| rows.saturating_add(skip) <= ROWS_MAX);
        if path.equal.len() < most_equal || !(path.is_bounded() || first) {
            return None;
        }
        Some(Self { rows: Rows::new(&parts, &path)?, output, skip, fetch })
    }

    /// Whether there may be too many rows.
    pub(crate) fn may_be_long(&self) -> bool {
        !self.rows.path.is_one()
    }

    /// What EXPLAIN shows.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines = self.rows.describe();
        if self.skip > 0 || self.fetch.is_some() {
            let fetch = self.fetch.map_or_else(|| "all".to_owned(), |rows| rows.to_string());
            lines.push(format!("  Limit: {fetch}, Offset: {}", self.skip));
        }
        lines
    }
}

impl Session {
    /// The rows of a SELECT; `None`: left to planned operators.
    pub(crate) fn select_directly(
        &mut self,
        select: &DirectSelect,
        params: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
    ) -> Result<Option<RowChunk>, SqlError> {
        if !select.output.accepts(formats) {
            return Ok(None); // told by the encoder of planned rows
        }
        let Some(located) = select.rows.locate(params)? else { return Ok(None) };
        let style = self.style();
        let stop = Arc::clone(&self.shared.stop);
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        let mut chunk = select.output.chunk();
        let wanted = select.fetch.unwrap_or(usize::MAX);
        let table = &select.rows.table;
        let ranges = match located {
            Located::One(key) => {
                let mut row = RowBuf::default();
                if wanted > 0 && select.skip == 0 && select.rows.one(&view, &key, params, &mut row)? {
                    let row = Row { table, values: Values::Stored(row.raw()), view: &view };
                    select.output.append(Input { params, row: Some(row) }, formats, &style, &mut chunk)?;
                }
                return Ok(Some(chunk));
            }
            Located::Ranges(ranges) if wanted > 0 => ranges,
            Located::Ranges(_) => return Ok(Some(chunk)),
        };
        let mut skip = select.skip;
        let about = select.fetch.map(|rows| rows.saturating_add(skip));
        let all = select.rows.each(&view, ranges, params, &stop, about, |raw| {
            if skip > 0 {
                skip -= 1;
                return Ok(ControlFlow::Continue(()));
            }
            let row = Row { table, values: Values::Stored(raw), view: &view };
            select.output.append(Input { params, row: Some(row) }, formats, &style, &mut chunk)?;
            Ok(if chunk.len() >= wanted {
                ControlFlow::Break(true)
            } else if chunk.len() > ROWS_MAX || chunk.bytes.len() > BYTES_MAX {
                ControlFlow::Break(false)
            } else {
                ControlFlow::Continue(())
            })
        })?;
        // A portal is read on from where its rows ended: by planned operators.
        if !all || (max_rows > 0 && chunk.len() >= max_rows) {
            return Ok(None);
        }
        Ok(Some(chunk))
    }
}
