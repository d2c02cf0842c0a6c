//! What each database of a run has beside the tables of its rounds: types of its own, and a sequence.

/// The statements that make them.
pub const CREATE: [&str; 5] = [
    "CREATE EXTENSION citext",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'über')",
    "CREATE DOMAIN d_int AS integer CHECK (VALUE > -50)",
    "CREATE DOMAIN d_text AS text CHECK (length(VALUE) < 12)",
    "CREATE SEQUENCE fs",
];

/// The oids of the types among them, which are other numbers on each side, in one order.
pub const OIDS: &str = "SELECT oid FROM pg_type WHERE typname IN ('citext', 'mood', '_citext', '_mood', 'd_int', 'd_text') ORDER BY typname";

/// Those that a script needs.
pub fn needed(script: &str) -> Vec<&'static str> {
    let names = ["citext", "mood", "d_int", "d_text", "'fs'"];
    CREATE.iter().zip(names).filter(|(_, name)| script.contains(name)).map(|(create, _)| *create).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_what_they_need() {
        assert_eq!(needed("CREATE TABLE t (a mood, b d_int)"), [CREATE[1], CREATE[2]]);
        assert!(needed("SELECT 1").is_empty());
        assert_eq!(needed("SELECT nextval('fs')"), [CREATE[4]]);
    }
}
