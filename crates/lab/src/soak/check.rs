//! What must hold after a restart, asked by SQL before any client works again.
//!
//! Each party's rows are compared with what it knows; a commit in doubt is there whole or not
//! at all, and which of the two becomes what the party knows.

use std::collections::BTreeMap;

use super::bulk::{Bulk, ROWS, SENTINELS};
use super::model::{Item, Model};
use super::reader::shown;
use super::schema::{Schema, Table, Tables};
use super::writer::{ACCOUNTS, BALANCE, Writer};
use crate::Result;
use crate::wire::{Client, Row};

/// What a check found.
#[derive(Default)]
pub struct Outcome {
    /// Rows that were compared.
    pub rows: u64,
    pub violations: Vec<String>,
    /// Commits in doubt, and how many of them had happened.
    pub doubts: u64,
    pub happened: u64,
}

struct Check<'a> {
    client: &'a mut Client,
    out: Outcome,
}

/// Makes the tables. See `model.rs`, `bulk.rs` for what they are for.
pub fn create(client: &mut Client) -> Result<()> {
    for sql in [
        "create table account (id bigint primary key, balance bigint not null)".to_owned(),
        "create index account_balance on account (balance)".into(),
        format!("insert into account select i, {BALANCE} from generate_series(0, {}) as g(i)", ACCOUNTS - 1),
        "create table tally (writer int, account bigint, net bigint not null, primary key (writer, account))".into(),
        "create table item (writer int, seq bigint, val bigint not null, stamp bigint not null, body text, \
         primary key (writer, seq))"
            .into(),
        "create index item_val on item (val)".into(),
        "create table bulk (id bigint primary key, grp bigint not null, body text)".into(),
        "create index bulk_grp on bulk (grp)".into(),
        format!("insert into bulk select i, 0, 'b' || i from generate_series(0, {}) as g(i)", ROWS - 1),
        "create table left_open (id bigint primary key, body text)".into(),
        format!("insert into left_open select -i, 's' from generate_series(1, {SENTINELS}) as g(i)"),
    ] {
        client.query(&sql).map_err(|e| format!("\"{sql}\": {e}"))?;
    }
    // The checks through an index are worth nothing if no index is used.
    for (sql, index) in [
        ("select val, writer, seq from item where val >= 0", "item_val"),
        ("select id, balance from account where balance > -1000000000", "account_balance"),
        ("select count(*) from bulk where grp >= 0", "bulk_grp"),
    ] {
        let plan: Vec<String> = client.rows(&format!("explain {sql}"))?.iter().map(shown).collect();
        if !plan.iter().any(|line| line.contains(&format!("Scan using {index}"))) {
            return Err(format!("\"{sql}\" does not use the index {index}:\n{}", plan.join("\n")));
        }
    }
    Ok(())
}

/// Checks everything.
///
/// # Errors
/// A query failed, with what was found up to there.
pub fn check(client: &mut Client, writers: &mut [Writer], bulk: &mut Bulk, schema: &mut Schema) -> Outcome {
    let mut check = Check { client, out: Outcome::default() };
    let done = check
        .writers(writers)
        .and_then(|()| check.accounts(writers))
        .and_then(|()| check.bulk(bulk))
        .and_then(|()| check.left_open())
        .and_then(|()| check.schema(schema));
    if let Err(e) = done {
        check.out.violations.push(format!("a query of the check failed: {e}"));
    }
    check.out
}

/// The numbers of a row; a null or a text that is none is a number that nothing matches.
fn numbers<const N: usize>(row: &Row) -> [i64; N] {
    std::array::from_fn(|at| row.get(at).and_then(|v| v.as_deref()?.parse().ok()).unwrap_or(i64::MIN))
}

impl Check<'_> {
    fn rows(&mut self, sql: &str) -> Result<Vec<Row>> {
        let rows = self.client.rows(sql).map_err(|e| format!("\"{sql}\": {e}"))?;
        self.out.rows += rows.len() as u64;
        Ok(rows)
    }

    fn expect(&mut self, sql: &str, must: &str) -> Result<()> {
        let found = self.rows(sql)?.first().map(shown).unwrap_or_default();
        if found != must {
            self.out.violations.push(format!("\"{sql}\" answered {found}, must be {must}"));
        }
        Ok(())
    }

    fn wrong(&mut self, what: String) {
        self.out.violations.push(what);
    }

    /// Notes a commit in doubt and whether it happened.
    fn doubt(&mut self, happened: bool) {
        self.out.doubts += 1;
        self.out.happened += u64::from(happened);
    }

    /// All rows of all writers, by the primary key and through the index.
    fn writers(&mut self, writers: &mut [Writer]) -> Result<()> {
        let mut found: BTreeMap<i64, Model> =
            writers.iter().map(|writer| (i64::from(writer.id), Model::default())).collect();
        let mut keys = Vec::new();
        for row in self.rows("select writer, seq, val, stamp, body from item order by writer, seq")? {
            let [writer, seq, val, stamp] = numbers(&row);
            let body = row.get(4).cloned().flatten().unwrap_or_default();
            let item = Item { val, stamp: stamp as u64, len: body.len() };
            if body != item.body(writer as i32, seq) {
                let starts: String = body.chars().take(60).collect();
                self.wrong(format!("item ({writer}, {seq}): {item:?} has the text of another version: \"{starts}…\""));
            }
            keys.push((val, writer, seq));
            if found.get_mut(&writer).is_none_or(|model| model.items.insert(seq, item).is_some()) {
                self.wrong(format!("item ({writer}, {seq}) is nobody's, or there twice"));
            }
        }
        for row in self.rows("select writer, account, net from tally")? {
            let [writer, account, net] = numbers(&row);
            if found.get_mut(&writer).is_none_or(|model| model.tally.insert(account, net).is_some()) {
                self.wrong(format!("tally ({writer}, {account}) is nobody's, or there twice"));
            }
        }
        for writer in writers.iter_mut() {
            let found = found.remove(&i64::from(writer.id)).unwrap_or_default();
            let mut with = writer.model.clone();
            let doubt = writer.doubt.take();
            if let Some(doubt) = &doubt {
                with.apply(doubt);
            }
            if found == with && doubt.is_some() {
                self.doubt(true);
            } else if found == writer.model {
                if doubt.is_some() {
                    self.doubt(false);
                }
            } else {
                let mut said = format!("writer {}: {}", writer.id, writer.model.differences(&found));
                if doubt.is_some() {
                    said += &format!("; with the commit in doubt: {}", with.differences(&found));
                }
                self.wrong(said);
            }
            writer.model = found;
        }
        let mut through_index: Vec<(i64, i64, i64)> = (self
            .rows("select val, writer, seq from item where val >= 0")?)
        .iter()
        .map(|row| numbers::<3>(row).into())
        .collect();
        keys.sort_unstable();
        through_index.sort_unstable();
        if keys != through_index {
            let missing = keys.iter().filter(|key| through_index.binary_search(key).is_err()).count();
            self.wrong(format!(
                "the index item_val answers {} rows where the table has {}; {missing} rows are not in it",
                through_index.len(),
                keys.len()
            ));
        }
        Ok(())
    }

    /// Balances are what all writers' transfers add up to.
    fn accounts(&mut self, writers: &[Writer]) -> Result<()> {
        let mut must: BTreeMap<i64, i64> = (0..ACCOUNTS).map(|account| (account, BALANCE)).collect();
        for (account, net) in writers.iter().flat_map(|writer| &writer.model.tally) {
            *must.entry(*account).or_default() += net;
        }
        for sql in ["select id, balance from account", "select id, balance from account where balance > -1000000000"] {
            let rows = self.rows(sql)?;
            let found: BTreeMap<i64, i64> = rows.iter().map(|row| numbers::<2>(row).into()).collect();
            if found != must || rows.len() != must.len() {
                let differ: Vec<String> = (must
                    .iter()
                    .filter(|(account, balance)| found.get(account) != Some(balance)))
                .map(|(account, balance)| format!("{account} has {:?}, must have {balance}", found.get(account)))
                .collect();
                self.wrong(format!("\"{sql}\": {} rows; accounts differ: {}", rows.len(), differ.join(", ")));
            }
        }
        self.expect("select sum(balance) from account", &(ACCOUNTS * BALANCE).to_string())
    }

    fn bulk(&mut self, bulk: &mut Bulk) -> Result<()> {
        let row = self.rows("select min(grp), max(grp) from bulk")?;
        let [low, high] = row.first().map(numbers).unwrap_or_default();
        let doubt = bulk.doubt.take();
        if low != high || low != bulk.version && Some(low) != doubt {
            self.wrong(format!("bulk has groups {low} to {high}, must have {} (in doubt {doubt:?})", bulk.version));
        } else if let Some(doubt) = doubt {
            self.doubt(low == doubt);
        }
        bulk.version = high;
        let all = format!("{ROWS}|0|{}", ROWS - 1);
        self.expect("select count(*), min(id), max(id) from bulk where id > -1000000", &all)?;
        self.expect("select count(*), min(id), max(id) from bulk where grp > -1000000", &all)?;
        self.expect("select count(*) from bulk where body = 'b' || id", &ROWS.to_string())?;
        self.out.rows += 3 * ROWS as u64;
        Ok(())
    }

    fn left_open(&mut self) -> Result<()> {
        self.expect(
            "select count(*), min(id), max(id), min(body), max(body) from left_open",
            &format!("{SENTINELS}|{}|-1|s|s", -SENTINELS),
        )
    }

    /// The tables that come and go: which there are, their rows, their indexes.
    fn schema(&mut self, schema: &mut Schema) -> Result<()> {
        let names = |rows: Vec<Row>| -> Vec<String> { rows.iter().map(shown).collect() };
        let tables = names(self.rows("select table_name from information_schema.tables where table_name like 'd%'")?);
        let indexes = names(self.rows("select indexname from pg_catalog.pg_indexes")?);
        let mut found = Tables { item_indexed: indexes.iter().any(|name| name == "item_stamp"), ..Tables::default() };
        for name in tables {
            let Some(n) = name.strip_prefix('d').and_then(|n| n.parse::<u32>().ok()) else { continue };
            let indexed = indexes.contains(&format!("{name}_v"));
            let counted = self.rows(&format!("select count(*), coalesce(sum(v), 0) from {name}"))?;
            let [rows, sum] = counted.first().map(numbers).unwrap_or_default();
            self.out.rows += rows.unsigned_abs();
            if sum != 3 * rows * (rows + 1) / 2 {
                self.wrong(format!("table {name}: {rows} rows have the sum {sum}"));
            }
            // Through the index if there is one.
            self.expect(&format!("select count(*) from {name} where v > 0"), &rows.to_string())?;
            found.tables.insert(n, Table { rows, indexed });
        }
        if found.item_indexed {
            let must = shown(self.rows("select count(*), sum(seq), sum(stamp) from item")?.first().unwrap_or(&vec![]));
            self.expect("select count(*), sum(seq), sum(stamp) from item where stamp > 0", &must)?;
        }
        let doubt = schema.doubt.take();
        if doubt.as_ref() == Some(&found) {
            self.doubt(true);
        } else if found == schema.tables {
            if doubt.is_some() {
                self.doubt(false);
            }
        } else {
            self.wrong(format!("definitions are {found:?}, must be {:?} (in doubt {doubt:?})", schema.tables));
        }
        schema.tables = found;
        Ok(())
    }
}
