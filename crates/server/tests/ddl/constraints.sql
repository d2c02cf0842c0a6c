-- Constraints: made, checked, renamed, dropped.
CREATE TABLE a (id int PRIMARY KEY, n int CHECK (n > 0), s text CONSTRAINT short CHECK (length(s) < 10), CHECK (n < id * 100), CONSTRAINT both_set CHECK (n IS NOT NULL OR s IS NOT NULL));
SELECT conname, contype, conkey, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'a'::regclass ORDER BY conname;
> a_check|c|{2,1}|CHECK ((n < (id * 100)))
> a_n_check|c|{2}|CHECK ((n > 0))
> a_pkey|p|{1}|PRIMARY KEY (id)
> both_set|c|{2,3}|CHECK (((n IS NOT NULL) OR (s IS NOT NULL)))
> short|c|{3}|CHECK ((length(s) < 10))
INSERT INTO a VALUES (1, 5, 'five');
INSERT INTO a VALUES (2, 0, 'zero');
> ERROR 23514 new row for relation "a" violates check constraint "a_n_check"
> DETAIL Failing row contains (2, 0, zero).
INSERT INTO a VALUES (2, NULL, NULL);
> ERROR 23514 new row for relation "a" violates check constraint "both_set"
> DETAIL Failing row contains (2, null, null).
INSERT INTO a VALUES (2, NULL, 'fine');
INSERT INTO a VALUES (3, 1, 'much too long it is');
> ERROR 23514 new row for relation "a" violates check constraint "short"
> DETAIL Failing row contains (3, 1, much too long it is).
INSERT INTO a VALUES (3, 301, 'x');
> ERROR 23514 new row for relation "a" violates check constraint "a_check"
> DETAIL Failing row contains (3, 301, x).
INSERT INTO a VALUES (NULL, 0, 'x');
> ERROR 23502 null value in column "id" of relation "a" violates not-null constraint
> DETAIL Failing row contains (null, 0, x).
INSERT INTO a SELECT g, g - 12, 'x' FROM generate_series(10, 20) AS x(g);
> ERROR 23514 new row for relation "a" violates check constraint "a_n_check"
> DETAIL Failing row contains (10, -2, x).
INSERT INTO a VALUES (1, 0, 'x') ON CONFLICT DO NOTHING;
> ERROR 23514 new row for relation "a" violates check constraint "a_n_check"
> DETAIL Failing row contains (1, 0, x).
INSERT INTO a VALUES (1, 3, 'x') ON CONFLICT (id) DO UPDATE SET n = -1;
> ERROR 23514 new row for relation "a" violates check constraint "a_n_check"
> DETAIL Failing row contains (1, -1, five).
UPDATE a SET n = -1 WHERE id = 1;
> ERROR 23514 new row for relation "a" violates check constraint "a_n_check"
> DETAIL Failing row contains (1, -1, five).
UPDATE a SET n = n - 3;
UPDATE a SET s = s || '+' WHERE id = 1;
SELECT id, n, s FROM a ORDER BY id;
> 1|2|five+
> 2|NULL|fine
ALTER TABLE a RENAME COLUMN n TO "New n";
UPDATE a SET "New n" = -1 WHERE id = 1;
> ERROR 23514 new row for relation "a" violates check constraint "a_n_check"
> DETAIL Failing row contains (1, -1, five+).
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'a_n_check';
> CHECK (("New n" > 0))
ALTER TABLE a RENAME COLUMN "New n" TO n;
ALTER TABLE a RENAME TO b;
UPDATE b SET n = -1 WHERE id = 1;
> ERROR 23514 new row for relation "b" violates check constraint "a_n_check"
> DETAIL Failing row contains (1, -1, five+).
ALTER TABLE b RENAME TO a;
ALTER TABLE a ADD CONSTRAINT big CHECK (n > 100);
> ERROR 23514 check constraint "big" of relation "a" is violated by some row
ALTER TABLE a ADD CONSTRAINT short CHECK (n > 1);
> ERROR 42710 constraint "short" for relation "a" already exists
ALTER TABLE a ADD CHECK (n);
> ERROR 42804 argument of CHECK must be type boolean, not type integer
ALTER TABLE a ADD CHECK (nosuch > 1);
> ERROR 42703 column "nosuch" does not exist
ALTER TABLE a ADD CHECK (n > (SELECT 1));
> ERROR 0A000 cannot use subquery in check constraint
ALTER TABLE a ADD CHECK (sum(n) > 1);
> ERROR 42803 aggregate functions are not allowed in check constraints
ALTER TABLE a ADD CONSTRAINT big CHECK (n > 100) NOT VALID;
SELECT convalidated, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'big';
> f|CHECK ((n > 100)) NOT VALID
INSERT INTO a VALUES (9, 9, 'x');
> ERROR 23514 new row for relation "a" violates check constraint "big"
> DETAIL Failing row contains (9, 9, x).
ALTER TABLE a VALIDATE CONSTRAINT big;
> ERROR 23514 check constraint "big" of relation "a" is violated by some row
ALTER TABLE a VALIDATE CONSTRAINT nosuch;
> ERROR 42704 constraint "nosuch" of relation "a" does not exist
DELETE FROM a WHERE n <= 100;
ALTER TABLE a VALIDATE CONSTRAINT big;
SELECT convalidated FROM pg_constraint WHERE conname = 'big';
> t
ALTER TABLE a RENAME CONSTRAINT big TO larger;
ALTER TABLE a RENAME CONSTRAINT big TO larger;
> ERROR 42704 constraint "big" for table "a" does not exist
ALTER TABLE a RENAME CONSTRAINT larger TO short;
> ERROR 42710 constraint "short" for relation "a" already exists
INSERT INTO a VALUES (9, 9, 'x');
> ERROR 23514 new row for relation "a" violates check constraint "larger"
> DETAIL Failing row contains (9, 9, x).
ALTER TABLE a DROP CONSTRAINT larger;
ALTER TABLE a DROP CONSTRAINT larger;
> ERROR 42704 constraint "larger" of relation "a" does not exist
ALTER TABLE a DROP CONSTRAINT IF EXISTS larger;
INSERT INTO a VALUES (9, 9, 'x');
-- A constraint goes with its column.
ALTER TABLE a DROP COLUMN n;
SELECT conname FROM pg_constraint WHERE conrelid = 'a'::regclass ORDER BY 1;
> a_pkey
> short
-- Types under conditions.
CREATE TABLE ty (x int CHECK (x > 5));
INSERT INTO ty VALUES (6), (7);
ALTER TABLE ty ALTER x TYPE bigint USING x - 3;
> ERROR 23514 check constraint "ty_x_check" of relation "ty" is violated by some row
ALTER TABLE ty ALTER x TYPE bigint;
INSERT INTO ty VALUES (1);
> ERROR 23514 new row for relation "ty" violates check constraint "ty_x_check"
> DETAIL Failing row contains (1).
-- UNIQUE and PRIMARY KEY.
CREATE TABLE k (a int, b int, c text);
INSERT INTO k VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 1, NULL), (2, 1, NULL);
ALTER TABLE k ADD CONSTRAINT k_ab UNIQUE (a, b);
> ERROR 23505 could not create unique index "k_ab"
> DETAIL Key (a, b)=(2, 1) is duplicated.
ALTER TABLE k ADD PRIMARY KEY (c);
> ERROR 23502 column "c" of relation "k" contains null values
ALTER TABLE k ADD UNIQUE (c);
ALTER TABLE k ADD CONSTRAINT k_c_key UNIQUE (c);
> ERROR 42P07 relation "k_c_key" already exists
INSERT INTO k VALUES (9, 9, 'x');
> ERROR 23505 duplicate key value violates unique constraint "k_c_key"
> DETAIL Key (c)=(x) already exists.
ALTER TABLE k RENAME CONSTRAINT k_c_key TO kc;
INSERT INTO k VALUES (9, 9, 'x');
> ERROR 23505 duplicate key value violates unique constraint "kc"
> DETAIL Key (c)=(x) already exists.
DROP INDEX kc;
> ERROR 2BP01 cannot drop index kc because constraint kc on table k requires it
> HINT You can drop constraint kc on table k instead.
ALTER TABLE k DROP CONSTRAINT kc;
INSERT INTO k VALUES (9, 9, 'x');
DELETE FROM k WHERE a <> 1;
ALTER TABLE k ADD PRIMARY KEY (b);
INSERT INTO k VALUES (1, 2, 'twice');
> ERROR 23505 duplicate key value violates unique constraint "k_pkey"
> DETAIL Key (b)=(2) already exists.
INSERT INTO k (a) VALUES (1);
> ERROR 23502 null value in column "b" of relation "k" violates not-null constraint
> DETAIL Failing row contains (1, null, null).
ALTER TABLE k ADD PRIMARY KEY (a);
> ERROR 42P16 multiple primary keys for table "k" are not allowed
DROP INDEX k_pkey;
> ERROR 2BP01 cannot drop index k_pkey because constraint k_pkey on table k requires it
> HINT You can drop constraint k_pkey on table k instead.
ALTER INDEX k_pkey RENAME TO the_key;
INSERT INTO k VALUES (1, 2, 'twice');
> ERROR 23505 duplicate key value violates unique constraint "the_key"
> DETAIL Key (b)=(2) already exists.
ALTER TABLE k ALTER b DROP NOT NULL;
> ERROR 42P16 column "b" is in a primary key
ALTER TABLE k DROP CONSTRAINT the_key;
INSERT INTO k VALUES (1, 2, 'twice');
SELECT a, b, c FROM k ORDER BY a, b, c;
> 1|1|x
> 1|2|twice
> 1|2|y
INSERT INTO k (a) VALUES (1);
> ERROR 23502 null value in column "b" of relation "k" violates not-null constraint
> DETAIL Failing row contains (1, null, null).
ALTER TABLE k ALTER b DROP NOT NULL;
INSERT INTO k (a) VALUES (1);
CREATE INDEX k_i ON k (a);
ALTER INDEX k_i RENAME TO k;
> ERROR 42P07 relation "k" already exists
ALTER INDEX k_i RENAME TO k_j;
ALTER INDEX k_i RENAME TO k_j;
> ERROR 42P01 relation "k_i" does not exist
ALTER INDEX nosuch RENAME TO k_j;
> ERROR 42P01 relation "nosuch" does not exist
DROP TABLE k_j;
> ERROR 42809 "k_j" is not a table
> HINT Use DROP INDEX to remove an index.
DROP INDEX k;
> ERROR 42809 "k" is not an index
> HINT Use DROP TABLE to remove a table.
DROP INDEX k_j;
DROP INDEX k_j;
> ERROR 42704 index "k_j" does not exist
-- Rolled back.
BEGIN;
ALTER TABLE k ADD CONSTRAINT pos CHECK (a > 0), ADD CONSTRAINT u UNIQUE (c);
INSERT INTO k VALUES (-1, 0, NULL);
> ERROR 23514 new row for relation "k" violates check constraint "pos"
> DETAIL Failing row contains (-1, 0, null).
ROLLBACK;
INSERT INTO k VALUES (-1, 0, 'y');
SELECT count(*) FROM k WHERE c = 'y';
> 2
