//! Both copies of the control file, each judged on its own.
//!
//! ```text
//! copy i at i * 4096:
//! 0  magic "RSCT" u32 | format version u32 | sequence u64 | checkpoint block LSN u64
//! 24 log epoch u32 | log segment bytes u64 | flags u32 (1 = closed cleanly, 2 = traditional) | crc
//! ```

use std::fmt;

use resurgam_base::{Lsn, Result, checksum};
use resurgam_recovery::Control;

use crate::folder::Folder;

const COPY: u64 = 4096;
const LEN: usize = 44;
/// Newest version of the folder's format that is understood here.
const VERSION_KNOWN: u32 = 3;

/// One copy.
#[derive(Clone, Debug)]
pub(crate) enum Copy {
    Good {
        sequence: u64,
        control: Control,
    },
    /// Nothing was ever written there.
    Empty,
    Newer(u32),
    /// In words, what is wrong.
    Damaged(String),
}

impl fmt::Display for Copy {
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
            Self::Newer(version) => write!(f, "format version {version}, newer than the {VERSION_KNOWN} known here"),
            Self::Damaged(why) => write!(f, "DAMAGED: {why}"),
        }
    }
}

/// Reads both copies. `None`: there is no control file.
pub(crate) fn read(folder: &Folder) -> Result<Option<[Copy; 2]>> {
    let Some(file) = folder.file(&folder.control())? else { return Ok(None) };
    let copy = |i: u64| -> Result<Copy> {
        let mut bytes = [0; LEN];
        let read = file.read_at(&mut bytes, i * COPY)?;
        Ok(if read < LEN { Copy::Damaged(format!("only {read} of {LEN} bytes are there")) } else { decode(&bytes) })
    };
    Ok(Some([copy(0)?, copy(1)?]))
}

/// The copy that counts: the good one with the higher sequence number.
pub(crate) fn best(copies: &[Copy; 2]) -> Option<Control> {
    copies
        .iter()
        .filter_map(|copy| match copy {
            Copy::Good { sequence, control } => Some((*sequence, *control)),
            _ => None,
        })
        .max_by_key(|(sequence, _)| *sequence)
        .map(|(_, control)| control)
}

fn decode(b: &[u8; LEN]) -> Copy {
    let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
    let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
    if b.iter().all(|byte| *byte == 0) {
        return Copy::Empty;
    }
    if b[..4] != *b"RSCT" {
        return Copy::Damaged(format!("it starts with {:02x?} instead of \"RSCT\"", &b[..4]));
    }
    let (stored, computed) = (u32_at(40), checksum(&b[..40]));
    if stored != computed {
        return Copy::Damaged(format!("checksum {stored:#010x}, its bytes give {computed:#010x}"));
    }
    if u32_at(4) > VERSION_KNOWN {
        return Copy::Newer(u32_at(4));
    }
    let control = Control {
        checkpoint: Lsn(u64_at(16)),
        epoch: u32_at(24),
        segment_bytes: u64_at(28),
        clean: u32_at(36) & 1 != 0,
        traditional: u32_at(36) & 2 != 0,
    };
    Copy::Good { sequence: u64_at(8), control }
}
