//! EXPLAIN: plans as trees of nodes in PostgreSQL's words, in each of its formats.
//!
//! Whatever a statement runs by, planned operators or directly, becomes one tree ([`node`]), and from that come TEXT ([`text`]) and
//! what programs read ([`document`]). Node types are PostgreSQL's where the operator is the same one; ours have names of their
//! own. No answer of a statement hangs on anything here.
//!
//! | file | concept |
//! |---|---|
//! | `options.rs` | What EXPLAIN is asked for |
//! | `node.rs` | The tree |
//! | `text.rs` | The tree as TEXT |
//! | `document.rs` | JSON, XML, YAML |
//! | `convert.rs` | A physical plan as a tree |
//! | `joins.rs` | Joins as nodes |
//! | `words.rs` | Expressions in SQL's words |
//! | `cost.rs` | Costs, counted from rows |
//! | `look.rs` | What is looked up of tables |

pub(crate) mod convert;
pub(crate) mod cost;
pub(crate) mod document;
mod joins;
pub(crate) mod look;
pub(crate) mod node;
pub(crate) mod options;
pub(crate) mod text;
pub(crate) mod words;

/// By what runs what is left to planned operators if many rows are met.
pub(crate) const DIRECT_IF_SHORT: &str = "Direct, unless many rows are read";

pub(crate) use look::Look;
pub(crate) use node::Node;
pub(crate) use options::{Format, Options};
