//! Rows that are read from an index alone: it has all columns that are wanted, so that what it names need not be fetched.
//!
//! An entry is a versioned record of its own tree, written by the transaction that wrote the row, so a snapshot sees an entry
//! if and only if it sees a row with these values under that clustered key: there is no heap to ask whether the row is
//! visible (PostgreSQL's index-only scans need the visibility map for that). Of an entry a row is made with the columns of the
//! index in their places, and NULL in all others, which nobody may look at.
//!
//! Invariants:
//! 1. A column is taken from a key only where a key tells its value whole ([`ColumnType::is_kept_beside_key`]).
//! 2. Views of the newest state, which see row and entry at two moments, are not served: who follows a row as it is now has
//!    to fetch it.

use resurgam_base::Result;
use resurgam_page::key::{self, KeyDatum};
use resurgam_page::types::DatumRef;

use crate::definition::Place;
use crate::table::{RawRow, Table};

/// Columns on the stack, beyond which there is an allocation for each row.
const FEW: usize = 8;
const FEW_STORED: usize = 32;

/// Which columns of rows are made of an index's entries; see the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covering {
    pub(crate) index: usize,
    /// Positions in the index's key, and in the value of the row.
    columns: Vec<(usize, usize)>,
}

impl Table {
    /// How an index gives these columns by itself; `None` if it does not have all of them. The position behind the last column
    /// stands for the clustered key, which every entry has.
    pub fn covering(&self, index: usize, columns: impl IntoIterator<Item = usize>) -> Option<Covering> {
        let key = &self.indexes.get(index)?.columns;
        let mut taken = Vec::new();
        for at in columns {
            let Some(column) = self.columns.get(at) else {
                if at == self.columns.len() {
                    continue;
                }
                return None;
            };
            let Place::Value(place) = column.place else { continue };
            if column.ty.is_kept_beside_key() {
                return None;
            }
            let pair = (key.iter().position(|key| *key == at)?, place as usize);
            if !taken.contains(&pair) {
                taken.push(pair);
            }
        }
        Some(Covering { index, columns: taken })
    }
}

impl Covering {
    /// Appends the value of the row that an entry stands for.
    ///
    /// # Errors
    /// `Corrupt`: the entry's key is none of the index's.
    pub(crate) fn append_value(&self, table: &Table, entry: RawRow<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut few = [const { KeyDatum::Ref(DatumRef::Null) }; FEW];
        let mut many = Vec::new();
        let datums = slots(&mut few, &mut many, self.columns.len(), || KeyDatum::Ref(DatumRef::Null));
        for (slot, (at, _)) in datums.iter_mut().zip(&self.columns) {
            *slot = key::decode_column(entry.key, &table.index_keys[self.index], *at)?;
        }
        let mut few = [DatumRef::Null; FEW_STORED];
        let mut many = Vec::new();
        let values = slots(&mut few, &mut many, table.layout.len(), || DatumRef::Null);
        for (datum, (_, place)) in datums.iter().zip(&self.columns) {
            values[*place] = datum.as_ref();
        }
        table.layout.encode(values, out)
    }
}

fn slots<'s, T>(few: &'s mut [T], many: &'s mut Vec<T>, count: usize, empty: impl FnMut() -> T) -> &'s mut [T] {
    match few.get_mut(..count) {
        Some(slots) => slots,
        None => {
            many.resize_with(count, empty);
            many
        }
    }
}
