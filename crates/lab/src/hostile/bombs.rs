//! Hostile texts that are short and ask for much: rows, bytes or time without an end.

use super::texts::{Family, Kind};

/// Each with the number at its place `{}`, which is multiplied by `by`.
const BOMBS: &[(&str, usize, &str)] = &[
    ("repeat", 10_000, "select length(repeat('x', {}))"),
    ("repeat of repeat", 1, "select length(repeat(repeat('x', {}), {}))"),
    ("repeat, kept", 10_000, "select max(x) is null from (select repeat('x', {}) as x from h) as s"),
    ("repeat, concatenated", 10_000, "select length(repeat('x', {}) || repeat('x', {}))"),
    ("rpad", 10_000, "select length(rpad('x', {}))"),
    ("lpad", 10_000, "select length(lpad('x', {}, 'ab'))"),
    ("rows of rpad", 100, "select sum(length(rpad('x', {}))) from generate_series(1, 10000)"),
    ("replace", 10, "select length(replace(repeat('x', {}), 'x', repeat('y', {})))"),
    ("regexp_replace", 10, "select length(regexp_replace(repeat('x', {}), 'x', repeat('y', 100), 'g'))"),
    ("array_fill", 10_000, "select array_length(array_fill(1, array[{}]), 1)"),
    ("array_fill of dimensions", 10, "select array_length(array_fill(1, array[{}, {}]), 1)"),
    ("array_agg", 1000, "select array_length(array_agg(i), 1) from generate_series(1, {}) as s(i)"),
    ("string_agg", 1000, "select length(string_agg('xxxxxxxxxx', '')) from generate_series(1, {})"),
    ("json_agg", 1000, "select length(json_agg(i)::text) from generate_series(1, {}) as s(i)"),
    ("generate_series", 10_000, "select count(*) from generate_series(1, {})"),
    ("generate_series in the list", 10_000, "select count(*) from (select generate_series(1, {})) as s"),
    ("generate_series, crossed", 1, "select count(*) from generate_series(1, {}) a, generate_series(1, {}) b"),
    ("generate_series, sorted", 1000, "select i from generate_series(1, {}) as s(i) order by -i limit 1"),
    ("generate_series, grouped", 1000, "select count(*) from (select i from generate_series(1, {}) s(i) group by i) t"),
    ("generate_series of times", 100, "select count(*) from generate_series(now(), now() + '{} s', '1 s')"),
    ("windows", 1000, "select max(x) from (select sum(i) over (order by i) as x from generate_series(1, {}) s(i)) t"),
    ("distinct", 1000, "select count(distinct i) from generate_series(1, {}) as s(i)"),
    ("unnest", 1000, "select count(*) from unnest(array_fill(1, array[{}]))"),
    ("string_to_array", 1000, "select array_length(string_to_array(repeat('a,', {}), ','), 1)"),
    ("regexp_split_to_array", 100, "select array_length(regexp_split_to_array(repeat('a,', {}), ','), 1)"),
    ("regexp_matches", 100, "select count(*) from (select regexp_matches(repeat('a', {}), 'a', 'g')) as s"),
    ("a regex that goes back", 10, "select repeat('a', {}) ~ '(a*)*(a*)*b'"),
    ("a regex of counts", 1, "select repeat('a', {}) ~ '((a{1,100}){1,100}){1,100}'"),
    ("a LIKE that goes back", 100, "select repeat('a', {}) like '%a%a%a%a%a%a%a%a%b'"),
    ("ILIKE", 100, "select repeat('a', {}) ilike '%a%a%a%a%a%a%a%a%b'"),
    ("to_char", 100, "select length(to_char(now(), repeat('YYYY', {})))"),
    ("format of a width", 10_000, "select length(format('%{}s', 'x'))"),
    ("factorial", 1, "select factorial({}) is null"),
    ("numeric power", 1, "select 9.9 ^ {} is null"),
    ("numeric division", 1, "select round(1::numeric / 3, {}) is null"),
    ("numeric exp", 1, "select exp({}::numeric) is null"),
    ("numeric sqrt", 1, "select sqrt(10::numeric ^ {}) is null"),
    ("numeric product", 1, "select (10::numeric ^ {} - 1) * (10::numeric ^ {} - 1) is null"),
    (
        "WITH RECURSIVE",
        1000,
        "with recursive r(i) as (select 1 union all select i + 1 from r where i < {}) select max(i) from r",
    ),
    (
        "WITH RECURSIVE that doubles",
        1,
        "with recursive r(i) as (select 1 union all select i + 1 from r, generate_series(1, 2) where i < {}) select count(*) from r",
    ),
    (
        "WITH RECURSIVE of texts",
        1,
        "with recursive r(i, t) as (select 1, 'x' union all select i + 1, t || t from r where i < {}) select max(length(t)) from r",
    ),
    ("cross joins", 1, "select count(*) from h a, h b, h c, h d where a.a + b.a + c.a + d.a > {}"),
    ("cross joins, sorted", 1, "select a.t from h a, h b, h c, h d order by a.t || b.t || c.t || d.t offset {}"),
    ("cross joins, sent", 1, "select a.t, b.t from h a, h b, h c limit {}"),
    (
        "a table that doubles",
        1,
        "insert into h select a.a + 1000 * b.a + 1000000 * c.a from h a, h b, h c where c.a < {} on conflict do nothing; delete from h where a > 100",
    ),
    ("copy to", 1000, "copy (select repeat('x', 100) from generate_series(1, {})) to stdout"),
    ("pg_sleep", 1, "select pg_sleep({})"),
    ("rows of pg_sleep", 1, "select pg_sleep(0.01) from generate_series(1, {})"),
    (
        "do nothing often",
        1,
        "select count(*) from h where (select count(*) from h b, h c where b.a + c.a = h.a + {}) >= 0",
    ),
    ("jsonb", 10, "select length((select jsonb_agg(repeat('x', {})) from h)::text)"),
    ("md5", 1000, "select md5(repeat('x', {}))"),
    ("encode", 1000, "select length(encode(convert_to(repeat('x', {}), 'UTF8'), 'hex'))"),
    ("overlay", 100, "select length(overlay(repeat('x', {}) placing repeat('y', {}) from 2))"),
    ("translate", 100, "select length(translate(repeat('x', {}), repeat('x', {}), repeat('y', {})))"),
    ("reverse", 1000, "select length(reverse(repeat('x', {})))"),
    ("split_part", 1000, "select split_part(repeat('a,', {}), ',', {})"),
    ("array concatenation", 100, "select array_length(array_fill(1, array[{}]) || array_fill(1, array[{}]), 1)"),
    ("array_remove", 100, "select array_remove(array_fill(1, array[{}]), 1)"),
    ("a cast of a long text", 100, "select repeat('7', {})::numeric is null"),
    ("a cast to an array", 100, "select array_length(('{' || repeat('1,', {}) || '1}')::int[], 1)"),
    ("a cast to json", 100, "select length(('[' || repeat('1,', {}) || '1]')::jsonb::text)"),
    ("a cast to a deep json", 1, "select length((repeat('[', {}) || repeat(']', {}))::jsonb::text)"),
    ("a cast to a deep array", 1, "select length((repeat('{', {}) || repeat('}', {}))::int[]::text)"),
];

/// All bombs.
pub fn bombs() -> Vec<Family> {
    let family = |&(name, by, text): &(&'static str, usize, &'static str)| {
        Family::new(Kind::Bomb, name, move |n| text.replace("{}", &(n * by).to_string()))
    };
    BOMBS.iter().map(family).collect()
}
