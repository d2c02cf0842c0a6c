//! What an error of a request says about the object.

use object_store::{Error, ObjectStore, ObjectStoreExt, path::Path};
use resurgam_xstore::{StoreError, StoreErrorKind, StoreResult};

/// An error with all its causes, in one line.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(below) = cause {
        let below_text = below.to_string();
        if !text.contains(&below_text) {
            text = format!("{text}: {below_text}");
        }
        cause = below.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error of a request that changes nothing, or may be repeated.
pub(crate) fn unavailable(place: &str, what: &str, error: &Error) -> StoreError {
    let kind = match error {
        Error::NotFound { .. } => StoreErrorKind::Missing,
        _ => StoreErrorKind::Unavailable,
    };
    StoreError::new(kind, format!("{place}: {what}: {}", told(error)))
}

/// What the request that publishes an object says: it is there by this call, or was there before, or it is not known.
pub(crate) async fn published(
    repeating: &dyn ObjectStore,
    path: &Path,
    place: &str,
    answer: Result<(), Error>,
) -> StoreResult<()> {
    let error = match answer {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let told = format!("{place}: \"{path}\" was not created: {}", told(&error));
    match error {
        // It is refused because the name is taken, or because somebody else is taking it at this moment: only an object
        // that can be seen is one to rely upon.
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            Err(match repeating.head(path).await {
                Ok(_) => StoreError::new(StoreErrorKind::Exists, format!("{place}: \"{path}\" is there already")),
                Err(_) => StoreError::new(StoreErrorKind::Unavailable, told),
            })
        }
        // The store has said no.
        Error::NotFound { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::UnknownConfigurationKey { .. } => Err(StoreError::new(StoreErrorKind::Unavailable, told)),
        _ => Err(StoreError::new(StoreErrorKind::Uncertain, told)),
    }
}
