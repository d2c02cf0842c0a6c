//! Who may reach the files: modes of what is made, and what is refused because others could have changed it.
//!
//! Contract: folders are made with mode 0700 and files with 0600, whatever the process's umask allows. A data folder
//! that others can enter is refused as PostgreSQL refuses it (`checkDataDir`): what is in it may be anybody's, and its
//! lock could be taken by anybody. A file that an earlier version made readable is closed when it is opened for writing.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use resurgam_base::{Error, ErrorKind, Result};

/// Mode of a file.
const FILE_MODE: u32 = 0o600;
/// Mode of a folder.
const FOLDER_MODE: u32 = 0o700;
/// Bits that neither a folder of mode 0700 nor one of 0750 has (`PG_MODE_MASK_GROUP`).
const FOLDER_REFUSED: u32 = 0o027;
/// Bits that let others at a file.
const OTHERS: u32 = 0o077;

/// The user that the process acts as.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the call has no arguments, touches no memory and cannot fail.
    unsafe { libc::geteuid() }
}

/// Options that make private files and follow no link.
pub(crate) fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Makes a folder and its missing parents.
pub(crate) fn create_dir_all(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Closes a file of this user that others can read or write.
pub(crate) fn tighten(file: &fs::File) -> std::io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.mode() & OTHERS != 0 && metadata.uid() == effective_user() {
        file.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o7777 & !OTHERS))?;
    }
    Ok(())
}

/// Closes a data folder that is being created to others, or refuses one that is not.
///
/// # Errors
/// `NotInPrerequisiteState`, with PostgreSQL's words: it is another user's, or others can enter it.
pub(crate) fn keep_folder(dir: &Path, fresh: bool) -> Result<()> {
    let refused = |what: &str| {
        Error::new(ErrorKind::NotInPrerequisiteState, format!("data directory \"{}\" {what}", dir.display()))
    };
    let metadata = fs::metadata(dir).map_err(|e| Error::io("read permissions of directory", dir.display(), &e))?;
    if !metadata.is_dir() {
        return Err(refused("is not a directory"));
    }
    if metadata.uid() != effective_user() {
        return Err(refused("has wrong ownership")
            .with_hint("The server must be started by the user that owns the data directory."));
    }
    if metadata.mode() & FOLDER_REFUSED == 0 {
        return Ok(());
    }
    if fresh {
        return fs::set_permissions(dir, fs::Permissions::from_mode(FOLDER_MODE))
            .map_err(|e| Error::io("change permissions of directory", dir.display(), &e));
    }
    Err(refused("has invalid permissions")
        .with_detail("Permissions should be u=rwx (0700) or u=rwx,g=rx (0750).")
        .with_hint(format!("Others could have changed what is in it. If nobody has: chmod 0700 \"{}\"", dir.display())))
}

/// Opens a lock file, made if it is missing: a plain file of this user, and no link that somebody else has laid.
pub(crate) fn open_lock(path: &Path) -> Result<fs::File> {
    let refused = |what: String| {
        Error::new(ErrorKind::NotInPrerequisiteState, format!("lock file \"{}\" {what}", path.display()))
            .with_hint("It is not the server's; look who has put it there, and remove it.")
    };
    let user = effective_user();
    let trusted = |owner: u32| owner == user || owner == 0;
    let mut options = options();
    options.read(true).write(true);
    match fs::symlink_metadata(path) {
        // The operator's own link, of a version store for instance.
        Ok(found) if found.is_symlink() && trusted(found.uid()) => {}
        Ok(found) if found.is_symlink() => return Err(refused(format!("is a link of user {}", found.uid()))),
        _ => {
            options.create(true).custom_flags(libc::O_NOFOLLOW);
        }
    }
    let file = options.open(path).map_err(|e| Error::io("open lock file", path.display(), &e))?;
    let metadata = file.metadata().map_err(|e| Error::io("stat lock file", path.display(), &e))?;
    if !metadata.is_file() {
        return Err(refused("is not a regular file".to_owned()));
    }
    if metadata.uid() != user {
        return Err(refused(format!("is owned by user {}", metadata.uid())));
    }
    tighten(&file).map_err(|e| Error::io("change permissions of lock file", path.display(), &e))?;
    Ok(file)
}

/// Whoever has a lock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub process: u32,
    /// A shared lock: no server's, for a server takes an exclusive one.
    pub shared: bool,
}

impl Holder {
    /// Who has `file` locked, as far as the system tells (`/proc/locks`, Linux).
    pub(crate) fn of(file: &fs::File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        Self::find(&fs::read_to_string("/proc/locks").ok()?, metadata.ino())
    }

    /// Lines are `1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF`; the last number of the file's is its inode. The device
    /// is not compared: what is shown there differs from `stat`'s on some file systems.
    fn find(locks: &str, inode: u64) -> Option<Self> {
        locks.lines().find_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, "FLOCK", _, kind, process, file, ..] = words[..] else { return None };
            if file.rsplit(':').next()?.parse() != Ok(inode) {
                return None;
            }
            Some(Self { process: process.parse().ok()?, shared: kind == "READ" })
        })
    }

    /// As part of a sentence.
    pub(crate) fn describe(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.process)).unwrap_or_default();
        let name = match name.trim() {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        let kind = if self.shared { "a shared lock" } else { "the lock" };
        format!("process {}{name} holds {kind}", self.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn folders_that_others_can_enter_are_refused_unless_they_are_new() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        create_dir_all(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        for (bits, good) in [(0o700, true), (0o750, true), (0o755, false), (0o770, false), (0o701, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
            let kept = keep_folder(&path, false);
            assert_eq!(kept.is_ok(), good, "{bits:o}");
            if let Err(error) = kept {
                assert!(error.message().ends_with("has invalid permissions"), "{error}");
                assert_eq!(error.sqlstate(), "55000");
            }
        }
        keep_folder(&path, true).unwrap();
        assert_eq!(mode(&path), 0o700);
    }

    #[test]
    fn a_lock_file_is_private_and_follows_no_strangers_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        drop(open_lock(&path).unwrap());
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        drop(open_lock(&path).unwrap());
        assert_eq!(mode(&path), 0o600);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(open_lock(&path).is_err());
        fs::remove_dir(&path).unwrap();
        // Of a link that nobody else laid the target has to be there.
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(open_lock(&path).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn the_holder_is_found_by_inode() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:131 0 EOF\n2: FLOCK  ADVISORY  READ 4711 fe:00:131 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 12 fe:00:99 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 13 fe:00:99 0 EOF\n";
        assert_eq!(Holder::find(locks, 131), Some(Holder { process: 4711, shared: true }));
        assert_eq!(Holder::find(locks, 99), Some(Holder { process: 12, shared: false }));
        assert_eq!(Holder::find(locks, 5), None);
    }
}
