//! The `resurgam` binary; everything is in the library so that tests can run it.

/// Statements allocate many small things; measured in `docs/dependencies.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    resurgam_server::cli::run()
}
