//! Types by number and by name, and the meaning of type modifiers.

mod format;
mod id;
mod lexer;
mod name;
mod relation;
pub mod typmod;

pub use format::quote_identifier;
pub use id::TypeId;
