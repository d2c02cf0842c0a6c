//! Backups against the database that they are of, byte by byte.

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, Backup, PageBase, PageMaker, list_backups, verify_backup};
use resurgam_engine::{Error, ErrorKind, Lsn, PageId, limits::PAGE_SIZE};
use resurgam_page::{PageBuf, PageType, boot};
use resurgam_vfs::{OpenMode, Vfs};
use resurgam_xstore::{FolderStore, Store};

/// Where everything is.
pub struct Places<'a> {
    /// Space was given back: what is in the place of a page that nobody has says nothing.
    pub gave_back: bool,
    pub data: &'a Path,
    /// Some of what was written to it never got there: pages that nobody has read since may be older ones.
    pub lied: bool,
    pub versions: Option<&'a Path>,
    pub archive: &'a Path,
    pub backups: &'a Path,
}

fn store(vfs: &Arc<dyn Vfs>, place: &Path) -> Result<Arc<dyn Store>, String> {
    Ok(Arc::new(FolderStore::open(Arc::clone(vfs), place).map_err(|e| e.to_string())?))
}

/// Names of the backups that are complete.
pub fn complete(vfs: &Arc<dyn Vfs>, backups: &Path) -> Result<Vec<String>, String> {
    let entries = list_backups(&store(vfs, backups)?).map_err(|e| e.to_string())?;
    Ok(entries.into_iter().filter(|entry| entry.complete).map(|entry| entry.name).collect())
}

/// That a backup and the archive make the database, which was closed cleanly. Returns how many pages were compared.
pub fn compare(vfs: &Arc<dyn Vfs>, places: &Places<'_>, name: &str) -> Result<u64, String> {
    let told = |e: Error| format!("backup {name}: {e}");
    let view = Archive::open_view(store(vfs, places.archive)?, None).map_err(told)?.ok_or("no archive")?;
    let report = verify_backup(&store(vfs, places.backups)?, name).map_err(told)?;
    if !report.problems.is_empty() || !report.damaged.is_empty() {
        return Err(format!("{report} {:?}", report.damaged));
    }
    let backup = Backup::open(&store(vfs, places.backups)?, name).map_err(told)?;
    let number = backup.summary().version_pages.map(|(number, _)| u64::from(number));
    let maker =
        PageMaker::new(PageBase::unchecked(Some(backup)), Arc::clone(&view), Lsn(view.end().0 - 1)).map_err(told)?;
    let mut compared = 0;
    for (path, file) in [(Some(places.data), Some(0)), (places.versions, number)] {
        let (Some(path), Some(file)) = (path, file) else { continue };
        let open = vfs.open(path, OpenMode::ReadOnly).map_err(told)?;
        let mut bytes = vec![0; open.len().map_err(told)? as usize];
        let count = bytes.len() / PAGE_SIZE;
        // Page by page: some cannot be read.
        let mut unread = vec![false; count];
        for (i, page) in bytes.chunks_exact_mut(PAGE_SIZE).enumerate() {
            match open.read_exact_at(page, (i * PAGE_SIZE) as u64) {
                Err(error) if error.kind() == ErrorKind::Io => unread[i] = true,
                done => done.map_err(told)?,
            }
        }
        let mut pages: Vec<PageBuf> = (0..count + 10).map(|_| PageBuf::zeroed()).collect();
        maker.make(PageId::of_file(file, 0), &mut pages).map_err(told)?;
        // Who wrote a page is of its place in the file only.
        for (i, bytes) in bytes.chunks_exact_mut(PAGE_SIZE).enumerate() {
            let mut page = PageBuf::zeroed();
            page.as_bytes_mut().copy_from_slice(bytes);
            if page.verify(PageId::of_file(file, i as u64)).is_ok() {
                page.forget_writer();
                bytes.copy_from_slice(page.as_bytes());
            }
        }
        for (i, page) in pages.iter().enumerate() {
            let there = bytes.get(i * PAGE_SIZE..(i + 1) * PAGE_SIZE);
            if unread.get(i) == Some(&true) && page.verify(PageId::of_file(file, i as u64)).is_ok() {
                continue;
            }
            // A page that no record has ever changed, and which is written as a free one.
            let is_unused = |bytes: &[u8]| {
                let mut found = PageBuf::zeroed();
                found.as_bytes_mut().copy_from_slice(bytes);
                found.verify(PageId::of_file(file, i as u64)).is_ok()
                    && found.is(PageType::Free)
                    && found.lsn() == Lsn(0)
            };
            // The header of a version-store file is none of its pages.
            let nothing = page.is_all_zero() && (there.is_none_or(is_unused) || file > 0 && i == 0);
            // Damaged by a test: it was in memory and is not written again.
            let wiped = there.is_some_and(|bytes| bytes[..8] == [0xEE; 8]);
            if wiped && page.verify(PageId::of_file(file, i as u64)).is_ok() {
                continue;
            }
            // No record changes it: where it was made anew its LSN is another one.
            if file == 0 && i == 0 {
                let boot = boot::OFFSET..boot::OFFSET + boot::SIZE;
                if page.verify(PageId(0)).is_err()
                    || there.map(|bytes| &bytes[boot.clone()]) != Some(&page.as_bytes()[boot])
                {
                    return Err(format!("backup {name}: the boot page is another one"));
                }
                continue;
            }
            // (The pages of extents that were freed together are not written for that. A page in use that were zeros is found by whoever verifies the
            // trees.)
            let is_hole = there.is_none_or(|bytes| bytes.iter().all(|byte| *byte == 0));
            if places.gave_back && (is_hole || page.is(PageType::Free)) {
                continue;
            }
            let id = PageId::of_file(file, i as u64);
            let is_sound = page.verify(id).is_ok();
            // Another page was written there, or nothing was and it is an older one.
            let is_lie = |bytes: &[u8]| {
                let mut found = PageBuf::zeroed();
                found.as_bytes_mut().copy_from_slice(bytes);
                found.verify(id).is_err() || is_sound && found.lsn() < page.lsn()
            };
            if places.lied && file == 0 && (is_sound || page.is_all_zero()) && there.is_none_or(is_lie) {
                continue;
            }
            if !nothing && Some(&page.as_bytes()[..]) != there {
                let was = there.and_then(|bytes| bytes.try_into().ok()).map(|bytes: &[u8; PAGE_SIZE]| {
                    let mut page = PageBuf::zeroed();
                    page.as_bytes_mut().copy_from_slice(bytes);
                    page.lsn()
                });
                return Err(format!(
                    "backup {name}: page {i} of {} ({:?} of {:?}) is made as of LSN {}, in the file of {count} pages it is as of {was:?}; \
                     the archive ends at {}",
                    path.display(),
                    page.page_type(),
                    page.object(),
                    page.lsn(),
                    view.end()
                ));
            }
            compared += u64::from(!page.is_all_zero());
        }
    }
    Ok(compared)
}
