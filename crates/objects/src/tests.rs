//! The trait's promises, in memory and against the stores that the environment names (`RESURGAM_OBJECTS`: URLs, with blanks
//! between them; credentials and endpoint as for the server). `scripts/objects.sh` starts such stores.

use std::sync::{Arc, Barrier};

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use resurgam_xstore::{Access, Store, StoreErrorKind, Upload};

use crate::client::Clients;
use crate::probe::check_creates_once;
use crate::store::{ObjectPlace, UNFINISHED, unique};
use crate::upload::{ObjectUpload, PART_BYTES};
use crate::wait::wait;

fn in_memory() -> ObjectPlace {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (repeating, once) = (Arc::clone(&store), store);
    ObjectPlace::new(Clients { repeating, once, s3: None, prefix: Path::from("a/b"), url: "memory://a/b".into() })
}

/// Places to test, each with a prefix of its own.
fn places() -> Vec<ObjectPlace> {
    let named = std::env::var("RESURGAM_OBJECTS").unwrap_or_default();
    let named = named.split_whitespace().map(|url| {
        let url = format!("{}/test-{:016x}", url.trim_end_matches('/'), unique().unwrap());
        ObjectPlace::new(Clients::of(&url).unwrap())
    });
    [in_memory()].into_iter().chain(named).collect()
}

/// Bytes in which every place differs.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[test]
fn objects_are_what_was_published() {
    for place in places() {
        let big = 2 * PART_BYTES + 12_345;
        for (name, len) in [
            ("runs/empty", 0),
            ("runs/one", 1),
            ("runs/part", PART_BYTES),
            ("runs/parts", PART_BYTES + 1),
            ("big", big),
        ] {
            let whole = bytes(len, 3);
            let mut upload = place.create(name).unwrap();
            for piece in whole.chunks(1_000_003) {
                upload.append(piece).unwrap();
                assert_eq!(
                    place.len(name).unwrap_err().kind(),
                    StoreErrorKind::Missing,
                    "not there before it is published"
                );
            }
            upload.publish().unwrap();
            assert_eq!(place.len(name).unwrap(), len as u64);
            assert!(place.get(name, 1 << 30).unwrap() == whole);
            for (from, count) in [(0, len), (len / 2, len - len / 2), (len, 0), (len / 3, len / 3)] {
                assert!(place.read(name, from as u64, count).unwrap() == whole[from..from + count]);
            }
            for (from, count) in [(0, len + 1), (len, 1), (len + 1, 0), (len + 5, 9)] {
                assert_eq!(
                    place.read(name, from as u64, count).unwrap_err().kind(),
                    StoreErrorKind::Short,
                    "{name} {from}"
                );
            }
            assert_eq!(place.read(name, u64::MAX, 2).unwrap_err().kind(), StoreErrorKind::Short);
        }
        assert_eq!(place.list("runs/").unwrap(), ["runs/empty", "runs/one", "runs/part", "runs/parts"]);
        assert_eq!(place.list("runs/par").unwrap(), ["runs/part", "runs/parts"]);
        assert_eq!(place.list("").unwrap(), ["big"]);
        assert!(place.list("nowhere/").unwrap().is_empty());
        for name in ["runs/empty", "runs/one", "runs/part", "runs/parts", "big", "big", "never"] {
            place.delete(name).unwrap();
        }
        place.sync_deletes("runs").unwrap();
        assert!(place.list("runs/").unwrap().is_empty());
        for read in [place.read("big", 0, 1).map(drop), place.len("big").map(drop), place.get("big", 9).map(drop)] {
            assert_eq!(read.unwrap_err().kind(), StoreErrorKind::Missing);
        }
        for name in ["../x", "a//b", ".x"] {
            assert_eq!(place.create(name).err().unwrap().kind(), StoreErrorKind::Invalid);
        }
    }
}

#[test]
fn a_name_is_given_once() {
    for place in places() {
        check_creates_once(&place).unwrap();
        for len in [10, PART_BYTES + 10] {
            let name = format!("manifests/{len}");
            place.put(&name, &bytes(len, 1)).unwrap();
            assert_eq!(place.put(&name, &bytes(len, 2)).unwrap_err().kind(), StoreErrorKind::Exists);
            assert!(place.get(&name, 1 << 30).unwrap() == bytes(len, 1), "the first one stays");
            place.delete(&name).unwrap();
        }
        assert!(place.in_parts_left("manifests").is_empty());
    }
}

/// Of writers that race for a name exactly one is told that it was first, and its bytes are what is there.
#[test]
fn of_racing_writers_one_is_first() {
    for place in places() {
        for (len, in_parts, rounds) in [(100, false, 20), (100, true, 10), (PART_BYTES + 100, true, 2)] {
            for round in 0..rounds {
                let name = format!("race/{len}-{in_parts}-{round}");
                let start = Barrier::new(8);
                let first: Vec<u64> = std::thread::scope(|scope| {
                    let writers: Vec<_> = (0..8)
                        .map(|writer| {
                            let (place, name, start) = (&place, &name, &start);
                            scope.spawn(move || {
                                let upload = ObjectUpload::new(place.clone(), place.path(name).unwrap());
                                let mut upload = Box::new(if in_parts { upload.in_parts() } else { upload });
                                upload.append(&bytes(len, writer)).unwrap();
                                start.wait();
                                match upload.publish() {
                                    Ok(()) => Some(writer),
                                    // Refused while another one takes it: no lie, and it may try again.
                                    Err(error) if error.kind() == StoreErrorKind::Unavailable => None,
                                    Err(error) => {
                                        assert_eq!(error.kind(), StoreErrorKind::Exists, "{error}");
                                        None
                                    }
                                }
                            })
                        })
                        .collect();
                    writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect()
                });
                assert_eq!(first.len(), 1, "{name} in {}: {first:?}", place.place());
                assert!(place.get(&name, 1 << 30).unwrap() == bytes(len, first[0]), "{name} in {}", place.place());
                place.delete(&name).unwrap();
            }
        }
    }
}

#[test]
fn what_is_not_published_is_not_there() {
    for place in places() {
        let mut upload = place.create("x/dropped").unwrap();
        upload.append(&bytes(PART_BYTES * 2 + 1, 5)).unwrap();
        drop(upload);
        assert_eq!(place.len("x/dropped").unwrap_err().kind(), StoreErrorKind::Missing);
        // What a crash leaves beside the name is nobody's object, and is tidied up.
        let left = place.below(&format!("x/{UNFINISHED}0123"));
        let client = Arc::clone(&place.repeating);
        wait(async move { client.put(&left, "left".into()).await }).unwrap().unwrap();
        place.put("x/kept", b"kept").unwrap();
        assert_eq!(place.list("x/").unwrap(), ["x/kept"]);
        place.tidy("x").unwrap();
        assert!(place.in_parts_left("x").is_empty());
        assert_eq!(place.list("x/").unwrap(), ["x/kept"]);
        place.delete("x/kept").unwrap();
    }
}

/// A store that takes conditional requests for plain ones is found out.
#[test]
fn a_store_that_overwrites_is_refused() {
    #[derive(Debug)]
    struct Overwrites(InMemory);
    impl std::fmt::Display for Overwrites {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }
    use object_store as os;
    #[async_trait::async_trait]
    impl ObjectStore for Overwrites {
        async fn put_opts(&self, to: &Path, what: os::PutPayload, options: PutOptions) -> os::Result<os::PutResult> {
            self.0.put_opts(to, what, PutOptions { mode: PutMode::Overwrite, ..options }).await
        }
        async fn put_multipart_opts(
            &self,
            to: &Path,
            options: os::PutMultipartOptions,
        ) -> os::Result<Box<dyn os::MultipartUpload>> {
            self.0.put_multipart_opts(to, options).await
        }
        async fn get_opts(&self, from: &Path, options: os::GetOptions) -> os::Result<os::GetResult> {
            self.0.get_opts(from, options).await
        }
        fn delete_stream(
            &self,
            paths: futures::stream::BoxStream<'static, os::Result<Path>>,
        ) -> futures::stream::BoxStream<'static, os::Result<Path>> {
            self.0.delete_stream(paths)
        }
        fn list(&self, prefix: Option<&Path>) -> futures::stream::BoxStream<'static, os::Result<os::ObjectMeta>> {
            self.0.list(prefix)
        }
        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> os::Result<os::ListResult> {
            self.0.list_with_delimiter(prefix).await
        }
        async fn copy_opts(&self, from: &Path, to: &Path, _: os::CopyOptions) -> os::Result<()> {
            self.0.copy_opts(from, to, os::CopyOptions::default()).await
        }
    }
    let sound: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let bad: Arc<dyn ObjectStore> = Arc::new(Overwrites(InMemory::new()));
    let place = |once: &Arc<dyn ObjectStore>| {
        let (once, prefix) = (Arc::clone(once), Path::from("a"));
        ObjectPlace::new(Clients { repeating: Arc::clone(&once), once, s3: None, prefix, url: "memory://a".into() })
    };
    check_creates_once(&place(&sound)).unwrap();
    let error = check_creates_once(&place(&bad)).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("overwrites"), "{error}");
    assert!(place(&bad).list("").unwrap().is_empty(), "nothing is left of the probe");
}

/// A place that cannot be reached is an error in a bounded time, and never a panic.
#[test]
fn a_store_that_is_not_there() {
    crate::register();
    let vfs: Arc<dyn resurgam_vfs::Vfs> = Arc::new(resurgam_vfs::SimVfs::new(1));
    let place = resurgam_xstore::Place::of(std::path::Path::new(""), "s3://bucket/x").unwrap();
    if std::env::var_os("AWS_ENDPOINT").is_none() {
        return; // No endpoint: the client would look for a provider's machines.
    }
    // Whatever it says, it says it.
    let _ = place.open(&vfs, Access::Existing).map(drop);
}

impl ObjectPlace {
    /// Objects beside their names in a folder.
    fn in_parts_left(&self, folder: &str) -> Vec<String> {
        let (client, below) = (Arc::clone(&self.repeating), self.below(folder));
        let listed = wait(async move { client.list_with_delimiter(Some(&below)).await }).unwrap().unwrap();
        let names = listed.objects.into_iter().filter_map(|object| object.location.filename().map(str::to_owned));
        names.filter(|name| name.starts_with('.')).collect()
    }
}
