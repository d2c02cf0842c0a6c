//! Rows of a table, at random.
//!
//! A small table is read as a whole. Of a large one a few rows are read at each of many places of its tree, one in each of as many
//! equal parts: as PostgreSQL reads a few rows of each of many blocks, but from leaf to leaf, in the order of the key.

use std::ops::Bound;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_buffer::BufferPool;

use crate::cursor::{Cursor, Direction, KeyRange, RowBatch};
use crate::table::{RawRow, Table};
use crate::view::ReadView;

/// Rows that are read at one place.
const ROWS_AT_PLACE: u16 = 10;
/// A table of up to so many times the rows that are wanted is read as a whole.
const WHOLE: u64 = 2;
const BATCH: usize = 1000;

/// What a sample says of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Rows that were read.
    pub read: u64,
    /// About how many rows the view sees, and how many records the tree has.
    pub rows: u64,
    pub records: u64,
    /// Records that were met in reading them, those among them that the view does not see.
    pub met: u64,
    /// Leaves that were read; `None`: all.
    pub pages: Option<u64>,
}

impl ReadView {
    /// About `wanted` rows of a table, in the order of its key. `is_stopped` is asked now and then.
    ///
    /// # Errors
    /// Those of reading, and of `each`; `Cancelled` when it was stopped.
    pub fn sample(
        &self,
        table: &Arc<Table>,
        wanted: u64,
        seed: u64,
        is_stopped: &dyn Fn() -> bool,
        each: &mut dyn FnMut(RawRow<'_>) -> Result<()>,
    ) -> Result<Sampled> {
        let pool = &self.db.inner().pool;
        let records = table.tree.estimate(pool)?;
        if records <= wanted.saturating_mul(WHOLE) {
            let rows = self.read_range(table, KeyRange::all(), usize::MAX, is_stopped, each)?;
            // Counted, it is better known than estimated, but for what nobody sees.
            return Ok(Sampled { read: rows, rows, records: records.max(rows), met: rows, pages: None });
        }
        let places = (wanted / u64::from(ROWS_AT_PLACE)).max(1);
        let mut random = seed;
        let spots: Vec<f64> = (0..places).map(|at| (at as f64 + fraction(&mut random)) / places as f64).collect();
        let at_once = pool.reads_ahead();
        let (mut read, mut met, mut leaves) = (0, 0, 0);
        let mut behind: Option<Vec<u8>> = None;
        for (place, at) in spots.iter().enumerate() {
            ask_ahead(table, pool, &spots, place, at_once);
            let spot = match table.tree.spot(pool, *at, ROWS_AT_PLACE) {
                Ok(Some(spot)) => spot,
                Ok(None) => continue,
                // A page between was split or freed meanwhile, perhaps: the next place tells.
                Err(error) if place + 1 == spots.len() && met == 0 => return Err(error),
                Err(_) => continue,
            };
            if behind.as_ref().is_some_and(|behind| *behind >= spot.first) {
                continue;
            }
            met += spot.records;
            leaves += 1;
            let range = KeyRange { low: Bound::Included(spot.first), high: Bound::Included(spot.last.clone()) };
            read += self.read_range(table, range, usize::from(ROWS_AT_PLACE), is_stopped, each)?;
            behind = Some(spot.last);
        }
        let seen = if met == 0 { 1.0 } else { (read as f64 / met as f64).min(1.0) };
        let rows = (records as f64 * seen).round() as u64;
        Ok(Sampled { read, rows, records, met, pages: Some(leaves) })
    }

    /// Gives up to `most` rows of a range to `each`; how many there were.
    fn read_range(
        &self,
        table: &Arc<Table>,
        range: KeyRange,
        most: usize,
        is_stopped: &dyn Fn() -> bool,
        each: &mut dyn FnMut(RawRow<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut cursor = Cursor::new(self.clone(), Arc::clone(table), None, range, Direction::Forward);
        let mut batch = RowBatch::default();
        let mut rows = 0;
        loop {
            if is_stopped() {
                return Err(Error::new(ErrorKind::Cancelled, "the analysis was cancelled"));
            }
            batch.clear();
            let more = cursor.next_batch(&mut batch, BATCH.min(most))?;
            for i in 0..batch.len() {
                each(batch.row(i))?;
            }
            rows += batch.len() as u64;
            if !more || rows >= most as u64 {
                return Ok(rows);
            }
        }
    }
}

/// Where pages come from page servers, many at once: the leaves of the next places are asked for when those before them begin, so that they are on
/// their way meanwhile.
fn ask_ahead(table: &Table, pool: &BufferPool, spots: &[f64], place: usize, at_once: usize) {
    if at_once == 0 || !place.is_multiple_of(at_once) {
        return;
    }
    let next = if place == 0 { 0 } else { place + at_once };
    let end = (place + 2 * at_once).min(spots.len());
    for spots in spots.get(next..end).unwrap_or_default().chunks(at_once) {
        table.tree.ask_spots_ahead(pool, spots);
    }
}

/// A number from 0 up to 1 (splitmix64).
fn fraction(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
