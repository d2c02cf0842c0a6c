//! todo
pub fn quote_ident(name: &str) -> String { name.to_owned() }
