//! A text with its constants, and how often it is run which way.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::generator::Gen;
use super::query::Query;
use super::schema::Schema;
use super::tree::{Hole, Tree, Writing, write};
use super::types::Value;
use crate::answers::client::Parameter;

/// Runs of a text by one protocol, each with other constants.
pub const RUNS: usize = 3;

/// One run: which way, and with which of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Simple(usize),
    /// A prepared statement; parameters and results in text or in binary.
    Extended {
        run: usize,
        parameters: bool,
        results: bool,
    },
}

impl Step {
    pub fn run(self) -> usize {
        match self {
            Self::Simple(run) | Self::Extended { run, .. } => run,
        }
    }

    pub fn is_simple(self) -> bool {
        matches!(self, Self::Simple(_))
    }
}

/// All runs of a text: three by the simple protocol, and four of one prepared statement with
/// each pair of formats.
pub fn all_steps() -> Vec<Step> {
    let mut steps: Vec<Step> = (0..RUNS).map(Step::Simple).collect();
    let formats = [(false, false), (true, true), (false, true), (true, false)];
    steps.extend(formats.iter().enumerate().map(|(at, (parameters, results))| Step::Extended {
        run: RUNS + at,
        parameters: *parameters,
        results: *results,
    }));
    steps
}

/// In a transaction of its own, or in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    None,
    Rollback,
    Commit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Query {
        ordered: bool,
    },
    /// `several`: rows come in no order, so neither do their errors.
    Dml {
        several: bool,
    },
    Invalid,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub tree: Tree,
    pub holes: Vec<Hole>,
    pub kind: Kind,
    /// Whether Parse declares the types of parameters.
    pub declare: bool,
    pub block: Block,
    pub steps: Vec<Step>,
}

impl Case {
    /// The statement of that number in a round.
    pub fn random(seed: u64, schema: &Schema) -> Self {
        use rand::Rng;
        let mut rng = StdRng::seed_from_u64(seed);
        let declare = rng.random_ratio(1, 3);
        let which = rng.random_range(0..100);
        let block = match rng.random_range(0..10) {
            0 => Block::Rollback,
            1 => Block::Commit,
            _ => Block::None,
        };
        let steps = all_steps();
        let mut generator = Gen::new(&mut rng, schema, steps.len());
        if schema.is_for_orders() {
            let Query { tree, ordered } = generator.order_query();
            let holes = generator.holes;
            let kind = Kind::Query { ordered };
            return Self { tree, holes, kind, declare, block: Block::None, steps: super::orders::steps() };
        }
        let (tree, kind, block) = match which {
            0..=57 => {
                let query = generator.query();
                let block = if block == Block::Commit { Block::None } else { block };
                (query.tree, Kind::Query { ordered: query.ordered }, block)
            }
            58..=91 => {
                let dml = generator.dml();
                (dml.tree, Kind::Dml { several: dml.several }, block)
            }
            _ => (generator.invalid(), Kind::Invalid, Block::None),
        };
        let holes = generator.holes;
        Self { tree, holes, kind, declare, block, steps }
    }

    /// Its text with the constants of a run, or with parameters.
    pub fn text(&self, run: Option<usize>, drop_null_in_not_in: bool) -> (String, Vec<usize>) {
        write(&self.tree, &self.holes, Writing { run, drop_null_in_not_in })
    }

    /// The types to declare.
    pub fn declared(&self, parameters: &[usize]) -> Vec<u32> {
        if self.declare { parameters.iter().map(|at| self.holes[*at].ty.oid()).collect() } else { Vec::new() }
    }

    /// The parameters of a run. Binary where that is asked for and the statement's parameter
    /// has the constant's type.
    pub fn bound(&self, parameters: &[usize], types: &[u32], run: usize, binary: bool) -> Vec<Parameter> {
        parameters
            .iter()
            .enumerate()
            .map(|(number, at)| {
                let hole = &self.holes[*at];
                let value: &Value = hole.value(run);
                if binary
                    && types.get(number) == Some(&hole.ty.oid())
                    && let Some(value) = value.binary(hole.ty)
                {
                    return Parameter { value, binary: true };
                }
                Parameter::text(value.text(hole.ty).as_deref())
            })
            .collect()
    }

    /// One step as SQL that psql could run, and a remark on how it was run.
    pub fn script(&self, step: Step) -> String {
        match step {
            Step::Simple(run) => format!("{};", self.text(Some(run), false).0),
            Step::Extended { run, parameters, results } => {
                let (text, holes) = self.text(None, false);
                let types = if self.declare && !holes.is_empty() {
                    let names: Vec<&str> = holes.iter().map(|at| self.holes[*at].ty.name()).collect();
                    format!(" ({})", names.join(", "))
                } else {
                    String::new()
                };
                let values: Vec<String> = holes
                    .iter()
                    .map(|at| {
                        let hole = &self.holes[*at];
                        hole.value(run).text(hole.ty).map_or_else(|| "NULL".into(), |text| super::types::quoted(&text))
                    })
                    .collect();
                let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
                let format = |binary| if binary { "binary" } else { "text" };
                format!(
                    "PREPARE s{types} AS {text}; EXECUTE s{values}; -- by Parse and Bind; parameters {}, results {}",
                    format(parameters),
                    format(results)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same seed gives the same statements; three runs of a text are not the same, and all
    /// kinds of statements come up.
    #[test]
    fn cases_come_from_their_seed() {
        let schema = Schema::random(&mut StdRng::seed_from_u64(1));
        let (mut queries, mut writes, mut wrong, mut vary) = (0, 0, 0, 0);
        for seed in 0..300 {
            let (case, again) = (Case::random(seed, &schema), Case::random(seed, &schema));
            let texts: Vec<String> = (0..RUNS).map(|run| case.text(Some(run), false).0).collect();
            assert_eq!(texts[1], again.text(Some(1), false).0);
            vary += usize::from(texts[0] != texts[1] && texts[1] != texts[2]);
            match case.kind {
                Kind::Query { .. } => queries += 1,
                Kind::Dml { .. } => writes += 1,
                Kind::Invalid => wrong += 1,
            }
            // Everything that has a parameter has it in a place of its own.
            let (text, parameters) = case.text(None, false);
            for number in 1..=parameters.len() {
                assert!(text.contains(&format!("${number}")), "{text}");
            }
        }
        assert!(queries > 100 && writes > 50 && wrong > 5 && vary > 200, "{queries} {writes} {wrong} {vary}");
    }
}
