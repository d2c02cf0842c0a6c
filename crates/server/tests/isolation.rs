//! PostgreSQL's own tests of sessions beside each other (`src/test/isolation`), by its `isolationtester`.
//!
//! `isolation/specs` has its specifications (PostgreSQL 15; `isolation/COPYRIGHT` is their licence), some of them without what is refused here, as their
//! first line says; `isolation/expected` what PostgreSQL 15 printed for each: every step's rows or error, and which of them waited, in which
//! order. `RESURGAM_ISOLATION=NAME` runs one. Without the program, which Debian has in `postgresql-client-15`, it is skipped.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::process::Process;

/// How long a specification may take, in seconds; and a step, before its statement is cancelled, which changes what is printed.
const LONGEST: (u64, &str) = (120, "60");

fn tester() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let at = |version: PathBuf| version.join("lib/pgxs/src/test/isolation/isolationtester");
    versions.flatten().map(|version| at(version.path())).find(|path| path.exists())
}

/// What the program prints, but for settings of PostgreSQL's planner and locks, which say here that they have no effect.
fn run(tester: &Path, spec: &Path, process: &Process) -> Result<String, String> {
    let address = process.address;
    let name = spec.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut child = Command::new(tester)
        .arg(format!("host={} port={} user=postgres dbname=postgres", address.ip(), address.port()))
        .env("PGAPPNAME", format!("isolation/{name}"))
        .env("PGISOLATIONTIMEOUT", LONGEST.1)
        .stdin(std::fs::File::open(spec).map_err(|error| error.to_string())?)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let until = Instant::now() + Duration::from_secs(LONGEST.0);
    let mut output = child.stdout.take().map(|out| std::thread::spawn(move || std::io::read_to_string(out)));
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let status = child.wait_with_output().map_err(|error| error.to_string())?;
    let printed = output.take().and_then(|thread| thread.join().ok()).and_then(Result::ok).unwrap_or_default();
    let printed: String =
        printed.lines().filter(|line| !line.ends_with("has no effect")).map(|line| format!("{line}\n")).collect();
    match status.status.success() {
        true => Ok(printed),
        false => Err(format!("{printed}{}", String::from_utf8_lossy(&status.stderr))),
    }
}

/// The first lines that differ.
fn difference(expected: &str, got: &str) -> String {
    let (expected, got): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), got.lines().collect());
    let at = expected.iter().zip(&got).take_while(|(a, b)| a == b).count();
    let begun = expected[..at].iter().rposition(|line| line.starts_with("starting permutation")).unwrap_or(0);
    let shown = |lines: &[&str]| {
        lines.iter().skip(begun).take(at - begun + 8).map(|line| format!("  {line}\n")).collect::<String>()
    };
    format!("line {}\nPostgreSQL:\n{}here:\n{}", at + 1, shown(&expected), shown(&got))
}

#[test]
fn sessions_beside_each_other_do_what_postgresqls_do() {
    let Some(tester) = tester() else { return println!("skipped: isolationtester of PostgreSQL is not installed") };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isolation");
    let only = std::env::var("RESURGAM_ISOLATION").ok();
    let mut specs: Vec<PathBuf> =
        std::fs::read_dir(folder.join("specs")).expect("the folder").flatten().map(|file| file.path()).collect();
    specs.sort();
    let dir = tempfile::tempdir().expect("folder");
    let process = Process::start(&dir.path().join("data"), &[]);
    let mut client = process.client();
    let (mut ran, mut differ) = (0, Vec::new());
    for spec in specs {
        let name = spec.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let expected =
            std::fs::read_to_string(folder.join("expected").join(format!("{name}.out"))).expect("what is expected");
        client.query("DROP SCHEMA public CASCADE");
        client.query("CREATE SCHEMA public");
        let started = Instant::now();
        match run(&tester, &spec, &process) {
            Ok(got) if got == expected => {}
            Ok(got) | Err(got) => differ.push(format!("{name}: {}", difference(&expected, &got))),
        }
        ran += 1;
        println!(
            "{name}: {} permutations, {:.1?}",
            expected.matches("starting permutation").count(),
            started.elapsed()
        );
    }
    assert!(only.is_some() || ran > 35, "{ran} specifications");
    assert!(differ.is_empty(), "{} of {ran} differ:\n{}", differ.len(), differ.join("\n"));
}
