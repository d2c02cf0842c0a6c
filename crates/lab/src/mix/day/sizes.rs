//! What versions, rollbacks and the log take, as the server's views and its files say.

use std::path::PathBuf;

use crate::Result;
use crate::servers::Server;
use crate::setup::bytes_of;
use crate::wire::Client;

/// Version pages that come and go without meaning anything: those that are kept ready, and the
/// current page of each writer.
const VERSION_SLACK: u64 = 4 << 20;
/// A checkpoint is taken after so much log (the default of `checkpoint_log_bytes`), so while
/// nothing is written up to this may stay; and two of the log's files.
const LOG_SLACK: u64 = (64 + 2 * 16) << 20;

/// One sample.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    pub version_bytes: u64,
    pub temporary_bytes: u64,
    pub aborted: u64,
    pub snapshots: u64,
    pub log_bytes: u64,
    pub log_files: u64,
    pub pages_bytes: u64,
    pub data_file: u64,
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The measures for table and plot.
pub const MEASURES: [(&str, fn(&Sizes) -> f64); 7] = [
    ("version store, MB", |s| mb(s.version_bytes)),
    ("aborted transactions in the map", |s| s.aborted as f64),
    ("snapshots in use", |s| s.snapshots as f64),
    ("log in use, MB", |s| mb(s.log_bytes)),
    ("log files, MB", |s| mb(s.log_files)),
    ("pages in use, MB", |s| mb(s.pages_bytes)),
    ("data file, MB", |s| mb(s.data_file)),
];

impl Sizes {
    /// What is above the baseline and must not be for ever, in words. Pages are not judged here: the
    /// tables have grown.
    pub fn above(&self, baseline: &Self) -> Vec<String> {
        let mut above = Vec::new();
        let mut judge = |what: &str, now: u64, most: u64| {
            if now > most {
                above.push(format!("{what} {now}, at most {most} expected"));
            }
        };
        judge("bytes of the version store", self.version_bytes, baseline.version_bytes + VERSION_SLACK);
        judge("bytes of temporary versions", self.temporary_bytes, baseline.temporary_bytes + VERSION_SLACK);
        judge("aborted transactions", self.aborted, baseline.aborted);
        judge("snapshots", self.snapshots, baseline.snapshots);
        judge("bytes of log in use", self.log_bytes, baseline.log_bytes + LOG_SLACK);
        above
    }
}

/// A session that takes samples.
pub struct Probe {
    client: Client,
    log: PathBuf,
    data: PathBuf,
}

impl Probe {
    pub fn new(server: &Server) -> Result<Self> {
        Ok(Self { client: server.client()?, log: server.dir.join("log"), data: server.dir.join("data") })
    }

    pub fn sample(&mut self) -> Result<Sizes> {
        let rows = self.client.rows(
            "select v.bytes, v.temporary_bytes, v.aborted_transactions, v.snapshots, l.bytes_in_use, \
             (b.pages_allocated - b.pages_freed) * 8192 from resurgam_version_store as v, resurgam_log as l, \
             resurgam_buffer as b",
        )?;
        let row = rows.first().ok_or("the views have no rows")?;
        let at = |column: usize| -> Result<u64> {
            let text = row.get(column).and_then(Option::as_deref).unwrap_or("null");
            text.parse().map_err(|_| format!("column {column} of the views is {text}"))
        };
        Ok(Sizes {
            version_bytes: at(0)?,
            temporary_bytes: at(1)?,
            aborted: at(2)?,
            snapshots: at(3)?,
            log_bytes: at(4)?,
            pages_bytes: at(5)?,
            log_files: bytes_of(&self.log),
            data_file: bytes_of(&self.data),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_judged() {
        let baseline = Sizes { aborted: 1, version_bytes: 100, ..Sizes::default() };
        assert!(baseline.above(&baseline).is_empty());
        let grown = Sizes { pages_bytes: 1 << 40, data_file: 1 << 40, ..baseline.clone() };
        assert!(grown.above(&baseline).is_empty());
        for wrong in [
            Sizes { aborted: 2, ..baseline.clone() },
            Sizes { snapshots: 1, ..baseline.clone() },
            Sizes { version_bytes: 101 + VERSION_SLACK, ..baseline.clone() },
            Sizes { temporary_bytes: 1 + VERSION_SLACK, ..baseline.clone() },
            Sizes { log_bytes: 1 + LOG_SLACK, ..baseline.clone() },
        ] {
            assert_eq!(wrong.above(&baseline).len(), 1, "{wrong:?}");
        }
    }
}
