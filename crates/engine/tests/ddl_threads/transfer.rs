//! Moving money from one account to another, and noting it in the journal, whatever the two tables
//! look like at the moment.

use std::sync::Arc;

use resurgam_engine::*;

use crate::books::*;
use crate::patient;

/// A note: tiny, or now and then a large value of its own.
fn note(random: &mut Random) -> String {
    let len = if random.one_in(12) { 2000 + random.below(9000) } else { random.below(80) };
    "n".repeat(len as usize)
}

fn refs(row: &[Datum]) -> Vec<DatumRef<'_>> {
    row.iter().map(Datum::as_ref).collect()
}

/// Moves an amount, as entry `n` of `who`.
pub fn transfer(tx: &Transaction, random: &mut Random, who: usize, n: i64) -> Result<()> {
    // Some accounts are in demand.
    let pick = |random: &mut Random| if random.one_in(3) { random.below(4) } else { random.below(ACCOUNTS) };
    let (src, dst, amt) = (pick(random), pick(random), random.below(20));
    add(tx, random, src, -amt)?;
    add(tx, random, dst, amt)?;
    tx.statement(StatementKind::PointWrite)?;
    let journal = find(tx, "journal")?;
    let mut row = vec![Datum::Null; journal.columns.len()];
    for (name, value) in [("who", who as i64), ("seq", n), ("src", src), ("dst", dst), ("amt", amt)] {
        let at = column(&journal, name);
        row[at] = integer(&journal, at, value);
    }
    row[column(&journal, "note")] = Datum::Text(note(random));
    let row = refs(&row);
    patient(tx.insert(&journal, &row)?, || tx.insert(&journal, &row))
}

/// The clustered key of an account, by the primary key, a unique index, or by looking at all.
fn key_of(view: &ReadView, table: &Arc<Table>, id: i64) -> Result<Vec<u8>> {
    let at = column(table, "id");
    let value = integer(table, at, id);
    let mut key = Vec::new();
    if table.primary_key == [at] {
        table.encode_key(&[value.as_ref()], &mut key)?;
        return Ok(key);
    }
    if let Some(index) = table.indexes.iter().position(|index| index.unique && index.valid && index.columns == [at]) {
        table.encode_index_key(index, &[value.as_ref()], &mut key)?;
        let mut row = RowBuf::default();
        assert!(view.get_by_index(table, &table.indexes[index], &key, &mut row)?, "account {id} is not in its index");
        return Ok(row.raw().key.to_vec());
    }
    let found = rows(view, table, None)?.into_iter().find(|(_, row)| number(&row[at]) == id);
    Ok(found.unwrap_or_else(|| panic!("account {id} is not there")).0)
}

/// Adds to an account, waiting for whoever holds it.
fn add(tx: &Transaction, random: &mut Random, id: i64, amount: i64) -> Result<()> {
    let view = tx.statement(StatementKind::PointWrite)?;
    let accounts = find(tx, "accounts")?;
    let key = key_of(&view, &accounts, id)?;
    let mut row = RowBuf::default();
    assert!(view.get(&accounts, &key, &mut row)?, "account {id} is not there");
    let (bal, text) = (column(&accounts, "bal"), note(random));
    let mut seen = Seen::Snapshot;
    loop {
        let mut new = Vec::new();
        for at in 0..accounts.columns.len() {
            new.push(match accounts.column(row.raw(), at)? {
                datum if at == bal => integer(&accounts, at, number(&datum.to_owned()) + amount),
                _ if at == column(&accounts, "note") => Datum::Text(text.clone()),
                datum => datum.to_owned(),
            });
        }
        let new = refs(&new);
        match patient(tx.update(&accounts, &key, seen, &new)?, || tx.update(&accounts, &key, seen, &new))? {
            Change::Done => return Ok(()),
            Change::Changed => match tx.latest(&accounts, &key, &mut row)? {
                Some(version) => seen = version,
                None => panic!("account {id} is gone"),
            },
            other => panic!("account {id}: {other:?}"),
        }
    }
}
