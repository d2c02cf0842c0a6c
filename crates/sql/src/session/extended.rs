//! The extended protocol: Parse, Describe, Bind, Execute, Sync, Close.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::sql::sqlparser::ast::Statement;

use crate::exec::panics;
use crate::parse::own::Own;
use crate::parse::read;
use crate::parse::statement::cursor::{Count, Fetch};
use crate::pg::context::{CursorRow, PgContext, StatementRow};
use crate::pg::decode::decode_param;
use crate::plan::kept;

use crate::pg::user_types;
use crate::plan::kept::Kept;
use crate::plan::statement::{Kind, Prepared};
use crate::session::Session;
use crate::session::listed::Listed;
use crate::session::portals::{Hold, Portal};
use crate::session::prepare::same_result;
use crate::session::scroll::Place;
use crate::session::transaction::aborted;
use crate::wire::{Execution, Field, Format, SqlError, Tag};

/// A prepared statement by name.
pub(crate) struct Named {
    pub prepared: Arc<Prepared>,
    pub declared: Vec<u32>,
    /// Its part of what the session may keep, and of what the database may; the one without a name has none.
    pub(super) _kept: Option<(Kept, Arc<Kept>)>,
    pub(super) _listed: Option<Listed>,
}

impl Session {
    pub(super) fn zone_if_needed(&self, prepared: &Prepared) -> crate::pg::datetime::Zone {
        if prepared.param_oids.is_empty() { Default::default() } else { self.hot().zone }
    }

    /// Parse: plans a statement and keeps it under `name` (empty: until the next).
    ///
    /// # Errors
    /// As the statement deserves; `42P05` for a name in use.
    pub async fn parse(&mut self, name: &str, sql: &str, param_types: &[u32]) -> Result<(), SqlError> {
        if !name.is_empty() && self.statements.contains_key(name) {
            self.statement_failed();
            return Err(SqlError::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        self.time_runs();
        let counted = self.count_text(sql);
        let types = self.type_source();
        let prepared = counted
            .and_then(|()| read::refuse_markers(sql))
            .and_then(|()| user_types::with(&types, || self.prepare_text(sql, param_types)));
        match prepared.and_then(|prepared| self.keep(name, prepared, param_types.to_vec(), None)) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.statement_failed();
                Err(error)
            }
        }
    }

    /// Gives a statement its name in the session. `text`: of PREPARE, where it is one's.
    ///
    /// # Errors
    /// `53200`
    pub(crate) fn keep(
        &mut self,
        name: &str,
        prepared: Arc<Prepared>,
        declared: Vec<u32>,
        text: Option<&Arc<str>>,
    ) -> Result<(), SqlError> {
        let (kept, listed) = match name.is_empty() {
            true => (None, None),
            false => {
                let shared = prepared.keep(&self.db.kept)?;
                let kept = (self.kept.take(prepared.bytes)?, shared);
                let listed = self.shared.lists.statement(StatementRow {
                    name: name.to_owned(),
                    statement: Arc::clone(text.unwrap_or(&prepared.text)),
                    prepare_time: self.shared.statement_start(),
                    parameter_types: prepared.described_oids().into_iter().collect(),
                    from_sql: text.is_some(),
                });
                (Some(kept), Some(listed))
            }
        };
        self.statements.insert(name.to_owned(), Named { prepared, declared, _kept: kept, _listed: listed });
        Ok(())
    }

    pub(super) fn named(&self, name: &str) -> Result<&Named, SqlError> {
        self.statements.get(name).ok_or_else(|| {
            if name.is_empty() {
                SqlError::new("26000", "unnamed prepared statement does not exist")
            } else {
                SqlError::new("26000", format!("prepared statement \"{name}\" does not exist"))
            }
        })
    }

    /// Describe of a statement: parameter types and result columns.
    ///
    /// # Errors
    /// `26000`.
    pub fn describe_statement(&mut self, name: &str) -> Result<(Vec<u32>, Option<Arc<[Field]>>), SqlError> {
        let named = self.named(name)?;
        let (prepared, declared) = (Arc::clone(&named.prepared), named.declared.clone());
        if self.failed && prepared.fields.is_some() {
            return Err(aborted());
        }
        let newer = self.current(Arc::clone(&prepared), &declared)?;
        same_result(&prepared, &newer)?;
        Ok((newer.described_oids(), newer.fields.clone()))
    }

    /// Bind: a portal from a statement and values.
    ///
    /// # Errors
    /// `26000`, `08P01` for a wrong number of values, `22P02`… for bad ones, `25P02`.
    pub async fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        params: Vec<Option<Bytes>>,
        param_formats: &[Format],
        result_formats: &[Format],
    ) -> Result<(), SqlError> {
        let types = self.type_source();
        let mut bound = user_types::with(&types, || self.make_portal(statement, params, param_formats, result_formats));
        if !portal.is_empty() {
            bound = bound.and_then(|mut bound| {
                bound.kept.push(self.kept.take(kept::bytes_of(&bound.values))?);
                bound._listed = Some(self.shared.lists.cursor(CursorRow {
                    name: portal.to_owned(),
                    statement: Arc::clone(&bound.prepared.text),
                    creation_time: self.shared.statement_start(),
                    ..CursorRow::default()
                }));
                Ok(bound)
            });
        }
        match bound {
            Ok(mut bound) if !self.portals.is_taken(portal) => {
                self.portals_made += 1;
                bound.number = self.portals_made;
                self.portals.insert(portal, bound);
                Ok(())
            }
            Ok(_) => {
                self.statement_failed();
                Err(SqlError::new("42P03", format!("cursor \"{portal}\" already exists")))
            }
            Err(error) => {
                self.statement_failed();
                Err(error)
            }
        }
    }

    pub(super) fn make_portal(
        &mut self,
        statement: &str,
        params: Vec<Option<Bytes>>,
        param_formats: &[Format],
        result_formats: &[Format],
    ) -> Result<Portal, SqlError> {
        let named = self.named(statement)?;
        let mut prepared = Arc::clone(&named.prepared);
        if !self.is_current(&prepared) {
            let declared = named.declared.clone();
            let newer = self.current(Arc::clone(&prepared), &declared)?;
            same_result(&prepared, &newer)?;
            if !statement.is_empty() {
                // The earlier plan gives its part back.
                newer.keep(&self.db.kept)?;
            }
            prepared = newer;
            if let Some(named) = self.statements.get_mut(statement) {
                named.prepared = Arc::clone(&prepared);
            }
        }
        let takes_others_columns = match &prepared.kind {
            Kind::Own(own) => matches!(**own, Own::Fetch(_)),
            Kind::Utility(statement) => matches!(**statement, Statement::Execute { .. }),
            _ => false,
        };
        if takes_others_columns {
            // Those of the cursor or statement that is there now, which need not be that of Parse.
            prepared = self.prepare_text(&Arc::clone(&prepared.text), &[])?;
        }
        self.refuse_if_failed(&prepared.kind)?;
        let wanted = prepared.param_oids.len();
        if params.len() != wanted {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {wanted}",
                    params.len()
                ),
            ));
        }
        if param_formats.len() > 1 && param_formats.len() != params.len() {
            return Err(SqlError::new(
                "08P01",
                format!("bind message has {} parameter formats but {} parameters", param_formats.len(), params.len()),
            ));
        }
        let zone = self.zone_if_needed(&prepared);
        let mut values = Vec::with_capacity(wanted);
        for (i, (value, &oid)) in params.iter().zip(prepared.param_oids.iter()).enumerate() {
            let format = match param_formats {
                [] => Format::Text,
                [one] => *one,
                many => many[i],
            };
            values.push(decode_param(oid, format, value.as_deref(), &zone)?);
        }
        prepared.check_domains(&values, &zone)?;
        let formats = result_formats.to_vec();
        let planned_at = self.definitions_now();
        Ok(Portal {
            prepared,
            values,
            formats,
            running: None,
            done: false,
            failed: false,
            number: 0,
            planned_at,
            kept: Vec::new(),
            _listed: None,
            hold: Hold::Not,
            place: Place::default(),
            scroll: None,
            is_scrollable: false,
            view: None,
            fetched: None,
        })
    }

    /// Describe of a portal: result columns and the formats that Bind asked for.
    ///
    /// # Errors
    /// `34000`.
    pub fn describe_portal(&mut self, portal: &str) -> Result<(Option<Arc<[Field]>>, &[Format]), SqlError> {
        let portal = self.portal(portal)?;
        Ok((portal.prepared.fields.clone(), &portal.formats))
    }

    /// Execute: runs a portal, for at most `max_rows` rows (0: all).
    ///
    /// # Errors
    /// The statement's; the transaction has then failed.
    pub async fn execute(&mut self, portal: &str, max_rows: usize) -> Result<Execution, SqlError> {
        self.in_string = false;
        self.first_run();
        self.time_runs();
        let types = self.type_source();
        let result = user_types::scope(types, panics::caught_in(self.run_portal(portal, max_rows))).await;
        self.first_run();
        self.read_since = None;
        if result.is_err() {
            self.statement_failed();
        }
        result
    }

    pub(super) async fn run_portal(&mut self, name: &str, max_rows: usize) -> Result<Execution, SqlError> {
        let portal = self.portal(name)?;
        let (prepared, failed) = (Arc::clone(&portal.prepared), portal.failed);
        self.refuse_if_failed(&prepared.kind)?;
        if failed {
            return Err(SqlError::new("55000", format!("portal \"{name}\" cannot be run")));
        }
        let result = self.go_on(name, max_rows).await;
        if result.is_err() {
            self.portal_failed(name);
        }
        result
    }

    pub(super) async fn go_on(&mut self, name: &str, max_rows: usize) -> Result<Execution, SqlError> {
        let portal = self.portal(name)?;
        let prepared = Arc::clone(&portal.prepared);
        if portal.scroll.is_some() {
            self.shared.stop.begin();
            let count =
                if max_rows == 0 { Count::All } else { Count::Rows(i64::try_from(max_rows).unwrap_or(i64::MAX)) };
            let fetch = Fetch { name: name.to_owned(), count, is_move: false };
            let taken = self.take_rows(name).unwrap_or_else(|| Err(SqlError::internal("a portal that is gone")))?;
            return Box::pin(self.fetch_kept(&fetch, taken, &[], false, "SELECT")).await;
        }
        if portal.fetched.is_some() {
            self.shared.stop.begin();
            return Box::pin(self.rest_of_fetch(name, max_rows)).await;
        }
        if let Some(active) = portal.running.take() {
            let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
            self.shared.stop.begin();
            return Box::pin(self.rows(*active, fields, max_rows, Some(name.to_owned()), false)).await;
        }
        if portal.done {
            if prepared.fields.is_none() {
                return Err(SqlError::new("55000", format!("portal \"{name}\" cannot be run")));
            }
            let fields = prepared.fields.clone().unwrap_or_else(|| Arc::new([]));
            return Ok(Execution::Rows { fields, first: None, rows: None, tag: Tag::Count("SELECT", 0) });
        }
        portal.done = true;
        let values = std::mem::take(&mut portal.values);
        let formats = std::mem::take(&mut portal.formats);
        let planned_at = portal.planned_at;
        let mut prepared = if planned_at == self.definitions_now() { prepared } else { self.planned_again(prepared)? };
        let result = loop {
            match self.run(&prepared, &values, &formats, max_rows, Some(name.to_owned()), false).await {
                Err(error) if self.runs_again(&error) => prepared = self.planned_again(prepared)?,
                result => break result,
            }
        };
        // It may be described again.
        if let Some(portal) = self.portals.get_mut(name) {
            portal.formats = formats;
        }
        result
    }

    /// Sync: ends what ran outside of BEGIN, by committing it.
    ///
    /// # Errors
    /// That of the commit.
    pub async fn sync(&mut self) -> Result<(), SqlError> {
        self.read_since = None;
        match &self.open {
            Some(open) if open.block => {
                // A portal that had not come to its end may have been closed, a statement planned.
                self.end_statement();
                Ok(())
            }
            // Without a transaction there may be settings to keep.
            _ => {
                self.close_portals();
                self.commit().await
            }
        }
    }

    /// Close of a statement; unknown names are no error.
    pub fn close_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// Close of a portal; unknown names are no error.
    pub fn close_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }
}
