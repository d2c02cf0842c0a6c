-- ALTER COLUMN TYPE: rewriting, definition only, refused. Answers are PostgreSQL's.
CREATE TABLE a (id int PRIMARY KEY, n int NOT NULL DEFAULT 7, s text, v varchar(5), d date, ts timestamp);
CREATE INDEX a_n ON a (n);
CREATE INDEX a_s ON a (s, id);
INSERT INTO a SELECT g, g * 10, g::text, 'v' || g, date '2024-01-01' + g::int, timestamp '2024-01-01 12:00:00' FROM generate_series(1, 2000) AS x(g);
-- No cast of its own accord.
ALTER TABLE a ALTER COLUMN s TYPE int;
> ERROR 42804 column "s" cannot be cast automatically to type integer
> HINT You might need to specify "USING s::integer".
ALTER TABLE a ALTER COLUMN s TYPE boolean;
> ERROR 42804 column "s" cannot be cast automatically to type boolean
> HINT You might need to specify "USING s::boolean".
ALTER TABLE a ALTER COLUMN n TYPE date;
> ERROR 42804 column "n" cannot be cast automatically to type date
> HINT You might need to specify "USING n::date".
ALTER TABLE a ALTER s TYPE int USING d;
> ERROR 42804 result of USING clause for column "s" cannot be cast automatically to type integer
> HINT You might need to add an explicit cast.
ALTER TABLE a ALTER s TYPE int USING n > 3;
> ERROR 42804 result of USING clause for column "s" cannot be cast automatically to type integer
> HINT You might need to add an explicit cast.
ALTER TABLE a ALTER nosuch TYPE int;
> ERROR 42703 column "nosuch" of relation "a" does not exist
-- Values that do not fit: the table is as it was.
ALTER TABLE a ALTER n TYPE smallint USING n * 10000;
> ERROR 22003 smallint out of range
ALTER TABLE a ALTER s TYPE int USING ('x' || s)::int;
> ERROR 22P02 invalid input syntax for type integer: "x1"
ALTER TABLE a ALTER v TYPE varchar(3);
> ERROR 22001 value too long for type character varying(3)
ALTER TABLE a ALTER n TYPE int USING NULL;
> ERROR 23502 column "n" of relation "a" contains null values
SELECT count(*), min(n), max(n), min(s), max(v) FROM a;
> 2000|10|20000|1|v999
SELECT id, n, s, v, d, ts FROM a WHERE n = 500;
> 50|500|50|v50|2024-02-20|2024-01-01 12:00:00
-- And those that do.
ALTER TABLE a ALTER COLUMN s TYPE int USING s::int;
SELECT id, s + 1 FROM a WHERE s = 1234;
> 1234|1235
ALTER TABLE a ALTER COLUMN n SET DATA TYPE bigint;
SELECT id, n FROM a WHERE n = 1230 OR n = 20000 ORDER BY id;
> 123|1230
> 2000|20000
ALTER TABLE a ALTER v TYPE varchar(9);
ALTER TABLE a ALTER v TYPE text;
INSERT INTO a (id, v) VALUES (5000, 'a long text it is');
SELECT id, n, s, v, d FROM a WHERE id >= 2000 ORDER BY id;
> 2000|20000|2000|v2000|2029-06-23
> 5000|7|NULL|a long text it is|NULL
ALTER TABLE a ALTER d TYPE timestamp, ALTER ts TYPE date;
SELECT d, ts FROM a WHERE id = 3;
> 2024-01-04 00:00:00|2024-01-01
ALTER TABLE a ALTER n TYPE numeric(12, 2) USING n / 4.0;
SELECT n FROM a WHERE id = 3;
> 7.50
ALTER TABLE a ALTER n TYPE numeric(14, 2);
SELECT sum(n) FROM a;
> 5002501.75
-- The key itself.
ALTER TABLE a ALTER id TYPE bigint;
SELECT id FROM a WHERE id = 77;
> 77
ALTER TABLE a ALTER id TYPE text;
SELECT id, s FROM a WHERE id = '77';
> 77|77
ALTER TABLE a ALTER id TYPE int USING 5;
> ERROR 23505 could not create unique index "a_pkey"
> DETAIL Key (id)=(5) is duplicated.
SELECT count(*) FROM a;
> 2001
INSERT INTO a (id) VALUES ('77');
> ERROR 23505 duplicate key value violates unique constraint "a_pkey"
> DETAIL Key (id)=(77) already exists.
-- Unique indexes are built again.
CREATE TABLE u (x numeric(10, 2), y text UNIQUE);
INSERT INTO u VALUES (1.25, 'a'), (1.30, 'b');
CREATE UNIQUE INDEX u_x ON u (x);
ALTER TABLE u ALTER x TYPE numeric(10, 1);
> ERROR 23505 could not create unique index "u_x"
> DETAIL Key (x)=(1.3) is duplicated.
ALTER TABLE u ALTER x TYPE int;
> ERROR 23505 could not create unique index "u_x"
> DETAIL Key (x)=(1) is duplicated.
SELECT x, y FROM u ORDER BY y;
> 1.25|a
> 1.30|b
ALTER TABLE u ALTER x TYPE double precision;
SELECT x, y FROM u ORDER BY y;
> 1.25|a
> 1.3|b
INSERT INTO u VALUES (1.25, 'c');
> ERROR 23505 duplicate key value violates unique constraint "u_x"
> DETAIL Key (x)=(1.25) already exists.
-- Defaults.
CREATE TABLE df (a text DEFAULT 'x', b int DEFAULT 5);
ALTER TABLE df ALTER a TYPE int USING 1;
> ERROR 42804 default for column "a" cannot be cast automatically to type integer
ALTER TABLE df ALTER b TYPE bigint;
INSERT INTO df DEFAULT VALUES;
SELECT a, b FROM df;
> x|5
-- All of it rolls back, alone and with other work, and to a savepoint.
CREATE TABLE r (a int, b text);
INSERT INTO r SELECT g, 'row ' || g FROM generate_series(1, 3000) AS x(g);
BEGIN;
DELETE FROM r WHERE a <= 1000;
ALTER TABLE r ALTER a TYPE text;
INSERT INTO r VALUES ('new', 'row');
SELECT count(*), max(a) FROM r;
> 2001|new
SAVEPOINT s;
ALTER TABLE r ALTER a TYPE int USING length(a);
SELECT count(*), sum(a) FROM r;
> 2001|8003
ALTER TABLE r ALTER b TYPE int;
> ERROR 42804 column "b" cannot be cast automatically to type integer
> HINT You might need to specify "USING b::integer".
ROLLBACK TO s;
SELECT count(*), max(a) FROM r;
> 2001|new
ROLLBACK;
SELECT count(*), sum(a), max(b) FROM r;
> 3000|4501500|row 999
BEGIN;
ALTER TABLE r ALTER a TYPE bigint;
UPDATE r SET a = a * 1000000000;
COMMIT;
SELECT count(*), sum(a) FROM r;
> 3000|4501500000000000
