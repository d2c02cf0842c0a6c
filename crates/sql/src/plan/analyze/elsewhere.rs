//! Functions that are computed by another name: those of casts (`date(timestamptz)`, `"numeric"(numeric, integer)`)
//! and those of operators (`timestamptz_gt`), as `pg_cast.castfunc` and `pg_operator.oprcode` have them.

use datafusion::sql::sqlparser::tokenizer::Span;
use resurgam_dialect::{CastContext, Function};

use super::bound::{Bound, Type};
use super::{Analyzer, Result};

impl Analyzer<'_> {
    /// What a function gives that is the function of a cast or of an operator; `None` for others.
    /// The arguments are of its types.
    pub(super) fn by_cast_or_operator(
        &mut self,
        function: &Function,
        args: &[Bound],
        span: Span,
    ) -> Result<Option<Bound>> {
        // What computes an operator may ask for a function, and so on.
        if std::mem::replace(&mut self.elsewhere, true) {
            return Ok(None);
        }
        let done = self.by_cast(function, args).transpose().or_else(|| self.by_operator(function, args, span));
        self.elsewhere = false;
        done.transpose()
    }

    fn by_cast(&mut self, function: &Function, args: &[Bound]) -> Result<Option<Bound>> {
        // Several casts may be computed by one function; that to its result is what a call of it is.
        let mut casts = super::coerce::builtin().casts().iter().filter(|cast| cast.function == function.oid);
        let to_result = casts.clone().find(|cast| cast.target == function.result);
        let Some(cast) = to_result.or_else(|| casts.next()) else {
            return Ok(None);
        };
        let typmod = match args {
            [_] => -1,
            // The third says whether the cast is written; one that is not refuses what is too long.
            [_, typmod] => match typmod.integer().and_then(|typmod| i32::try_from(typmod).ok()) {
                Some(typmod) => typmod,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let to = Type { oid: cast.target.0, typmod };
        self.cast_as(args[0].clone(), to, CastContext::Explicit).map(Some)
    }

    fn by_operator(&mut self, function: &Function, args: &[Bound], span: Span) -> Option<Result<Bound>> {
        let operator = super::coerce::builtin().operators().iter().find(|operator| operator.code == function.oid)?;
        match (operator.left, args) {
            (None, [operand]) => Some(self.unary(operator.name, operand.clone(), span)),
            (Some(_), [left, right]) => Some(self.binary(operator.name, left.clone(), right.clone(), span)),
            _ => None,
        }
    }
}
