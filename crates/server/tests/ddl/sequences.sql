-- What shows, changes and drops sequences.

create sequence s;
select * from s;
> 1|0|f
select last_value, log_cnt, is_called from public.s;
> 1|0|f
select nextval('s');
> 1
select * from s;
> 1|32|t
select s.last_value from s where is_called;
> 1
select pg_sequence_last_value('s'::regclass);
> 1
create sequence u;
select pg_sequence_last_value('u'::regclass);
> NULL
select schemaname, sequencename, sequenceowner, data_type, start_value, min_value, max_value, increment_by, cycle, cache_size, last_value from pg_sequences order by 2;
> public|s|postgres|bigint|1|1|9223372036854775807|1|f|1|1
> public|u|postgres|bigint|1|1|9223372036854775807|1|f|1|NULL
select seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle from pg_sequence order by 1;
> s|bigint|1|1|9223372036854775807|1|1|f
> u|bigint|1|1|9223372036854775807|1|1|f
alter sequence s increment by 10;
select nextval('s');
> 11
select * from s;
> 11|32|t
alter sequence s increment 2 minvalue 5 maxvalue 100 start 6 cycle;
select * from pg_sequences where sequencename = 's';
> public|s|postgres|bigint|6|5|100|2|t|1|11
alter sequence s minvalue 50;
> ERROR 22023 START value (6) cannot be less than MINVALUE (50)
alter sequence s maxvalue 10;
> ERROR 22023 RESTART value (11) cannot be greater than MAXVALUE (10)
alter sequence s restart;
select nextval('s'), nextval('s');
> 6|8
select * from s;
> 8|31|t
alter sequence s restart with 99;
select nextval('s'), nextval('s');
> 99|5
alter sequence s restart 200;
> ERROR 22023 RESTART value (200) cannot be greater than MAXVALUE (100)
alter sequence s restart with 4;
> ERROR 22023 RESTART value (4) cannot be less than MINVALUE (5)
alter sequence s start 4;
> ERROR 22023 START value (4) cannot be less than MINVALUE (5)
alter sequence s start 101;
> ERROR 22023 START value (101) cannot be greater than MAXVALUE (100)
alter sequence s increment 0;
> ERROR 22023 INCREMENT must not be zero
alter sequence s cache 0;
> ERROR 22023 CACHE (0) must be greater than zero
alter sequence s as smallint;
alter sequence s as smallint maxvalue 40000;
> ERROR 22023 MAXVALUE (40000) is out of range for sequence data type smallint
alter sequence s no maxvalue;
select data_type, max_value from pg_sequences where sequencename = 's';
> smallint|32767
alter sequence s as bigint;
select data_type, min_value, max_value from pg_sequences where sequencename = 's';
> bigint|5|9223372036854775807
alter sequence s as text;
> ERROR 22023 sequence type must be smallint, integer, or bigint
alter sequence s as nosuch;
> ERROR 42704 type "nosuch" does not exist
alter sequence s no minvalue no cycle;
alter sequence s start 1 start 2;
> ERROR 42601 conflicting or redundant options
alter sequence nosuch restart;
> ERROR 42P01 relation "nosuch" does not exist
alter sequence if exists nosuch restart;
alter sequence s foo;
> ERROR 42601 syntax error at or near "foo"
create table t (id serial primary key, b int);
alter sequence t restart;
> ERROR 42809 "t" is not a sequence
alter sequence t_id_seq restart 10;
insert into t (b) values (1) returning id;
> 10
alter sequence t_id_seq rename to tt;
insert into t (b) values (1) returning id;
> 11
select column_default from information_schema.columns where table_name = 't' and column_name = 'id';
> nextval('tt'::regclass)
select pg_get_serial_sequence('t', 'id');
> public.tt
alter sequence tt rename to s;
> ERROR 42P07 relation "s" already exists
alter sequence nosuch rename to s;
> ERROR 42P01 relation "nosuch" does not exist
alter sequence if exists nosuch rename to s;
alter sequence tt rename to "Odd 'name";
insert into t (b) values (1) returning id;
> 12
select column_default from information_schema.columns where table_name = 't' and column_name = 'id';
> nextval('"Odd ''name"'::regclass)
alter sequence "Odd 'name" rename to t_id_seq;
begin;
alter sequence t_id_seq rename to x;
alter sequence x restart 1000;
select nextval('x');
> 1000
rollback;
select nextval('t_id_seq');
> 13
begin;
alter sequence t_id_seq increment 100;
select nextval('t_id_seq');
> 113
commit;
select nextval('t_id_seq');
> 213
-- owned by
alter sequence s owned by t.b;
select pg_get_serial_sequence('t', 'b');
> public.s
alter sequence s owned by t.nosuch;
> ERROR 42703 column "nosuch" of relation "t" does not exist
alter sequence s owned by nosuch.b;
> ERROR 42P01 relation "nosuch" does not exist
alter sequence s owned by b;
> ERROR 42601 invalid OWNED BY option
> HINT Specify OWNED BY table.column or OWNED BY NONE.
alter sequence s owned by none;
select pg_get_serial_sequence('t', 'b');
> NULL
alter sequence s owned by t.b;
alter table t drop column b;
select to_regclass('s');
> NULL
create sequence s owned by t.id;
select d.deptype, d.objid::regclass, d.refobjid::regclass, d.refobjsubid from pg_depend d where d.classid='pg_class'::regclass and d.refclassid='pg_class'::regclass and d.refobjid='t'::regclass order by 2, 1;
> a|t_id_seq|t|1
> a|s|t|1
select d.deptype, d.refobjid::regclass from pg_depend d join pg_attrdef a on a.oid = d.objid where d.classid='pg_attrdef'::regclass order by 1;
> a|t
> n|t_id_seq
select attname, atttypid::regtype, attnum, attnotnull from pg_attribute where attrelid='u'::regclass and attnum > 0 order by attnum;
> last_value|bigint|1|t
> log_cnt|bigint|2|t
> is_called|boolean|3|t
select sequence_schema, sequence_name, data_type, numeric_precision, numeric_precision_radix, numeric_scale, start_value, minimum_value, maximum_value, increment, cycle_option from information_schema.sequences order by sequence_name;
> public|s|bigint|64|2|0|1|1|9223372036854775807|1|NO
> public|t_id_seq|integer|32|2|0|1|1|2147483647|100|NO
> public|u|bigint|64|2|0|1|1|9223372036854775807|1|NO
drop sequence t_id_seq;
> ERROR 2BP01 cannot drop sequence t_id_seq because other objects depend on it
> DETAIL default value for column id of table t depends on sequence t_id_seq
> HINT Use DROP ... CASCADE to drop the dependent objects too.
drop sequence t_id_seq restrict;
> ERROR 2BP01 cannot drop sequence t_id_seq because other objects depend on it
> DETAIL default value for column id of table t depends on sequence t_id_seq
> HINT Use DROP ... CASCADE to drop the dependent objects too.
create table v (a int default nextval('t_id_seq'), b int default nextval('t_id_seq'::regclass) + 1);
drop sequence t_id_seq;
> ERROR 2BP01 cannot drop sequence t_id_seq because other objects depend on it
> DETAIL default value for column id of table t depends on sequence t_id_seq; default value for column a of table v depends on sequence t_id_seq; default value for column b of table v depends on sequence t_id_seq
> HINT Use DROP ... CASCADE to drop the dependent objects too.
drop sequence t_id_seq, u;
> ERROR 2BP01 cannot drop desired object(s) because other objects depend on them
> DETAIL default value for column id of table t depends on sequence t_id_seq; default value for column a of table v depends on sequence t_id_seq; default value for column b of table v depends on sequence t_id_seq
> HINT Use DROP ... CASCADE to drop the dependent objects too.
drop table t;
> ERROR 2BP01 cannot drop table t because other objects depend on it
> DETAIL default value for column a of table v depends on sequence t_id_seq; default value for column b of table v depends on sequence t_id_seq
> HINT Use DROP ... CASCADE to drop the dependent objects too.
alter table t drop column id;
> ERROR 2BP01 cannot drop column id of table t because other objects depend on it
> DETAIL default value for column a of table v depends on sequence t_id_seq; default value for column b of table v depends on sequence t_id_seq
> HINT Use DROP ... CASCADE to drop the dependent objects too.
begin;
drop table t cascade;
select column_name, column_default from information_schema.columns where table_name = 'v';
> a|NULL
> b|NULL
rollback;
rollback;
begin;
drop table t, v;
rollback;
begin;
alter table t drop column id cascade;
rollback;
drop sequence t_id_seq cascade;
drop sequence nosuch;
> ERROR 42P01 sequence "nosuch" does not exist
drop sequence if exists nosuch;
drop sequence t;
> ERROR 42809 "t" is not a sequence
> HINT Use DROP TABLE to remove a table.
drop sequence u, u;
drop table t, v;
select to_regclass('s');
> NULL
create sequence c;
insert into c values (1);
> ERROR 42809 cannot change sequence "c"
update c set last_value = 3;
> ERROR 42809 cannot change sequence "c"
delete from c;
> ERROR 42809 cannot change sequence "c"
create table defs (a int default nextval('c'), b int default nextval('public.c'));
select column_default from information_schema.columns where table_name = 'defs' order by ordinal_position;
> nextval('c'::regclass)
> nextval('c'::regclass)
drop table defs;
drop sequence c;
create sequence big as smallint;
select setval('big', 32767);
> 32767
select nextval('big');
> ERROR 2200H nextval: reached maximum value of sequence "big" (32767)
create sequence x1 increment -1 minvalue -3 maxvalue 10 start 5;
select nextval('x1'), * from x1;
> 5|5|0|f
alter sequence x1 maxvalue 3;
> ERROR 22023 START value (5) cannot be greater than MAXVALUE (3)
alter sequence x1 maxvalue 3 restart;
> ERROR 22023 START value (5) cannot be greater than MAXVALUE (3)
alter sequence x1 maxvalue 3 start 3 restart;
select nextval('x1');
> 3
drop sequence x1, big;

-- In FROM, where it is no table, and restarted.
create sequence q owned by nosuch.a;
> ERROR 42P01 relation "nosuch" does not exist
create sequence public.q start 3;
select nextval('public.q');
> 3
alter sequence public.q restart;
alter sequence "Q" restart;
> ERROR 42P01 relation "Q" does not exist
select * from q, (select 1) x;
> 3|0|f|1
select q.* from public.q;
> 3|0|f
select max(last_value) from q where not is_called;
> 3
truncate q;
> ERROR 42809 "q" is not a table
drop table q;
> ERROR 42809 "q" is not a table
> HINT Use DROP SEQUENCE to remove a sequence.
drop view q;
> ERROR 42809 "q" is not a view
> HINT Use DROP SEQUENCE to remove a sequence.
drop index q;
> ERROR 42809 "q" is not an index
> HINT Use DROP SEQUENCE to remove a sequence.
create index on q (last_value);
> ERROR 42809 cannot create index on relation "q"
> DETAIL This operation is not supported for sequences.
copy q to stdout;
> ERROR 42809 cannot copy from sequence "q"
create table q (a int);
> ERROR 42P07 relation "q" already exists
select relname, relkind, relnatts from pg_class where relname = 'q';
> q|S|3
select 'q'::regclass::oid = (select seqrelid from pg_sequence);
> t
select has_sequence_privilege('q', 'usage');
> t
select table_name, table_type from information_schema.tables where table_name = 'q';
select currval('q');
> 3
select setval('q', 20), lastval();
> 20|20
alter sequence q restart with 5;
select currval('q'), lastval();
> 20|20
drop sequence q restrict;
select lastval();
> ERROR 55000 lastval is not yet defined in this session
select * from q;
> ERROR 42P01 relation "q" does not exist
create sequence q;
begin;
select nextval('q');
> 1
alter sequence q restart with 50;
select nextval('q');
> 50
rollback;
select nextval('q');
> 2
create table du (a int default nextval('q'), b int default currval('q'), c text default 'nextval(''q'')');
drop sequence q;
> ERROR 2BP01 cannot drop sequence q because other objects depend on it
> DETAIL default value for column a of table du depends on sequence q; default value for column b of table du depends on sequence q
> HINT Use DROP ... CASCADE to drop the dependent objects too.
drop sequence q cascade;
drop table du;
