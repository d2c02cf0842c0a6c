//! The read-only tool `archive`; all of its work is in the `ctl` crate.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use resurgam_base::{Lsn, PageId};
use resurgam_ctl::{ArchiveFolder, ArchiveOptions};

use crate::tools::{number, with_output};

/// `resurgam archive list|verify|inspect ARCHIVE …`
pub fn command() -> Command {
    let part = |name, about| {
        Command::new(name)
            .about(about)
            .arg(Arg::new("archive").value_name("ARCHIVE").required(true).help("The archive: a folder"))
    };
    Command::new("archive")
        .about("Print and verify a log archive; never writes")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(part("list", "Print which runs the archive is made of"))
        .subcommand(part("verify", "Read everything: checksums, counts, the chain of every page's records"))
        .subcommand(
            part("inspect", "Print the transaction stream, or the records of a page")
                .arg(number("page", "Records of this page").long("page"))
                .arg(number("from", "First log position [default: the oldest]").long("from"))
                .arg(number("to", "Log position to stop at [default: the end]").long("to")),
        )
}

/// Runs `archive`; exit code 1 when something is wrong.
pub fn run(matches: &ArgMatches) -> Result<ExitCode, String> {
    let Some((part, matches)) = matches.subcommand() else { return Err("archive what?".into()) };
    let place = matches.get_one::<String>("archive").map(String::as_str).unwrap_or_default();
    let archive = ArchiveFolder::open(place).map_err(|e| e.to_string())?;
    let success = |()| ExitCode::SUCCESS;
    match part {
        "list" => with_output(|out| archive.list(out), success),
        "verify" => with_output(
            |out| archive.verify(out),
            |report| if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE },
        ),
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
