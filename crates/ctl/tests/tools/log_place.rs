//! A database whose log has a folder of its own is printed and checked like any other.

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use resurgam_ctl::*;
use resurgam_engine::{Database, Isolation, Options};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

#[test]
fn the_log_is_found_where_it_is() {
    let vfs = SimVfs::new(5);
    vfs.make_folder(Path::new("/disk2")).unwrap();
    let options = Options { log_dir: Some("/disk2/log".into()), ..options() };
    let db = Database::open_with(Arc::new(vfs.clone()), Path::new(DIR), options, |_| {}).unwrap();
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(people()).unwrap().done().unwrap();
    tx.insert(&table, &person(1, "Ada")).unwrap().done().unwrap();
    commit(tx);
    // What it says proves that the one before was durable.
    let tx = db.begin(Isolation::ReadCommitted);
    tx.insert(&table, &person(2, "Grace")).unwrap().done().unwrap();
    commit(tx);
    drop((table, db));
    let (report, text) = checked(&vfs);
    assert!(report.is_sound(), "{text}");
    assert!(report.counts.log_records > 10, "{text}");
    let mut out = Vec::new();
    inspect_log(&folder(&vfs), LogOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("Commit") && text.contains("database "), "{text}");
    // A hole in it is damage, as anywhere.
    let name = vfs.list(Path::new("/disk2/log")).unwrap().into_iter().find(|name| name.ends_with(".log")).unwrap();
    let file = vfs.open(&Path::new("/disk2/log").join(name), OpenMode::ReadWrite).unwrap();
    file.write_at(&[0xEE; 600], 1024).unwrap();
    let (report, text) = checked(&vfs);
    assert!(!report.is_sound(), "{text}");
}
