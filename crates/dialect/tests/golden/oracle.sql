-- Asks a PostgreSQL 15 how it resolves operators, functions, casts and common types, for the golden
-- files beside this one; run by oracle.sh, by hand. No expression is executed: each becomes a view,
-- whose parse tree names what was chosen, and which is rolled back.

set client_min_messages = error;
drop schema if exists o cascade;
create schema o;
set search_path = pg_catalog;

-- The parse tree of `select expr`, or the SQLSTATE (with `errors`: and what else the error says).
create function o.tree(select_list text, errors boolean, out tree text, out error text) language plpgsql as $$
declare
  state text; message text; detail text; hint text;
begin
  execute 'create temp view probe as select ' || select_list;
  select ev_action::text into strict tree from pg_rewrite where ev_class = 'pg_temp.probe'::regclass;
  raise exception using errcode = 'P0R00', message = tree;
exception
  when sqlstate 'P0R00' then
    get stacked diagnostics tree = message_text;
  when others then
    get stacked diagnostics state = returned_sqlstate, message = message_text, detail = pg_exception_detail, hint = pg_exception_hint;
    error := state;
    if errors then error := concat_ws(E'\t', state, message, detail, hint); end if;
end $$;

-- The outcome of one expression: the oid of what was chosen and the result's type, or the SQLSTATE.
create function o.probe(expr text, errors boolean default false) returns text language plpgsql as $$
declare
  t record; hit text[];
begin
  t := o.tree('(' || expr || ') is null as x', errors);
  if t.error is not null then return t.error; end if;
  hit := regexp_match(t.tree, '{NULLTEST :arg {OPEXPR :opno (\d+) :opfuncid \d+ :opresulttype (\d+)');
  if hit is null then
    hit := regexp_match(t.tree, '{NULLTEST :arg {(?:FUNCEXPR|AGGREF) :(?:funcid|aggfnoid) (\d+) :(?:funcresulttype|aggtype) (\d+)');
  end if;
  if hit is not null then return hit[1] || ' ' || hit[2]; end if;
  hit := regexp_match(t.tree, '{NULLTEST :arg {SCALARARRAYOPEXPR :opno (\d+)');
  if hit is not null then return hit[1]; end if;
  hit := regexp_match(t.tree, '{NULLTEST :arg {(?:CASEEXPR :casetype|ARRAYEXPR :array_typeid) (\d+)');
  if hit is not null then return hit[1]; end if;
  hit := regexp_match(t.tree, '{NULLTEST :arg {(\w+)');
  return case when hit[1] = 'BOOLEXPR' then 'or' else 'cast' end;
end $$;

-- The nodes of an expression that are casts, outermost first, with the values of their constants;
-- then the type and the modifier of the expression.
create function o.casts_in(tree text) returns text language plpgsql as $$
declare
  hit text[]; bytes int[]; found text := '';
begin
  for hit in select regexp_matches(substr(tree, strpos(tree, ':targetList')),
      '{(FUNCEXPR :funcid \d+|RELABELTYPE|COERCEVIAIO|ARRAYCOERCEEXPR|COERCETODOMAIN|CONST :consttype \d+ :consttypmod -?\d+ [^}]*)', 'g')
  loop
    if hit[1] like 'CONST%' then
      bytes := regexp_match(hit[1], ':consttype (\d+) :consttypmod (-?\d+)')::int[];
      found := found || ' const:' || bytes[1];
      if bytes[2] <> -1 then found := found || ':' || bytes[2]; end if;
      bytes := regexp_match(hit[1], ':constvalue \d+ \[ (-?\d+) (-?\d+) (-?\d+) (-?\d+)')::int[];
      if bytes is not null then
        found := found || '=' || (bytes[1] & 255) + (bytes[2] & 255) * 256 + (bytes[3] & 255) * 65536 + (bytes[4] & 127) * 16777216 - (bytes[4] & 128) * 16777216;
      end if;
    else
      found := found || ' ' || lower(replace(hit[1], ' :funcid ', ':'));
    end if;
  end loop;
  return found;
end $$;

create function o.chain(from_table text, expr text) returns text language plpgsql as $$
declare
  t record; hit text[];
begin
  t := o.tree('(' || expr || ') is null as x, ' || expr || ' as y from ' || from_table, false);
  if t.error is not null then return t.error; end if;
  t.tree := substr(t.tree, strpos(t.tree, '{NULLTEST'));
  -- The second target is the same expression: half of the nodes are what is wanted.
  hit := regexp_match(t.tree, '(.*?):nulltesttype');
  return 'ok' || o.casts_in(':targetList' || hit[1]);
end $$;

-- The types that are tried, with an expression of each.
create table o.types (ord serial, ty regtype, expr text);
insert into o.types (ty)
select unnest('{bool,int2,int4,int8,float4,float8,numeric,text,varchar,bpchar,name,"\"char\"",bytea,date,time,timetz,timestamp,timestamptz,interval,uuid,json,jsonb,oid,regclass,regtype,regproc,regprocedure,regrole,regnamespace,bool[],int2[],int4[],int8[],float8[],numeric[],text[],varchar[],bpchar[],name[],"\"char\"[]",bytea[],date[],timestamp[],timestamptz[],interval[],uuid[],oid[],json[],jsonb[],int2vector,oidvector,money,bit,varbit,inet,cidr,macaddr,point,box,xid,tid,pg_lsn,xml,tsvector,tsquery,jsonpath,int4range,numrange,int4multirange,information_schema.cardinal_number,information_schema.sql_identifier,information_schema.yes_or_no}'::regtype[]);
insert into o.types (ty, expr) values ('record', '(select row())'), ('unknown', 'null');
update o.types set expr = 'null::' || case ty when 'bpchar'::regtype then 'bpchar' when 'bit'::regtype then '"bit"' else ty::text end where expr is null;
create view o.named as
  select o.types.*, case nspname when 'pg_catalog' then '' else nspname || '.' end || typname as tyname
  from o.types join pg_type t on t.oid = ty join pg_namespace n on n.oid = typnamespace;
create view o.common as select * from o.named where ty = any ('{bool,int2,int4,int8,float4,float8,numeric,text,varchar,bpchar,"\"char\"",bytea,date,timestamp,timestamptz,interval,jsonb,oid,regclass,int4[],text[],int4range,record,unknown}'::regtype[]);
create view o.few as select * from o.named where ty = any ('{int4,int8,numeric,text,timestamp,text[],int4[],unknown}'::regtype[]);

-- One line an outcome: what it is of, and the types that give it.
create function o.fold(query text) returns setof text language plpgsql as $$
begin
  return query execute 'select what || '' : '' || outcome || '' : '' || string_agg(types, '' '' order by place) from (' || query ||
    ') x(what, place, types, outcome) where outcome <> ''42883'' group by what, outcome order by min(place)';
end $$;

\pset format unaligned
\pset tuples_only on
\pset fieldsep ' '

\o types.txt
select 'all ' || string_agg(tyname, ' ' order by ord) from o.named;
select 'common ' || string_agg(tyname, ' ' order by ord) from o.common;
select 'few ' || string_agg(tyname, ' ' order by ord) from o.few;

-- Operators, binary and prefix. Here and for functions, what is missing in the file is 42883.
\o operators.txt
select o.fold($$
  select oprname || ' ' || l.tyname, array[dense_rank() over (order by oprname collate "C"), l.ord, r.ord], r.tyname,
         o.probe(l.expr || ' operator(pg_catalog.' || oprname || ') ' || r.expr)
  from (select distinct oprname from pg_operator where oprkind = 'b') op, o.named l, o.named r $$);
select o.fold($$
  select oprname || ' -', array[dense_rank() over (order by oprname collate "C"), r.ord], r.tyname,
         o.probe('operator(pg_catalog.' || oprname || ') ' || r.expr)
  from (select distinct oprname from pg_operator where oprkind = 'l') op, o.named r $$);

\o any_operators.txt
select o.fold($$
  select oprname || ' ' || l.tyname, array[dense_rank() over (order by oprname collate "C"), l.ord, r.ord], r.tyname,
         o.probe(l.expr || ' operator(pg_catalog.' || oprname || ') any (' || r.expr || ')')
  from (values ('='), ('<>'), ('<'), ('~~'), ('||'), ('@>')) op(oprname), o.named l, o.named r
  where r.tyname like '\_%' or r.tyname in ('int2vector', 'oidvector', 'unknown', 'text') $$);

\o in_lists.txt
select o.fold($$
  select l.tyname, array[l.ord, r.ord], r.tyname, o.probe(l.expr || ' in (' || r.expr || ', ' || r.expr || ')')
  from o.named l, o.named r $$);

-- Functions of no, one, two and three arguments. A type's name can be one.
create table o.names as
  select name, min(pronargs - pronargdefaults) least, max(case when provariadic = 0 then pronargs else 100 end) most
  from (select proname::text as name, pronargs, pronargdefaults, provariadic from pg_proc where pronamespace = 'pg_catalog'::regnamespace
        union all select typname, 1, 0, 0 from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype <> 'c') x
  group by name;
\o functions_0.txt
select o.fold($$
  select name, array[dense_rank() over (order by name collate "C")], '-', o.probe('pg_catalog.' || quote_ident(name) || '()')
  from o.names $$);
\o functions_1.txt
select o.fold($$
  select name, array[dense_rank() over (order by name collate "C"), a.ord], a.tyname,
         o.probe('pg_catalog.' || quote_ident(name) || '(' || a.expr || ')')
  from o.names, o.named a where 1 between least and most $$);
\o functions_2.txt
select o.fold($$
  select name || ' ' || a.tyname, array[dense_rank() over (order by name collate "C"), a.ord, b.ord], b.tyname,
         o.probe('pg_catalog.' || quote_ident(name) || '(' || a.expr || ', ' || b.expr || ')')
  from o.names, o.common a, o.common b where 2 between least and most $$);
\o functions_3.txt
select o.fold($$
  select name || ' ' || a.tyname || ' ' || b.tyname, array[dense_rank() over (order by name collate "C"), a.ord, b.ord, c.ord], c.tyname,
         o.probe('pg_catalog.' || quote_ident(name) || '(' || a.expr || ', ' || b.expr || ', ' || c.expr || ')')
  from o.names, o.few a, o.few b, o.few c where 3 between least and most $$);

-- Common types of two (the last is ELSE) and of three.
\o case.txt
select o.fold($$
  select a.tyname, array[a.ord, b.ord], b.tyname, o.probe('case when true then ' || a.expr || ' else ' || b.expr || ' end')
  from o.named a, o.named b $$);
select o.fold($$
  select a.tyname || ' ' || b.tyname, array[a.ord, b.ord, c.ord], c.tyname,
         o.probe('case when true then ' || a.expr || ' when true then ' || b.expr || ' else ' || c.expr || ' end')
  from o.common a, o.common b, o.common c $$);

\o array.txt
select o.fold($$
  select a.tyname, array[a.ord, b.ord], b.tyname, o.probe('array[' || a.expr || ', ' || b.expr || ']')
  from o.named a, o.named b $$);

-- Casts: the nodes of an explicit one; then a for assignable, i for implicit.
create table o.empty ();
create table o.columns (rec int);
select 'alter table o.columns add c' || ord || ' ' || ty from o.types where ty <> all ('{record,unknown}'::regtype[]) \gexec
select 'create function o.implicit_' || ord || '(' || ty || ') returns int language sql as ''select 1''' from o.types where ty <> all ('{record,unknown}'::regtype[]) \gexec
create function o.attempt(statement text) returns boolean language plpgsql as $$
begin
  execute statement;
  return true;
exception when others then return false;
end $$;
\o casts.txt
select * from (
  select a.tyname, b.tyname,
         o.chain('o.columns', case when a.ty in ('record', 'unknown') then a.expr else 'c' || a.ord end || '::' || b.ty)
         || case when o.attempt('insert into o.columns(c' || b.ord || ') select ' || case when a.ty in ('record', 'unknown') then a.expr else 'c' || a.ord end || ' from o.columns where false') then ' a' else '' end
         || case when o.probe('o.implicit_' || b.ord || '(' || a.expr || ')') ~ '^\d+ ' then ' i' else '' end as outcome
  from o.named a, o.named b
  where b.ty not in ('record', 'unknown')
  order by a.ord, b.ord) x
where outcome <> '42846';

-- Types by their names in SQL: the type and its modifier, or the error.
create table o.type_names (ord serial, name text);
\o
\copy o.type_names (name) from 'type_names.in'
\o type_names.txt
create function o.type_name(name text) returns text language plpgsql as $$
declare t text; state text; message text;
begin
  execute 'create temp table probe (c ' || name || ')';
  select atttypid || ' ' || atttypmod || ' ' || format_type(atttypid, atttypmod) into t from pg_attribute where attrelid = 'pg_temp.probe'::regclass and attnum = 1;
  raise exception using errcode = 'P0R00', message = t;
exception
  when sqlstate 'P0R00' then get stacked diagnostics t = message_text; return t;
  when others then get stacked diagnostics state = returned_sqlstate, message = message_text; return state || ' ' || message;
end $$;
select name || ' : ' || o.type_name(name) from o.type_names order by ord;

-- Casts between modifiers: the nodes, explicit and assigned, and the expression's type and modifier.
\o lengths.txt
create function o.lengths(source text, target text) returns text language plpgsql as $$
declare t record; e text; a text; found text;
begin
  execute 'create temp table probe_columns (c ' || source || ', d ' || target || ')';
  e := o.chain('probe_columns', 'c::' || target);
  if e = '42846' then a := e; else
    execute 'create temp view probe as select c::' || target || ' as x from probe_columns';
    select atttypid || ' ' || atttypmod into found from pg_attribute where attrelid = 'pg_temp.probe'::regclass and attnum = 1;
    e := e || ' : ' || found;
  end if;
  begin
    execute 'create rule probe as on update to pg_temp.probe_columns do instead insert into pg_temp.probe_columns(d) values ((select c from pg_temp.probe_columns limit 1))';
    select ev_action::text into a from pg_rewrite where ev_class = 'pg_temp.probe_columns'::regclass;
    a := 'ok' || o.casts_in(':targetList' || (regexp_match(substr(a, 2), ':targetList \(\{TARGETENTRY :expr (.*?)\{SUBLINK'))[1]
      || coalesce((regexp_match(a, ':resno 1 :resname c .*?:stmt_len 0\} :location -?\d+\}(.*?):resno 2 :resname d'))[1], ''));
  exception when others then
    get stacked diagnostics a = returned_sqlstate;
  end;
  raise exception using errcode = 'P0R00', message = e || ' : ' || a;
exception
  when sqlstate 'P0R00' then get stacked diagnostics a = message_text; return a;
end $$;
create table o.sized (ord serial, name text);
insert into o.sized (name) select unnest('{varchar,varchar(3),varchar(5),bpchar,char(3),char(5),text,name,int4,int8,numeric,"numeric(5,2)","numeric(7,2)",timestamp,timestamp(3),timestamptz(3),timestamptz,date,time(2),timetz(2),interval,interval(2),interval day to second(3),bit(3),varbit(3),bit(5),varbit,varchar(3)[],varchar[],text[],"numeric(5,2)[]",int4[],information_schema.yes_or_no,information_schema.time_stamp,jsonb,float8,oid}'::text[]);
select s.name || ' -> ' || t.name || ' : ' || o.lengths(s.name, t.name) from o.sized s, o.sized t order by s.ord, t.ord;

-- What groups and sorts each type: its =, <, whether it is hashed, and its >.
\o sorting.txt
create function o.sorting(expr text) returns text language plpgsql as $$
declare t record; hit text[];
begin
  t := o.tree('1 as x from (select ' || expr || ' as y) s group by s.y', false);
  if t.error is not null then return t.error; end if;
  hit := regexp_match(t.tree, ':groupClause \(\{SORTGROUPCLAUSE :tleSortGroupRef \d+ :eqop (\d+) :sortop (\d+) :nulls_first \w+ :hashable (true|false)');
  t := o.tree('1 as x from (select ' || expr || ' as y) s order by s.y desc', false);
  if t.error is null then
    hit := hit || regexp_match(t.tree, ':sortClause \(\{SORTGROUPCLAUSE :tleSortGroupRef \d+ :eqop \d+ :sortop (\d+)');
  end if;
  return array_to_string(hit, ' ');
end $$;
select tyname, o.sorting(expr) from o.named where ty <> 'unknown'::regtype order by ord;

-- The modifier of an expression, from columns of several types.
\o modifiers.txt
create table o.modified (v3 varchar(3), v3b varchar(3), v5 varchar(5), v varchar, t text, c3 char(3), n52 numeric(5, 2), n52b numeric(5, 2), n numeric, i int, ts3 timestamp(3), a3 varchar(3)[]);
create function o.modifier(expr text) returns text language plpgsql as $$
declare found text; state text;
begin
  execute 'create temp view probe as select ' || expr || ' as x from o.modified';
  select atttypid || ' ' || atttypmod into found from pg_attribute where attrelid = 'pg_temp.probe'::regclass and attnum = 1;
  raise exception using errcode = 'P0R00', message = found;
exception
  when sqlstate 'P0R00' then get stacked diagnostics found = message_text; return found;
  when others then get stacked diagnostics state = returned_sqlstate; return state;
end $$;
select expr || ' : ' || o.modifier(expr) from unnest(array[
  'case when true then v3 else v3b end', 'case when true then v3 else v5 end', 'case when true then v3 end', 'case when true then v3 else t end', 'case when true then n52 else n52b end', 'case when true then n52 else i end',
  'coalesce(v3, v3b)', 'coalesce(v3, v5)', 'coalesce(v3, ''a'')', 'coalesce(n52, i)', 'greatest(n52, n52b)', 'least(n52, n)', 'array[v3, v3b]', 'array[v3, v5]', 'array[a3, a3]', 'nullif(v3, ''a'')',
  'v3 || v3', 'n52 + n52', 'v3::varchar', 'v3::varchar(3)', 'lower(v3)', 'ts3::timestamp', 'a3[1]', 'max(v3)', 'c3::text']) expr;

-- Whole expressions, with all that an error says.
\o expressions.txt
select expr || E'\t' || o.probe(expr, true) from (values
  ($x$1 + '{1}'::int[]$x$),
  ($x$'a'::text + 1$x$),
  ($x$1::bool = 1$x$),
  ($x$- 'a'::text$x$),
  ($x$@ true$x$),
  ($x$null + null$x$),
  ($x$- null$x$),
  ($x$~ null$x$),
  ($x$null || null$x$),
  ($x$null::record + 1$x$),
  ($x$'a'::varchar(3) = 1$x$),
  ($x$1 ~~ 2$x$),
  ($x$'1'::json = '1'::json$x$),
  ($x$array[1] = array['a'::text]$x$),
  ($x$array[1] || 'a'::text$x$),
  ($x$'a'::text || array[1]$x$),
  ($x$array[1] || array['a'::text]$x$),
  ($x$null = any (array[1])$x$),
  ($x$1 = any (1)$x$),
  ($x$1 + any (array[1])$x$),
  ($x$'a'::text = any (array[1])$x$),
  ($x$current_date + current_date$x$),
  ($x$now() + 1$x$),
  ($x$current_date + 1.5$x$),
  ($x$f()$x$),
  ($x$f(1, 'a', null::numeric(3,1))$x$),
  ($x$pg_catalog.f(1)$x$),
  ($x$lower(1)$x$),
  ($x$lower(null::int, 2)$x$),
  ($x$upper(date '2000-01-01')$x$),
  ($x$abs('a'::text)$x$),
  ($x$substr(1, 2)$x$),
  ($x$substring(1, 2)$x$),
  ($x$generate_series(1, 'a'::text)$x$),
  ($x$generate_series(null, null)$x$),
  ($x$count(1, 2)$x$),
  ($x$count()$x$),
  ($x$sum('a'::text)$x$),
  ($x$sum()$x$),
  ($x$avg(true)$x$),
  ($x$max(null::json)$x$),
  ($x$min('{}'::jsonb)$x$),
  ($x$abs(distinct 1)$x$),
  ($x$abs(1 order by 1)$x$),
  ($x$abs(*)$x$),
  ($x$lower('a') filter (where true)$x$),
  ($x$lower('a') over ()$x$),
  ($x$rank()$x$),
  ($x$rank(1)$x$),
  ($x$row_number()$x$),
  ($x$lag(1)$x$),
  ($x$percentile_cont(0.5)$x$),
  ($x$percentile_cont(0.5, 1)$x$),
  ($x$percentile_cont(0.5) within group (order by 1::text)$x$),
  ($x$percentile_cont(0.5, 1) within group (order by 1)$x$),
  ($x$percentile_disc(array[0.5]) within group (order by 1)$x$),
  ($x$mode() within group (order by 1, 2)$x$),
  ($x$mode(1) within group (order by 1)$x$),
  ($x$rank(1, 2) within group (order by 1)$x$),
  ($x$rank('a') within group (order by 1)$x$),
  ($x$rank(1::text) within group (order by 1)$x$),
  ($x$percentile_cont(0.5) within group (order by 1) over ()$x$),
  ($x$lower('a') within group (order by 1)$x$),
  ($x$max(1) within group (order by 1)$x$),
  ($x$rank() within group (order by 1) over ()$x$),
  ($x$string_agg('a')$x$),
  ($x$string_agg('a', 1)$x$),
  ($x$string_agg(1, ',')$x$),
  ($x$string_agg('a', 'b', 'c')$x$),
  ($x$string_agg('a' order by 1, 2)$x$),
  ($x$array_append(1, 1)$x$),
  ($x$array_append(array[1], 'a'::text)$x$),
  ($x$array_cat(array[1], array['a'::text])$x$),
  ($x$array_agg(null)$x$),
  ($x$array_position(array[1], 'a'::text)$x$),
  ($x$array_position(null, null)$x$),
  ($x$array_length(1, 1)$x$),
  ($x$unnest(1)$x$),
  ($x$unnest(null)$x$),
  ($x$coalesce(1, 'a'::text)$x$),
  ($x$coalesce(1, true)$x$),
  ($x$greatest(1, true)$x$),
  ($x$least(1, 'a'::text, null)$x$),
  ($x$case when true then 1 else 'a'::text end$x$),
  ($x$case when true then 'a'::text else 1 end$x$),
  ($x$case when true then current_date else now() end$x$),
  ($x$case 1 when 'a'::text then 1 end$x$),
  ($x$nullif(1, 'a'::text)$x$),
  ($x$array[1, 'a'::text]$x$),
  ($x$array[array[1], array['a'::text]]$x$),
  ($x$array[]$x$),
  ($x$array[1, array[1]]$x$),
  ($x$1 in ('a'::text, 'b'::text)$x$),
  ($x$1 in (2, 'b'::text)$x$),
  ($x$1 between 'a'::text and 2$x$),
  ($x$1::json$x$),
  ($x$1::uuid$x$),
  ($x$true::int8$x$),
  ($x$current_date::int$x$),
  ($x$now()::time::bool$x$),
  ($x$array[1]::text[]::int$x$),
  ($x$cast('a'::bytea as int)$x$),
  ($x$row(1)::int$x$),
  ($x$make_interval(days => 1, days => 2)$x$),
  ($x$make_interval(days => 1, weeks => 'a'::text)$x$),
  ($x$make_interval(nonsense => 1)$x$),
  ($x$make_interval(1, years => 2)$x$),
  ($x$jsonb_set('{}', '{a}', '1', create_if_missing => true)$x$),
  ($x$jsonb_set('{}', '{a}', create_if_missing => true)$x$),
  ($x$concat(variadic 1)$x$),
  ($x$concat(variadic array[1])$x$),
  ($x$format('a', variadic array[1])$x$),
  ($x$format()$x$),
  ($x$jsonb_build_object(variadic null)$x$),
  ($x$json_build_array(variadic 'a'::text)$x$),
  ($x$num_nonnulls(variadic 1)$x$),
  ($x$text(variadic 'a'::varchar)$x$),
  ($x$pg_typeof()$x$),
  ($x$to_char(1)$x$),
  ($x$to_char('1', '9')$x$),
  ($x$to_char(null, null)$x$),
  ($x$to_char(current_date)$x$),
  ($x$to_char(true, 'a')$x$),
  ($x$date_trunc('a', 1)$x$),
  ($x$date_trunc('day', 'x')$x$),
  ($x$age(null)$x$),
  ($x$age('2000-01-01', now())$x$),
  ($x$round(1, 'a'::text)$x$),
  ($x$round('1', 2)$x$),
  ($x$mod(1.5::float8, 2)$x$),
  ($x$power('2', '3')$x$),
  ($x$log(1, 2)$x$),
  ($x$sqrt('a'::text)$x$),
  ($x$trunc(true)$x$),
  ($x$width_bucket(1, 2)$x$),
  ($x$pg_catalog.extract('a', 1)$x$),
  ($x$md5(1)$x$),
  ($x$length(1)$x$),
  ($x$length(array[1])$x$),
  ($x$char_length(1)$x$),
  ($x$overlay('a', 'b')$x$),
  ($x$regexp_replace('a', 'b', 1)$x$),
  ($x$regexp_matches('a', 1)$x$),
  ($x$split_part('a', 'b', 'c'::text)$x$),
  ($x$to_timestamp('a')$x$),
  ($x$to_timestamp('a', 'b', 'c')$x$),
  ($x$to_date(1, 'a')$x$),
  ($x$json_build_object(1)$x$),
  ($x$row_to_json(1)$x$),
  ($x$to_json(null)$x$),
  ($x$to_jsonb(null)$x$),
  ($x$json_populate_record(null, '{}')$x$),
  ($x$int4('a'::bytea)$x$),
  ($x$int4(null::json)$x$),
  ($x$text(1)$x$),
  ($x$bool('a'::text)$x$),
  ($x$int8(true)$x$),
  ($x$date(1)$x$),
  ($x$float8(true)$x$),
  ($x$setval('a')$x$),
  ($x$nextval(1)$x$),
  ($x$currval(1.5)$x$),
  ($x$greatest(null, null)$x$),
  ($x$lower(int4range(1, 2), 1)$x$),
  ($x$lower(1.5)$x$),
  ($x$range_merge(int4range(1,2), numrange(1,2))$x$),
  ($x$int4range(1, 'a'::text)$x$),
  ($x$range_agg(1)$x$),
  ($x$enum_first(1)$x$),
  ($x$enum_range(null, null)$x$),
  ($x$array_to_string(array[1])$x$),
  ($x$array_to_string(1, ',')$x$),
  ($x$string_to_array(1, ',')$x$),
  ($x$array_fill(1, 2)$x$),
  ($x$array_remove(array[1], true)$x$),
  ($x$array_replace(array[1], 2, true)$x$),
  ($x$width_bucket(1, array['a'::text])$x$),
  ($x$cardinality(1)$x$),
  ($x$array_ndims('a')$x$),
  ($x$array_upper(null, 1)$x$),
  ($x$jsonb_array_elements(1)$x$),
  ($x$jsonb_path_query('a', 1)$x$),
  ($x$sum(distinct 1) over ()$x$),
  ($x$count(*) over ()$x$),
  ($x$count(*)$x$),
  ($x$count(distinct 1)$x$),
  ($x$count() over ()$x$),
  ($x$row_number() filter (where true) over ()$x$),
  ($x$rank() within group (order by 1)$x$),
  ($x$sum(1 order by 1) over ()$x$),
  ($x$json_agg(1 order by 2)$x$),
  ($x$string_agg(1::text, ',' order by 2)$x$),
  ($x$sum(1::int2)$x$),
  ($x$sum(1::int4)$x$),
  ($x$sum(1::int8)$x$),
  ($x$sum(1.5)$x$),
  ($x$sum(1::float4)$x$),
  ($x$avg(1)$x$),
  ($x$avg(1::float4)$x$),
  ($x$stddev(1)$x$),
  ($x$var_pop(1::float8)$x$),
  ($x$max('a')$x$),
  ($x$max('a'::varchar)$x$),
  ($x$max(current_date)$x$),
  ($x$min(array[1])$x$),
  ($x$array_agg('a'::varchar)$x$),
  ($x$array_agg(array[1])$x$),
  ($x$bool_and(true)$x$),
  ($x$percentile_cont(0.5) within group (order by 1)$x$),
  ($x$percentile_cont(array[0.5]) within group (order by 1::float4)$x$),
  ($x$percentile_disc(0.5) within group (order by 'a'::text)$x$),
  ($x$mode() within group (order by 'a'::varchar)$x$),
  ($x$dense_rank(1, 'a'::text) within group (order by 1.5, 'b'::varchar)$x$),
  ($x$1 + 1.5$x$),
  ($x$1::int2 + 1$x$),
  ($x$1::int8 * 2::int2$x$),
  ($x$1 / 2::float4$x$),
  ($x$1.5 + 1::float8$x$),
  ($x$'1' + 1$x$),
  ($x$1 || 'a'$x$),
  ($x$'a' || 'b'$x$),
  ($x$'a' || 1$x$),
  ($x$'a'::char(3) || 'b'$x$),
  ($x$array[1] || 2$x$),
  ($x$2 || array[1]$x$),
  ($x$array[1] || array[2]$x$),
  ($x$array[1] || null$x$),
  ($x$array[1] || '{2}'$x$),
  ($x$array[1] || 1.5$x$),
  ($x$'a' = 'b'$x$),
  ($x$'a'::char(2) = 'a'::text$x$),
  ($x$'a'::name = 'b'$x$),
  ($x$'a'::varchar like 'b'::char(3)$x$),
  ($x$current_date + 1$x$),
  ($x$current_date - current_date$x$),
  ($x$current_date - 1$x$),
  ($x$now() - current_date$x$),
  ($x$now() - interval '1 day'$x$),
  ($x$current_date + time '10:00'$x$),
  ($x$interval '1 day' * 2$x$),
  ($x$2 * interval '1 day'$x$),
  ($x$interval '1 day' / 2$x$),
  ($x$date '2000-01-01' = timestamp '2000-01-01'$x$),
  ($x$now() > current_date$x$),
  ($x$'{}'::jsonb -> 'a'$x$),
  ($x$'{}'::jsonb -> 1$x$),
  ($x$'{}'::jsonb ->> 'a'$x$),
  ($x$'{}'::jsonb || '{}'$x$),
  ($x$'{}'::jsonb - 'a'$x$),
  ($x$'{}'::jsonb @> '{}'$x$),
  ($x$'{}'::json -> 'a' ->> 'b'$x$),
  ($x$1 ^ 2$x$),
  ($x$1 % 2$x$),
  ($x$1 & 2$x$),
  ($x$1 << 2$x$),
  ($x$1 # 2$x$),
  ($x$'a' ~ 'b'$x$),
  ($x$1 = any ('{1,2}')$x$),
  ($x$1 = any (array[1.5])$x$),
  ($x$'a' = any (array['a'::varchar])$x$),
  ($x$'a'::varchar = any (array['a'])$x$),
  ($x$1 <> all (array[1,2])$x$),
  ($x$1 in (2, 3)$x$),
  ($x$1 in (2, 3.5)$x$),
  ($x$1 in ('2', '3')$x$),
  ($x$'a'::varchar in ('b', 'c')$x$),
  ($x$1 in (2)$x$),
  ($x$1.5 in (1, null)$x$),
  ($x$coalesce(1, 2.5)$x$),
  ($x$coalesce(null, 'a'::varchar)$x$),
  ($x$greatest(1, 2::int8)$x$),
  ($x$least(1.5, 1::float4)$x$),
  ($x$case when true then null else 1 end$x$),
  ($x$case when true then 'a' end$x$),
  ($x$nullif(1, 2.5)$x$),
  ($x$nullif('a'::varchar, 'b')$x$),
  ($x$array[1, 2.5]$x$),
  ($x$array[null, null]$x$),
  ($x$array['a'::varchar(3), 'b'::varchar(3)]$x$),
  ($x$array[array[1], array[2.5]]$x$),
  ($x$abs(-1)$x$),
  ($x$abs('1')$x$),
  ($x$round(1.5)$x$),
  ($x$round(1.5, 1)$x$),
  ($x$round(1)$x$),
  ($x$round(1::float8)$x$),
  ($x$ceil(1)$x$),
  ($x$floor(1.5)$x$),
  ($x$sqrt(2)$x$),
  ($x$sqrt(2.0)$x$),
  ($x$power(2, 3)$x$),
  ($x$power(2.0, 3)$x$),
  ($x$exp(1)$x$),
  ($x$ln(2.0)$x$),
  ($x$mod(1, 2)$x$),
  ($x$mod(1::int8, 2)$x$),
  ($x$gcd(1, 2)$x$),
  ($x$trunc(1.5, 1)$x$),
  ($x$sign(1)$x$),
  ($x$length('a')$x$),
  ($x$length('a'::char(3))$x$),
  ($x$length('a'::bytea)$x$),
  ($x$lower('a')$x$),
  ($x$upper('a'::varchar)$x$),
  ($x$substr('a', 1)$x$),
  ($x$substr('a'::bytea, 1, 2)$x$),
  ($x$left('a', 1)$x$),
  ($x$lpad('a', 1)$x$),
  ($x$repeat('a', 2)$x$),
  ($x$concat('a', 1, true)$x$),
  ($x$concat_ws(',', 'a', 1)$x$),
  ($x$format('%s', 1)$x$),
  ($x$md5('a')$x$),
  ($x$replace('a', 'b', 'c')$x$),
  ($x$split_part('a', 'b', 1)$x$),
  ($x$to_char(1, 'a')$x$),
  ($x$to_char(1.5, 'a')$x$),
  ($x$to_char(now(), 'a')$x$),
  ($x$to_char(interval '1 day', 'a')$x$),
  ($x$to_date('a', 'b')$x$),
  ($x$to_timestamp(1)$x$),
  ($x$to_number('1', '9')$x$),
  ($x$date_trunc('day', now())$x$),
  ($x$date_trunc('day', current_date)$x$),
  ($x$date_trunc('day', interval '1 day')$x$),
  ($x$date_part('day', current_date)$x$),
  ($x$age(now())$x$),
  ($x$age(now(), current_date)$x$),
  ($x$make_date(1, 2, 3)$x$),
  ($x$make_interval(days => 1)$x$),
  ($x$make_interval(1, 2, secs => 1.5)$x$),
  ($x$now()$x$),
  ($x$generate_series(1, 2)$x$),
  ($x$generate_series(1, 2::int8)$x$),
  ($x$generate_series(1, 2.5)$x$),
  ($x$generate_series(current_date, now(), '1 day')$x$),
  ($x$unnest(array[1])$x$),
  ($x$array_length(array[1], 1)$x$),
  ($x$array_append(array[1], 2)$x$),
  ($x$array_append(array[1], 2.5)$x$),
  ($x$array_append(null, 1)$x$),
  ($x$array_position(array['a'::varchar], 'b')$x$),
  ($x$array_to_string(array[1], ',')$x$),
  ($x$cardinality(array[1])$x$),
  ($x$array_remove(array[1], null)$x$),
  ($x$json_build_object('a', 1)$x$),
  ($x$jsonb_build_array(1, 'a', null)$x$),
  ($x$to_json(1)$x$),
  ($x$to_jsonb('a'::text)$x$),
  ($x$row_to_json(row(1))$x$),
  ($x$jsonb_set('{}', '{a}', '1')$x$),
  ($x$jsonb_array_elements('[]')$x$),
  ($x$json_each('{}')$x$),
  ($x$jsonb_path_query('{}', '$')$x$),
  ($x$int4(1.5)$x$),
  ($x$int4('1')$x$),
  ($x$int8(1)$x$),
  ($x$text('a')$x$),
  ($x$text(1.5)$x$),
  ($x$bool(1)$x$),
  ($x$date('2000-01-01')$x$),
  ($x$date(now())$x$),
  ($x$float8(1)$x$),
  ($x$int4(true)$x$),
  ($x$name('a'::text)$x$),
  ($x$pg_typeof(1)$x$),
  ($x$pg_typeof(null)$x$),
  ($x$num_nulls(1, null)$x$),
  ($x$lag(1) over ()$x$),
  ($x$lag(1, 2, 1.5) over ()$x$),
  ($x$first_value('a') over ()$x$),
  ($x$ntile(4) over ()$x$),
  ($x$rank() over ()$x$),
  ($x$sum(1) over ()$x$),
  ($x$nth_value(1, 2) over ()$x$),
  ($x$count(1) filter (where true)$x$),
  ($x$encode('a', 'hex')$x$),
  ($x$decode('a', 'hex')$x$),
  ($x$sha256('a')$x$),
  ($x$gen_random_uuid()$x$),
  ($x$random()$x$),
  ($x$setseed(1)$x$),
  ($x$current_setting('a')$x$),
  ($x$has_table_privilege('a', 'b')$x$),
  ($x$pg_table_size('a')$x$),
  ($x$nextval('a')$x$),
  ($x$regexp_replace('a', 'b', 'c')$x$),
  ($x$regexp_match('a', 'b')$x$),
  ($x$string_to_array('a', ',')$x$),
  ($x$translate('a', 'b', 'c')$x$),
  ($x$ascii('a')$x$),
  ($x$chr(1)$x$),
  ($x$btrim('a')$x$),
  ($x$bit_length('a')$x$),
  ($x$octet_length('a'::char(3))$x$),
  ($x$width_bucket(1, 0, 10, 5)$x$),
  ($x$scale(1.5)$x$),
  ($x$trim_scale(1.5)$x$),
  ($x$isfinite(current_date)$x$),
  ($x$justify_days('1 day')$x$),
  ($x$extract_nothing(1)$x$)) x(expr);
