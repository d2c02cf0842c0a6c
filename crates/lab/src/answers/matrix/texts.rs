//! The families of statements.

use super::Run;
use super::types::{SECOND, TYPES, value};
use crate::Result;

/// Each value to each type.
pub fn casts(run: &mut Run<'_>) -> Result<()> {
    for (from, texts) in TYPES {
        for text in *texts {
            for (to, _) in TYPES {
                run.sampled(&format!("select cast({} as {to})", value(from, text)))?;
            }
        }
    }
    Ok(())
}

const OPERATORS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "||",
    "=",
    "<",
    ">=",
    "<>",
    "&",
    "|",
    "#",
    "<<",
    ">>",
    "~",
    "@>",
    "<@",
    "&&",
    "-|-",
    "&<",
    "->",
    "->>",
    "?",
    "is distinct from",
    "like",
];

/// Three pairs of values for each operator between each two types.
pub fn operators(run: &mut Run<'_>) -> Result<()> {
    for (left, lefts) in TYPES {
        for (right, rights) in TYPES {
            for operator in OPERATORS {
                let pairs = lefts.iter().flat_map(|a| rights.iter().map(move |b| (a, b)));
                for (a, b) in pairs.step_by(2).take(3) {
                    run.sampled(&format!("select {} {operator} {}", value(left, a), value(right, b)))?;
                }
            }
        }
    }
    Ok(())
}

/// Functions whose results depend on their arguments alone, in one database and session; without those that types have for themselves, and without
/// whole families that are not there.
const FUNCTIONS: &str = "select distinct proname, pronargs from pg_proc where pronamespace = 'pg_catalog'::regnamespace \
     and prokind in ('f', 'a') and provolatile <> 'v' and pronargs in (1, 2) and not proretset and proname !~ \
     '(_in|_out|recv|send|in|out|sel|joinsel|support|cmp|hash.*|handler|_transfn|_accum|_combine|_serialize|_deserialize|_final|_inv|typmod.*|_internal|sortsupport|larger|smaller|eq|ne|lt|le|gt|ge|range_.*|ts.*|gin.*|gist.*|spg.*|brin.*|geo.*|poly.*|box.*|circle.*|path.*|line.*|lseg.*|point.*|inet.*|network.*|cash.*|xml.*|macaddr.*)$' \
     and proname !~ '^(pg_|has_|current_|txid|inet|session|user|query_to|table_to|schema_to|cursor_to|database_to|xml|ts_|lo_|binary_|col_desc|obj_desc|shobj|to_ts|phraseto|plainto|websearch|getdatabase|get_current|bit$|char$|varchar$|time$|timetz$|timestamp$|interval$|numeric$|float4$|float8$|int2$|int4$|int8$|bool$)' \
     order by 1, 2";

/// Each function of each type, and of each type and some others.
pub fn functions(run: &mut Run<'_>) -> Result<()> {
    for row in run.asked(FUNCTIONS)? {
        let [Some(name), Some(arguments)] = row.as_slice() else { continue };
        for (ty, texts) in TYPES {
            if arguments == "1" {
                for text in texts.iter().take(4) {
                    run.sampled(&format!("select {name}({})", value(ty, text)))?;
                }
                continue;
            }
            for (second, others) in TYPES.iter().filter(|(ty, _)| SECOND.contains(ty)) {
                for (a, b) in [(texts.last(), others.first()), (texts.first(), others.last())] {
                    let (Some(a), Some(b)) = (a, b) else { continue };
                    run.sampled(&format!("select {name}({}, {})", value(ty, a), value(second, b)))?;
                }
            }
        }
    }
    Ok(())
}

/// What is done with a table `t (id int, c)` of one type; `{v}` and `{w}` are values of it, `{ty}` the type.
const USES: &[&str] = &[
    "select c from t order by c, id",
    "select c, id from t order by c desc nulls last, id desc limit 3",
    "select distinct c from t order by c",
    "select c = {v}, count(*), sum(id) from t group by c order by 3",
    "select min(c) = {v}, max(c) = {w} from t",
    "select count(distinct c), count(c) from t",
    "select id from t where c = {v} order by id",
    "select id from t where c in ({v}, {w}) order by id",
    "select id from t where c not in ({v}, {w}) order by id",
    "select id from t where c between {v} and {w} order by id",
    "select id from t where c = any(array[{v}, {w}]) order by id",
    "select id from t where c <> all(array[{v}]) order by id",
    "select id from t where c < {v} or c is null order by id",
    "select id from t where c is distinct from {v} order by id",
    "select id, lag(c) over (order by id), rank() over (order by c), count(*) over (partition by c) from t order by id",
    "select a.id, b.id from t a join t b on a.c = b.c order by 1, 2",
    "select a.id, b.id from t a left join t b on a.c < b.c order by 1, 2",
    "select count(*) from (select c from t union select c from t where id > 2) s",
    "select count(*) from (select c from t except select {v}) s",
    "select count(*) from (select c from t intersect select c from t where id < 3) s",
    "select case when id = 1 then c end, coalesce(c, {v}), nullif(c, {v}) from t order by id",
    "select greatest(c, {v}) = {v}, least(c, {v}, {w}) = {w} from t order by id",
    "select array_agg(c order by id) from t",
    "select string_agg(c::text, ',' order by id) from t",
    "select to_json(c), to_jsonb(c) from t order by id",
    "select row_to_json(t) from t order by id",
    "select row(id, c) from t order by id",
    "select c::text, length(c::text), c || '' from t order by id",
    "select concat(c, 1), format('%s|%L', c, c) from t order by id",
    "select md5(c::text) from t order by id",
    "create table d (id int, c {ty} default {v}, check (c = {v} or c is null))",
    "insert into d values (1)",
    "insert into d values (2, {w})",
    "select * from d",
    "alter table d alter c drop default",
    "drop table d",
    "create view vv as select c, id from t",
    "select * from vv order by id",
    "drop view vv",
    "select pg_typeof(c), pg_column_size(c) > 0 from t limit 1",
    "select (select max(c) from t x where x.c = t.c) = c from t order by id",
    "select id from t where exists (select 1 from t b where b.c = t.c and b.id <> t.id) order by id",
    "with q as materialized (select c, id from t) select c from q order by c, id",
    "select c from (values ({v}), ({w}), (null)) v (c) order by c",
    "select mode() within group (order by c), percentile_disc(0.5) within group (order by c) from t where id < 3",
    "select grouping(c), count(*) from t group by rollup (c) order by 1, 2",
    "prepare p as select id from t where c = $1 order by id",
    "execute p({v})",
    "deallocate p",
    "select array[c] from t order by id",
    "select id from t where array[c] = array[{v}] order by id",
    "select unnest(array[{v}, {w}])",
    "select array_position(array[{v}, {w}], {w})",
    "select id from t where (c, id) = ({v}, 1)",
    "select id from t where (c, id) > ({v}, 1) order by id",
    "select id from t where c = (select c from t where id = 1) order by id",
    "copy (select id, c from t order by id) to stdout",
    "copy (select id, c from t order by id) to stdout (format csv)",
    "update t set c = {w} where c = {v} returning id, c = {w}",
    "select c from t order by id",
];

/// What is done with it as a key.
const KEYS: &[&str] = &[
    "create index ti on t (c)",
    "select id from t where c = {v} order by id",
    "select c = {v} from t where c >= {v} order by c, id limit 2",
    "select max(c) = {w} from t where c < {w}",
    "drop index ti",
    "create table u as select distinct c from t",
    "alter table u add unique (c)",
    "insert into u values ({v})",
    "insert into u values ({v}) on conflict do nothing",
    "insert into u values ({v}) on conflict (c) do update set c = excluded.c returning c = {v}",
    "select count(*) from u",
    "update u set c = {w} where c = {w} returning c = {w}",
    "delete from u where c = {v} returning c = {v}",
    "drop table u",
    "create table r (c {ty} primary key, n int)",
    "insert into r select distinct on (c) c, id from t where c is not null order by c, id",
    "select n from r order by c",
    "select count(*) from r where c = {v}",
    "update r set n = 100 where c = {v} returning n",
    "create table s (id int, c {ty} references r (c))",
    "insert into s select id, c from t where c is not null",
    "select count(*) from s join r using (c)",
    "delete from r where c = {v}",
    "drop table s",
    "drop table r",
];

/// Tables and views of the above.
const MADE: &[&str] = &["view vv", "table s", "table d", "table u", "table r", "table t"];

/// Each type in each of these places, in their order.
pub fn uses(run: &mut Run<'_>) -> Result<()> {
    for (ty, texts) in TYPES {
        run.named(format!("uses:{}", ty.replace(' ', "_")));
        for made in MADE {
            run.both(&format!("drop {made} cascade"))?;
        }
        let (theirs, ours) = run.both(&format!("create table t (id int primary key, c {ty})"))?;
        // Columns of some types are refused, and nothing more is to be learned of them.
        if theirs.error().is_some() || ours.error().is_some_and(|error| error.code == super::REFUSED) {
            run.count("types without columns");
            continue;
        }
        let (Some(first), Some(last)) = (texts.first(), texts.last()) else { continue };
        let values = texts.iter().map(|text| value(ty, text)).chain(["null".to_owned(), value(ty, first)]);
        for (id, value) in values.enumerate() {
            run.judged(&format!("insert into t values ({}, {value})", id + 1))?;
        }
        // A column of `json` may be a key here, by its text: PostgreSQL refuses that.
        let keys = if *ty == "json" { &[] } else { KEYS };
        for text in USES.iter().chain(keys) {
            let text = text.replace("{v}", &value(ty, first)).replace("{w}", &value(ty, last)).replace("{ty}", ty);
            let refused = run.judged(&text)?;
            // What follows is then about nothing on both sides.
            if refused && text.starts_with("create table s ") {
                run.theirs.query("drop table s")?;
            }
        }
    }
    Ok(())
}

/// Words that are keywords of other dialects, which a parser of many dialects may know.
const FOREIGN: &str = "anti asof auto bottom connect cut directory distribute div final format glob id ignore interval key_block_size \
     kill limit_by lock match match_condition match_recognize member minus modify open output percent pivot prewhere qualify quarter regexp replace \
     rlike rownum sample schema_name semi settings sort straight_join stats status tag temp top try unpivot unsigned use user_name week xor zone";

const NAMES: &[&str] = &[
    "select {k} from (select 1 as {k}) s",
    "select 1 {k}",
    "select 1 as {k}",
    "select x from (select 1 as x) {k}",
    "select {k}.x from (select 1 as x) as {k}",
    "select {k}, 2 from (select 1 as {k}) s where {k} = 1 group by {k} order by {k}",
    "select s.{k} from (select 1 as {k}) s",
    "create table kk ({k} int, z int)",
    "insert into kk ({k}, z) values (1, 2)",
    "update kk set {k} = {k} + 1, z = {k} where {k} = 1 and {k} is not null",
    "select kk.{k}, {k}, -{k} from kk",
    "select z, {k} + 1 from kk order by {k} desc",
    "select sum({k}), max({k}) over () from kk group by {k}",
    "select count(*) from kk a join kk {k} on a.z = {k}.z",
    "select * from kk join kk b using ({k})",
    "create index on kk ({k}, z)",
    "delete from kk where {k} = 5 returning {k}",
    "with {k} as (select 1 as x) select x from {k}",
    "select case {k} when 2 then {k} else z end from kk",
    "alter table kk add column {k}2 int, alter column {k} set default 3",
    "insert into kk (z) values (1) returning {k} as q",
    "select ({k}), cast({k} as text), {k}::text, {k} in (1, 2), {k} between 1 and 2, array[{k}] from kk",
    "drop table kk",
    "create table {k} (a int)",
    "select a from {k}",
    "select {k}.a from {k}",
    "insert into {k} values (1)",
    "update {k} set a = 2",
    "delete from {k}",
    "drop table {k}",
];

/// Each word as the name of a column, an alias, a table.
pub fn words(run: &mut Run<'_>) -> Result<()> {
    // Which one a value has differs from session to session, or from server to server.
    let keywords =
        "select word from pg_get_keywords() where word !~ '^current_|^local|^session_user$|^user$' order by 1";
    let mut words: Vec<String> = run.asked(keywords)?.into_iter().filter_map(|row| row.into_iter().next()?).collect();
    words.extend(FOREIGN.split_whitespace().map(str::to_owned));
    for word in words {
        for text in NAMES {
            run.judged(&text.replace("{k}", &word))?;
        }
        for text in ["drop table kk".to_owned(), format!("drop table {word}")] {
            run.both(&text)?;
        }
    }
    Ok(())
}
