//! Conditions on the stored bytes of a row: a scan that is told some passes over the rows that do not satisfy them where they are, on their
//! leaf, and copies and decodes the others only.
//!
//! # Invariants
//! 1. A row is passed over only if a column is NULL or beyond a bound; so whoever asks the conditions again of what comes loses nothing by it.
//! 2. The version is tested that the view sees.

use resurgam_base::Result;
use resurgam_page::types::DatumRef;

use crate::definition::Place;
use crate::table::Table;

/// Bounds of a column whose values are stored as integers: integers, numerics of a scale, dates and times. What is NULL is beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnBounds {
    /// Position of the column in its table.
    pub column: usize,
    /// The least value, as it is stored.
    pub low: i128,
    /// The greatest.
    pub high: i128,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct RowTest {
    /// With places in a row's value.
    bounds: Vec<ColumnBounds>,
}

impl RowTest {
    /// Of those bounds that the rows' bytes decide by themselves: not of columns of the clustered key, nor of some that rows may be without. `None` if there
    /// are none.
    pub fn new(table: &Table, bounds: impl IntoIterator<Item = ColumnBounds>) -> Option<Self> {
        let of_value = |bounds: ColumnBounds| {
            let column = table.columns.get(bounds.column)?;
            match column.place {
                Place::Value(at) if column.missing.is_none() && column.ty.fixed_width().is_some() => {
                    Some(ColumnBounds { column: usize::from(at), ..bounds })
                }
                _ => None,
            }
        };
        let bounds: Vec<ColumnBounds> = bounds.into_iter().filter_map(of_value).collect();
        (!bounds.is_empty()).then_some(Self { bounds })
    }

    /// Whether a row with this value satisfies them.
    ///
    /// # Errors
    /// `Corrupt`.
    #[inline]
    pub(crate) fn passes(&self, table: &Table, value: &[u8]) -> Result<bool> {
        let view = table.layout.view(value)?;
        for bounds in &self.bounds {
            let stored = match view.column(bounds.column)? {
                DatumRef::Null => return Ok(false),
                DatumRef::Int2(v) => v.into(),
                DatumRef::Int4(v) | DatumRef::Date(v) => v.into(),
                DatumRef::Int8(v) | DatumRef::Time(v) | DatumRef::Timestamp(v) | DatumRef::TimestampTz(v) => v.into(),
                DatumRef::Numeric(v) => v,
                // Of other types nothing is known.
                _ => continue,
            };
            if stored < bounds.low || stored > bounds.high {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A test under way.
#[derive(Debug)]
pub(crate) struct Testing<'t> {
    pub test: &'t RowTest,
    pub table: &'t Table,
    /// Rows that were passed over.
    pub rejected: u64,
    /// Rows that are looked at in one go, whether any passes or not.
    pub most: u64,
}
