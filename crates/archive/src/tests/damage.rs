//! Every single bit of a run and of a manifest; bytes that are overwritten, also with checksums that are right then.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, checksum_append};
use resurgam_log::OwnedRecord;
use resurgam_page::{PageBuf, op};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use super::making::sealed;
use super::support::{DATABASE, Logged, Rng, open, small, store_on};
use crate::format::{HEADER_BYTES, RunId, TRAILER_BYTES, Trailer};
use crate::frame::FRAME_HEADER_BYTES;
use crate::{Archive, History, Manifest, MergePolicy, PageBase, PageMaker, View, verify};

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

/// One run that merges have made of several, with images and with pages that begin anew in the middle.
fn merged(sim: &SimVfs) -> (Logged, String) {
    let history = Logged::random(3, 25, 4);
    let store = store_on(sim);
    let mut archiver = open(&store, 1).unwrap();
    let mut base = |page: PageId, lsn: Lsn| -> Result<Option<PageBuf>> { Ok(Some(history.page_at(page, lsn))) };
    let mut merge = |archiver: &crate::Archiver| -> Result<()> {
        let mut policy =
            MergePolicy { retention: Lsn::NONE, records_per_page_max: 3, base: Some(&mut base), rest: None };
        while archiver.archive().merge(&small(), &mut policy)?.is_some() {}
        Ok(())
    };
    history
        .feed(&mut archiver, |archiver, _| {
            archiver.seal()?;
            merge(archiver)?;
            Ok(true)
        })
        .unwrap();
    let view = archiver.archive().view();
    let largest = view.manifest().runs.iter().max_by_key(|run| run.id.level).unwrap();
    assert!(largest.id.level > 0);
    (history, largest.id.name())
}

/// A run's bytes, to be written over.
struct Target<'a> {
    sim: &'a SimVfs,
    run: &'a str,
    bytes: Vec<u8>,
}

impl<'a> Target<'a> {
    fn of(sim: &'a SimVfs, run: &'a str) -> Self {
        let file = sim.open(&Path::new("archive").join(run), OpenMode::ReadOnly).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        Self { sim, run, bytes }
    }

    /// With these bytes in place of what is there, `read` is run; then all is as before.
    fn with(&self, at: usize, new: &[u8], read: impl FnOnce()) {
        let new = &new[..new.len().min(self.bytes.len() - at)];
        let old = &self.bytes[at..at + new.len()];
        if old == new {
            return;
        }
        let file = self.sim.open(&Path::new("archive").join(self.run), OpenMode::ReadWrite).unwrap();
        file.write_at(new, at as u64).unwrap();
        read();
        file.write_at(old, at as u64).unwrap();
    }

    /// Where each frame begins, and how long it is.
    fn frames(&self) -> Vec<(usize, usize)> {
        let trailer = self.bytes[self.bytes.len() - TRAILER_BYTES..].first_chunk().unwrap();
        let (trailer, _) = Trailer::decode(trailer, self.bytes.len() as u64).unwrap();
        let (mut at, mut frames) = (HEADER_BYTES, Vec::new());
        while at < trailer.at as usize {
            let stored = u32::from_le_bytes(*self.bytes[at + 8..].first_chunk().unwrap());
            frames.push((at, FRAME_HEADER_BYTES + stored as usize));
            at += frames[frames.len() - 1].1;
        }
        frames
    }
}

/// All records of pages that the archive has.
fn everything(view: &Arc<View>) -> Result<Vec<OwnedRecord>> {
    let to = Lsn(view.end().0 - 1);
    let mut scan = view.scan(PageId::NONE..PageId(u64::MAX), Lsn::NONE, to, History::All)?;
    let mut found = Vec::new();
    while scan.next_page()?.is_some() {
        while let Some(record) = scan.next_record()? {
            found.push(record.to_owned());
        }
    }
    Ok(found)
}

/// All that can be asked of the archive, in which `all` is what it has: what is said of what is not right, a wrong answer rather than an
/// error.
fn ask(sim: &SimVfs, history: &Logged, all: &[OwnedRecord]) -> Option<String> {
    let told = |e: Error| e.to_string();
    let view = match Archive::open_view(store_on(sim), Some(DATABASE)) {
        Ok(view) => view.unwrap(),
        Err(error) => return Some(told(error)),
    };
    let to = Lsn(view.end().0 - 1);
    let mut said = Vec::new();
    match everything(&view) {
        Ok(found) if found == all => {}
        Ok(_) => said.push("other records are found".to_owned()),
        Err(error) => said.push(told(error)),
    }
    for page in history.pages.keys() {
        match view.records_of(*page, Lsn::NONE, to, History::SinceAnew) {
            // Where it is not what the log has, it must not be taken for it.
            Ok(records) => {
                let mut made = PageBuf::zeroed();
                let applied = records.iter().try_for_each(|r| op::apply(&mut made, *page, &r.body, r.lsn));
                if applied.is_err() || made.as_bytes() != history.page_at(*page, to).as_bytes() {
                    said.push(format!("page {page} has other records"));
                }
            }
            Err(error) => said.push(told(error)),
        }
        match view.last_lsn(*page) {
            Ok(last) if last == history.page_at(*page, to).lsn() => {}
            Ok(last) => said.push(format!("page {page} ends at {last}")),
            Err(error) => said.push(told(error)),
        }
    }
    said.extend(history.compare_stream(&view).err());
    let base = PageBase::new(None, &view, view.start());
    match base.and_then(|base| PageMaker::new(base, Arc::clone(&view), to)) {
        Err(error) => said.push(told(error)),
        Ok(maker) => {
            for first in [PageId(0), PageId::of_file(2, 0)] {
                let mut pages: Vec<PageBuf> = (0..8).map(|_| PageBuf::zeroed()).collect();
                match maker.make(first, &mut pages) {
                    Err(error) => said.push(told(error)),
                    Ok(_) => said.extend((1..8).zip(&pages[1..]).find_map(|(n, made)| {
                        let page = PageId(first.0 + n);
                        let wrong = made.as_bytes() != sealed(history, page, to).as_bytes();
                        wrong.then(|| format!("page {page} is made wrong"))
                    })),
                }
            }
        }
    }
    let wrong = said.iter().position(|what| !what.contains("runs/")).unwrap_or(0);
    (!said.is_empty()).then(|| said.swap_remove(wrong))
}

/// Bytes that are overwritten, at every place of a run and of a merged one: one, several, a stretch that was never written, one that
/// belongs elsewhere.
#[test]
fn overwritten_bytes_are_named_and_never_served() {
    let (plain, merges) = (SimVfs::new(1), SimVfs::new(2));
    let ((first, run, _), (second, large)) = (archived(&plain), merged(&merges));
    for (sim, history, run) in [(&plain, &first, &run), (&merges, &second, &large)] {
        let all = everything(&Archive::open_view(store_on(sim), Some(DATABASE)).unwrap().unwrap()).unwrap();
        assert_eq!(ask(sim, history, &all), None);
        let target = Target::of(sim, run);
        let mut rng = Rng(9);
        let (mut tried, mut errors) = (0, 0);
        let len = target.bytes.len();
        for at in 0..len {
            let random: Vec<u8> = (0..8).map(|_| rng.next() as u8).collect();
            let from = rng.below((len - 32) as u64) as usize;
            let elsewhere = &target.bytes[from..from + 32];
            let patterns = [&[0][..], &random, &[0; 200], &[0xff], elsewhere];
            for new in [patterns[at % 5], patterns[(at + 1) % 5]] {
                target.with(at, new, || {
                    let said = ask(sim, history, &all);
                    tried += 1;
                    errors += u32::from(said.is_some());
                    assert!(said.as_ref().is_none_or(|said| said.contains(run)), "byte {at}: {said:?}");
                });
            }
        }
        assert!(tried > len && errors as usize > tried * 9 / 10, "{errors} of {tried}, {len} bytes");
        assert_eq!(ask(sim, history, &all), None, "as it was");
    }
}

/// The same with checksums that are right: what nothing that stores bytes can do, but a program with a bug. Whatever is said then, it is said
/// in bounded time, without a panic.
#[test]
fn bytes_that_are_wrong_under_a_right_checksum_do_no_harm() {
    let (plain, merges) = (SimVfs::new(1), SimVfs::new(2));
    let ((first, run, _), (second, large)) = (archived(&plain), merged(&merges));
    for (sim, history, run) in [(&plain, &first, &run), (&merges, &second, &large)] {
        let target = Target::of(sim, run);
        let (_, seed) = RunId::decode(target.bytes.first_chunk().unwrap()).unwrap();
        let all = everything(&Archive::open_view(store_on(sim), Some(DATABASE)).unwrap().unwrap()).unwrap();
        let (mut right, mut errors) = (0, 0);
        for (offset, len) in target.frames() {
            for at in (0..len).filter(|at| !(16..20).contains(at)) {
                let old = target.bytes[offset + at];
                let values = [old ^ 1, 0xff, old.wrapping_add(1), old ^ 0x80, 0];
                for new in [values[at % 5], values[(at + 2) % 5]] {
                    let mut frame = target.bytes[offset..offset + len].to_vec();
                    frame[at] = new;
                    // Of so many bytes as it says that it has.
                    let stored = u32::from_le_bytes(*frame[8..].first_chunk().unwrap()) as usize;
                    let whole = &target.bytes[offset..];
                    let mut summed = frame.clone();
                    let end = (FRAME_HEADER_BYTES + stored).min(whole.len());
                    summed.resize(end, 0);
                    if end > len {
                        summed[len..].copy_from_slice(&whole[len..end]);
                    }
                    summed[16..20].fill(0);
                    let crc = checksum_append(checksum_append(seed, &(offset as u64).to_le_bytes()), &summed);
                    frame[16..20].copy_from_slice(&crc.to_le_bytes());
                    target.with(offset, &frame, || {
                        let said = ask(sim, history, &all);
                        right += u32::from(said.is_none());
                        errors += u32::from(said.is_some());
                        let _ = verify(store_on(sim), Some(DATABASE));
                    });
                }
            }
        }
        eprintln!("{run}: {errors} were noticed all the same, {right} were not");
        assert!(errors > 1000);
        assert_eq!(ask(sim, history, &all), None, "as it was");
    }
}
