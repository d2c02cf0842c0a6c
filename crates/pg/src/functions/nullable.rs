//! `pg_nullable(x)`: x, of which nobody takes it for granted that it is never null.
//!
//! The first term of a recursive query says what its columns are, also for the rows that the second term adds; a
//! constant there must not promise that all of them have a value. Volatile, so that it is not folded away.

use super::define::{P, PgFunction, Returns, f};

pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("pg_nullable", &[P::Any], Returns::By(|fields| fields[0].clone()), |call| Ok(call.arrays[0].clone()))
            .volatile(),
    ]
}
