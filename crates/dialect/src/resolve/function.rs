//! Function calls in every form (`ParseFuncOrColumn`, `func_get_detail` of `parse_func.c`).

use super::candidate::Choice;
use super::matching::Match;
use crate::catalog::{Aggregate, CastContext, Catalog, Function, FunctionKind, Schema};
use crate::coerce::{CastPlan, Pathway};
use crate::error::{ResolveError, Result};
use crate::types::{TypeId, typmod};

/// Most arguments of a call.
pub(super) const MAX_ARGS: usize = 100;

/// A call as it is written. [`Call::new`] is the plain one; fields say what else is there.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// `pg_catalog.f(x)`. The caller sees to it that the schema exists.
    pub schema: Option<&'a str>,
    pub name: &'a str,
    /// Types of the arguments in the written order; those of WITHIN GROUP's ORDER BY at the end.
    pub args: &'a [TypeId],
    /// `f(x, a => 1)`: names of the last arguments.
    pub arg_names: &'a [&'a str],
    /// `f(VARIADIC x)`.
    pub variadic: bool,
    /// `f(*)`.
    pub star: bool,
    /// `f(DISTINCT x)`.
    pub distinct: bool,
    /// `f(x) WITHIN GROUP (ORDER BY y)`.
    pub within_group: bool,
    /// Expressions in ORDER BY, of `f(x ORDER BY y)` or of WITHIN GROUP.
    pub order_by: usize,
    /// `f(x) FILTER (WHERE y)`.
    pub filter: bool,
    /// `f(x) OVER w`.
    pub over: bool,
    /// `CALL f(x)`.
    pub procedure: bool,
    /// It stands in what a definition keeps: names without a schema are of `public`, whatever the search path.
    pub stored: bool,
    /// The function with this oid is meant, whatever there is beside it.
    pub oid: Option<u32>,
    /// The only argument is a parameter without a type, not a literal: `int4($1)` is then no cast.
    pub is_parameter: bool,
}

impl<'a> Call<'a> {
    /// `name(args)`.
    pub fn new(name: &'a str, args: &'a [TypeId]) -> Call<'a> {
        Call {
            schema: None,
            name,
            args,
            arg_names: &[],
            variadic: false,
            star: false,
            distinct: false,
            within_group: false,
            order_by: 0,
            filter: false,
            over: false,
            procedure: false,
            stored: false,
            oid: None,
            is_parameter: false,
        }
    }

    /// The name as it is written.
    pub(super) fn full_name(&self) -> String {
        match self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.to_string(),
        }
    }
}

/// What a call turned out to be.
#[derive(Clone, Debug)]
pub enum CallKind<'a> {
    Function(&'a Function),
    /// An aggregate, over groups or, with OVER, over frames.
    Aggregate(&'a Function, &'a Aggregate),
    /// A window function proper: `rank()`, `lag(x)`.
    Window(&'a Function),
    Procedure(&'a Function),
    /// A cast written as a function of a type's name: `text(x)`, `date('today')`. The plan is all that
    /// is to be done.
    Cast(CastPlan),
}

/// What a VARIADIC parameter gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variadic {
    /// The arguments from `first` on, cast to `element`, are collected into an `array`.
    Collect { first: usize, element: TypeId, array: TypeId },
    /// The last argument is the array (`f(VARIADIC x)`).
    Array,
    /// The function takes any number of arguments of any types (`concat`, `format`), from `first` on.
    Any { first: usize },
}

/// A call whose function and types are known.
#[derive(Clone, Debug)]
pub struct ResolvedFunction<'a> {
    pub kind: CallKind<'a>,
    /// What each written argument is cast to, implicitly; its own type where it is taken as it is (also
    /// unknown, which then is text to the function).
    pub args: Vec<TypeId>,
    /// For a call with named arguments: the parameter (counted over the input parameters) of each
    /// written argument.
    pub positions: Option<Vec<usize>>,
    /// Parameters (counted over the input parameters) that are not written: the SQL of their constants
    /// and their types.
    pub defaults: Vec<(usize, &'static str, TypeId)>,
    pub variadic: Option<Variadic>,
    /// Of one row, for a set-returning function. `record` for several output columns, which
    /// [`Function::out_columns`] names.
    pub result: TypeId,
    pub returns_set: bool,
}

impl<'a> ResolvedFunction<'a> {
    /// The catalog's entry; `None` for a cast.
    pub fn function(&self) -> Option<&'a Function> {
        match self.kind {
            CallKind::Function(f) | CallKind::Aggregate(f, _) | CallKind::Window(f) | CallKind::Procedure(f) => Some(f),
            CallKind::Cast(_) => None,
        }
    }
}

impl Catalog {
    /// The function that a call means.
    ///
    /// # Errors
    /// 42883: "function f(integer) does not exist"; 42725: "function f(integer) is not unique"; 42809:
    /// DISTINCT, FILTER, OVER… on what is no aggregate, or missing where it is needed; 42804:
    /// polymorphic arguments do not agree; 42601: argument names; 54023: too many arguments; 0A000.
    pub fn resolve_function(&self, call: &Call<'_>) -> Result<ResolvedFunction<'_>> {
        self.check_written(call)?;
        let (function, matched, mut declared) = match self.find_function(call)? {
            Found::Cast(plan) => {
                self.check_plain(call)?;
                let (args, result) = (call.args.to_vec(), plan.ty);
                return Ok(ResolvedFunction {
                    kind: CallKind::Cast(plan),
                    args,
                    positions: None,
                    defaults: Vec::new(),
                    variadic: None,
                    result,
                    returns_set: false,
                });
            }
            Found::Function(function, matched, declared) => (function, matched, declared),
        };
        let given = call.args.len();
        let mut actual = call.args.to_vec();
        self.check_form(call, function, matched.variadic, &mut actual, &declared)?;
        let defaults = matched.defaults(function, given);
        actual.extend(defaults.iter().map(|d| d.2));
        let result = self.enforce_generic(&actual, &mut declared, function.result)?;
        let args: Vec<TypeId> =
            actual[..given].iter().zip(&declared).map(|(&actual, &declared)| self.argument(actual, declared)).collect();
        if function.result == TypeId::INTERNAL {
            let message = "functions returning type \"internal\" cannot be called explicitly";
            return Err(ResolveError::not_supported(message));
        }
        let variadic = self.variadic(call, function, matched.variadic, &args)?;
        self.check_result(call, function)?;
        let kind = match function.kind {
            FunctionKind::Function => CallKind::Function(function),
            FunctionKind::Procedure => CallKind::Procedure(function),
            FunctionKind::Window => CallKind::Window(function),
            FunctionKind::Aggregate => CallKind::Aggregate(function, self.aggregate_of(function)?),
        };
        let positions = matched.positions.map(|mut all| {
            all.truncate(given);
            all
        });
        Ok(ResolvedFunction { kind, args, positions, defaults, variadic, result, returns_set: function.returns_set })
    }

    pub(super) fn aggregate_of(&self, function: &Function) -> Result<&Aggregate> {
        self.aggregate(function.oid)
            .ok_or_else(|| ResolveError::new("XX000", format!("cache lookup failed for aggregate {}", function.oid)))
    }

    fn find_function(&self, call: &Call<'_>) -> Result<Found<'_>> {
        let candidates = self.function_candidates(call);
        let exact = candidates.iter().position(|c| c.args.get(..call.args.len()) == Some(call.args));
        let chosen = match exact {
            Some(at) => candidates.into_iter().nth(at),
            None => {
                if let Some(plan) = self.cast_as_function(call) {
                    return Ok(Found::Cast(plan));
                }
                match self.choose(call.args, candidates) {
                    Choice::One(one) => Some(one),
                    Choice::None => None,
                    Choice::Several => return Err(self.not_unique(call)),
                }
            }
        };
        let Some(chosen) = chosen else { return Err(self.not_found(call)) };
        let Some(function) = chosen.of.function else { return Err(self.not_unique(call)) };
        // VARIADIC marks the last written argument, which must be the VARIADIC parameter.
        let last = call.args.len().checked_sub(1);
        if let (true, Some(positions), Some(last)) = (call.variadic, &chosen.of.positions, last)
            && positions[last] != last
        {
            return Err(self.not_found(call));
        }
        Ok(Found::Function(function, chosen.of, chosen.args))
    }

    /// The cast that a call of a type's name with one argument is, if no function is just that.
    fn cast_as_function(&self, call: &Call<'_>) -> Option<CastPlan> {
        let &[source] = call.args else { return None };
        if !call.arg_names.is_empty() || call.oid.is_some() {
            return None;
        }
        let schema = call.schema.map_or(Some(Schema::PgCatalog), Schema::from_name)?;
        let target = self.type_named(schema, call.name).filter(|t| t.relation == 0)?;
        let literal = source.is_unknown() && !call.is_parameter;
        if !literal {
            match self.find_pathway(source, target.oid, CastContext::Explicit) {
                Pathway::Relabel => {}
                Pathway::ViaIo => {
                    // Written by mistake more often than not.
                    let row = source == TypeId::RECORD || self.is_composite(source);
                    if row && target.category == 'S' {
                        return None;
                    }
                }
                Pathway::None | Pathway::Function(_) | Pathway::Array => return None,
            }
        }
        self.coerce_unchecked(source, typmod::NONE, target.oid, typmod::NONE, CastContext::Explicit)
    }

    fn variadic(
        &self,
        call: &Call<'_>,
        function: &Function,
        collected: usize,
        args: &[TypeId],
    ) -> Result<Option<Variadic>> {
        let Some(element) = function.variadic else { return Ok(None) };
        let given = args.len();
        let first = given - collected.min(given);
        if call.variadic {
            let array = args.last().is_some_and(|&ty| self.base_element_type(ty).is_some());
            if element == TypeId::ANY && !array {
                return Err(ResolveError::mismatch("VARIADIC argument must be an array"));
            }
            return Ok(Some(Variadic::Array));
        }
        if element == TypeId::ANY {
            return Ok(Some(Variadic::Any { first }));
        }
        // Nothing was written for it: its default is the array.
        let Some(&element) = args.get(first) else { return Ok(None) };
        let array = self.array_type(element).ok_or_else(|| {
            let message = format!("could not find array type for data type {}", self.format_type(element));
            ResolveError::new("42704", message)
        })?;
        Ok(Some(Variadic::Collect { first, element, array }))
    }
}

/// What a name stands for.
enum Found<'a> {
    /// A function, how the arguments lie on it, and their declared types in the written order.
    Function(&'a Function, Match<'a>, Vec<TypeId>),
    Cast(CastPlan),
}
