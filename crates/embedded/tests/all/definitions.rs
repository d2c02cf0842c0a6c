//! Tables that are there already, and those that cannot be.

use resurgam_embedded::{Column, Db, Error, Recovery, Table, row};
use resurgam_engine::{CheckSpec, ColumnSpec, ColumnType, IndexSpec, Isolation, TableChange};

use crate::{open, options};

row! {
    #[derive(Debug, PartialEq)]
    struct City in "city" {
        name: String,
        people: i64,
    }
    key(name: String);
}

mod later {
    resurgam_embedded::row! {
        #[derive(Debug, PartialEq)]
        pub struct City in "city" {
            pub name: String,
            pub people: i64,
        }
        key(name: String);
        index people(people);
        unique both(people, name);
    }
}

mod other {
    resurgam_embedded::row! {
        pub struct City in "city" {
            pub name: String,
            pub people: i32,
        }
        key(name: String);
    }
}

mod other_index {
    resurgam_embedded::row! {
        pub struct City in "city" {
            pub name: String,
            pub people: i64,
        }
        key(name: String);
        index people(people, name);
    }
}

mod elsewhere {
    resurgam_embedded::row! {
        pub struct City in "city" of schema "nowhere" {
            pub name: String,
        }
        key(name: String);
    }
}

#[test]
fn a_table_of_other_columns_is_refused_with_both_sides() {
    let (_dir, db) = open();
    db.create::<City>().unwrap();
    let error = db.create::<other::City>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "table \"city\" is not what this program expects\n  \
         expected: (name text not null, people integer not null, primary key (name))\n  \
         found:    (name text not null, people bigint not null, primary key (name))"
    );
    let error = db.read(|tx| tx.rows::<other::City>().map(drop)).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }));
    const PAIR: Table<String, i64> = Table::new("city");
    let error = db.create_table(&PAIR).unwrap_err();
    assert!(
        error.to_string().contains("expected: (key text not null, value bigint not null, primary key (key))"),
        "{error}"
    );
}

#[test]
fn indexes_that_a_struct_has_more_are_made() {
    let (_dir, db) = open();
    db.write(|tx| {
        for (name, people) in [("Lyon", 5), ("Oslo", 7), ("Porto", 2)] {
            tx.rows::<City>()?.insert(&City { name: name.into(), people })?;
        }
        Ok(())
    })
    .unwrap();
    let error = db.read(|tx| tx.rows::<later::City>()?.by("people").map(drop)).unwrap_err();
    assert!(matches!(&error, Error::NoIndex { there_are, .. } if there_are.is_empty()), "{error}");
    db.create::<later::City>().unwrap();
    let names = db.read(|tx| {
        let cities = tx.rows::<later::City>()?;
        cities.by("people")?.range(3..)?.rev().map(|city| Ok(city?.name)).collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(names.unwrap(), ["Oslo", "Lyon"]);
    // Who does not know of them writes them as well.
    db.write(|tx| tx.rows::<City>()?.put(&City { name: "Porto".into(), people: 9 })).unwrap();
    assert_eq!(db.read(|tx| tx.rows::<later::City>()?.by("people")?.count_in(9..)).unwrap(), 1);
    let error = db.create::<other_index::City>().unwrap_err().to_string();
    assert!(error.contains("expected: \"city_people_idx\", index (people, name)"), "{error}");
    assert!(error.contains("found:    index (people)"), "{error}");
}

mod unique {
    resurgam_embedded::row! {
        pub struct City in "city" {
            pub name: String,
            pub people: i64,
        }
        key(name: String);
        index name(name);
        unique people(people);
    }
}

/// An index cannot be made over rows that violate it; nothing is.
#[test]
fn a_unique_index_over_duplicates_is_refused() {
    let (_dir, db) = open();
    db.write(|tx| {
        tx.rows::<City>()?.insert(&City { name: "a".into(), people: 1 })?;
        tx.rows::<City>()?.insert(&City { name: "b".into(), people: 1 })
    })
    .unwrap();
    let error = db.create::<unique::City>().unwrap_err();
    assert_eq!(error.sqlstate(), "23505", "{error}");
    assert_eq!(db.read(|tx| tx.rows::<City>()?.count()).unwrap(), 2);
    db.write(|tx| tx.rows::<City>()?.delete("b")).unwrap();
    db.create::<unique::City>().unwrap();
}

#[test]
fn tables_and_schemas_that_are_not_there() {
    let (_dir, db) = open();
    let error = db.read(|tx| tx.rows::<City>().map(drop)).unwrap_err();
    assert!(matches!(&error, Error::NoTable { table } if table == "\"city\""), "{error}");
    let error = db.create::<elsewhere::City>().unwrap_err();
    assert!(matches!(&error, Error::NoSchema { schema } if schema == "nowhere"), "{error}");
    let error = db.create_table(&Table::<i64, i64>::named("x".repeat(70))).unwrap_err();
    assert!(matches!(error, Error::Definition { .. }), "{error}");
    // The name of something that is no table of keys and values.
    db.create::<later::City>().unwrap();
    let error = db.create_table(&Table::<i64, i64>::named("city_people_idx")).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
}

/// The engine's table is the one that SQL would have made of the columns.
#[test]
fn the_table_has_the_columns_that_sql_sees() {
    let (_dir, db) = open();
    db.create::<later::City>().unwrap();
    let tx = db.engine().begin(Isolation::ReadCommitted);
    let table = tx.table("public", "city").unwrap().unwrap();
    let columns: Vec<_> = table.columns.iter().map(|c| (c.name.as_str(), c.ty, c.nullable)).collect();
    assert_eq!(columns, [("name", ColumnType::Text, false), ("people", ColumnType::Int8, false)]);
    assert_eq!((table.primary_key.as_slice(), table.primary_key_name.as_str()), (&[0][..], "city_pkey"));
    let indexes: Vec<_> =
        table.indexes.iter().map(|i| (i.name.as_str(), i.columns.as_slice(), i.unique, i.constraint)).collect();
    assert_eq!(indexes, [("city_people_idx", &[1][..], false, false), ("city_both_key", &[1, 0][..], true, true)]);
}

/// Rules that SQL alone knows of keep this crate from writing.
#[test]
fn a_table_with_a_check_is_only_read() {
    let (_dir, db) = open();
    db.write(|tx| tx.rows::<City>()?.insert(&City { name: "a".into(), people: 1 })).unwrap();
    let tx = db.engine().begin(Isolation::ReadCommitted);
    let table = tx.table("public", "city").unwrap().unwrap();
    let check = CheckSpec { name: "some".into(), sql: "people > 0".into(), columns: vec![1], validated: true };
    let _ = tx.alter_table(&table, TableChange::AddCheck(check)).unwrap().done().unwrap();
    tx.commit(resurgam_embedded::Durability::Sync).unwrap().wait().unwrap();
    assert_eq!(db.read(|tx| tx.rows::<City>()?.count()).unwrap(), 1);
    let city = || City { name: "b".into(), people: -1 };
    let errors = [
        db.write(|tx| tx.rows::<City>()?.insert(&city())).unwrap_err(),
        db.write(|tx| tx.rows::<City>()?.put(&city()).map(drop)).unwrap_err(),
        db.write(|tx| tx.rows::<City>()?.delete("a").map(drop)).unwrap_err(),
        db.write(|tx| tx.rows::<City>()?.delete_range(..).map(drop)).unwrap_err(),
        db.write(|tx| tx.rows::<City>()?.pop_first().map(drop)).unwrap_err(),
        db.write(|tx| tx.rows::<City>()?.modify("a", |_| ()).map(drop)).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            error.to_string(),
            "table \"city\" can only be written by SQL: its CHECK constraint \"some\" is kept by SQL"
        );
    }
}

#[test]
fn a_folder_is_opened_once() {
    let (dir, db) = open();
    let path = dir.path().join("db");
    for path in [path.clone(), dir.path().join("db/../db")] {
        match options().open(&path) {
            Err(Error::InUse { here: true, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    let clone = db.clone();
    db.write(|tx| tx.rows::<City>()?.insert(&City { name: "a".into(), people: 1 })).unwrap();
    db.close().unwrap();
    // A clone of what is closed is of no use, and does no harm.
    assert!(clone.write(|tx| tx.rows::<City>()?.insert(&City { name: "b".into(), people: 1 })).is_err());
    let db = options().open(&path).unwrap();
    drop(clone);
    assert!(matches!(options().open(&path), Err(Error::InUse { here: true, .. })));
    assert_eq!(db.read(|tx| tx.rows::<City>()?.count()).unwrap(), 1);
    // Dropping the last handle closes as well.
    drop(db);
    let db = options().open(&path).unwrap();
    drop(db);
    // One that was being made when that was cut off is none either.
    for (name, file) in [("none", None), ("half", Some("creating")), ("less", Some("control.new"))] {
        if let Some(file) = file {
            // As the engine makes it: for nobody else.
            let folder = dir.path().join(name);
            std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&folder).unwrap();
            std::fs::write(folder.join(file), "").unwrap();
            std::fs::write(folder.join("lock"), "").unwrap();
        }
        match Db::options().create(false).open(dir.path().join(name)) {
            Err(Error::NoDatabase { .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    Db::options().create(false).open(&path).unwrap().close().unwrap();
    // The engine has it, beside this crate.
    let engine = resurgam_engine::Database::open(&path, resurgam_engine::Options::default()).unwrap();
    let error = options().open(&path).unwrap_err();
    assert!(error.to_string().contains("or by the engine in this one"), "{error}");
    engine.close().unwrap();
    std::fs::create_dir(dir.path().join("full")).unwrap();
    std::fs::write(dir.path().join("full/file"), "x").unwrap();
    let error = Db::open(dir.path().join("full")).unwrap_err();
    assert!(error.to_string().contains("is not a Resurgam data folder"), "{error}");
}

/// A type of the program's own as a column.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Id(i64);

impl Column for Id {
    const TYPE: ColumnType = i64::TYPE;
    fn to_datum(&self) -> Result<resurgam_embedded::DatumRef<'_>, resurgam_embedded::Unfit> {
        self.0.to_datum()
    }
    fn from_datum(datum: resurgam_embedded::DatumRef<'_>) -> Option<Self> {
        i64::from_datum(datum).map(Id)
    }
}

#[test]
fn columns_of_own_types() {
    const IDS: Table<Id, Id> = Table::new("ids");
    let (_dir, db) = open();
    db.write(|tx| tx.table(&IDS)?.put(&Id(1), &Id(2))).unwrap();
    assert_eq!(db.read(|tx| tx.table(&IDS)?.range(Id(0)..)?.next().transpose()).unwrap(), Some((Id(1), Id(2))));
}

/// What others do to a table while the program runs is found when it is next used, and never written over.
#[test]
fn changes_of_a_table_are_seen_at_once() {
    let (_dir, owner) = open();
    let db = Db::over(owner.engine().clone());
    let city = |name: &str| City { name: name.into(), people: 1 };
    db.write(|tx| tx.rows::<City>()?.insert(&city("a"))).unwrap();
    let change = |change: TableChange| {
        let tx = db.engine().begin(Isolation::ReadCommitted);
        let table = tx.table("public", "city").unwrap().unwrap();
        let _ = tx.alter_table(&table, change).unwrap().done().unwrap();
        tx.commit(resurgam_embedded::Durability::Sync).unwrap().wait().unwrap();
    };
    let column = ColumnSpec { name: "area".into(), ty: ColumnType::Float8, nullable: true, default_sql: None };
    change(TableChange::AddColumn(column));
    for error in [
        db.write(|tx| tx.rows::<City>()?.put(&city("b")).map(drop)).unwrap_err(),
        db.read(|tx| tx.rows::<City>().map(drop)).unwrap_err(),
    ] {
        assert!(matches!(&error, Error::Mismatch { found, .. } if found.contains("area double precision")), "{error}");
    }
    change(TableChange::DropColumn(2));
    db.write(|tx| tx.rows::<City>()?.put(&city("b"))).unwrap();
    assert_eq!(db.read(|tx| tx.rows::<City>()?.count()).unwrap(), 2);
    // While it is read, others may change it: the reader goes on.
    db.read(|tx| {
        let cities = tx.rows::<City>()?;
        change(TableChange::RenameColumn(1, "inhabitants".into()));
        assert_eq!(cities.get("b")?, Some(city("b")));
        Ok(())
    })
    .unwrap();
    assert!(matches!(db.read(|tx| tx.rows::<City>().map(drop)), Err(Error::Mismatch { .. })));
    let tx = db.engine().begin(Isolation::ReadCommitted);
    let table = tx.table("public", "city").unwrap().unwrap();
    tx.drop_table(&table).unwrap().done().unwrap();
    tx.commit(resurgam_embedded::Durability::Sync).unwrap().wait().unwrap();
    assert!(matches!(db.read(|tx| tx.rows::<City>().map(drop)), Err(Error::NoTable { .. })));
    db.write(|tx| tx.rows::<City>()?.insert(&city("c"))).unwrap();
    // It is the owner's to close.
    drop(db);
    assert_eq!(owner.read(|tx| tx.rows::<City>()?.count()).unwrap(), 1);
}

/// Nothing of a table is seen by a transaction that began before it was made, and it makes no second one.
#[test]
fn a_table_that_was_made_meanwhile_is_found_at_the_second_attempt() {
    let (_dir, db) = open();
    let mut attempts = 0;
    db.write(|tx| {
        attempts += 1;
        if attempts == 1 {
            std::thread::scope(|scope| {
                let make = || db.write(|tx| tx.rows::<City>()?.insert(&City { name: "a".into(), people: 1 }));
                scope.spawn(move || make().unwrap());
            });
        }
        tx.rows::<City>()?.insert(&City { name: "b".into(), people: 1 })
    })
    .unwrap();
    assert_eq!(attempts, 2);
    assert_eq!(db.read(|tx| tx.rows::<City>()?.count()).unwrap(), 2);
}

/// What cannot be made leaves nothing behind, whatever the closure returns.
#[test]
fn a_table_that_cannot_be_made_leaves_no_name() {
    const TAKEN: Table<i64, i64> = Table::new("x_pkey");
    const X: Table<i64, i64> = Table::new("x");
    for recovery in [Recovery::Accelerated, Recovery::Traditional] {
        let dir = tempfile::tempdir().unwrap();
        let db = options().recovery(recovery).open(dir.path().join("db")).unwrap();
        db.create_table(&TAKEN).unwrap();
        db.write(|tx| {
            let error = tx.table(&X).map(drop).unwrap_err();
            assert!(matches!(error, Error::Mismatch { .. }), "{error}");
            tx.table(&TAKEN)?.put(&1, &1)
        })
        .unwrap();
        let tx = db.engine().begin(Isolation::ReadCommitted);
        let table = tx.table("public", "x_pkey").unwrap().unwrap();
        tx.drop_table(&table).unwrap().done().unwrap();
        tx.commit(resurgam_embedded::Durability::Sync).unwrap().wait().unwrap();
        db.write(|tx| tx.table(&X)?.put(&1, &1)).unwrap();
    }
}

#[test]
fn a_transaction_goes_on_after_an_index_that_cannot_be_made() {
    for recovery in [Recovery::Accelerated, Recovery::Traditional] {
        let dir = tempfile::tempdir().unwrap();
        let db = options().recovery(recovery).open(dir.path().join("db")).unwrap();
        let city = |name: &str, people| City { name: name.into(), people };
        db.write(|tx| tx.rows::<City>()?.insert(&city("a", 1))).unwrap();
        db.write(|tx| {
            // One of them was there before, the other one is its own.
            tx.rows::<City>()?.insert(&city("b", 1))?;
            let error = tx.rows::<unique::City>().map(drop).unwrap_err();
            assert_eq!(error.sqlstate(), "23505", "{error}");
            tx.rows::<City>()?.insert(&city("c", 1))
        })
        .unwrap();
        assert_eq!(db.read(|tx| tx.rows::<City>()?.count()).unwrap(), 3);
        // Nor is the index there that was made before it.
        let error = db.read(|tx| tx.rows::<unique::City>()?.by("name").map(drop)).unwrap_err();
        assert!(matches!(&error, Error::NoIndex { there_are, .. } if there_are.is_empty()), "{error}");
        db.write(|tx| {
            tx.rows::<City>()?.put(&city("a", 2))?;
            tx.rows::<City>()?.put(&city("b", 3))?;
            tx.rows::<unique::City>().map(drop)
        })
        .unwrap();
    }
}

/// Who changes a table and goes on with a handle of before is told so; nobody else is blamed, and nothing is tried again.
#[test]
fn a_handle_from_before_the_own_change() {
    let (_dir, db) = open();
    let city = |name: &str| City { name: name.into(), people: 1 };
    let mut attempts = 0;
    db.write(|tx| {
        attempts += 1;
        let cities = tx.rows::<City>()?;
        cities.insert(&city("a"))?;
        let _ = tx.rows::<later::City>()?;
        for error in [
            cities.insert(&city("b")).unwrap_err(),
            cities.get("a").map(drop).unwrap_err(),
            cities.contains("a").map(drop).unwrap_err(),
            cities.delete("a").map(drop).unwrap_err(),
            cities.count().map(drop).unwrap_err(),
            cities.iter()?.next().unwrap().map(drop).unwrap_err(),
        ] {
            assert!(
                matches!(&error, Error::Definition { what, .. } if what.contains("take the handle again")),
                "{error}"
            );
        }
        tx.rows::<City>()?.insert(&city("b"))
    })
    .unwrap();
    assert_eq!((attempts, db.counts().conflicts), (1, 0));
    assert_eq!(db.read(|tx| tx.rows::<later::City>()?.by("people")?.count_in(1..)).unwrap(), 2);
}

/// An index of SQL that is called as the program calls a missing one of its own is not taken for it.
#[test]
fn an_index_of_sql_with_the_name_of_a_missing_one() {
    let (_dir, db) = open();
    db.create::<City>().unwrap();
    let tx = db.engine().begin(Isolation::ReadCommitted);
    let table = tx.table("public", "city").unwrap().unwrap();
    let spec = IndexSpec {
        name: "people".into(),
        columns: vec![0],
        orders: Vec::new(),
        unique: false,
        constraint: false,
        nulls_alike: false,
        deferral: resurgam_engine::Deferral::Never,
    };
    let _ = tx.create_index(&table, spec).unwrap().done().unwrap();
    tx.commit(resurgam_embedded::Durability::Sync).unwrap().wait().unwrap();
    let error = db.read(|tx| tx.rows::<later::City>()?.by("people").map(drop)).unwrap_err();
    assert!(matches!(&error, Error::NoIndex { index, .. } if index == "people"), "{error}");
    // Who declares none of that name has it.
    db.read(|tx| tx.rows::<City>()?.by("people").map(drop)).unwrap();
}
