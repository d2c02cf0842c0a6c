//! What a refused statement is about, by which refusals are grouped: `CREATE FUNCTION`,
//! `CREATE TABLE: PARTITION OF`, `ALTER TABLE: ATTACH PARTITION`.

use super::words::{self, Token};

/// Words between CREATE, ALTER or DROP and what is made, changed or dropped.
const FILLERS: &[&str] = &[
    "or",
    "replace",
    "global",
    "local",
    "temp",
    "temporary",
    "unlogged",
    "unique",
    "trusted",
    "procedural",
    "recursive",
    "constraint",
    "default",
    "if",
    "not",
    "exists",
    "concurrently",
    "only",
];

/// Kinds that are named by two words.
const PAIRS: &[(&str, &str)] = &[
    ("materialized", "view"),
    ("foreign", "table"),
    ("foreign", "data"),
    ("event", "trigger"),
    ("text", "search"),
    ("operator", "class"),
    ("operator", "family"),
    ("access", "method"),
    ("user", "mapping"),
    ("default", "privileges"),
    ("large", "object"),
];

/// The feature, or none for queries and DML, whose message tells more.
pub fn feature(tokens: &[Token]) -> Option<String> {
    let first = words::first(tokens);
    let rest: Vec<&str> = tokens.iter().skip(1).map_while(word).collect();
    match first {
        "create" | "alter" | "drop" => {
            let begin = rest.iter().take_while(|w| FILLERS.contains(w)).count();
            // ALTER DEFAULT PRIVILEGES.
            let begin = if rest.get(..2) == Some(&["default", "privileges"]) { 0 } else { begin };
            let kind = kind_of(&rest[begin..])?;
            let temporary = rest[..begin].iter().any(|w| w.starts_with("temp"));
            let details = match (first, kind.as_str()) {
                ("create", "table") => table_details(tokens, temporary),
                ("alter", "table") => action(tokens),
                ("create", "index") => index_details(tokens),
                _ => String::new(),
            };
            let details = if details.is_empty() { details } else { format!(": {details}") };
            Some(format!("{} {}{details}", first.to_uppercase(), kind.to_uppercase()))
        }
        "comment" => Some(format!("COMMENT ON {}", kind_of(rest.get(1..)?)?.to_uppercase())),
        "set" => match rest.first() {
            Some(&"role") => Some("SET ROLE".into()),
            Some(&"session") if rest.get(1) == Some(&"authorization") => Some("SET SESSION AUTHORIZATION".into()),
            _ => None,
        },
        "reset" if rest.first() == Some(&"session") => Some("RESET SESSION AUTHORIZATION".into()),
        "grant" | "revoke" | "declare" | "fetch" | "move" | "close" | "merge" | "call" | "do" | "lock" | "cluster"
        | "reindex" | "refresh" | "listen" | "notify" | "unlisten" | "security" | "import" | "reassign" | "discard"
        | "load" => Some(first.to_uppercase()),
        _ => None,
    }
}

fn word(token: &Token) -> Option<&str> {
    if let Token::Word(word) = token { Some(word) } else { None }
}

fn kind_of(rest: &[&str]) -> Option<String> {
    let first = rest.first()?;
    match rest.get(1) {
        Some(second) if PAIRS.contains(&(first, second)) => Some(format!("{first} {second}")),
        _ => Some((*first).to_owned()),
    }
}

fn has(tokens: &[Token], words: &[&str]) -> bool {
    tokens.windows(words.len()).any(|window| window.iter().zip(words).all(|(t, w)| word(t) == Some(w)))
}

/// What a CREATE TABLE has beside columns, the rarest first.
fn table_details(tokens: &[Token], temporary: bool) -> String {
    let mut out: Vec<&str> = Vec::new();
    for (words, name) in [
        (&["partition", "by"][..], "PARTITION BY"),
        (&["partition", "of"], "PARTITION OF"),
        (&["inherits"], "INHERITS"),
        (&["exclude"], "EXCLUDE"),
        (&["generated"], "GENERATED"),
        (&["like"], "LIKE"),
        (&["collate"], "COLLATE"),
        (&["using"], "USING"),
        (&["tablespace"], "TABLESPACE"),
        (&["serial"], "serial"),
        (&["bigserial"], "serial"),
    ] {
        if has(tokens, words) {
            out.push(name);
        }
    }
    if temporary {
        out.push("TEMPORARY");
    }
    out.join(", ")
}

fn index_details(tokens: &[Token]) -> String {
    let method = tokens.windows(2).find(|w| word(&w[0]) == Some("using")).and_then(|w| word(&w[1]));
    let mut out: Vec<String> = method.into_iter().map(|method| format!("USING {method}")).collect();
    if has(tokens, &["where"]) {
        out.push("WHERE".into());
    }
    if has(tokens, &["include"]) {
        out.push("INCLUDE".into());
    }
    out.join(", ")
}

/// The first action of an ALTER TABLE: its keywords.
fn action(tokens: &[Token]) -> String {
    const VERBS: &[&str] = &[
        "add", "alter", "drop", "rename", "set", "reset", "attach", "detach", "inherit", "no", "enable", "disable",
        "owner", "cluster", "validate", "replica", "force", "of", "not",
    ];
    // The table's name may be one of the verbs.
    let begin = tokens.iter().skip(2).position(|t| word(t).is_some_and(|w| !FILLERS.contains(&w))).map_or(0, |i| i + 3);
    let Some(at) = (begin..tokens.len()).find(|i| word(&tokens[*i]).is_some_and(|w| VERBS.contains(&w))) else {
        return String::new();
    };
    let verb = word(&tokens[at]).unwrap_or_default();
    let next = tokens.get(at + 1).and_then(word).unwrap_or_default();
    let third = tokens
        .iter()
        .skip(at + 2)
        .find_map(|t| word(t).filter(|w| ["type", "set", "drop", "add", "reset", "using"].contains(w)));
    match (verb, next) {
        ("alter", _) => format!("ALTER COLUMN {}", third.unwrap_or_default().to_uppercase()),
        ("add" | "drop", "constraint" | "unique" | "primary" | "foreign" | "check" | "exclude" | "generated") => {
            format!("{verb} {next}").to_uppercase()
        }
        ("add" | "drop", _) => format!("{} COLUMN", verb.to_uppercase()),
        _ => format!("{verb} {next}").to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_features() {
        for (sql, expected) in [
            ("create or replace function f() returns int as $$ $$", Some("CREATE FUNCTION")),
            ("create temp table t (a int) partition by list (a)", Some("CREATE TABLE: PARTITION BY, TEMPORARY")),
            ("create table t partition of p default", Some("CREATE TABLE: PARTITION OF")),
            ("alter table only t attach partition p default", Some("ALTER TABLE: ATTACH PARTITION")),
            ("alter table t alter column a set storage plain", Some("ALTER TABLE: ALTER COLUMN SET")),
            ("alter table t add column a int", Some("ALTER TABLE: ADD COLUMN")),
            ("drop materialized view if exists m", Some("DROP MATERIALIZED VIEW")),
            ("create unique index i on t using hash (a)", Some("CREATE INDEX: USING hash")),
            ("alter default privileges grant all on tables to x", Some("ALTER DEFAULT PRIVILEGES")),
            ("comment on column t.a is 'x'", Some("COMMENT ON COLUMN")),
            ("set session authorization x", Some("SET SESSION AUTHORIZATION")),
            ("select 1", None),
            ("set a = 1", None),
        ] {
            assert_eq!(feature(&words::tokens(sql)).as_deref(), expected, "{sql}");
        }
    }
}
