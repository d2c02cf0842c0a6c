//! Statistics of tables: what is known of how many rows there are and what values their columns have, for planners.
//!
//! They come from a sample of rows ([`sample`](crate::ReadView::sample)) that a snapshot sees, are computed as PostgreSQL's ANALYZE computes
//! them (`column.rs`), and stored as rows of the catalog's tree, which are no definitions: they commit, roll back and recover as any
//! row does, and a change of them changes no definition, so that nobody's plan or snapshot is concerned.
//!
//! # Invariants
//! 1. *Nobody waits for them.* A sample is read by a snapshot. What it has found is stored under the table's lock for
//!    writing rows, which keeps changes of the definition away and nobody else; who stores statistics of the same table at the same
//!    time comes after.
//! 2. *Nothing depends on them* but which plan is chosen. Stored ones that cannot be read are none ([`Error`](resurgam_base::Error) says why).
//! 3. *They are of a table's id*, and go with the table. A column's are of its name and type: of another one of that name they say
//!    nothing.
//!
//! | file | concept |
//! |---|---|
//! | `codec.rs` | The stored form |
//! | `column.rs` | Statistics of one column from a sample |
//! | `sample.rs` | Rows of a table, at random |
//! | `store.rs` | Statistics in the catalog's tree; analysing a table |
//! | `automatic.rs` | Tables that have changed are analysed in the background |

mod automatic;
mod codec;
mod column;
mod sample;
mod store;

use resurgam_page::types::{ColumnType, Datum};

pub(crate) use automatic::Analyzer;
pub use sample::Sampled;
pub use store::Analysis;
pub(crate) use store::StatisticsCache;

/// What is known of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableStatistics {
    /// About how many rows it had.
    pub rows: u64,
    /// About how many records its tree had, those among them that nobody saw any more.
    pub records: u64,
    /// Pages of its tree.
    pub pages: u64,
    /// When it was analysed last by a statement, and by itself: microseconds since 2000-01-01 UTC; 0: never.
    pub analyzed_at: i64,
    pub analyzed_itself_at: i64,
    /// How often.
    pub analyzed: u64,
    pub analyzed_itself: u64,
    pub columns: Vec<ColumnStatistics>,
}

/// What is known of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStatistics {
    pub name: String,
    pub ty: ColumnType,
    /// The part of the rows that has NULL.
    pub nulls: f32,
    /// Average bytes of a value.
    pub width: u32,
    /// Distinct values: above zero their number, below it the part of the rows that it is, which grows with the table; zero:
    /// not known.
    pub distinct: f32,
    /// Most common values and the part of the rows that has each, most common first.
    pub common: Vec<(Datum, f32)>,
    /// Ascending bounds of groups of about equally many of the other values.
    pub histogram: Vec<Datum>,
    /// How the order of values goes with that of rows, from -1 to 1.
    pub correlation: Option<f32>,
}

impl TableStatistics {
    /// When it was analysed last.
    pub fn last(&self) -> i64 {
        self.analyzed_at.max(self.analyzed_itself_at)
    }

    /// What is known of a column.
    pub fn column(&self, name: &str, ty: ColumnType) -> Option<&ColumnStatistics> {
        self.columns.iter().find(|column| column.name == name && column.ty == ty)
    }

    /// Rows now that the tree has about so many records.
    pub fn rows_of(&self, records: u64) -> f64 {
        if self.records == 0 { records as f64 } else { self.rows as f64 * (records as f64 / self.records as f64) }
    }
}

impl ColumnStatistics {
    /// Distinct values of a table of so many rows; `None`: not known.
    pub fn distinct_of(&self, rows: f64) -> Option<f64> {
        match f64::from(self.distinct) {
            0.0 => None,
            distinct if distinct < 0.0 => Some((-distinct * rows).max(1.0)),
            distinct => Some(distinct),
        }
    }
}
