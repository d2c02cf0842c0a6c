//! PostgreSQL's types, operators, functions, aggregates and casts, and the rules by which a
//! statement's names are resolved to them.
//!
//! Two halves:
//! - [`Catalog`]: the facts, from tables which `generate.sh` wrote once from the system catalogs of a
//!   PostgreSQL 15 (`data/*.txt`), parsed at the first use and indexed. They hold the whole of
//!   PostgreSQL's catalogs, also what is not implemented here, so that a caller can tell "exists in
//!   PostgreSQL but is not supported" (SQLSTATE 0A000) from "does not exist" (42883).
//! - the rules, as methods of [`Catalog`]: which operator `a + b` is, which function `f(a, b)` is,
//!   which type CASE and UNION have, which casts a value needs. They follow PostgreSQL's
//!   `parse_type.c`, `parse_coerce.c`, `parse_oper.c` and `parse_func.c` step by step; the messages,
//!   hints and SQLSTATEs are PostgreSQL's.
//!
//! Nothing here knows an expression, a table or a value: a caller gives types and gets types. A
//! literal in quotes and a parameter without a type have the type [`TypeId::UNKNOWN`].
//!
//! What the caller adds: types that users make ([`Catalog::with_types`]; row types of tables are not among them, a row is
//! [`TypeId::RECORD`]). A literal that is cast to a pseudo-type (`record`, `anyarray`)
//! has no value; PostgreSQL says so (0A000) when it reads the literal, so the step
//! [`CastStep::Input`] must. A schema that does not exist is 3F000.
//!
//! The rules are compared with PostgreSQL's own answers over more than a million combinations of names
//! and types (`tests/golden.rs`).
//!
//! The entry points:
//!
//! | what | where |
//! | --- | --- |
//! | type of a name in SQL, with its modifier | [`Catalog::parse_type`], [`Catalog::lookup_type`], [`Catalog::typmod_in`] |
//! | name of a type for a message | [`Catalog::format_type`], [`Catalog::format_type_typmod`] |
//! | `a op b`, `op b` | [`Catalog::resolve_operator`] |
//! | `a op ANY (array)` | [`Catalog::resolve_array_operator`] |
//! | `f(a, b)` in every form | [`Catalog::resolve_function`] |
//! | `CAST`, assignment, an argument's coercion | [`Catalog::cast`], [`Catalog::assign`], [`Catalog::coerce`] |
//! | CASE, UNION, VALUES, GREATEST, COALESCE | [`Catalog::common_type`], [`Catalog::case_type`], [`Catalog::check_common`], [`common_typmod`] |
//! | `ARRAY[…]` | [`Catalog::array_type_of`] |
//! | IN lists | [`Catalog::in_list_type`] |
//! | ORDER BY, GROUP BY, DISTINCT | [`Catalog::sort_operators`] |
//! | functions of one's own | [`Catalog::with_functions`] |
//! | enumerated types and domains | [`Catalog::with_types`] |
//! | functions of extensions | [`extension_functions`], [`Catalog::with_user_functions`] |
//! | the type of the extension `citext` | [`CITEXT`], [`UserKind::Citext`] |

mod catalog;
mod coerce;
mod error;
mod resolve;
mod types;

pub use catalog::{
    Aggregate, AggregateKind, ArgMode, CITEXT, CITEXT_ARRAY, Cast, CastContext, CastMethod, Catalog, Default,
    FIRST_EXTENSION_OID, FIRST_OWN_OID, Function, FunctionKind, NewFunction, Operator, OperatorClass, Parallel, Schema,
    Type, TypeKind, UserKind, UserType, Volatility, extension_functions, intern,
};
pub use coerce::{ArrayType, CastPlan, CastStep, Pathway, common_typmod, same_typmod};
pub use error::{ResolveError, Result};
pub use resolve::{Call, CallKind, ResolvedArrayOperator, ResolvedFunction, ResolvedOperator, SortOperators, Variadic};
pub use types::{TypeId, quote_identifier, typmod};
