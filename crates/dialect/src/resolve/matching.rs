//! The functions that a call's name, number of arguments and argument names allow
//! (`FuncnameGetCandidates`, `MatchNamedCall` of `namespace.c`).

use super::candidate::Candidate;
use super::function::Call;
use crate::catalog::{ArgMode, Catalog, Function};
use crate::types::TypeId;

/// A function, and how the call's arguments lie on its parameters.
#[derive(Clone, Debug)]
pub(super) struct Match<'a> {
    /// `None`: several functions fit equally, whatever the types.
    pub function: Option<&'a Function>,
    /// Arguments that are collected for a VARIADIC parameter.
    pub variadic: usize,
    /// Parameters that take their defaults, at the end of the candidate's arguments.
    pub defaulted: usize,
    /// The input parameter of each argument, given ones first, then defaulted ones; `None`: in order.
    pub positions: Option<Vec<usize>>,
}

impl Catalog {
    /// All functions that can be meant, each with the types that its arguments have in the call's
    /// order.
    pub(super) fn function_candidates(&self, call: &Call<'_>) -> Vec<Candidate<Match<'_>>> {
        let mut all: Vec<Candidate<Match<'_>>> = Vec::new();
        let called = match call.oid {
            Some(oid) => self.function(oid).into_iter().collect(),
            None => self.functions_called(call.schema, call.name, call.stored),
        };
        for function in called {
            let Some(new) = candidate(function, call) else { continue };
            // Two that look alike to the call: one without VARIADIC is preferred, else neither.
            let given = |c: &Candidate<Match<'_>>| c.args.len() - c.of.defaulted;
            let alike = |old: &&mut Candidate<Match<'_>>| {
                given(old) == given(&new) && old.args[..given(old)] == new.args[..given(&new)]
            };
            match all.iter_mut().find(alike) {
                None => all.push(new),
                // Of a schema further behind.
                Some(old) if old.of.function.is_some_and(|old| old.schema != function.schema) => {}
                Some(old) => match (old.of.variadic > 0, new.of.variadic > 0) {
                    (false, true) => {}
                    (true, false) => *old = new,
                    _ => old.of.function = None,
                },
            }
        }
        all
    }
}

fn candidate<'a>(function: &'a Function, call: &Call<'_>) -> Option<Candidate<Match<'a>>> {
    let (given, wanted) = (call.args.len(), function.args.len());
    let defaulted = wanted.saturating_sub(given);
    if defaulted > function.defaults.len() {
        return None;
    }
    let expanded = !call.variadic && function.variadic.is_some();
    if !call.arg_names.is_empty() {
        // What is collected for VARIADIC has no name.
        if expanded || wanted < given {
            return None;
        }
        let positions = positions(function, call)?;
        let args = positions.iter().map(|&at| function.args[at]).collect();
        let of = Match { function: Some(function), variadic: 0, defaulted, positions: Some(positions) };
        return Some(Candidate { of, args });
    }
    let mut args = function.args.clone();
    let mut variadic = 0;
    if let Some(element) = function.variadic.filter(|_| expanded && wanted <= given) {
        variadic = given - wanted + 1;
        args.truncate(wanted - 1);
        args.resize(given, element);
    }
    if args.len() < given {
        return None;
    }
    Some(Candidate { of: Match { function: Some(function), variadic, defaulted, positions: None }, args })
}

/// The input parameter for each argument, then those left to their defaults.
fn positions(function: &Function, call: &Call<'_>) -> Option<Vec<usize>> {
    if function.names.is_empty() {
        return None;
    }
    let unnamed = call.args.len() - call.arg_names.len();
    let inputs: Vec<&str> = function
        .names
        .iter()
        .enumerate()
        .filter(|(at, _)| matches!(function.mode(*at), ArgMode::In | ArgMode::InOut | ArgMode::Variadic))
        .map(|(_, name)| *name)
        .collect();
    let mut positions: Vec<usize> = (0..unnamed).collect();
    for name in call.arg_names {
        let at = inputs.iter().position(|input| input == name)?;
        if positions.contains(&at) {
            return None;
        }
        positions.push(at);
    }
    let first_default = function.args.len() - function.defaults.len();
    for at in unnamed..function.args.len() {
        if positions.len() < function.args.len() && !positions.contains(&at) {
            if at < first_default {
                return None;
            }
            positions.push(at);
        }
    }
    Some(positions)
}

impl Match<'_> {
    /// The defaults that the call takes: parameter (counted over the input parameters) and the SQL of
    /// its constant.
    pub(super) fn defaults(&self, function: &Function, given: usize) -> Vec<(usize, &'static str, TypeId)> {
        let first_default = function.args.len() - function.defaults.len();
        let order: Vec<usize> = match &self.positions {
            Some(positions) => positions.get(given..).unwrap_or(&[]).to_vec(),
            None => (given..function.args.len()).collect(),
        };
        let default = |at: usize| function.defaults.get(at.checked_sub(first_default)?).map(|d| (at, d.sql, d.ty));
        order.into_iter().take(self.defaulted).filter_map(default).collect()
    }
}
