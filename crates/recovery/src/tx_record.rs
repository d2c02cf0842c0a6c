//! Bodies of COMMIT and ABORT records: when, and the sub-transaction ids that share the
//! outcome.
//!
//! ```text
//! time i64 (us since 2000-01-01) | count u32 | count x { first u64, last u64 }
//! ```

use resurgam_base::{Error, Result, TxId};

/// No transaction has a higher id. Ids are counted up one by one, so that none ever gets near: what
/// says otherwise is damaged. (A word in memory holds an id beside a tag of three bits.)
pub(crate) const TX_ID_MAX: TxId = TxId(1 << 60);

/// A decoded body. The top-level id is in the record's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxRecord {
    pub time_us: i64,
    /// Inclusive ranges of sub-transaction ids.
    pub subs: Vec<(TxId, TxId)>,
}

impl TxRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + self.subs.len() * 16);
        out.extend_from_slice(&self.time_us.to_le_bytes());
        out.extend_from_slice(&(self.subs.len() as u32).to_le_bytes());
        for (first, last) in &self.subs {
            out.extend_from_slice(&first.0.to_le_bytes());
            out.extend_from_slice(&last.0.to_le_bytes());
        }
        out
    }

    pub fn decode(body: &[u8]) -> Result<Self> {
        let bad = || Error::corrupt("the record of a transaction's end cannot be read");
        let (time, rest) = body.split_first_chunk::<8>().ok_or_else(bad)?;
        let (count, rest) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
        if rest.len() != u32::from_le_bytes(*count) as usize * 16 {
            return Err(bad());
        }
        let word = |c: &[u8]| TxId(u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
        let subs: Vec<_> = rest.chunks_exact(16).map(|c| (word(&c[..8]), word(&c[8..]))).collect();
        if subs.iter().any(|(a, b)| a > b) {
            return Err(bad());
        }
        Ok(Self { time_us: i64::from_le_bytes(*time), subs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_nonsense() -> Result<()> {
        let record = TxRecord { time_us: -5, subs: vec![(TxId(3), TxId(9)), (TxId(12), TxId(12))] };
        let bytes = record.encode();
        assert_eq!(TxRecord::decode(&bytes)?, record);
        for len in 0..bytes.len() {
            assert!(TxRecord::decode(&bytes[..len]).is_err());
        }
        Ok(())
    }
}
