//! An archive against a data folder, byte by byte; a folder whose restore is not finished.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, limits::PAGE_SIZE};
use resurgam_ctl::{ArchiveFolder, Comparison, Folder, check, compare, make_backup};
use resurgam_engine::{
    ColumnType, Database, DatumRef, Durability, Isolation, Options, RestoreRequest, TableSpec, restore_point,
};
use resurgam_page::PageBuf;
use resurgam_vfs::{RealVfs, Vfs};

struct Place(tempfile::TempDir);

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, archive: bool) -> Options {
        Options {
            buffer_bytes: 4 << 20,
            archive: archive.then(|| self.path("archive").display().to_string()),
            backups: archive.then(|| self.path("backups").display().to_string()),
            version_store_path: Some("versions".into()),
            background: false,
            ..Options::default()
        }
    }

    fn open(&self, archive: bool) -> Database {
        Database::open_with(Arc::new(RealVfs::new()), &self.path("db"), self.options(archive), |_| {}).unwrap()
    }

    fn fill(&self, db: &Database, table: &str) {
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", table).column("id", ColumnType::Int4).column("v", ColumnType::Text);
        let made = tx.create_table(spec.primary_key(&["id"])).unwrap().done().unwrap();
        let value = "v".repeat(1000);
        for id in 0..400 {
            tx.insert(&made, &[DatumRef::Int4(id), DatumRef::Text(&value)]).unwrap().done().unwrap();
        }
        tx.commit(Durability::Sync).unwrap().wait().unwrap();
    }

    fn compare(&self, backups: bool) -> resurgam_base::Result<(Comparison, String)> {
        let archive = ArchiveFolder::open(&self.path("archive").display().to_string())?;
        let place = self.path("backups").display().to_string();
        let mut out = Vec::new();
        let found = compare(&archive, backups.then_some(&*place), &Folder::open(&self.path("db"))?, &mut out)?;
        Ok((found, String::from_utf8(out).unwrap()))
    }

    fn same(&self, backups: bool) -> u64 {
        let (found, text) = self.compare(backups).unwrap();
        assert!(found.is_same() && text.contains("are the same"), "{text}");
        found.same
    }

    /// Changes a byte of a page of the data file; with a right checksum, if wanted.
    fn poke(&self, page: u64, at: usize, seal: bool) {
        let path = self.path("db/data");
        let mut bytes = std::fs::read(&path).unwrap();
        let mut buf = PageBuf::zeroed();
        let place = page as usize * PAGE_SIZE..(page as usize + 1) * PAGE_SIZE;
        buf.as_bytes_mut().copy_from_slice(&bytes[place.clone()]);
        buf.as_bytes_mut()[at] ^= 4;
        if seal {
            buf.seal();
        }
        bytes[place].copy_from_slice(buf.as_bytes());
        std::fs::write(&path, bytes).unwrap();
    }
}

fn place() -> Place {
    Place(tempfile::tempdir().unwrap())
}

/// A page of the table in the middle of the data file.
fn some_page(place: &Place) -> u64 {
    let bytes = std::fs::read(place.path("db/data")).unwrap();
    let pages = bytes.chunks_exact(PAGE_SIZE).enumerate();
    let found = pages.filter(|(_, page)| page.windows(500).any(|part| part == [b'v'; 500])).nth(20);
    found.unwrap().0 as u64
}

/// What is free may be given back; what is in use may not be missing.
#[test]
fn space_that_was_given_back_is_no_difference() {
    let place = place();
    let db = place.open(true);
    // What is free is known then.
    db.finish_recovery().unwrap();
    for name in ["before", "t", "behind"] {
        place.fill(&db, name);
    }
    db.archive_now().unwrap();
    db.checkpoint().unwrap();
    let tx = db.begin(Isolation::ReadCommitted);
    for name in ["before", "behind"] {
        let table = tx.table("public", name).unwrap().unwrap();
        tx.drop_table(&table).unwrap().done().unwrap();
    }
    tx.commit(Durability::Sync).unwrap().wait().unwrap();
    let given = db.clean().unwrap();
    assert!(
        given.bytes_cut + given.bytes_punched > 0,
        "{:?}",
        (given.pages_moved, given.bytes_cut, given.bytes_punched)
    );
    place.fill(&db, "w");
    db.close().unwrap();
    drop(db);
    let (found, text) = place.compare(false).unwrap();
    assert!(found.is_same() && found.given_back > 10 && text.contains("free ones were given back"), "{text}");
    // One that is in use is none of these.
    let page = some_page(&place);
    let path = place.path("db/data");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[page as usize * PAGE_SIZE..(page as usize + 1) * PAGE_SIZE].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let (found, text) = place.compare(false).unwrap();
    assert_eq!((found.different, found.first), (1, Some(PageId(page))), "{text}");
}

#[test]
fn a_byte_that_was_changed_is_found() {
    let place = place();
    let db = place.open(true);
    place.fill(&db, "t");
    db.archive_now().unwrap();
    db.checkpoint().unwrap();
    place.fill(&db, "u");
    // As a crash: pages behind their records, and log that is not archived.
    drop(db);
    assert!(place.same(false) > 100);
    let db = place.open(true);
    place.fill(&db, "w");
    db.close().unwrap();
    drop(db);
    let all = place.same(false);
    let page = some_page(&place);
    for (at, seal, part) in
        [(4000, true, "1 bytes differ, the first at offset 4000"), (4000, false, "cannot be read from the folder")]
    {
        place.poke(page, at, seal);
        let (found, text) = place.compare(false).unwrap();
        assert_eq!((found.different, found.first, found.same), (1, Some(PageId(page)), all - 1), "{text}");
        let start = format!("data, page {page}: ");
        let line = text.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{text}"));
        // The checksum has other bytes as well.
        let said = if seal { line.contains(" bytes differ, ") } else { line.contains(part) };
        assert!(said && text.contains("its records in the archive: ") && text.contains("DIFFER"), "{text}");
        assert!(text.contains(&format!("page {page} (before: ")), "{text}");
        place.poke(page, at, true);
        assert_eq!(place.same(false), all);
    }
    // A page that the device lost, and one that is another's.
    let path = place.path("db/data");
    let bytes = std::fs::read(&path).unwrap();
    for from in [None, Some(page as usize + 1)] {
        let mut wrong = bytes.clone();
        let at = page as usize * PAGE_SIZE;
        match from {
            None => wrong[at..at + PAGE_SIZE].fill(0),
            Some(from) => wrong.copy_within(from * PAGE_SIZE..(from + 1) * PAGE_SIZE, at),
        }
        std::fs::write(&path, wrong).unwrap();
        let (found, text) = place.compare(false).unwrap();
        assert_eq!((found.different, found.first), (1, Some(PageId(page))), "{text}");
    }
}

/// An archive that was begun later, with and without a backup; one of another database; a server that runs.
#[test]
fn what_cannot_be_compared_is_said() {
    let place = place();
    let db = place.open(false);
    place.fill(&db, "t");
    db.close().unwrap();
    drop(db);
    let db = place.open(true);
    place.fill(&db, "u");
    db.archive_now().unwrap();
    assert_eq!(place.compare(false).unwrap_err().kind(), ErrorKind::InUse);
    db.close().unwrap();
    drop(db);
    // Where backups go, there is none yet.
    match place.compare(true) {
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::NotInPrerequisiteState | ErrorKind::Io), "{error}");
        }
        Ok((found, text)) => assert!(!some_log_was_given_up(&place) && found.different == 0, "{text}"),
    }
    if some_log_was_given_up(&place) {
        let error = place.compare(false).unwrap_err();
        assert!(error.kind() == ErrorKind::NotInPrerequisiteState && error.hint().is_some(), "{error}");
    }
    let db = place.open(true);
    db.backup(false, &|| false).unwrap();
    place.fill(&db, "w");
    db.close().unwrap();
    drop(db);
    assert!(place.same(true) > 100);
    let page = some_page(&place);
    place.poke(page, 4000, true);
    let (found, text) = place.compare(true).unwrap();
    assert_eq!((found.different, found.first), (1, Some(PageId(page))), "{text}");
    // Another one's.
    std::fs::remove_dir_all(place.path("db")).unwrap();
    let db = place.open(false);
    db.close().unwrap();
    drop(db);
    assert_eq!(place.compare(true).unwrap_err().kind(), ErrorKind::NotADatabase);
}

/// Whether the archive begins behind the database.
fn some_log_was_given_up(place: &Place) -> bool {
    let mut out = Vec::new();
    ArchiveFolder::open(&place.path("archive").display().to_string()).unwrap().list(&mut out).unwrap();
    !String::from_utf8(out).unwrap().contains(&format!("LSN {} to", 16 << 20))
}

fn checked(dir: &Path) -> (bool, String) {
    let mut out = Vec::new();
    let report = check(&Folder::open(dir).unwrap(), &mut |_| {}, &mut out).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    (report.is_sound(), String::from_utf8(out).unwrap())
}

#[test]
fn a_restore_that_is_not_finished_is_no_damage() {
    let place = place();
    let db = place.open(true);
    place.fill(&db, "t");
    db.archive_now().unwrap();
    db.close().unwrap();
    drop(db);
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let archive = place.path("archive").display().to_string();
    for (name, clone, part) in [("point", false, "restored to a point in time"), ("clone", true, "is a clone")] {
        let target = place.path(name);
        let request = RestoreRequest { whole: false, clone, ..RestoreRequest::new(&*archive, &target) };
        restore_point(&vfs, &request, &mut |_| {}).unwrap();
        let (sound, text) = checked(&target);
        assert!(!sound && text.contains(part) && text.contains("0 of ") && text.contains(&archive), "{text}");
        assert!(text.contains("nothing was checked") && text.lines().count() == 2, "{text}");
        // The same folder is no base for a comparison.
        let archive = ArchiveFolder::open(&archive).unwrap();
        let refused = compare(&archive, None, &Folder::open(&target).unwrap(), &mut Vec::new()).unwrap_err();
        assert!(refused.kind() == ErrorKind::NotInPrerequisiteState && refused.message().contains(part), "{refused}");
    }
    // Finished, it is checked like any other.
    let target = place.path("point");
    let options = Options { background: false, ..Options::default() };
    let db = Database::open_with(Arc::clone(&vfs), &target, options, |_| {}).unwrap();
    db.finish_restore().unwrap();
    db.close().unwrap();
    drop(db);
    let (sound, text) = checked(&target);
    assert!(sound && text.contains("no problems"), "{text}");
    // One that died while it was made.
    let target = place.path("half");
    std::fs::create_dir_all(target.join("log")).unwrap();
    std::fs::write(target.join("restoring"), b"").unwrap();
    let (sound, text) = checked(&target);
    assert!(!sound && text.contains("no database yet") && text.lines().count() == 2, "{text}");
    // What says where it comes from is damaged.
    std::fs::remove_file(target.join("restoring")).unwrap();
    std::fs::write(target.join("restore"), b"Resurgam restore, format 1\n").unwrap();
    let mut out = Vec::new();
    let report = check(&Folder::open(&target).unwrap(), &mut |_| {}, &mut out).unwrap();
    assert!(report.damaged == 1 && !report.is_sound(), "{report:?}");
}

/// A clone of a clone, without a backup: it begins with the pages of those that it was made of. A backup is made of them, too, and is as good as those that it stands for.
#[test]
fn a_clone_of_a_clone() {
    let place = place();
    let db = place.open(true);
    place.fill(&db, "t");
    db.archive_now().unwrap();
    db.close().unwrap();
    drop(db);
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let text = |name: &str| place.path(name).display().to_string();
    for (name, of) in [("a", "archive"), ("b", "a-archive")] {
        let request = RestoreRequest { whole: false, ..RestoreRequest::new(text(of), place.path(name)) };
        restore_point(&vfs, &request, &mut |_| {}).unwrap();
        let options = Options { archive: Some(text(&format!("{name}-archive"))), backups: None, ..place.options(true) };
        let options = Options { version_store_path: None, ..options };
        let db = Database::open_with(Arc::clone(&vfs), &place.path(name), options, |_| {}).unwrap();
        place.fill(&db, &format!("of_{name}"));
        db.archive_now().unwrap();
        db.finish_restore().unwrap();
        db.close().unwrap();
    }
    let compare_b = |backups: Option<&str>| {
        let archive = ArchiveFolder::open(&text("b-archive"))?;
        let mut out = Vec::new();
        let found = compare(&archive, backups, &Folder::open(&place.path("b"))?, &mut out)?;
        Ok((found, String::from_utf8(out).unwrap()))
    };
    let same = |backups: Option<&str>, from: &str| {
        let (found, said): (Comparison, String) = compare_b(backups).unwrap_or_else(|error: Error| panic!("{error}"));
        assert!(found.is_same() && said.contains(from), "{said}");
        found.same
    };
    let count = same(None, "the database that it was made of and the archive");
    assert!(count > 150, "{count} pages");
    let mut said = Vec::new();
    assert!(make_backup(&text("b-archive"), &text("b-backups"), &mut said).unwrap());
    assert!(String::from_utf8(said).unwrap().contains("from the database that it was made of"));
    // The boot page as well.
    assert_eq!(same(Some(&text("b-backups")), "backup "), count + 1);
    // A page that no record of its own archive is of.
    let data = place.path("b/data");
    let mut bytes = std::fs::read(&data).unwrap();
    let view_of = |bytes: &[u8], page: usize| bytes[page * PAGE_SIZE..(page + 1) * PAGE_SIZE].to_vec();
    let is_leaf = |page: &usize| view_of(&bytes, *page).iter().filter(|byte| **byte == b'v').count() > 4000;
    let page = (1..bytes.len() / PAGE_SIZE).find(is_leaf).unwrap();
    bytes[page * PAGE_SIZE + 8100] ^= 4;
    let mut buf = PageBuf::zeroed();
    buf.as_bytes_mut().copy_from_slice(&view_of(&bytes, page));
    buf.seal();
    bytes[page * PAGE_SIZE..(page + 1) * PAGE_SIZE].copy_from_slice(buf.as_bytes());
    std::fs::write(&data, bytes).unwrap();
    let (found, said) = compare_b(None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((found.different, found.first), (1, Some(PageId(page as u64))), "{said}");
    // What it takes is named where it is away.
    std::fs::rename(place.path("archive"), place.path("away")).unwrap();
    for error in [
        compare_b(None).map(drop).unwrap_err(),
        make_backup(&text("b-archive"), &text("more-backups"), &mut Vec::new()).unwrap_err(),
    ] {
        assert!(error.message().contains(&text("archive")) && error.hint().is_some(), "{error}");
    }
}
