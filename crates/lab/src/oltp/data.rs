//! The tables of the workloads, made and filled before the first run.

use std::fs;
use std::path::{Path, PathBuf};

use super::Options;
use super::workload::{Workload, pgbench, sysbench};
use crate::Result;
use crate::mix::{self, Mix};
use crate::servers::{Server, output};

/// Rows of the tables of the single UPDATE.
const UPDATE_ROWS: u32 = 100_000;

/// A set of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    Pgbench,
    Update,
    Sysbench,
    TpcC,
}

/// What is to be made, and the scripts of pgbench that are not its own.
pub struct Data<'a> {
    options: &'a Options,
    sets: Vec<Tables>,
    folder: PathBuf,
}

impl<'a> Data<'a> {
    /// What these workloads need; scripts go to `folder`.
    ///
    /// # Errors
    /// The system's, in words.
    pub fn new(options: &'a Options, folder: &Path, workloads: &[Workload]) -> Result<Self> {
        let mut data = Self { options, sets: Vec::new(), folder: folder.to_owned() };
        for checked in [false, true] {
            let table = table(checked);
            let script = format!("\\set id random(1, {UPDATE_ROWS})\nUPDATE {table} SET v = v + 1 WHERE id = :id;\n");
            fs::write(data.update_script(checked), script).map_err(|e| format!("could not write a script: {e}"))?;
        }
        for workload in workloads {
            if !data.has(workload.tables()) {
                data.sets.push(workload.tables());
            }
        }
        Ok(data)
    }

    pub fn has(&self, set: Tables) -> bool {
        self.sets.contains(&set)
    }

    /// The script of the single UPDATE.
    pub fn update_script(&self, checked: bool) -> PathBuf {
        self.folder.join(format!("{}.sql", table(checked)))
    }

    /// Makes all tables on a server, and lets it come to rest.
    ///
    /// # Errors
    /// In words.
    pub fn make(&self, server: &Server) -> Result<()> {
        for set in &self.sets {
            match set {
                Tables::Pgbench => {
                    let scale = self.options.scale.to_string();
                    output(pgbench(self.options, server).args(["-i", "-q", "-s", &scale, "postgres"]))?;
                }
                Tables::Sysbench => {
                    output(sysbench(self.options, server, "oltp_common").arg("prepare"))?;
                }
                Tables::TpcC => self.options.tpcc().load(&mut server.client()?)?,
                Tables::Update => make_update(server)?,
            }
        }
        mix::quiesce(server)
    }
}

fn table(checked: bool) -> &'static str {
    if checked { "update_checked" } else { "update_plain" }
}

/// Two tables that differ in their constraints only.
fn make_update(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    for (checked, constraints) in [(false, ""), (true, ", CHECK (v >= 0), CHECK (w <> 'none' AND id + v > 0)")] {
        let table = table(checked);
        client.query(&format!("CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL, w text{constraints})"))?;
        client.query(&format!(
            "INSERT INTO {table} SELECT i, 0, 'some words' FROM generate_series(1, {UPDATE_ROWS}) i"
        ))?;
    }
    Ok(())
}
