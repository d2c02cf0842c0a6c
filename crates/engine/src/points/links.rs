//! Stacks of links, one for each transaction, in bounded memory: what a compensation undoes is taken off again.
//!
//! A transaction can have any number of changes. The ends of the stacks are in memory; what is below them is in a file of the
//! folder that is being made, in chunks that are used again when they are taken off. The file is of no use after a crash, and never synced.
//!
//! # Invariants
//! 1. Links of a stack ascend by LSN.
//! 2. Memory of a stack: twice a chunk at most ([`CHUNK`] links of 16 bytes each), and four bytes for each chunk in the file; one batch while they
//!    are given out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, Lsn, PageId, Result, TxId};
use resurgam_vfs::{File, OpenMode, Vfs};

/// Name of the file.
pub(super) const LINKS: &str = "undo-links";
/// Links in a chunk.
pub(super) const CHUNK: usize = 1024;
const LINK_BYTES: usize = 16;
/// Links that are given out at a time: a megabyte. Their pages are looked up in one pass.
const BATCH: usize = 64 * CHUNK;

/// Something to be undone: where it is, and on which page (none: a record of its own).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub lsn: Lsn,
    pub page: PageId,
}

#[derive(Default)]
struct Stack {
    /// Numbers of the chunks in the file, from the bottom.
    chunks: Vec<u32>,
    top: Vec<Link>,
}

/// See the module.
pub(super) struct Links {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    file: Option<Arc<dyn File>>,
    /// Chunks in the file, and those that are free.
    count: u32,
    free: Vec<u32>,
    stacks: BTreeMap<TxId, Stack>,
}

impl Links {
    /// Empty stacks of these transactions; a file in `dir` if it takes one.
    pub fn new(vfs: &Arc<dyn Vfs>, dir: &Path, transactions: impl Iterator<Item = TxId>) -> Self {
        let stacks = transactions.map(|tx| (tx, Stack::default())).collect();
        Self { vfs: Arc::clone(vfs), path: dir.join(LINKS), file: None, count: 0, free: Vec::new(), stacks }
    }

    /// The transactions.
    pub fn transactions(&self) -> Vec<TxId> {
        self.stacks.keys().copied().collect()
    }

    /// Puts a link on the stack of `tx`, if it has one.
    ///
    /// # Errors
    /// Those of writing.
    pub fn push(&mut self, tx: TxId, link: Link) -> Result<()> {
        let Some(stack) = self.stacks.get_mut(&tx) else { return Ok(()) };
        stack.top.push(link);
        if stack.top.len() < 2 * CHUNK {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(CHUNK * LINK_BYTES);
        for link in stack.top.drain(..CHUNK) {
            bytes.extend_from_slice(&link.lsn.0.to_le_bytes());
            bytes.extend_from_slice(&link.page.0.to_le_bytes());
        }
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = self.vfs.open(&self.path, OpenMode::Create)?;
                file.set_len(0)?;
                self.file.insert(file)
            }
        };
        let chunk = match self.free.pop() {
            Some(chunk) => chunk,
            None => {
                let next = self.count.checked_add(1).ok_or_else(|| Error::internal("too much is to be undone"))?;
                std::mem::replace(&mut self.count, next)
            }
        };
        file.write_at(&bytes, u64::from(chunk) * (CHUNK * LINK_BYTES) as u64)?;
        stack.chunks.push(chunk);
        Ok(())
    }

    /// Takes the links of `tx` behind `to` off again.
    ///
    /// # Errors
    /// Those of reading.
    pub fn truncate(&mut self, tx: TxId, to: Lsn) -> Result<()> {
        let Some(stack) = self.stacks.get_mut(&tx) else { return Ok(()) };
        loop {
            let keep = stack.top.partition_point(|link| link.lsn <= to);
            stack.top.truncate(keep);
            let Some(chunk) = stack.chunks.last().copied().filter(|_| keep == 0) else { return Ok(()) };
            stack.top = read_chunk(self.file.as_ref(), chunk)?;
            stack.chunks.pop();
            self.free.push(chunk);
        }
    }

    /// Gives the links of `tx` to `each`, oldest first, about [`BATCH`] at a time.
    ///
    /// # Errors
    /// Those of reading and of `each`.
    pub fn for_each(&self, tx: TxId, each: &mut dyn FnMut(&[Link]) -> Result<()>) -> Result<()> {
        let Some(stack) = self.stacks.get(&tx) else { return Ok(()) };
        let mut batch = Vec::new();
        for chunk in &stack.chunks {
            batch.append(&mut read_chunk(self.file.as_ref(), *chunk)?);
            if batch.len() >= BATCH {
                each(&batch)?;
                batch.clear();
            }
        }
        batch.extend_from_slice(&stack.top);
        if batch.is_empty() { Ok(()) } else { each(&batch) }
    }

    /// Removes the file.
    ///
    /// # Errors
    /// Those of removing.
    pub fn finish(self) -> Result<()> {
        match self.file {
            Some(_) => self.vfs.remove(&self.path),
            None => Ok(()),
        }
    }
}

fn read_chunk(file: Option<&Arc<dyn File>>, chunk: u32) -> Result<Vec<Link>> {
    let file = file.ok_or_else(|| Error::internal("links without a file"))?;
    let mut bytes = vec![0; CHUNK * LINK_BYTES];
    file.read_exact_at(&mut bytes, u64::from(chunk) * (CHUNK * LINK_BYTES) as u64)?;
    let (numbers, _) = bytes.as_chunks::<8>();
    let numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
    let lsns = numbers.clone().step_by(2);
    Ok(lsns.zip(numbers.skip(1).step_by(2)).map(|(lsn, page)| Link { lsn: Lsn(lsn), page: PageId(page) }).collect())
}

#[cfg(test)]
mod tests {
    use resurgam_vfs::SimVfs;

    use super::*;

    /// Random pushes and truncations of several stacks against plain vectors; the file does not grow beyond what is in it.
    #[test]
    fn as_plain_vectors() -> Result<()> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        vfs.make_folder(Path::new("/new"))?;
        let ids = [TxId(3), TxId(5), TxId(9)];
        let mut links = Links::new(&vfs, Path::new("/new"), ids.into_iter());
        let mut model: BTreeMap<TxId, Vec<Link>> = BTreeMap::new();
        let (mut lsn, mut seed, mut most) = (0, 7_u64, 0);
        for _ in 0..600 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let tx = ids[(seed >> 33) as usize % 3];
            let stack = model.entry(tx).or_default();
            match (seed >> 40) % 4 {
                0 if !stack.is_empty() => {
                    let to = stack[(seed >> 20) as usize % stack.len()].lsn;
                    let keep = stack.partition_point(|link| link.lsn <= to);
                    stack.truncate(keep);
                    links.truncate(tx, to)?;
                }
                1 if (seed >> 50).is_multiple_of(16) => {
                    stack.clear();
                    links.truncate(tx, Lsn::NONE)?;
                }
                _ => {
                    for _ in 0..(seed >> 45) % 1500 {
                        lsn += 8;
                        let link = Link { lsn: Lsn(lsn), page: PageId(lsn * 3) };
                        stack.push(link);
                        links.push(tx, link)?;
                    }
                    // Of none that is not looked at.
                    links.push(TxId(77), Link { lsn: Lsn(lsn), page: PageId(1) })?;
                }
            }
            assert!(links.stacks.values().all(|stack| stack.top.len() < 2 * CHUNK));
            most = most.max(model.values().map(Vec::len).sum());
        }
        for tx in links.transactions() {
            let mut found = Vec::new();
            links.for_each(tx, &mut |some| {
                found.extend_from_slice(some);
                Ok(())
            })?;
            assert!(Some(&found) == model.get(&tx), "{tx}: {} links", found.len());
        }
        assert!(most > 20 * CHUNK && (links.count as usize) <= most / CHUNK + 3, "{most} {}", links.count);
        links.finish()?;
        assert!(vfs.list(Path::new("/new"))?.is_empty());
        Ok(())
    }
}
