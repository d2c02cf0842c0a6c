//! Headers that say under which epoch of the log a file was in use last. Nothing but the next open looks at them, and that takes a file whose
//! header was not written, although the device said so, for an old copy. So what was written is read back.

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_vfs::File;

/// A device that says that it has written what it has not is asked again so often.
const WRITES_MAX: u32 = 3;

/// Writes `bytes` at the beginning of `file`, durably, and looks whether the device has them, as far as the system lets it be asked.
///
/// # Errors
/// Those of reading and writing; `Io` when it has them not.
pub(crate) fn write(file: &dyn File, bytes: &[u8]) -> Result<()> {
    let mut found = vec![0; bytes.len()];
    for _ in 0..WRITES_MAX {
        file.write_at(bytes, 0)?;
        file.sync()?;
        file.forget_read(0, bytes.len() as u64);
        file.read_exact_at(&mut found, 0)?;
        if found == bytes {
            return Ok(());
        }
    }
    let what = format!("what is written to \"{}\" is not what is read from it", file.path().display());
    Err(Error::new(ErrorKind::Io, what))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_vfs::{FaultPlan, Lie, LyingWrite, OpenMode, SimVfs, Vfs};

    use super::*;

    #[test]
    fn a_write_that_is_lost_is_made_again() -> Result<()> {
        for (lost, kept) in [(0, true), (1, true), (2, true), (3, false)] {
            let vfs = SimVfs::new(1);
            vfs.create_dir_all(Path::new("/db"))?;
            let file = vfs.open(Path::new("/db/data"), OpenMode::Create)?;
            file.write_at(&[1; 512], 0)?;
            let lying = (1..=lost).map(|at| LyingWrite { path: "/db/data".into(), at, lie: Lie::Lost }).collect();
            vfs.set_faults(FaultPlan { lying, ..FaultPlan::default() });
            assert_eq!(write(&*file, &[2; 512]).is_ok(), kept, "{lost} writes are lost");
            let mut found = [0; 512];
            file.read_exact_at(&mut found, 0)?;
            assert_eq!(found, [if kept { 2 } else { 1 }; 512]);
        }
        Ok(())
    }
}
