//! The tables of the workloads, made and filled before the first run.

use std::fs;
use std::path::{Path, PathBuf};

use super::Options;
use super::workload::{Workload, pgbench, sysbench};
use crate::Result;
use crate::mix::{self, Mix};
use crate::servers::{Server, output};

/// Rows of the lab's own tables.
const OWN_ROWS: u32 = 100_000;
/// A role that may read one of them, and no more.
pub const READER: &str = "lab_reader";

/// A set of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    Pgbench,
    Own,
    Sysbench,
    TpcC,
}

/// Single statements, to hold one against another: with constraints or without, by a view or the table, as a superuser or
/// as somebody who was granted what he needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    Update,
    UpdateChecked,
    Select,
    SelectByView,
    SelectAsReader,
    Nextval,
}

impl Script {
    pub const ALL: [Self; 6] =
        [Self::Update, Self::UpdateChecked, Self::Select, Self::SelectByView, Self::SelectAsReader, Self::Nextval];

    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "UPDATE",
            Self::UpdateChecked => "UPDATE with CHECK",
            Self::Select => "SELECT",
            Self::SelectByView => "SELECT by a view",
            Self::SelectAsReader => "SELECT by a role with a GRANT",
            Self::Nextval => "nextval",
        }
    }

    fn text(self) -> String {
        let of_row = |text: &str| format!("\\set id random(1, {OWN_ROWS})\n{text} WHERE id = :id;\n");
        let update = |checked: bool| of_row(&format!("UPDATE {} SET v = v + 1", table(checked)));
        match self {
            Self::Update => update(false),
            Self::UpdateChecked => update(true),
            Self::Select | Self::SelectAsReader => of_row("SELECT v, w FROM update_plain"),
            Self::SelectByView => of_row("SELECT v, w FROM update_view"),
            Self::Nextval => "SELECT nextval('update_ids');\n".into(),
        }
    }
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
        for script in Script::ALL {
            fs::write(data.script(script), script.text()).map_err(|e| format!("could not write a script: {e}"))?;
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

    /// The file of a script of the lab's own.
    pub fn script(&self, script: Script) -> String {
        self.folder.join(format!("{script:?}.sql")).to_string_lossy().into_owned()
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
                Tables::Own => make_own(server)?,
            }
        }
        mix::quiesce(server)
    }
}

fn table(checked: bool) -> &'static str {
    if checked { "update_checked" } else { "update_plain" }
}

/// Two tables that differ in their constraints only, a view of the first, who may read it, and a sequence.
fn make_own(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    for (checked, constraints) in [(false, ""), (true, ", CHECK (v >= 0), CHECK (w <> 'none' AND id + v > 0)")] {
        let table = table(checked);
        client.query(&format!("CREATE TABLE {table} (id int PRIMARY KEY, v int NOT NULL, w text{constraints})"))?;
        client
            .query(&format!("INSERT INTO {table} SELECT i, 0, 'some words' FROM generate_series(1, {OWN_ROWS}) i"))?;
    }
    client.query("CREATE VIEW update_view AS SELECT id, v, w FROM update_plain")?;
    client.query(&format!("CREATE ROLE {READER} LOGIN"))?;
    client.query(&format!("GRANT SELECT ON update_plain TO {READER}"))?;
    client.query("CREATE SEQUENCE update_ids")?;
    Ok(())
}
