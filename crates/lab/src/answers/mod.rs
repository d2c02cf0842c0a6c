//! Whether answers are right, proven by others: SQLite's corpus of queries, and PostgreSQL
//! itself.
//!
//! | file | concept |
//! |---|---|
//! | `client.rs` | a client of the protocol that hides nothing |
//! | `fuzz/` | `lab fuzz`: random statements, PostgreSQL beside |
//! | `regress/` | `lab regress`: PostgreSQL's own regression SQL |
//! | `slt/` | `lab slt`: files of sqllogictest |

pub mod client;
pub mod fuzz;
pub mod regress;
pub mod slt;
