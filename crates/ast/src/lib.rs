//! Leads visitors through parsed SQL statements, with the walk itself compiled once.
//!
//! The parser derives a walk over some 460 kinds of nodes, generic over the visitor: every visitor
//! type that is led by it has the whole of it compiled anew (160 KB of code and a quarter of a minute
//! each, when it was measured). Here the walk is compiled for one visitor that calls the real one
//! through a pointer, once for walks that look and once for walks that change, in a crate of its own
//! that is compiled beside the query engine.
//!
//! Visitors implement the parser's own traits, [`Visitor`](sqlparser::ast::Visitor) and
//! [`VisitorMut`](sqlparser::ast::VisitorMut); only the call differs: `node.walk(&mut visitor)`, not
//! `node.visit(&mut visitor)`.

mod visit;
mod visit_mut;

pub use visit::AstWalk;
pub use visit_mut::AstWalkMut;

#[cfg(test)]
mod tests;
