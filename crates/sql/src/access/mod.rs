//! Roles and privileges: who a session is, what it may do, and the statements about both. See docs/roles.md.
//!
//! | file | concept |
//! |---|---|
//! | `identity.rs` | who a session is: SET ROLE, SET SESSION AUTHORIZATION; checks of statements that have no plan |
//! | `roles.rs` | CREATE, ALTER, DROP ROLE; memberships; settings of roles and databases |
//! | `password.rs` | what is kept of a password |
//! | `grants.rs` | GRANT and REVOKE |
//! | `defaults.rs` | ALTER DEFAULT PRIVILEGES, and the owner and rights of what is made |
//! | `owned.rs` | owners: OWNER TO, REASSIGN OWNED, DROP OWNED, what keeps a role from being dropped |
//! | `login.rs` | who may log in |
//!
//! What rights mean, and how they are stored, is in [`crate::pg::roles`]; analysis notes what a statement needs
//! (`plan/analyze/access.rs`).

mod defaults;
mod grants;
mod identity;
mod login;
mod owned;
mod password;
mod roles;

pub use login::{Login, LoginRefused};
