//! What a row takes on the disk, by its length: full, with every second row deleted, and after the store has given back what it can.
//! In the order of the keys, a thousand rows in a transaction, as the engine's own example `bytes_per_row` does it.

use std::path::Path;

use crate::lines::bytes_of;
use crate::store::{Commit, Of, Outcome, Store};

/// Bytes of a row's text.
const LENGTHS: [usize; 3] = [20, 200, 1940];
const BATCH: u64 = 1000;

fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            b'a' + (state >> 59) as u8 % 26
        })
        .collect()
}

fn batches(rows: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..rows).step_by(BATCH as usize).map(move |from| from..(from + BATCH).min(rows))
}

/// Of rows of all lengths, `mb` megabytes of text each, in stores that `open` makes; tells a line of each.
pub fn measure(name: &str, mb: u64, dir: &Path, open: &dyn Fn(&Path) -> Outcome<Box<dyn Store>>) -> Outcome<()> {
    for len in LENGTHS {
        let dir = dir.join(format!("of-{len}"));
        std::fs::create_dir(&dir)?;
        let rows = mb * 1_000_000 / len as u64;
        let mut store = open(&dir)?;
        for batch in batches(rows) {
            store.write(Of::Sorted, Commit::Later, &mut |writer| {
                batch.clone().try_for_each(|id| writer.put(&id.to_be_bytes(), &text(id, len)))
            })?;
        }
        // What a store has beside its rows goes with a commit that waits, or when it is opened again.
        let settled = |store: Box<dyn Store>| -> Outcome<Box<dyn Store>> {
            drop(store);
            open(&dir)
        };
        store = settled(store)?;
        let full = bytes_of(&dir)? as f64 / rows as f64;
        for batch in batches(rows) {
            store.write(Of::Sorted, Commit::Later, &mut |writer| {
                batch.clone().filter(|id| id % 2 == 1).try_for_each(|id| writer.remove(&id.to_be_bytes()).map(drop))
            })?;
        }
        store = settled(store)?;
        let left = (rows - rows / 2) as f64;
        let holey = bytes_of(&dir)? as f64 / left;
        // As it is then: LMDB's is another file.
        let compacts = store.compact()?;
        let compact = bytes_of(&dir)? as f64 / left;
        let mut found = 0;
        store.read(Of::Sorted, &mut |reader| {
            found = reader.scan(&mut |_, _| {})?;
            Ok(())
        })?;
        if found as f64 != left {
            return Err(format!("{name} has {found} rows where {left} are left").into());
        }
        println!(
            "| {len} | {name} | {full:.1} | {holey:.1} | {} |",
            if compacts { format!("{compact:.1}") } else { "-".into() }
        );
    }
    Ok(())
}
