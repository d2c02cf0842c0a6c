//! Which store a URL names, and the two clients of it: one that repeats requests whose answer was lost or an overload, and
//! one that never does, for the request that decides who has created an object.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};
use resurgam_base::{Error, ErrorKind, Result};
use resurgam_xstore::{StoreError, StoreErrorKind, StoreResult};
use url::Url;

use crate::complete::CompletesOnce;

/// What URLs begin with.
pub(crate) const SCHEMES: [&str; 3] = ["s3", "gs", "az"];

/// A request is repeated for so long: whoever waits for a page waits for it.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// And so often.
const RETRIES: usize = 8;

/// The clients of one place.
#[derive(Clone)]
pub(crate) struct Clients {
    /// Repeats requests; for all that may be done twice.
    pub repeating: Arc<dyn ObjectStore>,
    /// Sends each request once.
    pub once: Arc<dyn ObjectStore>,
    /// S3 itself, for uploads in parts: the repeating client, and one that sends once and completes under a condition.
    pub s3: Option<(Arc<AmazonS3>, Arc<AmazonS3>)>,
    /// What stands before each name.
    pub prefix: Path,
    /// The URL.
    pub url: String,
}

/// The parts of a URL that matter: bucket (or container) and what stands before each name.
fn parts(url: &str) -> Result<(Url, Path)> {
    let invalid =
        |what: String| Error::new(ErrorKind::InvalidParameter, format!("\"{}\" {what}", without_secrets(url)));
    let parsed = Url::parse(url).map_err(|error| invalid(format!("is no URL: {error}")))?;
    if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
        return Err(invalid("has a name, a password or options in it, where logs and views would show them".into())
            .with_hint("Credentials and options come from the environment: AWS_…, GOOGLE_…, AZURE_…."));
    }
    if parsed.host_str().is_none_or(str::is_empty) || parsed.port().is_some() || parsed.fragment().is_some() {
        return Err(invalid(format!("is no place: {}://BUCKET/PREFIX is expected", parsed.scheme())));
    }
    let prefix = Path::from_url_path(parsed.path()).map_err(|error| invalid(format!("is no place: {error}")))?;
    if prefix.parts().any(|part| part.as_ref().starts_with('.')) {
        return Err(invalid("is no place: a part of its path begins with a dot".into()));
    }
    Ok((parsed, prefix))
}

/// A URL as messages may show it.
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}

/// Whether a URL can be a place at all.
///
/// # Errors
/// `InvalidParameter`, without what may be secret in it.
pub(crate) fn check(url: &str) -> Result<()> {
    parts(url).map(|_| ())
}

fn retry(repeats: bool) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: if repeats { RETRIES } else { 0 },
        retry_timeout: RETRY_FOR,
    }
}

impl Clients {
    /// Clients for the place of a URL. Nothing is sent.
    ///
    /// # Errors
    /// `Invalid` for a URL, or an environment, that cannot be used.
    pub fn of(url: &str) -> StoreResult<Self> {
        let invalid =
            |error: String| StoreError::new(StoreErrorKind::Invalid, format!("\"{url}\" cannot be used: {error}"));
        let (parsed, prefix) =
            parts(url).map_err(|error| StoreError::new(StoreErrorKind::Invalid, error.to_string()))?;
        let shown = |error: object_store::Error| invalid(error.to_string());
        let (repeating, once, s3): (Arc<dyn ObjectStore>, Arc<dyn ObjectStore>, _) = match parsed.scheme() {
            "s3" => {
                let s3 = |repeats| {
                    let builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry(repeats));
                    let builder = if repeats { builder } else { builder.with_http_connector(CompletesOnce) };
                    builder.build().map(Arc::new).map_err(shown)
                };
                let (repeating, once) = (s3(true)?, s3(false)?);
                (Arc::clone(&repeating) as _, Arc::clone(&once) as _, Some((repeating, once)))
            }
            "gs" => {
                let gs = |repeats| {
                    let builder = GoogleCloudStorageBuilder::from_env().with_url(url).with_retry(retry(repeats));
                    builder.build().map(Arc::new).map_err(shown)
                };
                (gs(true)?, gs(false)?, None)
            }
            "az" => {
                let az = |repeats| {
                    let builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(retry(repeats));
                    builder.build().map(Arc::new).map_err(shown)
                };
                (az(true)?, az(false)?, None)
            }
            other => return Err(invalid(format!("{other}:// is none of {SCHEMES:?}"))),
        };
        Ok(Self { repeating, once, s3, prefix, url: url.trim_end_matches('/').to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, prefix) in [("s3://b", ""), ("s3://b/", ""), ("gs://b/x/y/", "x/y"), ("az://b/x", "x")] {
            assert_eq!(parts(url).unwrap().1.as_ref(), prefix, "{url}");
            assert_eq!(
                Clients::of(url).map(|c| c.prefix.to_string()).unwrap_or_else(|_| prefix.into()),
                prefix,
                "{url}"
            );
        }
        for bad in ["s3:///x", "s3://", "s3://b/.x/y", "s3://b:80/x", "s3://b/x#y", "s3://b//x"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_refused_and_not_repeated() {
        for bad in ["s3://key:hush@b/x", "s3://hush@b/x", "s3://b/x?secret=hush"] {
            let error = check(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParameter);
            assert!(!error.to_string().contains("hush") && error.to_string().contains("s3://b/x"), "{error}");
        }
    }
}
