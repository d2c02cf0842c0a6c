-- What errors tell of rows that a role may not see, and which of several errors comes.
CREATE ROLE rs_ann;
CREATE TABLE kept (id int PRIMARY KEY, owner text NOT NULL, n int CHECK (n > 0), u int UNIQUE);
ALTER TABLE kept ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON kept USING (owner = current_user);
GRANT ALL ON kept TO rs_ann;
INSERT INTO kept VALUES (1, 'bob', 7, 7);
SET ROLE rs_ann;
INSERT INTO kept VALUES (1, 'rs_ann', 1, 1);
> ERROR 23505 duplicate key value violates unique constraint "kept_pkey"
INSERT INTO kept VALUES (2, 'rs_ann', 1, 7);
> ERROR 23505 duplicate key value violates unique constraint "kept_u_key"
INSERT INTO kept VALUES (2, 'rs_ann', -1, 2);
> ERROR 23514 new row for relation "kept" violates check constraint "kept_n_check"
EXPLAIN ANALYZE INSERT INTO kept VALUES (2, 'rs_ann', -1, 2);
> ERROR 23514 new row for relation "kept" violates check constraint "kept_n_check"
EXPLAIN ANALYZE INSERT INTO kept VALUES (1, 'rs_ann', 1, 1);
> ERROR 23505 duplicate key value violates unique constraint "kept_pkey"
WITH w AS (INSERT INTO kept VALUES (1, 'rs_ann', 1, 1) RETURNING id) SELECT id FROM w;
> ERROR 23505 duplicate key value violates unique constraint "kept_pkey"
COPY (WITH w AS (INSERT INTO kept VALUES (2, 'rs_ann', -1, 2) RETURNING id) SELECT id FROM w) TO STDOUT;
> ERROR 23514 new row for relation "kept" violates check constraint "kept_n_check"
RESET ROLE;
INSERT INTO kept VALUES (2, 'bob', -1, 2);
> ERROR 23514 new row for relation "kept" violates check constraint "kept_n_check"
> DETAIL Failing row contains (2, bob, -1, 2).
INSERT INTO kept VALUES (1, 'bob', 1, 2);
> ERROR 23505 duplicate key value violates unique constraint "kept_pkey"
> DETAIL Key (id)=(1) already exists.
