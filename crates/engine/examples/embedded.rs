//! The engine without SQL: a table, a transaction, a range, a rollback.
//!
//! Run with `cargo run --release -p resurgam-engine --example embedded -- /tmp/demo`.

use resurgam_engine::*;

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "./embedded-demo".into());
    let db = Database::open(&dir, Options::default())?;

    let tx = db.begin(Isolation::ReadCommitted);
    let table = match tx.table("public", "city")? {
        Some(table) => table,
        None => {
            let spec = TableSpec::new("public", "city")
                .column("name", ColumnType::Text)
                .column("people", ColumnType::Int8)
                .primary_key(&["name"])
                .index("city_people", &["people"], false);
            tx.create_table(spec.clone())?.wait(|| tx.create_table(spec.clone()))?
        }
    };
    for (name, people) in [("Lyon", 522_000), ("Oslo", 717_000), ("Porto", 232_000)] {
        let row = [DatumRef::Text(name), DatumRef::Int8(people)];
        match tx.insert(&table, &row) {
            Ok(attempt) => attempt.wait(|| tx.insert(&table, &row))?,
            Err(error) if error.kind() == ErrorKind::UniqueViolation => println!("{name} is there already"),
            Err(error) => return Err(error),
        }
    }
    tx.commit(Durability::Sync)?.wait()?; // returns when the log is on disk

    // A rollback takes the same time however much was done.
    let tx = db.begin(Isolation::ReadCommitted);
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Text("Oslo")], &mut key)?;
    tx.statement(StatementKind::PointWrite)?;
    tx.delete(&table, &key, Seen::Snapshot)?.done()?;
    tx.rollback()?;

    // Cities by size, largest first, through the index.
    let tx = db.begin(Isolation::RepeatableRead);
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan_index(&table, 0, KeyRange::all(), Direction::Backward);
    let mut batch = RowBatch::default();
    while cursor.next_batch(&mut batch, 100)? {
        for i in 0..batch.len() {
            println!("{:?} has {:?} people", table.column(batch.row(i), 0)?, table.column(batch.row(i), 1)?);
        }
        batch.clear();
    }
    drop(tx);
    db.close()
}
