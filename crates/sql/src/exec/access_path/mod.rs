//! From predicates to the part of a tree that is read.
//!
//! | file | concept |
//! |---|---|
//! | `probe.rs` | what predicates say about columns |
//! | `path.rs` | which tree to read, and between which keys |
//! | `alternatives.rs` | several such ways for a condition with OR |

pub(crate) mod alternatives;
mod path;
mod probe;

pub(crate) use alternatives::{has_alternatives, is_of_one_tree};
pub(crate) use path::{ARRAY_ELEMENTS, AccessPath, FETCH, KeyValues, PointKey, covering, cursor, encode_key, trees};
pub(crate) use probe::{
    Probe, ProbeKind, cast_keeps, column_of, constant, evaluate_constant, is_constant, is_row_wise, probe_column,
    probes,
};
