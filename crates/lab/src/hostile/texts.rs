//! Hostile texts: for each operator, clause and function a chain, a nest or a list of any length.

/// How a family of texts grows with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One after the other: a tree as deep as it is long, without a single parenthesis.
    Chain,
    /// One inside the other.
    Nest,
    /// One beside the other.
    List,
    /// A short text, or a few, that ask for much.
    Bomb,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Nest => "nest",
            Self::List => "list",
            Self::Bomb => "bomb",
        }
    }
}

/// A family of texts.
pub struct Family {
    pub kind: Kind,
    pub name: &'static str,
    text: Box<dyn Fn(usize) -> String>,
}

impl Family {
    pub fn new(kind: Kind, name: &'static str, text: impl Fn(usize) -> String + 'static) -> Self {
        Self { kind, name, text: Box::new(text) }
    }
    /// The text of this size.
    pub fn text(&self, n: usize) -> String {
        (self.text)(n)
    }
}

/// What the texts read: `o` has one row, `h` a hundred.
pub const SETUP: &[&str] = &[
    "create table o (i int primary key)",
    "insert into o values (1)",
    "create table h (a int primary key, b int, t text)",
    "insert into h select i, i % 7, 'row ' || i from generate_series(1, 100) as s(i)",
];

/// `item` of 0 to `n`, with `between` between them.
pub fn list(n: usize, between: &str, item: impl Fn(usize) -> String) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(between)
}

/// Chains: what comes first, and what is said `n` times after it.
const CHAINS: &[(&str, &str, &str)] = &[
    ("+", "select 1", " + 1"),
    ("-", "select 1", " - 1"),
    ("*", "select 1", " * 1"),
    ("/", "select 1", " / 1"),
    ("%", "select 1", " % 1"),
    ("^", "select 1", " ^ 1"),
    ("+ of columns", "select sum(x) from (select a", " + b"),
    ("+ - * mixed", "select 1", " + 1 - 2 * 3"),
    ("+ of numeric", "select 1.5", " + 1.5"),
    ("& and |", "select 1", " & 1 | 2"),
    ("<<", "select 1", " << 0"),
    ("||", "select length('a'", " || 'a'"),
    ("|| of columns", "select count(x) from (select t", " || t"),
    ("|| of arrays", "select array[1]", " || 1"),
    ("AND", "select count(*) from h where a > 0", " and b < 10"),
    ("OR", "select count(*) from h where a < 0", " or b > 10"),
    ("AND of constants", "select true", " and true"),
    ("OR of equalities", "select count(*) from h where a = 1", " or a = 1"),
    ("AND OR", "select count(*) from h where a = 1", " and b = 2 or a = 3"),
    ("=", "select 1 = 1", " = true"),
    ("::int", "select 1", "::int"),
    ("::text::int", "select 1", "::text::int"),
    ("IS NULL", "select 1", " is null"),
    ("IS TRUE", "select true", " is true"),
    ("IS DISTINCT FROM", "select true", " is distinct from false"),
    ("LIKE", "select 'a'", " like 'a'"),
    ("~", "select 'a'", " ~ 'a'"),
    ("BETWEEN", "select 1", " between 0 and 2"),
    ("IN", "select 1", " in (1)"),
    ("->", "select '{}'::jsonb", " -> 'a'"),
    ("->>", "select '{}'::jsonb", " ->> 'a'"),
    ("#>", "select '{}'::jsonb", " #> '{a}'"),
    ("AT TIME ZONE", "select now()", " at time zone 'UTC'"),
    ("COLLATE", "select 'a'", " collate \"C\""),
    ("[1]", "select (array[1])", "[1]"),
    (".x", "select a", ".a"),
    ("UNION ALL", "select count(*) from (select 1", " union all select 1"),
    ("UNION", "select count(*) from (select 1", " union select 1"),
    ("EXCEPT", "select 1", " except select 2"),
    ("INTERSECT", "select 1", " intersect select 1"),
    ("UNION ALL of tables", "select count(*) from (select a from h", " union all select a from h"),
    ("JOIN ON", "select count(*) from o", " join o as q on true"),
    ("CROSS JOIN", "select count(*) from o", " cross join o"),
    ("NATURAL JOIN", "select count(*) from o", " natural join o"),
    ("date +", "select date '2020-01-01'", " + 1"),
    ("timestamp + interval", "select timestamp '2020-01-01'", " + interval '1 s'"),
    (";", "select 1", "; select 1"),
    ("; alone", "select 1", ";"),
    ("|| then +", "select 1", " + 1 || 'a'"),
];

/// Nests: what is said `n` times before and after what is innermost, and what is around all.
const NESTS: &[(&str, &str, &str, &str, &str, &str)] = &[
    ("( )", "select ", "(", "1", ")", ""),
    ("NOT", "select ", "not ", "true", "", ""),
    ("unary -", "select ", "- ", "1", "", ""),
    ("unary +", "select ", "+ ", "1", "", ""),
    ("unary ~", "select ", "~ ", "1", "", ""),
    ("1 + (", "select ", "1 + (", "1", ")", ""),
    ("'a' || (", "select ", "'a' || (", "'a'", ")", ""),
    ("AND (", "select count(*) from h where ", "a > 0 and (", "true", ")", ""),
    ("abs", "select ", "abs(", "1", ")", ""),
    ("abs of column", "select sum(x) from (select ", "abs(", "a", ")", " as x from h) as s"),
    ("upper", "select ", "upper(", "'a'", ")", ""),
    ("coalesce", "select ", "coalesce(null, ", "1", ")", ""),
    ("nullif", "select ", "nullif(", "1", ", 2)", ""),
    ("greatest", "select ", "greatest(1, ", "1", ")", ""),
    ("round of numeric", "select ", "round(", "1.5", ", 1)", ""),
    ("case else", "select ", "case when false then 1 else ", "1", " end", ""),
    ("case when", "select ", "case when ", "true", " then true end", ""),
    ("cast", "select ", "cast(", "1", " as int)", ""),
    ("extract", "select ", "extract(epoch from to_timestamp(", "1", "))", ""),
    ("substring", "select ", "substring(", "'a'", " from 1 for 1)", ""),
    ("trim", "select ", "trim(", "'a'", ")", ""),
    ("position", "select ", "position('a' in ", "'a'", ")::text", ""),
    ("array", "select ", "array[", "1", "]", ""),
    ("(array)[1]", "select ", "(array[", "1", "])[1]", ""),
    ("array literal", "select '", "{", "1", "}", "'::int[]"),
    ("row", "select ", "row(", "1", ")", " is null"),
    ("jsonb_build_array", "select ", "jsonb_build_array(", "1", ")", ""),
    ("json text", "select '", "[", "1", "]", "'::json"),
    ("jsonb text", "select '", "{\"a\":", "1", "}", "'::jsonb"),
    ("scalar subquery", "select ", "(select ", "1", ")", ""),
    ("exists", "select ", "exists (select 1 where ", "true", ")", ""),
    ("in subquery", "select count(*) from h where ", "a in (select a from h where ", "true", ")", ""),
    ("derived table", "select * from ", "(select * from ", "o", ") as q", ""),
    ("parenthesised query", "", "(", "select 1", ")", ""),
    ("parenthesised join", "select count(*) from ", "(", "o", " cross join o as q)", ""),
    ("lateral", "select * from o", ", lateral (select * from o", "", ") as q", ""),
    ("with", "", "with w as (", "select 1", ") select * from w", ""),
    ("union ( )", "", "select 1 union all (", "select 1", ")", ""),
    ("explain", "", "explain ", "select 1", "", ""),
    ("explain (…)", "", "explain (verbose) ", "select 1", "", ""),
    ("comment", "select 1 ", "/*", "", "*/", ""),
    ("any array", "select ", "1 = any(array[", "true", "]::int[])", ""),
    ("row_number", "select ", "sum(", "1", ") over ()", ""),
    ("sum", "select ", "sum(", "1", ")", ""),
    ("filter", "select ", "count(*) filter (where ", "true", ") > 0", ""),
    ("bracket alone", "select ", "(", "", "", ""),
    ("bracket of array alone", "select ", "array[", "", "", ""),
    ("case alone", "select ", "case when ", "", "", ""),
    ("select alone", "", "select (", "", "", ""),
    ("function alone", "select ", "f(", "", "", ""),
    ("interval", "select ", "interval '1 day' * extract(day from ", "interval '1 s'", ")", ""),
    ("regex groups", "select 'a' ~ '", "(", "a", ")", "'"),
    ("regex stars", "select repeat('a', 50) ~ '", "(", "a", "*)*", "b'"),
    ("type brackets", "select null::int", "[]", "", "", ""),
    ("create view", "create temp view v as select ", "(", "1", ")", ""),
    ("check", "create table c (i int check (", "(", "i > 0", ")", "))"),
    ("default", "create table c (i int default ", "abs(", "1", ")", ")"),
];

/// All chains and nests.
pub fn deep() -> Vec<Family> {
    let mut all = Vec::new();
    for &(name, first, next) in CHAINS {
        let end = match (
            first.contains("(select a"),
            first.contains("(select t"),
            first.contains("length("),
            first.contains("(select 1"),
        ) {
            (true, ..) if next.contains("union") => ") as s",
            (true, ..) => " as x from h) as s",
            (_, true, ..) => " as x from h) as s",
            (_, _, true, _) => ")",
            (.., true) => ") as s",
            _ => "",
        };
        // Each join has a name of its own.
        let is_join = name.ends_with("JOIN") || name == "JOIN ON";
        all.push(Family::new(Kind::Chain, name, move |n| match is_join {
            true => {
                let on = if name == "JOIN ON" { " on true" } else { "" };
                let how = if name == "JOIN ON" { "join" } else { name };
                format!("{first}{}", list(n, "", |i| format!(" {how} o as q{i}{on}")))
            }
            // Each of them is a statement with a time of its own.
            false if name == ";" => format!("{first}{}", next.repeat(n.min(2000))),
            false => format!("{first}{}{end}", next.repeat(n)),
        }));
    }
    for &(name, first, open, inner, close, last) in NESTS {
        all.push(Family::new(Kind::Nest, name, move |n| {
            format!("{first}{}{inner}{}{last}", open.repeat(n), close.repeat(n))
        }));
    }
    all
}
