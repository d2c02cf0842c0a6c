//! Log that was pulled from whoever gives it: looked at whether it follows what is applied, and is durable, and applied. No network: who drives it
//! asks from [`PageServer::position`] on and hands over what comes.
//!
//! 1. A block is applied only if it begins where the log is applied to (behind that, where others were left out), names the block before it, is not
//!    of an earlier epoch, and ends below what is said to be durable.
//! 2. What came before one that is wrong is right, and applied.

use resurgam_base::{Error, Lsn, Result};
use resurgam_log::Block;

use crate::batch::Batch;
use crate::cover::Gap;
use crate::server::PageServer;

/// How what is pulled is applied.
#[derive(Clone, Copy, Debug)]
pub struct PulledConfig {
    /// Of a segment of the log, in bytes.
    pub segment_bytes: u64,
    /// Threads that apply what is `batch_bytes` or more at a time; what comes bit by bit is applied by one.
    pub workers: usize,
    pub batch_bytes: usize,
}

/// See the module. One for as long as one connection lasts: the block before the next one is remembered.
#[derive(Debug)]
pub struct Pulled {
    config: PulledConfig,
    /// The block that was applied last, and its epoch; none: not known.
    before: Option<(Lsn, u32)>,
    blocks: u64,
}

impl Pulled {
    /// Nothing has come yet.
    pub fn new(config: PulledConfig) -> Self {
        Self { config, before: None, blocks: 0 }
    }

    /// Blocks that were taken since this was asked last.
    pub fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.blocks)
    }

    /// So much log is applied by several threads; none: by this one, block by block.
    fn batch<'p, 'b>(&self, pages: &'p PageServer, bytes: usize, filtered: bool) -> Option<Batch<'p, 'b>> {
        let workers = self.config.workers;
        (workers > 1 && bytes >= self.config.batch_bytes).then(|| pages.batch(workers, filtered))
    }

    /// Applies blocks in a row from the position on. All log below `complete_to` is in them, or was before; all below `durable` is durable.
    ///
    /// # Errors
    /// `Corrupt` for what does not follow, or is not durable; those of applying.
    pub fn whole(&mut self, pages: &PageServer, blocks: &[Vec<u8>], complete_to: Lsn, durable: Lsn) -> Result<()> {
        let mut batch = self.batch(pages, blocks.iter().map(Vec::len).sum(), false);
        let added = blocks.iter().try_for_each(|bytes| -> Result<()> {
            let position = batch.as_ref().map_or_else(|| pages.position(), Batch::next);
            let block = Block::parse(bytes, position, self.config.segment_bytes)?;
            let header = block.header();
            let follows = self.before.is_none_or(|(lsn, epoch)| header.prev == lsn && header.epoch >= epoch);
            if !follows || block.next() > durable {
                return Err(does_not_follow(block.lsn()));
            }
            let records = block.records().map(Ok);
            match &mut batch {
                Some(batch) => batch.add(block.lsn(), block.next(), records)?,
                None => pages.apply(block.lsn(), block.next(), records)?,
            }
            self.before = Some((header.lsn, header.epoch));
            self.blocks += 1;
            Ok(())
        });
        batch.map_or(Ok(None), Batch::apply)?;
        added?;
        if pages.position() != complete_to {
            return Err(Error::corrupt("whoever gives the log says that it is complete up to where it is not"));
        }
        Ok(())
    }

    /// As [`Pulled::whole`], of blocks, each with its LSN, from which those without records of the server's pages were left out. A record that does
    /// not follow ends it: the caller has [`PageServer::go_back`] to call, and to ask for whole log from there on.
    ///
    /// # Errors
    /// As there.
    pub fn part(
        &mut self,
        pages: &PageServer,
        blocks: &[(Lsn, Vec<u8>)],
        complete_to: Lsn,
        durable: Lsn,
    ) -> Result<Option<Gap>> {
        let mut batch = self.batch(pages, blocks.iter().map(|(_, bytes)| bytes.len()).sum(), true);
        let added = (|| -> Result<Option<Gap>> {
            for (lsn, bytes) in blocks {
                let position = batch.as_ref().map_or_else(|| pages.position(), Batch::next);
                let block = Block::parse(bytes, *lsn, self.config.segment_bytes)?;
                let header = block.header();
                let follows = self.before.is_none_or(|(before, epoch)| {
                    header.epoch >= epoch && if *lsn == position { header.prev == before } else { header.prev > before }
                });
                if *lsn < position || !follows || block.next() > durable.min(complete_to) {
                    return Err(does_not_follow(*lsn));
                }
                let records = block.records().map(Ok);
                match &mut batch {
                    Some(batch) => batch.add(block.lsn(), block.next(), records)?,
                    None => {
                        if let Some(gap) = pages.apply_filtered(block.lsn(), block.next(), records)? {
                            return Ok(Some(gap));
                        }
                    }
                }
                self.before = Some((header.lsn, header.epoch));
                self.blocks += 1;
            }
            Ok(None)
        })();
        let applied = batch.map_or(Ok(None), Batch::apply)?;
        let gap = match applied {
            Some(gap) => Some(gap),
            None => added?,
        };
        if gap.is_some() {
            self.before = None;
            return Ok(gap);
        }
        if complete_to < pages.position() || complete_to > durable {
            return Err(Error::corrupt("whoever gives the log says that it is complete up to where it is not"));
        }
        if complete_to > pages.position() {
            pages.skip_to(complete_to)?;
            // The block before the next one is not known.
            self.before = None;
        }
        Ok(None)
    }
}

#[cold]
fn does_not_follow(at: Lsn) -> Error {
    Error::corrupt(format!(
        "whoever gives the log has sent a block of the log at LSN {at} that does not follow, or is not durable"
    ))
}
