//! The command line.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};

use crate::roles::cluster;
use crate::settings::{self, Settings};
use crate::{archive_tool, backup_tool, restore_tool, serve, tools};

/// The whole command-line definition.
pub fn command() -> Command {
    Command::new("resurgam")
        .about("A transactional SQL database that speaks PostgreSQL's protocol and is back at once after any failure")
        .version(concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("RESURGAM_COMMIT"), ")"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(settings::add_flags(Command::new("serve").about("Serve a data folder to PostgreSQL clients")))
        .subcommand(cluster::command())
        .subcommand(tools::inspect_command())
        .subcommand(tools::check_command())
        .subcommand(archive_tool::command())
        .subcommand(restore_tool::restore_command())
        .subcommand(restore_tool::clone_command())
        .subcommand(backup_tool::command())
}

/// Runs the process's command line to its end.
pub fn run() -> ExitCode {
    let matches = match command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    resurgam_objects::register();
    let outcome = match matches.subcommand() {
        Some(("serve", matches)) => serve_command(matches),
        Some(("cluster", matches)) => cluster::run(matches),
        Some(("inspect", matches)) => tools::inspect(matches),
        Some(("check", matches)) => tools::check(matches),
        Some(("archive", matches)) => archive_tool::run(matches),
        Some(("restore", matches)) => restore_tool::restore(matches),
        Some(("clone", matches)) => restore_tool::clone(matches),
        Some(("backup", matches)) => backup_tool::run(matches),
        _ => Err("no such command".into()),
    };
    match outcome {
        Ok(code) => code,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "resurgam: {message}");
            ExitCode::FAILURE
        }
    }
}

fn serve_command(matches: &ArgMatches) -> Result<ExitCode, String> {
    serve::run(Settings::from_matches(matches)?)
}

/// The data folder argument of the tools.
pub(crate) fn folder_argument() -> Arg {
    Arg::new("dir")
        .value_name("DIR")
        .required(true)
        .help("Data folder")
        .value_parser(clap::value_parser!(std::path::PathBuf))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
        let matches = command().try_get_matches_from(["resurgam", "inspect", "page", "dir", "7"]).unwrap();
        assert_eq!(matches.subcommand_name(), Some("inspect"));
        assert!(command().try_get_matches_from(["resurgam", "inspect", "page", "dir"]).is_err());
    }

    #[test]
    fn every_setting_is_in_the_help() {
        let mut command = command();
        let serve = command.find_subcommand_mut("serve").expect("serve");
        let help = serve.render_long_help().to_string();
        for definition in settings::DEFINITIONS.iter().filter(|definition| !definition.secret) {
            assert!(help.contains(&format!("--{}", definition.flag)), "{}", definition.name);
            assert!(help.contains(definition.env), "{}", definition.name);
        }
    }
}
