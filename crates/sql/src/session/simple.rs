//! The simple protocol: a string of statements, each run as it is come to.
//!
//! A string without parameters may have its literals lifted out, so that its plan is kept for others; what a string of
//! several statements does outside of BEGIN is one transaction.

use std::sync::Arc;

use datafusion::common::ScalarValue;

use crate::exec::panics;
use crate::parse::lexer::{self, Literal};
use crate::parse::own::Parsed;
use crate::parse::read;
use crate::pg::decode::decode_param;
use crate::pg::types::oid::BPCHAR_ARRAY;
use crate::pg::user_types;
use crate::plan::statement::Prepared;
use crate::session::Session;
use crate::session::prepare::ends;
use crate::wire::{Execution, Format, SqlError};

/// One statement of a simple query.
pub struct SimpleStatement {
    pub(super) simple: Simple,
    /// There are others in the same string.
    pub(super) in_string: bool,
}

impl SimpleStatement {
    pub(super) fn alone(simple: Simple) -> Self {
        Self { simple, in_string: false }
    }

    /// Its plan and its literals, if it stands alone and was planned before.
    pub(super) fn ready(&self) -> Option<(&Arc<Prepared>, &[Literal])> {
        match &self.simple {
            Simple::Ready { prepared, literals } => Some((prepared, literals)),
            _ => None,
        }
    }
}

pub(super) enum Simple {
    /// Planned before; literals as parameters.
    Ready { prepared: Arc<Prepared>, literals: Vec<Literal> },
    /// To be planned with its literals lifted, or as it is if that fails.
    Lifted { text: String, oids: Vec<u32>, literals: Vec<Literal>, original: String },
    /// To be planned as it is.
    Text(String),
    /// Part of a string of several statements.
    Parsed { statement: Box<Parsed>, text: Arc<str> },
}

impl Session {
    /// Splits a simple query into statements; nothing runs yet. A text whose form is known
    /// is not parsed.
    ///
    /// # Errors
    /// `42601` with a position.
    pub fn split(&mut self, sql: &str) -> Result<Vec<SimpleStatement>, SqlError> {
        self.read_since = None;
        self.time_runs();
        self.count_text(sql)?;
        read::refuse_markers(sql)?;
        let lifted = lexer::lift(sql).filter(|lifted| !lifted.literals.is_empty());
        if let Some(lifted) = lifted {
            let kept = self.kept(&lifted.text, &lifted.oids);
            if let Some(prepared) = kept.filter(|prepared| stands_for(prepared, &lifted.literals)) {
                return Ok(vec![SimpleStatement::alone(Simple::Ready { prepared, literals: lifted.literals })]);
            }
            if let Some(prepared) = self.kept(sql, &[]) {
                return Ok(vec![SimpleStatement::alone(Simple::Ready { prepared, literals: vec![] })]);
            }
            return Ok(vec![SimpleStatement::alone(Simple::Lifted {
                text: lifted.text,
                oids: lifted.oids,
                literals: lifted.literals,
                original: sql.to_owned(),
            })]);
        }
        if let Some(prepared) = self.kept(sql, &[]) {
            return Ok(vec![SimpleStatement::alone(Simple::Ready { prepared, literals: vec![] })]);
        }
        if lexer::is_single(sql) {
            return Ok(vec![SimpleStatement::alone(Simple::Text(sql.to_owned()))]);
        }
        let text: Arc<str> = Arc::from(sql);
        let statements = self.parsed(sql, read::parse)?;
        let in_string = statements.len() > 1;
        Ok(statements
            .into_iter()
            .map(|statement| {
                let simple = Simple::Parsed { statement: Box::new(statement), text: Arc::clone(&text) };
                SimpleStatement { simple, in_string }
            })
            .collect())
    }

    /// Runs one statement of a simple query. `last`: it is the last of its string, so what
    /// it and its predecessors did outside of BEGIN is committed.
    ///
    /// # Errors
    /// The statement's; the transaction has then failed and the rest must not run.
    pub async fn execute_simple(&mut self, simple: SimpleStatement, last: bool) -> Result<Execution, SqlError> {
        user_types::scope(self.type_source(), self.execute_one(simple, last)).await
    }

    pub(super) async fn execute_one(&mut self, simple: SimpleStatement, last: bool) -> Result<Execution, SqlError> {
        self.in_string = simple.in_string;
        self.first_run();
        self.time_runs();
        let result = loop {
            match panics::caught_in(self.run_simple(&simple.simple, last)).await {
                Err(error) if self.runs_again(&error) => {}
                result => break result,
            }
        };
        self.first_run();
        self.read_since = None;
        if result.is_err() {
            self.statement_failed();
        }
        result
    }

    pub(super) async fn run_simple(&mut self, simple: &Simple, last: bool) -> Result<Execution, SqlError> {
        let (prepared, literals): (_, &[Literal]) = match simple {
            Simple::Ready { prepared, literals } => (Arc::clone(prepared), literals),
            Simple::Lifted { text, oids, literals, original } => match self.prepare_text(text, oids) {
                Ok(prepared) if stands_for(&prepared, literals) => (prepared, literals),
                Err(error) if ends(&error) => return Err(error),
                _ => {
                    // Any failure is told in terms of the text that the user wrote.
                    let statement = self.parsed(original, read::parse)?;
                    if statement.len() != 1 {
                        return Err(SqlError::syntax("cannot run several statements here"));
                    }
                    let prepared = self.plan(statement.into_iter().next(), original, &[], true)?;
                    (prepared, &[])
                }
            },
            Simple::Text(text) => (self.prepare_text(text, &[])?, &[]),
            Simple::Parsed { statement, text } => {
                // Planned this moment, and its text is that of the whole string.
                let prepared = self.plan(Some((**statement).clone()), text, &[], false)?;
                return self.run(&prepared, &[], &[], 0, None, last).await;
            }
        };
        let prepared = if self.is_run_again() && matches!(simple, Simple::Lifted { .. } | Simple::Text(_)) {
            prepared // planned this moment
        } else {
            self.current_lifted(prepared, literals)?
        };
        let values = self.values_of(&prepared, literals)?;
        self.run(&prepared, &values, &[], 0, None, last).await
    }

    /// Literals as the parameters that they stand for.
    pub(super) fn values_of(&self, prepared: &Prepared, literals: &[Literal]) -> Result<Vec<ScalarValue>, SqlError> {
        let zone = self.zone_if_needed(prepared);
        let mut values = Vec::with_capacity(literals.len());
        for (literal, &oid) in literals.iter().zip(prepared.param_oids.iter()) {
            let value = decode_param(oid, Format::Text, Some(literal.text.as_bytes()), &zone);
            values.push(value.map_err(|error| match error.position {
                None => error.with_position(literal.position),
                Some(_) => error,
            })?);
        }
        if values.len() < prepared.param_oids.len() {
            return Err(SqlError::new("42P02", format!("there is no parameter ${}", values.len() + 1)));
        }
        Ok(values)
    }

    pub(super) fn current_lifted(
        &mut self,
        prepared: Arc<Prepared>,
        literals: &[Literal],
    ) -> Result<Arc<Prepared>, SqlError> {
        if !self.is_run_again() && self.is_current(&prepared) {
            return Ok(prepared);
        }
        let oids: Vec<u32> = literals.iter().map(|literal| literal.oid).collect();
        self.current(prepared, &oids)
    }
}

/// Whether the plan of a text whose literals were lifted is that of the text with these.
pub(super) fn stands_for(prepared: &Prepared, literals: &[Literal]) -> bool {
    // Parameters have no blanks at the ends of elements.
    let loses_blanks = |(literal, oid): (&Literal, &u32)| *oid == BPCHAR_ARRAY && literal.text.contains(' ');
    prepared.param_oids.len() == literals.len()
        && !prepared.typed_by_literals
        && !literals.iter().zip(prepared.param_oids.iter()).any(loses_blanks)
}
