//! Casts as steps: what has to be done to a value of one type and modifier so that it has another
//! (`coerce_to_target_type`, `coerce_type`, `coerce_type_typmod` of `parse_coerce.c`).
//!
//! The change of the type comes first, then that of the length: `x::varchar(3)` of a number is its
//! text, cut to three characters.

use super::pathway::Pathway;
use crate::catalog::{CastContext, Catalog};
use crate::error::{ResolveError, Result};
use crate::types::{TypeId, typmod};

/// One step; the value has type `ty` afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CastStep {
    /// A literal's text (or a parameter without a type) is read as a value of `ty`. Only `interval`
    /// reads with its modifier; lengths are a later step.
    Input { ty: TypeId, typmod: i32 },
    /// The value is the same.
    Relabel { ty: TypeId, typmod: i32 },
    /// The function of this oid is called: with the value; with the wanted modifier, if `pass_typmod`
    /// (an `int4` constant); and with whether the cast was explicit, if `pass_explicit` (a `bool`
    /// constant). `typmod` is the modifier of the result.
    Function { function: u32, ty: TypeId, typmod: i32, pass_typmod: Option<i32>, pass_explicit: Option<bool> },
    /// The value's text is read as a value of `ty`.
    ViaIo { ty: TypeId },
    /// Each element goes through `element`.
    Array { ty: TypeId, typmod: i32, element: Vec<CastStep> },
    /// The constraints of a domain are checked.
    Domain { ty: TypeId },
    /// A row's fields are cast to those of a row type, one by one.
    Row { ty: TypeId },
}

impl CastStep {
    /// The modifier after the step.
    fn typmod(&self) -> i32 {
        match *self {
            CastStep::Input { typmod, .. }
            | CastStep::Relabel { typmod, .. }
            | CastStep::Function { typmod, .. }
            | CastStep::Array { typmod, .. } => typmod,
            CastStep::ViaIo { .. } | CastStep::Domain { .. } | CastStep::Row { .. } => typmod::NONE,
        }
    }
}

/// All steps of a cast. None: the value is as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CastPlan {
    pub steps: Vec<CastStep>,
    /// Type of the result.
    pub ty: TypeId,
    /// Modifier of the result as an expression (`exprTypmod`).
    pub typmod: i32,
}

impl Catalog {
    /// `CAST(value AS target)` or another conversion that is asked for: type and length.
    /// `source_typmod` is the value's modifier as an expression, `target_typmod` the wanted one, -1 for
    /// none.
    ///
    /// # Errors
    /// 42846: "cannot cast type a to b".
    pub fn cast(
        &self,
        source: TypeId,
        source_typmod: i32,
        target: TypeId,
        target_typmod: i32,
        context: CastContext,
    ) -> Result<CastPlan> {
        self.try_cast(source, source_typmod, target, target_typmod, context).ok_or_else(|| {
            let (source, target) = (self.format_type(source), self.format_type(target));
            ResolveError::new("42846", format!("cannot cast type {source} to {target}"))
        })
    }

    /// What storing a value into `column` needs.
    ///
    /// # Errors
    /// 42804: "column "c" is of type a but expression is of type b".
    pub fn assign(
        &self,
        column: &str,
        source: TypeId,
        source_typmod: i32,
        target: TypeId,
        target_typmod: i32,
    ) -> Result<CastPlan> {
        let plan = self.try_cast(source, source_typmod, target, target_typmod, CastContext::Assignment);
        plan.ok_or_else(|| {
            let (source, target) = (self.format_type(source), self.format_type(target));
            let message = format!("column \"{column}\" is of type {target} but expression is of type {source}");
            ResolveError::mismatch(message).with_hint("You will need to rewrite or cast the expression.")
        })
    }

    /// What a place needs that takes one type only: `construct` is `WHERE`, `LIMIT`, `NOT`…
    ///
    /// # Errors
    /// 42804: "argument of WHERE must be type boolean, not type integer".
    pub fn coerce_to_specific(&self, construct: &str, source: TypeId, target: TypeId) -> Result<CastPlan> {
        let plan = self.try_cast(source, typmod::NONE, target, typmod::NONE, CastContext::Assignment);
        plan.ok_or_else(|| {
            let (source, target) = (self.format_type(source), self.format_type(target));
            ResolveError::mismatch(format!("argument of {construct} must be type {target}, not type {source}"))
        })
    }

    /// The change of a type alone, without a length (except where the cast's function applies it in
    /// the same step, and within a domain): for arguments of functions and operators, with
    /// [`CastContext::Implicit`], and for casts written as functions. `None`: there is no way.
    ///
    /// A polymorphic target leaves the value as it is.
    pub fn coerce(
        &self,
        source: TypeId,
        source_typmod: i32,
        target: TypeId,
        target_typmod: i32,
        context: CastContext,
    ) -> Option<CastPlan> {
        if !self.can_coerce_one(source, target, context) {
            return None;
        }
        self.coerce_unchecked(source, source_typmod, target, target_typmod, context)
    }

    /// The same, for what a caller has found to be possible: polymorphic types are not looked at.
    pub(crate) fn coerce_unchecked(
        &self,
        source: TypeId,
        source_typmod: i32,
        target: TypeId,
        target_typmod: i32,
        context: CastContext,
    ) -> Option<CastPlan> {
        let mut steps = Vec::new();
        let mut ty = target;
        let any = matches!(
            target,
            TypeId::ANY
                | TypeId::ANYELEMENT
                | TypeId::ANYNONARRAY
                | TypeId::ANYCOMPATIBLE
                | TypeId::ANYCOMPATIBLENONARRAY
        );
        if source == target || any {
            ty = source;
        } else if target.is_polymorphic() && !source.is_unknown() {
            ty = self.base_type(source);
            if ty != source {
                steps.push(CastStep::Relabel { ty, typmod: typmod::NONE });
            }
        } else {
            self.type_steps(source, source_typmod, target, target_typmod, context, &mut steps)?;
        }
        let typmod = steps.last().map_or(source_typmod, CastStep::typmod);
        Some(CastPlan { steps, ty, typmod })
    }

    fn try_cast(
        &self,
        source: TypeId,
        source_typmod: i32,
        target: TypeId,
        target_typmod: i32,
        context: CastContext,
    ) -> Option<CastPlan> {
        let mut plan = self.coerce(source, source_typmod, target, target_typmod, context)?;
        self.length_step(&mut plan, target, target_typmod, context);
        Some(plan)
    }

    /// The steps from one type to another, different one.
    fn type_steps(
        &self,
        source: TypeId,
        source_typmod: i32,
        target: TypeId,
        target_typmod: i32,
        context: CastContext,
        steps: &mut Vec<CastStep>,
    ) -> Option<()> {
        let (base, base_typmod) = self.base_type_typmod(target, target_typmod);
        let explicit = context == CastContext::Explicit;
        let mut relabelled = false;
        if source.is_unknown() {
            let typmod = if base == TypeId::INTERVAL { base_typmod } else { typmod::NONE };
            steps.push(CastStep::Input { ty: base, typmod });
        } else {
            match self.find_pathway(source, target, context) {
                Pathway::Relabel => relabelled = true,
                Pathway::Function(function) => {
                    let args = self.function(function).map_or(1, |f| f.args.len());
                    let pass_typmod = (args >= 2).then_some(base_typmod);
                    steps.push(CastStep::Function {
                        function,
                        ty: base,
                        typmod: pass_typmod.unwrap_or(typmod::NONE),
                        pass_typmod,
                        pass_explicit: (args >= 3).then_some(explicit),
                    });
                }
                Pathway::ViaIo => steps.push(CastStep::ViaIo { ty: base }),
                Pathway::Array => steps.push(self.array_step(source, source_typmod, base, base_typmod, context)?),
                Pathway::None if source == TypeId::RECORD => steps.push(CastStep::Row { ty: target }),
                // A row type is a record, an array of it record[].
                Pathway::None => return Some(()),
            }
        }
        if base == target {
            if relabelled {
                steps.push(CastStep::Relabel { ty: target, typmod: typmod::NONE });
            }
            return Some(());
        }
        // A domain: first the length that it gives its base type, then its constraints. A relabelled
        // value comes with its own modifier, and the domain's alone counts.
        let base_typmod = if relabelled { self.base_type_typmod(target, typmod::NONE).1 } else { base_typmod };
        let typmod = steps.last().map_or(source_typmod, CastStep::typmod);
        let mut plan = CastPlan { steps: std::mem::take(steps), ty: base, typmod };
        self.length_step(&mut plan, base, base_typmod, context);
        *steps = plan.steps;
        steps.push(CastStep::Domain { ty: target });
        Some(())
    }

    fn array_step(
        &self,
        source: TypeId,
        source_typmod: i32,
        target: TypeId,
        target_typmod: i32,
        context: CastContext,
    ) -> Option<CastStep> {
        let (source, source_typmod) = self.base_type_typmod(source, source_typmod);
        let (from, to) = (self.element_type(source)?, self.element_type(target)?);
        let plan = self.try_cast(from, source_typmod, to, target_typmod, context)?;
        Some(CastStep::Array { ty: target, typmod: plan.typmod, element: plan.steps })
    }

    /// The step that gives a value the wanted modifier, if it has another.
    fn length_step(&self, plan: &mut CastPlan, ty: TypeId, wanted: i32, context: CastContext) {
        if plan.typmod == wanted {
            return;
        }
        let relabel = CastStep::Relabel { ty, typmod: wanted };
        let element = self.element_type(ty);
        let sized = element.unwrap_or(ty);
        let function = self.cast_entry(sized, sized).map_or(0, |c| c.function);
        let step = match self.function(function).filter(|_| wanted >= 0) {
            None => relabel,
            Some(entry) => {
                let length = CastStep::Function {
                    function,
                    ty: sized,
                    typmod: wanted,
                    pass_typmod: Some(wanted),
                    pass_explicit: (entry.args.len() >= 3).then_some(context == CastContext::Explicit),
                };
                match element {
                    None => length,
                    Some(_) => CastStep::Array { ty, typmod: wanted, element: vec![length] },
                }
            }
        };
        // Relabelling twice is relabelling once.
        if matches!((&step, plan.steps.last()), (CastStep::Relabel { .. }, Some(CastStep::Relabel { .. }))) {
            plan.steps.pop();
        }
        plan.typmod = wanted;
        plan.steps.push(step);
    }
}
