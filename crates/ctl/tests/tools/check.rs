//! The checker: sound folders are sound, clean or crashed; planted damage is found, and named.

use crate::common::*;
use resurgam_base::{ObjectId, PageId, SlotId};
use resurgam_ctl::{Severity, inspect_catalog};
use resurgam_engine::{
    CatalogObject, ColumnOrder, Database, DatumRef, Deferral, IndexSpec, Isolation, ObjectKind, Options, Seen,
    VersionCaps,
};
use resurgam_page::{LeafBuilder, PageBuf, PageType, leaf, space};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};
use std::path::Path;
use std::sync::Arc;

fn page(vfs: &SimVfs, id: u64) -> PageBuf {
    let file = vfs.open(&Path::new(DIR).join("data"), OpenMode::ReadOnly).unwrap();
    let mut page = PageBuf::zeroed();
    file.read_exact_at(page.as_bytes_mut(), id * 8192).unwrap();
    page
}

fn put(vfs: &SimVfs, id: u64, mut page: PageBuf) {
    page.seal();
    poke(vfs, "data", id * 8192, page.as_bytes());
}

/// First page for which `wanted` holds.
fn find(vfs: &SimVfs, wanted: impl Fn(&PageBuf) -> bool) -> u64 {
    let pages = vfs.open(&Path::new(DIR).join("data"), OpenMode::ReadOnly).unwrap().len().unwrap() / 8192;
    (1..pages).find(|id| wanted(&page(vfs, *id))).unwrap()
}

#[test]
fn a_small_clean_database_is_sound() {
    let (report, text) = checked(&small(1));
    assert!(report.problems.is_empty(), "{text}");
    assert_eq!((report.counts.tables, report.counts.rows, report.counts.trees), (1, 2, 5), "{text}");
    assert!(text.ends_with("no problems\n"), "{text}");
    // Three rows (one is deleted) name who wrote them, in eight bytes; two have an earlier version besides.
    assert!((3 * 8 + 2..3 * 8 + 2 * 20).contains(&report.counts.version_bytes_in_rows), "{text}");
}

#[test]
fn a_busy_database_is_sound_when_closed_killed_crashed_and_recovered() {
    let (vfs, db) = busy(2, 1500);
    let (report, text) = checked(&vfs.fork(1));
    assert!(report.problems.is_empty(), "{text}");
    assert!(report.counts.pages_to_redo > 50 && report.counts.versions > 20 && report.counts.values == 29, "{text}");
    // A writer's tag of eight bytes at least in each row that was written.
    assert!(report.counts.version_bytes_in_rows >= 8 * 1500, "{text}");
    assert_eq!((report.counts.tables, report.counts.rows), (2, 1500 + 30), "{text}");
    assert!(report.counts.awaiting_cleaner >= 6, "{text}");

    for seed in 0..20 {
        let crashed = vfs.crash_clone(seed);
        let (report, text) = checked(&crashed);
        assert!(report.problems.is_empty(), "seed {seed}: {text}");
        assert_eq!(report.counts.rows, 1530, "seed {seed}: {text}");
        let reopened = open(&crashed);
        reopened.finish_recovery().unwrap();
        for _ in 0..3 {
            reopened.clean().unwrap();
        }
        reopened.close().unwrap();
        let (report, text) = checked(&crashed);
        assert!(report.problems.is_empty(), "seed {seed}, cleaned: {text}");
        assert_eq!((report.counts.rows, report.counts.awaiting_cleaner), (1530, 0), "seed {seed}: {text}");
        assert_eq!(report.counts.version_bytes_in_rows, 0, "seed {seed}, cleaned: {text}");
    }
    db.close().unwrap();
    let (report, text) = checked(&vfs);
    assert!(report.problems.is_empty(), "{text}");
    assert_eq!(report.counts.pages_to_redo, 0, "{text}");
}

#[test]
fn nothing_is_written() {
    let (vfs, _db) = busy(3, 300);
    let vfs = vfs.fork(1);
    let before = vfs.stats();
    checked(&vfs);
    let after = vfs.stats();
    assert_eq!((before.writes, before.syncs), (after.writes, after.syncs));
    assert!(!vfs.exists(&Path::new(DIR).join("lock2")).unwrap());
}

/// Damages a closed database and returns the problems in words.
fn damage(rows: i32, change: impl FnOnce(&SimVfs)) -> Vec<String> {
    let (vfs, db) = busy(4, rows);
    db.close().unwrap();
    drop(db);
    // Nothing is repaired from there.
    poke(&vfs, "doublewrite", 0, &[0; 4096]);
    change(&vfs);
    let (report, text) = checked(&vfs);
    assert!(!report.problems.is_empty(), "{text}");
    report.problems.iter().map(ToString::to_string).collect()
}

fn expect(problems: &[String], what: &[&str]) {
    for what in what {
        assert!(problems.iter().any(|p| p.contains(what)), "{what:?} is not in {problems:#?}");
    }
}

#[test]
fn a_flipped_bit_is_named_with_its_page() {
    let mut at = 0;
    let found = damage(300, |vfs| {
        at = find(vfs, |p| p.is(PageType::Leaf) && p.slot_count() > 3);
        vfs.flip_bit(&Path::new(DIR).join("data"), (at * 8192 + 5000) * 8 + 3).unwrap();
    });
    expect(&found, &[&format!("DAMAGE data, page {at}: page {at} has checksum")]);
    assert_eq!(found.iter().filter(|p| p.contains("has checksum")).count(), 1, "{found:#?}");
}

/// What the checker has found heals as what a reader meets does: by being read, in a database with an archive. The checker finds nothing then.
#[test]
fn a_page_that_was_found_damaged_heals() {
    let vfs = SimVfs::new(12);
    vfs.make_folder(Path::new("/archive")).unwrap();
    let open = || {
        let options = Options { archive: Some("/archive".into()), ..options() };
        Database::open_with(Arc::new(vfs.clone()), Path::new(DIR), options, |_| {}).unwrap()
    };
    let db = open();
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(people()).unwrap().done().unwrap();
    for id in 0..300 {
        tx.insert(&table, &person(id, &format!("person {id}"))).unwrap().done().unwrap();
    }
    commit(tx);
    db.archive_now().unwrap();
    db.close().unwrap();
    drop(db);
    assert!(checked(&vfs).0.is_sound());
    let at = find(&vfs, |p| p.is(PageType::Leaf) && p.slot_count() > 3);
    poke(&vfs, "data", at * 8192 + 100, &[0xEE; 4000]);
    let (report, text) = checked(&vfs);
    assert!(!report.is_sound() && text.contains(&format!("page {at}")), "{text}");
    let db = open();
    assert_eq!(db.verify().unwrap(), Vec::<String>::new());
    assert_eq!(db.stats().pool.repaired_pages, 1);
    db.close().unwrap();
    drop(db);
    let (report, text) = checked(&vfs);
    assert!(report.is_sound(), "{text}");
}

#[test]
fn a_key_out_of_order_and_a_wrong_fence() {
    let found = damage(1500, |vfs| {
        let at = find(vfs, |p| p.is(PageType::Leaf) && p.slot_count() > 3 && !p.lower_fence().is_empty());
        let mut p = page(vfs, at);
        let (first, second) = (p.rec(SlotId(0)).to_vec(), p.rec(SlotId(1)).to_vec());
        p.remove_many(SlotId(0), 2).unwrap();
        p.insert(SlotId(0), &second).unwrap();
        p.insert(SlotId(1), &first).unwrap();
        put(vfs, at, p);
        let other = find(vfs, |p| p.is(PageType::Leaf) && p.upper_fence().is_some() && p.page_id() != PageId(at));
        let mut p = page(vfs, other);
        p.set_upper_fence(None).unwrap();
        put(vfs, other, p);
    });
    expect(&found, &["slot 1: key is not above the one before", "its upper fence is not its parent's next separator"]);
}

#[test]
fn a_page_reached_twice_and_a_lost_one() {
    let found = damage(1500, |vfs| {
        let at = find(vfs, |p| p.is(PageType::Inner) && p.slot_count() > 3);
        let mut p = page(vfs, at);
        let wrong = resurgam_page::inner::child_of(p.rec(SlotId(0)));
        let key = resurgam_page::inner::key_of(p.rec(SlotId(1))).to_vec();
        p.replace(SlotId(1), &resurgam_page::inner::encode(&key, wrong)).unwrap();
        put(vfs, at, p);
    });
    expect(&found, &["which belongs to something else as well", "which does not lead to it", "is a child twice"]);
}

#[test]
fn space_map_entries() {
    let mut leaf_at = 0;
    let found = damage(300, |vfs| {
        leaf_at = find(vfs, |p| p.is(PageType::Leaf) && p.object() > ObjectId(16384));
        let mut p = page(vfs, 1);
        let (_, extent) = space::extent_of(PageId(find(vfs, |p| p.is(PageType::Overflow))));
        p.as_bytes_mut()[space::owner_offset(extent)] = 77;
        // A page that nothing owns.
        let free = (1..5120)
            .find(|at| space::pfs(&p, PageId(*at)) == 0 && space::owner(&p, space::extent_of(PageId(*at)).1).0 > 16384)
            .unwrap();
        p.as_bytes_mut()[space::pfs_offset(PageId(free))] = 1;
        p.as_bytes_mut()[space::pfs_offset(PageId(leaf_at))] = 0;
        put(vfs, 1, p);
    });
    expect(
        &found,
        &[&format!("leads to page {leaf_at}, which is free"), "its extent belongs to object 77", "is all zero"],
    );
}

#[test]
fn a_broken_large_value() {
    let mut chain = 0;
    let found = damage(1500, |vfs| {
        chain = find(vfs, |p| p.is(PageType::Overflow) && resurgam_page::overflow::read(p).unwrap().0.is_some());
        let mut p = page(vfs, chain);
        p.as_bytes_mut()[64..72].copy_from_slice(&chain.to_le_bytes());
        put(vfs, chain, p);
    });
    expect(
        &found,
        &[
            "large value that starts on page",
            &format!("it leads to page {chain}, which belongs to something else as well"),
        ],
    );
}

#[test]
fn rows_that_cannot_be_read() {
    let found = damage(300, |vfs| {
        let at =
            find(vfs, |p| p.is(PageType::Leaf) && p.object() == ObjectId(16384 + 1) || p.object() == ObjectId(16384));
        let mut p = page(vfs, at);
        let key = leaf::key_of(p.rec(SlotId(0))).to_vec();
        p.replace(SlotId(0), &LeafBuilder::plain(&key, &[9, 0, 1]).encode().unwrap()).unwrap();
        put(vfs, at, p);
    });
    expect(&found, &["table public.people: row: stores 9 columns"]);
}

/// Entries of an index whose columns descend, with NULLs at either end: sound as they are, and read back whole.
#[test]
fn an_index_of_any_order() {
    let vfs = SimVfs::new(9);
    let db = open(&vfs);
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(people()).unwrap().done().unwrap();
    for id in 0..300 {
        let name = format!("name {id}");
        let born = if id % 5 == 0 { DatumRef::Null } else { DatumRef::Date(id) };
        tx.insert(&table, &[DatumRef::Int4(id), DatumRef::Text(&name), born]).unwrap().done().unwrap();
    }
    let orders = vec![ColumnOrder { descending: true, nulls_first: false }, ColumnOrder::DESCENDING];
    let spec = IndexSpec {
        name: "down".into(),
        columns: vec![2, 1],
        orders,
        unique: false,
        constraint: false,
        nulls_alike: false,
        deferral: Deferral::Never,
    };
    tx.create_index(&table, spec).unwrap().done().unwrap();
    commit(tx);
    db.close().unwrap();
    let (report, text) = checked(&vfs);
    assert!(report.problems.is_empty() && report.counts.index_entries == 900, "{text}");
    let mut printed = Vec::new();
    inspect_catalog(&folder(&vfs), &mut printed).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let line = printed.split("index down (born DESC NULLS LAST, name DESC)  id ").nth(1).expect("the index");
    let object = ObjectId(line.split_whitespace().nth(2).and_then(|word| word.parse().ok()).expect("its object"));

    // A marker that is none in this order, as it is in another.
    let at = find(&vfs, |p| p.is(PageType::Leaf) && p.object() == object && p.slot_count() > 0);
    let mut p = page(&vfs, at);
    let mut entry = leaf::key_of(p.rec(SlotId(0))).to_vec();
    assert_eq!(entry[0], !1, "a value whose bytes are inverted");
    entry[0] = !2;
    p.replace(SlotId(0), &LeafBuilder::plain(&entry, &[]).encode().unwrap()).unwrap();
    put(&vfs, at, p);
    let (report, text) = checked(&vfs);
    let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    expect(&found, &["unknown marker at byte 0"]);
    assert!(report.damaged > 0, "{text}");
}

#[test]
fn a_pointer_to_a_version_that_is_not_there() {
    // Only a row whose newest version is aborted needs its earlier ones.
    let (vfs, db) = busy(5, 1500);
    let vfs = {
        let copy = vfs.fork(1);
        drop(db);
        copy
    };
    let db = open(&vfs);
    db.finish_recovery().unwrap();
    db.close().unwrap();
    drop(db);
    let (report, text) = checked(&vfs);
    assert!(report.problems.is_empty(), "{text}");
    let mut emptied = 0;
    for id in 1..report.counts.pages + 50 {
        let mut p = page(&vfs, id);
        if p.is(PageType::Version) {
            p.truncate_from(SlotId(0)).unwrap();
            put(&vfs, id, p);
            emptied += 1;
        }
    }
    let (report, text) = checked(&vfs);
    assert!(emptied > 2, "{emptied}");
    let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    expect(&found, &["table public.people: version on page", "there is no such slot"]);
    // Committed rows do not need theirs: far fewer problems than versions.
    assert!(report.damaged > 5 && report.damaged < 60, "{text}");
}

#[test]
fn one_copy_of_the_control_file_may_be_lost() {
    let vfs = small(7);
    for copy in 0..2 {
        let vfs = vfs.fork(copy);
        poke(&vfs, "control", copy * 4096 + 8, &[0xff; 8]);
        let (report, text) = checked(&vfs);
        assert!(report.problems.is_empty(), "{text}");
        assert!(text.contains(&format!("copy {copy} DAMAGED: checksum")), "{text}");
    }
}

#[test]
fn a_torn_page_is_taken_from_the_double_write_area() {
    let (vfs, db) = busy(8, 300);
    db.close().unwrap();
    let at = find(&vfs, |p| p.is(PageType::Leaf) && p.slot_count() > 3);
    poke(&vfs, "data", at * 8192 + 4096, &[0x77; 4096]);
    let (report, text) = checked(&vfs);
    assert!(report.problems.is_empty(), "{text}");
    assert!(text.contains(&format!("note: page {at} is damaged in the data file")), "{text}");
}

#[test]
fn both_control_copies_gone() {
    let found = damage(300, |vfs| {
        poke(vfs, "control", 8, &[0xff; 8]);
        poke(vfs, "control", 4096 + 8, &[0xff; 8]);
    });
    expect(&found, &["DAMAGE control: neither copy is intact"]);
}

#[test]
fn a_hole_in_the_log() {
    let (vfs, db) = busy(6, 300);
    let vfs = {
        let copy = vfs.fork(1);
        drop(db);
        copy
    };
    // In the middle of what was synced since the checkpoint.
    let name = vfs.list(&Path::new(DIR).join("log")).unwrap().remove(0);
    let (sound, _) = checked(&vfs);
    assert!(sound.problems.is_empty());
    for sector in (0..2048u64).rev() {
        let copy = vfs.fork(sector);
        poke(&copy, &format!("log/{name}"), sector * 512 + 60, &[0x5a; 32]);
        let (report, text) = checked(&copy);
        if report.problems.iter().any(|p| p.to_string().contains("had been durable up to LSN")) {
            assert!(report.problems.iter().all(|p| p.severity == Severity::Damage), "{text}");
            return;
        }
    }
    panic!("no damage of the log was noticed as a hole");
}

/// A database with its version store in a file of its own, on which all rows depend.
fn with_version_file() -> SimVfs {
    let vfs = SimVfs::new(5);
    vfs.make_folder(Path::new("/disk2")).unwrap();
    let options = Options {
        version_store_path: Some("/disk2/versions".into()),
        versions: VersionCaps { in_row: false, ..VersionCaps::default() },
        ..options()
    };
    let db = Database::open_with(Arc::new(vfs.clone()), Path::new(DIR), options, |_| {}).unwrap();
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(people()).unwrap().done().unwrap();
    let names: Vec<String> = (0..200).map(|id| format!("{id} {}", "n".repeat(300))).collect();
    for id in 0..200 {
        tx.insert(&table, &person(id, &names[id as usize])).unwrap().done().unwrap();
    }
    commit(tx);
    let tx = db.begin(Isolation::ReadCommitted);
    for id in 0..200 {
        let mut key = Vec::new();
        table.encode_key(&[DatumRef::Int4(id)], &mut key).unwrap();
        let row = person(id + 1000, &names[id as usize]);
        let row = [DatumRef::Int4(id), row[1], row[2]];
        tx.update(&table, &key, Seen::Snapshot, &row).unwrap().done().unwrap();
    }
    db.checkpoint().unwrap();
    while db.write_back().unwrap() > 0 {}
    std::mem::forget(tx);
    // Again, since the checkpoint knows what was not written then.
    let db = {
        let vfs = vfs.kill();
        let db = open(&vfs);
        db.finish_recovery().unwrap();
        db.close().unwrap();
        vfs
    };
    poke(&db, "doublewrite", 0, &[0; 4096]);
    db
}

#[test]
fn a_version_store_in_its_own_file() {
    const FILE: &str = "/disk2/versions";
    let vfs = with_version_file();
    let (report, text) = checked(&vfs);
    assert_eq!((report.damaged, report.leaked), (0, 0), "{text}");
    assert!(report.counts.versions >= 200, "{text}");
    let mut out = Vec::new();
    resurgam_ctl::inspect_boot(&folder(&vfs), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("version store: \"/disk2/versions\", number 1"), "{text}");
    let page = PageId::of_file(1, 2);
    let mut out = Vec::new();
    resurgam_ctl::inspect_page(&folder(&vfs), page, 1, Default::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.contains("version store file, page 1099511627778 at byte 16384") && text.contains("Version"),
        "{text}"
    );

    let problems = |vfs: &SimVfs| checked(vfs).1;
    vfs.flip_bit(Path::new(FILE), (2 * 8192 + 100) * 8).unwrap();
    let text = problems(&vfs);
    assert!(text.contains("version store") && text.contains("1099511627778") && text.contains("checksum"), "{text}");
    vfs.flip_bit(Path::new(FILE), (2 * 8192 + 100) * 8).unwrap();
    vfs.flip_bit(Path::new(FILE), 170).unwrap();
    assert!(problems(&vfs).contains("wrong checksum"));
    vfs.flip_bit(Path::new(FILE), 170).unwrap();
    vfs.flip_bit(&Path::new(DIR).join("version-store"), 290).unwrap();
    assert!(problems(&vfs).contains("version-store"));
    vfs.flip_bit(&Path::new(DIR).join("version-store"), 290).unwrap();
    vfs.remove(Path::new(FILE)).unwrap();
    let text = problems(&vfs);
    assert!(text.contains("\"/disk2/versions\" is missing"), "{text}");
}

/// Views, sequences and other objects have no trees: they are no damage, and nothing of theirs is looked for.
#[test]
fn entries_without_rows_are_sound() {
    let vfs = small(31);
    let db = open(&vfs);
    let tx = db.begin(Isolation::ReadCommitted);
    let sequence = resurgam_engine::Sequence {
        width: 8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 1,
        cycle: false,
        values: 0,
        begin: 1,
        begin_called: false,
        owner: None,
    };
    for name in ["s1", "s2"] {
        tx.create_sequence("public", name, sequence.clone()).unwrap().done().unwrap();
    }
    for kind in [ObjectKind::ROLE, ObjectKind::SCHEMA] {
        tx.create_object("", "people", CatalogObject::new(kind, vec![1, 2, 3])).unwrap().done().unwrap();
    }
    commit(tx);
    db.close().unwrap();
    let (report, text) = checked(&vfs);
    assert!(report.problems.is_empty(), "{text}");
    assert_eq!((report.counts.tables, report.counts.trees), (1, 5), "{text}");
    let mut out = Vec::new();
    inspect_catalog(&folder(&vfs), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("object of kind 2 .people") && !text.contains("PROBLEM"), "{text}");
}
