//! PostgreSQL beside: base backup, the same work, a kill, its folder made again from the backup and the archived log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::Options;
use super::outages::{Outage, Scene, Way, after, before};
use crate::Result;
use crate::mix::tpcc::TpcC;
use crate::mix::{Mix, Terminal, load};
use crate::servers::{Kind, Server, Work, output};
use crate::setup::Setup;

/// A loaded server that archives its log.
pub(super) struct Beside {
    work: Work,
    /// None: one of the outages went wrong.
    server: Option<Server>,
    terminals: Vec<Box<dyn Terminal>>,
}

impl Beside {
    /// Makes and loads one.
    pub(super) fn new(options: &Options, mix: &TpcC, setup: &mut Setup) -> Result<Self> {
        let work = Work::with_name(&options.common, "postgres")?;
        let archive = work.path().join("archive");
        fs::create_dir_all(&archive).map_err(|e| e.to_string())?;
        output(Command::new("chmod").arg("777").arg(&archive))?;
        let mut server = Server::create(Kind::Postgres, &options.common, work.path())?;
        setup.saw(&server);
        let settings = format!(
            "\narchive_mode = on\narchive_command = 'cp %p {0}/%f'\nrestore_command = 'cp {0}/%f %p'\nwal_level = replica\n",
            archive.display()
        );
        let conf = server.dir.join("postgresql.conf");
        let text = fs::read_to_string(&conf).map_err(|e| e.to_string())? + &settings;
        fs::write(&conf, text).map_err(|e| e.to_string())?;
        server.stop()?;
        server.start()?;
        eprintln!("loading PostgreSQL");
        load(mix, &server)?;
        Ok(Self { work, server: Some(server), terminals: mix.terminals(options.clients, options.seed) })
    }

    /// A base backup, and an outage after it; the server goes on behind it.
    pub(super) fn outage(&mut self, scene: &Scene<'_>) -> Result<Outage> {
        let mut server = self.server.take().ok_or("PostgreSQL has not come back")?;
        server.stop()?;
        server.set_buffer_mb(scene.buffer_mb);
        server.start()?;
        let base = self.work.path().join("base");
        output(Command::new("rm").arg("-rf").arg(&base))?;
        let mut backup = Command::new(scene.options.common.postgres.join("pg_basebackup"));
        backup.args(["-h", "127.0.0.1", "-U", "postgres", "-X", "none", "-c", "fast", "-p"]);
        output(backup.arg(server.port.to_string()).arg("-D").arg(&base))?;
        let worked = before(scene, scene.options.warm_up, &server, &mut self.terminals)?;
        server.client()?.query("select pg_switch_wal()")?;
        server.kill();
        let aside = self.work.path().join("pg_wal");
        let wal = log_aside(&server, &aside)?;
        let begun = Instant::now();
        let target = server.dir.clone();
        output(Command::new("rm").arg("-rf").arg(&target))?;
        output(Command::new("cp").arg("-a").arg(&base).arg(&target))?;
        output(Command::new("rm").arg("-rf").arg(&wal))?;
        fs::rename(&aside, &wal).map_err(|e| e.to_string())?;
        fs::write(target.join("recovery.signal"), "").map_err(|e| e.to_string())?;
        give_to_its_user(&target)?;
        // The log is replayed by the start: nothing is made before it but the backup's files.
        let made: Duration = begun.elapsed();
        let start = move || {
            server.start()?;
            Ok(server)
        };
        let (outage, server) = after(scene, Way::Postgres, made, &worked, &mut self.terminals, 0, start)?;
        self.server = Some(server);
        // All of it is there when the first transaction can write.
        Ok(Outage { made: outage.transaction, ..outage })
    }
}

/// As with Resurgam the log is on another disk than the data: it is there. Where it belongs.
fn log_aside(server: &Server, aside: &Path) -> Result<PathBuf> {
    let wal = server.dir.join("pg_wal");
    fs::rename(&wal, aside).map_err(|e| e.to_string())?;
    Ok(wal)
}

/// PostgreSQL refuses to run as root, and files of another user.
fn give_to_its_user(dir: &Path) -> Result<()> {
    let script = format!("if [ \"$(id -u)\" = 0 ]; then chown -R postgres:postgres {}; fi", dir.display());
    output(Command::new("sh").arg("-c").arg(script)).map(drop)
}
