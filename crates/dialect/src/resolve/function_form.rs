//! What may be written around a call, by what the function is, and the errors of a call.

use super::function::{Call, MAX_ARGS};
use crate::catalog::{Aggregate, AggregateKind, Catalog, Function, FunctionKind};
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

impl Catalog {
    /// Before the function is known.
    pub(super) fn check_written(&self, call: &Call<'_>) -> Result<()> {
        if call.args.len() > MAX_ARGS {
            let message = format!("cannot pass more than {MAX_ARGS} arguments to a function");
            return Err(ResolveError::new("54023", message));
        }
        for (at, name) in call.arg_names.iter().enumerate() {
            if call.arg_names[..at].contains(name) {
                return Err(ResolveError::new("42601", format!("argument name \"{name}\" used more than once")));
            }
        }
        if call.arg_names.len() > call.args.len() {
            return Err(ResolveError::new("XX000", "more argument names than arguments"));
        }
        Ok(())
    }

    /// After the function is known, before its types are solved. Hypothetical arguments get the type
    /// that they have in common with the column they are compared with.
    pub(super) fn check_form(
        &self,
        call: &Call<'_>,
        function: &Function,
        collected: usize,
        actual: &mut [TypeId],
        declared: &[TypeId],
    ) -> Result<()> {
        let is_procedure = function.kind == FunctionKind::Procedure;
        if call.procedure && !is_procedure {
            let message = format!("{} is not a procedure", self.call_signature(call));
            return Err(ResolveError::wrong_object(message).with_hint("To call a function, use SELECT."));
        }
        if is_procedure && !call.procedure {
            let message = format!("{} is a procedure", self.call_signature(call));
            return Err(ResolveError::wrong_object(message).with_hint("To call a procedure, use CALL."));
        }
        let name = call.full_name();
        match function.kind {
            FunctionKind::Function | FunctionKind::Procedure => self.check_plain(call),
            FunctionKind::Window => {
                if !call.over {
                    return Err(ResolveError::wrong_object(format!("window function {name} requires an OVER clause")));
                }
                if call.within_group {
                    let message = format!("window function {name} cannot have WITHIN GROUP");
                    return Err(ResolveError::wrong_object(message));
                }
                Ok(())
            }
            FunctionKind::Aggregate => {
                let aggregate = self.aggregate_of(function)?;
                if !aggregate.kind.is_ordered_set() {
                    if call.within_group {
                        let message = format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP");
                        return Err(ResolveError::wrong_object(message));
                    }
                    return Ok(());
                }
                self.check_ordered_set(call, function, aggregate, collected)?;
                if aggregate.kind == AggregateKind::Hypothetical {
                    self.unify_hypothetical(call, actual, declared)?;
                }
                Ok(())
            }
        }
    }

    /// A function of one row's values has no decoration of aggregates.
    pub(super) fn check_plain(&self, call: &Call<'_>) -> Result<()> {
        let name = call.full_name();
        let written = [
            (call.star, format!("{name}(*)")),
            (call.distinct, "DISTINCT".to_string()),
            (call.within_group, "WITHIN GROUP".to_string()),
            (call.order_by > 0, "ORDER BY".to_string()),
            (call.filter, "FILTER".to_string()),
        ];
        if let Some((_, what)) = written.into_iter().find(|(there, _)| *there) {
            let message = format!("{what} specified, but {name} is not an aggregate function");
            return Err(ResolveError::wrong_object(message));
        }
        if call.over {
            let message = format!("OVER specified, but {name} is not a window function nor an aggregate function");
            return Err(ResolveError::wrong_object(message));
        }
        Ok(())
    }

    fn check_ordered_set(
        &self,
        call: &Call<'_>,
        function: &Function,
        aggregate: &Aggregate,
        collected: usize,
    ) -> Result<()> {
        let name = call.full_name();
        if !call.within_group {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(ResolveError::wrong_object(message));
        }
        if call.over {
            let message = format!("OVER is not supported for ordered-set aggregate {name}");
            return Err(ResolveError::not_supported(message));
        }
        let (wanted, sorted) = (aggregate.direct_args, call.order_by);
        let direct = call.args.len().saturating_sub(sorted);
        let plural = if wanted == 1 { "argument" } else { "arguments" };
        let hint = if function.variadic.is_none() || wanted < function.args.len() {
            (direct != wanted).then(|| {
                format!(
                    "There is an ordered-set aggregate {name}, but it requires {wanted} direct {plural}, not {direct}."
                )
            })
        } else if aggregate.kind == AggregateKind::Hypothetical {
            (collected != 2 * sorted).then(|| {
                format!(
                    "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments \
                     (here {}) must match the number of ordering columns (here {sorted}).",
                    collected.saturating_sub(sorted)
                )
            })
        } else {
            (collected <= sorted).then(|| {
                format!("There is an ordered-set aggregate {name}, but it requires at least {wanted} direct {plural}.")
            })
        };
        match hint {
            None => Ok(()),
            Some(hint) => Err(self.does_not_exist("function", call).with_hint(hint)),
        }
    }

    fn unify_hypothetical(&self, call: &Call<'_>, actual: &mut [TypeId], declared: &[TypeId]) -> Result<()> {
        let sorted = call.order_by;
        let direct = actual.len().saturating_sub(sorted);
        let first = direct.saturating_sub(sorted);
        for at in first..direct {
            let other = direct + (at - first);
            if declared.get(at) != Some(&TypeId::ANY) {
                continue;
            }
            let common = self.common_type("WITHIN GROUP", &[actual[other], actual[at]])?;
            for at in [at, other] {
                if !self.can_coerce_one(actual[at], common, crate::catalog::CastContext::Implicit) {
                    let (from, to) = (self.format_type(actual[at]), self.format_type(common));
                    let message = format!("failed to find conversion function from {from} to {to}");
                    return Err(ResolveError::new("XX000", message));
                }
                actual[at] = common;
            }
        }
        Ok(())
    }

    /// What PostgreSQL checks when types are solved.
    pub(super) fn check_result(&self, call: &Call<'_>, function: &Function) -> Result<()> {
        let name = call.full_name();
        let aggregate = function.kind == FunctionKind::Aggregate;
        if !aggregate && function.kind != FunctionKind::Window {
            return Ok(());
        }
        let not_supported = |message: &str| Err(ResolveError::not_supported(message));
        if call.over && call.distinct {
            return not_supported("DISTINCT is not implemented for window functions");
        }
        if aggregate && call.args.is_empty() && !call.star && !call.within_group {
            let message = format!("{name}(*) must be used to call a parameterless aggregate function");
            return Err(ResolveError::wrong_object(message));
        }
        if call.over && call.order_by > 0 {
            return not_supported("aggregate ORDER BY is not implemented for window functions");
        }
        if !aggregate && call.filter {
            return not_supported("FILTER is not implemented for non-aggregate window functions");
        }
        if function.returns_set {
            let what = if call.over { "window functions" } else { "aggregates" };
            return Err(ResolveError::new("42P13", format!("{what} cannot return sets")));
        }
        if !call.over && !call.arg_names.is_empty() {
            return not_supported("aggregates cannot use named arguments");
        }
        Ok(())
    }

    /// `f(integer, a => text)`.
    fn call_signature(&self, call: &Call<'_>) -> String {
        let unnamed = call.args.len().saturating_sub(call.arg_names.len());
        let shown = |(at, &ty): (usize, &TypeId)| {
            let ty = self.format_type(ty);
            match at.checked_sub(unnamed).and_then(|at| call.arg_names.get(at)) {
                Some(name) => format!("{name} => {ty}"),
                None => ty,
            }
        };
        let args: Vec<String> = call.args.iter().enumerate().map(shown).collect();
        format!("{}({})", call.full_name(), args.join(", "))
    }

    fn does_not_exist(&self, what: &str, call: &Call<'_>) -> ResolveError {
        ResolveError::undefined_function(format!("{what} {} does not exist", self.call_signature(call)))
    }

    pub(super) fn not_found(&self, call: &Call<'_>) -> ResolveError {
        let casts = "You might need to add explicit type casts.";
        if call.order_by > 1 && !call.within_group {
            return self.does_not_exist("function", call).with_hint(
                "No aggregate function matches the given name and argument types. Perhaps you misplaced ORDER BY; \
                 ORDER BY must appear after all regular arguments of the aggregate.",
            );
        }
        let what = if call.procedure { "procedure" } else { "function" };
        let hint = format!("No {what} matches the given name and argument types. {casts}");
        self.does_not_exist(what, call).with_hint(hint)
    }

    pub(super) fn not_unique(&self, call: &Call<'_>) -> ResolveError {
        let what = if call.procedure { "procedure" } else { "function" };
        let message = format!("{what} {} is not unique", self.call_signature(call));
        ResolveError::new("42725", message)
            .with_hint(format!("Could not choose a best candidate {what}. You might need to add explicit type casts."))
    }
}
