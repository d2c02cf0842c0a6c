//! Places by their URLs: a folder, or whatever a crate above has registered a scheme for.
//!
//! A plain path and `file://` name folders of the [`Vfs`], so that the engine and its tests depend on nothing else. Object
//! stores need a network, TLS and a runtime: their crate registers its schemes when the server starts ([`register`]), and
//! nobody who opens a [`Place`] knows which kind it is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use resurgam_base::{Error, ErrorKind, Result};
use resurgam_vfs::Vfs;

use crate::folder::FolderStore;
use crate::{Store, StoreResult};

/// What for a place is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To create objects: a folder is made if it is missing; of an object store it is tried out that a name is given once.
    Write,
    /// Only to read (and delete) what is there: a place that is missing is an error.
    Existing,
}

/// A kind of places that is not a folder.
#[derive(Clone, Copy)]
pub struct Scheme {
    /// What stands before `://`, in small letters.
    pub name: &'static str,
    /// Whether a URL can be one of these at all, without reaching for it.
    pub check: fn(url: &str) -> Result<()>,
    /// Opens the place of a URL.
    pub open: fn(url: &str, access: Access) -> StoreResult<Arc<dyn Store>>,
}

static SCHEMES: RwLock<Vec<Scheme>> = RwLock::new(Vec::new());

/// Adds a kind of places for this process; one that is there already under that name stays.
pub fn register(scheme: Scheme) {
    let mut schemes = SCHEMES.write();
    if !schemes.iter().any(|known| known.name == scheme.name) {
        schemes.push(scheme);
    }
}

/// A place that a URL names. Nothing is opened yet.
#[derive(Clone)]
pub struct Place {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Folder(PathBuf),
    Url { url: String, scheme: Scheme },
}

impl Place {
    /// The place of a URL: a plain path, relative to `dir` unless absolute, `file://` and an absolute path, or a URL of a
    /// registered kind.
    ///
    /// # Errors
    /// `NotSupported` for another kind of place; `InvalidParameter` for a URL that names none.
    pub fn of(dir: &Path, url: &str) -> Result<Self> {
        let path = match url.split_once("://") {
            None => url,
            Some((scheme, path)) if scheme.eq_ignore_ascii_case("file") => {
                if !path.starts_with('/') {
                    return Err(Error::new(
                        ErrorKind::InvalidParameter,
                        format!("\"{url}\" names no folder: file:// is followed by an absolute path"),
                    ));
                }
                path
            }
            Some((name, _)) => {
                let schemes = SCHEMES.read();
                let Some(scheme) = schemes.iter().find(|known| name.eq_ignore_ascii_case(known.name)) else {
                    let known: Vec<_> = schemes.iter().map(|known| format!("{}://", known.name)).collect();
                    let hint = match known.is_empty() {
                        true => "Name a folder, or file:// and a folder.".to_owned(),
                        false => format!("Name a folder, or a place that begins with file://, {}.", known.join(", ")),
                    };
                    let what =
                        format!("the place \"{url}\" cannot be used: places of kind \"{name}\" are not supported");
                    return Err(Error::new(ErrorKind::NotSupported, what).with_hint(hint));
                };
                (scheme.check)(url)?;
                return Ok(Self { kind: Kind::Url { url: url.to_owned(), scheme: *scheme } });
            }
        };
        if path.is_empty() {
            return Err(Error::new(ErrorKind::InvalidParameter, "a place for the archive or for backups is empty"));
        }
        Ok(Self { kind: Kind::Folder(dir.join(path)) })
    }

    /// Opens it.
    ///
    /// # Errors
    /// `Missing` for a place that is not there; `Invalid` for one that cannot be used; `Unavailable`.
    pub fn open(&self, vfs: &Arc<dyn Vfs>, access: Access) -> StoreResult<Arc<dyn Store>> {
        match (&self.kind, access) {
            (Kind::Folder(path), Access::Write) => Ok(Arc::new(FolderStore::open(Arc::clone(vfs), path)?)),
            (Kind::Folder(path), Access::Existing) => Ok(Arc::new(FolderStore::existing(Arc::clone(vfs), path)?)),
            (Kind::Url { url, scheme }, access) => (scheme.open)(url, access),
        }
    }

    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Folder(path) => Some(path),
            Kind::Url { .. } => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Folder(path) => write!(f, "{}", path.display()),
            Kind::Url { url, .. } => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_vfs::SimVfs;

    use super::*;
    use crate::StoreErrorKind;

    #[test]
    fn folders() {
        let dir = Path::new("/data");
        for (url, path) in
            [("archive", "/data/archive"), ("/a/b", "/a/b"), ("file:///a/b", "/a/b"), ("FILE:///a", "/a")]
        {
            assert_eq!(Place::of(dir, url).unwrap().folder(), Some(Path::new(path)), "{url}");
        }
        for bad in ["", "file://a", "file://"] {
            assert_eq!(Place::of(dir, bad).err().unwrap().kind(), ErrorKind::InvalidParameter, "{bad}");
        }
    }

    #[test]
    fn kinds_are_registered_once() {
        let none = Place::of(Path::new(""), "nosuch://bucket/x").err().unwrap();
        assert_eq!(none.kind(), ErrorKind::NotSupported);
        fn check(url: &str) -> Result<()> {
            match url.ends_with('!') {
                true => Err(Error::new(ErrorKind::InvalidParameter, "no bang")),
                false => Ok(()),
            }
        }
        fn open(url: &str, access: Access) -> StoreResult<Arc<dyn Store>> {
            Err(crate::StoreError::new(StoreErrorKind::Missing, format!("{url} for {access:?}")))
        }
        fn other(_: &str, _: Access) -> StoreResult<Arc<dyn Store>> {
            Err(crate::StoreError::new(StoreErrorKind::Full, "the second one"))
        }
        register(Scheme { name: "known", check, open });
        register(Scheme { name: "known", check, open: other });
        let place = Place::of(Path::new("/data"), "Known://bucket/x").unwrap();
        assert_eq!((place.to_string().as_str(), place.folder()), ("Known://bucket/x", None));
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let error = place.open(&vfs, Access::Existing).err().unwrap();
        assert_eq!((error.kind(), error.to_string().contains("Existing")), (StoreErrorKind::Missing, true));
        assert_eq!(Place::of(Path::new(""), "known://!").err().unwrap().kind(), ErrorKind::InvalidParameter);
        let none = Place::of(Path::new(""), "nosuch://bucket").err().unwrap();
        assert!(none.hint().is_some_and(|hint| hint.contains("known://")), "{none:?}");
    }
}
