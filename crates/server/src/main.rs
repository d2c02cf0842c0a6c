//! The `resurgam` binary; everything is in the library so that tests can run it.

use resurgam_sql::pg::memory::Metered;

/// Statements allocate many small things; measured in `docs/dependencies.md`. What each thread takes is counted, to bound
/// what a statement takes.
#[global_allocator]
static ALLOCATOR: Metered<mimalloc::MiMalloc> = Metered(mimalloc::MiMalloc);

unsafe extern "C" {
    /// Of mimalloc, which is linked in: frees what is unused of the calling thread's heap (`force`: segments, too).
    fn mi_collect(force: bool);
}

fn main() -> std::process::ExitCode {
    resurgam_sql::pg::memory::set_collect(|| {
        // SAFETY: it takes no pointers, and may be called by any thread at any time.
        unsafe { mi_collect(true) }
    });
    resurgam_server::cli::run()
}
