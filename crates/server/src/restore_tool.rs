//! `resurgam restore` and `resurgam clone`: a database as of a point, in a new folder. The work is in the engine (`points`).

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command};
use resurgam_engine::{
    LsnOrder, RestorePoint, RestoreRequest, RestoreStep, RestoredPoint, forget_lease, restore_point,
};
use resurgam_vfs::{RealVfs, Vfs};

use crate::tools::told;

/// Memory for pages of a replay in order of LSN, unless told: that of a server.
const REPLAY_BUFFER_BYTES: usize = 128 << 20;

fn text(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn path(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    text(name, value, help).value_parser(clap::value_parser!(PathBuf))
}

fn common(command: Command) -> Command {
    command
        .arg(
            text("archive", "URL", "The archive of the database's log: a folder, or s3://, gs://, az:// and a bucket")
                .required(true),
        )
        .arg(text("backups", "URL", "Where its backups are; not needed where the archive was begun with the database"))
        .arg(text("backup", "NAME", "The backup to use [default: the newest before the point]"))
        .arg(
            text(
                "to",
                "POINT",
                "latest, a log position (decimal, or X/Y), or a time: 2026-11-23T02:10:00Z, 2026-11-23 03:10+01",
            )
            .default_value("latest"),
        )
        .arg(path(
            "version-store",
            "FILE",
            "Where the version-store file goes, if there is one [default: in the new folder]",
        ))
}

/// `resurgam restore --archive URL --to POINT --target DIR`
pub fn restore_command() -> Command {
    common(Command::new("restore").about("Make a database as of a point in time, in a new folder"))
        .arg(path("target", "DIR", "The new data folder: missing or empty").required(true))
        .arg(
            Arg::new("whole")
                .long("whole")
                .visible_alias("now")
                .action(ArgAction::SetTrue)
                .help("Write all pages now: the folder then needs neither archive nor backup"),
        )
        .arg(path("log-dir", "DIR", "The log of the dead database: what of it is not archived yet is archived first"))
        // For measurements: what a restore would take without an archive that is sorted by page.
        .arg(
            path("replay-log", "DIR", "Load the backup, then replay this log, kept as it was written, in order of LSN")
                .hide(true)
                .requires("whole"),
        )
        .arg(
            text("replay-buffer-bytes", "BYTES", "Memory for pages of that replay")
                .hide(true)
                .requires("replay-log")
                .value_parser(clap::value_parser!(usize)),
        )
}

/// `resurgam clone --archive URL --target DIR`
pub fn clone_command() -> Command {
    common(
        Command::new("clone").about("Make a writable copy of a database that may be running; it costs what it changes"),
    )
    .arg(path("target", "DIR", "The new data folder: missing or empty").required_unless_present("forget"))
    .arg(text("name", "NAME", "Name of the lease that keeps what the clone is made of [default: one with its id]"))
    .arg(
        text("forget", "NAME", "The clone of that lease is gone: what it was made of need not be kept for it")
            .conflicts_with_all(["target", "to", "name", "backups", "backup", "version-store"]),
    )
}

/// A plain path from the root on: the new folder's server reads it from elsewhere.
fn absolute(url: &str) -> Result<String, String> {
    if url.contains("://") || url.is_empty() {
        return Ok(url.to_owned());
    }
    let path = std::path::absolute(url).map_err(|e| format!("\"{url}\": {e}"))?;
    path.into_os_string().into_string().map_err(|_| format!("\"{url}\" is not UTF-8"))
}

fn request(matches: &ArgMatches) -> Result<RestoreRequest, String> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let archive = absolute(&text("archive").unwrap_or_default())?;
    Ok(RestoreRequest {
        backups: text("backups").map(|url| absolute(&url)).transpose()?,
        backup: text("backup"),
        to: RestorePoint::parse(&text("to").unwrap_or_default()).map_err(told)?,
        version_store_path: path("version-store")
            .map(|path| std::path::absolute(&path).map_err(|e| format!("\"{}\": {e}", path.display())))
            .transpose()?,
        ..RestoreRequest::new(archive, path("target").unwrap_or_default())
    })
}

fn lsn_order(matches: &ArgMatches) -> Option<LsnOrder> {
    let log = matches.get_one::<PathBuf>("replay-log")?.clone();
    let buffer_bytes = matches.get_one::<usize>("replay-buffer-bytes").copied().unwrap_or(REPLAY_BUFFER_BYTES);
    Some(LsnOrder { log, buffer_bytes })
}

/// Runs `restore`.
pub fn restore(matches: &ArgMatches) -> Result<ExitCode, String> {
    let request = RestoreRequest {
        whole: matches.get_flag("whole"),
        log_dir: matches.get_one::<PathBuf>("log-dir").cloned(),
        lsn_order: lsn_order(matches),
        ..request(matches)?
    };
    run(&request)
}

/// Runs `clone`.
pub fn clone(matches: &ArgMatches) -> Result<ExitCode, String> {
    if let Some(name) = matches.get_one::<String>("forget") {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        let archive = matches.get_one::<String>("archive").map(String::as_str).unwrap_or_default();
        return match forget_lease(&vfs, archive, name).map_err(told)? {
            true => Ok(ExitCode::SUCCESS),
            false => Err(format!("there is no lease \"{name}\" in the archive \"{archive}\"")),
        };
    }
    let request = RestoreRequest {
        whole: false,
        clone: true,
        lease: matches.get_one::<String>("name").cloned(),
        ..request(matches)?
    };
    run(&request)
}

fn run(request: &RestoreRequest) -> Result<ExitCode, String> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let show = std::io::stderr().is_terminal();
    let mut shown = 0;
    let mut progress = |step: RestoreStep| {
        let mut err = std::io::stderr();
        let _ = match step {
            RestoreStep::LogArchived(bytes) => writeln!(err, "{bytes} bytes of log were archived first"),
            RestoreStep::Found { cut, checkpoint } => {
                writeln!(err, "the point is LSN {cut}; its last checkpoint begins at LSN {checkpoint}")
            }
            RestoreStep::Analysed { .. } => Ok(()),
            RestoreStep::Pages { done, of } => {
                let percent = done * 100 / of.max(1);
                if show && percent != shown {
                    shown = percent;
                    write!(err, "\r{percent} % of {of} pages   {}", if percent == 100 { "\n" } else { "" })
                } else {
                    Ok(())
                }
            }
        };
    };
    let made = restore_point(&vfs, request, &mut progress).map_err(told)?;
    let mut out = std::io::stdout();
    let _ = out.write_all(summary(request, &made).as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// What was made, for people.
fn summary(request: &RestoreRequest, made: &RestoredPoint) -> String {
    use std::fmt::Write;
    let target = request.target.as_path();
    let mut text = String::new();
    let mut line = |what: String| {
        let _ = writeln!(text, "{what}");
    };
    let when = made.last_commit().map_or_else(String::new, |time| format!(", after the commit of {time}"));
    line(format!("{}: the database as of LSN {}{when}", target.display(), made.cut));
    if let Some(backup) = &made.backup {
        line(format!("made from backup {backup} and the archive"));
    }
    if made.databases > 1 {
        line(format!("made from the archives of {} databases, each of which was made of the next", made.databases));
    }
    line(match (made.unfinished, made.to_undo) {
        (0, _) => "no transaction was unfinished then".to_owned(),
        (n, 0) => format!("{n} transactions were unfinished then: they are rolled back"),
        (n, undo) => {
            format!("{n} transactions were unfinished then: they are rolled back, {undo} of them after it is opened")
        }
    });
    if !made.in_doubt.is_empty() {
        let names: Vec<String> = made.in_doubt.iter().take(20).map(|gid| format!("\"{gid}\"")).collect();
        let more = if made.in_doubt.len() > names.len() { ", …" } else { "" };
        line(format!(
            "{} prepared transactions are in doubt, to be decided with COMMIT PREPARED or ROLLBACK PREPARED: {}{more}",
            made.in_doubt.len(),
            names.join(", ")
        ));
    }
    if request.whole {
        line(format!("{} pages written; neither archive nor backup is needed any more", made.pages_written));
    } else if request.clone {
        line(
            "pages are restored as they are asked for; archive and backup are needed for as long as the clone is"
                .to_owned(),
        );
    } else {
        line("pages are restored as they are asked for, and the rest in the background: until then archive and backup are needed".to_owned());
    }
    if made.pages_damaged > 0 {
        line(format!("{} pages were damaged when the backup was made, and are so here", made.pages_damaged));
    }
    if let Some(lease) = &made.lease {
        line(format!("lease \"{lease}\" keeps what it is made of"));
    }
    line("an archive of its own needs these archives and backups until it has a backup of its own that reaches back far enough".to_owned());
    line(format!("open it with: resurgam serve --data {} [--archive URL of its own]", quoted(target)));
    text
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains(' ') { format!("\"{text}\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<RestoreRequest, String> {
        let matches = restore_command().try_get_matches_from(arguments).map_err(|e| e.to_string())?;
        request(&matches)
    }

    #[test]
    fn arguments() {
        let made = parsed(&["restore", "--archive", "a", "--to", "1/A", "--target", "t"]).unwrap();
        assert!(Path::new(&made.archive).is_absolute() && made.to == RestorePoint::parse("4294967306").unwrap());
        assert!(parsed(&["restore", "--archive", "a", "--to", "yesterday", "--target", "t"]).is_err());
        assert!(parsed(&["restore", "--archive", "a"]).is_err(), "no target");
        restore_command().debug_assert();
        let replay = |arguments: &[&str]| {
            let all = ["restore", "--archive", "a", "--target", "t"].iter().chain(arguments);
            restore_command().try_get_matches_from(all).map(|matches| lsn_order(&matches))
        };
        let order = replay(&["--whole", "--replay-log", "l", "--replay-buffer-bytes", "65536"]).unwrap().unwrap();
        assert_eq!((order.log.as_path(), order.buffer_bytes), (Path::new("l"), 65536));
        assert!(replay(&["--whole"]).unwrap().is_none());
        assert!(replay(&["--replay-log", "l"]).is_err() && replay(&["--whole", "--replay-buffer-bytes", "1"]).is_err());
        clone_command().debug_assert();
        assert!(clone_command().try_get_matches_from(["clone", "--archive", "a", "--forget", "n"]).is_ok());
        assert!(
            clone_command()
                .try_get_matches_from(["clone", "--archive", "a", "--forget", "n", "--target", "t"])
                .is_err()
        );
        assert!(clone_command().try_get_matches_from(["clone", "--archive", "a"]).is_err());
    }
}
