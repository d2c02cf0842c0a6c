//! Portals: statements with their values, and the rows that are still to be given. A cursor is one that was declared.
//!
//! A portal goes with its transaction, unless its rows are held: then it stays if that is committed. What Execute and FETCH
//! leave of its rows is put back here.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use hashbrown::HashMap;
use resurgam_engine::{ReadView, Table};

use crate::dml::CurrentRow;
use crate::pg::context::{CursorRow, PgContext};

use crate::plan::kept::{Kept, Room};
use crate::plan::statement::{Kind, Prepared};
use crate::session::Session;
use crate::session::listed::Listed;
use crate::session::prepare::PlannedAt;
use crate::session::scroll::{Place, Scroll, key_of_kept};
use crate::session::stream::ActiveRows;
use crate::wire::{Field, Format, SqlError};

pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) values: Vec<ScalarValue>,
    pub(super) formats: Vec<Format>,
    pub(super) running: Option<Box<ActiveRows>>,
    pub(super) done: bool,
    /// It ended with an error.
    pub(super) failed: bool,
    /// Which one of the session it is.
    pub(super) number: u64,
    /// Definitions that it was planned with.
    pub(super) planned_at: PlannedAt,
    /// Its part of what the session may keep; the one without a name has none.
    pub(super) kept: Vec<Kept>,
    pub(super) _listed: Option<Listed>,
    /// Its rows outlive its transaction.
    pub(super) hold: Hold,
    /// Where FETCH goes on.
    pub(super) place: Place,
    /// Rows that it keeps, with what is still to be computed in `running`.
    pub(super) scroll: Option<Box<Scroll>>,
    /// It may go back.
    pub(super) is_scrollable: bool,
    /// What its rows were read by, if it says which rows of tables they are.
    pub(super) view: Option<ReadView>,
    /// Of a FETCH that is executed with a row limit: its rows, and how many of them were given.
    pub(super) fetched: Option<Fetched>,
}

/// Rows of a FETCH that go to the client in several executions.
pub(crate) struct Fetched {
    pub rows: Box<Scroll>,
    pub given: u64,
    pub formats: Vec<Format>,
}

/// Whether a portal stays when its transaction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Not,
    /// If that is committed.
    Declared,
    /// It was.
    Committed,
}

/// What FETCH takes of a portal.
pub(crate) struct TakenRows {
    pub fields: Arc<[Field]>,
    /// Of a cursor that is BINARY; none: those that are asked for.
    pub formats: Vec<Format>,
    /// None: all rows are computed.
    pub active: Option<ActiveRows>,
    pub place: Place,
    pub scroll: Option<Box<Scroll>>,
    pub is_scrollable: bool,
    pub prepared: Arc<Prepared>,
}

/// A cursor that is declared.
pub(crate) struct NewCursor<'a> {
    pub name: &'a str,
    pub text: &'a Arc<str>,
    pub prepared: Arc<Prepared>,
    pub formats: Vec<Format>,
    /// None: all rows are in `scroll`.
    pub active: Option<ActiveRows>,
    pub scroll: Option<Box<Scroll>>,
    pub hold: bool,
    pub is_scrollable: bool,
    /// What its rows are read by, if it says which rows of tables they are.
    pub view: Option<ReadView>,
}

/// Portals by their names. The one without a name, which most clients use alone, is there without a search.
#[derive(Default)]
pub(super) struct Portals {
    pub(super) unnamed: Option<Portal>,
    pub(super) named: HashMap<String, Portal>,
}

impl Portals {
    pub(super) fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        if name.is_empty() { self.unnamed.as_mut() } else { self.named.get_mut(name) }
    }

    /// Whether that portal must not be made again: the unnamed one may.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        !name.is_empty() && self.named.contains_key(name)
    }

    pub(super) fn insert(&mut self, name: &str, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name.to_owned(), portal);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if name.is_empty() {
            self.unnamed = None;
        } else {
            self.named.remove(name);
        }
    }

    /// Whether there is one that has rows to give yet.
    pub(super) fn any_running(&self) -> bool {
        self.unnamed.iter().chain(self.named.values()).any(|portal| portal.running.is_some())
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Portal) -> bool) {
        self.unnamed.take_if(|portal| !keep(portal));
        self.named.retain(|_, portal| keep(portal));
    }

    pub(super) fn clear(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            self.named.clear();
        }
    }

    /// Their transaction has come to its end: those stay whose rows are held.
    pub(super) fn end_transaction(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            self.named.retain(|_, portal| portal.hold != Hold::Not);
        }
    }

    /// And it was committed, or not.
    pub(super) fn decide(&mut self, committed: bool) {
        if self.named.is_empty() {
            return;
        }
        if committed {
            let held = self.named.values_mut().filter(|portal| portal.hold == Hold::Declared);
            held.for_each(|portal| {
                portal.hold = Hold::Committed;
                portal.view = None;
            });
        } else {
            self.named.retain(|_, portal| portal.hold != Hold::Declared);
        }
    }
}

impl Session {
    /// The transaction ends: its portals go, but for what is held.
    pub(crate) fn close_portals(&mut self) {
        self.portals.end_transaction();
    }

    /// All of them, held ones too.
    pub(crate) fn close_all_portals(&mut self) {
        self.portals.clear();
    }

    pub(super) fn portal(&mut self, name: &str) -> Result<&mut Portal, SqlError> {
        self.portals.get_mut(name).ok_or_else(|| SqlError::new("34000", format!("portal \"{name}\" does not exist")))
    }

    /// A portal ended with an error: should it be left, it cannot go on.
    pub(crate) fn portal_failed(&mut self, name: &str) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.failed = true;
        }
    }

    /// Keeps the rest of a portal's rows for its next execution.
    pub(crate) fn suspend(&mut self, portal: &str, active: ActiveRows) {
        self.shared.stop.end();
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.running = Some(Box::new(active));
        }
    }

    pub(crate) fn has_portal(&self, name: &str) -> bool {
        self.portals.get(name).is_some()
    }

    /// What the session may keep.
    pub(crate) fn room(&self) -> Arc<Room> {
        Arc::clone(&self.kept)
    }

    /// A cursor that was declared and has given no row yet.
    pub(crate) fn add_cursor(&mut self, new: NewCursor<'_>) {
        self.portals_made += 1;
        let listed = self.shared.lists.cursor(CursorRow {
            name: new.name.to_owned(),
            statement: Arc::clone(new.text),
            is_holdable: new.hold,
            is_binary: new.formats.contains(&Format::Binary),
            is_scrollable: new.is_scrollable,
            creation_time: self.shared.statement_start(),
        });
        let portal = Portal {
            prepared: new.prepared,
            values: Vec::new(),
            formats: new.formats,
            running: new.active.map(Box::new),
            done: true,
            failed: false,
            number: self.portals_made,
            planned_at: self.definitions_now(),
            kept: Vec::new(),
            _listed: Some(listed),
            hold: if new.hold { Hold::Declared } else { Hold::Not },
            place: Place::default(),
            scroll: new.scroll,
            is_scrollable: new.is_scrollable,
            view: new.view,
            fetched: None,
        };
        self.portals.insert(new.name, portal);
    }

    /// The rows of a portal, for FETCH; `None` if there is none of that name. They go back by [`Self::put_rows`].
    pub(crate) fn take_rows(&mut self, name: &str) -> Option<Result<TakenRows, SqlError>> {
        let portal = self.portals.get_mut(name)?;
        if portal.failed || portal.prepared.fields.is_none() {
            return Some(Err(SqlError::new("55000", format!("portal \"{name}\" cannot be run"))));
        }
        if !portal.done {
            return Some(Err(SqlError::unsupported("FETCH from a portal that was not executed yet is not supported")));
        }
        let prepared = Arc::clone(&portal.prepared);
        let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
        let active = portal.running.take().map(|active| *active);
        let (formats, scroll, is_scrollable) = (portal.formats.clone(), portal.scroll.take(), portal.is_scrollable);
        let mut place = portal.place;
        place.ended |= active.is_none() && scroll.is_none();
        Some(Ok(TakenRows { fields, formats, active, place, scroll, is_scrollable, prepared }))
    }

    /// What is left of a cursor's rows, and where it stands now.
    pub(crate) fn put_rows(
        &mut self,
        name: &str,
        active: Option<ActiveRows>,
        scroll: Option<Box<Scroll>>,
        place: Place,
    ) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.running = active.map(Box::new);
            portal.scroll = scroll;
            portal.place = place;
        }
    }

    /// What a FETCH with a row limit has given and keeps, with its statement. It goes back by [`Self::put_fetched`].
    pub(crate) fn take_fetched(&mut self, portal: &str) -> Result<(Arc<Prepared>, Fetched), SqlError> {
        let portal = self.portal(portal)?;
        let fetched = portal.fetched.take().ok_or_else(|| SqlError::internal("a FETCH without its rows"))?;
        Ok((Arc::clone(&portal.prepared), fetched))
    }

    pub(crate) fn put_fetched(&mut self, portal: &str, fetched: Fetched) {
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.fetched = Some(fetched);
        }
    }

    /// The row that a cursor is on, of a table whose rows its rows are.
    ///
    /// # Errors
    /// `34000` for a name that is none, `24000` for another cursor or another place.
    pub(crate) async fn place_of(&mut self, name: &str, table: &Arc<Table>) -> Result<CurrentRow, SqlError> {
        let invalid = |what: String| Err(SqlError::new("24000", format!("cursor \"{name}\" {what}")));
        let portal = self.portals.named.get(name);
        let portal = portal.ok_or_else(|| SqlError::new("34000", format!("cursor \"{name}\" does not exist")))?;
        let Kind::Query(query) = &portal.prepared.kind else { return invalid("is not a SELECT query".to_owned()) };
        if portal.hold == Hold::Committed {
            return invalid("is held from a previous transaction".to_owned());
        }
        let shown = &table.name;
        let any_locked = query.keys.iter().any(|key| key.is_locked);
        let found = query.keys.iter().position(|key| key.table.id == table.id && key.is_locked == any_locked);
        let Some(number) = found else {
            return invalid(match any_locked {
                true => format!("does not have a FOR UPDATE/SHARE reference to table \"{shown}\""),
                false => format!("is not a simply updatable scan of table \"{shown}\""),
            });
        };
        let (before, known) = (portal.view.clone(), Arc::clone(&query.keys[number].table));
        let width = query.schema.fields().len();
        let kept = portal.scroll.as_ref().map(|scroll| {
            let row = portal.place.on().filter(|row| *row < scroll.rows());
            row.map(|row| scroll.read(row..row + 1, false))
        });
        let last = portal.running.as_ref().and_then(|active| active.key_of_last(number));
        let key = match kept {
            Some(Some(row)) => key_of_kept(row, width, number).await?,
            Some(None) => None,
            None => last,
        };
        let (Some(key), Some(before)) = (key, before) else {
            return invalid("is not positioned on a row".to_owned());
        };
        Ok(CurrentRow { key, before, table: known })
    }

    /// A portal has given so many rows more.
    pub(crate) fn advance(&mut self, name: &str, rows: u64, ended: bool) {
        if let Some(portal) = self.portals.get_mut(name) {
            portal.place.row += rows;
            portal.place.ended |= ended;
            if ended && portal.scroll.is_none() {
                // It is on no row any more.
                portal.view = None;
            }
        }
    }
}
