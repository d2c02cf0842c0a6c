//! The control file: two copies, written in turn, each checksummed, in sectors of their
//! own. The valid copy with the higher sequence number counts; a torn write loses the
//! newer copy and leaves the older.
//!
//! ```text
//! copy i at i * 4096:
//! 0  magic "RSCT" u32 | format version u32 | sequence u64 | checkpoint block LSN u64
//! 24 log epoch u32 | log segment bytes u64 | flags u32 (1 = closed cleanly,
//!    2 = traditional mode) | crc u32
//! ```

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_vfs::{File, OpenMode, Vfs};

const MAGIC: u32 = u32::from_le_bytes(*b"RSCT");
/// Version of the data folder's format as a whole. 3: prepared transactions, which an older
/// program would take for aborted ones. 4: changes of rows, and how they are undone, as `row_change.rs` has
/// them, which an older program cannot redo. 5: checkpoints say what the boot page and this file hold (`identity.rs`).
/// 6: checkpoints say who has opened the log, and pages in files under which opening they were written.
pub const FORMAT_VERSION: u32 = 6;
const COPY: u64 = 4096;
const LEN: usize = 44;

/// What the control file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Start of the block with the begin record of the last finished checkpoint.
    pub checkpoint: Lsn,
    /// The epoch under which the log is written since the last open.
    pub epoch: u32,
    pub segment_bytes: u64,
    pub clean: bool,
    /// The traditional mode: undo through the log, earlier versions in memory.
    pub traditional: bool,
}

/// One of the two copies, judged on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlCopy {
    Good {
        sequence: u64,
        control: Control,
    },
    /// Nothing was ever written there.
    Empty,
    /// Whole, and of a format version that is not known here.
    Newer(u32),
    /// In words, what is wrong.
    Damaged(String),
}

impl fmt::Display for ControlCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good { sequence, control: c } => write!(
                f,
                "sequence {sequence}  checkpoint at LSN {}  log epoch {}  log segments of {} bytes  {}",
                c.checkpoint,
                c.epoch,
                c.segment_bytes,
                match (c.clean, c.traditional) {
                    (true, false) => "closed cleanly",
                    (false, false) => "not closed cleanly",
                    (true, true) => "closed cleanly  traditional mode",
                    (false, true) => "not closed cleanly  traditional mode",
                }
            ),
            Self::Empty => f.write_str("never written"),
            Self::Newer(version) => write!(f, "format version {version}, newer than the {FORMAT_VERSION} known here"),
            Self::Damaged(why) => write!(f, "DAMAGED: {why}"),
        }
    }
}

impl ControlCopy {
    /// Reads both.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_both(file: &dyn File) -> Result<[Self; 2]> {
        let copy = |at: u64| -> Result<Self> {
            let mut bytes = [0; LEN];
            let read = file.read_at(&mut bytes, at * COPY)?;
            let short = || Self::Damaged(format!("only {read} of {LEN} bytes are there"));
            Ok(if read < LEN { short() } else { Self::decode(&bytes) })
        };
        Ok([copy(0)?, copy(1)?])
    }

    /// The copy that counts, with its sequence number: the good one with the higher one.
    pub fn best(copies: &[Self; 2]) -> Option<(u64, Control)> {
        let good = copies.iter().filter_map(|copy| match copy {
            Self::Good { sequence, control } => Some((*sequence, *control)),
            _ => None,
        });
        good.max_by_key(|(sequence, _)| *sequence)
    }

    fn decode(b: &[u8; LEN]) -> Self {
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
        if b.iter().all(|byte| *byte == 0) {
            return Self::Empty;
        }
        if u32_at(0) != MAGIC {
            return Self::Damaged(format!("it starts with {:02x?} instead of \"RSCT\"", &b[..4]));
        }
        let (stored, computed) = (u32_at(40), checksum(&b[..40]));
        if stored != computed {
            return Self::Damaged(format!("checksum {stored:#010x}, its bytes give {computed:#010x}"));
        }
        if u32_at(4) > FORMAT_VERSION {
            return Self::Newer(u32_at(4));
        }
        let control = Control {
            checkpoint: Lsn(u64_at(16)),
            epoch: u32_at(24),
            segment_bytes: u64_at(28),
            clean: u32_at(36) & 1 != 0,
            traditional: u32_at(36) & 2 != 0,
        };
        Self::Good { sequence: u64_at(8), control }
    }
}

/// The open control file.
pub struct ControlFile {
    file: Arc<dyn File>,
    sequence: u64,
    /// On another device: the same, for a restore. And which of its two copies is written next.
    copy: Option<(Arc<dyn File>, u64)>,
    /// Has it first, and may refuse it.
    keeper: Option<Keeper>,
}

/// What keeps the content of a control file where other machines find it.
pub type Keeper = Box<dyn Fn(&Control) -> Result<()> + Send + Sync>;

impl ControlFile {
    /// Makes the file with its first content.
    pub fn create(vfs: &Arc<dyn Vfs>, path: &Path, control: Control) -> Result<Self> {
        let file = vfs.open(path, OpenMode::CreateNew)?;
        file.write_at(&[0; 2 * COPY as usize], 0)?;
        let mut this = Self { file, sequence: 0, copy: None, keeper: None };
        this.write(control)?;
        Ok(this)
    }

    /// Opens and reads.
    ///
    /// # Errors
    /// `NewerFormat`; `Corrupt` when neither copy is intact.
    pub fn open(vfs: &Arc<dyn Vfs>, path: &Path, read_only: bool) -> Result<(Self, Control)> {
        let file = vfs.open(path, if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite })?;
        let copies = ControlCopy::read_both(file.as_ref())?;
        for copy in &copies {
            if let ControlCopy::Newer(version) = copy {
                return Err(Error::new(
                    ErrorKind::NewerFormat,
                    format!(
                        "the data folder has format version {version}, this program knows versions up to {FORMAT_VERSION}"
                    ),
                )
                .with_hint("Use a newer version of Resurgam."));
            }
        }
        let (sequence, control) = ControlCopy::best(&copies).ok_or_else(|| {
            Error::corrupt(format!("both copies in the control file \"{}\" are damaged", path.display()))
                .with_hint("Restore the data folder from a backup.")
        })?;
        Ok((Self { file, sequence, copy: None, keeper: None }, control))
    }

    /// Keeps a copy at `path` from the next write on. What is there may be the copy of another control file, in whose
    /// place this one was made: what is written from now on counts more than that.
    ///
    /// # Errors
    /// Those of making it.
    pub fn keep_copy(&mut self, vfs: &Arc<dyn Vfs>, path: &Path) -> Result<()> {
        let file = vfs.open(path, OpenMode::Create)?;
        let len = 2 * COPY;
        if file.len()? < len {
            file.set_len(len)?;
        }
        if let Some(folder) = path.parent() {
            vfs.sync_dir(folder)?;
        }
        let copies = ControlCopy::read_both(file.as_ref())?;
        let known = ControlCopy::best(&copies).map_or(0, |(sequence, _)| sequence);
        if known > self.sequence {
            // By an even number: the good copy of this file must not be the next that is written.
            self.sequence += (known - self.sequence).next_multiple_of(2);
        }
        let best =
            copies.iter().position(|copy| matches!(copy, ControlCopy::Good { sequence, .. } if *sequence == known));
        self.copy = Some((file, best.map_or(0, |at| 1 - at as u64)));
        Ok(())
    }

    /// Every write goes to `keeper` first from now on; what it refuses is not written.
    pub fn keep_with(&mut self, keeper: Keeper) {
        self.keeper = Some(keeper);
    }

    /// Replaces the older copy and makes it durable.
    pub fn write(&mut self, control: Control) -> Result<()> {
        if let Some(keeper) = &self.keeper {
            keeper(&control)?;
        }
        // A failed write is tried again on the same copy: the other one is the good one.
        let next = self.sequence + 1;
        let bytes = encode(next, control);
        self.file.write_at(&bytes, (next % 2) * COPY)?;
        self.file.sync()?;
        if let Some((copy, at)) = &mut self.copy {
            copy.write_at(&bytes, *at * COPY)?;
            copy.sync()?;
            *at = 1 - *at;
        }
        self.sequence = next;
        Ok(())
    }
}

fn encode(sequence: u64, c: Control) -> [u8; LEN] {
    let mut b = [0u8; LEN];
    b[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    b[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    b[8..16].copy_from_slice(&sequence.to_le_bytes());
    b[16..24].copy_from_slice(&c.checkpoint.0.to_le_bytes());
    b[24..28].copy_from_slice(&c.epoch.to_le_bytes());
    b[28..36].copy_from_slice(&c.segment_bytes.to_le_bytes());
    let flags = u32::from(c.clean) | u32::from(c.traditional) << 1;
    b[36..40].copy_from_slice(&flags.to_le_bytes());
    let crc = checksum(&b[..40]);
    b[40..44].copy_from_slice(&crc.to_le_bytes());
    b
}

#[cfg(test)]
mod tests {
    use resurgam_vfs::SimVfs;

    use super::*;

    /// The control file of a replaced data folder begins anew, and its copy takes the place of the old one's: that is never
    /// the one that counts again, and no write is over the only good copy.
    #[test]
    fn a_copy_is_of_the_file_that_was_written_last() -> Result<()> {
        let at =
            |lsn| Control { checkpoint: Lsn(lsn), epoch: 1, segment_bytes: 1 << 20, clean: false, traditional: false };
        for writes in 0..5 {
            let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(writes));
            let path = |name: &str| std::path::PathBuf::from(format!("/{name}"));
            let mut old = ControlFile::create(&vfs, &path("old"), at(1))?;
            old.keep_copy(&vfs, &path("copy"))?;
            (0..writes + 40).try_for_each(|i| old.write(at(10 + i)))?;
            let mut new = ControlFile::create(&vfs, &path("new"), at(1000))?;
            new.keep_copy(&vfs, &path("copy"))?;
            for lsn in 1001..1005 {
                let before = ControlCopy::read_both(new.file.as_ref())?;
                let copied = vfs.open(&path("copy"), OpenMode::ReadOnly)?;
                let before_copied = ControlCopy::read_both(copied.as_ref())?;
                new.write(at(lsn))?;
                for (file, before) in [(&new.file, before), (&copied, before_copied)] {
                    let now = ControlCopy::read_both(file.as_ref())?;
                    assert_eq!(ControlCopy::best(&now).map(|(_, control)| control), Some(at(lsn)));
                    let best =
                        ControlCopy::best(&before).map(|(sequence, control)| ControlCopy::Good { sequence, control });
                    assert!(best.is_some_and(|best| now.contains(&best)), "the good copy was written over");
                }
            }
            for name in ["new", "copy"] {
                assert_eq!(ControlFile::open(&vfs, &path(name), true)?.1, at(1004));
            }
        }
        Ok(())
    }

    #[test]
    fn codec_and_damage() {
        let control = Control { checkpoint: Lsn(77), epoch: 3, segment_bytes: 1 << 24, clean: true, traditional: true };
        let bytes = encode(9, control);
        assert_eq!(ControlCopy::decode(&bytes), ControlCopy::Good { sequence: 9, control });
        for i in 0..LEN {
            let mut bad = bytes;
            bad[i] ^= 1;
            assert!(matches!(ControlCopy::decode(&bad), ControlCopy::Damaged(_)), "byte {i}");
        }
        assert_eq!(ControlCopy::decode(&[0; LEN]), ControlCopy::Empty);
        let mut newer = bytes;
        newer[4..8].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        let crc = checksum(&newer[..40]);
        newer[40..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(ControlCopy::decode(&newer), ControlCopy::Newer(FORMAT_VERSION + 1));
    }
}
