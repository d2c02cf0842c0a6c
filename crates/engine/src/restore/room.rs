//! Whether there is room for what is to be restored: asked before anything is made, so that nobody finds out in the middle that there is none.
//!
//! Files are sparse until their segments are there, so making them says nothing of it.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result, limits::PAGE_SIZE};
use resurgam_vfs::Vfs;

/// Files of so many pages in all, each in a folder.
pub(crate) struct Wanted<'a> {
    pub folder: &'a Path,
    pub pages: u64,
    /// Of files there that go first, in bytes.
    pub given_back: u64,
}

/// Refuses folders in which there is no room for the pages. Those in one folder count together; of two folders on one device nobody knows. Where
/// the system does not say how much room there is, there is enough.
///
/// # Errors
/// `DiskFull`, with what is needed and what is there; those of asking.
pub(crate) fn check(vfs: &Arc<dyn Vfs>, wanted: &[Wanted<'_>]) -> Result<()> {
    for (at, first) in wanted.iter().enumerate() {
        let same = |other: &&Wanted<'_>| other.folder == first.folder;
        if wanted.iter().take(at).any(|before| same(&before)) {
            continue;
        }
        let Some(free) = vfs.free_bytes(first.folder)? else { continue };
        let there = wanted.iter().filter(same).map(|one| one.given_back).fold(free, u64::saturating_add);
        let pages = wanted.iter().filter(same).map(|one| one.pages).fold(0, u64::saturating_add);
        let needed = pages.saturating_mul(PAGE_SIZE as u64);
        if there < needed {
            return Err(Error::new(
                ErrorKind::DiskFull,
                format!(
                    "there is no room in \"{}\" for the data: {needed} bytes are needed, and {there} are free",
                    first.folder.display()
                ),
            )
            .with_hint("Make room there, or give a folder on a larger device. Nothing was changed."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use resurgam_vfs::{FaultPlan, OpenMode, SimVfs};

    use super::*;

    #[test]
    fn files_in_one_folder_count_together() -> Result<()> {
        let sim = SimVfs::new(1);
        for folder in ["/small", "/large"] {
            sim.make_folder(Path::new(folder))?;
        }
        let page = PAGE_SIZE as u64;
        sim.set_faults(FaultPlan { small_disk: Some(("/small".into(), 10 * page)), ..Default::default() });
        sim.open(Path::new("/small/a"), OpenMode::Create)?.set_len(2 * page)?;
        let vfs: Arc<dyn Vfs> = Arc::new(sim);
        let of = |folder: &'static str, pages, given_back| Wanted { folder: Path::new(folder), pages, given_back };
        check(&vfs, &[of("/small", 8, 0), of("/large", 1 << 40, 0)])?;
        check(&vfs, &[of("/small/new/below", 8, 0)])?;
        check(&vfs, &[of("/small", 5, 0), of("/small", 3, 0)])?;
        check(&vfs, &[of("/small", 9, 2 * page), of("/small", 1, 0)])?;
        for wanted in [&[of("/small", 9, 0)][..], &[of("/small", 5, 0), of("/large", 1, 0), of("/small", 4, 0)]] {
            let error = check(&vfs, wanted).err();
            let error = error.filter(|error| error.kind() == ErrorKind::DiskFull && error.hint().is_some());
            assert!(error.is_some_and(|e| e.message().contains(&(9 * page).to_string())
                && e.message().contains(&format!("{} are free", 8 * page))));
        }
        Ok(())
    }
}
