//! The read-only tools, `inspect` and `check`; all of their work is in the `ctl` crate.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use resurgam_base::{Lsn, PageId, TxId};
use resurgam_ctl::{
    CheckProgress, Folder, LogOptions, PageOptions, inspect_boot, inspect_catalog, inspect_log, inspect_page,
    parse_kind,
};

use crate::cli::folder_argument;

pub(crate) fn number(name: &'static str, help: &'static str) -> Arg {
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
                .arg(number("count", "How many pages [default: 1]").long("count"))
                .arg(
                    Arg::new("current")
                        .long("current")
                        .action(ArgAction::SetTrue)
                        .help("The page with its changes in the log, as opening the database would make it"),
                ),
        )
        .subcommand(
            part("log", "Print log records")
                .arg(number("from", "First log position [default: the oldest]").long("from"))
                .arg(number("to", "Log position to stop at [default: the end]").long("to"))
                .arg(number("page", "Only records of this page").long("page"))
                .arg(number("tx", "Only records of this transaction").long("tx"))
                .arg(
                    Arg::new("kind")
                        .long("kind")
                        .value_name("KIND")
                        .help("Only records of this kind: page, commit, abort, …"),
                ),
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

fn folder(matches: &ArgMatches) -> Result<Folder, String> {
    let dir = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default();
    Folder::open(&dir).map_err(|e| e.to_string())
}

/// An error as a person reads it, with what to do about it.
pub(crate) fn told(error: resurgam_base::Error) -> String {
    match error.hint() {
        Some(hint) => format!("{error}\n{hint}"),
        None => error.to_string(),
    }
}

/// Runs `tool` with standard output. A reader that goes away (`| head`) is no failure.
pub(crate) fn with_output<T>(
    tool: impl FnOnce(&mut dyn Write) -> resurgam_base::Result<T>,
    done: impl FnOnce(T) -> ExitCode,
) -> Result<ExitCode, String> {
    let mut out = Pipe { out: BufWriter::new(std::io::stdout().lock()), broken: false };
    let result = tool(&mut out).map_err(told);
    let flushed = out.flush();
    match result {
        _ if out.broken => Ok(ExitCode::SUCCESS),
        Ok(value) => flushed.map(|()| done(value)).map_err(|e| e.to_string()),
        Err(message) => Err(message),
    }
}

/// Remembers whether the reader went away.
struct Pipe<W> {
    out: W,
    broken: bool,
}

impl<W: Write> Pipe<W> {
    fn note<T>(&mut self, result: std::io::Result<T>) -> std::io::Result<T> {
        self.broken |= result.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe);
        result
    }
}

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

/// Runs `inspect`.
pub fn inspect(matches: &ArgMatches) -> Result<ExitCode, String> {
    let Some((part, matches)) = matches.subcommand() else { return Err("inspect what?".into()) };
    let folder = folder(matches)?;
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let success = |()| ExitCode::SUCCESS;
    match part {
        "page" => {
            let first = PageId(number("page").unwrap_or(0));
            let options = PageOptions { current: matches.get_flag("current") };
            with_output(|out| inspect_page(&folder, first, number("count").unwrap_or(1), options, out), success)
        }
        "log" => {
            let kind = match matches.get_one::<String>("kind") {
                Some(name) => {
                    Some(parse_kind(name).ok_or_else(|| format!("there is no kind of log record \"{name}\""))?)
                }
                None => None,
            };
            let options = LogOptions {
                from: number("from").map(Lsn),
                to: number("to").map(Lsn),
                page: number("page").map(PageId),
                tx: number("tx").map(TxId),
                kind,
            };
            with_output(|out| inspect_log(&folder, options, out), success)
        }
        "catalog" => with_output(|out| inspect_catalog(&folder, out), success),
        _ => with_output(|out| inspect_boot(&folder, out), success),
    }
}

/// Runs `check`; exit code 1 when something is wrong.
pub fn check(matches: &ArgMatches) -> Result<ExitCode, String> {
    let folder = folder(matches)?;
    let show = std::io::stderr().is_terminal();
    let mut progress = |p: CheckProgress| {
        if show && p.done > 0 {
            let _ = write!(std::io::stderr(), "\r{}: {} of {}   \r", p.phase, p.done, p.total.max(p.done));
        }
    };
    with_output(
        |out| resurgam_ctl::check(&folder, &mut progress, out),
        |report| if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE },
    )
}
