//! Decoders are handed anything: an answer or an error, never a panic, never memory that the bytes do not account for.

use resurgam_base::{Lsn, PageId};

use super::support::{Logged, Rng, open, store_on};
use crate::format::{HEADER_BYTES, RunId, RunSummary, TRAILER_BYTES, Trailer};
use crate::item::{self, Item, ItemPlace};
use crate::manifest::Manifest;
use crate::table::TablePlace;
use resurgam_vfs::SimVfs;

/// Everything that decodes, on the same bytes.
fn decode_all(bytes: &[u8]) {
    let _ = item::record(PageId(3), Lsn(1000), bytes);
    for key in 0..6 {
        let _ = item::entry(&Item { key, lsn: Lsn(u64::MAX - 5), rest: bytes });
    }
    let mut places = [ItemPlace::default(), ItemPlace::inside(3, 7), ItemPlace::at_known(1, 7, Lsn(9))];
    for place in &mut places {
        while let Ok(Some(item)) = place.next_page(bytes) {
            assert!(item.rest.len() <= bytes.len());
        }
    }
    let mut place = ItemPlace::default();
    while let Ok(Some(_)) = place.next_stream(bytes) {}
    let mut place = TablePlace::default();
    while let Ok(Some(_)) = place.next(bytes) {}
    let _ = RunSummary::decode(bytes);
    let _ = Manifest::decode(bytes, 1);
    if let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        let _ = RunId::decode(header);
    }
    if let Some(trailer) = bytes.first_chunk::<TRAILER_BYTES>() {
        let _ = Trailer::decode(trailer, bytes.len() as u64);
    }
}

#[test]
fn decoders_take_any_bytes() {
    let mut rng = Rng(5);
    for _ in 0..30_000 {
        let len = rng.below(120);
        // Small numbers lead further than random ones.
        let small = rng.below(2) == 0;
        let bytes: Vec<u8> = (0..len).map(|_| if small { rng.below(6) as u8 } else { rng.next() as u8 }).collect();
        decode_all(&bytes);
    }
}

/// A manifest with other content and a right checksum: what it says is checked all the same.
#[test]
fn a_manifest_with_a_gap_is_refused() {
    let history = Logged::random(4, 60, 5);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |archiver, _| archiver.seal().map(|_| true)).unwrap();
    let view = archiver.archive().view();
    let manifest = view.manifest();
    assert_eq!(&Manifest::decode(&manifest.encode(), manifest.number).unwrap(), manifest);
    let mut gap = manifest.clone();
    gap.runs.remove(1);
    let error = Manifest::decode(&gap.encode(), gap.number).unwrap_err();
    assert!(error.message().contains(&Manifest::name_of(gap.number)), "{error}");
    assert!(Manifest::decode(&manifest.encode(), manifest.number + 1).is_err(), "another one's place");
    for (at, byte) in [(8usize, 9u8), (12, 200)] {
        let mut bytes = manifest.encode();
        bytes[at] = byte;
        let end = bytes.len() - 4;
        let crc = resurgam_base::checksum(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&crc);
        assert!(Manifest::decode(&bytes, manifest.number).is_err());
    }
}
