//! A commit that changes definitions costs what it changed, however many tables there are.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

const TABLES: usize = 3000;

fn spec(name: &str) -> TableSpec {
    TableSpec::new("public", name).column("id", ColumnType::Int8).column("other", ColumnType::Int8).primary_key(&["id"])
}

fn change<R>(db: &Database, work: impl FnOnce(&Transaction) -> Result<R>) -> Result<R> {
    let tx = db.begin(Isolation::ReadCommitted);
    let done = work(&tx)?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok(done)
}

fn find(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    tx.table("public", name)?.ok_or_else(|| Error::internal(format!("no table {name}")))
}

#[test]
fn a_commit_reads_what_it_changed() -> Result<()> {
    for traditional in [false, true] {
        let options = || Options {
            background: false,
            accelerated_database_recovery: !traditional,
            buffer_bytes: 64 << 20,
            ..Options::default()
        };
        let vfs = SimVfs::new(1);
        let open = || Database::open_with(Arc::new(vfs.clone()), Path::new("/db"), options(), |_| {});
        let db = open()?;
        change(&db, |tx| (0..TABLES).try_for_each(|n| tx.create_table(spec(&format!("t{n}")))?.done().map(|_| ())))?;
        let old = db.begin(Isolation::RepeatableRead);
        drop(old.statement(StatementKind::Read)?);
        assert_eq!(old.tables()?.len(), TABLES);
        let (before, begun) = (db.definition_counts().read, Instant::now());
        let mut commits = 0;
        for n in 0..40 {
            let [a, b, c] = [3 * n, 3 * n + 1, 3 * n + 2].map(|n| format!("t{n}"));
            change(&db, |tx| tx.create_table(spec(&format!("new{n}")))?.done())?;
            change(&db, |tx| {
                let (child, parent) = (find(tx, &a)?, find(tx, &b)?);
                let foreign = ForeignKey {
                    id: 0,
                    name: format!("fk{n}"),
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
                };
                tx.add_foreign_key(&child, &parent, foreign)?.done()
            })?;
            change(&db, |tx| tx.drop_table(&find(tx, &c)?)?.done())?;
            // Names that go round in one commit.
            change(&db, |tx| {
                tx.alter_table(&find(tx, &a)?, TableChange::RenameTable(c.clone()))?.done()?;
                tx.alter_table(&find(tx, &format!("new{n}"))?, TableChange::RenameTable(a.clone()))?.done()
            })?;
            // Taken back, whole or in part.
            let tx = db.begin(Isolation::ReadCommitted);
            tx.drop_table(&find(&tx, &a)?)?.done()?;
            tx.rollback()?;
            change(&db, |tx| {
                let savepoint = tx.savepoint()?;
                tx.create_table(spec("never"))?.done()?;
                tx.rollback_to(savepoint)?;
                tx.create_table(spec(&format!("kept{n}")))?.done()
            })?;
            commits += 5;
            let other = db.begin(Isolation::ReadCommitted);
            assert_eq!(other.referrers(find(&other, &b)?.id)?.len(), 1);
        }
        let read = db.definition_counts().read - before;
        eprintln!(
            "traditional: {traditional}: {commits} commits beside {TABLES} tables read {read} definitions in {:.1?}",
            begun.elapsed()
        );
        assert!(read <= 4 * commits, "{commits} commits read {read} definitions");
        let now = db.begin(Isolation::ReadCommitted);
        assert_eq!(now.compare_definitions()?, Vec::<String>::new());
        assert_eq!((old.tables()?.len(), now.tables()?.len()), (TABLES, TABLES + 40));
        assert!(old.table("public", "kept1")?.is_none() && old.table("public", "t2")?.is_some());
        // One that began a few commits ago finds its state at hand.
        let recent = db.begin(Isolation::RepeatableRead);
        drop(recent.statement(StatementKind::Read)?);
        for n in 0..10 {
            change(&db, |tx| tx.create_table(spec(&format!("later{n}")))?.done())?;
        }
        let before = db.definition_counts().read;
        assert_eq!(recent.tables()?.len(), TABLES + 40);
        assert_eq!(db.definition_counts().read, before, "a state of the last commits was read again");
        drop((old, recent, now));
        // One in doubt over a restart: what it changed is not known, and all are read.
        let tx = db.begin(Isolation::ReadCommitted);
        tx.create_table(spec("in doubt"))?.done()?;
        tx.prepare("p", "o", "d")?.wait()?;
        db.close()?;
        drop(db);
        let db = open()?;
        change(&db, |tx| tx.create_table(spec("beside"))?.done())?;
        db.commit_prepared("p")?.wait()?;
        let now = db.begin(Isolation::ReadCommitted);
        assert!(now.table("public", "in doubt")?.is_some() && now.table("public", "beside")?.is_some());
        assert_eq!(now.compare_definitions()?, Vec::<String>::new());
        drop(now);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}
