//! Object stores as places of archives and backups: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob
//! Storage, over the `object_store` crate. The mechanisms above ask for nothing but [`Store`](resurgam_xstore::Store):
//! immutable objects that are created once (Socrates, section 4.7: the long-term home of log and pages is cheap, durable
//! and slow; Instant Restore, section 3.1: runs are written once and only read).
//!
//! | file | concept |
//! |---|---|
//! | `client.rs` | which store a URL names, and the two clients of it: one that repeats requests, one that never does |
//! | `complete.rs` | S3: the completion of an upload in parts that fails where the name is taken |
//! | `store.rs` | the trait, by requests |
//! | `upload.rs` | an object on its way: one request, or parts |
//! | `outcome.rs` | what an error of a request says about the object |
//! | `probe.rs` | that a store gives a name once, tried out before it is relied upon |
//! | `wait.rs` | requests run on threads of their own; who calls waits |
//!
//! # Creating once
//! Numbered manifests are a compare-and-swap, so two creations of one name must not both succeed, and who was told `Ok`
//! must have been first. Small objects are one conditional request (`If-None-Match: *` and its kin). Large ones are
//! uploaded in parts: on S3 the completion carries the condition; elsewhere the parts become an object of another name,
//! which the store copies under a condition. The request that decides is never repeated: a repetition that finds the name
//! taken could not tell a rival from itself. When its answer is lost the outcome is
//! [`Uncertain`](resurgam_xstore::StoreErrorKind::Uncertain), which the callers know how to take.
//!
//! # Credentials
//! As the provider's own tools take them: environment variables (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_…`,
//! `AZURE_…`), workload identity, the instance's role. Never in a URL: those are shown in views and logs.

mod client;
mod complete;
mod outcome;
mod probe;
mod store;
mod upload;
mod wait;

#[cfg(test)]
mod tests;

use resurgam_xstore::Scheme;

/// Makes `s3://`, `gs://` and `az://` places of this process.
pub fn register() {
    for name in client::SCHEMES {
        resurgam_xstore::register(Scheme { name, check: client::check, open: store::open });
    }
}
