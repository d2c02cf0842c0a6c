//! That a store gives a name once, tried out before it is relied upon. Some stores that speak a provider's protocol take
//! a conditional creation for a plain one, and overwrite: two archivers would then both believe to be the only one.

use resurgam_xstore::{Store, StoreError, StoreErrorKind, StoreResult, Upload};

use crate::store::{ObjectPlace, unique};
use crate::upload::ObjectUpload;

/// Creates an object twice, and one in parts twice: ten small requests.
///
/// # Errors
/// `Invalid` when a second creation has not failed; `Unavailable`.
pub(crate) fn check_creates_once(place: &ObjectPlace) -> StoreResult<()> {
    // What a crash leaves of it is of no meaning to anybody, and small; nothing else has such a name.
    let name = format!("probe-{:016x}", unique()?);
    for in_parts in [false, true] {
        let outcome = twice(place, &name, in_parts);
        let gone = place.delete(&name);
        outcome?;
        gone?;
    }
    Ok(())
}

fn twice(place: &ObjectPlace, name: &str, in_parts: bool) -> StoreResult<()> {
    let create = || {
        let upload = ObjectUpload::new(place.clone(), place.path(name)?);
        let mut upload = Box::new(if in_parts { upload.in_parts() } else { upload });
        upload.append(b"that a name is given once")?;
        upload.publish()
    };
    create()?;
    match create() {
        Err(error) if error.kind() == StoreErrorKind::Exists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(StoreError::new(
            StoreErrorKind::Invalid,
            format!(
                "{} cannot be used: it overwrites an object that was to be created only where there is none{}; \
                 two servers could both take an archive there for their own",
                place.place(),
                if in_parts { ", when it is sent in parts" } else { "" },
            ),
        )),
    }
}
