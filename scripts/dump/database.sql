-- A small database with all that scripts/pg_dump.sh takes there and back: what is in it is made the same by PostgreSQL 15
-- and here. Roles alice and bob are there before.
CREATE SCHEMA app;
CREATE EXTENSION "uuid-ossp";
CREATE EXTENSION pgcrypto SCHEMA app;
COMMENT ON EXTENSION pgcrypto IS 'of the application';
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood OWNER TO alice;
CREATE DOMAIN posint AS int DEFAULT 1 CHECK (VALUE > 0);
CREATE SEQUENCE s1 INCREMENT 5 START 10;
CREATE TABLE parent (
    id serial PRIMARY KEY, name text NOT NULL UNIQUE, mood mood DEFAULT 'ok', n posint,
    price numeric(10,2) DEFAULT 0, created timestamptz DEFAULT '2024-01-02 03:04:05+00'
);
CREATE TABLE app.child (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent_id int REFERENCES parent (id) ON DELETE CASCADE,
    qty int CHECK (qty >= 0), twice int GENERATED ALWAYS AS (qty * 2) STORED, tags text[], doc jsonb, v varchar(20), c char(3),
    "Odd Name" bytea, took interval, u uuid
);
CREATE INDEX child_qty ON app.child (qty DESC, parent_id);
CREATE UNIQUE INDEX parent_lower ON parent (lower(name)) WHERE price > 0;
ALTER TABLE app.child ADD CONSTRAINT both_or_none UNIQUE (parent_id, v);
CREATE INDEX child_wide ON app.child (parent_id) INCLUDE (qty, "Odd Name", doc) WHERE qty > 0;
CREATE TABLE covered (
    a int, b text COLLATE "POSIX", c text COLLATE ucs_basic, d varchar(5) COLLATE "C", e char(2), PRIMARY KEY (a) INCLUDE (c),
    UNIQUE (b) INCLUDE (a, c), f int UNIQUE NULLS NOT DISTINCT
);
CREATE UNIQUE INDEX covered_alike ON covered (d, e) INCLUDE (f) NULLS NOT DISTINCT WHERE a > 0;
CREATE INDEX covered_named ON covered (b text_pattern_ops, c COLLATE "C" DESC NULLS LAST, d COLLATE "default" varchar_ops, e bpchar_pattern_ops, lower(b) COLLATE "C" text_pattern_ops);
CREATE TABLE keyed (id uuid DEFAULT uuid_generate_v4() PRIMARY KEY, d bytea DEFAULT app.digest('a', 'md5') CHECK (d <> app.digest('b', 'sha1')));
CREATE VIEW digests AS SELECT app.digest(k.d, 'sha256') AS again FROM keyed k;
CREATE VIEW pv AS
    SELECT p.id, p.name, count(c.id) AS n FROM parent p LEFT JOIN app.child c ON c.parent_id = p.id GROUP BY p.id, p.name;
CREATE VIEW app.cheap AS SELECT * FROM parent WHERE price < 2 WITH CASCADED CHECK OPTION;
COMMENT ON TABLE parent IS 'the parents';
COMMENT ON COLUMN parent.name IS 'a name; it''s one';
COMMENT ON VIEW pv IS 'how many';
COMMENT ON SCHEMA app IS 'the application';
GRANT SELECT, INSERT ON parent TO alice;
GRANT USAGE ON SCHEMA app TO bob;
GRANT SELECT (qty) ON app.child TO bob;
GRANT USAGE ON SEQUENCE s1 TO alice WITH GRANT OPTION;
GRANT SELECT ON pv TO PUBLIC;
ALTER TABLE parent OWNER TO alice;
ALTER DEFAULT PRIVILEGES IN SCHEMA app GRANT SELECT ON TABLES TO bob;
INSERT INTO parent (name, price) VALUES ('a', 1.5), ('b', 2), (E'tab\there', 3);
INSERT INTO app.child (parent_id, qty, tags, doc, v, c, "Odd Name", took, u) VALUES
    (1, 2, '{a,"b c"}', '{"k": [1, null]}', 'v', 'c', '\x00ff', '1 mon 2 days', '00000000-0000-0000-0000-000000000001'),
    (2, 3, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT nextval('s1');
CREATE FUNCTION plus(a integer, b integer DEFAULT 1) RETURNS integer LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT a + b $$;
CREATE FUNCTION app.names(text DEFAULT 'x', day date DEFAULT '2024-01-02') RETURNS SETOF text LANGUAGE sql STABLE COST 7 ROWS 10 PARALLEL SAFE AS 'SELECT name FROM public.parent WHERE name <> $1';
CREATE FUNCTION app.pairs(low integer) RETURNS TABLE (k bigint, "W x" text) LANGUAGE sql AS $$ SELECT id, name FROM public.parent WHERE id > low; $$;
CREATE FUNCTION tenfold(a integer) RETURNS integer IMMUTABLE RETURN a * 10;
CREATE FUNCTION cheer(x text) RETURNS text BEGIN ATOMIC SELECT upper(x) AS loud; END;
CREATE FUNCTION erase(low integer) RETURNS void LANGUAGE sql AS $$ DELETE FROM public.parent WHERE id > low; SELECT 1 $$;
COMMENT ON FUNCTION plus(integer, integer) IS 'adds; it''s plain';
ALTER FUNCTION tenfold(integer) OWNER TO alice;
CREATE VIEW called AS SELECT plus(p.id::integer, 2) AS n, tenfold(7) AS t, w.k FROM parent p, LATERAL app.pairs(p.id::integer) w;
CREATE TABLE computed (a integer DEFAULT plus(1), b integer GENERATED ALWAYS AS (plus(a, 2)) STORED, CHECK (tenfold(a) > 0));
CREATE INDEX computed_plus ON computed (plus(a, 5)) WHERE tenfold(a) > 1;
-- A column behind what an index of an expression keeps, types of the catalogs' own, varying texts without a length.
ALTER TABLE computed ADD COLUMN later character varying DEFAULT 'l', ADD COLUMN number oid DEFAULT 7, ADD COLUMN named name, ADD COLUMN letter "char" DEFAULT 'x';
INSERT INTO computed (later, number, named, letter) VALUES ('v', 4294967295, 'n', NULL);
-- Types in other schemas, one of them of a name that another has too; what casts to them; ranges.
CREATE TYPE app.mood AS ENUM ('low', 'high');
CREATE DOMAIN app.span AS daterange CHECK (NOT isempty(VALUE)) DEFAULT '[2024-01-01,2024-02-01)';
ALTER TYPE app.mood OWNER TO bob;
COMMENT ON TYPE app.mood IS 'another one';
CREATE TABLE app.booked (
    room int4range DEFAULT '[1,10)', during tsrange NOT NULL, at tstzrange, days app.span, mood app.mood DEFAULT 'low'::app.mood, moods app.mood[],
    PRIMARY KEY (room, during), CHECK (mood <> 'high'::app.mood OR lower(room) > 0)
);
CREATE INDEX booked_days ON app.booked ((mood = 'high'::app.mood)) WHERE mood > 'low'::app.mood;
INSERT INTO app.booked VALUES ('(,5]', '(,2024-01-02]', NULL, '[2024-03-01,2024-03-02]', 'high', NULL);
INSERT INTO app.booked (during, at, moods) VALUES ('[2024-01-01 10:00,2024-01-01 11:00)', '[2024-01-01 10:00+00,)', '{low,high}');
