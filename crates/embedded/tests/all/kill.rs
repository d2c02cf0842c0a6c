//! A process that is killed while it writes: what it was told is durable is there, and no half of a transaction.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use resurgam_embedded::{Db, Error, Result, Table, row};

use crate::options;

const TOTAL: Table<i64, i64> = Table::new("total");

row! {
    struct Entry in "entries" {
        id: i64,
        text: String,
    }
    key(id: i64);
    unique text(text);
}

/// Names the folder for the process that is killed.
const FOLDER: &str = "RESURGAM_KILL_TEST_FOLDER";

/// In the process that is killed: one transaction after another, each said once it is durable.
#[test]
fn writes_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let db = options().open(Path::new(&folder)).unwrap();
    for round in next(&db).unwrap().. {
        db.write(|tx| {
            let entries = tx.rows::<Entry>()?;
            for part in 0..5 {
                let id = round * 5 + part;
                entries.insert(&Entry { id, text: format!("{id} {}", "x".repeat((id % 7) as usize * 200)) })?;
            }
            tx.table(&TOTAL)?.put(&0, &(round + 1)).map(drop)
        })
        .unwrap();
        // To what is read by the test: the test program's own output is captured otherwise.
        use std::io::Write;
        writeln!(std::io::stderr(), "durable {round}").unwrap();
    }
}

/// The round that comes next; checks that those before it are whole.
fn next(db: &Db) -> Result<i64> {
    db.create_table(&TOTAL)?;
    db.create::<Entry>()?;
    db.read(|tx| {
        let rounds = tx.table(&TOTAL)?.get(&0)?.unwrap_or(0);
        let entries = tx.rows::<Entry>()?;
        assert_eq!(entries.count()?, rounds as u64 * 5);
        assert_eq!(entries.by("text")?.range(..)?.count() as i64, rounds * 5);
        for (at, entry) in entries.iter()?.enumerate() {
            assert_eq!(entry?.id, at as i64);
        }
        Ok(rounds)
    })
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("db");
    let mut acknowledged = -1;
    for rounds in [3, 1, 12, 30] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::writes_until_it_is_killed", "--exact", "--nocapture", "--test-threads=1"])
            .env(FOLDER, &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stderr.take().unwrap());
        let mut seen = 0;
        for line in output.lines() {
            let line = line.unwrap();
            if let Some(round) = line.strip_prefix("durable ") {
                acknowledged = round.parse().unwrap();
                seen += 1;
            }
            if seen == rounds {
                break;
            }
        }
        assert_eq!(seen, rounds, "the process ended by itself");
        // It has the database: another process is told so.
        match options().open(&folder) {
            Err(Error::InUse { here: false, .. }) => {}
            other => panic!("{other:?}"),
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let db = options().open(&folder).unwrap();
        let next = next(&db).unwrap();
        assert!(next > acknowledged, "round {acknowledged} was acknowledged, and there are {next}");
    }
}
