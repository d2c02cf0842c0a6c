//! The modes of Resurgam, and PostgreSQL beside them, that a mix is run on.

use std::fs;

use crate::servers::{Kind, Server, Work};
use crate::{Common, Result};

/// A server in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Accelerated, the version before a change in the row where it fits.
    InRow,
    /// Accelerated, all versions in the version store.
    OffRow,
    /// Undo through the log.
    Traditional,
    Postgres,
}

impl Subject {
    pub fn name(self) -> &'static str {
        match self {
            Self::InRow => "accelerated, in-row versions",
            Self::OffRow => "accelerated, off-row only",
            Self::Traditional => "traditional",
            Self::Postgres => "PostgreSQL",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::InRow | Self::OffRow => Kind::Resurgam,
            Self::Traditional => Kind::Traditional,
            Self::Postgres => Kind::Postgres,
        }
    }

    /// Makes a database in a folder of its own and starts its server.
    pub fn create(self, common: &Common, work: &Work, flags: &[String]) -> Result<Server> {
        let folder = work.path().join(format!("{self:?}").to_lowercase());
        fs::create_dir_all(&folder).map_err(|e| format!("could not make \"{}\": {e}", folder.display()))?;
        let mut flags = flags.to_vec();
        if self == Self::OffRow {
            flags.push("--in-row-versioning=off".into());
        }
        Server::create_with(self.kind(), common, &folder, &flags)
    }
}

/// Resurgam's three modes, and PostgreSQL if it is wanted.
pub fn subjects(common: &Common, peers: bool) -> Result<Vec<Subject>> {
    if !common.resurgam.is_file() {
        let path = common.resurgam.display();
        return Err(format!("there is no server at \"{path}\"; build it with `cargo build --release`"));
    }
    let mut all = vec![Subject::InRow, Subject::OffRow, Subject::Traditional];
    if peers && common.postgres.join("postgres").is_file() {
        all.push(Subject::Postgres);
    } else if peers {
        eprintln!("PostgreSQL is not at \"{}\": not measured", common.postgres.display());
    }
    Ok(all)
}
