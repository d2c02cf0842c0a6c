//! What the numbers were measured on.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::report::median;
use crate::servers::output;

/// A Markdown list that describes the machine and the disk below `work`.
pub fn describe(work: &Path) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = field(&cpu, "model name").unwrap_or_else(|| "unknown processor".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_gb = field(&memory, "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .map_or(0.0, |kb| kb / (1 << 20) as f64);
    let kernel = output(Command::new("uname").arg("-sr")).unwrap_or_default();
    let disk = output(Command::new("df").args(["--output=fstype,source"]).arg(work)).unwrap_or_default();
    let disk = disk.lines().last().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" on ");
    let sync = sync_us(work).map_or_else(|| "not measured".into(), |us| format!("{us:.0} µs"));
    format!(
        "- {model}, {cores} cores, {memory_gb:.0} GB of memory, {kernel}\n\
         - file system {disk}; median of 200 appends of 4 KB, each with fdatasync: {sync}\n"
    )
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// What making a small append durable takes, in microseconds.
fn sync_us(work: &Path) -> Option<f64> {
    let path = work.join("sync-probe");
    let mut file = File::create(&path).ok()?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        file.write_all(&[7; 4096]).ok()?;
        file.sync_data().ok()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let _ = fs::remove_file(path);
    Some(median(&times))
}
