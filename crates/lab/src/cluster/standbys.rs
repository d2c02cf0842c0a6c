//! PostgreSQL with two synchronous standbys, each of which has to have a commit on its disk before it is acknowledged: what teams run
//! who want their commits in more than one place, and what the tiers are compared with.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::roles::{Cpu, pin};
use crate::servers::{Kind, Server};
use crate::{Common, Result};

/// They follow within this, or never.
const FOLLOW_MAX: Duration = Duration::from_secs(120);
/// Of the primary, beside those that any server of PostgreSQL gets here.
const SETTINGS: [&str; 2] = ["wal_level=replica", "max_wal_senders=8"];

/// See the module.
pub struct Standbys {
    pub primary: Server,
    standbys: Vec<Server>,
}

impl Standbys {
    /// A new database in `base`, without standbys yet: it is filled first.
    pub fn create(common: &Common, base: &Path) -> Result<Self> {
        fs::create_dir_all(base).map_err(|e| format!("could not make \"{}\": {e}", base.display()))?;
        let mut primary = Server::create(Kind::Postgres, common, base)?;
        primary.set_flags(SETTINGS.iter().map(|setting| (*setting).to_owned()).collect());
        primary.stop()?;
        primary.start()?;
        Ok(Self { primary, standbys: Vec::new() })
    }

    /// Starts it with so much memory; its standbys begin anew with copies, and from then on commits wait for both. `cores`: of the primary, and of
    /// the standbys.
    pub fn resize(&mut self, common: &Common, base: &Path, buffer_mb: u64, cores: Option<[&str; 2]>) -> Result<()> {
        self.standbys.clear();
        self.primary.set_buffer_mb(buffer_mb);
        self.primary.stop()?;
        self.primary.start()?;
        let mut client = self.primary.client()?;
        client.query("alter system reset synchronous_standby_names")?;
        client.query("select pg_reload_conf()")?;
        for number in 1..=2 {
            let folder = base.join(format!("standby-{number}"));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).map_err(|e| format!("could not make \"{}\": {e}", folder.display()))?;
            self.standbys.push(Server::replica(&self.primary, common, &folder)?);
        }
        if let Some([own, others]) = cores {
            // Processes that they start from now on are bound by this, too.
            pin(self.primary.process(), own);
            self.standbys.iter().for_each(|standby| {
                standby.all_processes().into_iter().for_each(|id| {
                    pin(Some(id), others);
                });
            });
            self.primary.all_processes().into_iter().for_each(|id| {
                pin(Some(id), own);
            });
        }
        client.query("alter system set synchronous_standby_names = '2 (*)'")?;
        client.query("select pg_reload_conf()")?;
        let begun = Instant::now();
        let are_sync = "select count(*) from pg_stat_replication where sync_state = 'sync'";
        while client.query(are_sync)?.as_deref() != Some("2") {
            if begun.elapsed() > FOLLOW_MAX {
                return Err("the standbys of PostgreSQL do not follow".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// What each has taken since it was started.
    pub fn cpu(&self) -> Result<Cpu> {
        let standbys: Vec<f64> = self.standbys.iter().map(Server::cpu_seconds).collect::<Result<_>>()?;
        Ok(vec![("PostgreSQL", self.primary.cpu_seconds()?), ("its standbys", standbys.iter().sum())])
    }
}
