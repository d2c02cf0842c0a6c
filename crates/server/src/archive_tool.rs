//! The tool `archive`: printing and verifying is work of the `ctl` crate, giving up what is no longer needed of the engine.

use std::path::PathBuf;
use std::process::ExitCode;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use resurgam_base::{Error, ErrorKind, Lsn, PageId};
use resurgam_ctl::{ArchiveFolder, ArchiveOptions, Folder, compare};
use resurgam_engine::{ExpireRequest, Expired, expire_archive};
use resurgam_vfs::{RealVfs, Vfs};

use crate::settings::Value;
use crate::tools::{number, told, with_output};

/// `resurgam archive list|verify|inspect|expire ARCHIVE …`
pub fn command() -> Command {
    let part = |name, about| {
        Command::new(name)
            .about(about)
            .arg(Arg::new("archive").value_name("ARCHIVE").required(true).help("The archive: a folder"))
    };
    Command::new("archive")
        .about("Print and verify a log archive; give up what is no longer needed of it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(part("list", "Print which runs the archive is made of"))
        .subcommand(
            part("verify", "Read everything: checksums, counts, the chain of every page's records")
                .arg(
                    Arg::new("against").long("against").value_name("DATA").value_parser(clap::value_parser!(PathBuf)).help(
                        "Also make every page of the archive, and compare it byte by byte with this data folder, which no server has open",
                    ),
                )
                .arg(
                    Arg::new("backups")
                        .long("backups")
                        .value_name("FOLDER")
                        .requires("against")
                        .help("The place of the backups, where the archive was begun later than the database"),
                ),
        )
        .subcommand(
            part("inspect", "Print the transaction stream, or the records of a page")
                .arg(number("page", "Records of this page").long("page"))
                .arg(number("from", "First log position [default: the oldest]").long("from"))
                .arg(number("to", "Log position to stop at [default: the end]").long("to")),
        )
        .subcommand(
            part("expire", "Delete runs and backups that no point in time within the window, no clone and no restore needs; a server may run")
                .arg(
                    Arg::new("backups")
                        .long("backups")
                        .value_name("FOLDER")
                        .help("The place of the backups; without one the archive keeps everything that makes the oldest point"),
                )
                .arg(
                    Arg::new("recovery-window")
                        .long("recovery-window")
                        .value_name("TIME")
                        .required(true)
                        .value_parser(|text: &str| match Duration::read(text)? {
                            window if window.is_zero() => Err("it must be longer than nothing".to_owned()),
                            window => Ok(window),
                        })
                        .help("How far back points in time are promised: 7d, 12h"),
                )
                .arg(
                    Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Only print what would go"),
                ),
        )
}

/// Runs `archive`; exit code 1 when something is wrong.
pub fn run(matches: &ArgMatches) -> Result<ExitCode, String> {
    let Some((part, matches)) = matches.subcommand() else { return Err("archive what?".into()) };
    let place = matches.get_one::<String>("archive").map(String::as_str).unwrap_or_default();
    if part == "expire" {
        return expire(place, matches);
    }
    let archive = ArchiveFolder::open(place).map_err(|e| e.to_string())?;
    let success = |()| ExitCode::SUCCESS;
    match part {
        "list" => with_output(|out| archive.list(out), success),
        "verify" => {
            let against = matches.get_one::<PathBuf>("against");
            let backups = matches.get_one::<String>("backups").map(String::as_str);
            let verify = |out: &mut dyn std::io::Write| {
                let sound = archive.verify(out)?.problems.is_empty();
                let Some(data) = against else { return Ok(sound) };
                Ok(compare(&archive, backups, &Folder::open(data)?, out)?.is_same() && sound)
            };
            with_output(verify, |good| if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        _ => {
            let number = |name: &str| matches.get_one::<u64>(name).copied();
            let options = ArchiveOptions {
                page: number("page").map(PageId),
                from: number("from").map(Lsn),
                to: number("to").map(Lsn),
            };
            with_output(|out| archive.inspect(options, out), success)
        }
    }
}

fn expire(archive: &str, matches: &ArgMatches) -> Result<ExitCode, String> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let request = ExpireRequest {
        archive: archive.to_owned(),
        backups: matches.get_one::<String>("backups").cloned(),
        window: matches.get_one::<Duration>("recovery-window").copied().unwrap_or_default(),
        dry_run: matches.get_flag("dry-run"),
    };
    let done = expire_archive(&vfs, &request).map_err(told)?;
    let text = what_went(&request, &done);
    let failed = |error: std::io::Error| Error::new(ErrorKind::Io, error.to_string());
    with_output(|out| out.write_all(text.as_bytes()).map_err(failed), |()| ExitCode::SUCCESS)
}

/// What went, or would go, and why not more.
fn what_went(request: &ExpireRequest, done: &Expired) -> String {
    let mut text = String::new();
    let mut line = |what: String| {
        let _ = writeln!(text, "{what}");
    };
    match done.promised {
        Some(lsn) => line(format!("points in time are promised from LSN {lsn} on")),
        None => line("the archive has no point that is older than the window: everything is kept".to_owned()),
    }
    if let Some(base) = &done.plan.base {
        line(format!(
            "the oldest of them is made of backup {base} and the archive from LSN {} on",
            done.plan.keep_from
        ));
    }
    let (would, runs, backups, bytes) = match request.dry_run {
        true => ("would be ", done.plan.runs.len() as u64, done.plan.backups.len() as u64, done.plan.bytes()),
        false => ("", done.given_up.runs, done.given_up.backups, done.given_up.bytes),
    };
    for run in &done.plan.runs {
        line(format!("  {} ({} bytes)", run.id.name(), run.len));
    }
    for (name, bytes) in &done.plan.backups {
        line(format!("  backup {name} ({bytes} bytes)"));
    }
    line(format!("{runs} runs and {backups} backups, {bytes} bytes, {would}deleted"));
    for what in &done.plan.held_by {
        line(format!("note: {what}"));
    }
    text
}
