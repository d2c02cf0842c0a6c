//! Files with secrets: read only if nobody else can.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bits that a file of the server's user must not have.
const OTHERS: u32 = 0o077;
/// Those that a file of root must not have: its group may read it (`check_ssl_key_file_permissions`).
const OTHERS_OF_ROOT: u32 = 0o037;

/// The user that the process acts as.
pub fn effective_user() -> u32 {
    // SAFETY: the call has no arguments, touches no memory and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whatever the process makes from here on, libraries included, is its user's alone.
pub fn close_to_others() {
    // SAFETY: the call takes a number, touches no memory and cannot fail.
    unsafe { libc::umask(0o077) };
}

/// Checks that a file (`what`, for instance "private key file") is a secret.
///
/// # Errors
/// A sentence that names it: it is not there, it is not a plain file, it is somebody else's, or others can read it.
pub fn check_secret(what: &str, path: &Path) -> Result<(), String> {
    let shown = path.display();
    let found = std::fs::metadata(path).map_err(|error| format!("could not access {what} \"{shown}\": {error}"))?;
    if !found.is_file() {
        return Err(format!("{what} \"{shown}\" is not a regular file"));
    }
    let (user, owner) = (effective_user(), found.uid());
    if owner != user && owner != 0 {
        return Err(format!("{what} \"{shown}\" must be owned by the database user or root"));
    }
    let refused = if owner == user { OTHERS } else { OTHERS_OF_ROOT };
    if found.mode() & refused != 0 {
        return Err(format!(
            "{what} \"{shown}\" has group or world access (mode {:04o}): it must have permissions u=rw (0600) or less if \
             owned by the database user, or u=rw,g=r (0640) or less if owned by root",
            found.mode() & 0o7777
        ));
    }
    Ok(())
}

/// The bytes of a secret.
///
/// # Errors
/// As [`check_secret`], and that it cannot be read.
pub fn read_secret(what: &str, path: &Path) -> Result<Vec<u8>, String> {
    check_secret(what, path)?;
    std::fs::read(path).map_err(|error| format!("could not read {what} \"{}\": {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn loose_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "hush").unwrap();
        for (mode, good) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o666, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match read_secret("password file", &path) {
                Ok(bytes) => assert!(good && bytes == b"hush", "{mode:o}"),
                Err(error) => {
                    assert!(!good, "{mode:o}: {error}");
                    assert!(
                        error.contains(path.to_str().unwrap()) && error.contains("group or world access"),
                        "{error}"
                    );
                    assert!(!error.contains("hush"), "{error}");
                }
            }
        }
        assert!(read_secret("password file", dir.path()).unwrap_err().contains("is not a regular file"));
        assert!(read_secret("password file", &dir.path().join("none")).unwrap_err().contains("none"));
    }
}
