//! What pages are made from, where what is known of them goes away meanwhile.

use std::path::Path;
use std::sync::{Arc, Weak};

use resurgam_base::{ErrorKind, Lsn, ObjectId, PageId, Result};
use resurgam_log::{Log, LogConfig, LogHold};
use resurgam_page::{PageBuf, PageType, op};
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use super::{PageHistory, Rebuild, Sources};
use crate::files::Files;
use crate::stats::Counters;

/// Knows nothing, and has what was written last be forgotten while it is asked.
struct Forgetful(Weak<Sources>);

impl PageHistory for Forgetful {
    fn base(&self, _: PageId, _: &mut PageBuf) -> Result<Option<Lsn>> {
        Ok(None)
    }
    fn records(&self, _: PageId, _: Lsn, _: &mut Rebuild<'_>) -> Result<Option<LogHold>> {
        if let Some(sources) = self.0.upgrade() {
            // As where others need the room.
            sources.last_written.forget();
        }
        Ok(None)
    }
}

/// A page that the device lost a write of, and of which nothing is kept: what is in the file is not served, though
/// what was written is forgotten while its records are looked for.
#[test]
fn an_old_page_without_records_is_refused() -> Result<()> {
    let sim = SimVfs::new(1);
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let log = Log::create(Arc::clone(&vfs), Path::new("/log"), LogConfig::default(), 1)?;
    let data = vfs.open(Path::new("/data"), OpenMode::Create)?;
    let id = PageId(3);
    let (mut page, mut body) = (PageBuf::zeroed(), Vec::new());
    op::format(&mut body, PageType::Version, 0, ObjectId(9), &[], None);
    op::apply(&mut page, id, &body, Lsn(1))?;
    page.seal();
    data.write_at(page.as_bytes(), data_offset(id))?;
    let sources = Arc::new(Sources::new(Files::new(data), log, 0));
    sources.set_history(Arc::new(Forgetful(Arc::downgrade(&sources))));
    let counters = Counters::default();
    let mut buf = PageBuf::zeroed();
    sources.last_written.note(id, Lsn(1));
    assert!(sources.load(id, &mut buf, &counters)?.repaired.is_none(), "it is what was written");
    sources.last_written.note(id, Lsn(2));
    let error = sources.load(id, &mut buf, &counters).err().expect("it is an old one");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("lost a write") && error.message().contains("no record of it behind"), "{error}");
    assert!(!sources.last_written.of_page(id).is_other(Lsn(1)), "it was forgotten meanwhile");
    Ok(())
}

fn data_offset(id: PageId) -> u64 {
    id.0 * resurgam_base::limits::PAGE_SIZE as u64
}
