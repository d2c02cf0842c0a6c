//! Analysis of the transaction stream up to a cut: the conclusions that analysis of the log up to there would give.

use std::sync::Arc;

use resurgam_archive::{History, StreamEntry, TxStream, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_log::LogEnd;
use resurgam_recovery::{Analysis, AnalysisSource, CheckpointState, Highest, Told, analyse_from};

use super::cut::Cut;

struct Source {
    view: Arc<View>,
    stream: TxStream,
    checkpoint: Lsn,
    cut: Lsn,
}

impl AnalysisSource for Source {
    fn next(&mut self) -> Result<Option<Told<'_>>> {
        let cut = self.cut;
        Ok(match self.stream.next_entry()? {
            None => None,
            Some(entry) if entry.lsn() >= cut => None,
            Some(StreamEntry::Record(record)) => Some(Told::Record(record)),
            Some(StreamEntry::FirstOf { tx, .. }) => Some(Told::Seen(tx)),
            Some(StreamEntry::Undo { tx, lsn, writer, .. }) => Some(Told::Undo(tx, lsn, writer)),
            Some(StreamEntry::Block { .. }) => Some(Told::Nothing),
        })
    }

    /// Page tables say exactly which pages there are below the cut. Objects are counted by runs: a number or two too many
    /// stay unused.
    fn highest(&mut self, state: &CheckpointState) -> Result<Highest> {
        let mut highest = Highest::default();
        let (from, to) = (Lsn(self.checkpoint.0 - 1), Lsn(self.cut.0 - 1));
        let version_store = PageId::of_file(1, 0);
        let mut scan = self.view.scan(PageId(state.high_water)..version_store, from, to, History::All)?;
        while let Some(page) = scan.next_page()? {
            highest.page = page.0;
        }
        let first = state.version_high_water.max(version_store);
        let mut scan = self.view.scan(first..PageId(u64::MAX), from, to, History::All)?;
        while let Some(page) = scan.next_page()? {
            highest.version_page = page;
        }
        for (index, meta) in self.view.manifest().runs.iter().enumerate() {
            if meta.id.end > self.checkpoint && meta.id.start < self.cut {
                highest.object = highest.object.max(self.view.run(index)?.summary().highest_object);
            }
        }
        Ok(highest)
    }
}

/// Analyses the archive from the cut's checkpoint to the cut.
///
/// # Errors
/// `NotInPrerequisiteState` for an archive of a format version that does not say what is needed; `Corrupt`; those of reading.
pub(crate) fn analyse(view: &Arc<View>, cut: &Cut) -> Result<Analysis> {
    let epoch = view.manifest().runs.iter().map(|run| run.last_epoch).max().unwrap_or(0);
    let end = LogEnd { lsn: cut.lsn, epoch, last_block: Lsn::NONE, durable: cut.lsn };
    let mut source = Source {
        view: Arc::clone(view),
        stream: view.stream(cut.checkpoint)?,
        checkpoint: cut.checkpoint,
        cut: cut.lsn,
    };
    let analysis = analyse_from(&mut source, cut.checkpoint, end)?;
    if analysis.identity.is_none() {
        return Err(Error::new(
            ErrorKind::NotInPrerequisiteState,
            format!(
                "the checkpoint at LSN {} was written by a version that did not archive what a restore needs",
                cut.checkpoint
            ),
        )
        .with_hint("Restore a point after the next checkpoint."));
    }
    Ok(analysis)
}
