//! The tools of backups on a real folder.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::PageId;
use resurgam_ctl::{BackupFolder, make_backup};
use resurgam_engine::{ColumnType, Database, DatumRef, Durability, Isolation, Options, TableSpec};
use resurgam_vfs::RealVfs;

fn work(dir: &Path, table: &str, backup: bool) {
    let options = Options {
        buffer_bytes: 4 << 20,
        archive: Some(dir.join("archive").display().to_string()),
        backups: Some(dir.join("backups").display().to_string()),
        ..Options::default()
    };
    let db = Database::open_with(Arc::new(RealVfs::new()), &dir.join("db"), options, |_| {}).unwrap();
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", table).column("id", ColumnType::Int4).column("v", ColumnType::Text);
    let made = tx.create_table(spec.primary_key(&["id"])).unwrap().done().unwrap();
    let value = "v".repeat(1000);
    for id in 0..400 {
        tx.insert(&made, &[DatumRef::Int4(id), DatumRef::Text(&value)]).unwrap().done().unwrap();
    }
    tx.commit(Durability::Sync).unwrap().wait().unwrap();
    if backup {
        db.backup(false, &|| false).unwrap();
    }
    db.close().unwrap();
}

fn said(tool: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    tool(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn backups_are_listed_verified_shown_and_made() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, place) =
        (dir.path().join("archive").display().to_string(), dir.path().join("backups").display().to_string());
    assert!(BackupFolder::open(&place).is_err(), "there is no such folder");
    work(dir.path(), "t", true);
    let backups = BackupFolder::open(&format!("file://{place}")).unwrap();
    work(dir.path(), "u", false);
    let text = said(|out| assert!(make_backup(&archive, &place, out).unwrap()));
    assert!(text.contains("from backup ") && text.contains(" pages, "), "{text}");
    let text = said(|out| backups.list(out).unwrap());
    assert!(text.contains(", made from the archive") && text.ends_with("2 backups\n"), "{text}");
    let name = text.split_whitespace().next().unwrap().to_owned();
    let text = said(|out| assert!(backups.verify(None, out).unwrap()));
    assert_eq!(text.matches("the backup is sound").count(), 2, "{text}");
    let text = said(|out| backups.inspect(&name, None, out).unwrap());
    assert!(text.contains("part 0: ") && text.contains("accelerated recovery"), "{text}");
    let text = said(|out| backups.inspect(&name, Some(PageId(0)), out).unwrap());
    assert!(text.contains("Boot") || text.contains("boot"), "{text}");
    let text = said(|out| backups.inspect(&name, Some(PageId(100_000)), out).unwrap());
    assert!(text.contains("none of the backup's"), "{text}");
    assert!(backups.inspect("nothing", None, &mut Vec::new()).is_err());

    // From the archive alone, which was begun with the database.
    let alone = dir.path().join("alone").display().to_string();
    let text = said(|out| assert!(make_backup(&archive, &alone, out).unwrap()));
    assert!(text.contains("from the archive alone"), "{text}");
    let text = said(|out| assert!(BackupFolder::open(&alone).unwrap().verify(None, out).unwrap()));
    assert!(text.contains("sound"), "{text}");

    // A flipped bit is named.
    let part =
        std::fs::read_dir(dir.path().join("backups/backups").join(&name)).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&part, &bytes).unwrap();
    let text = said(|out| assert!(!backups.verify(Some(&name), out).unwrap()));
    let file = part.file_name().unwrap().to_str().unwrap();
    assert!(text.contains(file) && text.contains("segment") && text.contains("the backup is DAMAGED"), "{text}");
}
