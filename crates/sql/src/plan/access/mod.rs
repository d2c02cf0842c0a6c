//! From predicates to the part of a tree that is read.
//!
//! | file | concept |
//! |---|---|
//! | `probe.rs` | what predicates say about columns |
//! | `path.rs` | which tree to read, and between which keys |

mod path;
mod probe;

pub(crate) use path::{ARRAY_ELEMENTS, AccessPath, FETCH, KeyValues, PointKey, covering, cursor, encode_key, trees};
pub(crate) use probe::{
    Probe, ProbeKind, cast_keeps, column_of, constant, evaluate_constant, is_constant, is_row_wise, probe_column,
    probes,
};
