//! Definitions and values that cannot be: said to be the caller's mistake, by name.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open_as, small_log};

fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, small_log(is_traditional()))
}

/// The engine says what is wrong with a definition, or with values, as the caller's mistake.
#[test]
fn the_engine_refuses_what_cannot_be() {
    let db = open(&SimVfs::new(1)).unwrap();
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = || TableSpec::new("public", "t").column("a", ColumnType::Text).column("b", ColumnType::Int4);
    let kind = |spec: TableSpec| tx.create_table(spec).err().unwrap().kind();
    assert_eq!(kind(spec().primary_key(&["c"])), ErrorKind::UndefinedColumn);
    assert_eq!(kind(spec().primary_key(&["a", "a"])), ErrorKind::DuplicateColumn);
    assert_eq!(kind(spec().index("i", &["a", "c"], false)), ErrorKind::UndefinedColumn);
    let table = tx.create_table(spec().primary_key(&["a"])).unwrap().done().unwrap();
    let insert = |row: &[DatumRef<'_>]| tx.insert(&table, row).err().unwrap().kind();
    assert_eq!(insert(&[DatumRef::Text("x")]), ErrorKind::InvalidParameter);
    assert_eq!(insert(&[DatumRef::Int4(1), DatumRef::Int4(1)]), ErrorKind::InvalidParameter);
    assert_eq!(insert(&[DatumRef::Text("x"), DatumRef::Text("1")]), ErrorKind::InvalidParameter);
    assert_eq!(insert(&[DatumRef::Text("x\0"), DatumRef::Int4(1)]), ErrorKind::InvalidText);
    let mut key = Vec::new();
    let too_many = table.encode_key(&[DatumRef::Text("x"), DatumRef::Int4(1)], &mut key);
    assert_eq!(too_many.unwrap_err().kind(), ErrorKind::InvalidParameter);
    assert_eq!(table.encode_index_key(3, &[], &mut key).unwrap_err().kind(), ErrorKind::UndefinedObject);
    tx.insert(&table, &[DatumRef::Text("x"), DatumRef::Int4(1)]).unwrap().done().unwrap();
    let twice = tx.insert(&table, &[DatumRef::Text("x"), DatumRef::Int4(2)]).err().unwrap();
    assert_eq!((twice.kind(), twice.constraint()), (ErrorKind::UniqueViolation, Some("t_pkey")));
    let mut batch = RowBatch::default();
    let view = tx.view().unwrap();
    let no_index = view.scan_index(&table, 7, KeyRange::all(), Direction::Forward).next_batch(&mut batch, 1);
    assert_eq!(no_index.unwrap_err().kind(), ErrorKind::UndefinedObject);
    assert!(view.scan(&table, KeyRange::all(), Direction::Forward).next_batch(&mut batch, 1).unwrap());
    assert_eq!(table.column(batch.row(0), 2).unwrap_err().kind(), ErrorKind::UndefinedColumn);
    tx.commit(Durability::Async).unwrap().wait().unwrap();
    db.sync_log().unwrap();
}
