//! Filling a tree that nobody else writes with many rows: gathered, sorted, and written leaf by leaf.
//!
//! Rows that come in any order are kept until there are some megabytes of them, and sorted. Each leaf then takes those that belong to
//! it in one record of the log and with one descent, however many they are. Of keys that ascend the leaves are filled one after the
//! other, and none is split in its middle (`btree/src/split.rs`). They carry no versions, as `build.rs` says.

use resurgam_base::{PageId, Result, memory};
use resurgam_btree::Tree;
use resurgam_buffer::{BufferPool, Mtr};
use resurgam_page::{LeafBuilder, LeafRecord, leaf, op};

use crate::key_sort::{self, Entry};

/// Bytes of rows that are gathered of a tree, or of all that are filled at once.
pub(crate) const GATHERED: usize = 16 << 20;
/// Leaves that are filled between two looks at whether to stop.
const LEAVES_UNASKED: usize = 64;

/// See the module.
pub(crate) struct Fill {
    tree: Tree,
    /// Records as they are on a leaf.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// So many bytes are enough.
    gathered: usize,
    ascending: bool,
    hint: Option<PageId>,
}

/// A row that was not put in since there is one with its key: key and value.
pub(crate) type Refused = (Vec<u8>, Vec<u8>);

impl Fill {
    pub fn new(tree: Tree, gathered: usize) -> Self {
        Self { tree, bytes: Vec::new(), entries: Vec::new(), gathered, ascending: true, hint: None }
    }

    fn record(&self, entry: Entry) -> &[u8] {
        &self.bytes[entry.at()..entry.at() + entry.len()]
    }
    fn key(&self, entry: Entry) -> &[u8] {
        leaf::key_of(self.record(entry))
    }

    /// Takes a row. True: it is time to [`Fill::write`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        memory::aside(|| {
            let at = self.bytes.len();
            LeafBuilder::plain(key, value).encode_into(&mut self.bytes)?;
            let entry = Entry::new(at, self.bytes.len() - at);
            self.ascending &= self.entries.last().is_none_or(|last| self.key(*last) < key);
            self.entries.push(entry);
            Ok(self.bytes.len() >= self.gathered)
        })
    }

    /// Writes what was taken, in the order of the keys; of rows with one key the one that was taken first. `ask` is asked now and then whether to go on. Of a row that is refused
    /// those behind it are not written.
    ///
    /// # Errors
    /// Those of writing, and those of `ask`.
    pub fn write(&mut self, pool: &BufferPool, ask: &dyn Fn() -> Result<()>) -> Result<Option<Refused>> {
        let mut entries = std::mem::take(&mut self.entries);
        if !self.ascending {
            key_sort::sort(&mut entries, |entry| self.key(entry));
        }
        let refused = self.write_sorted(pool, &entries, ask)?;
        memory::aside(|| {
            entries.clear();
            self.entries = entries;
            self.bytes.clear();
        });
        self.ascending = true;
        Ok(refused)
    }

    fn write_sorted(
        &mut self,
        pool: &BufferPool,
        entries: &[Entry],
        ask: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Refused>> {
        let (mut rest, mut leaves) = (entries, 0usize);
        while let Some(&first) = rest.first() {
            leaves += 1;
            if leaves.is_multiple_of(LEAVES_UNASKED) {
                ask()?;
            }
            let key = self.key(first);
            let (page, found) = self.tree.find_to_write(pool, key, self.hint)?;
            let id = page.id();
            let Err(slot) = found else { return self.refuse(first).map(Some) };
            // Room for versions, as ascending inserts leave it.
            let reserve = if first.len() < 800 { 800 } else { 0 };
            let end = if slot.0 < page.slot_count() { Some(leaf::key_of(page.rec(slot))) } else { page.upper_fence() };
            let mut room = page.free_total().saturating_sub(reserve);
            let mut before: Option<&[u8]> = None;
            let mut taken = 0;
            for &entry in rest {
                let key = self.key(entry);
                if before == Some(key) || end.is_some_and(|end| key >= end) {
                    break;
                }
                let Some(left) = room.checked_sub(entry.len() + 4) else { break };
                (room, before) = (left, Some(key));
                taken += 1;
            }
            if taken == 0 {
                drop(page);
                let room = self.tree.make_room(pool, key, first.len() + reserve)?;
                self.hint = Some(room);
                continue;
            }
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            op::insert_many(mtr.ops(at), slot, rest[..taken].iter().map(|entry| self.record(*entry)));
            mtr.commit()?;
            self.hint = Some(id);
            rest = &rest[taken..];
        }
        Ok(None)
    }

    fn refuse(&self, entry: Entry) -> Result<Refused> {
        let record = LeafRecord::parse(self.record(entry))?;
        Ok((record.key.to_vec(), record.value.to_vec()))
    }
}
