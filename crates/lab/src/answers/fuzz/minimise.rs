//! Making a finding small: fewer statements before it, fewer runs, fewer rows, less schema, a
//! shorter statement. A step is kept if the difference is still of the same kind (and has the
//! same SQLSTATEs), checked from new tables each time.

use super::case::{Case, Step};
use super::compare::Differs;
use super::schema::{Row, Schema};
use super::sides::Sides;
use super::tree::{size, smaller};
use crate::Result;

/// Checks that a finding is worth.
const CHECKS_MAX: usize = 600;

/// A finding with all that it takes to see it.
#[derive(Clone, Debug)]
pub struct Finding {
    pub schema: Schema,
    pub rows: Vec<Row>,
    /// Statements that ran before it on the same tables.
    pub before: Vec<Case>,
    pub case: Case,
    pub step: Step,
    pub differs: Differs,
}

impl Finding {
    /// A script that shows it, and what was answered.
    pub fn script(&self) -> String {
        let mut text = String::new();
        let mut line = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        for create in self.schema.create(true) {
            line(&format!("{create};"));
        }
        for insert in self.schema.inserts(&self.rows) {
            line(&format!("{insert};"));
        }
        for case in &self.before {
            for step in &case.steps {
                line(&case.script(*step));
            }
        }
        if self.case.block != super::case::Block::None {
            line(&format!("-- each in a block that ends with {:?}", self.case.block));
        }
        for step in &self.case.steps {
            line(&self.case.script(*step));
        }
        line(&format!("-- {:?} of {:?}", self.differs.what, self.step));
        line(&format!("-- PostgreSQL: {}", self.differs.theirs));
        line(&format!("-- here:       {}", self.differs.ours));
        let needed: String = super::objects::needed(&text).iter().map(|create| format!("{create};\n")).collect();
        needed + &text
    }

    /// What it is about, without names and constants.
    pub fn signature(&self) -> String {
        format!("{:?}: {}", self.differs.what, self.differs.about)
    }
}

struct Minimiser<'a> {
    sides: &'a mut Sides,
    best: Finding,
    checks: usize,
}

/// The smallest finding of the same kind that was found; none if it did not happen again.
///
/// # Errors
/// The reference's connection ended.
pub fn minimise(sides: &mut Sides, finding: &Finding) -> Result<Option<Finding>> {
    let mut this = Minimiser { sides, best: finding.clone(), checks: 0 };
    let same = finding.clone();
    // Without a history if that is enough; it is the longest part.
    let mut alone = same.clone();
    alone.before.clear();
    if !this.holds(alone)? && !this.holds(same)? {
        return Ok(None);
    }
    this.steps()?;
    this.history()?;
    this.rows()?;
    this.statement()?;
    this.schema()?;
    this.rows()?;
    this.statement()?;
    this.steps()?;
    Ok(Some(this.best))
}

impl Minimiser<'_> {
    /// Whether a candidate shows the difference; if so it is the best so far.
    fn holds(&mut self, mut candidate: Finding) -> Result<bool> {
        if self.checks >= CHECKS_MAX {
            return Ok(false);
        }
        self.checks += 1;
        if self.sides.build(&candidate.schema, &candidate.rows)?.is_err() {
            return Ok(false);
        }
        for case in &candidate.before {
            if self.sides.run(case, &candidate.schema)?.apart {
                return Ok(false);
            }
        }
        let verdict = self.sides.run(&candidate.case, &candidate.schema)?;
        let Some((step, differs)) = verdict.found else { return Ok(false) };
        let found = Finding { step, differs, ..candidate.clone() };
        if found.signature() != self.best.signature() {
            return Ok(false);
        }
        candidate.step = found.step;
        candidate.differs = found.differs;
        self.best = candidate;
        Ok(true)
    }

    /// One step, or two.
    fn steps(&mut self) -> Result<()> {
        let failing = self.best.step;
        let all = self.best.case.steps.clone();
        let mut tries = vec![vec![failing]];
        for first in &all {
            if *first != failing {
                tries.push(vec![*first, failing]);
            }
        }
        for steps in tries {
            if steps.len() >= self.best.case.steps.len() {
                continue;
            }
            let mut candidate = self.best.clone();
            candidate.case.steps = steps;
            if self.holds(candidate)? {
                break;
            }
        }
        Ok(())
    }

    fn history(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.best.before.len() {
            let mut candidate = self.best.clone();
            candidate.before.remove(at);
            if !self.holds(candidate)? {
                at += 1;
            }
        }
        Ok(())
    }

    /// Halves, quarters, … of the rows.
    fn rows(&mut self) -> Result<()> {
        let mut chunk = self.best.rows.len().max(1);
        loop {
            let mut at = 0;
            while at < self.best.rows.len() {
                let end = (at + chunk).min(self.best.rows.len());
                let mut candidate = self.best.clone();
                candidate.rows.drain(at..end);
                if !self.holds(candidate)? {
                    at = end;
                }
            }
            if chunk == 1 {
                return Ok(());
            }
            chunk = chunk.div_ceil(2);
        }
    }

    fn statement(&mut self) -> Result<()> {
        'again: loop {
            let now = size(&self.best.case.tree);
            let mut candidates = smaller(&self.best.case.tree);
            candidates.retain(|tree| size(tree) <= now && *tree != self.best.case.tree);
            candidates.sort_by_key(size);
            for tree in candidates {
                let mut candidate = self.best.clone();
                candidate.case.tree = tree;
                if self.holds(candidate)? {
                    continue 'again;
                }
                if self.checks >= CHECKS_MAX {
                    break;
                }
            }
            return Ok(());
        }
    }

    /// Tables that nobody names.
    fn tables(&mut self) -> Result<()> {
        let mut at = self.best.schema.tables.len();
        while at > 0 {
            at -= 1;
            let name = &self.best.schema.tables[at].name;
            if self.best.case.text(None, false).0.contains(name.as_str()) {
                continue;
            }
            let Some((schema, rows)) = self.best.schema.without_table(at, &self.best.rows) else { continue };
            let mut candidate = self.best.clone();
            (candidate.schema, candidate.rows) = (schema, rows);
            self.holds(candidate)?;
        }
        Ok(())
    }

    fn schema(&mut self) -> Result<()> {
        self.tables()?;
        'again: loop {
            for schema in self.best.schema.with_less() {
                let mut candidate = self.best.clone();
                candidate.schema = schema;
                if self.holds(candidate)? {
                    continue 'again;
                }
            }
            break;
        }
        self.tables()?;
        for table in 0..self.best.schema.tables.len() {
            let mut column = self.best.schema.tables[table].columns.len();
            while column > 0 {
                column -= 1;
                let Some((schema, rows)) = self.best.schema.without_column(table, column, &self.best.rows) else {
                    continue;
                };
                let mut candidate = self.best.clone();
                (candidate.schema, candidate.rows) = (schema, rows);
                self.holds(candidate)?;
            }
        }
        Ok(())
    }
}
