//! What the definition of an index says beside its key: included columns, and operator classes and collations that were
//! named.
//!
//! Included columns are a part of the definition only: no row of the index's tree has them, since every read of an index
//! goes on to the table's row. Classes and collations are numbers of the layer above; rows are ordered as the columns'
//! types are, whatever they say.
//!
//! # Invariants
//! 1. Details are of an index that is there: who drops the index drops them ([`crate::definition::Definition::build`]).
//! 2. An index with an included column goes with it.
//!
//! ```text
//! part 10 of a definition   each: index id u32 (0 = primary key) | included: count u16, positions u16 |
//!                           declared: count u16, each: class u32, collation u32 (0 = what the column has)
//! ```

use resurgam_base::Result;
use resurgam_page::codec::Reader;

use crate::definition::{positions, put_positions};

/// What was named for a column of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its operator class; 0: that of its type.
    pub class: u32,
    /// Its collation; 0: the column's.
    pub collation: u32,
}

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexDetails {
    /// The index's id; `None`: the primary key.
    pub index: Option<u32>,
    /// Positions in [`crate::Table::columns`].
    pub included: Vec<usize>,
    /// Of the first columns of its key; nothing was named for the rest.
    pub declared: Vec<Declared>,
}

impl IndexDetails {
    /// Whether there is nothing to keep.
    pub(crate) fn says_nothing(&self) -> bool {
        self.included.is_empty() && self.declared.iter().all(|declared| *declared == Declared::default())
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        // Ids of objects begin above 0.
        out.extend_from_slice(&self.index.unwrap_or(0).to_le_bytes());
        put_positions(out, &self.included);
        out.extend_from_slice(&(self.declared.len() as u16).to_le_bytes());
        for declared in &self.declared {
            out.extend_from_slice(&declared.class.to_le_bytes());
            out.extend_from_slice(&declared.collation.to_le_bytes());
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let index = r.u32()?;
        let included = positions(r)?;
        let declared = (0..r.u16()?).map(|_| Ok(Declared { class: r.u32()?, collation: r.u32()? }));
        Ok(Self { index: (index != 0).then_some(index), included, declared: declared.collect::<Result<_>>()? })
    }
}

/// The columns that an index includes.
pub(crate) fn included(details: &[IndexDetails], index: Option<u32>) -> &[usize] {
    details.iter().find(|details| details.index == index).map_or(&[], |details| details.included.as_slice())
}
