-- ADD COLUMN on a table with rows; DROP COLUMN.
CREATE TABLE a (id int PRIMARY KEY, s text);
INSERT INTO a SELECT g, 'row ' || g FROM generate_series(1, 1500) AS x(g);
ALTER TABLE a ADD COLUMN n int NOT NULL;
> ERROR 23502 column "n" of relation "a" contains null values
ALTER TABLE a ADD COLUMN n int DEFAULT 'x';
> ERROR 22P02 invalid input syntax for type integer: "x"
ALTER TABLE a ADD COLUMN n int NOT NULL DEFAULT 42;
SELECT count(*), sum(n) FROM a;
> 1500|63000
INSERT INTO a (id, s) VALUES (2000, 'new');
UPDATE a SET n = 1 WHERE id = 3;
UPDATE a SET s = 'changed' WHERE id = 4;
SELECT id, s, n FROM a WHERE id IN (3, 4, 5, 2000) ORDER BY id;
> 3|row 3|1
> 4|changed|42
> 5|row 5|42
> 2000|new|42
ALTER TABLE a ALTER n SET DEFAULT 99;
SELECT count(*) FROM a WHERE n = 42;
> 1500
CREATE INDEX a_n ON a (n);
SELECT count(*) FROM a WHERE n = 42;
> 1500
SELECT id FROM a WHERE n = 1;
> 3
ALTER TABLE a ADD COLUMN t text DEFAULT 'a' || 'b', ADD COLUMN b boolean DEFAULT true NOT NULL, ADD COLUMN num numeric(6, 2) DEFAULT 1.5;
SELECT id, t, b, num FROM a WHERE id IN (1, 2000) ORDER BY id;
> 1|ab|t|1.50
> 2000|ab|t|1.50
ALTER TABLE a ADD COLUMN t text;
> ERROR 42701 column "t" of relation "a" already exists
ALTER TABLE a ADD COLUMN IF NOT EXISTS t text;
ALTER TABLE a ADD COLUMN x int DEFAULT 1 UNIQUE;
> ERROR 23505 could not create unique index "a_x_key"
> DETAIL Key (x)=(1) is duplicated.
ALTER TABLE a ADD COLUMN x int UNIQUE;
ALTER TABLE a ADD COLUMN y int DEFAULT 5 CHECK (y > 7);
> ERROR 23514 check constraint "a_y_check" of relation "a" is violated by some row
ALTER TABLE a ADD COLUMN y int DEFAULT 5 CHECK (y > 3);
SELECT count(*), sum(y), count(x) FROM a;
> 1501|7505|0
INSERT INTO a (id, y) VALUES (3000, 2);
> ERROR 23514 new row for relation "a" violates check constraint "a_y_check"
> DETAIL Failing row contains (3000, null, 99, ab, t, 1.50, null, 2).
ALTER TABLE a ADD COLUMN r double precision DEFAULT random();
SELECT count(*), count(DISTINCT r) > 1000 FROM a;
> 1501|t
ALTER TABLE a DROP COLUMN nosuch;
> ERROR 42703 column "nosuch" of relation "a" does not exist
ALTER TABLE a DROP COLUMN IF EXISTS nosuch;
ALTER TABLE a DROP COLUMN n, DROP COLUMN t, DROP COLUMN r;
SELECT id, s, b, num, x, y FROM a WHERE id = 7;
> 7|row 7|t|1.50|NULL|5
BEGIN;
ALTER TABLE a ADD COLUMN z int DEFAULT 3;
UPDATE a SET z = 4 WHERE id < 100;
SELECT z, count(*) FROM a GROUP BY z ORDER BY z;
> 3|1402
> 4|99
ALTER TABLE a DROP COLUMN z;
ALTER TABLE a ADD COLUMN z text DEFAULT 'q';
SELECT z, count(*) FROM a GROUP BY z ORDER BY z;
> q|1501
ROLLBACK;
SELECT * FROM a WHERE id = 7;
> 7|row 7|t|1.50|NULL|5
-- A column of the primary key takes it along.
ALTER TABLE a DROP COLUMN id;
INSERT INTO a (s) VALUES ('no key'), ('no key');
SELECT s, num FROM a WHERE s = 'no key';
> no key|1.50
> no key|1.50
