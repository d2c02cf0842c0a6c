//! Functions that PostgreSQL does not have.

use super::entry::{Default, Function};
use super::kinds::*;
use crate::types::TypeId;

/// Oid of the first function of one's own. PostgreSQL's built-in objects are below 16384, and a
/// cluster counts up from there.
pub const FIRST_OWN_OID: u32 = 4_000_000_000;

/// A function to be known beside PostgreSQL's; see [`Catalog::with_functions`](crate::Catalog::with_functions).
#[derive(Clone, Copy, Debug)]
pub struct NewFunction {
    pub name: &'static str,
    pub kind: FunctionKind,
    /// Types of the arguments. A polymorphic type (`anyelement`…) is solved at each call.
    pub args: &'static [TypeId],
    /// Names of the arguments, then those of `columns`; empty for none.
    pub arg_names: &'static [&'static str],
    /// The last argument takes any number of values; its type in `args` is then the array (or
    /// [`TypeId::ANY`]).
    pub variadic: Option<TypeId>,
    /// Constants in SQL for the last arguments.
    pub defaults: &'static [&'static str],
    /// For a function with several output columns: their names and types; `result` is then
    /// [`TypeId::RECORD`].
    pub columns: &'static [(&'static str, TypeId)],
    pub result: TypeId,
    pub returns_set: bool,
    pub strict: bool,
    pub volatility: Volatility,
}

impl NewFunction {
    /// A strict, immutable function of a row's values; change the fields that differ.
    pub const fn scalar(name: &'static str, args: &'static [TypeId], result: TypeId) -> NewFunction {
        NewFunction {
            name,
            kind: FunctionKind::Function,
            args,
            arg_names: &[],
            variadic: None,
            defaults: &[],
            columns: &[],
            result,
            returns_set: false,
            strict: true,
            volatility: Volatility::Immutable,
        }
    }

    pub(super) fn function(&self, oid: u32) -> Function {
        let in_mode = if self.variadic.is_some() { ArgMode::Variadic } else { ArgMode::In };
        let last = self.args.len().saturating_sub(1);
        let modes: Vec<ArgMode> = (0..self.args.len())
            .map(|at| if at == last { in_mode } else { ArgMode::In })
            .chain(self.columns.iter().map(|_| ArgMode::Table))
            .collect();
        let all: Vec<TypeId> = self.args.iter().copied().chain(self.columns.iter().map(|c| c.1)).collect();
        let mut names: Vec<&'static str> = self.arg_names.to_vec();
        if !self.columns.is_empty() {
            names.resize(self.args.len(), "");
            names.extend(self.columns.iter().map(|c| c.0));
        }
        let plain = self.columns.is_empty() && self.variadic.is_none();
        let defaulted = self.args.iter().skip(self.args.len().saturating_sub(self.defaults.len()));
        Function {
            oid,
            name: self.name,
            schema: Schema::PgCatalog,
            language: "resurgam",
            kind: self.kind,
            args: self.args.to_vec(),
            all_args: if plain { Vec::new() } else { all },
            modes: if plain { Vec::new() } else { modes },
            names,
            variadic: self.variadic,
            defaults: self.defaults.iter().zip(defaulted).map(|(sql, &ty)| Default { sql, ty }).collect(),
            result: self.result,
            returns_set: self.returns_set,
            strict: self.strict,
            volatility: self.volatility,
            parallel: Parallel::Safe,
            leakproof: false,
            security_definer: false,
            cost: 1.0,
            rows: if self.returns_set { 1000.0 } else { 0.0 },
            support: 0,
            source: self.name,
        }
    }
}
