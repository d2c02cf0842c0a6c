//! The trait, by requests.

use std::ops::Deref;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use rand::TryRngCore;
use rand::rngs::OsRng;
use resurgam_xstore::{Access, Store, StoreError, StoreErrorKind, StoreResult, Upload, check_name};

use crate::client::Clients;
use crate::outcome::unavailable;
use crate::probe::check_creates_once;
use crate::upload::ObjectUpload;
use crate::wait::wait;

/// What the names of unfinished objects begin with.
pub(crate) const UNFINISHED: &str = ".unfinished-";

/// A number that nobody else has, for names of our own.
///
/// # Errors
/// `Unavailable` when the system has none.
pub(crate) fn unique() -> StoreResult<u64> {
    OsRng.try_next_u64().map_err(|error| {
        StoreError::new(StoreErrorKind::Unavailable, format!("the system gives no random number: {error}"))
    })
}

/// A place in an object store. See the crate.
#[derive(Clone)]
pub(crate) struct ObjectPlace(Arc<Clients>);

impl Deref for ObjectPlace {
    type Target = Clients;
    fn deref(&self) -> &Clients {
        &self.0
    }
}

/// Opens the place of a URL; for writing, it is tried out that it gives a name once.
///
/// # Errors
/// `Invalid` for a place that cannot be used, `Missing` for a bucket that is not there, `Unavailable`.
pub(crate) fn open(url: &str, access: Access) -> StoreResult<Arc<dyn Store>> {
    let place = ObjectPlace::new(Clients::of(url)?);
    match access {
        Access::Write => check_creates_once(&place)?,
        // A mistake in name or credentials is told here, and not at the first object that is wanted.
        Access::Existing => drop(place.list("")?),
    }
    Ok(Arc::new(place))
}

impl ObjectPlace {
    pub fn new(clients: Clients) -> Self {
        Self(Arc::new(clients))
    }

    /// Where the object of a name is.
    pub fn path(&self, name: &str) -> StoreResult<Path> {
        check_name(name)?;
        Ok(self.below(name))
    }

    /// As [`ObjectPlace::path`], for a name of our own.
    pub fn below(&self, name: &str) -> Path {
        match self.prefix.as_ref() {
            "" => Path::from(name),
            prefix => Path::from(format!("{prefix}/{name}")),
        }
    }

    /// Names directly in a folder (none: at the top), with that folder before them, sorted.
    fn in_folder(&self, folder: &str) -> StoreResult<Vec<String>> {
        let below = if folder.is_empty() { self.prefix.clone() } else { self.path(folder)? };
        let client = Arc::clone(&self.repeating);
        let listed = wait(async move { client.list_with_delimiter(Some(&below)).await })?;
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return Err(unavailable(&self.url, "its objects cannot be listed", &error)),
        };
        let mut names: Vec<String> = listed
            .objects
            .iter()
            .filter_map(|object| object.location.filename())
            .map(|name| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, paths: Vec<Path>) -> StoreResult<()> {
        let client = Arc::clone(&self.repeating);
        let answers: Vec<_> =
            wait(async move { client.delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed()).collect().await })?;
        for answer in answers {
            match answer {
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(unavailable(&self.url, "an object cannot be deleted", &error)),
            }
        }
        Ok(())
    }

    fn short(&self, name: &str, offset: u64, len: usize, there: u64) -> StoreError {
        let what = format!(
            "object \"{name}\" in {} ends too early: {len} bytes wanted at offset {offset}, it has {there}",
            self.place()
        );
        StoreError::new(StoreErrorKind::Short, what)
    }
}

impl Store for ObjectPlace {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        let path = self.path(name)?;
        Ok(Box::new(ObjectUpload::new(self.clone(), path)))
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        let path = self.path(name)?;
        let Some(end) = offset.checked_add(len as u64) else {
            return Err(self.short(name, offset, len, self.len(name)?));
        };
        if len == 0 {
            let there = self.len(name)?;
            return if offset <= there { Ok(Vec::new()) } else { Err(self.short(name, offset, len, there)) };
        }
        let client = Arc::clone(&self.repeating);
        let answer = wait(async move { client.get_range(&path, offset..end).await })?;
        match answer {
            Ok(bytes) if bytes.len() == len => Ok(bytes.into()),
            Err(error @ Error::NotFound { .. }) => {
                Err(unavailable(&self.url, &format!("object \"{name}\" cannot be read"), &error))
            }
            // A range beyond the end comes back short, or as an error of some kind.
            answer => match (self.len(name)?, answer) {
                (there, _) if there < end => Err(self.short(name, offset, len, there)),
                (_, Err(error)) => Err(unavailable(&self.url, &format!("object \"{name}\" cannot be read"), &error)),
                (_, Ok(bytes)) => Err(StoreError::new(
                    StoreErrorKind::Unavailable,
                    format!("{}: {} bytes of \"{name}\" came for {len}", self.url, bytes.len()),
                )),
            },
        }
    }

    fn len(&self, name: &str) -> StoreResult<u64> {
        let path = self.path(name)?;
        let client = Arc::clone(&self.repeating);
        match wait(async move { client.head(&path).await })? {
            Ok(meta) => Ok(meta.size),
            Err(error) => Err(unavailable(&self.url, &format!("object \"{name}\" cannot be looked at"), &error)),
        }
    }

    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        let (folder, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let mut names = self.in_folder(folder)?;
        let begins = if folder.is_empty() { 0 } else { folder.len() + 1 };
        names.retain(|name| name[begins..].starts_with(start) && !name[begins..].starts_with('.'));
        // Whoever lists would not know what to do with a name that it could not ask for.
        names.retain(|name| check_name(name).is_ok());
        Ok(names)
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        self.remove(vec![self.path(name)?])
    }

    /// These stores answer a list or a read with what was done before it; nothing deleted comes back.
    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        self.path(folder).map(|_| ())
    }

    fn tidy(&self, folder: &str) -> StoreResult<()> {
        let begins = format!("{folder}/{UNFINISHED}");
        let left = self.in_folder(folder)?.into_iter().filter(|name| name.starts_with(&begins));
        let left: Vec<_> = left.map(|name| self.below(&name)).collect();
        if left.is_empty() { Ok(()) } else { self.remove(left) }
    }

    fn place(&self) -> String {
        format!("\"{}\"", self.url)
    }
}
