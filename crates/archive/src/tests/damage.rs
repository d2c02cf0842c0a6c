//! Every single bit of a run and of a manifest.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, PageId};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use super::support::{DATABASE, Logged, open, store_on};
use crate::{Archive, History, Manifest, verify};

fn archived(sim: &SimVfs) -> (Logged, String, String) {
    let history = Logged::random(2, 25, 5);
    let store = store_on(sim);
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |_, _| Ok(true)).unwrap();
    archiver.seal().unwrap();
    let view = archiver.archive().view();
    let run = view.manifest().runs[0].id.name();
    (history, run, Manifest::name_of(view.manifest().number))
}

fn bits(sim: &SimVfs, name: &str) -> u64 {
    sim.open(&Path::new("archive").join(name), OpenMode::ReadOnly).unwrap().len().unwrap() * 8
}

fn named(error: &Error, file: &str) {
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NewerFormat), "{error:?}");
    assert!(error.message().contains(file) || error.kind() == ErrorKind::NewerFormat, "{error}");
}

#[test]
fn a_flipped_bit_of_a_run_is_named_and_never_served() {
    let sim = SimVfs::new(1);
    let (history, run, _) = archived(&sim);
    let path = Path::new("archive").join(&run);
    let pages: Vec<PageId> = history.pages.keys().copied().collect();
    for bit in 0..bits(&sim, &run) {
        sim.flip_bit(&path, bit).unwrap();
        let store = store_on(&sim);
        let report = verify(Arc::clone(&store), Some(DATABASE)).unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains(&run)), "bit {bit}: {report}");
        // What is read one by one is right or an error.
        let view = Archive::open_view(store, Some(DATABASE)).unwrap().unwrap();
        let to = Lsn(view.end().0 - 1);
        let page = pages[bit as usize % pages.len()];
        match view.records_of(page, Lsn::NONE, to, History::All) {
            Ok(records) => assert_eq!(records, history.of(page, Lsn::NONE, to), "bit {bit}"),
            Err(error) => named(&error, &run),
        }
        sim.flip_bit(&path, bit).unwrap();
    }
    assert!(verify(store_on(&sim), None).unwrap().problems.is_empty());
}

#[test]
fn a_flipped_bit_of_the_manifest_is_named() {
    let sim = SimVfs::new(1);
    let (_, _, manifest) = archived(&sim);
    let path = Path::new("archive").join(&manifest);
    for bit in 0..bits(&sim, &manifest) {
        sim.flip_bit(&path, bit).unwrap();
        let error = Archive::open_view(store_on(&sim), Some(DATABASE)).err().unwrap();
        named(&error, &manifest);
        named(&open(&store_on(&sim), 3).err().unwrap(), &manifest);
        sim.flip_bit(&path, bit).unwrap();
    }
    open(&store_on(&sim), 3).unwrap();
}

#[test]
fn a_file_that_is_cut_missing_or_in_anothers_place() {
    let sim = SimVfs::new(1);
    let (history, run, _) = archived(&sim);
    let path = Path::new("archive").join(&run);
    let len = bits(&sim, &run) / 8;
    for cut in (0..len).step_by(7) {
        let sim = sim.fork(1);
        sim.open(&path, OpenMode::ReadWrite).unwrap().set_len(cut).unwrap();
        let report = verify(store_on(&sim), None).unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains(&run)), "{report}");
    }
    let gone = sim.fork(1);
    gone.remove(&path).unwrap();
    assert!(verify(store_on(&gone), None).unwrap().problems[0].contains(&run));

    // The run of the same range of another database.
    let other = SimVfs::new(2);
    let store = store_on(&other);
    let mut archiver =
        crate::Archiver::new(Archive::open(Arc::clone(&store), [9; 16], 5).unwrap(), super::support::small());
    history.feed(&mut archiver, |_, _| Ok(true)).unwrap();
    archiver.seal().unwrap();
    assert_eq!(Archive::open(store, DATABASE, 6).err().unwrap().kind(), ErrorKind::NotADatabase);
    let its = Path::new("archive").join(archiver.archive().view().manifest().runs[0].id.name());
    let source = other.open(&its, OpenMode::ReadOnly).unwrap();
    let mut bytes = vec![0; source.len().unwrap() as usize];
    source.read_exact_at(&mut bytes, 0).unwrap();
    sim.remove(&path).unwrap();
    sim.open(&path, OpenMode::CreateNew).unwrap().write_at(&bytes, 0).unwrap();
    assert!(verify(store_on(&sim), None).unwrap().problems[0].contains(&run));
}
