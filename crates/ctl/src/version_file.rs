//! The version-store file: where the folder says it is, and whether it is the right one.

use std::path::PathBuf;
use std::sync::Arc;

use resurgam_base::{PageId, Result, limits::PAGE_SIZE};
use resurgam_page::boot::Boot;
use resurgam_page::version_file::{self, VersionFileHeader};
use resurgam_recovery::{Control, VersionRecord};
use resurgam_vfs::File;

use crate::folder::Folder;

/// See the module.
#[derive(Default)]
pub(crate) struct VersionFile {
    /// What the folder says; number 0 = versions are in the data file.
    pub record: VersionRecord,
    /// In full.
    pub path: PathBuf,
    pub header: Option<VersionFileHeader>,
    /// Whole pages that it has.
    pub pages: u64,
    file: Option<Arc<dyn File>>,
}

impl VersionFile {
    /// Opens it. Returns what is wrong as well.
    ///
    /// # Errors
    /// When files are there and the system refuses to open them.
    pub fn open(folder: &Folder) -> Result<(Self, Vec<String>)> {
        let mut this = Self::default();
        match VersionRecord::read(&folder.vfs, &folder.dir) {
            Ok(record) => this.record = record.unwrap_or_default(),
            Err(error) => return Ok((this, vec![error.to_string()])),
        }
        let Some(path) = &this.record.path else { return Ok((this, Vec::new())) };
        this.path = folder.dir.join(path);
        let mut troubles = Vec::new();
        match folder.file(&this.path)? {
            None => troubles.push(format!("\"{}\" is missing", this.path.display())),
            Some(file) => {
                let mut bytes = [0; version_file::SIZE];
                let read = file.read_at(&mut bytes, 0)?;
                match VersionFileHeader::decode(&bytes[..read]) {
                    Ok(header) => this.header = Some(header),
                    Err(error) => troubles.push(format!("\"{}\": {}", this.path.display(), error.message())),
                }
                this.pages = file.len()? / PAGE_SIZE as u64;
                this.file = Some(file);
            }
        }
        Ok((this, troubles))
    }

    /// What does not fit the data folder.
    pub fn misfits(&self, boot: Option<&Boot>, control: Option<&Control>) -> Vec<String> {
        let Some(header) = &self.header else { return Vec::new() };
        let mut found = Vec::new();
        let mut say = |what: String| found.push(format!("\"{}\": {what}", self.path.display()));
        if boot.is_some_and(|boot| boot.database_id != header.database_id) {
            say("it is the version store of another database".into());
        }
        if header.number != self.record.number {
            say(format!("it is number {}, number {} is in use", header.number, self.record.number));
        }
        if control.is_some_and(|control| header.epoch < control.epoch) {
            say("it is an old copy: the database was opened with another one since".into());
        }
        found
    }

    /// Whether `page` is one of its pages.
    pub fn has(&self, page: PageId) -> bool {
        page.file() != 0 && page.file() == u64::from(self.record.number) && self.record.path.is_some()
    }

    /// The open file.
    pub fn file(&self) -> Option<&Arc<dyn File>> {
        self.file.as_ref()
    }
}
