-- Foreign keys: made, enforced, acted on, deferred, dropped.
CREATE TABLE p (id int PRIMARY KEY, code text UNIQUE, n int);
CREATE TABLE c (id int PRIMARY KEY, a int REFERENCES p, b text CONSTRAINT by_code REFERENCES p (code) ON DELETE SET NULL ON UPDATE CASCADE);
SELECT conname, contype, conkey, confkey, confupdtype, confdeltype, confmatchtype, condeferrable, condeferred, convalidated, conrelid::regclass, confrelid::regclass, conindid::regclass, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY conname;
> by_code|f|{3}|{2}|c|n|s|f|f|t|c|p|p_code_key|FOREIGN KEY (b) REFERENCES p(code) ON UPDATE CASCADE ON DELETE SET NULL
> c_a_fkey|f|{2}|{1}|a|a|s|f|f|t|c|p|p_pkey|FOREIGN KEY (a) REFERENCES p(id)
SELECT constraint_name, table_name, constraint_type, is_deferrable, initially_deferred FROM information_schema.table_constraints WHERE constraint_type = 'FOREIGN KEY' ORDER BY 1;
> by_code|c|FOREIGN KEY|NO|NO
> c_a_fkey|c|FOREIGN KEY|NO|NO
SELECT constraint_name, unique_constraint_name, match_option, update_rule, delete_rule FROM information_schema.referential_constraints ORDER BY 1;
> by_code|p_code_key|NONE|CASCADE|SET NULL
> c_a_fkey|p_pkey|NONE|NO ACTION|NO ACTION
SELECT constraint_name, table_name, column_name, ordinal_position, position_in_unique_constraint FROM information_schema.key_column_usage WHERE table_name = 'c' ORDER BY 1;
> by_code|c|b|1|1
> c_a_fkey|c|a|1|1
> c_pkey|c|id|1|NULL
SELECT constraint_name, table_name, column_name FROM information_schema.constraint_column_usage WHERE table_name = 'p' ORDER BY 1, 3;
> by_code|p|code
> c_a_fkey|p|id
> p_code_key|p|code
> p_pkey|p|id
SELECT relname, relhastriggers FROM pg_class WHERE relname IN ('p', 'c') ORDER BY 1;
> c|t
> p|t
-- as psql's \d asks
SELECT conname, conrelid::pg_catalog.regclass AS ontable, pg_catalog.pg_get_constraintdef(oid, true) AS condef FROM pg_catalog.pg_constraint c WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('p') UNION ALL VALUES ('p'::pg_catalog.regclass)) AND contype = 'f' AND conparentid = 0 ORDER BY conname;
> by_code|c|FOREIGN KEY (b) REFERENCES p(code) ON UPDATE CASCADE ON DELETE SET NULL
> c_a_fkey|c|FOREIGN KEY (a) REFERENCES p(id)
SELECT t.tgname, pg_catalog.pg_get_triggerdef(t.oid, true), t.tgenabled, t.tgisinternal, CASE WHEN t.tgparentid != 0 THEN (SELECT u.tgrelid::pg_catalog.regclass FROM pg_catalog.pg_trigger AS u, pg_catalog.pg_partition_ancestors(t.tgrelid) WITH ORDINALITY AS a(relid, depth) WHERE u.tgname = t.tgname AND u.tgrelid = a.relid AND u.tgparentid = 0 ORDER BY a.depth LIMIT 1) END AS parent FROM pg_catalog.pg_trigger t WHERE t.tgrelid = 'p'::regclass AND (NOT t.tgisinternal OR (t.tgisinternal AND t.tgenabled = 'D') OR EXISTS (SELECT 1 FROM pg_catalog.pg_depend WHERE objid = t.oid AND refclassid = 'pg_catalog.pg_trigger'::pg_catalog.regclass)) ORDER BY 1;
INSERT INTO c VALUES (1, 1, NULL);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(1) is not present in table "p".
INSERT INTO p VALUES (1, 'one', 0), (2, 'two', 0), (3, 'three', 0);
INSERT INTO c VALUES (1, 1, 'one'), (2, 2, NULL), (3, NULL, 'two');
INSERT INTO c VALUES (4, 9, NULL), (5, 1, NULL);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(9) is not present in table "p".
INSERT INTO c SELECT 10 + g, g, 'one' FROM generate_series(1, 5) AS x(g);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(4) is not present in table "p".
INSERT INTO c VALUES (4, 1, 'nine');
> ERROR 23503 insert or update on table "c" violates foreign key constraint "by_code"
> DETAIL Key (b)=(nine) is not present in table "p".
UPDATE c SET a = 7 WHERE id = 1;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(7) is not present in table "p".
UPDATE c SET a = a + 2;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(4) is not present in table "p".
UPDATE c SET a = 3 WHERE id = 1;
UPDATE c SET a = 1 WHERE id = 1;
DELETE FROM p WHERE id = 1;
> ERROR 23503 update or delete on table "p" violates foreign key constraint "c_a_fkey" on table "c"
> DETAIL Key (id)=(1) is still referenced from table "c".
DELETE FROM p;
> ERROR 23503 update or delete on table "p" violates foreign key constraint "c_a_fkey" on table "c"
> DETAIL Key (id)=(1) is still referenced from table "c".
UPDATE p SET id = 5 WHERE id = 1;
> ERROR 23503 update or delete on table "p" violates foreign key constraint "c_a_fkey" on table "c"
> DETAIL Key (id)=(1) is still referenced from table "c".
UPDATE p SET id = id + 10;
> ERROR 23503 update or delete on table "p" violates foreign key constraint "c_a_fkey" on table "c"
> DETAIL Key (id)=(1) is still referenced from table "c".
UPDATE p SET n = n + 1;
UPDATE p SET id = id, code = code;
UPDATE p SET code = 'uno' WHERE id = 1;
SELECT * FROM c ORDER BY id;
> 1|1|uno
> 2|2|NULL
> 3|NULL|two
DELETE FROM p WHERE id = 3;
INSERT INTO c VALUES (1, 1, 'x') ON CONFLICT (id) DO UPDATE SET a = 8;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(8) is not present in table "p".
INSERT INTO c VALUES (1, 8, 'x') ON CONFLICT (id) DO UPDATE SET a = 2;
INSERT INTO c VALUES (1, 8, 'x') ON CONFLICT DO NOTHING;
SELECT * FROM c ORDER BY id;
> 1|2|uno
> 2|2|NULL
> 3|NULL|two
UPDATE c SET a = x.v FROM (VALUES (1, 77)) AS x(k, v) WHERE id = x.k;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(77) is not present in table "p".
DELETE FROM c WHERE id = 1 RETURNING *;
> 1|2|uno
DELETE FROM p WHERE code = 'uno' RETURNING id;
> 1
SELECT * FROM p ORDER BY id;
> 2|two|1
DELETE FROM c;
DELETE FROM p;
-- names, and what is refused
CREATE TABLE r1 (a int, b int, FOREIGN KEY (a) REFERENCES nowhere);
> ERROR 42P01 relation "nowhere" does not exist
CREATE TABLE r1 (a int REFERENCES p (nope));
> ERROR 42703 column "nope" referenced in foreign key constraint does not exist
CREATE TABLE r1 (a int, FOREIGN KEY (nope) REFERENCES p);
> ERROR 42703 column "nope" referenced in foreign key constraint does not exist
CREATE TABLE r1 (a int REFERENCES p (n));
> ERROR 42830 there is no unique constraint matching given keys for referenced table "p"
CREATE TABLE r1 (a int, b int, FOREIGN KEY (a, b) REFERENCES p);
> ERROR 42830 number of referencing and referenced columns for foreign key disagree
CREATE TABLE r1 (a int, b int, FOREIGN KEY (a, b) REFERENCES p (id, id));
> ERROR 42830 foreign key referenced-columns list must not contain duplicates
CREATE TABLE r1 (a text REFERENCES p);
> ERROR 42804 foreign key constraint "r1_a_fkey" cannot be implemented
> DETAIL Key columns "a" and "id" are of incompatible types: text and integer.
CREATE TABLE r1 (a int REFERENCES p (code));
> ERROR 42804 foreign key constraint "r1_a_fkey" cannot be implemented
> DETAIL Key columns "a" and "code" are of incompatible types: integer and text.
CREATE TABLE nokey (a int);
CREATE TABLE r1 (a int REFERENCES nokey);
> ERROR 42704 there is no primary key for referenced table "nokey"
CREATE TABLE r1 (a int, FOREIGN KEY (a) REFERENCES p MATCH PARTIAL);
> ERROR 0A000 MATCH PARTIAL not yet implemented
CREATE TABLE r1 (a int REFERENCES p NOT DEFERRABLE INITIALLY DEFERRED);
> ERROR 42601 constraint declared INITIALLY DEFERRED must be DEFERRABLE
CREATE TABLE r1 (a int REFERENCES p CONSTRAINT r1_a_fkey REFERENCES p);
> ERROR 42710 constraint "r1_a_fkey" for relation "r1" already exists
CREATE TABLE r1 (a int CONSTRAINT x REFERENCES p CONSTRAINT x REFERENCES p);
> ERROR 42710 constraint "x" for relation "r1" already exists
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'r1'::regclass ORDER BY 1;
> ERROR 42P01 relation "r1" does not exist
ALTER TABLE r1 ADD CONSTRAINT r1_a_fkey FOREIGN KEY (a) REFERENCES p;
> ERROR 42P01 relation "r1" does not exist
DROP TABLE r1;
> ERROR 42P01 table "r1" does not exist
-- several columns, in another order, and other types
CREATE TABLE k (x int, y bigint, z numeric(10,2), PRIMARY KEY (x, y), UNIQUE (z, y));
CREATE TABLE kc (id int, y1 int, x1 bigint, m int, FOREIGN KEY (y1, x1) REFERENCES k (y, x) ON UPDATE CASCADE ON DELETE CASCADE, FOREIGN KEY (m, y1) REFERENCES k (z, y));
SELECT conname, conkey, confkey, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'kc'::regclass AND contype = 'f' ORDER BY 1;
> kc_m_y1_fkey|{4,2}|{3,2}|FOREIGN KEY (m, y1) REFERENCES k(z, y)
> kc_y1_x1_fkey|{2,3}|{2,1}|FOREIGN KEY (y1, x1) REFERENCES k(y, x) ON UPDATE CASCADE ON DELETE CASCADE
SELECT constraint_name, column_name, ordinal_position, position_in_unique_constraint FROM information_schema.key_column_usage WHERE table_name = 'kc' ORDER BY 1, 3;
> kc_m_y1_fkey|m|1|1
> kc_m_y1_fkey|y1|2|2
> kc_y1_x1_fkey|y1|1|2
> kc_y1_x1_fkey|x1|2|1
INSERT INTO k VALUES (1, 10, 5), (2, 20, 6.5);
INSERT INTO kc VALUES (1, 10, 1, NULL), (2, NULL, 7, NULL), (3, 20, 2, NULL);
INSERT INTO kc VALUES (4, 1, 10, NULL);
> ERROR 23503 insert or update on table "kc" violates foreign key constraint "kc_y1_x1_fkey"
> DETAIL Key (y1, x1)=(1, 10) is not present in table "k".
INSERT INTO kc VALUES (4, 10, 1, 6);
> ERROR 23503 insert or update on table "kc" violates foreign key constraint "kc_m_y1_fkey"
> DETAIL Key (m, y1)=(6, 10) is not present in table "k".
INSERT INTO kc VALUES (4, 10, 1, 5);
INSERT INTO kc VALUES (5, 10, 1099511627776, NULL);
> ERROR 23503 insert or update on table "kc" violates foreign key constraint "kc_y1_x1_fkey"
> DETAIL Key (y1, x1)=(10, 1099511627776) is not present in table "k".
UPDATE k SET y = 11 WHERE x = 1;
SELECT * FROM kc ORDER BY id;
> 1|11|1|NULL
> 2|NULL|7|NULL
> 3|20|2|NULL
> 4|11|1|5
DELETE FROM k WHERE x = 1;
DELETE FROM kc WHERE m = 5;
UPDATE k SET x = 5, y = 11 WHERE x = 1;
SELECT * FROM kc ORDER BY id;
> 2|NULL|7|NULL
> 3|20|2|NULL
DELETE FROM k;
SELECT * FROM kc ORDER BY id;
> 2|NULL|7|NULL
DROP TABLE kc, k;
CREATE TABLE half (a int NOT NULL, b int, UNIQUE (a, b));
CREATE TABLE halfc (a int, b smallint, FOREIGN KEY (b, a) REFERENCES half (b, a) ON UPDATE CASCADE);
INSERT INTO half VALUES (1, 1), (2, 2);
INSERT INTO halfc VALUES (1, 1), (2, 2);
UPDATE half SET a = 5, b = NULL WHERE a = 1;
UPDATE half SET b = 7 WHERE a = 2;
SELECT * FROM halfc ORDER BY a;
> 2|7
> 5|NULL
UPDATE half SET b = 70000 WHERE a = 2;
> ERROR 22003 smallint out of range
SELECT * FROM half ORDER BY a;
> 2|7
> 5|NULL
DROP TABLE half, halfc;
-- MATCH FULL
CREATE TABLE f (a int, b int, PRIMARY KEY (a, b));
CREATE TABLE fc (a int, b int, FOREIGN KEY (a, b) REFERENCES f MATCH FULL);
INSERT INTO f VALUES (1, 1);
INSERT INTO fc VALUES (1, 1), (NULL, NULL);
INSERT INTO fc VALUES (1, NULL);
> ERROR 23503 insert or update on table "fc" violates foreign key constraint "fc_a_b_fkey"
> DETAIL MATCH FULL does not allow mixing of null and nonnull key values.
SELECT pg_get_constraintdef(oid), confmatchtype FROM pg_constraint WHERE conrelid = 'fc'::regclass;
> FOREIGN KEY (a, b) REFERENCES f(a, b) MATCH FULL|f
DROP TABLE f CASCADE;
INSERT INTO fc VALUES (1, NULL);
DROP TABLE fc;
-- actions
CREATE TABLE a0 (id int PRIMARY KEY);
CREATE TABLE a1 (id int PRIMARY KEY, p int DEFAULT 0 REFERENCES a0 ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE a2 (id int PRIMARY KEY, p int REFERENCES a1 ON DELETE CASCADE, q int DEFAULT 3 REFERENCES a0 ON DELETE SET DEFAULT ON UPDATE SET NULL CHECK (q <> 4));
CREATE TABLE a3 (id int PRIMARY KEY, p int NOT NULL REFERENCES a2 ON DELETE SET NULL ON UPDATE CASCADE);
INSERT INTO a0 SELECT g FROM generate_series(1, 9) AS x(g);
INSERT INTO a1 SELECT g, g FROM generate_series(1, 9) AS x(g);
INSERT INTO a2 SELECT g, g, 9 - g + 1 FROM generate_series(1, 5) AS x(g) WHERE g <> 6;
INSERT INTO a3 VALUES (1, 2);
DELETE FROM a0 WHERE id = 1;
SELECT * FROM a2 ORDER BY id;
> 2|2|8
> 3|3|7
> 4|4|6
> 5|5|5
DELETE FROM a0 WHERE id = 8;
DELETE FROM a0 WHERE id = 2;
> ERROR 23502 null value in column "p" of relation "a3" violates not-null constraint
> DETAIL Failing row contains (1, null).
SELECT count(*) FROM a0;
> 7
DELETE FROM a3;
DELETE FROM a0 WHERE id = 2;
UPDATE a0 SET id = 70 WHERE id = 7;
UPDATE a2 SET id = id + 100;
SELECT * FROM a1 ORDER BY id;
> 3|3
> 4|4
> 5|5
> 6|6
> 7|70
> 9|9
SELECT * FROM a2 ORDER BY id;
> 103|3|NULL
> 104|4|6
> 105|5|5
DELETE FROM a0;
DELETE FROM a2;
DELETE FROM a0;
SELECT (SELECT count(*) FROM a0), (SELECT count(*) FROM a1), (SELECT count(*) FROM a2);
> 0|0|0
DROP TABLE a0;
> ERROR 2BP01 cannot drop table a0 because other objects depend on it
> DETAIL constraint a1_p_fkey on table a1 depends on table a0; constraint a2_q_fkey on table a2 depends on table a0
> HINT Use DROP ... CASCADE to drop the dependent objects too.
DROP TABLE a0, a1;
> ERROR 2BP01 cannot drop desired object(s) because other objects depend on them
> DETAIL constraint a2_p_fkey on table a2 depends on table a1; constraint a2_q_fkey on table a2 depends on table a0
> HINT Use DROP ... CASCADE to drop the dependent objects too.
DROP TABLE a3, a2, a1, a0;
-- a table that refers to itself
CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t ON UPDATE CASCADE);
INSERT INTO t VALUES (1, 1), (2, 3), (3, 1);
INSERT INTO t VALUES (4, 5);
> ERROR 23503 insert or update on table "t" violates foreign key constraint "t_up_fkey"
> DETAIL Key (up)=(5) is not present in table "t".
DELETE FROM t WHERE id = 1;
> ERROR 23503 update or delete on table "t" violates foreign key constraint "t_up_fkey" on table "t"
> DETAIL Key (id)=(1) is still referenced from table "t".
DELETE FROM t WHERE id = 3;
> ERROR 23503 update or delete on table "t" violates foreign key constraint "t_up_fkey" on table "t"
> DETAIL Key (id)=(3) is still referenced from table "t".
UPDATE t SET id = id + 10;
SELECT * FROM t ORDER BY id;
> 11|11
> 12|13
> 13|11
UPDATE t SET id = 1 - id;
SELECT * FROM t ORDER BY id;
> -12|-10
> -11|-12
> -10|-10
DELETE FROM t;
SELECT count(*) FROM t;
> 0
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE);
INSERT INTO tree SELECT g, CASE WHEN g > 1 THEN g - 1 END FROM generate_series(1, 2000) AS x(g);
DELETE FROM tree WHERE id = 500;
SELECT count(*), max(id) FROM tree;
> 499|499
DELETE FROM tree WHERE id IN (1, 2, 3);
SELECT count(*) FROM tree;
> 0
CREATE TABLE strict (id int PRIMARY KEY, up int REFERENCES strict ON DELETE RESTRICT ON UPDATE RESTRICT);
INSERT INTO strict VALUES (1, NULL), (2, 1), (3, 2);
DELETE FROM strict WHERE id < 3;
> ERROR 23503 update or delete on table "strict" violates foreign key constraint "strict_up_fkey" on table "strict"
> DETAIL Key (id)=(2) is still referenced from table "strict".
DELETE FROM strict;
DROP TABLE t, tree, strict;
-- the same key is there again at the end; not for RESTRICT
CREATE TABLE n (id int PRIMARY KEY, u int UNIQUE);
CREATE TABLE n1 (u int REFERENCES n (u));
CREATE TABLE n2 (u int REFERENCES n (u) ON UPDATE RESTRICT);
INSERT INTO n VALUES (1, 5), (2, 4);
INSERT INTO n1 VALUES (4), (5);
UPDATE n SET u = u - 1;
> ERROR 23505 duplicate key value violates unique constraint "n_u_key"
> DETAIL Key (u)=(4) already exists.
UPDATE n SET u = CASE u WHEN 5 THEN 6 ELSE 5 END;
> ERROR 23503 update or delete on table "n" violates foreign key constraint "n1_u_fkey" on table "n1"
> DETAIL Key (u)=(4) is still referenced from table "n1".
DELETE FROM n1 WHERE u = 4;
UPDATE n SET u = CASE u WHEN 5 THEN 6 ELSE 5 END;
SELECT * FROM n ORDER BY id;
> 1|6
> 2|5
DELETE FROM n1;
INSERT INTO n2 VALUES (5);
UPDATE n SET u = u - 1;
> ERROR 23505 duplicate key value violates unique constraint "n_u_key"
> DETAIL Key (u)=(5) already exists.
DROP TABLE n1, n2, n;
-- deferred
CREATE TABLE d (id int PRIMARY KEY);
CREATE TABLE dc (id int PRIMARY KEY, d int CONSTRAINT late REFERENCES d DEFERRABLE INITIALLY DEFERRED, e int CONSTRAINT early REFERENCES d DEFERRABLE);
SELECT conname, condeferrable, condeferred, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'dc'::regclass AND contype = 'f' ORDER BY 1;
> early|t|f|FOREIGN KEY (e) REFERENCES d(id) DEFERRABLE
> late|t|t|FOREIGN KEY (d) REFERENCES d(id) DEFERRABLE INITIALLY DEFERRED
INSERT INTO dc VALUES (1, 1, NULL);
> ERROR 23503 insert or update on table "dc" violates foreign key constraint "late"
> DETAIL Key (d)=(1) is not present in table "d".
BEGIN;
INSERT INTO dc VALUES (1, 1, NULL);
INSERT INTO d VALUES (1);
COMMIT;
BEGIN;
DELETE FROM d;
DELETE FROM dc;
COMMIT;
BEGIN;
INSERT INTO dc VALUES (1, 1, NULL);
COMMIT;
> ERROR 23503 insert or update on table "dc" violates foreign key constraint "late"
> DETAIL Key (d)=(1) is not present in table "d".
SELECT count(*) FROM dc;
> 0
BEGIN;
INSERT INTO dc VALUES (1, 1, NULL);
SET CONSTRAINTS ALL IMMEDIATE;
> ERROR 23503 insert or update on table "dc" violates foreign key constraint "late"
> DETAIL Key (d)=(1) is not present in table "d".
COMMIT;
BEGIN;
INSERT INTO dc VALUES (1, 1, NULL);
SAVEPOINT s;
INSERT INTO d VALUES (1);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
COMMIT;
> ERROR 23503 insert or update on table "dc" violates foreign key constraint "late"
> DETAIL Key (d)=(1) is not present in table "d".
BEGIN;
SAVEPOINT s;
INSERT INTO dc VALUES (1, 1, NULL);
ROLLBACK TO s;
COMMIT;
BEGIN;
INSERT INTO dc VALUES (1, NULL, 1);
> ERROR 23503 insert or update on table "dc" violates foreign key constraint "early"
> DETAIL Key (e)=(1) is not present in table "d".
ROLLBACK;
BEGIN;
SET CONSTRAINTS early DEFERRED;
INSERT INTO dc VALUES (1, NULL, 1);
INSERT INTO d VALUES (1);
SET CONSTRAINTS early IMMEDIATE;
DELETE FROM d;
> ERROR 23503 update or delete on table "d" violates foreign key constraint "early" on table "dc"
> DETAIL Key (id)=(1) is still referenced from table "dc".
ROLLBACK;
BEGIN;
SET CONSTRAINTS late IMMEDIATE;
INSERT INTO dc VALUES (1, 1, NULL);
> ERROR 23503 insert or update on table "dc" violates foreign key constraint "late"
> DETAIL Key (d)=(1) is not present in table "d".
ROLLBACK;
BEGIN;
SAVEPOINT s;
SET CONSTRAINTS late IMMEDIATE;
ROLLBACK TO s;
INSERT INTO dc VALUES (1, 1, NULL);
UPDATE dc SET d = NULL;
COMMIT;
SELECT * FROM dc;
> 1|NULL|NULL
BEGIN;
SET CONSTRAINTS nope DEFERRED;
> ERROR 42704 constraint "nope" does not exist
ROLLBACK;
BEGIN;
SET CONSTRAINTS c_a_fkey DEFERRED;
> ERROR 42809 constraint "c_a_fkey" is not deferrable
ROLLBACK;
BEGIN;
INSERT INTO dc VALUES (2, 2, NULL);
ALTER TABLE dc ADD x int;
> ERROR 55006 cannot ALTER TABLE "dc" because it has pending trigger events
ROLLBACK;
BEGIN;
INSERT INTO dc VALUES (2, 2, NULL);
DROP TABLE dc;
> ERROR 55006 cannot DROP TABLE "dc" because it has pending trigger events
ROLLBACK;
SET CONSTRAINTS ALL DEFERRED;
DROP TABLE dc, d;
-- changes of definitions
INSERT INTO p VALUES (1, 'one', 0), (2, 'two', 0);
INSERT INTO c VALUES (1, 1, 'one'), (2, 2, NULL);
ALTER TABLE c DROP CONSTRAINT c_a_fkey;
INSERT INTO c VALUES (3, 33, NULL);
ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(33) is not present in table "p".
ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p NOT VALID;
SELECT conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'c_a_fkey';
> c_a_fkey|f|FOREIGN KEY (a) REFERENCES p(id) NOT VALID
INSERT INTO c VALUES (4, 34, NULL);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(34) is not present in table "p".
UPDATE c SET b = 'one' WHERE id = 3;
ALTER TABLE c VALIDATE CONSTRAINT c_a_fkey;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_a_fkey"
> DETAIL Key (a)=(33) is not present in table "p".
UPDATE c SET a = 2 WHERE id = 3;
ALTER TABLE c VALIDATE CONSTRAINT c_a_fkey;
SELECT conname, convalidated FROM pg_constraint WHERE conname = 'c_a_fkey';
> c_a_fkey|t
ALTER TABLE c RENAME CONSTRAINT c_a_fkey TO fine;
ALTER TABLE c RENAME COLUMN a TO "A a";
ALTER TABLE p RENAME COLUMN id TO "I d";
ALTER TABLE p RENAME TO "P p";
INSERT INTO c VALUES (5, 55, NULL);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "fine"
> DETAIL Key (A a)=(55) is not present in table "P p".
DELETE FROM "P p" WHERE "I d" = 1;
> ERROR 23503 update or delete on table "P p" violates foreign key constraint "fine" on table "c"
> DETAIL Key (I d)=(1) is still referenced from table "c".
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'c'::regclass AND contype = 'f' ORDER BY 1;
> by_code|FOREIGN KEY (b) REFERENCES "P p"(code) ON UPDATE CASCADE ON DELETE SET NULL
> fine|FOREIGN KEY ("A a") REFERENCES "P p"("I d")
ALTER TABLE "P p" RENAME TO p;
ALTER TABLE p RENAME COLUMN "I d" TO id;
ALTER TABLE c RENAME COLUMN "A a" TO a;
ALTER TABLE p DROP COLUMN n;
DELETE FROM p WHERE id = 1;
> ERROR 23503 update or delete on table "p" violates foreign key constraint "fine" on table "c"
> DETAIL Key (id)=(1) is still referenced from table "c".
ALTER TABLE p DROP COLUMN id;
> ERROR 2BP01 cannot drop column id of table p because other objects depend on it
> DETAIL constraint fine on table c depends on column id of table p
> HINT Use DROP ... CASCADE to drop the dependent objects too.
ALTER TABLE p DROP COLUMN code;
> ERROR 2BP01 cannot drop column code of table p because other objects depend on it
> DETAIL constraint by_code on table c depends on column code of table p
> HINT Use DROP ... CASCADE to drop the dependent objects too.
ALTER TABLE p DROP CONSTRAINT p_pkey;
> ERROR 2BP01 cannot drop constraint p_pkey on table p because other objects depend on it
> DETAIL constraint fine on table c depends on index p_pkey
> HINT Use DROP ... CASCADE to drop the dependent objects too.
ALTER TABLE p DROP CONSTRAINT p_code_key;
> ERROR 2BP01 cannot drop constraint p_code_key on table p because other objects depend on it
> DETAIL constraint by_code on table c depends on index p_code_key
> HINT Use DROP ... CASCADE to drop the dependent objects too.
DROP INDEX p_code_key;
> ERROR 2BP01 cannot drop index p_code_key because constraint p_code_key on table p requires it
> HINT You can drop constraint p_code_key on table p instead.
DROP TABLE p;
> ERROR 2BP01 cannot drop table p because other objects depend on it
> DETAIL constraint by_code on table c depends on table p; constraint fine on table c depends on table p
> HINT Use DROP ... CASCADE to drop the dependent objects too.
TRUNCATE p;
> ERROR 0A000 cannot truncate a table referenced in a foreign key constraint
> DETAIL Table "c" references "p".
> HINT Truncate table "c" at the same time, or use TRUNCATE ... CASCADE.
TRUNCATE p, c;
INSERT INTO p VALUES (1, 'one'), (2, 'two');
INSERT INTO c VALUES (1, 1, 'one'), (2, 2, NULL);
TRUNCATE p CASCADE;
SELECT count(*) FROM c;
> 0
INSERT INTO p VALUES (1, 'one'), (2, 'two');
INSERT INTO c VALUES (1, 1, 'one'), (2, 2, NULL);
ALTER TABLE p ALTER COLUMN id TYPE bigint;
ALTER TABLE c ALTER COLUMN a TYPE smallint;
ALTER TABLE c ALTER COLUMN a TYPE text;
> ERROR 42804 foreign key constraint "fine" cannot be implemented
> DETAIL Key columns "a" and "id" are of incompatible types: text and bigint.
ALTER TABLE c ALTER COLUMN a TYPE int USING a + 1;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "fine"
> DETAIL Key (a)=(3) is not present in table "p".
INSERT INTO c VALUES (5, 55, NULL);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "fine"
> DETAIL Key (a)=(55) is not present in table "p".
DELETE FROM p WHERE id = 1;
> ERROR 23503 update or delete on table "p" violates foreign key constraint "fine" on table "c"
> DETAIL Key (id)=(1) is still referenced from table "c".
ALTER TABLE c DROP COLUMN a;
DELETE FROM p WHERE id = 2;
ALTER TABLE c ADD COLUMN a int REFERENCES p;
ALTER TABLE c ADD COLUMN e int DEFAULT 2 REFERENCES p;
> ERROR 23503 insert or update on table "c" violates foreign key constraint "c_e_fkey"
> DETAIL Key (e)=(2) is not present in table "p".
ALTER TABLE c ADD COLUMN e int DEFAULT 1 REFERENCES p;
ALTER TABLE p DROP CONSTRAINT p_pkey CASCADE;
SELECT conname FROM pg_constraint WHERE conrelid = 'c'::regclass ORDER BY 1;
> by_code
> c_pkey
CREATE UNIQUE INDEX p_id ON p (id);
ALTER TABLE c ADD CONSTRAINT by_index FOREIGN KEY (a) REFERENCES p (id);
DROP INDEX p_id;
> ERROR 2BP01 cannot drop index p_id because other objects depend on it
> DETAIL constraint by_index on table c depends on index p_id
> HINT Use DROP ... CASCADE to drop the dependent objects too.
DROP INDEX p_id CASCADE;
ALTER TABLE p DROP COLUMN code CASCADE;
SELECT conname FROM pg_constraint WHERE conrelid = 'c'::regclass ORDER BY 1;
> c_pkey
BEGIN;
ALTER TABLE p ADD PRIMARY KEY (id);
ALTER TABLE c ADD CONSTRAINT again FOREIGN KEY (a) REFERENCES p;
INSERT INTO c (id, a) VALUES (9, 9);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "again"
> DETAIL Key (a)=(9) is not present in table "p".
ROLLBACK;
INSERT INTO c (id, a) VALUES (9, 9);
DELETE FROM p;
DROP TABLE c, p, nokey;
-- keys that are long, and values beside the row
CREATE TABLE l (k text PRIMARY KEY, v text);
CREATE TABLE lc (id int PRIMARY KEY, k text REFERENCES l ON UPDATE CASCADE, filler text);
INSERT INTO l VALUES (repeat('k', 500), 'x');
INSERT INTO lc VALUES (1, repeat('k', 500), repeat('f', 3000));
INSERT INTO lc VALUES (2, repeat('k', 501), '');
> ERROR 23503 insert or update on table "lc" violates foreign key constraint "lc_k_fkey"
> DETAIL Key (k)=(kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk) is not present in table "l".
DELETE FROM l;
> ERROR 23503 update or delete on table "l" violates foreign key constraint "lc_k_fkey" on table "lc"
> DETAIL Key (k)=(kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk) is still referenced from table "lc".
UPDATE l SET k = repeat('K', 600);
SELECT id, length(k), length(filler) FROM lc;
> 1|600|3000
UPDATE lc SET filler = 'short';
DELETE FROM lc;
DELETE FROM l;
DROP TABLE lc, l;
-- a string of several statements is one transaction
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (id int PRIMARY KEY, p int CONSTRAINT later REFERENCES p DEFERRABLE);
SET CONSTRAINTS ALL DEFERRED; INSERT INTO c VALUES (1, 1); INSERT INTO p VALUES (1);
SET CONSTRAINTS later DEFERRED; INSERT INTO c VALUES (2, 2);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "later"
> DETAIL Key (p)=(2) is not present in table "p".
SET CONSTRAINTS later DEFERRED; INSERT INTO c VALUES (2, 2); SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO p VALUES (2);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "later"
> DETAIL Key (p)=(2) is not present in table "p".
SET CONSTRAINTS later DEFERRED; COMMIT; INSERT INTO c VALUES (2, 2); INSERT INTO p VALUES (2);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "later"
> DETAIL Key (p)=(2) is not present in table "p".
SET CONSTRAINTS later DEFERRED; BEGIN; INSERT INTO c VALUES (2, 2); INSERT INTO p VALUES (2); COMMIT;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO c VALUES (3, 3);
> ERROR 23503 insert or update on table "c" violates foreign key constraint "later"
> DETAIL Key (p)=(3) is not present in table "p".
SELECT id FROM c ORDER BY id;
> 1
> 2
DROP TABLE c, p;
