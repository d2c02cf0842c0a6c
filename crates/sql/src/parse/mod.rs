//! From text to syntax.
//!
//! | module | concept |
//! |---|---|
//! | `case` | CASE that lacks a part |
//! | `comment` | COMMENT ON CONSTRAINT, which the parser does not know |
//! | `conflict` | What ON CONFLICT infers an index from |
//! | `copy` | COPY, and its options in both of their forms |
//! | `current_of` | WHERE CURRENT OF, which the parser does not know |
//! | `depth` | How deep a statement may be |
//! | `exclude` | EXCLUDE in the frame of a window, which the parser does not know |
//! | `explain` | EXPLAIN of a query in parentheses |
//! | `element` | Assignments to elements of arrays and documents, which the parser does not know |
//! | `grouping` | Grouping sets within each other, which the parser does not know |
//! | `identity` | Clauses of identity columns that the parser does not know |
//! | `include` | INCLUDE of keys, which the parser does not know |
//! | `joins` | Joins whose right side is a join without parentheses |
//! | `lexer` | Literals lifted out of statement texts ("forced parameterisation") |
//! | `locking` | Locking clauses that the parser does not know |
//! | `merge` | Clauses of MERGE that the parser does not know |
//! | `names` | Names as statements write them |
//! | `nulls` | NULLS NOT DISTINCT of a column, which the parser does not know |
//! | `own` | Statements that the parser does not know, and its own beside them |
//! | `read` | From a text to its statements: where all of these come together |
//! | `reserved` | Reserved words as names of relations and as operands |
//! | `script` | Strings of several statements, some of which the parser does not know |
//! | `shape` | What statements are, by their form alone |
//! | `spelling` | PostgreSQL's spellings that the parser does not know, in words that it knows |
//! | `statement` | Statements that the parser does not know, one file each |
//! | `subscripts` | What a subscript may stand behind |
//! | `symmetric` | BETWEEN SYMMETRIC and BETWEEN ASYMMETRIC, which the parser does not know |
//! | `table` | Clauses of CREATE TABLE and ALTER TABLE that the parser does not know |
//! | `temporary` | SELECT INTO, CREATE UNLOGGED TABLE |
//! | `typed_literal` | Constants with a type before them that the parser has no word for |
//! | `unsupported` | PostgreSQL's syntax that nothing here knows |
//! | `with_recursive` | What WITH RECURSIVE may say |
//! | `with_write` | WITH before INSERT, UPDATE, DELETE and MERGE, and those within WITH |
//! | `words` | The tokens of statements that are read by hand, without white space and comments |

pub(crate) mod adjacent;
pub(crate) mod case;
pub(crate) mod comment;
pub(crate) mod conflict;
pub(crate) mod copy;
pub(crate) mod current_of;
pub(crate) mod deferring;
pub(crate) mod depth;
pub(crate) mod element;
pub(crate) mod exclude;
pub(crate) mod explain;
pub(crate) mod grouping;
pub(crate) mod identity;
pub(crate) mod include;
pub(crate) mod joins;
pub(crate) mod lexer;
pub(crate) mod like;
pub(crate) mod locking;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod nulls;
pub(crate) mod numbers;
pub(crate) mod own;
pub(crate) mod read;
pub(crate) mod reserved;
pub(crate) mod script;
pub(crate) mod sequence;
pub(crate) mod shape;
pub(crate) mod spelling;
pub(crate) mod statement;
pub(crate) mod subscripts;
pub(crate) mod symmetric;
pub(crate) mod table;
pub(crate) mod temporary;
pub(crate) mod typed_literal;
pub(crate) mod unsupported;
pub(crate) mod view;
pub(crate) mod with_recursive;
pub(crate) mod with_write;
pub(crate) mod words;
