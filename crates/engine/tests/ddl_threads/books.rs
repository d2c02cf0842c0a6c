//! Accounts and a journal, whose definitions change all the time: a table is known by how its name
//! begins, and so is a column. What must hold, in every snapshot: each account has what it began with
//! and what the journal says was moved; each one's entries are numbered without a gap; every
//! index has every row.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_engine::*;

pub const ACCOUNTS: i64 = 200;
pub const START: i64 = 100;

/// Chance, from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as i64
    }
    pub fn one_in(&mut self, n: i64) -> bool {
        self.below(n) == 0
    }
}

pub fn create(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let accounts = TableSpec::new("public", "accounts")
        .column("id", ColumnType::Int8)
        .column("bal", ColumnType::Int8)
        .column("uniq", ColumnType::Text)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("accounts_bal", &["bal"], false);
    let journal = TableSpec::new("public", "journal")
        .column("who", ColumnType::Int8)
        .column("seq", ColumnType::Int8)
        .column("src", ColumnType::Int8)
        .column("dst", ColumnType::Int8)
        .column("amt", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["who", "seq"]);
    let accounts = tx.create_table(accounts)?.done()?;
    tx.create_table(journal)?.done()?;
    for id in 0..ACCOUNTS {
        let uniq = format!("u{id}");
        let row = [DatumRef::Int8(id), DatumRef::Int8(START), DatumRef::Text(&uniq), DatumRef::Text("new")];
        tx.insert(&accounts, &row)?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

/// "name" or "name_" and anything.
fn is_named(name: &str, begins: &str) -> bool {
    name.strip_prefix(begins).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// The table, which there always is one of.
pub fn find(tx: &Transaction, begins: &str) -> Result<Arc<Table>> {
    let mut tables = tx.tables()?;
    tables.retain(|table| is_named(&table.name, begins));
    assert_eq!(tables.len(), 1, "tables named {begins}: {:?}", tables.iter().map(|t| &t.name).collect::<Vec<_>>());
    Ok(tables.remove(0))
}

/// The position of a column, which there always is one of.
pub fn column(table: &Table, begins: &str) -> usize {
    let at = table.columns.iter().position(|column| is_named(&column.name, begins));
    at.unwrap_or_else(|| panic!("table {} has no column {begins}", table.name))
}

/// An integer in a column of either type.
pub fn integer(table: &Table, column: usize, value: i64) -> Datum {
    match table.columns[column].ty {
        ColumnType::Int4 => Datum::Int4(value as i32),
        _ => Datum::Int8(value),
    }
}

pub fn number(datum: &Datum) -> i64 {
    match datum {
        Datum::Int4(v) => i64::from(*v),
        Datum::Int8(v) => *v,
        other => panic!("an integer, not {other:?}"),
    }
}

/// A row with its large values.
pub fn whole(view: &ReadView, table: &Table, raw: RawRow<'_>) -> Result<Vec<Datum>> {
    let column = |at| -> Result<Datum> {
        Ok(match table.column(raw, at)? {
            DatumRef::External(large) => {
                let bytes = view.read_external(large)?;
                Datum::Text(String::from_utf8(bytes).map_err(|_| Error::corrupt("a large text is not UTF-8"))?)
            }
            datum => datum.to_owned(),
        })
    };
    (0..table.columns.len()).map(column).collect()
}

/// All rows, by their clustered keys; `index` = through which.
pub fn rows(view: &ReadView, table: &Arc<Table>, index: Option<usize>) -> Result<Vec<(Vec<u8>, Vec<Datum>)>> {
    let mut cursor = match index {
        None => view.scan(table, KeyRange::all(), Direction::Forward),
        Some(at) => view.scan_index(table, at, KeyRange::all(), Direction::Backward),
    };
    let (mut batch, mut rows) = (RowBatch::default(), Vec::new());
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 100)? {
            return Ok(rows);
        }
        for i in 0..batch.len() {
            rows.push((batch.row(i).key.to_vec(), whole(view, table, batch.row(i))?));
        }
    }
}

fn rows_by_every_way(view: &ReadView, table: &Arc<Table>) -> Result<Vec<(Vec<u8>, Vec<Datum>)>> {
    let all = rows(view, table, None)?;
    for (at, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.valid) {
        let mut found = rows(view, table, Some(at))?;
        found.sort_by(|a, b| a.0.cmp(&b.0));
        assert!(
            found == all,
            "index {} of {} finds {} rows, other than the {} that there are",
            index.name,
            table.name,
            found.len(),
            all.len()
        );
    }
    Ok(all)
}

/// Checks the books as `tx` sees them now. Returns the last entry of each that has any.
pub fn books(view: &ReadView, tx: &Transaction) -> Result<Vec<i64>> {
    let (accounts, journal) = (find(tx, "accounts")?, find(tx, "journal")?);
    let entries = rows_by_every_way(view, &journal)?;
    let mut moved: BTreeMap<i64, i64> = (0..ACCOUNTS).map(|id| (id, START)).collect();
    let mut numbers: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let [who, seq, src, dst, amt] = ["who", "seq", "src", "dst", "amt"].map(|name| column(&journal, name));
    for (_, entry) in &entries {
        numbers.entry(number(&entry[who])).or_default().push(number(&entry[seq]));
        *moved.entry(number(&entry[src])).or_default() -= number(&entry[amt]);
        *moved.entry(number(&entry[dst])).or_default() += number(&entry[amt]);
    }
    let [id, bal, uniq] = ["id", "bal", "uniq"].map(|name| column(&accounts, name));
    let mut found = BTreeMap::new();
    for (_, account) in rows_by_every_way(view, &accounts)? {
        let this = number(&account[id]);
        assert_eq!(account[uniq], Datum::Text(format!("u{this}")), "account {this}");
        assert_eq!(found.insert(this, number(&account[bal])), None, "account {this} is there twice");
    }
    let wrong: Vec<_> = moved.iter().filter(|(id, balance)| found.get(id) != Some(balance)).collect();
    assert!(
        wrong.is_empty() && found.len() == moved.len(),
        "{} of {} accounts are not as the {} entries of the journal say: {:?}",
        wrong.len(),
        found.len(),
        entries.len(),
        wrong.first().map(|(id, should)| (**id, **should, found.get(*id)))
    );
    let mut last = Vec::new();
    for (who, mut entries) in numbers {
        entries.sort_unstable();
        assert!(entries.iter().copied().eq(1..=entries.len() as i64), "{who} has entries {entries:?}");
        last.resize((who as usize + 1).max(last.len()), 0);
        last[who as usize] = entries.len() as i64;
    }
    Ok(last)
}
