//! The marker of a folder that is being made, and the one file that an attempt makes outside of it: that of the version store.
//!
//! ```text
//! version-store ID PATH        id of the database that the attempt makes, in hexadecimal
//! end
//! ```
//! The marker says so, durably, before the file is made. So the next attempt knows what the one before may have left there, and removes
//! it: a file with the header of that database, or one that did not get its header. Any other file is somebody's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::Result;
use resurgam_page::version_file::{self, VersionFileHeader};
use resurgam_vfs::{OpenMode, Vfs, read_small};

/// Present while the folder is being made.
pub(crate) const RESTORING: &str = "restoring";
/// Longest marker that is read.
const BYTES_MAX: u64 = 64 << 10;

fn text_of(id: &[u8; 16], path: &Path) -> String {
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("version-store {id} {}\nend\n", path.display())
}

fn parse(text: &str) -> Option<([u8; 16], PathBuf)> {
    let (id, path) = text.strip_prefix("version-store ")?.strip_suffix("\nend\n")?.split_once(' ')?;
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(id.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    (id.len() == 32 && !path.is_empty()).then(|| (bytes, PathBuf::from(path)))
}

/// Makes the marker durable; what it noted is forgotten.
///
/// # Errors
/// Those of writing.
pub(super) fn begin(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
    let file = vfs.open(&dir.join(RESTORING), OpenMode::Create)?;
    file.set_len(0)?;
    file.sync()?;
    vfs.sync_dir(dir)
}

/// Notes that the version-store file of database `id` is made at `path`, durably.
///
/// # Errors
/// Those of writing.
pub(super) fn note(vfs: &Arc<dyn Vfs>, dir: &Path, id: &[u8; 16], path: &Path) -> Result<()> {
    let file = vfs.open(&dir.join(RESTORING), OpenMode::Create)?;
    file.set_len(0)?;
    file.write_at(text_of(id, path).as_bytes(), 0)?;
    file.sync()
}

/// Removes the version-store file that the attempt before has left, durably. Without a marker that notes one, nothing is done.
///
/// # Errors
/// Those of reading and removing.
pub(super) fn remove_leftover(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
    let marker = dir.join(RESTORING);
    let Some(text) = read_small(&**vfs, &marker, BYTES_MAX)? else { return Ok(()) };
    let Some((id, path)) = std::str::from_utf8(&text).ok().and_then(parse) else { return Ok(()) };
    if !vfs.exists(&path)? {
        return Ok(());
    }
    let mut head = [0; version_file::SIZE];
    let read = vfs.open(&path, OpenMode::ReadOnly)?.read_at(&mut head, 0)?;
    let is_own = VersionFileHeader::decode(&head).is_ok_and(|header| header.database_id == id);
    if is_own || head[..read].iter().all(|byte| *byte == 0) {
        vfs.remove(&path)?;
        vfs.sync_dir(path.parent().unwrap_or(Path::new("")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_and_a_torn_note_is_none() {
        let (id, path) = (*b"0123456789abcdef", Path::new("/disk 2/versions"));
        let text = text_of(&id, path);
        assert_eq!(parse(&text), Some((id, path.to_path_buf())));
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), None, "{cut}");
        }
    }
}
