//! One transaction with many schema changes: its time, its memory, what a crash costs.
//!
//! `cargo run --release -p resurgam-engine --example many_changes -- DIR 100000 commit`
//! The last word is `commit`, `rollback`, `prepare`, or `crash`: the process ends at once, and
//! the same command with `open` says how the next open went. A fourth word, `traditional`, is for
//! a new folder.

use std::time::Instant;

use resurgam_engine::*;

/// Memory of this process in MB: now, and the most so far (Linux).
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().nth(1)).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    format!("{} MB, at most {} MB", of("VmRSS"), of("VmHWM"))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().unwrap_or_else(|| "./many-changes-demo".into());
    let changes: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let end = args.next().unwrap_or_else(|| "commit".into());
    let accelerated = args.next().as_deref() != Some("traditional");
    let started = Instant::now();
    let options = Options { accelerated_database_recovery: accelerated, ..Options::default() };
    let db = Database::open(&dir, options)?;
    let said = |what: &str| println!("{:>8.2} s  {what:<40} {}", started.elapsed().as_secs_f64(), memory());
    said("open");
    if end == "open" {
        println!("{:?}", db.recovery());
        println!("in doubt: {}", db.prepared().len());
        println!("tables: {}", db.begin(Isolation::ReadCommitted).tables()?.len());
        said("definitions read");
        let report = db.clean_now()?;
        said("clean");
        println!("{report:?}");
        return db.close();
    }
    let tx = db.begin(Isolation::ReadCommitted);
    for made in 0..changes / 2 {
        let spec = TableSpec::new("public", &format!("made{made}"))
            .column("id", ColumnType::Int8)
            .column("note", ColumnType::Text)
            .primary_key(&["id"]);
        let table = tx.create_table(spec)?.done()?;
        let column =
            ColumnSpec { name: "more".into(), ty: ColumnType::Int4, nullable: true, default_sql: Some("0".into()) };
        tx.savepoint()?;
        tx.alter_table(&table, TableChange::AddColumn(column))?.done()?;
        if (made + 1) % (changes / 20).max(1) == 0 {
            said(&format!("{} changes", 2 * (made + 1)));
        }
    }
    let records = db.stats().log.records;
    let begun = Instant::now();
    db.checkpoint()?;
    said(&format!("checkpoint: {} records, {:.1?}", db.stats().log.records - records, begun.elapsed()));
    let begun = Instant::now();
    match end.as_str() {
        "rollback" => tx.rollback()?,
        "prepare" => tx.prepare("many", "owner", "database")?.wait()?,
        "crash" => std::process::abort(),
        _ => tx.commit(Durability::Sync)?.wait()?,
    }
    said(&format!("{end}: {:.1?}", begun.elapsed()));
    let begun = Instant::now();
    db.clean_now()?;
    said(&format!("clean: {:.1?}", begun.elapsed()));
    db.close()?;
    said("closed");
    Ok(())
}
