//! PostgreSQL's face: type ids, value formats, `COPY` formats, system catalogs,
//! functions, dialect and error codes.
//!
//! Everything here is a translation. It owns no session and no storage, and knows nothing of
//! how statements are planned and run; what it needs of a session comes through
//! [`context::PgContext`].
//!
//! | module | translates |
//! |---|---|
//! | [`bounded`] | SQL's grammar, with an end to what is nested |
//! | [`types`] | SQL type names, PostgreSQL oids and modifiers, engine column types, Arrow types |
//! | [`datetime`] | calendar arithmetic |
//! | [`zone`] | time zones |
//! | [`encode`] | Arrow cells and engine datums to the wire's text and binary formats |
//! | [`decode`] | text and binary values to engine datums and DataFusion scalars |
//! | [`arrow`] | engine datums to Arrow columns and back |
//! | [`copy`] | `COPY` text and CSV |
//! | [`functions`] | functions that PostgreSQL has and DataFusion lacks |
//! | [`catalog`] | `pg_catalog` and `information_schema` |
//! | [`computed`] | rows that are computed when a plan over them runs to DataFusion's tables |
//! | [`grammar`] | what the parser reads otherwise than PostgreSQL |
//! | [`jsonb`] | documents: from and to text, searched, changed |
//! | [`keywords`] | which words are keywords |
//! | [`naming`] | expressions to the names of result columns |
//! | [`collation`] | the one order of texts, and its names |
//! | [`operator_classes`] | what btree indexes name for their columns |
//! | [`policies`] | policies of row security: what the catalog keeps, whom they are for |
//! | [`definition`] | expressions that definitions hold, to text and back |
//! | [`search_path`] | the setting to the schemas that names are looked for in |
//! | [`errors`] | errors of every layer to SQLSTATE, wording and position |
//! | [`user_types`] | enumerated types and domains |
//! | [`user_functions`] | functions that users make |
//! | [`extensions`] | what CREATE EXTENSION brings along |
//! | [`wire`] | what all of them answer with: errors, fields, encoded rows, tags |

pub mod advisory;
pub mod arrow;
pub mod bits;
pub mod bounded;
pub mod catalog;
pub mod citext;
pub mod collation;
pub mod computed;
pub mod conditions;
pub mod context;
pub mod copy;
pub mod datetime;
pub mod decode;
pub mod definition;
pub mod encode;
pub mod errors;
pub mod extensions;
pub mod functions;
pub mod grammar;
pub mod jsonb;
pub mod jsonpath;
pub mod keywords;
pub mod lexer;
pub mod memory;
pub mod naming;
pub mod network;
pub mod notify;
pub mod operator_classes;
pub mod ordered;
pub mod policies;
pub mod random;
pub mod ranges;
pub mod roles;
pub mod running;
pub mod search_path;
pub mod sequence_names;
pub mod styles;
pub mod timetz;
pub mod types;
pub mod user_functions;
pub mod user_types;
pub mod view;
pub mod wire;
pub mod zone;

// Paths from when this was a module of the SQL crate.
