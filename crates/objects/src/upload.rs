//! An object on its way: one request for a small one, parts for a large one.
//!
//! Parts are of one size, as some stores demand, and two are under way while the next is gathered: three parts of memory.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, MultipartUpload, ObjectStoreExt, PutMode, PutOptions};
use resurgam_xstore::{StoreError, StoreErrorKind, StoreResult, Upload};

use crate::outcome::{published, unavailable};
use crate::store::{ObjectPlace, UNFINISHED, unique};
use crate::wait::{Pending, start, wait};

/// Bytes of a part; an object of at most that is one request. (S3 takes parts of 5 MiB and more, but for the last.)
pub(crate) const PART_BYTES: usize = 8 << 20;
/// Parts that S3 takes.
const PARTS_MAX: usize = 10_000;
/// Parts under way.
const UNDER_WAY: usize = 2;

/// See the module.
pub(crate) struct ObjectUpload {
    place: ObjectPlace,
    path: Path,
    gathered: Vec<u8>,
    parts: Option<Parts>,
    /// In parts however short it is.
    in_parts: bool,
}

/// An upload in parts.
struct Parts {
    target: Target,
    sent: usize,
    under_way: VecDeque<Pending<Result<Option<PartId>, Error>>>,
    done: Vec<PartId>,
    /// It is published, or nothing is known to be left of it.
    ended: bool,
}

enum Target {
    /// To the name itself; the completion decides.
    S3 { repeating: Arc<AmazonS3>, once: Arc<AmazonS3>, path: Path, id: String },
    /// To another name; a copy decides.
    Beside { upload: Option<Box<dyn MultipartUpload>>, path: Path },
}

impl ObjectUpload {
    pub fn new(place: ObjectPlace, path: Path) -> Self {
        Self { place, path, gathered: Vec::new(), parts: None, in_parts: false }
    }

    /// One that is sent in parts, or in one part, however short it is: to try out what long ones rely upon.
    pub fn in_parts(mut self) -> Self {
        self.in_parts = true;
        self
    }

    fn failed(&self, error: &Error) -> StoreError {
        let error = unavailable(&self.place.url, &format!("a part of \"{}\" was not taken", self.path), error);
        // That a bucket, or the upload, is not there any more is no missing object.
        StoreError::new(StoreErrorKind::Unavailable, error.to_string())
    }

    fn begin(&self) -> StoreResult<Parts> {
        let target = match &self.place.s3 {
            Some((repeating, once)) => {
                let (client, path) = (Arc::clone(repeating), self.path.clone());
                let id = wait(async move { client.create_multipart(&path).await })?.map_err(|e| self.failed(&e))?;
                let (repeating, once) = (Arc::clone(repeating), Arc::clone(once));
                Target::S3 { repeating, once, path: self.path.clone(), id }
            }
            None => {
                let name = format!("{UNFINISHED}{:016x}", unique()?);
                let path = match self.path.as_ref().rsplit_once('/') {
                    Some((folder, _)) => Path::from(format!("{folder}/{name}")),
                    None => Path::from(name),
                };
                let (client, to) = (Arc::clone(&self.place.repeating), path.clone());
                let upload = wait(async move { client.put_multipart(&to).await })?.map_err(|e| self.failed(&e))?;
                Target::Beside { upload: Some(upload), path }
            }
        };
        Ok(Parts { target, sent: 0, under_way: VecDeque::new(), done: Vec::new(), ended: false })
    }

    /// Sends a part; waits for the oldest one when there are enough.
    fn send(&mut self, bytes: Vec<u8>) -> StoreResult<()> {
        if self.parts.is_none() {
            self.parts = Some(self.begin()?);
        }
        let Some(parts) = &mut self.parts else { unreachable!("made above") };
        if parts.sent >= PARTS_MAX {
            let what = format!("object \"{}\" is longer than {PARTS_MAX} parts of {PART_BYTES} bytes", self.path);
            return Err(StoreError::new(StoreErrorKind::Invalid, what));
        }
        parts.send(Bytes::from(bytes))?;
        while self.parts.as_ref().is_some_and(|parts| parts.under_way.len() > UNDER_WAY) {
            self.taken()?;
        }
        Ok(())
    }

    /// Waits for the oldest part under way.
    fn taken(&mut self) -> StoreResult<()> {
        let Some(pending) = self.parts.as_mut().and_then(|parts| parts.under_way.pop_front()) else { return Ok(()) };
        match pending.wait()? {
            Ok(id) => {
                if let Some(parts) = &mut self.parts {
                    parts.done.extend(id);
                }
                Ok(())
            }
            Err(error) => Err(self.failed(&error)),
        }
    }
}

impl Parts {
    fn send(&mut self, bytes: Bytes) -> StoreResult<()> {
        let part = self.sent;
        self.sent += 1;
        self.under_way.push_back(match &mut self.target {
            Target::S3 { repeating, path, id, .. } => {
                let (client, path, id) = (Arc::clone(repeating), path.clone(), id.clone());
                start(async move { client.put_part(&path, &id, part, bytes.into()).await.map(Some) })?
            }
            Target::Beside { upload, .. } => {
                let sending = upload.as_mut().map(|upload| upload.put_part(bytes.into()));
                start(async move {
                    match sending {
                        Some(sending) => sending.await.map(|()| None),
                        None => Ok(None),
                    }
                })?
            }
        });
        Ok(())
    }
}

impl Upload for ObjectUpload {
    fn append(&mut self, mut bytes: &[u8]) -> StoreResult<()> {
        while self.gathered.len() + bytes.len() > PART_BYTES {
            let (now, later) = bytes.split_at(PART_BYTES - self.gathered.len());
            self.gathered.extend_from_slice(now);
            bytes = later;
            let full = std::mem::take(&mut self.gathered);
            self.send(full)?;
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn publish(mut self: Box<Self>) -> StoreResult<()> {
        let last = std::mem::take(&mut self.gathered);
        let (place, path) = (self.place.clone(), self.path.clone());
        if self.parts.is_none() && !self.in_parts {
            return wait(async move {
                let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
                let answer = place.once.put_opts(&path, last.into(), options).await.map(|_| ());
                published(&*place.repeating, &path, &place.url, answer).await
            })?;
        }
        // Not empty: a part is sent when more has come.
        self.send(last)?;
        while self.parts.as_ref().is_some_and(|parts| !parts.under_way.is_empty()) {
            self.taken()?;
        }
        let Some(parts) = &mut self.parts else { unreachable!("looked at above") };
        let outcome = match &mut parts.target {
            Target::S3 { once, id, .. } => {
                let (once, id, done) = (Arc::clone(once), id.clone(), std::mem::take(&mut parts.done));
                wait(async move {
                    let answer = once.complete_multipart(&path, &id, done).await.map(|_| ());
                    published(&*place.repeating, &path, &place.url, answer).await
                })?
            }
            Target::Beside { upload, path: beside } => {
                let (upload, from) = (upload.take(), beside.clone());
                wait(async move {
                    if let Some(mut upload) = upload
                        && let Err(error) = upload.complete().await
                    {
                        let _ = upload.abort().await;
                        return Err(unavailable(&place.url, "the parts of an object were not put together", &error));
                    }
                    let answer = place.once.copy_if_not_exists(&from, &path).await;
                    let outcome = published(&*place.repeating, &path, &place.url, answer).await;
                    // One that may still be copied stays, and is tidied up later.
                    if !matches!(&outcome, Err(error) if error.kind() == StoreErrorKind::Uncertain) {
                        let _ = place.repeating.delete(&from).await;
                    }
                    outcome
                })?
            }
        };
        // An upload whose completion was refused is given up below; of one whose answer was lost nobody knows.
        parts.ended = match &outcome {
            Ok(()) => true,
            Err(error) => error.kind() == StoreErrorKind::Uncertain,
        };
        outcome
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if parts.ended {
            return;
        }
        let Parts { target, under_way, .. } = parts;
        // Nobody waits for it; what it leaves is tidied up later, or by a rule of the bucket's (docs/archive.md).
        let _ = start(async move {
            drop(under_way);
            let _ = match target {
                Target::S3 { repeating, path, id, .. } => repeating.abort_multipart(&path, &id).await,
                Target::Beside { upload: Some(mut upload), .. } => upload.abort().await,
                Target::Beside { upload: None, .. } => Ok(()),
            };
        });
    }
}
