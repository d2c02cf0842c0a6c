//! Printer of the log: blocks, records, and what the records say.
//!
//! Where recovery stops (the first position without a valid block that continues the one
//! before) a line says so and why; what stands behind is looked for and shown as well.
//! Blocks with a wrong checksum are shown as far as they make sense.

use std::io::Write;

use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, TxId};
use resurgam_log::{BlockHeader, RecordKind};
use resurgam_page::print;
use resurgam_recovery::{CheckpointState, PrepareRecord, PreparedHead, TxRecord};
use resurgam_txn::{Lock, TxIdSet};
use resurgam_versions::{RowUndo, UndoAction, decode_forget};

use crate::control;
use crate::folder::Folder;
use crate::log_files::{Block, BlockFault, LogFiles, Record};
use crate::out::{indented, say};

/// Ids and ranges shown at most of a record that lists them.
const LISTED_MAX: usize = 16;

/// What to print of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    /// First position; the oldest if not given.
    pub from: Option<Lsn>,
    /// Stop at this position; the end if not given.
    pub to: Option<Lsn>,
    /// Only records of this page.
    pub page: Option<PageId>,
    /// Only records of this transaction.
    pub tx: Option<TxId>,
    /// Only records of this kind.
    pub kind: Option<RecordKind>,
}

impl LogOptions {
    fn filters(&self) -> bool {
        self.page.is_some() || self.tx.is_some() || self.kind.is_some()
    }
    fn wants(&self, record: &Record<'_>) -> bool {
        let header = &record.header;
        self.from.is_none_or(|from| record.lsn >= from)
            && self.to.is_none_or(|to| record.lsn < to)
            && self.page.is_none_or(|page| header.page == page)
            && self.tx.is_none_or(|tx| header.tx == tx)
            && self.kind.is_none_or(|kind| header.kind == kind)
    }
}

/// The kind of log record with that name (`page`, `commit`, `checkpointbegin`, …) or number.
pub fn parse_kind(name: &str) -> Option<RecordKind> {
    if let Ok(code) = name.parse() {
        return RecordKind::from_code(code);
    }
    let plain = name.replace(['-', '_'], "").to_lowercase();
    (0..64).filter_map(RecordKind::from_code).find(|kind| format!("{kind:?}").to_lowercase() == plain)
}

/// Prints the log between two positions.
///
/// # Errors
/// When there is no log that can be read, or `out` cannot be written.
pub fn inspect_log(folder: &Folder, options: LogOptions, out: &mut dyn Write) -> Result<()> {
    if let Some(warning) = folder.warning() {
        say!(out, "{warning}")?;
    }
    let control = control::read(folder)?.as_ref().and_then(control::best);
    let log = LogFiles::open(folder, control.map(|c| c.segment_bytes)).map_err(|what| {
        Error::new(ErrorKind::NotADatabase, format!("no log in \"{}\": {what}", folder.log().display()))
    })?;
    match control {
        Some(control) => say!(out, "last checkpoint at LSN {}", control.checkpoint)?,
        None => say!(out, "no copy of the control file is intact: the last checkpoint is not known")?,
    }
    let mut printer = Printer { log: &log, options, end: None, before: None, shown: 0, read: 0 };
    printer.all(out)?;
    say!(out, "{} records read, {} shown", printer.read, printer.shown)
}

struct Printer<'l> {
    log: &'l LogFiles,
    options: LogOptions,
    /// Where the log ends, once that was reached.
    end: Option<Lsn>,
    /// The block before.
    before: Option<BlockHeader>,
    shown: u64,
    read: u64,
}

impl Printer<'_> {
    fn all(&mut self, out: &mut dyn Write) -> Result<()> {
        let bytes = self.log.segment_bytes;
        let first = self.options.from.map_or(0, |from| from.0 / bytes);
        let last = self.options.to.map_or(u64::MAX, |to| to.0 / bytes);
        let mut expected: Option<u64> = None;
        for number in self.log.segments.clone() {
            if number < first || number > last {
                continue;
            }
            if let Some(missing) = expected.filter(|n| *n != number) {
                self.ends(Lsn(missing * bytes), "the segment file does not exist", out)?;
            }
            self.segment(number, out)?;
            expected = Some(number + 1);
        }
        if let Some(next) = expected
            && last == u64::MAX
        {
            self.ends(Lsn(next * bytes), "the segment file does not exist", out)?;
        }
        Ok(())
    }

    fn ends(&mut self, at: Lsn, why: &str, out: &mut dyn Write) -> Result<()> {
        if self.end.is_some() {
            return Ok(());
        }
        self.end = Some(at);
        say!(out, "--- the log ends at LSN {at}: {why}")
    }

    fn segment(&mut self, number: u64, out: &mut dyn Write) -> Result<()> {
        let bytes = self.log.segment_bytes;
        let end = Lsn((number + 1) * bytes);
        let mut at = Lsn(number * bytes);
        while at < end && self.options.to.is_none_or(|to| at < to) {
            match self.log.block(at) {
                Ok(block) => {
                    if let Some(why) = self.does_not_continue(&block.header) {
                        self.ends(at, &why, out)?;
                    }
                    self.block(&block, "", out)?;
                    at = block.header.next(bytes);
                }
                Err(fault) => {
                    self.ends(at, &fault.to_string(), out)?;
                    if let BlockFault::BadChecksum(block) = &fault {
                        self.block(block, "  WRONG CHECKSUM, not to be trusted", out)?;
                    }
                    match self.log.find_block(Lsn(at.0 + 1)) {
                        Some(next) => at = next,
                        None => break,
                    }
                }
            }
        }
        Ok(())
    }

    /// Why recovery would not take this block as the next one.
    fn does_not_continue(&self, next: &BlockHeader) -> Option<String> {
        let before = self.before.filter(|_| self.end.is_none())?;
        if next.epoch < before.epoch {
            return Some(format!(
                "a block of epoch {}, from before a crash; epoch {} or later is expected",
                next.epoch, before.epoch
            ));
        }
        (next.prev.is_some() && next.prev != before.lsn)
            .then(|| format!("a block that follows the one at LSN {}, not the one at LSN {}", next.prev, before.lsn))
    }

    fn block(&mut self, block: &Block, mark: &str, out: &mut dyn Write) -> Result<()> {
        let h = &block.header;
        self.before = Some(*h);
        if self.options.from.is_some_and(|from| h.lsn.0.saturating_add(h.len()) <= from.0) {
            return Ok(());
        }
        let behind = if self.end.is_some() { "  BEHIND THE END" } else { "" };
        let head = format!(
            "block {}  epoch {}  previous {}  durable {}  payload {}{}{mark}{behind}",
            h.lsn,
            h.epoch,
            h.prev,
            h.durable,
            h.payload_len,
            if h.skip { "  skip to the next segment" } else { "" }
        );
        let mut head = Some(head);
        if !self.options.filters() {
            say!(out, "{}", head.take().unwrap_or_default())?;
        }
        for record in block.records() {
            let record = match record {
                Ok(record) => record,
                Err(what) => {
                    if let Some(head) = head.take() {
                        say!(out, "{head}")?;
                    }
                    say!(out, "  UNREADABLE: {what}")?;
                    continue;
                }
            };
            self.read += 1;
            if self.options.wants(&record) {
                self.shown += 1;
                if let Some(head) = head.take() {
                    say!(out, "{head}")?;
                }
                print_record(&record, out)?;
            }
        }
        Ok(())
    }
}

fn print_record(record: &Record<'_>, out: &mut dyn Write) -> Result<()> {
    let h = &record.header;
    let mut line = format!("  {}  {:?}", record.lsn, h.kind);
    let mut add = |text: String| line.push_str(&text);
    if h.tx.is_some() {
        add(format!("  tx {} previous {}", h.tx, h.prev_tx));
    }
    if h.page.is_some() {
        add(format!("  page {} previous {}", h.page, h.prev_page));
    }
    if h.object.is_some() {
        add(format!("  object {}", h.object));
    }
    add(format!("  {} bytes", record.body.len()));
    match (h.first_of_group, h.last_of_group) {
        (true, true) => {}
        (true, false) => add("  (first of its group)".into()),
        (false, true) => add("  (last of its group)".into()),
        (false, false) => add("  (in a group)".into()),
    }
    say!(out, "{line}")?;
    let text = match h.kind {
        RecordKind::Page => Ok(print::ops(record.body)),
        RecordKind::PageUndo => Ok(print::ops(record.body) + &undo_of(record)),
        RecordKind::RowUndo => Ok(undo_of(record)),
        RecordKind::Commit | RecordKind::Abort | RecordKind::Undone => {
            TxRecord::decode(record.body).map(|tx| tx_text(&tx))
        }
        RecordKind::Prepare => PrepareRecord::decode(record.body).map(|part| prepare_text(&part)),
        RecordKind::Forget => decode_forget(record.body).map(|ids| format!("transactions {}", set_text(&ids))),
        RecordKind::CheckpointData => checkpoint_text(record.body),
        RecordKind::CheckpointEnd if record.body.len() == 12 => Ok(checkpoint_end(record.body)),
        _ if record.body.is_empty() => Ok(String::new()),
        _ => Ok(format!("body {}", print::Bytes(record.body))),
    };
    match text {
        Ok(text) => indented(out, "      ", &text),
        Err(error) => say!(out, "      UNREADABLE: {}; body {}", error.message(), print::Bytes(record.body)),
    }
}

fn listed<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    let mut shown: Vec<String> = items.iter().take(LISTED_MAX).map(show).collect();
    if items.len() > LISTED_MAX {
        shown.push(format!("and {} more", items.len() - LISTED_MAX));
    }
    shown.join(", ")
}

fn undo_of(record: &Record<'_>) -> String {
    match RowUndo::of_record(&record.header, record.body) {
        Ok(undo) => undo.map_or_else(String::new, |undo| undo_text(&undo)),
        Err(error) => format!("UNREADABLE: {}", error.message()),
    }
}

fn undo_text(undo: &RowUndo<'_>) -> String {
    let action = match undo.action {
        UndoAction::Remove => "remove".to_owned(),
        UndoAction::Patch(diff) => format!("patch by {}", print::Bytes(diff)),
        UndoAction::Change(change) => format!("change by {}", print::Bytes(change)),
        UndoAction::Insert(record) => format!("insert {}", print::Bytes(record)),
    };
    format!(
        "to undo: row of transaction {} in tree {}, key {}: {action}",
        undo.xid,
        undo.tree.object,
        print::Bytes(undo.key)
    )
}

fn tx_text(tx: &TxRecord) -> String {
    let mut text = format!("time {} us", tx.time_us);
    if !tx.subs.is_empty() {
        text += "  sub-transactions ";
        text += &listed(&tx.subs, range_text);
    }
    text
}

fn prepare_text(part: &PrepareRecord) -> String {
    match part {
        PrepareRecord::Subs(subs) => format!("sub-transactions {}", listed(subs, range_text)),
        PrepareRecord::Objects(objects) => {
            format!("locks {}", listed(objects, |(object, mode)| lock_text(*object, *mode)))
        }
        PrepareRecord::InDoubt(head) => format!("in doubt: {}", prepared_text(head)),
        PrepareRecord::Withdrawn => "no longer in doubt: to be rolled back".into(),
    }
}

fn prepared_text(head: &PreparedHead) -> String {
    format!(
        "\"{}\" of {} in {}  time {} us{}  {} ranges of sub-transactions, {} locks",
        head.gid.escape_debug(),
        head.owner.escape_debug(),
        head.database.escape_debug(),
        head.time_us,
        if head.definitions { "  definitions changed" } else { "" },
        head.subs,
        head.objects
    )
}

fn lock_text(object: ObjectId, lock: Lock) -> String {
    match lock {
        Lock::ROWS => format!("{object} shared"),
        Lock::DEFINITION => format!("{object} exclusive"),
        Lock { mode, .. } => format!("{object} {}", mode.name()),
    }
}

fn range_text((first, last): &(TxId, TxId)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

fn set_text(ids: &TxIdSet) -> String {
    let ranges: Vec<_> = ids.ranges().collect();
    format!("{} ids: {}", ids.len(), listed(&ranges, range_text))
}

fn checkpoint_text(body: &[u8]) -> Result<String> {
    let mut state = CheckpointState::default();
    state.decode_into(body)?;
    Ok(match body.first() {
        Some(1) => {
            format!(
                "next transaction {}  pages in use below {}  next object {}",
                state.next_id, state.high_water, state.next_object
            )
        }
        Some(2) => format!("active {}", listed(&state.active, |(first, last)| format!("{first}-{last}"))),
        Some(3) => format!("aborted {}", set_text(&state.aborted)),
        Some(6) => {
            format!("aborted {}", listed(&state.aborted_details, |tx| format!("{} at LSN {}", tx.id, tx.lsn)))
        }
        Some(5) => {
            format!("undo {}", listed(&state.undo, |(id, c)| format!("{id} from LSN {} to {}", c.first, c.last)))
        }
        Some(7) => {
            format!("undo sub-transactions {}", listed(&state.undo_subs, |(id, a, b)| format!("{id}: {a}-{b}")))
        }
        Some(9) => format!(
            "prepared {}",
            listed(&state.prepared, |(id, lsn, head)| format!("{id} at LSN {lsn}: {}", prepared_text(head)))
        ),
        Some(10) => {
            format!("prepared sub-transactions {}", listed(&state.prepared_subs, |(id, a, b)| format!("{id}: {a}-{b}")))
        }
        Some(11) => format!(
            "prepared locks {}",
            listed(&state.prepared_objects, |(id, object, mode)| format!("{id}: {}", lock_text(*object, *mode)))
        ),
        Some(13) => state.identity.map_or_else(String::new, |identity| {
            let id: String = identity.boot.database_id.iter().map(|byte| format!("{byte:02x}")).collect();
            let mode = if identity.traditional { "  traditional mode" } else { "" };
            format!(
                "database {id}  log epoch {}  log segments of {} bytes{mode}  catalog at page {}  pending frees at page {}",
                identity.epoch, identity.segment_bytes, identity.boot.catalog_root, identity.boot.pending_frees_root
            )
        }),
        Some(14) => state.version_store.map_or_else(String::new, |record| match record.path {
            Some(path) => format!("version store {} \"{}\"", record.number, path.display()),
            None => format!("version store {} was given up", record.number),
        }),
        Some(15) => format!(
            "opened {}",
            listed(&state.openings, |opening| format!("under epoch {} from LSN {} on", opening.epoch, opening.from))
        ),
        Some(8) => format!("version-store pages in use below {}", state.version_high_water),
        _ => {
            let show =
                |d: &resurgam_buffer::DirtyPage| format!("page {} from LSN {} to {}", d.page, d.rec_lsn, d.last_lsn);
            let what = if body.first() == Some(&12) { "set aside" } else { "dirty" };
            format!("{what} {}", listed(&state.dirty, show))
        }
    })
}

fn checkpoint_end(body: &[u8]) -> String {
    let begin = body.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let count = body.last_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    format!("begins at LSN {begin}, {count} data records")
}
