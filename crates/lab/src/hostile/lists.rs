//! Hostile texts that are wide: what can be said many times side by side.

use super::texts::{Family, Kind, list};

fn family(name: &'static str, text: impl Fn(usize) -> String + 'static) -> Family {
    Family::new(Kind::List, name, text)
}

/// `a <item>, <item>, … z`
fn of(name: &'static str, first: &'static str, item: impl Fn(usize) -> String + 'static, last: &'static str) -> Family {
    family(name, move |n| format!("{first}{}{last}", list(n, ", ", &item)))
}

/// All lists.
pub fn wide() -> Vec<Family> {
    let one = |text: &'static str| move |_: usize| text.to_owned();
    vec![
        of("CTEs", "with ", |i| format!("w{i} as (select {i} as i)"), " select 1"),
        family("CTEs that are read", |n| {
            format!(
                "with w as (select 1 as i), {} select count(*) from w{}",
                list(n, ", ", |i| format!(
                    "w{i} as (select i from {})",
                    if i == 0 { "w".to_owned() } else { format!("w{}", i - 1) }
                )),
                n - 1
            )
        }),
        family("CTEs that double", |n| {
            format!(
                "with w0 as (select 1 as i), {} select count(*) from w{n}",
                list(n, ", ", |i| format!("w{} as (select a.i from w{i} as a, w{i} as b)", i + 1))
            )
        }),
        of("tables in FROM", "select count(*) from ", |i| format!("o as q{i}"), ""),
        family("tables in FROM, joined in WHERE", |n| {
            format!(
                "select count(*) from {} where {}",
                list(n, ", ", |i| format!("o as q{i}")),
                list(n, " and ", |i| format!("q{i}.i = q{}.i", (i + 1) % n))
            )
        }),
        of("joined subqueries", "select count(*) from ", |i| format!("(select i from o where i > 0) as q{i}"), ""),
        family("LEFT JOIN of subqueries", |n| {
            let join = |i| format!(" left join (select i, count(*) as c from o group by i) as q{i} on q{i}.i = o.i");
            format!("select count(*) from o{}", list(n, "", join))
        }),
        of("functions in FROM", "select count(*) from ", |i| format!("generate_series(1, 1) as q{i}"), ""),
        of("columns", "select ", |i| i.to_string(), ""),
        of("columns of a table", "select ", one("a"), " from h"),
        of("expressions", "select ", |i| format!("a + {i}"), " from h"),
        of("subqueries in the list", "select ", |i| format!("(select max(i) + {i} from o)"), ""),
        of("stars", "select ", one("*"), " from h"),
        of("aggregates", "select ", |i| format!("sum(a + {i})"), " from h"),
        of("the same aggregate", "select ", one("count(*)"), " from h"),
        of("windows", "select ", |i| format!("sum(a) over (order by b + {i})"), " from h"),
        of("named windows", "select 1 from h window ", |i| format!("w{i} as (order by a)"), ""),
        of("PARTITION BY", "select sum(a) over (partition by ", |i| format!("b + {i}"), ") from h"),
        of("GROUP BY", "select count(*) from h group by ", |i| format!("b + {i}"), ""),
        of("ORDER BY", "select a from h order by ", |i| format!("b + {i}"), ""),
        of("DISTINCT ON", "select distinct on (", |i| format!("b + {i}"), ") a from h"),
        of("ROLLUP", "select count(*) from h group by rollup (", |i| format!("b + {i}"), ")"),
        of("CUBE", "select count(*) from h group by cube (", |i| format!("b + {i}"), ")"),
        of("GROUPING SETS", "select count(*) from h group by grouping sets (", one("(a)"), ")"),
        of("IN of integers", "select count(*) from h where a in (", |i| i.to_string(), ")"),
        of("IN of texts", "select count(*) from h where t in (", |i| format!("'row {i}'"), ")"),
        of("IN of columns", "select count(*) from h where a in (", |i| format!("b + {i}"), ")"),
        of("IN of rows", "select count(*) from h where (a, b) in (", |i| format!("({i}, {i})"), ")"),
        of("NOT IN", "select count(*) from h where b not in (", |i| i.to_string(), ")"),
        of("= ANY", "select count(*) from h where a = any (array[", |i| i.to_string(), "])"),
        of("= ANY of a literal", "select count(*) from h where a = any ('{", |i| i.to_string(), "}')"),
        of("VALUES rows", "values ", |i| format!("({i})"), ""),
        of("VALUES columns", "values (", |i| i.to_string(), ")"),
        of("INSERT rows", "insert into h (a) values ", |i| format!("({})", i + 1000), " on conflict do nothing"),
        of("INSERT columns", "insert into h (", one("a"), ") values (1)"),
        of("UPDATE SET", "update h set ", one("b = 1"), ""),
        of("RETURNING", "delete from h where a < 0 returning ", |i| format!("a + {i}"), ""),
        of("COALESCE", "select coalesce(", one("null"), ", 1)"),
        of("GREATEST", "select greatest(", |i| i.to_string(), ")"),
        of("concat", "select length(concat(", one("'a'"), "))"),
        of("format", "select length(format('%s', ", one("'a'"), "))"),
        of("arguments", "select abs(", one("1"), ")"),
        of("arguments of nothing", "select f(", one("1"), ")"),
        of("json_build_array", "select json_build_array(", one("1"), ") is null"),
        of("ARRAY", "select array_length(array[", |i| i.to_string(), "], 1)"),
        of(
            "ARRAY of expressions",
            "select sum(x[1]) from (select array[",
            |i| format!("a + {i}"),
            "] as x from h) as s",
        ),
        of("ROW", "select row(", |i| i.to_string(), ") is null"),
        family("CASE branches", |n| {
            format!("select sum(case {} end) from h", list(n, " ", |i| format!("when a = {i} then {i}")))
        }),
        family("CASE of a value", |n| {
            format!("select sum(case a {} end) from h", list(n, " ", |i| format!("when {i} then {i}")))
        }),
        of("columns of a new table", "create table c (", |i| format!("c{i} int"), ")"),
        of("constraints of a new table", "create table c (i int, ", |i| format!("check (i > {i})"), ")"),
        of("columns of a new key", "create table c (i int, primary key (", one("i"), "))"),
        of("columns of a new index", "create index on h (", one("a"), ")"),
        of("changes of a table", "alter table h ", |i| format!("add column c{i} int"), ""),
        of("tables of DROP", "drop table if exists ", |i| format!("none{i}"), ""),
        of("columns of COPY", "copy h (", one("a"), ") from stdin"),
        of("types of PREPARE", "prepare p (", one("int"), ") as select 1"),
        of("arguments of EXECUTE", "execute p (", one("1"), ")"),
        family("a literal", |n| format!("select length('{}')", "x".repeat(n * 100))),
        family("a literal of quotes", |n| format!("select length('{}')", "''".repeat(n * 10))),
        family("an escaped literal", |n| format!("select length(E'{}')", "\\u0061".repeat(n))),
        family("literals in a row", |n| format!("select length('a'{})", "\n'a'".repeat(n))),
        family("a name", |n| format!("select 1 as \"{}\"", "x".repeat(n))),
        family("a table's name", |n| format!("select 1 from {}", "x".repeat(n))),
        family("a name of many parts", |n| format!("select 1 from {}", list(n, ".", |_| "x".to_owned()))),
        family("digits", |n| format!("select {} is null", "7".repeat(n))),
        family("digits after the point", |n| format!("select 0.{} is null", "7".repeat(n))),
        family("an exponent", |n| format!("select 1e{n} is null")),
        family("a power of numerics", |n| format!("select 1.1 ^ {n}.0 is null")),
        family("a bytea", |n| format!("select length('\\x{}'::bytea)", "00".repeat(n * 10))),
        family("a regular expression", |n| format!("select 'a' ~ '{}'", "a?".repeat(n))),
        family("alternatives of one", |n| format!("select 'a' ~ '{}'", list(n, "|", |i| format!("x{i}")))),
        family("a counted expression", |n| format!("select 'a' ~ '(a{{1,{0}}}){{1,{0}}}'", n.min(255))),
        family("a LIKE", |n| format!("select repeat('a', 10000) like '{}b'", "%a".repeat(n))),
        family("a list in a LIKE", |n| {
            format!("select 'a' like any (array[{}])", list(n, ", ", |i| format!("'%{i}%'")))
        }),
        family("blanks", |n| format!("select 1{}", " ".repeat(n * 100))),
        family("lines of comments", |n| format!("select 1{}", "\n-- x".repeat(n))),
        family("parameters", |n| format!("prepare p as select {}", list(n, " + ", |i| format!("${}::int", i + 1)))),
        family("a parameter's number", |n| format!("prepare p as select ${n}::int")),
        family("a setting", |n| format!("set application_name = '{}'", "x".repeat(n * 10))),
        family("a search path", |n| format!("set search_path = {}", list(n, ", ", |i| format!("s{i}")))),
        family("savepoints", |n| format!("begin; {}; rollback", list(n, "; ", |i| format!("savepoint s{i}")))),
        family("OFFSET", |n| format!("select a from h order by a offset {n}")),
    ]
}
