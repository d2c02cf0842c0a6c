//! Whether answers are right, proven by others: SQLite's corpus of queries, and PostgreSQL
//! itself.
//!
//! | file | concept |
//! |---|---|
//! | `client.rs` | a client of the protocol that hides nothing |
//! | `fuzz/` | `lab fuzz`: random statements, PostgreSQL beside |
//! | `regress/` | `lab regress`: PostgreSQL's own regression SQL |
//! | `known.rs` | lists of differences that have a reason |
//! | `matrix/` | `lab matrix`: every cast, operator, function, use and word by itself, PostgreSQL beside |
//! | `slt/` | `lab slt`: files of sqllogictest |

pub mod client;
pub mod fuzz;
pub mod known;
pub mod matrix;
pub mod regress;
pub mod slt;
