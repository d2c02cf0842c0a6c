//! Rows of a cursor that stay there to be read again: those of SCROLL, and of WITH HOLD.
//!
//! They are kept in the order in which the query gives them, in *pieces*: the newest one in memory, counted among what the
//! session may keep ([`kept`](super::kept)), and the full ones (4 MB) in temporary files. Whoever reads has a stream of its own over the
//! pieces of that moment, forward or backward, which holds one piece in memory at a time; the one that was read last stays there,
//! so that steps within it read no file.
//!
//! [`Place`] is where a cursor stands, by PostgreSQL's rules (`DoPortalRunFetch` in its pquery.c).

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::spill_file::SpillFile;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use crate::exec::weight;
use crate::parse::statement::cursor::Count;
use crate::pg::errors;
use crate::plan::kept::{Kept, Room};
use crate::session::stream::keys;
use crate::wire::SqlError;

/// Bytes from which on a piece is full.
const PIECE_BYTES: usize = 4 << 20;

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The row that was given last, counted from 1; 0 before the first one. At the end, the number of rows.
    pub row: u64,
    /// It is behind the last row.
    pub ended: bool,
}

/// What one step takes: rows counted from 0, and where it leaves the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub rows: Range<u64>,
    pub backward: bool,
    pub place: Place,
}

impl Place {
    /// The number of rows that have to be there to know where that leads: all of them for `u64::MAX`.
    pub(crate) fn needs(self, count: Count) -> u64 {
        match count {
            _ if self.ended => self.row,
            Count::Rows(more) | Count::Relative(more) => self.row.saturating_add(u64::try_from(more).unwrap_or(0)),
            Count::All => u64::MAX,
            Count::AllBackward => self.row,
            Count::Absolute(row) => u64::try_from(row).unwrap_or(u64::MAX),
        }
    }

    /// Where it leads, with so many rows that are there: those that it [needs](Self::needs), or all.
    pub(crate) fn step(self, count: Count, there: u64) -> Step {
        // As if the end were a row behind the last one.
        let at = self.row + u64::from(self.ended);
        let none = |row: u64, ended| Step { rows: 0..0, backward: false, place: Place { row, ended } };
        let one = |row: u64| match row {
            0 => none(0, false),
            row if row > there => none(there, true),
            row => Step { rows: row - 1..row, backward: false, place: Place { row, ended: false } },
        };
        match count {
            Count::Rows(0) | Count::Relative(0) if self.ended => none(self.row, true),
            Count::Rows(0) | Count::Relative(0) => one(self.row),
            Count::Rows(more @ 1..) => self.forward(more.unsigned_abs(), there),
            Count::All => self.forward(u64::MAX, there),
            Count::Rows(back) => Self::backward(at, back.unsigned_abs()),
            Count::AllBackward => Self::backward(at, u64::MAX),
            Count::Absolute(row @ 0..) => one(row.unsigned_abs()),
            Count::Absolute(back) => one((there + 1).saturating_sub(back.unsigned_abs())),
            Count::Relative(_) if self.ended && count.is_forward() => none(self.row, true),
            Count::Relative(away) => one(at.saturating_add_signed(away)),
        }
    }

    fn forward(self, more: u64, there: u64) -> Step {
        let end = self.row.saturating_add(more);
        let place = match self.ended || end > there {
            true => Place { row: there, ended: true },
            false => Place { row: end, ended: false },
        };
        let from = if self.ended { there } else { self.row };
        Step { rows: from..end.min(there), backward: false, place }
    }

    fn backward(at: u64, back: u64) -> Step {
        let before = at.saturating_sub(1);
        let row = if back > before { 0 } else { at - back };
        Step { rows: before - back.min(before)..before, backward: true, place: Place { row, ended: false } }
    }

    /// How many rows a cursor that only goes forward passes over and then takes for that; `None` where it would have to go back.
    pub(crate) fn onward(self, count: Count) -> Option<(u64, u64)> {
        let at = self.row + u64::from(self.ended);
        match count {
            Count::Rows(0) | Count::Relative(0) => (at == 0 || self.ended).then_some((0, 0)),
            Count::Rows(more @ 1..) => Some((0, more.unsigned_abs())),
            Count::All => Some((0, u64::MAX)),
            Count::Relative(away @ 1..) => Some((away.unsigned_abs() - 1, 1)),
            Count::Absolute(0) => (at == 0).then_some((0, 0)),
            // To a row in the first half of what was read PostgreSQL goes from the start, also where it would be nearer from here.
            Count::Absolute(row @ 1..) => {
                let row = row.unsigned_abs();
                let is_near_start = at > 0 && row - 1 <= self.row / 2;
                (row > at && !is_near_start).then(|| (row - at - 1, 1))
            }
            _ => None,
        }
    }
}

impl Place {
    /// The row that the cursor is on, counted from 0.
    pub(crate) fn on(self) -> Option<u64> {
        if self.ended { None } else { self.row.checked_sub(1) }
    }
}

impl Count {
    fn is_forward(self) -> bool {
        matches!(self, Self::Rows(1..) | Self::Relative(1..) | Self::All)
    }
}

/// See the module's head.
pub(crate) struct Scroll {
    room: Arc<Room>,
    schema: SchemaRef,
    spills: SpillManager,
    /// Those in files, in order.
    pieces: Vec<Piece>,
    /// The newest one.
    newest: Vec<RecordBatch>,
    newest_rows: u64,
    newest_bytes: usize,
    kept: Vec<Kept>,
    /// Rows of all of them.
    rows: u64,
    read_last: Arc<Mutex<Option<(usize, Vec<RecordBatch>)>>>,
}

#[derive(Clone)]
struct Piece {
    rows: u64,
    file: Arc<dyn SpillFile>,
}

/// A part of a piece that is to be read.
struct Part {
    /// Its number, and its file; or its rows, if they are in memory.
    from: std::result::Result<(usize, Arc<dyn SpillFile>), Vec<RecordBatch>>,
    rows: Range<u64>,
}

impl Scroll {
    /// Without rows. Its files are the statement's whose resources these are.
    pub(crate) fn new(schema: SchemaRef, room: Arc<Room>, runtime: Arc<RuntimeEnv>) -> Self {
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        Self {
            room,
            spills: SpillManager::new(runtime, metrics, Arc::clone(&schema)),
            schema,
            pieces: Vec::new(),
            newest: Vec::new(),
            newest_rows: 0,
            newest_bytes: 0,
            kept: Vec::new(),
            rows: 0,
            read_last: Arc::default(),
        }
    }

    /// Rows that are there.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows at the end.
    ///
    /// # Errors
    /// `53200`, and those of temporary files (`53400`, `53100`, `58030`).
    pub(crate) fn push(&mut self, batch: RecordBatch) -> std::result::Result<(), SqlError> {
        let count = batch.num_rows() as u64;
        if count == 0 {
            return Ok(());
        }
        let bytes = weight::kept(&batch);
        let kept = match self.room.take(bytes) {
            Err(_) if !self.newest.is_empty() => {
                self.fill_piece()?;
                self.room.take(bytes)?
            }
            taken => taken?,
        };
        self.kept.push(kept);
        self.newest.push(batch);
        self.newest_rows += count;
        self.newest_bytes += bytes;
        self.rows += count;
        if self.newest_bytes >= PIECE_BYTES { self.fill_piece() } else { Ok(()) }
    }

    /// What is in memory goes to a file.
    fn fill_piece(&mut self) -> std::result::Result<(), SqlError> {
        let file = self.spills.spill_record_batch_and_finish(&self.newest, "cursor");
        let file = file.map_err(|error| errors::from_datafusion(error, ""))?;
        let file = file.ok_or_else(|| SqlError::internal("rows of a cursor without a file"))?;
        self.pieces.push(Piece { rows: self.newest_rows, file });
        self.newest.clear();
        self.kept.clear();
        (self.newest_rows, self.newest_bytes) = (0, 0);
        Ok(())
    }

    /// Those rows, counted from 0, the last one first if `backward`. What is added later changes nothing in it.
    pub(crate) fn read(&self, rows: Range<u64>, backward: bool) -> SendableRecordBatchStream {
        let mut parts = Vec::new();
        let mut first = 0;
        let mut add = |from, count: u64| {
            let part = rows.start.clamp(first, first + count) - first..rows.end.clamp(first, first + count) - first;
            first += count;
            if !part.is_empty() {
                parts.push(Part { from, rows: part });
            }
        };
        for (number, piece) in self.pieces.iter().enumerate() {
            add(Ok((number, Arc::clone(&piece.file))), piece.rows);
        }
        add(Err(self.newest.clone()), self.newest_rows);
        if backward {
            parts.reverse();
        }
        let (spills, read_last) = (self.spills.clone(), Arc::clone(&self.read_last));
        let batches = futures::stream::iter(parts)
            .then(move |part| load(part, backward, spills.clone(), Arc::clone(&read_last)))
            .map_ok(|batches| futures::stream::iter(batches.into_iter().map(Ok)))
            .try_flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// The key behind the first `width` columns of a row that was kept, of the table of that number.
///
/// # Errors
/// Those of temporary files.
pub(crate) async fn key_of_kept(
    row: SendableRecordBatchStream,
    width: usize,
    number: usize,
) -> std::result::Result<Option<Vec<u8>>, SqlError> {
    let batches: Result<Vec<RecordBatch>> = row.try_collect().await;
    let batches = batches.map_err(|error| errors::from_datafusion(error, ""))?;
    let found = batches.first().map(|batch| keys(batch, width, 0)).unwrap_or_default();
    Ok(found.into_iter().nth(number).flatten())
}

/// The rows of a part, in the order in which they are wanted.
async fn load(
    part: Part,
    backward: bool,
    spills: SpillManager,
    read_last: Arc<Mutex<Option<(usize, Vec<RecordBatch>)>>>,
) -> Result<Vec<RecordBatch>> {
    let batches = match part.from {
        Err(batches) => batches,
        Ok((number, file)) => {
            let known = read_last.lock().as_ref().filter(|(known, _)| *known == number).map(|(_, all)| all.clone());
            match known {
                Some(batches) => batches,
                None => {
                    // Not two of them at a time.
                    *read_last.lock() = None;
                    let batches: Vec<_> = spills.read_spill_as_stream(file, None)?.try_collect().await?;
                    *read_last.lock() = Some((number, batches.clone()));
                    batches
                }
            }
        }
    };
    let mut found = Vec::new();
    let mut first = 0;
    for batch in batches {
        let count = batch.num_rows() as u64;
        let from = part.rows.start.clamp(first, first + count) - first;
        let to = part.rows.end.clamp(first, first + count) - first;
        first += count;
        if from < to {
            // A piece has some megabytes, or is one batch.
            let wanted = batch.slice(from as usize, (to - from) as usize);
            found.push(if backward { reversed(&wanted)? } else { wanted });
        }
    }
    if backward {
        found.reverse();
    }
    Ok(found)
}

fn reversed(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    if batch.num_columns() == 0 {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        return Ok(RecordBatch::try_new_with_options(batch.schema(), Vec::new(), &options)?);
    }
    let order = UInt32Array::from_iter_values((0..rows as u32).rev());
    Ok(take_record_batch(batch, &order)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{AsArray, Int64Array, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    /// PostgreSQL's DoPortalRunFetch and PortalRunSelect, a row at a time.
    struct Model {
        rows: u64,
        at: i64,
        at_start: bool,
        at_end: bool,
    }

    impl Model {
        fn new(rows: u64) -> Self {
            Self { rows, at: 0, at_start: true, at_end: false }
        }
        fn forward(&mut self, count: u64) -> Vec<u64> {
            if self.at_end || count == 0 {
                return Vec::new();
            }
            let from = self.at as u64;
            let found: Vec<u64> = (from + 1..=self.rows).take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
            if !found.is_empty() {
                self.at_start = false;
            }
            self.at_end = (found.len() as u64) < count;
            self.at += found.len() as i64;
            found
        }
        fn back(&mut self, count: u64) -> Vec<u64> {
            if self.at_start || count == 0 {
                return Vec::new();
            }
            let last = if self.at_end { self.at } else { self.at - 1 };
            let found: Vec<u64> =
                (1..=last.max(0) as u64).rev().take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
            if !found.is_empty() && self.at_end {
                self.at_end = false;
                self.at += 1;
            }
            if (found.len() as u64) < count {
                (self.at_start, self.at_end, self.at) = (true, false, 0);
            } else {
                self.at -= found.len() as i64;
            }
            found
        }
        fn rewind(&mut self) {
            (self.at_start, self.at_end, self.at) = (true, false, 0);
        }
        fn run(&mut self, count: Count) -> Vec<u64> {
            match count {
                Count::Rows(0) | Count::Relative(0) => {
                    if self.at_start || self.at_end {
                        return Vec::new();
                    }
                    self.back(1);
                    self.forward(1)
                }
                Count::Rows(more @ 1..) => self.forward(more.unsigned_abs()),
                Count::Rows(back) => self.back(back.unsigned_abs()),
                Count::All => self.forward(u64::MAX),
                Count::AllBackward => self.back(u64::MAX),
                Count::Absolute(0) => {
                    self.rewind();
                    Vec::new()
                }
                Count::Absolute(row @ 1..) => {
                    self.rewind();
                    self.forward(row.unsigned_abs() - 1);
                    self.forward(1)
                }
                Count::Absolute(row) => {
                    self.forward(u64::MAX);
                    self.back(row.unsigned_abs() - 1);
                    self.back(1)
                }
                Count::Relative(away @ 1..) => {
                    self.forward(away.unsigned_abs() - 1);
                    self.forward(1)
                }
                Count::Relative(away) => {
                    self.back(away.unsigned_abs() - 1);
                    self.back(1)
                }
            }
        }
    }

    fn counts() -> Vec<Count> {
        let mut all = vec![Count::All, Count::AllBackward];
        for n in -4..=4 {
            all.extend([Count::Rows(n), Count::Absolute(n), Count::Relative(n)]);
        }
        all
    }

    /// Rows of the model that are there are gathered as they are needed, no further.
    fn walk(rows: u64, steps: &[Count]) {
        let (mut model, mut place, mut there) = (Model::new(rows), Place::default(), 0u64);
        for (number, count) in steps.iter().enumerate() {
            there = there.max(place.needs(*count).min(rows));
            let step = place.step(*count, there);
            let mut found: Vec<u64> = step.rows.clone().map(|row| row + 1).collect();
            if step.backward {
                found.reverse();
            }
            assert_eq!(found, model.run(*count), "step {number} of {steps:?} over {rows} rows");
            place = step.place;
        }
    }

    #[test]
    fn every_three_steps_lead_where_postgres_goes() {
        let counts = counts();
        for rows in 0..=5 {
            for first in &counts {
                for second in &counts {
                    for third in &counts {
                        walk(rows, &[*first, *second, *third, Count::Rows(0)]);
                    }
                }
            }
        }
    }

    #[test]
    fn who_only_goes_forward_takes_the_same_rows_or_refuses() {
        let counts = counts();
        for rows in 0..=6u64 {
            for first in &counts {
                for second in &counts {
                    let (mut place, mut model) = (Place::default(), Model::new(rows));
                    for count in [*first, *second] {
                        let Some((over, take)) = place.onward(count) else { break };
                        let at = place.row.saturating_add(over).min(rows);
                        let end = at.saturating_add(take).min(rows);
                        let found: Vec<u64> = if place.ended { vec![] } else { (at + 1..=end).collect() };
                        assert_eq!(found, model.run(count), "{first:?} {second:?}");
                        let asked = place.row.saturating_add(over).saturating_add(take);
                        if take > 0 {
                            place = Place { row: asked.min(rows), ended: place.ended || asked > rows };
                        }
                    }
                }
            }
        }
        let at = |row| Place { row, ended: false };
        assert_eq!(at(2).onward(Count::Absolute(5)), Some((2, 1)));
        assert_eq!(at(8).onward(Count::Absolute(5)), None);
        assert_eq!(at(2).onward(Count::Absolute(2)), None, "it would have to step back");
        assert_eq!(Place::default().onward(Count::Absolute(-1)), None);
        assert_eq!(Place::default().onward(Count::AllBackward), None);
    }

    fn numbered(rows: Range<i64>) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, false)]);
        let texts = StringArray::from_iter_values(rows.clone().map(|row| format!("{row:0200}")));
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from_iter_values(rows)), Arc::new(texts)])
            .expect("columns alike")
    }

    async fn read(scroll: &Scroll, rows: Range<u64>, backward: bool) -> Vec<i64> {
        let batches: Vec<RecordBatch> = scroll.read(rows, backward).try_collect().await.expect("rows");
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    }

    #[tokio::test]
    async fn rows_in_files_and_in_memory_are_read_both_ways() {
        let room = Room::of_database(0).of_session();
        let mut scroll = Scroll::new(numbered(0..0).schema(), Arc::clone(&room), Arc::new(RuntimeEnv::default()));
        let total = 50_000i64;
        for from in (0..total).step_by(1000) {
            scroll.push(numbered(from..from + 1000)).expect("room");
        }
        assert_eq!(scroll.rows(), 50_000);
        assert!(scroll.pieces.len() >= 2 && !scroll.newest.is_empty(), "{} pieces", scroll.pieces.len());
        let all: Vec<i64> = (0..total).collect();
        assert!(read(&scroll, 0..50_000, false).await == all);
        assert!(read(&scroll, 0..50_000, true).await.iter().rev().copied().eq(all.iter().copied()));
        for from in [0, 1, 999, 1000, 18_000, 20_971, 49_000, 49_999u64] {
            for more in [0, 1, 2, 1500, 30_000] {
                let to = (from + more).min(50_000);
                let mut found = read(&scroll, from..to, true).await;
                found.reverse();
                assert!(found == read(&scroll, from..to, false).await);
                assert!(found.iter().copied().eq(from as i64..to as i64), "{from}..{to}");
            }
        }
        // What is in files does not count.
        assert!(room.take(25 << 20).is_ok());
    }
}
