//! Both copies of the control file, as the folder has them.

use resurgam_base::Result;
use resurgam_recovery::{Control, ControlCopy};

use crate::folder::Folder;

/// Reads both copies. `None`: there is no control file.
pub(crate) fn read(folder: &Folder) -> Result<Option<[ControlCopy; 2]>> {
    match folder.file(&folder.control())? {
        Some(file) => ControlCopy::read_both(file.as_ref()).map(Some),
        None => Ok(None),
    }
}

/// The copy that counts.
pub(crate) fn best(copies: &[ControlCopy; 2]) -> Option<Control> {
    ControlCopy::best(copies).map(|(_, control)| control)
}
