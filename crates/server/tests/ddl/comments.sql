-- Comments on constraints and sequences.

create table p (a int primary key, b int unique, c int constraint pos check (c > 0), d int constraint pd references p);
comment on constraint p_pkey on p is 'the key';
comment on constraint p_b_key on public.p is 'unique b';
comment on constraint pos on p is E'it''s positive';
comment on constraint pd on p is 'refers';
comment on index p_pkey is 'index of the key';
select conname, obj_description(oid, 'pg_constraint'), obj_description(oid, 'pg_class') from pg_constraint where conrelid = 'p'::regclass order by 1;
> p_b_key|unique b|NULL
> p_pkey|the key|NULL
> pd|refers|NULL
> pos|it's positive|NULL
select objsubid, classoid::regclass, description from pg_description where classoid = 'pg_constraint'::regclass order by 3;
> 0|pg_constraint|it's positive
> 0|pg_constraint|refers
> 0|pg_constraint|the key
> 0|pg_constraint|unique b
select obj_description('p_pkey'::regclass, 'pg_class'), obj_description('p_pkey'::regclass, 'pg_constraint');
> index of the key|NULL

comment on constraint nosuch on p is 'x';
> ERROR 42704 constraint "nosuch" for table "p" does not exist
comment on constraint nosuch on nosuch is 'x';
> ERROR 42P01 relation "nosuch" does not exist
comment on constraint pos on p is null;
comment on constraint p_b_key on p is '';
select conname, obj_description(oid, 'pg_constraint') from pg_constraint where conrelid = 'p'::regclass order by 1;
> p_b_key|NULL
> p_pkey|the key
> pd|refers
> pos|NULL

begin;
comment on constraint pos on p is 'gone';
rollback;
select obj_description(oid, 'pg_constraint') from pg_constraint where conname = 'pos';
> NULL

-- A comment stays with its constraint, under another name, and goes with it.
alter table p rename constraint pd to pd2;
alter table p add column e text;
select conname, obj_description(oid, 'pg_constraint') from pg_constraint where conrelid = 'p'::regclass order by 1;
> p_b_key|NULL
> p_pkey|the key
> pd2|refers
> pos|NULL
comment on constraint pos on p is 'positive';
alter table p alter column c type bigint;
alter table p drop constraint p_pkey cascade;
alter table p add primary key (a);
select conname, obj_description(oid, 'pg_constraint') from pg_constraint where conrelid = 'p'::regclass order by 1;
> p_b_key|NULL
> p_pkey|NULL
> pos|positive
begin;
comment on constraint p_pkey on p is 'again';
alter table p drop constraint p_pkey;
alter table p add primary key (a);
select obj_description(oid, 'pg_constraint') from pg_constraint where conname = 'p_pkey';
> NULL
commit;

-- Of sequences.
comment on sequence nosuch is 'x';
> ERROR 42P01 relation "nosuch" does not exist
comment on sequence p is 'x';
> ERROR 42809 "p" is not a sequence
create sequence c;
comment on sequence c is 'a sequence';
select obj_description('c'::regclass), obj_description('c'::regclass, 'pg_class');
> a sequence|a sequence
begin;
comment on sequence c is 'another';
rollback;
select obj_description('c'::regclass);
> a sequence
alter sequence c rename to cc;
alter sequence cc increment 3;
select obj_description('cc'::regclass);
> a sequence
comment on sequence cc is null;
select obj_description('cc'::regclass);
> NULL
