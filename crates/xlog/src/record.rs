//! What the record of a landing zone says: lines of text, with a checksum.
//!
//! ```text
//! Resurgam landing zone, format 1
//! epoch 8                     the holder writes under this one and the one before it
//! holder 3f2a… 1234 998877    boot of the machine, process, when that was started
//! stamp 9f…                   a random number of the holder: no two write the same record
//! renewed 17                  how often
//! lease 5000                  for so many milliseconds
//! free 0                      1: it was given back, nobody has to wait
//! database 0123…              ── from here on: once the database is made
//! control 4096 7 1048576 0 0  checkpoint, epoch, bytes of a segment, closed cleanly, traditional mode
//! checksum 89abcdef
//! ```

use std::time::Duration;

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};

use crate::alive::ProcessId;

const FIRST_LINE: &str = "Resurgam landing zone, format ";
const FORMAT: u32 = 1;

/// What a control file says, of the database whose log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub database: [u8; 16],
    pub checkpoint: Lsn,
    pub epoch: u32,
    pub segment_bytes: u64,
    pub clean: bool,
    pub traditional: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub epoch: u32,
    pub holder: ProcessId,
    pub stamp: u64,
    pub renewed: u64,
    pub lease: Duration,
    pub free: bool,
    pub kept: Option<Kept>,
}

impl Record {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("{FIRST_LINE}{FORMAT}\n");
        let ProcessId { boot, pid, started } = &self.holder;
        text += &format!("epoch {}\nholder {boot} {pid} {started}\nstamp {:016x}\n", self.epoch, self.stamp);
        let lease = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        text += &format!("renewed {}\nlease {lease}\nfree {}\n", self.renewed, u8::from(self.free));
        if let Some(kept) = &self.kept {
            let id: String = kept.database.iter().map(|byte| format!("{byte:02x}")).collect();
            let (clean, traditional) = (u8::from(kept.clean), u8::from(kept.traditional));
            let Kept { checkpoint, epoch, segment_bytes, .. } = kept;
            text += &format!("database {id}\ncontrol {} {epoch} {segment_bytes} {clean} {traditional}\n", checkpoint.0);
        }
        let sum = checksum(text.as_bytes());
        (text + &format!("checksum {sum:08x}\n")).into_bytes()
    }

    /// The inverse.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(format!("the record of the landing zone cannot be used: {what}"));
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not text"))?;
        let format = text.lines().next().and_then(|line| line.strip_prefix(FIRST_LINE)?.parse::<u32>().ok());
        match format {
            Some(FORMAT) => {}
            Some(newer) if newer > FORMAT => {
                let what = format!("the record of the landing zone has format {newer}; this program knows {FORMAT}");
                return Err(Error::new(ErrorKind::NewerFormat, what));
            }
            _ => return Err(bad("its first line is wrong")),
        }
        let at = text.rfind("checksum ").ok_or_else(|| bad("it has no checksum"))?;
        let (lines, sum) = (&text[..at], checksum(&bytes[..at]));
        if text[at..] != format!("checksum {sum:08x}\n") {
            return Err(bad("its checksum is wrong"));
        }
        Self::fields(lines).ok_or_else(|| bad("a line is not known, or missing"))
    }

    fn fields(lines: &str) -> Option<Self> {
        let mut lines = lines.lines().skip(1);
        let mut next = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let epoch = next("epoch")?.parse().ok()?;
        let mut holder = next("holder")?.split(' ');
        let holder = ProcessId {
            boot: holder.next()?.to_owned(),
            pid: holder.next()?.parse().ok()?,
            started: holder.next()?.parse().ok()?,
        };
        let stamp = u64::from_str_radix(next("stamp")?, 16).ok()?;
        let renewed = next("renewed")?.parse().ok()?;
        let lease = Duration::from_millis(next("lease")?.parse().ok()?);
        let free = next("free")? == "1";
        let kept = match next("database") {
            None => None,
            Some(id) => {
                let mut numbers = next("control")?.split(' ').map(|n| n.parse::<u64>().ok());
                let mut number = || numbers.next().flatten();
                Some(Kept {
                    database: from_hex(id)?,
                    checkpoint: Lsn(number()?),
                    epoch: u32::try_from(number()?).ok()?,
                    segment_bytes: number()?,
                    clean: number()? == 1,
                    traditional: number()? == 1,
                })
            }
        };
        lines.next().is_none().then_some(Self { epoch, holder, stamp, renewed, lease, free, kept })
    }
}

fn from_hex(text: &str) -> Option<[u8; 16]> {
    let mut id = [0; 16];
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let kept = Kept {
            database: *b"0123456789abcdef",
            checkpoint: Lsn(4096),
            epoch: 7,
            segment_bytes: 1 << 20,
            clean: false,
            traditional: true,
        };
        for kept in [None, Some(kept)] {
            let holder = ProcessId { boot: "b-1".into(), pid: 12, started: 34 };
            let lease = Duration::from_millis(5000);
            let record = Record { epoch: 8, holder, stamp: 99, renewed: 3, lease, free: kept.is_none(), kept };
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes).unwrap(), record);
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 1;
                assert!(Record::decode(&bad).is_err(), "byte {at}");
                assert!(Record::decode(&bytes[..at]).is_err(), "cut at {at}");
            }
        }
        let newer = Record::decode(b"Resurgam landing zone, format 2\n").unwrap_err();
        assert_eq!(newer.kind(), ErrorKind::NewerFormat);
    }
}
