//! The read-only tools, `inspect` and `check`; all of their work is in the `ctl` crate.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use crate::cli::folder_argument;

fn number(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name("N").help(help).value_parser(clap::value_parser!(u64))
}

/// `resurgam inspect page|log|catalog|boot DIR …`
pub fn inspect_command() -> Command {
    let part = |name, about| Command::new(name).about(about).arg(folder_argument());
    Command::new("inspect")
        .about("Print parts of a data folder, damaged ones as far as they can be read; never writes")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            part("page", "Print pages")
                .arg(number("page", "First page").required(true))
                .arg(number("count", "How many pages [default: 1]").long("count")),
        )
        .subcommand(
            part("log", "Print log records")
                .arg(number("from", "First log position [default: the oldest]").long("from"))
                .arg(number("to", "Log position to stop at [default: the end]").long("to"))
                .arg(number("page", "Only records of this page").long("page")),
        )
        .subcommand(part("catalog", "Print tables, columns and indexes"))
        .subcommand(part("boot", "Print the boot page: versions, checkpoint, identity"))
}

/// `resurgam check DIR`
pub fn check_command() -> Command {
    Command::new("check")
        .about("Verify checksums, trees, chains and allocation of a data folder; never writes")
        .arg(folder_argument())
}

fn folder(matches: &ArgMatches) -> PathBuf {
    matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default()
}

/// Runs `inspect`.
pub fn inspect(matches: &ArgMatches) -> Result<ExitCode, String> {
    let Some((part, matches)) = matches.subcommand() else { return Err("inspect what?".into()) };
    Err(format!("inspect {part} of {} is not built yet", folder(matches).display()))
}

/// Runs `check`; exit code 1 when something is wrong.
pub fn check(matches: &ArgMatches) -> Result<ExitCode, String> {
    Err(format!("check of {} is not built yet", folder(matches).display()))
}
