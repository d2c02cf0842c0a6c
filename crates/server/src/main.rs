//! The `resurgam` binary; everything is in the library so that tests can run it.

use resurgam_sql::pg::memory::Metered;

/// Statements allocate many small things; measured in `docs/dependencies.md`. What each thread takes is counted, to bound
/// what a statement takes.
#[global_allocator]
static ALLOCATOR: Metered<mimalloc::MiMalloc> = Metered(mimalloc::MiMalloc);

fn main() -> std::process::ExitCode {
    resurgam_server::cli::run()
}
