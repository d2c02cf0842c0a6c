//! What a transaction sees of the catalog after changes of its own, which is kept in memory,
//! against what the catalog's rows say: random changes, savepoints, and others beside it.

#[path = "../harness/rng.rs"]
#[allow(dead_code)]
mod rng;

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;
use rng::Rng;

use crate::common::open::open_as;

fn open(vfs: &SimVfs, accelerated: bool) -> Result<Database> {
    let options = Options {
        buffer_bytes: 256 * limits::PAGE_SIZE,
        log_segment_bytes: 1 << 20,
        background: false,
        accelerated_database_recovery: accelerated,
        ..Options::default()
    };
    open_as(vfs, options)
}

fn create(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    let spec = TableSpec::new("public", name)
        .column("id", ColumnType::Int8)
        .column("other", ColumnType::Int8)
        .primary_key(&["id"]);
    tx.create_table(spec)?.done()
}

fn foreign(name: String) -> ForeignKey {
    ForeignKey {
        id: 0,
        name,
        columns: vec![1],
        parent: 0,
        index: None,
        key: vec![0],
        on_delete: ReferentialAction::NoAction,
        on_update: ReferentialAction::NoAction,
        match_full: false,
        deferrable: false,
        deferred: false,
        validated: true,
    }
}

/// One change that is possible; what is not is passed over.
fn change(tx: &Transaction, rng: &mut Rng, step: u64) -> Result<()> {
    const NAMES: u64 = 7;
    let name = format!("t{}", rng.below(NAMES));
    let found = tx.table("public", &name)?;
    let Some(table) = found else {
        // The name of its primary key may be another table's still.
        if tx.relation("public", &format!("{name}_pkey"))?.is_none() {
            create(tx, &name)?;
        }
        return Ok(());
    };
    match rng.below(8) {
        0 | 1 => {
            let to = format!("t{}", rng.below(NAMES));
            if tx.relation("public", &to)?.is_none() {
                tx.alter_table(&table, TableChange::RenameTable(to))?.done()?;
            }
        }
        2 => {
            let spec = ColumnSpec {
                name: format!("c{step}"),
                ty: ColumnType::Text,
                nullable: true,
                default_sql: Some("'a text that takes some room'".repeat(20)),
            };
            tx.alter_table(&table, TableChange::AddColumn(spec))?.done()?;
        }
        3 => tx.truncate(&table)?.done()?,
        4 => {
            let spec = IndexSpec {
                name: format!("i{step}"),
                columns: vec![1],
                orders: Vec::new(),
                unique: false,
                constraint: false,
                nulls_alike: false,
                deferral: Deferral::Never,
            };
            let table = tx.create_index(&table, spec)?.done()?;
            assert_eq!(tx.table_of_index("public", &format!("i{step}"))?.map(|t| t.id), Some(table.id));
        }
        5 => {
            if let Some(parent) = tx.table("public", &format!("t{}", rng.below(NAMES)))? {
                tx.add_foreign_key(&table, &parent, foreign(format!("f{step}")))?.done()?;
            }
        }
        6 => {
            if let Some(foreign) = table.foreign_keys.first() {
                tx.drop_foreign_key(&table, &foreign.name)?.done()?;
            }
        }
        _ => {
            if tx.referrers(table.id)?.iter().all(|child| child.id == table.id) {
                tx.drop_table(&table)?.done()?;
            }
        }
    }
    Ok(())
}

fn whole(seed: u64, accelerated: bool, isolation: Isolation) -> Result<()> {
    let said = format!("seed {seed}, accelerated: {accelerated}, {isolation:?}");
    let mut rng = Rng::new(seed);
    let vfs = SimVfs::new(seed);
    let db = open(&vfs, accelerated)?;
    let before = db.begin(Isolation::ReadCommitted);
    for step in 0..10 {
        change(&before, &mut rng, step)?;
    }
    before.commit(Durability::Sync)?.wait()?;
    let tx = db.begin(isolation);
    tx.statement(StatementKind::Read)?;
    let compare = |at: u64| {
        let wrong = tx.compare_definitions().map_err(|e| e.to_string());
        assert_eq!(wrong, Ok(Vec::new()), "{said}, step {at}");
    };
    let mut savepoints = Vec::new();
    for step in 100..180 {
        match rng.below(10) {
            0 if savepoints.len() < 4 => savepoints.push(tx.savepoint()?),
            1 if !savepoints.is_empty() => {
                let at = rng.below(savepoints.len() as u64) as usize;
                tx.rollback_to(savepoints[at])?;
                savepoints.truncate(at + 1);
                compare(step);
                if rng.one_in(2) {
                    savepoints.truncate(at);
                }
            }
            2 => {
                let other = db.begin(Isolation::ReadCommitted);
                create(&other, &format!("other{step}"))?;
                if rng.one_in(2) {
                    for table in other.tables()?.iter().filter(|t| t.name.starts_with("other")).take(1) {
                        other.drop_table(table)?.done()?;
                    }
                }
                other.commit(Durability::Sync)?.wait()?;
            }
            // A statement of many rows has an id of its own.
            3 => {
                tx.statement(StatementKind::BulkWrite)?;
            }
            _ => change(&tx, &mut rng, step)?,
        }
        if rng.one_in(5) {
            compare(step);
        }
    }
    compare(999);
    let listed =
        |tx: &Transaction| -> Result<Vec<String>> { Ok(tx.tables()?.iter().map(|t| t.name.clone()).collect()) };
    let (inside, outside) = (listed(&tx)?, listed(&db.begin(Isolation::ReadCommitted))?);
    let of_others = |name: &&String| name.starts_with("other");
    let expected = match rng.below(3) {
        0 => {
            tx.rollback()?;
            outside
        }
        1 => {
            tx.prepare("p", "owner", "database")?.wait()?;
            db.commit_prepared("p")?.wait()?;
            inside.iter().filter(|n| !of_others(n)).chain(outside.iter().filter(of_others)).cloned().collect()
        }
        _ => {
            tx.commit(Durability::Sync)?.wait()?;
            inside.iter().filter(|n| !of_others(n)).chain(outside.iter().filter(of_others)).cloned().collect()
        }
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let after = db.begin(Isolation::ReadCommitted);
    assert_eq!(sorted(listed(&after)?), sorted(expected.clone()), "{said}");
    assert_eq!(after.compare_definitions()?, Vec::<String>::new(), "{said}");
    drop(after);
    let crashed = vfs.crash();
    drop((tx, db));
    let db = open(&crashed, accelerated)?;
    db.finish_recovery()?;
    assert_eq!(sorted(listed(&db.begin(Isolation::ReadCommitted))?), sorted(expected), "{said}");
    assert_eq!(db.verify()?, Vec::<String>::new(), "{said}");
    Ok(())
}

#[test]
fn what_is_kept_is_what_is_stored() -> Result<()> {
    for seed in 1..=60 {
        for accelerated in [true, false] {
            for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
                whole(seed, accelerated, isolation)?;
            }
        }
    }
    Ok(())
}

/// A view is of the definitions of its time, whatever its transaction changes later.
#[test]
fn views_know_the_definitions_of_their_time() -> Result<()> {
    let db = open(&SimVfs::new(1), true)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let made = create(&tx, "t")?;
    tx.insert(&made, &[DatumRef::Int8(1), DatumRef::Null])?.done()?;
    let view = tx.statement(StatementKind::Read)?;
    tx.truncate(&made)?.done()?;
    let emptied = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let later = tx.statement(StatementKind::Read)?;
    let mut key = Vec::new();
    made.encode_key(&[DatumRef::Int8(1)], &mut key)?;
    let mut row = RowBuf::default();
    assert!(view.get(&made, &key, &mut row)?, "as it was when the view was made");
    let refused = |result: Result<bool>| result.err().map(|e| e.kind());
    assert_eq!(refused(view.get(&emptied, &key, &mut row)), Some(ErrorKind::DefinitionChanged));
    assert_eq!(refused(later.get(&made, &key, &mut row)), Some(ErrorKind::DefinitionChanged));
    assert!(!later.get(&emptied, &key, &mut row)?);
    Ok(())
}
