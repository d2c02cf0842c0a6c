//! Settings of the engine.

use resurgam_versions::VersionCaps;

/// How a database is opened. `Options::default()` suits most.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for pages, in bytes.
    pub buffer_bytes: usize,
    /// Size of a log segment file, in bytes; fixed when the database is created.
    pub log_segment_bytes: u64,
    /// A checkpoint is taken when this much log was written since the last one, in bytes.
    /// Bounds the time to open after a crash.
    pub checkpoint_log_bytes: u64,
    /// Dirty pages are written out early enough to keep the log below this, in bytes.
    pub log_bytes_max: u64,
    /// Seconds between sweeps of the cleaner when there is anything to clean.
    pub cleaner_interval_s: f64,
    /// Limits of in-row versions.
    pub versions: VersionCaps,
    /// Run the background threads. Off: everything runs inline and only when asked, for
    /// simulation.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            buffer_bytes: 128 << 20,
            log_segment_bytes: 16 << 20,
            checkpoint_log_bytes: 64 << 20,
            log_bytes_max: 1 << 30,
            cleaner_interval_s: 10.0,
            versions: VersionCaps::default(),
            background: true,
        }
    }
}
