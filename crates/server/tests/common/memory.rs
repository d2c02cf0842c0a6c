//! Memory of a process: what it has, what it had at most, statements that want too much, and the kernel's bound.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Resident memory of a process in bytes.
pub fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    let kb: u64 = line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number");
    kb << 10
}

/// The most that a process has while `work` runs.
pub fn peak(process: u32, work: impl FnOnce()) -> u64 {
    let (most, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let sampler = {
        let (most, done) = (Arc::clone(&most), Arc::clone(&done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(resident(process), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    work();
    done.store(true, Ordering::Relaxed);
    sampler.join().expect("sampler");
    most.load(Ordering::Relaxed)
}

/// Statements that want much more memory than there is for queries.
pub fn bombs() -> Vec<String> {
    let literal = format!("SELECT length('{}')", "x".repeat(100 << 20));
    let list = format!("SELECT 1 WHERE 5 IN ({}0)", "1,".repeat(1 << 20));
    let texts = [
        "SELECT length(repeat(repeat('x', 1000000), 1000))",
        "SELECT max(length(x)) FROM (SELECT repeat('x', 1000000) || i AS x FROM generate_series(1, 2000) AS s(i) OFFSET 0) AS q",
        "SELECT count(*) FROM generate_series(1, 2000) AS s(i) WHERE length(repeat('x', 1000000) || i) > 5",
        "SELECT array_length(array_agg(repeat('x', 100000) || i), 1) FROM generate_series(1, 20000) AS s(i)",
        "SELECT length(string_agg(repeat('x', 100000) || i, ',')) FROM generate_series(1, 20000) AS s(i)",
        "SELECT max(length(t)) FROM (SELECT i % 5, string_agg(repeat('x', 100000) || i, ',') AS t FROM generate_series(1, 20000) AS s(i) GROUP BY 1) AS q",
        "SELECT count(DISTINCT repeat('x', 10000) || i) FROM generate_series(1, 100000) AS s(i)",
        "SELECT count(*) FROM (SELECT i FROM generate_series(1, 5000000) AS s(i) ORDER BY -i OFFSET 0) AS q",
        "SELECT count(*) FROM generate_series(1, 3000000) AS a(i) JOIN generate_series(1, 3000000) AS b(i) ON a.i = b.i",
        "INSERT INTO s SELECT i, repeat('x', 100000) FROM generate_series(1, 3000) AS s(i) RETURNING t",
        "SELECT array_length(string_to_array(repeat('x,', 10000000), ','), 1)",
        "SELECT length(format('%s%s%s%s', repeat('x', 100000000), repeat('y', 100000000), repeat('z', 100000000), repeat('x', 100000000)))",
        "SELECT length(repeat('x', 60000000)) + length(repeat('x', 60000000) || repeat('y', 60000000))",
        "SELECT length(repeat('x', 100000000)::bytea), length(encode(repeat('x', 60000000)::bytea, 'hex'))",
        "SELECT length(to_jsonb(repeat('x', 100000000))::text), md5(reverse(repeat('x', 100000000)))",
        "SELECT length(regexp_replace(repeat('x', 5000000), 'x', 'yy', 'g'))",
        "SELECT regexp_count(repeat('x', 5000000), 'x'), cardinality(regexp_split_to_array(repeat('x ', 5000000), ' '))",
        "SELECT max(length(x)) FROM (SELECT string_agg(repeat('x', 1000), '') OVER (ORDER BY i) AS x FROM generate_series(1, 20000) AS s(i)) AS q",
        "SELECT max(length(x)) FROM (SELECT first_value(repeat('x', 5000000)) OVER () AS x FROM generate_series(1, 8000) AS s(i)) AS q",
        "SELECT max(length(x)) FROM (SELECT max(repeat('x', 5000000)) OVER (ORDER BY i) AS x FROM generate_series(1, 8000) AS s(i)) AS q",
        "SELECT length((('[' || repeat('1,', 12000000) || '1]')::jsonb)::text)",
        "SELECT cardinality(('{' || repeat('1,', 12000000) || '1}')::int[])",
        "WITH RECURSIVE r(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM r WHERE length(t) < 1000000000) SELECT count(*) FROM r",
    ];
    texts.into_iter().map(String::from).chain([literal, list]).collect()
}

/// A control group of the kernel with a bound on the memory of its processes; removed when dropped.
pub struct ControlGroup {
    folder: PathBuf,
    most: &'static str,
}

impl ControlGroup {
    /// Puts a process into a group of its own with `bytes` of memory and no swap.
    ///
    /// # Errors
    /// Where no group can be made: there are none, or the user may not.
    pub fn around(process: u32, bytes: u64) -> io::Result<Self> {
        let name = format!("resurgam-test-{process}");
        let old = Path::new("/sys/fs/cgroup/memory");
        let (folder, limit, most) = if old.join("memory.limit_in_bytes").exists() {
            (old.join(name), "memory.limit_in_bytes", "memory.max_usage_in_bytes")
        } else {
            (Path::new("/sys/fs/cgroup").join(name), "memory.max", "memory.peak")
        };
        // One that a test left which was killed, and whose process id has come round: it is empty, or stays.
        let _ = std::fs::remove_dir(&folder);
        std::fs::create_dir(&folder)?;
        let group = Self { folder, most };
        std::fs::write(group.folder.join(limit), bytes.to_string())?;
        let swap = group.folder.join("memory.swap.max");
        if swap.exists() {
            std::fs::write(swap, "0")?;
        }
        std::fs::write(group.folder.join("cgroup.procs"), process.to_string())?;
        Ok(group)
    }

    /// The most memory that the group had, in bytes.
    pub fn most(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(self.folder.join(self.most))?;
        text.trim().parse().map_err(io::Error::other)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its process is ending: a group that still has one cannot be removed.
        for _ in 0..500 {
            if std::fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
