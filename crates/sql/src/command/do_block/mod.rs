//! DO: a block of PL/pgSQL without variables, as migrations of ORMs and of people have it.
//!
//! ```sql
//! DO $$ BEGIN CREATE TYPE mood AS ENUM ('happy'); EXCEPTION WHEN duplicate_object THEN NULL; END $$;
//! DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app') THEN CREATE ROLE app; END IF; END $$;
//! ```
//!
//! The language as far as it goes: statements of SQL, blocks in blocks with EXCEPTION, IF, PERFORM, EXECUTE, RAISE, NULL,
//! RETURN. What PL/pgSQL has besides (DECLARE and what needs variables, loops, CASE, cursors, transaction control) is refused
//! by name (0A000) before anything runs. Functions in PL/pgSQL and triggers are not there.
//!
//! # Invariants
//! 1. *The whole block is read, and the syntax of its statements, before the first of them runs.*
//! 2. A block with EXCEPTION is a sub-transaction: what it did is taken back before its handler runs (PostgreSQL,
//!    [trapping errors](https://www.postgresql.org/docs/15/plpgsql-control-structures.html#PLPGSQL-ERROR-TRAPPING)). Its
//!    savepoint is gone when the block is left, whichever way.
//! 3. A cancel, a time-out and the end of the session are nobody's to handle, nor is a change of definitions by others, for
//!    which the block is not run again: what it has set for the session would stay.

mod run;
