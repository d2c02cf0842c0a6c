//! The two servers: one text is run on both and their answers are compared.

use std::collections::BTreeMap;
use std::time::Duration;

use super::canary::Canary;
use super::case::{Block, Case, Kind, Step};
use super::compare::{Difference, Differs, columns, compare, types};
use super::objects;
use super::schema::{Row, Schema};
use crate::Result;
use crate::answers::client::{Client, Complaint, Described, Outcome, Parameter, Reply, Target, cancel};

/// A statement that takes longer is given up, by the servers themselves.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that is silent for longer is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Rows of a result beyond this number are not compared.
const ROWS_MAX: usize = 100_000;

/// SQLSTATE of what a server does not support.
const REFUSED: &str = "0A000";

/// One server.
pub struct Side {
    target: Target,
    client: Client,
    /// Settings of each session.
    settings: Vec<String>,
    statements: usize,
    /// Oids of types that were made here, and the other side's of the same types.
    types: BTreeMap<u32, u32>,
}

impl Side {
    pub fn connect(port: u16, database: &str, settings: &[&str]) -> Result<Self> {
        let target = Target { database: database.into(), patience: Some(PATIENCE), ..Target::new(port) };
        let timeout = format!("SET statement_timeout = {}", STATEMENT_TIMEOUT.as_millis());
        let settings = settings.iter().map(|s| (*s).to_owned()).chain([timeout]).collect();
        let (client, types) = (Client::connect(&target)?, BTreeMap::new());
        let mut side = Self { client, target, settings, statements: 0, types };
        side.set()?;
        Ok(side)
    }

    fn set(&mut self) -> Result<()> {
        self.client.set_rows_max(ROWS_MAX);
        for text in self.settings.clone() {
            let reply = self.client.query(&text)?;
            if let Some(error) = reply.error() {
                return Err(format!("{text}: {error}"));
            }
        }
        Ok(())
    }

    /// A new session in place of a broken one.
    pub fn reconnect(&mut self) -> Result<()> {
        // What the old one runs would hold its locks.
        if let Some(key) = self.client.key() {
            let _ = cancel(self.client.port(), key);
        }
        // A server that is about to die should not take long to find out.
        let soon = Target { patience: Some(Duration::from_secs(2)), ..self.target.clone() };
        self.client = Client::connect(&soon)?;
        self.client.set_patience(Some(PATIENCE))?;
        self.set()
    }

    /// Runs a text by the simple protocol.
    pub fn query(&mut self, sql: &str) -> Result<Reply> {
        let reply = self.client.query(sql);
        reply.map(|reply| self.with_their_types(reply))
    }

    fn execute(&mut self, name: &str, parameters: &[Parameter], binary: bool) -> Result<Reply> {
        let reply = self.client.execute(name, parameters, &[binary], 0);
        reply.map(|reply| self.with_their_types(reply))
    }

    fn prepare(&mut self, name: &str, text: &str, types: &[u32]) -> Result<std::result::Result<Described, Complaint>> {
        let mut found = self.client.prepare(name, text, types)?;
        if let Ok(found) = &mut found {
            let columns = found.columns.iter_mut().flatten().map(|column| &mut column.oid);
            columns.chain(&mut found.parameters).for_each(|oid| *oid = self.types.get(oid).copied().unwrap_or(*oid));
        }
        Ok(found)
    }

    fn with_their_types(&self, mut reply: Reply) -> Reply {
        for column in reply.outcomes.iter_mut().flat_map(|outcome| outcome.columns.iter_mut().flatten()) {
            column.oid = self.types.get(&column.oid).copied().unwrap_or(column.oid);
        }
        reply
    }

    /// Makes what is in `objects.rs`; the oids of its types.
    fn make_objects(&mut self) -> Result<Vec<u32>> {
        for text in objects::CREATE {
            if let Some(error) = self.query(text)?.error() {
                return Err(format!("{text}: {error}"));
            }
        }
        let found = self.query(objects::OIDS)?;
        let texts = found.outcomes.iter().flat_map(|outcome| &outcome.rows).flat_map(|row| Outcome::texts(row));
        Ok(texts.filter_map(|oid| oid?.parse().ok()).collect())
    }
}

/// What a text came to.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The gravest difference, and the step that had it.
    pub found: Option<(Step, Differs)>,
    /// The server under test does not support it.
    pub refused: Option<Complaint>,
    /// Both answered the same error, this one.
    pub failed: Option<String>,
    /// Rows that both answered.
    pub rows: usize,
    /// Whether the tables may differ from now on.
    pub apart: bool,
}

/// PostgreSQL, and the server under test.
pub struct Sides {
    pub theirs: Side,
    pub ours: Side,
    pub canary: Option<Canary>,
}

impl Sides {
    /// Two sessions, of empty databases.
    ///
    /// # Errors
    /// What they lack.
    pub fn new(mut theirs: Side, mut ours: Side, canary: Option<Canary>) -> Result<Self> {
        let (a, b) = (theirs.make_objects()?, ours.make_objects()?);
        if a.len() != b.len() {
            return Err(format!("types that were made on one side only: {a:?} and {b:?}"));
        }
        ours.types = b.into_iter().zip(a).collect();
        Ok(Self { theirs, ours, canary })
    }

    /// Makes the tables and their rows anew on both sides.
    ///
    /// # Errors
    /// What differed, in words; or the connection's end.
    pub fn build(&mut self, schema: &Schema, rows: &[Row]) -> Result<std::result::Result<(), (String, Differs)>> {
        for text in schema.drop() {
            self.theirs.query(&text)?;
            self.ours.query(&text)?;
        }
        let forgotten = self.canary == Some(Canary::CheckForgotten);
        let (create, other) = (schema.create(true), schema.create(!forgotten));
        let inserts = schema.inserts(rows);
        let both = create.iter().zip(&other).chain(inserts.iter().map(|text| (text, text)));
        for (theirs, ours) in both {
            let kind = Kind::Dml { several: false };
            let (a, b) = (self.theirs.query(theirs)?, self.ours.query(ours)?);
            if let Some(differs) = compare(&a, &b, kind) {
                return Ok(Err((theirs.clone(), differs)));
            }
        }
        Ok(Ok(()))
    }

    /// Makes the tables anew with those rows on which both sides agree, and says about which
    /// they do not; none if the tables themselves cannot be made alike.
    ///
    /// # Errors
    /// The connection's end.
    pub fn fill(&mut self, schema: &Schema, rows: &[Row]) -> Result<(Option<Vec<Row>>, Vec<(String, Differs)>)> {
        if schema.is_for_orders() {
            return Ok(match self.build(schema, rows)? {
                Ok(()) => (Some(rows.to_vec()), Vec::new()),
                Err(found) => (None, vec![found]),
            });
        }
        if let Err(found) = self.build(schema, &[])? {
            return Ok((None, vec![found]));
        }
        let (mut kept, mut found) = (Vec::new(), Vec::new());
        for row in rows {
            let text = schema.insert(row);
            let ours = self.ours.query(&text)?;
            let failed = ours.error().is_some();
            if failed {
                // Maybe it does not fail there, and then it is taken back.
                self.theirs.query("BEGIN")?;
                self.theirs.query("SET CONSTRAINTS ALL IMMEDIATE")?;
            }
            let theirs = self.theirs.query(&text)?;
            if failed {
                self.theirs.query("ROLLBACK")?;
            }
            if ours.error().is_some_and(|error| error.code == REFUSED) {
                continue;
            }
            match compare(&theirs, &ours, Kind::Dml { several: false }) {
                None => kept.push(row.clone()),
                Some(differs) => {
                    found.push((text, differs));
                    if !failed {
                        // A row too many here.
                        return Ok((None, found));
                    }
                }
            }
        }
        Ok((Some(kept), found))
    }

    /// Runs all steps of a case on both sides.
    ///
    /// # Errors
    /// The reference's connection ended.
    pub fn run(&mut self, case: &Case, schema: &Schema) -> Result<Verdict> {
        let mut verdict = Verdict::default();
        let writes = !matches!(case.kind, Kind::Query { .. });
        let mut prepared: Option<Prepared> = None;
        for step in &case.steps {
            if writes {
                self.set_numbers(schema)?;
            }
            if !step.is_simple() && prepared.is_none() {
                match self.prepare(case, *step, &mut verdict)? {
                    Some(both) => prepared = Some(both),
                    None => break,
                }
            }
            self.step(case, *step, prepared.as_ref(), &mut verdict)?;
            if verdict.refused.is_some() || verdict.apart {
                break;
            }
            // What is graver may still come; but not from tables that differ.
            if writes && verdict.found.as_ref().is_some_and(|(_, d)| d.what < Difference::Code) {
                verdict.apart = true;
                break;
            }
        }
        if let Some(prepared) = prepared {
            self.theirs.client.close(&prepared.name)?;
            if self.ours.client.close(&prepared.name).is_err() {
                self.ours.reconnect()?;
            }
        }
        if writes && !verdict.apart {
            self.compare_tables(case, schema, &mut verdict)?;
        }
        Ok(verdict)
    }

    /// Sequences of identity columns to one number on both sides: a statement that failed may have taken some from them.
    fn set_numbers(&mut self, schema: &Schema) -> Result<()> {
        for table in &schema.tables {
            for column in table.columns.iter().filter(|column| column.identity) {
                let text = format!("SELECT setval(pg_get_serial_sequence('{}', '{}'), 1000)", table.name, column.name);
                self.theirs.query(&text)?;
                // Whether it still answers is seen by the next.
                let _ = self.ours.query(&text);
            }
        }
        Ok(())
    }

    /// Parses on both sides and compares what Describe says; none if there is nothing to run.
    fn prepare(&mut self, case: &Case, step: Step, verdict: &mut Verdict) -> Result<Option<Prepared>> {
        self.ours.statements += 1;
        let name = format!("s{}", self.ours.statements);
        let (text, parameters) = case.text(None, false);
        let declared = case.declared(&parameters);
        let altered = case.text(None, self.canary == Some(Canary::NullInNotIn)).0;
        let ours = match self.ours.prepare(&name, &altered, &declared) {
            Ok(ours) => ours,
            Err(why) => {
                self.broken(step, why, verdict)?;
                return Ok(None);
            }
        };
        if let Err(error) = &ours
            && error.code == REFUSED
        {
            verdict.refused = Some(error.clone());
            return Ok(None);
        }
        let theirs = self.theirs.prepare(&name, &text, &declared)?;
        let (theirs, ours): (Described, Described) = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => (theirs, ours),
            // An error that PostgreSQL has only when it runs the statement.
            (Ok(theirs), Err(error)) if error.code.starts_with("22") => {
                let prepared = Prepared { name: name.clone(), parameters, theirs: theirs.parameters, ours: Vec::new() };
                let theirs = self.theirs_answer(case, step, Some(&prepared))?;
                self.theirs.client.close(&name)?;
                let outcome = Outcome { error: Some(error), ..Default::default() };
                let ours = Reply { outcomes: vec![outcome], ..Reply::default() };
                verdict.failed = theirs.error().map(|error| error.code.clone());
                verdict.note(step, compare(&theirs, &ours, case.kind));
                verdict.apart |= theirs.error().is_none() && case.kind != (Kind::Query { ordered: true });
                return Ok(None);
            }
            (theirs, ours) => {
                let reply = |answer: std::result::Result<Described, Complaint>| Reply {
                    outcomes: vec![Outcome { error: answer.err(), ..Default::default() }],
                    ..Reply::default()
                };
                let (theirs, ours) = (reply(theirs), reply(ours));
                verdict.failed = theirs.error().map(|error| error.code.clone());
                verdict.note(step, compare(&theirs, &ours, case.kind));
                return Ok(None);
            }
        };
        if theirs.parameters != ours.parameters {
            verdict.note(step, types(Difference::Parameters, Some(&theirs.parameters), Some(&ours.parameters)));
        }
        verdict.note(step, columns(theirs.columns.as_deref(), ours.columns.as_deref()));
        Ok(Some(Prepared { name, parameters, theirs: theirs.parameters, ours: ours.parameters }))
    }

    fn step(&mut self, case: &Case, step: Step, prepared: Option<&Prepared>, verdict: &mut Verdict) -> Result<()> {
        let begun = case.block != Block::None;
        if begun && let Err(why) = self.ours.query("BEGIN") {
            return self.broken(step, why, verdict);
        }
        let ours = match self.ours_answer(case, step, prepared) {
            Ok(ours) => ours,
            Err(why) => return self.broken(step, why, verdict),
        };
        let refused = ours.error().filter(|error| error.code == REFUSED).cloned();
        if let Some(error) = refused {
            if begun && let Err(why) = self.ours.query("ROLLBACK") {
                return self.broken(step, why, verdict);
            }
            // What PostgreSQL refuses, too, is right.
            if case.kind == Kind::Invalid
                && self.theirs_answer(case, step, prepared)?.error().is_some_and(|e| e.code == REFUSED)
            {
                verdict.failed = Some(REFUSED.into());
                return Ok(());
            }
            verdict.refused = Some(error);
            return Ok(());
        }
        if begun {
            self.theirs.query("BEGIN")?;
        }
        let theirs = self.theirs_answer(case, step, prepared)?;
        match theirs.error() {
            Some(error) if error.code == "57014" => {
                // Too much for PostgreSQL: nothing to be learned, unless it wrote nothing and we did.
                verdict.apart = !matches!(case.kind, Kind::Query { .. });
            }
            error => {
                verdict.failed = error.map(|error| error.code.clone());
                verdict.rows += theirs.outcomes.last().map_or(0, |outcome| outcome.rows.len());
                let ours = self.canary.map_or_else(|| ours.clone(), |canary| canary.altered(&ours));
                verdict.note(step, compare(&theirs, &ours, case.kind));
            }
        }
        if begun {
            let end = if case.block == Block::Commit { "COMMIT" } else { "ROLLBACK" };
            let theirs = self.theirs.query(end)?;
            match self.ours.query(end) {
                Ok(ours) => verdict.note(step, compare(&theirs, &ours, case.kind)),
                Err(why) => return self.broken(step, why, verdict),
            }
        }
        Ok(())
    }

    fn theirs_answer(&mut self, case: &Case, step: Step, prepared: Option<&Prepared>) -> Result<Reply> {
        match (step, prepared) {
            (Step::Extended { run, parameters, results }, Some(prepared)) => {
                let bound = case.bound(&prepared.parameters, &prepared.theirs, run, parameters);
                self.theirs.execute(&prepared.name, &bound, results)
            }
            _ => self.theirs.query(&case.text(Some(step.run()), false).0),
        }
    }

    fn ours_answer(&mut self, case: &Case, step: Step, prepared: Option<&Prepared>) -> Result<Reply> {
        let first = if step.is_simple() { 0 } else { super::case::RUNS };
        let run = if self.canary == Some(Canary::FoldedParameter) { first } else { step.run() };
        match (step, prepared) {
            (Step::Extended { parameters, results, .. }, Some(prepared)) => {
                let bound = case.bound(&prepared.parameters, &prepared.ours, run, parameters);
                self.ours.execute(&prepared.name, &bound, results)
            }
            _ => self.ours.query(&case.text(Some(run), self.canary == Some(Canary::NullInNotIn)).0),
        }
    }

    /// Our connection ended: a finding, and a new session.
    fn broken(&mut self, step: Step, why: String, verdict: &mut Verdict) -> Result<()> {
        let differs = Differs::new(Difference::Broken, "an answer".into(), why);
        verdict.note(step, Some(differs));
        verdict.apart = true;
        // The server may be dead, or busy with what it was asked.
        for _ in 0..20 {
            if self.ours.reconnect().is_ok() {
                self.theirs.reconnect()?;
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Err(format!("the server does not come back: {:?}", verdict.found))
    }

    fn compare_tables(&mut self, case: &Case, schema: &Schema, verdict: &mut Verdict) -> Result<()> {
        let Some(step) = case.steps.last() else { return Ok(()) };
        for table in &schema.tables {
            let text = format!("SELECT * FROM {}", table.name);
            let theirs = self.theirs.query(&text)?;
            let ours = match self.ours.query(&text) {
                Ok(ours) => ours,
                Err(why) => return self.broken(*step, why, verdict),
            };
            if let Some(mut differs) = compare(&theirs, &ours, Kind::Query { ordered: false }) {
                differs.what = Difference::Table;
                differs.theirs.insert_str(0, &format!("{}: ", table.name));
                verdict.note(*step, Some(differs));
                verdict.apart = true;
                return Ok(());
            }
        }
        Ok(())
    }
}

struct Prepared {
    name: String,
    /// Holes by the number of their parameter.
    parameters: Vec<usize>,
    /// The types of the parameters on each side.
    theirs: Vec<u32>,
    ours: Vec<u32>,
}

impl Verdict {
    /// Keeps a difference if it is graver than the one that there is.
    fn note(&mut self, step: Step, differs: Option<Differs>) {
        let Some(differs) = differs else { return };
        if self.found.as_ref().is_none_or(|(_, known)| differs.what < known.what) {
            self.found = Some((step, differs));
        }
    }
}
