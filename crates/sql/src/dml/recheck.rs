//! A row that was changed while a statement was about to write or lock it, in READ COMMITTED: its newest
//! version is judged anew, and written if it still qualifies (PostgreSQL's EvalPlanQual).
//!
//! This is the only place where that is done. What differs is how a row is written and how it is judged
//! ([`RowWork`]): by expressions on its datums, or by running a plan on that one row.
//!
//! A row that got another primary key is followed to it ([`Transaction::successor`]); one that was deleted is
//! gone, whatever else has its key now. In REPEATABLE READ the engine refuses both with `40001`.

use std::sync::Arc;

use resurgam_engine::{Change, RowBuf, Seen, Table, Trail, Transaction};

use crate::wire::SqlError;

/// What a statement does with a row of its target.
pub(crate) trait RowWork {
    /// Writes or locks the row under `key`, as it was judged last; `seen` tells which version that was.
    /// `None`: somebody else has it, and it is passed over.
    async fn attempt(&mut self, key: &[u8], seen: Seen) -> Result<Option<Change>, SqlError>;

    /// Judges the newest version of the row; false: it does not qualify.
    async fn judge(&mut self, newest: &RowBuf) -> Result<bool, SqlError>;
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Written or locked, as the statement saw it.
    Done,
    /// The same for a newer version.
    DoneNewer,
    /// The statement itself has written it before.
    Own,
    /// It is gone, does not qualify any more, or is passed over.
    Left,
}

/// Writes or locks the row that the statement's snapshot sees under `key`.
pub(crate) async fn settle_row<W: RowWork>(
    txn: &Transaction,
    table: &Arc<Table>,
    key: &[u8],
    work: &mut W,
) -> Result<Fate, SqlError> {
    let first = work.attempt(key, Seen::Snapshot).await?;
    if first == Some(Change::Done) {
        return Ok(Fate::Done);
    }
    let (mut key, mut change) = (key.to_vec(), first);
    let (mut newest, mut trail) = (RowBuf::default(), Trail::default());
    loop {
        let own = match change {
            Some(Change::Done) => return Ok(Fate::DoneNewer),
            Some(Change::SelfModified) => true,
            Some(Change::Changed | Change::Gone) => false,
            None => return Ok(Fate::Left),
        };
        let Some(seen) = txn.successor(table, &key, &mut trail, &mut newest)? else { return Ok(Fate::Left) };
        // What the statement itself has written under that key may be another row, which was moved there.
        if own && newest.raw().key == key.as_slice() {
            return Ok(Fate::Own);
        }
        key.clear();
        key.extend_from_slice(newest.raw().key);
        if !work.judge(&newest).await? {
            return Ok(Fate::Left);
        }
        change = work.attempt(&key, seen).await?;
    }
}
