//! Small files that are read as a whole and replaced as a whole, so that there is either the old one or the new one.
//!
//! # Invariant
//! Nobody sees a part of what was written: it is written beside the file, synced, and renamed. A crash may leave the file beside, which counts for nobody and
//! is made anew by the next write.

use std::path::Path;

use resurgam_base::Result;

use crate::{OpenMode, Vfs};

/// The first `bytes_max` bytes of a file; all of it, where it is not longer. `None`: it is not there.
///
/// # Errors
/// Those of opening and reading.
pub fn read_small(vfs: &dyn Vfs, path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    if !vfs.exists(path)? {
        return Ok(None);
    }
    let file = vfs.open(path, OpenMode::ReadOnly)?;
    let mut bytes = vec![0; file.len()?.min(bytes_max) as usize];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Makes the file, or puts another one in its place, with this content, by way of a file beside it whose name has `.new` behind; durable when this returns.
///
/// # Errors
/// Those of writing. What is there then is the old one or the new one.
pub fn replace_small(vfs: &dyn Vfs, path: &Path, content: &[u8]) -> Result<()> {
    replace_by(vfs, path, ".new", content)
}

/// As [`replace_small`], where the file beside has `suffix` behind its name: for a place that is not this program's alone.
///
/// # Errors
/// As [`replace_small`].
pub fn replace_by(vfs: &dyn Vfs, path: &Path, suffix: &str, content: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    let beside = path.with_file_name(name);
    let file = vfs.open(&beside, OpenMode::Create)?;
    file.set_len(0)?;
    file.write_at(content, 0)?;
    file.sync()?;
    vfs.rename(&beside, path)?;
    vfs.sync_dir(path.parent().unwrap_or(Path::new("")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FaultPlan, SimVfs};

    #[test]
    fn what_is_there_is_read_up_to_the_bound() -> Result<()> {
        let (vfs, path) = (SimVfs::new(1), Path::new("/d/file"));
        assert_eq!(read_small(&vfs, path, 10)?, None, "nor is its folder there");
        vfs.make_folder(Path::new("/d"))?;
        assert_eq!(read_small(&vfs, path, 10)?, None);
        for content in [&b""[..], b"some", b"0123456789", b"short again"] {
            replace_small(&vfs, path, content)?;
            assert_eq!(read_small(&vfs, path, 10)?.as_deref(), Some(&content[..content.len().min(10)]));
        }
        assert_eq!(vfs.list(Path::new("/d"))?, ["file"]);
        // Whatever an attempt has left beside it.
        vfs.open(Path::new("/d/file.other"), OpenMode::Create)?.write_at(b"a longer text than that", 0)?;
        replace_by(&vfs, path, ".other", b"new")?;
        assert_eq!(read_small(&vfs, path, 10)?.as_deref(), Some(&b"new"[..]));
        assert_eq!(vfs.list(Path::new("/d"))?, ["file"]);
        Ok(())
    }

    /// Power is lost at every call: there is the old one or the new one, as a whole.
    #[test]
    fn it_is_the_old_one_or_the_new_one() -> Result<()> {
        let path = Path::new("/d/file");
        let (old, new) = (vec![1; 3000], vec![2; 5000]);
        let (mut olds, mut news) = (0, 0);
        for at in 1.. {
            for seed in 0..20 {
                let vfs = SimVfs::new(seed);
                vfs.make_folder(Path::new("/d"))?;
                replace_small(&vfs, path, &old)?;
                vfs.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
                let done = replace_small(&vfs, path, &new).is_ok();
                let after = vfs.crash();
                let found = read_small(&after, path, 1 << 20)?;
                assert!(
                    found.as_ref() == Some(&new) || !done && found.as_ref() == Some(&old),
                    "call {at}, seed {seed}"
                );
                olds += u32::from(found.as_ref() == Some(&old));
                news += u32::from(found.as_ref() == Some(&new));
                if done && seed == 19 {
                    assert!(at > 4 && olds > 20 && news > 20, "{at}, {olds}, {news}");
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
