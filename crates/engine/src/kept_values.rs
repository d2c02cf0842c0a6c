//! Large values that an update does not change: the new version of the row refers to the pages that the version before it
//! refers to, instead of writing the value anew.
//!
//! # Whose the pages are
//! 1. A value is referred to by versions of one row only, which follow each other without a gap: each was written over the
//!    one before it, which had the value. So whoever's version does not have it any more is the first since it was written,
//!    and notes that it is to be freed when he is committed for all (`drop_replaced`); then nobody sees the versions
//!    before his. If he aborts, his note asks for nothing, and the versions before his are what they were.
//! 2. Whoever wrote the value is committed, or of the same transaction and not rolled back: a version that is aborted
//!    is never the one before. So pages that are freed because their writer aborted are not in use here.
//! 3. What an update compares with is the version that the statement sees; if another one is replaced in the end, the update
//!    was not done ([`Seen`]), or this one is broken off and its transaction cannot commit ([`check_kept`]).
//!
//! Nothing else is written for it: the reference is a part of the row, whose change is one log group. An update in
//! SQL that finds its rows by their key passes references on without reading the values (`sql/src/dml/conflict.rs`).

use resurgam_base::{Error, Result};
use resurgam_buffer::Access;
use resurgam_page::LeafRecord;
use resurgam_page::types::{DatumRef, ExternalRef};
use resurgam_versions::{Seen, Visible, is_external, newest, visible};

use crate::rows::Encoded;
use crate::table::{RowBuf, Table};
use crate::transaction::{Transaction, WriteContext};

impl Transaction {
    /// The value of the version that an update of the row replaces if it is done; empty: there is none, as far as can be
    /// told now.
    ///
    /// # Errors
    /// Those of reading it.
    pub(crate) fn value_before(
        &self,
        table: &Table,
        context: &WriteContext<'_>,
        key: &[u8],
        seen: Seen,
    ) -> Result<Vec<u8>> {
        let pool = &self.0.db.inner().pool;
        let view = self.writer(context, false).view;
        let (page, Ok(slot)) = table.tree.find(pool, key, Access::Point)? else { return Ok(Vec::new()) };
        let record = LeafRecord::parse(page.record(slot)?)?;
        let mut value = Vec::new();
        let found = match seen {
            Seen::Snapshot => match visible(pool, &record, &view, &mut value)? {
                Visible::No => false,
                Visible::Rebuilt => true,
                Visible::Current => {
                    value.extend_from_slice(record.value);
                    true
                }
            },
            Seen::Version(xid) => newest(pool, &record, &view, &mut value)? == Some(xid),
        };
        Ok(if found { value } else { Vec::new() })
    }

    /// The large value in column `at` of `value` (an encoded one), if it is `data`. One that cannot be read is not.
    pub(crate) fn same_value(
        &self,
        table: &Table,
        value: &[u8],
        at: usize,
        data: &[u8],
        is_text: bool,
    ) -> Option<ExternalRef> {
        if value.is_empty() {
            return None;
        }
        let Ok(DatumRef::External(reference)) = table.layout.view(value).and_then(|view| view.column(at)) else {
            return None;
        };
        let same = is_external(&self.0.db.inner().pool, reference, data, is_text);
        same.unwrap_or(false).then_some(reference)
    }
}

/// Looks after an update whether the values that it keeps are those of the version that it `replaced`.
///
/// # Errors
/// `Internal` if one is not: what frees it may not wait for the new version.
pub(crate) fn check_kept(table: &Table, replaced: &RowBuf, encoded: &Encoded) -> Result<()> {
    if encoded.kept.is_empty() {
        return Ok(());
    }
    let there = table.externals_of_value(&replaced.value)?;
    match encoded.kept.iter().find(|page| !there.contains(page)) {
        None => Ok(()),
        Some(page) => Err(Error::internal(format!("the large value at page {page} is not the replaced row's"))),
    }
}
