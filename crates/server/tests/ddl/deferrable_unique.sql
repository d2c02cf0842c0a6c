-- DEFERRABLE UNIQUE constraints: made, shown, judged at the end of the statement or of the transaction, dropped.
CREATE TABLE t (id int PRIMARY KEY, a int CONSTRAINT t_a UNIQUE DEFERRABLE, b text, c numeric, CONSTRAINT t_bc UNIQUE (b, c) DEFERRABLE INITIALLY DEFERRED);
SELECT conname, contype, condeferrable, condeferred, convalidated, conkey, conindid::regclass, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1;
> t_a|u|t|f|t|{2}|t_a|UNIQUE (a) DEFERRABLE
> t_bc|u|t|t|t|{3,4}|t_bc|UNIQUE (b, c) DEFERRABLE INITIALLY DEFERRED
> t_pkey|p|f|f|t|{1}|t_pkey|PRIMARY KEY (id)
SELECT indexrelid::regclass, indisunique, indimmediate, indisprimary, pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 't'::regclass ORDER BY 5;
> t_a|t|f|f|CREATE UNIQUE INDEX t_a ON public.t USING btree (a)
> t_bc|t|f|f|CREATE UNIQUE INDEX t_bc ON public.t USING btree (b, c)
> t_pkey|t|t|t|CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)
SELECT constraint_name, constraint_type, is_deferrable, initially_deferred FROM information_schema.table_constraints WHERE table_name = 't' AND constraint_type <> 'CHECK' ORDER BY 1;
> t_a|UNIQUE|YES|NO
> t_bc|UNIQUE|YES|YES
> t_pkey|PRIMARY KEY|NO|NO
CREATE TABLE l (LIKE t INCLUDING ALL);
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'l'::regclass ORDER BY 1;
> l_a_key|UNIQUE (a) DEFERRABLE
> l_b_c_key|UNIQUE (b, c) DEFERRABLE INITIALLY DEFERRED
> l_pkey|PRIMARY KEY (id)
DROP TABLE l;
CREATE TABLE x (a int UNIQUE NOT DEFERRABLE INITIALLY DEFERRED);
> ERROR 42601 constraint declared INITIALLY DEFERRED must be DEFERRABLE
CREATE TABLE x (a int UNIQUE NOT DEFERRABLE, b int UNIQUE INITIALLY IMMEDIATE, c int UNIQUE INITIALLY DEFERRED, d int, UNIQUE (d) DEFERRABLE INITIALLY IMMEDIATE);
SELECT conname, condeferrable, condeferred, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'x'::regclass ORDER BY 1;
> x_a_key|f|f|UNIQUE (a)
> x_b_key|f|f|UNIQUE (b)
> x_c_key|t|t|UNIQUE (c) DEFERRABLE INITIALLY DEFERRED
> x_d_key|t|f|UNIQUE (d) DEFERRABLE
DROP TABLE x;
-- judged at the end of the statement
INSERT INTO t VALUES (1, 1, 'one', 1), (2, 2, 'two', 2), (3, 3, 'three', 3);
UPDATE t SET a = a + 1;
SELECT id, a FROM t ORDER BY id;
> 1|2
> 2|3
> 3|4
UPDATE t SET a = a - 1;
UPDATE t SET a = 5 - a;
SELECT id, a FROM t ORDER BY id;
> 1|4
> 2|3
> 3|2
UPDATE t SET a = 3 WHERE id = 3;
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(3) already exists.
INSERT INTO t VALUES (4, 3, 'four', 4);
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(3) already exists.
INSERT INTO t VALUES (4, 44, 'four', 4), (5, 44, 'five', 5);
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(44) already exists.
INSERT INTO t VALUES (4, NULL, 'four', 4), (5, NULL, NULL, 5), (6, NULL, NULL, 5);
DELETE FROM t WHERE id > 3;
UPDATE t SET id = id + 1 WHERE id = 3;
UPDATE t SET id = 3 WHERE id = 4;
BEGIN;
INSERT INTO t VALUES (4, 3, 'four', 4);
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(3) already exists.
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (4, 14, 'four', 4);
SAVEPOINT s;
INSERT INTO t VALUES (5, 14, 'five', 5);
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(14) already exists.
ROLLBACK TO s;
INSERT INTO t VALUES (5, 5, 'five', 5);
COMMIT;
DELETE FROM t WHERE id > 3;
-- and of the transaction
INSERT INTO t VALUES (4, 44, 'one', 1.00);
> ERROR 23505 duplicate key value violates unique constraint "t_bc"
> DETAIL Key (b, c)=(one, 1.00) already exists.
BEGIN;
INSERT INTO t VALUES (4, 44, 'one', 1.00);
COMMIT;
> ERROR 23505 duplicate key value violates unique constraint "t_bc"
> DETAIL Key (b, c)=(one, 1.00) already exists.
SELECT count(*) FROM t;
> 3
BEGIN;
INSERT INTO t VALUES (4, 44, 'one', 1.0);
UPDATE t SET b = 'uno' WHERE id = 1;
COMMIT;
SELECT id, b, c FROM t ORDER BY id;
> 1|uno|1
> 2|two|2
> 3|three|3
> 4|one|1.0
BEGIN;
UPDATE t SET b = 'one' WHERE id = 1;
DELETE FROM t WHERE id = 4;
COMMIT;
BEGIN;
INSERT INTO t VALUES (4, 44, 'one', 1);
SET CONSTRAINTS ALL IMMEDIATE;
> ERROR 23505 duplicate key value violates unique constraint "t_bc"
> DETAIL Key (b, c)=(one, 1) already exists.
COMMIT;
BEGIN;
SET CONSTRAINTS t_bc IMMEDIATE;
INSERT INTO t VALUES (4, 44, 'one', 1);
> ERROR 23505 duplicate key value violates unique constraint "t_bc"
> DETAIL Key (b, c)=(one, 1) already exists.
ROLLBACK;
BEGIN;
SET CONSTRAINTS t_a DEFERRED;
INSERT INTO t VALUES (4, 4, 'four', 4);
UPDATE t SET a = 9 WHERE id = 4;
SET CONSTRAINTS t_a IMMEDIATE;
INSERT INTO t VALUES (5, 9, 'five', 5);
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(9) already exists.
ROLLBACK;
BEGIN;
SET CONSTRAINTS t_a, t_bc DEFERRED;
INSERT INTO t VALUES (4, 4, 'four', 4);
SAVEPOINT s;
UPDATE t SET a = 9 WHERE id = 4;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
COMMIT;
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(4) already exists.
BEGIN;
SAVEPOINT s;
INSERT INTO t VALUES (4, 44, 'one', 1);
ROLLBACK TO s;
COMMIT;
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS t_bc IMMEDIATE;
ROLLBACK TO s;
INSERT INTO t VALUES (4, 44, 'one', 1);
DELETE FROM t WHERE id = 1;
COMMIT;
SELECT * FROM t ORDER BY id;
> 2|3|two|2
> 3|2|three|3
> 4|44|one|1
UPDATE t SET id = 1, a = 4 WHERE id = 4;
BEGIN;
SET CONSTRAINTS nope DEFERRED;
> ERROR 42704 constraint "nope" does not exist
ROLLBACK;
BEGIN;
SET CONSTRAINTS t_pkey DEFERRED;
> ERROR 42809 constraint "t_pkey" is not deferrable
ROLLBACK;
SET CONSTRAINTS ALL DEFERRED;
-- what a savepoint takes back counts again
BEGIN;
SET CONSTRAINTS t_a DEFERRED;
SAVEPOINT s;
DELETE FROM t WHERE a = 4;
RELEASE s;
INSERT INTO t VALUES (7, 4, 'seven', 7);
COMMIT;
SELECT id, a FROM t ORDER BY id;
> 2|3
> 3|2
> 7|4
BEGIN;
UPDATE t SET id = 8 WHERE id = 7;
UPDATE t SET id = 7 WHERE id = 8;
INSERT INTO t VALUES (1, 1, 'one', 1);
COMMIT;
-- NULLS NOT DISTINCT
CREATE TABLE n (a int, b int, CONSTRAINT n_ab UNIQUE NULLS NOT DISTINCT (a, b) DEFERRABLE);
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'n_ab';
> UNIQUE NULLS NOT DISTINCT (a, b) DEFERRABLE
INSERT INTO n VALUES (1, NULL);
INSERT INTO n VALUES (1, NULL);
> ERROR 23505 duplicate key value violates unique constraint "n_ab"
> DETAIL Key (a, b)=(1, null) already exists.
INSERT INTO n VALUES (NULL, NULL), (NULL, NULL);
> ERROR 23505 duplicate key value violates unique constraint "n_ab"
> DETAIL Key (a, b)=(null, null) already exists.
INSERT INTO n VALUES (NULL, NULL), (2, NULL);
UPDATE n SET a = a + 1;
SELECT * FROM n ORDER BY a, b;
> 2|NULL
> 3|NULL
> NULL|NULL
DROP TABLE n;
-- no arbiter of ON CONFLICT, and no target of a foreign key
INSERT INTO t VALUES (9, 1, 'x', 1) ON CONFLICT DO NOTHING;
> ERROR 55000 ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters
INSERT INTO t VALUES (9, 1, 'x', 1) ON CONFLICT (a) DO NOTHING;
> ERROR 55000 ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters
INSERT INTO t VALUES (9, 1, 'x', 1) ON CONFLICT (a) DO UPDATE SET b = 'y';
> ERROR 55000 ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters
INSERT INTO t VALUES (9, 1, 'x', 1) ON CONFLICT ON CONSTRAINT t_bc DO NOTHING;
> ERROR 55000 ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters
INSERT INTO t VALUES (1, 1, 'x', 1) ON CONFLICT (id) DO NOTHING;
INSERT INTO t VALUES (1, 1, 'x', 1) ON CONFLICT (id) DO UPDATE SET a = 3;
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(3) already exists.
INSERT INTO t VALUES (9, 1, 'x', 1) ON CONFLICT (id) DO NOTHING;
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(1) already exists.
INSERT INTO t SELECT 9, 1, 'x', 1 WHERE false ON CONFLICT DO NOTHING;
CREATE TABLE r (a int REFERENCES t (a));
> ERROR 55000 cannot use a deferrable unique constraint for referenced table "t"
CREATE UNIQUE INDEX t_also ON t (a);
CREATE TABLE r (a int REFERENCES t (a));
UPDATE t SET a = 3 WHERE id = 7;
> ERROR 23505 duplicate key value violates unique constraint "t_also"
> DETAIL Key (a)=(3) already exists.
DROP TABLE r;
DROP INDEX t_also;
-- the rows that an action writes are looked after, too
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON UPDATE CASCADE ON DELETE SET NULL, UNIQUE (p) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO p VALUES (1), (2), (3);
INSERT INTO c VALUES (1, 1), (2, 2);
UPDATE p SET id = 4 - id WHERE id = 2;
UPDATE p SET id = 9 WHERE id = 2;
SELECT * FROM c ORDER BY id;
> 1|1
> 2|9
BEGIN;
INSERT INTO c VALUES (3, 9);
DELETE FROM p WHERE id = 9;
COMMIT;
SELECT * FROM c ORDER BY id;
> 1|1
> 2|NULL
> 3|NULL
DROP TABLE c, p;
-- WITH, MERGE
BEGIN;
SET CONSTRAINTS t_a DEFERRED;
WITH gone AS (DELETE FROM t WHERE id = 2 RETURNING a) INSERT INTO t SELECT 12, a, 'twelve', 12 FROM gone;
MERGE INTO t USING (VALUES (3, 4), (13, 13)) v (id, a) ON t.id = v.id WHEN MATCHED THEN UPDATE SET a = v.a WHEN NOT MATCHED THEN INSERT VALUES (v.id, v.a, 'm', v.id);
SET CONSTRAINTS ALL IMMEDIATE;
> ERROR 23505 duplicate key value violates unique constraint "t_a"
> DETAIL Key (a)=(4) already exists.
ROLLBACK;
-- changes of definitions
BEGIN;
INSERT INTO t VALUES (9, 9, 'one', 1), (10, 10, 'one', 1);
ALTER TABLE t ADD x int;
> ERROR 55006 cannot ALTER TABLE "t" because it has pending trigger events
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (9, 9, 'one', 1), (10, 10, 'one', 1);
TRUNCATE t;
> ERROR 55006 cannot TRUNCATE "t" because it has pending trigger events
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (9, 9, 'one', 1), (10, 10, 'one', 1);
DROP TABLE t;
> ERROR 55006 cannot DROP TABLE "t" because it has pending trigger events
ROLLBACK;
CREATE TABLE d (a int, b int);
INSERT INTO d VALUES (1, 1), (2, 2), (2, 3), (NULL, 4), (NULL, 4);
ALTER TABLE d ADD CONSTRAINT d_a UNIQUE (a) DEFERRABLE;
> ERROR 23505 could not create unique index "d_a"
> DETAIL Key (a)=(2) is duplicated.
ALTER TABLE d ADD CONSTRAINT d_ab UNIQUE NULLS NOT DISTINCT (a, b) DEFERRABLE INITIALLY DEFERRED;
> ERROR 23505 could not create unique index "d_ab"
> DETAIL Key (a, b)=(null, 4) is duplicated.
DELETE FROM d WHERE a IS NULL;
ALTER TABLE d ADD CONSTRAINT d_ab UNIQUE NULLS NOT DISTINCT (a, b) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE d ALTER b TYPE int USING 0;
> ERROR 23505 could not create unique index "d_ab"
> DETAIL Key (a, b)=(2, 0) is duplicated.
ALTER TABLE d ALTER b TYPE bigint USING b + 1;
SELECT * FROM d ORDER BY 1, 2;
> 1|2
> 2|3
> 2|4
ALTER TABLE d ADD COLUMN e int UNIQUE DEFERRABLE;
INSERT INTO d VALUES (7, 7, 7), (7, 8, 7);
> ERROR 23505 duplicate key value violates unique constraint "d_e_key"
> DETAIL Key (e)=(7) already exists.
CREATE UNIQUE INDEX d_b ON d (b);
ALTER TABLE d ADD CONSTRAINT d_b UNIQUE USING INDEX d_b DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE d RENAME CONSTRAINT d_b TO d_bb;
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'd'::regclass ORDER BY 1;
> d_ab|UNIQUE NULLS NOT DISTINCT (a, b) DEFERRABLE INITIALLY DEFERRED
> d_bb|UNIQUE (b) DEFERRABLE INITIALLY DEFERRED
> d_e_key|UNIQUE (e) DEFERRABLE
BEGIN;
INSERT INTO d VALUES (8, 2), (9, 3);
UPDATE d SET b = b + 1;
UPDATE d SET b = b - 1 WHERE a < 8;
COMMIT;
> ERROR 23505 duplicate key value violates unique constraint "d_bb"
> DETAIL Key (b)=(3) already exists.
SELECT a, b FROM d ORDER BY 1, 2;
> 1|2
> 2|3
> 2|4
REINDEX TABLE d;
INSERT INTO d VALUES (1, 2);
> ERROR 23505 duplicate key value violates unique constraint "d_ab"
> DETAIL Key (a, b)=(1, 2) already exists.
ALTER TABLE d DROP CONSTRAINT d_bb;
INSERT INTO d VALUES (11, 2);
SELECT conname FROM pg_constraint WHERE conrelid = 'd'::regclass ORDER BY 1;
> d_ab
> d_e_key
DROP TABLE d;
CREATE TABLE g (k text, n numeric, UNIQUE (k) DEFERRABLE, UNIQUE (n) DEFERRABLE);
INSERT INTO g VALUES (repeat('x', 1600), 1.0), (repeat('x', 1599), 1.00);
> ERROR 23505 duplicate key value violates unique constraint "g_n_key"
> DETAIL Key (n)=(1.00) already exists.
INSERT INTO g VALUES (repeat('x', 1600), 1.0), (repeat('x', 1599), 2.00);
UPDATE g SET k = CASE length(k) WHEN 1600 THEN repeat('x', 1599) ELSE repeat('x', 1600) END;
SELECT length(k), n FROM g ORDER BY 1;
> 1599|1.0
> 1600|2.00
UPDATE g SET n = 1.000;
> ERROR 23505 duplicate key value violates unique constraint "g_n_key"
> DETAIL Key (n)=(1.000) already exists.
DROP TABLE g;
-- whoever may not read a table is not told of its rows
CREATE ROLE du_writer;
GRANT INSERT ON t TO du_writer;
SET ROLE du_writer;
INSERT INTO t VALUES (31, 31, 'w', 1), (32, 31, 'x', 1);
> ERROR 23505 duplicate key value violates unique constraint "t_a"
INSERT INTO t VALUES (31, 31, 'w', 1), (32, 32, 'w', 1);
> ERROR 23505 duplicate key value violates unique constraint "t_bc"
BEGIN;
INSERT INTO t VALUES (31, 31, 'w', 1), (32, 32, 'w', 1);
COMMIT;
> ERROR 23505 duplicate key value violates unique constraint "t_bc"
RESET ROLE;
DROP OWNED BY du_writer;
DROP ROLE du_writer;
DROP TABLE t;

