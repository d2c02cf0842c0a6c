//! `search_path`: the schemas in which a name without one is looked for.
//!
//! As in PostgreSQL: names in quotes or in small letters, with commas between; `$user` stands for the user's name;
//! `pg_catalog` goes before all others unless it is listed. A schema of the path that does not exist has nothing in it, so that
//! nobody has to ask whether it does to find something; only who makes something in the first of the path has to.
//!
//! A schema that the role may not look into (USAGE) is not looked in, as if it were not listed.
//!
//! A session's temporary schema goes before all others, `pg_catalog` among them, unless `pg_temp` is listed, which stands for it.
//!
//! Expressions and views that are stored keep their names' meaning: a name without a schema is one of `public` there (or of
//! `pg_catalog`), whatever the path of whoever reads it ([`SearchPath::stored`]).

use std::sync::{Arc, LazyLock};

/// What it is by default.
pub const DEFAULT: &str = "\"$user\", public";
/// The schema of the system's functions, types and tables.
pub const PG_CATALOG: &str = "pg_catalog";
/// The schema that is there from the beginning.
pub const PUBLIC: &str = "public";
/// What stands for the session's temporary schema.
pub const PG_TEMP: &str = "pg_temp";

/// Whether a schema has temporary things of some session: `pg_temp_` and a number.
pub fn is_temporary(schema: &str) -> bool {
    schema
        .strip_prefix("pg_temp_")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SearchPath {
    /// As it is listed, each once.
    listed: Vec<String>,
    /// `pg_catalog` is looked in first, without being listed.
    implied: bool,
    /// The session's temporary schema, once it has one.
    temp: Option<String>,
}

impl SearchPath {
    /// That of a setting, for a user. What is no list has nothing in it.
    pub fn of(setting: &str, user: &str) -> Self {
        let mut listed: Vec<String> = Vec::new();
        for name in split(setting).unwrap_or_default() {
            let name = if name == "$user" { user.to_owned() } else { name };
            if !name.is_empty() && !listed.contains(&name) {
                listed.push(name);
            }
        }
        let implied = !listed.iter().any(|name| name == PG_CATALOG);
        Self { listed, implied, temp: None }
    }

    /// The path of a session that has that temporary schema.
    pub fn with_temporary(mut self, schema: &str) -> Self {
        for listed in self.listed.iter_mut().filter(|listed| *listed == PG_TEMP) {
            schema.clone_into(listed);
        }
        self.temp = Some(schema.to_owned());
        self
    }

    /// The session's temporary schema, once it has one.
    pub fn temporary(&self) -> Option<&str> {
        self.temp.as_deref()
    }

    /// The schema that a name means: `pg_temp` is the session's own.
    pub fn meant<'s>(&'s self, schema: &'s str) -> &'s str {
        if schema == PG_TEMP { self.temporary().unwrap_or(schema) } else { schema }
    }

    /// A path with another schema before all that it lists.
    pub fn with_first(schema: &str, path: &Self) -> Self {
        let mut listed = vec![schema.to_owned()];
        listed.extend(path.listed().filter(|known| *known != schema).map(str::to_owned));
        Self { listed, ..path.clone() }
    }

    /// The path without the listed schemas that `may_look` says no to.
    pub fn only(mut self, may_look: impl Fn(&str) -> bool) -> Self {
        self.listed.retain(|schema| may_look(schema));
        self
    }

    /// That of what is stored.
    pub fn stored() -> Arc<Self> {
        static STORED: LazyLock<Arc<SearchPath>> = LazyLock::new(|| Arc::new(SearchPath::of(PUBLIC, "")));
        Arc::clone(&STORED)
    }

    /// The schemas in the order in which names are looked for in them.
    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        let temp = self.temporary().filter(|temp| !self.listed.iter().any(|listed| listed == temp));
        temp.into_iter().chain(self.implied.then_some(PG_CATALOG)).chain(self.listed())
    }

    /// Those that are listed.
    pub fn listed(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().map(String::as_str)
    }

    /// Where a schema is among them; a smaller number goes first.
    pub fn place(&self, schema: &str) -> Option<usize> {
        self.schemas().position(|known| known == schema)
    }
}

/// The names of a list; `None` if it is none.
pub fn split(list: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = list.trim_start();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let mut name = String::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut at = 0;
            loop {
                let end = at + quoted.get(at..)?.find('"')?;
                name.push_str(&quoted[at..end]);
                at = end + 1;
                if !quoted[at..].starts_with('"') {
                    break;
                }
                name.push('"');
                at += 1;
            }
            rest = &quoted[at..];
        } else {
            let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            name = rest[..end].to_lowercase();
            rest = &rest[end..];
        }
        let mut end = name.len().min(resurgam_engine::limits::IDENTIFIER_BYTES_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        names.push(name);
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let names = |list: &str| split(list).map(|names| names.join("|"));
        assert_eq!(names("x,  y , \"Z\"").as_deref(), Some("x|y|Z"));
        assert_eq!(names("\"$user\", PUBLIC").as_deref(), Some("$user|public"));
        assert_eq!(names("\"a \"\"b\"\",c\"").as_deref(), Some("a \"b\",c"));
        assert_eq!(names("\"\"").as_deref(), Some(""));
        assert_eq!(split("  "), Some(Vec::new()));
        for bad in ["x,,y", "x y", "x,", ",", "\"x", "\"x\"y"] {
            assert_eq!(names(bad), None, "{bad}");
        }
        let long = "ü".repeat(40);
        assert_eq!(split(&long).expect("a list")[0].len(), 62);
    }

    #[test]
    fn what_is_looked_in() {
        let path = |setting: &str| SearchPath::of(setting, "me").schemas().collect::<Vec<_>>().join("|");
        assert_eq!(path(DEFAULT), "pg_catalog|me|public");
        assert_eq!(path("x, X, \"X\", x"), "pg_catalog|x|X");
        assert_eq!(path("public, pg_catalog"), "public|pg_catalog");
        assert_eq!(path("\"\""), "pg_catalog");
        assert_eq!(path(""), "pg_catalog");
        let temporary = |setting: &str| {
            let path = SearchPath::of(setting, "me").with_temporary("pg_temp_3");
            path.schemas().collect::<Vec<_>>().join("|")
        };
        assert_eq!(temporary("x"), "pg_temp_3|pg_catalog|x");
        assert_eq!(temporary("x, pg_temp"), "pg_catalog|x|pg_temp_3");
        assert!(is_temporary("pg_temp_12") && !is_temporary("pg_temp") && !is_temporary("pg_temp_x"));
        let path = SearchPath::of("x, pg_catalog", "");
        assert_eq!((path.place("x"), path.place(PG_CATALOG), path.place("y")), (Some(0), Some(1), None));
    }
}
