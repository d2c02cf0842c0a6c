//! The `resurgam` binary; everything is in the library so that tests can run it.

fn main() -> std::process::ExitCode {
    resurgam_server::cli::run()
}
