//! Queries that are executed directly, on the session's transaction: see [`crate::exec::direct`].

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use resurgam_engine::{ReadView, RowBuf, StatementKind};

use crate::exec::direct::{BYTES_MAX, DirectList, DirectSelect, Input, Located, ROWS_MAX, Row, Touched, Values};
use crate::pg::encode::TextStyle;
use crate::pg::running::{self, Stop};
use crate::plan::statement::Prepared;
use crate::session::Session;
use crate::wire::{Format, RowChunk, SqlError};

impl Session {
    /// A row by its key, where no transaction is open and the session reads committed rows (`session/at_once.rs`): one that
    /// only did this would leave no trace, so none is begun. `None`: there is more to it, and a transaction has to.
    pub(crate) fn select_plainly(
        &mut self,
        select: &DirectSelect,
        params: &[ScalarValue],
        formats: &[Format],
    ) -> Result<Option<(RowChunk, ReadView)>, SqlError> {
        if !select.output.accepts(formats) {
            return Ok(None);
        }
        let Some(Located::One(key)) = select.rows.locate(params)? else { return Ok(None) };
        self.begin_plainly();
        let view = self.db.engine.plain_view().interrupted_by(|| self.interrupt());
        let mut row = std::mem::take(&mut self.row_unused);
        let found = match select.rows.one(&view, &key, params, &mut row) {
            // Planned and run again by who can.
            Err(error) if error.definition_changed => return Ok(None),
            found => found?,
        };
        let mut chunk = std::mem::take(&mut self.chunk_unused);
        chunk.fields = select.output.fields();
        if found {
            let stored = Row { table: &select.rows.table, values: Values::Stored(row.raw()), view: &view };
            let style = TextStyle { zone: self.hot().zone, names: None };
            select.output.append(Input { params, row: Some(stored) }, formats, &style, &mut chunk)?;
        }
        self.keep_row(row);
        Ok(Some((chunk, view)))
    }

    /// The row of a SELECT without FROM, and the view of its moment; `None`: left to planned operators.
    pub(crate) fn list_directly(
        &mut self,
        prepared: &Arc<Prepared>,
        list: &DirectList,
        params: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
    ) -> Result<Option<(RowChunk, ReadView)>, SqlError> {
        // A portal is read on from where its rows ended; and what is called is called once.
        if max_rows == 1 || !list.accepts(formats) {
            return Ok(None);
        }
        let style = self.style();
        let stop = Arc::clone(&self.shared.stop) as Arc<dyn Stop>;
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        self.refuse_older_plan(prepared, &view)?;
        let chunk = running::with(&stop, || list.row(params, formats, &style))?;
        Ok(Some((chunk, view)))
    }

    /// The rows of a SELECT; and the view that they are of; `None`: left to planned operators. What it looks at is counted.
    pub(crate) fn select_directly(
        &mut self,
        select: &DirectSelect,
        params: &[ScalarValue],
        formats: &[Format],
        max_rows: usize,
        touched: &mut Touched,
    ) -> Result<Option<(RowChunk, ReadView)>, SqlError> {
        if !select.output.accepts(formats) {
            return Ok(None); // told by the encoder of planned rows
        }
        let Some(located) = select.locate(params)? else { return Ok(None) };
        let style = self.style();
        let stop = Arc::clone(&self.shared.stop);
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        let mut chunk = select.output.chunk();
        let wanted = select.fetch.unwrap_or(usize::MAX);
        let table = &select.rows.table;
        if select.is_gathered() {
            let Some(rows) = select.gather(located, &view, params, &stop, touched)? else { return Ok(None) };
            let is_whole = select.fold(&rows, &view, params, formats, &style, &mut chunk)?;
            return Ok((is_whole && (max_rows == 0 || chunk.len() < max_rows)).then_some((chunk, view)));
        }
        let ranges = match located {
            Located::One(key) => {
                let mut row = RowBuf::default();
                if wanted > 0 && select.skip == 0 && select.rows.one(&view, &key, params, &mut row)? {
                    let row = Row { table, values: Values::Stored(row.raw()), view: &view };
                    select.output.append(Input { params, row: Some(row) }, formats, &style, &mut chunk)?;
                    *touched = Touched { read: 1, kept: 1 };
                }
                return Ok(Some((chunk, view)));
            }
            Located::Ranges(ranges) if wanted > 0 => ranges,
            Located::Ranges(_) => return Ok(Some((chunk, view))),
        };
        let mut skip = select.skip;
        let about = select.fetch.map(|rows| rows.saturating_add(skip));
        let all = select.rows.each(&view, ranges, params, &stop, about, touched, |raw| {
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
        Ok(Some((chunk, view)))
    }
}
