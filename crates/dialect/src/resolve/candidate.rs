//! The choice among several candidates that would all do (`func_match_argtypes`,
//! `func_select_candidate` of `parse_func.c`): for functions and operators alike.

use crate::catalog::{CastContext, Catalog};
use crate::types::TypeId;

/// Something with argument types that might be meant. `of` says what it is.
#[derive(Clone, Debug)]
pub(super) struct Candidate<T> {
    pub of: T,
    /// One for each argument given, and perhaps more (defaulted ones), which do not count.
    pub args: Vec<TypeId>,
}

/// What came of a choice.
#[derive(Debug)]
pub(super) enum Choice<T> {
    None,
    One(Candidate<T>),
    /// None is better than the others.
    Several,
}

impl Catalog {
    /// The one candidate that takes `args`, or is best among those that do. The caller has looked for
    /// an exact match already.
    pub(super) fn choose<T>(&self, args: &[TypeId], candidates: Vec<Candidate<T>>) -> Choice<T> {
        let mut left: Vec<_> = candidates
            .into_iter()
            .filter(|c| self.can_coerce(args, c.args.get(..args.len()).unwrap_or(&[]), CastContext::Implicit))
            .collect();
        if left.len() > 1 {
            left = self.best(args, left);
        }
        match left.pop() {
            None => Choice::None,
            Some(one) if left.is_empty() => Choice::One(one),
            Some(_) => Choice::Several,
        }
    }

    /// Rule by rule, until one is left; several: ambiguous.
    fn best<T>(&self, args: &[TypeId], mut left: Vec<Candidate<T>>) -> Vec<Candidate<T>> {
        let args: Vec<TypeId> = args.iter().map(|&ty| self.base_type(ty)).collect();
        let known = || args.iter().enumerate().filter(|(_, ty)| !ty.is_unknown());
        let unknown: Vec<usize> = (0..args.len()).filter(|&at| args[at].is_unknown()).collect();

        // Most arguments of exactly the declared type.
        keep_most(&mut left, |c| known().filter(|&(at, ty)| c.args[at] == *ty).count());
        if left.len() == 1 {
            return left;
        }
        // Most arguments exact or of the preferred type of their own category.
        let preferred = |ty: TypeId, category: char| self.category(ty) == (category, true);
        keep_most(&mut left, |c| {
            known().filter(|&(at, ty)| c.args[at] == *ty || preferred(c.args[at], self.category(*ty).0)).count()
        });
        if left.len() == 1 || unknown.is_empty() {
            return left;
        }
        // What unknown literals are: strings if any candidate takes one there, else what all agree on.
        if let Some(slots) = unknown.iter().map(|&at| self.slot(&left, at)).collect::<Option<Vec<_>>>() {
            let fits = |c: &Candidate<T>| {
                unknown.iter().zip(&slots).all(|(&at, &(category, wants_preferred))| {
                    let (own, preferred) = self.category(c.args[at]);
                    own == category && (preferred || !wants_preferred)
                })
            };
            if left.iter().any(&fits) {
                left.retain(&fits);
            }
            if left.len() == 1 {
                return left;
            }
        }
        // What the known arguments are, if they are all one type.
        let mut types = known().map(|(_, ty)| *ty);
        if let Some(first) = types.next()
            && types.all(|ty| ty == first)
        {
            let all = vec![first; args.len()];
            let takes = |c: &Candidate<T>| self.can_coerce(&all, &c.args[..all.len()], CastContext::Implicit);
            let mut taking = left.iter().enumerate().filter(|(_, c)| takes(c)).map(|(at, _)| at);
            if let (Some(at), None) = (taking.next(), taking.next()) {
                return vec![left.swap_remove(at)];
            }
        }
        left
    }

    /// The category that an unknown argument has among the candidates, and whether one of them takes
    /// the preferred type of it. `None`: they differ and none takes strings.
    fn slot<T>(&self, left: &[Candidate<T>], at: usize) -> Option<(char, bool)> {
        let all = || left.iter().map(|c| self.category(c.args[at]));
        let (first, _) = all().next()?;
        let category = if all().any(|(category, _)| category == 'S') { 'S' } else { first };
        if category != 'S' && all().any(|(other, _)| other != category) {
            return None;
        }
        Some((category, all().any(|(other, preferred)| other == category && preferred)))
    }
}

/// Keeps the candidates with the highest count.
fn keep_most<T>(left: &mut Vec<Candidate<T>>, count: impl Fn(&Candidate<T>) -> usize) {
    let counts: Vec<usize> = left.iter().map(count).collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut at = 0;
    left.retain(|_| {
        at += 1;
        counts[at - 1] == most
    });
}
