//! The tool `backup`; all of its work is in the `ctl` crate.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use resurgam_base::PageId;
use resurgam_ctl::{BackupFolder, make_backup};

use crate::tools::{number, with_output};

/// `resurgam backup list|verify|inspect BACKUPS …`, `resurgam backup make --archive ARCHIVE --backups BACKUPS`
pub fn command() -> Command {
    let part = |name, about| {
        Command::new(name)
            .about(about)
            .arg(Arg::new("backups").value_name("BACKUPS").required(true).help("The place of the backups: a folder"))
    };
    let named = || Arg::new("name").value_name("NAME");
    let place = |name: &'static str, help| Arg::new(name).long(name).value_name("FOLDER").required(true).help(help);
    Command::new("backup")
        .about("Print and verify backups; make one from an earlier one and the archive")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(part("list", "Print which backups there are"))
        .subcommand(
            part("verify", "Read everything; exit code 1 when something is wrong")
                .arg(named().help("One backup [default: all]")),
        )
        .subcommand(
            part("inspect", "Print what a backup is made of, or a page of it")
                .arg(named().required(true).help("The backup"))
                .arg(number("page", "What it has of this page").long("page")),
        )
        .subcommand(
            Command::new("make")
                .about("Make a backup as of the end of the archive, from the newest one and the archive; no server is needed")
                .arg(place("archive", "The archive of the log"))
                .arg(place("backups", "The place of the backups")),
        )
}

/// Runs `backup`; exit code 1 when something is wrong.
pub fn run(matches: &ArgMatches) -> Result<ExitCode, String> {
    let Some((part, matches)) = matches.subcommand() else { return Err("backup what?".into()) };
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let place = text("backups").unwrap_or_default();
    let success = |()| ExitCode::SUCCESS;
    let code = |sound| if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if part == "make" {
        return with_output(|out| make_backup(text("archive").unwrap_or_default(), place, out), code);
    }
    let backups = BackupFolder::open(place).map_err(|e| e.to_string())?;
    match part {
        "list" => with_output(|out| backups.list(out), success),
        "verify" => with_output(|out| backups.verify(text("name"), out), code),
        _ => {
            let page = matches.get_one::<u64>("page").copied().map(PageId);
            with_output(|out| backups.inspect(text("name").unwrap_or_default(), page, out), success)
        }
    }
}
