//! Restoring the files that hold pages, segment by segment, under running transactions.
//!
//! | file | concept |
//! |---|---|
//! | `origin.rs` | the file that says that a folder is being restored, and from where |
//! | `marks.rs` | which segments are restored, durably |
//! | `begin.rs` | what an open does about files that are missing |
//! | `unusable.rs` | what it does about files that are there and of no use |
//! | `room.rs` | whether there is room for what is to be restored |
//! | `maker.rs`, `attach.rs` | where segments come from; what an open goes on with |
//! | `device.rs` | a device that dies while the database is open |
//! | `gates.rs` | the devices of pages, none of which is waited for for ever |
//! | `parent.rs` | the databases that the folder was made of, while pages come from there |
//! | `lineage.rs` | what the folder and its archive say of the database that it was made of, and what that one keeps for it |
//! | `unfinished.rs` | what a folder says of it that nobody has open |
//! | `run.rs` | a restore under way: the background pass, marks, the end |

mod attach;
pub(crate) mod begin;
pub(crate) mod device;
pub(crate) mod gates;
pub(crate) mod lineage;
mod maker;
mod marks;
mod origin;
mod parent;
pub(crate) mod room;
mod run;
mod unfinished;
pub(crate) mod unusable;

pub(crate) use attach::{Attach, again_of_parent, attach};
pub(crate) use lineage::Lineage;
pub(crate) use maker::Later;
pub(crate) use parent::{
    CHAIN_MAX, Chain, base_by_parents, own_record, parent_record, record_is_missing, store_there, too_many,
};
pub(crate) use run::Restore;
pub use run::RestoreStatus;

pub use origin::{ORIGIN, Origin, OriginKind};
pub use parent::ParentSource;
#[doc(hidden)]
pub use parent::PlantedInChain;
pub use unfinished::{UnfinishedRestore, unfinished_restore};
