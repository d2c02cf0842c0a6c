//! A small record with compare-and-swap.
//!
//! In an object store, or a folder on a disk that several machines reach, each version is an object of its own, named by its number and
//! created once: of several that replace the same version, one is told that it has done so. So it needs neither locks nor clocks of the
//! store.
//!
//! # Invariants
//! 1. The object with the highest number is the record; it is never deleted.
//! 2. A number is deleted only when one that is higher by more than [`KEEP`] is there. So who has created a number, and then finds none as
//!    high as that, was the first to create it, and has replaced the record before it, though others may have replaced theirs since. Who does
//!    find one may have created again what had been used and deleted.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_xstore::{Store, StoreErrorKind};

/// Longest record.
const BYTES_MAX: u64 = 16 << 10;
/// Versions that stay beside the newest: somebody may be reading them.
const KEEP: u64 = 4;
/// Versions that may be deleted while the newest is being looked for.
const LOOKS: usize = 20;

/// See the module.
pub trait Control: Send + Sync {
    /// The record and its number; none: there is none yet.
    ///
    /// # Errors
    /// `Io` when it cannot be reached.
    fn read(&self) -> Result<Option<(u64, Vec<u8>)>>;

    /// Puts `bytes` in the place of the record with the number `known` (0: of none), durably, and returns its number; none: another one was
    /// first. Others may have replaced it again when this returns. No two calls may be made with the same bytes, but to try the same again;
    /// a try after others have replaced it several times says that another one was first.
    ///
    /// # Errors
    /// `Io`: it may have been done.
    fn replace(&self, known: u64, bytes: &[u8]) -> Result<Option<u64>>;
}

/// The record in a store of objects that are created once.
pub struct StoreControl {
    store: Arc<dyn Store>,
    prefix: String,
}

impl StoreControl {
    /// `prefix`: the folder in the store, with a `/` at its end, or nothing.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Self {
        Self { store, prefix: prefix.to_owned() }
    }

    fn name(&self, number: u64) -> String {
        format!("{}record-{number:016x}", self.prefix)
    }

    /// Numbers that are there, ascending.
    fn numbers(&self) -> Result<Vec<u64>> {
        let prefix = format!("{}record-", self.prefix);
        let names = self.store.list(&prefix)?;
        let number = |name: &String| u64::from_str_radix(name.strip_prefix(&prefix)?, 16).ok();
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

impl Control for StoreControl {
    fn read(&self) -> Result<Option<(u64, Vec<u8>)>> {
        for _ in 0..LOOKS {
            let Some(newest) = self.numbers()?.last().copied() else { return Ok(None) };
            match self.store.get(&self.name(newest), BYTES_MAX) {
                Ok(bytes) => return Ok(Some((newest, bytes))),
                // It was replaced, and deleted, meanwhile.
                Err(error) if error.kind() == StoreErrorKind::Missing => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(
            ErrorKind::Io,
            format!("the record in {} changes faster than it can be read", self.store.place()),
        ))
    }

    fn replace(&self, known: u64, bytes: &[u8]) -> Result<Option<u64>> {
        let number = known + 1;
        let name = self.name(number);
        // Nothing is made where it has been decided long ago.
        if self.numbers()?.last().is_some_and(|newest| is_past(number, *newest)) {
            return Ok(None);
        }
        match self.store.put(&name, bytes) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), StoreErrorKind::Exists | StoreErrorKind::Uncertain) => {
                // It may be this one, of a try that was answered by an error.
                match self.store.get(&name, BYTES_MAX) {
                    Ok(there) if there == bytes => {}
                    Ok(_) => return Ok(None),
                    Err(_) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
        let numbers = self.numbers()?;
        if numbers.last().is_some_and(|newest| is_past(number, *newest)) {
            // Not the record in either case; whoever is next deletes it otherwise.
            let _ = self.store.delete(&name);
            let text = format!(
                "the record in {} was replaced so often meanwhile that nobody can tell by whom",
                self.store.place()
            );
            return Err(Error::new(ErrorKind::Io, text));
        }
        for old in numbers.into_iter().filter(|old| is_past(*old, number)) {
            // Whoever is next does it otherwise.
            let _ = self.store.delete(&self.name(old));
        }
        Ok(Some(number))
    }
}

/// Whether `number` may have been deleted when `newest` is there.
fn is_past(number: u64, newest: u64) -> bool {
    number.saturating_add(KEEP) < newest
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_vfs::{SimVfs, Vfs};
    use resurgam_xstore::FolderStore;

    use super::*;

    fn control(vfs: &Arc<dyn Vfs>) -> StoreControl {
        StoreControl::new(Arc::new(FolderStore::open(Arc::clone(vfs), Path::new("/zone")).unwrap()), "control/")
    }

    #[test]
    fn one_of_two_is_first() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let (a, b) = (control(&vfs), control(&vfs));
        assert_eq!(a.read().unwrap(), None);
        assert_eq!(a.replace(0, b"a1").unwrap(), Some(1));
        assert_eq!(b.replace(0, b"b1").unwrap(), None);
        assert_eq!(a.replace(0, b"a1").unwrap(), Some(1), "tried again after an answer that was lost");
        for number in 1..40u64 {
            assert_eq!(b.read().unwrap().unwrap().0, number);
            assert_eq!(b.replace(number, format!("b{number}").as_bytes()).unwrap(), Some(number + 1));
        }
        // Long gone, and the number of the next was deleted.
        assert_eq!(a.replace(1, b"a2").unwrap(), None);
        assert_eq!(b.read().unwrap(), Some((40, b"b39".to_vec())));
        assert!(vfs.list(Path::new("/zone/control")).unwrap().len() < 10);
    }

    #[test]
    fn racing_threads_win_each_number_once() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(2));
        let (mut wins, mut unknown) = (Vec::new(), 0);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|me| {
                    let vfs = &vfs;
                    scope.spawn(move || {
                        let control = control(vfs);
                        let (mut wins, mut unknown) = (Vec::new(), 0);
                        for round in 0..50 {
                            let known = control.read().unwrap().map_or(0, |(number, _)| number);
                            match control.replace(known, format!("{me} {round}").as_bytes()) {
                                Ok(won) => wins.extend(won),
                                Err(error) if error.kind() == ErrorKind::Io => unknown += 1,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        (wins, unknown)
                    })
                })
                .collect();
            for thread in threads {
                let (of_one, unknown_to_it) = thread.join().unwrap();
                wins.extend(of_one);
                unknown += unknown_to_it;
            }
        });
        wins.sort_unstable();
        let all = wins.len();
        wins.dedup();
        assert_eq!(wins.len(), all, "a number was won twice");
        let newest = usize::try_from(control(&vfs).read().unwrap().unwrap().0).unwrap();
        assert!(
            all >= 50 && all <= newest && newest <= all + unknown,
            "{all} won, {unknown} unknown, {newest} is the newest"
        );
    }
}
