//! Databases made by the engine on a simulated disk: the same seed, the same bytes.

use std::path::Path;
use std::sync::Arc;

use resurgam_ctl::{CheckReport, Folder, check};
use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

pub const DIR: &str = "/db";

pub fn options() -> Options {
    Options { buffer_bytes: 1 << 20, log_segment_bytes: 1 << 20, background: false, ..Options::default() }
}

pub fn open(vfs: &SimVfs) -> Database {
    Database::open_with(Arc::new(vfs.clone()), Path::new(DIR), options(), |_| {}).unwrap()
}

pub fn folder(vfs: &SimVfs) -> Folder {
    Folder::with_vfs(Arc::new(vfs.clone()), Path::new(DIR)).unwrap()
}

pub fn commit(tx: Transaction) {
    tx.commit(Durability::Sync).unwrap().wait().unwrap();
}

pub fn checked(vfs: &SimVfs) -> (CheckReport, String) {
    let mut out = Vec::new();
    let report = check(&folder(vfs), &mut |_| {}, &mut out).unwrap();
    (report, String::from_utf8(out).unwrap())
}

/// A change of the bytes of a file in the folder.
pub fn poke(vfs: &SimVfs, file: &str, at: u64, bytes: &[u8]) {
    let file = vfs.open(&Path::new(DIR).join(file), OpenMode::ReadWrite).unwrap();
    file.write_at(bytes, at).unwrap();
}

pub fn people() -> TableSpec {
    let mut spec = TableSpec::new("public", "people")
        .column("id", ColumnType::Int4)
        .column("name", ColumnType::Text)
        .column("born", ColumnType::Date)
        .primary_key(&["id"])
        .index("people_name_key", &["name"], true)
        .index("people_born", &["born"], false);
    spec.columns[2].default_sql = Some("current_date".into());
    spec
}

pub fn person<'a>(id: i32, name: &'a str) -> [DatumRef<'a>; 3] {
    [DatumRef::Int4(id), DatumRef::Text(name), DatumRef::Date(id * 100)]
}

/// Two committed rows, one of them changed, one deleted row; closed cleanly.
pub fn small(seed: u64) -> SimVfs {
    let vfs = SimVfs::new(seed);
    let db = open(&vfs);
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(people()).unwrap().done().unwrap();
    for (id, name) in [(1, "Ada"), (2, "Grace"), (3, "Edsger")] {
        tx.insert(&table, &person(id, name)).unwrap().done().unwrap();
    }
    commit(tx);
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "people").unwrap().unwrap();
    tx.statement(StatementKind::BulkWrite).unwrap();
    assert_eq!(
        tx.update(&table, &key(&table, 2), Seen::Snapshot, &person(2, "Grace Hopper")).unwrap().done().unwrap(),
        Change::Done
    );
    assert_eq!(tx.delete(&table, &key(&table, 3), Seen::Snapshot).unwrap().done().unwrap(), Change::Done);
    commit(tx);
    db.close().unwrap();
    vfs
}

pub fn key(table: &Table, id: i32) -> Vec<u8> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int4(id)], &mut key).unwrap();
    key
}

/// Everything the checker knows about: several levels, large values, off-row versions,
/// dropped and never committed tables, aborted work; neither closed nor synced.
pub fn busy(seed: u64, rows: i32) -> (SimVfs, Database) {
    let vfs = SimVfs::new(seed);
    let db = open(&vfs);
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(people()).unwrap().done().unwrap();
    let wide = TableSpec::new("public", "documents")
        .column("id", ColumnType::Int4)
        .column("body", ColumnType::Text)
        .primary_key(&["id"]);
    let wide = tx.create_table(wide).unwrap().done().unwrap();
    let gone = tx.create_table(TableSpec::new("public", "gone").column("x", ColumnType::Int8)).unwrap().done().unwrap();
    for id in 0..rows {
        tx.insert(&table, &person(id, &format!("name {id} {}", "x".repeat(id as usize % 150))))
            .unwrap()
            .done()
            .unwrap();
        tx.insert(&gone, &[DatumRef::Int8(i64::from(id))]).unwrap().done().unwrap();
    }
    for id in 0..rows / 50 {
        let body = "y".repeat(3000 + 977 * id as usize);
        tx.insert(&wide, &[DatumRef::Int4(id), DatumRef::Text(&body)]).unwrap().done().unwrap();
    }
    commit(tx);
    db.checkpoint().unwrap();

    let tx = db.begin(Isolation::ReadCommitted);
    let gone = tx.table("public", "gone").unwrap().unwrap();
    tx.drop_table(&gone).unwrap().done().unwrap();
    commit(tx);
    // Committed changes, twice over the same rows: versions in rows and off-row.
    for round in 0..2 {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "people").unwrap().unwrap();
        tx.statement(StatementKind::BulkWrite).unwrap();
        for id in (0..rows).step_by(7) {
            let name = format!("round {round} {id} {}", "z".repeat(900));
            tx.update(&table, &key(&table, id), Seen::Snapshot, &person(id, &name)).unwrap().done().unwrap();
        }
        commit(tx);
    }
    let tx = db.begin(Isolation::ReadCommitted);
    let wide = tx.table("public", "documents").unwrap().unwrap();
    tx.statement(StatementKind::BulkWrite).unwrap();
    tx.update(&wide, &key(&wide, 0), Seen::Snapshot, &[DatumRef::Int4(0), DatumRef::Text(&"new".repeat(5000))])
        .unwrap()
        .done()
        .unwrap();
    tx.delete(&wide, &key(&wide, 1), Seen::Snapshot).unwrap().done().unwrap();
    commit(tx);
    // Aborted and unfinished work.
    for end in [true, false] {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "people").unwrap().unwrap();
        let wide = tx.table("public", "documents").unwrap().unwrap();
        tx.statement(StatementKind::BulkWrite).unwrap();
        let from = if end { 0 } else { 1 };
        for id in (from..rows).step_by(11) {
            tx.update(&table, &key(&table, id), Seen::Snapshot, &person(id, &format!("lost {id}")))
                .unwrap()
                .wait(|| unreachable!())
                .ok();
        }
        tx.insert(&wide, &[DatumRef::Int4(if end { -1 } else { -2 }), DatumRef::Text(&"v".repeat(20_000))])
            .unwrap()
            .done()
            .unwrap();
        tx.create_table(TableSpec::new("public", if end { "never" } else { "nor_this" }).column("x", ColumnType::Int8))
            .unwrap()
            .done()
            .unwrap();
        if end {
            tx.rollback().unwrap();
        } else {
            std::mem::forget(tx);
        }
    }
    // Something must sync what the unfinished transaction wrote.
    let tx = db.begin(Isolation::ReadCommitted);
    let wide = tx.table("public", "documents").unwrap().unwrap();
    tx.insert(&wide, &[DatumRef::Int4(1000), DatumRef::Text("last")]).unwrap().done().unwrap();
    commit(tx);
    (vfs, db)
}
