//! Which operator and which function a name with its argument types is.

mod array_operator;
mod candidate;
mod function;
mod function_form;
mod matching;
mod operator;
mod sort;

pub use array_operator::ResolvedArrayOperator;
pub use function::{Call, CallKind, ResolvedFunction, Variadic};
pub use operator::ResolvedOperator;
pub use sort::SortOperators;

#[cfg(test)]
mod tests;
