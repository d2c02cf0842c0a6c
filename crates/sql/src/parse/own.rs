//! Statements that the parser does not know, and its own beside them.
//!
//! An [`Own`] is read from its tokens by a module of [`statement`](crate::parse::statement); [`SPECIAL`] holds the words that it may begin with. A text
//! of several statements is taken apart by [`script`](crate::parse::script).

use std::fmt;

use datafusion::sql::sqlparser::ast::{AlterTable, ObjectName, Statement};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::parse::copy::{self, Copy};
use crate::parse::names::object_name;
use crate::parse::statement::alter_index::{self, AlterIndex};
use crate::parse::statement::alter_sequence::{self, AlterSequence};
use crate::parse::statement::cleaning::{self, Named};
use crate::parse::statement::cursor::{self, Declare, Fetch};
use crate::parse::statement::database::{self, DatabaseStatement};
use crate::parse::statement::do_block::{self, DoBlock};
use crate::parse::statement::domain::{self, AlterDomain, CreateDomain};
use crate::parse::statement::extension::{self, ExtensionStatement};
use crate::parse::statement::function::{self, FunctionStatement};
use crate::parse::statement::grant::{DefaultsCommand, GrantCommand};
use crate::parse::statement::lock::{self, LockTables};
use crate::parse::statement::notify::{self, NotifyCommand};
use crate::parse::statement::owner::OwnerCommand;
use crate::parse::statement::reindex::{self, Reindex};
use crate::parse::statement::role::RoleCommand;
use crate::parse::statement::schema::{self, SchemaStatement};
use crate::parse::statement::set_constraints::{self, Wanted};
use crate::parse::statement::set_schema::{self, SetSchema};
use crate::parse::statement::user_type::{self, AlterType};
use crate::parse::statement::{access, alter_view, recovery, two_phase};
use crate::parse::unsupported::{self, Refused};
use crate::parse::words::{Words, first_word};
use crate::wire::SqlError;

/// A statement as it was read.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // few at a time, and most are the large one
pub(crate) enum Parsed {
    /// One that the parser knows.
    Known(Statement),
    Own(Own),
}

impl fmt::Display for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(statement) => statement.fmt(f),
            Self::Own(own) => write!(f, "{own:?}"),
        }
    }
}

impl Parsed {
    /// Whether a failed transaction accepts the statement: it ends it.
    pub(crate) fn is_allowed_when_failed(&self) -> bool {
        match self {
            Self::Known(statement) => matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. }),
            Self::Own(own) => own.is_allowed_when_failed(),
        }
    }
}

/// A statement that the parser does not know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Own {
    /// VACUUM in all its forms.
    Vacuum {
        verbose: bool,
        analyze: bool,
        /// Free space goes back to the file system.
        truncate: bool,
        /// The tables that it names: all are cleaned up, but these have to be there.
        tables: Vec<Named>,
    },
    /// SQL Server's procedure for the same.
    CleanupProcedure {
        database: Option<String>,
    },
    /// ANALYZE, of these tables or all.
    Analyze {
        verbose: bool,
        tables: Vec<Named>,
    },
    Checkpoint,
    /// ALTER DATABASE … SET accelerated_database_recovery.
    SetRecovery {
        /// The database that it names; none: the present one.
        database: Option<String>,
        accelerated: bool,
    },
    PrepareTransaction {
        gid: String,
    },
    CommitPrepared {
        gid: String,
    },
    RollbackPrepared {
        gid: String,
    },
    SetConstraints(Wanted),
    Lock(LockTables),
    Notify(NotifyCommand),
    /// ALTER VIEW, in the words of ALTER TABLE.
    AlterView(Box<AlterTable>),
    /// ALTER INDEX of how entries are stored.
    AlterIndex(Box<AlterIndex>),
    AlterSequence(Box<AlterSequence>),
    AlterType(Box<AlterType>),
    CreateDomain(Box<CreateDomain>),
    AlterDomain(Box<AlterDomain>),
    DropDomain {
        if_exists: bool,
        names: Vec<ObjectName>,
        cascade: bool,
    },
    /// About roles: CREATE ROLE, SET ROLE, …
    Role(Box<RoleCommand>),
    /// GRANT and REVOKE of rights.
    Grant(Box<GrantCommand>),
    /// ALTER DEFAULT PRIVILEGES.
    Defaults(Box<DefaultsCommand>),
    /// ALTER … OWNER TO.
    Owner(Box<OwnerCommand>),
    /// CREATE and ALTER SCHEMA.
    Schema(Box<SchemaStatement>),
    /// CREATE, ALTER, DROP and COMMENT ON DATABASE.
    Database(Box<DatabaseStatement>),
    SetSchema(Box<SetSchema>),
    /// CREATE, ALTER, DROP and COMMENT ON EXTENSION.
    Extension(Box<ExtensionStatement>),
    /// CREATE, ALTER, DROP and COMMENT ON FUNCTION.
    Function(Box<FunctionStatement>),
    /// DO: a block of PL/pgSQL.
    Do(Box<DoBlock>),
    /// RESET TIME ZONE
    ResetZone,
    /// SHOW of a setting whose name has several words.
    Show(&'static str),
    Declare(Box<Declare>),
    /// FETCH, and MOVE.
    Fetch(Fetch),
    /// CLOSE of a cursor, or of all.
    Close(Option<String>),
    /// DROP INDEX CONCURRENTLY.
    DropIndexApart {
        if_exists: bool,
        names: Vec<ObjectName>,
        cascade: bool,
    },
    Reindex(Reindex),
    Copy(Box<Copy>),
    /// CLUSTER without a table: of those that were clustered before, which are none.
    Cluster,
    /// One of PostgreSQL's that there is not.
    Refused(Refused),
}

impl Own {
    /// See [`Parsed::is_allowed_when_failed`].
    pub(crate) fn is_allowed_when_failed(&self) -> bool {
        matches!(self, Self::PrepareTransaction { .. })
    }
}

/// First words of the statements that [`parse`] may know.
pub(crate) const SPECIAL: &[&str] = &[
    "vacuum",
    "analyze",
    "checkpoint",
    "alter",
    "create",
    "comment",
    "drop",
    "prepare",
    "commit",
    "rollback",
    "exec",
    "execute",
    "call",
    "set",
    "show",
    "reset",
    "declare",
    "fetch",
    "move",
    "close",
    "grant",
    "revoke",
    "reassign",
    "lock",
    "listen",
    "unlisten",
    "notify",
    "reindex",
    "cluster",
    "copy",
    "refresh",
    "import",
    "security",
    "load",
    "do",
];

/// Reads one statement that the parser does not know, or knows in other words; `None` leaves the text to it.
pub(crate) fn parse(text: &str) -> Option<Result<Parsed, SqlError>> {
    parse_own(text).map(|found| found.map(Parsed::Own))
}

fn parse_own(text: &str) -> Option<Result<Own, SqlError>> {
    let first = first_word(text);
    if !SPECIAL.contains(&first.as_str()) {
        return None;
    }
    // Several statements are told apart by `script`.
    let mut words = Words::of(text)?;
    words.next();
    if let Some(refused) = unsupported::statement(&first, &words).filter(|_| !is_bare_cluster(&first, &words)) {
        return Some(Ok(Own::Refused(refused)));
    }
    if let Some(found) = access::parse(&first, text) {
        return Some(found);
    }
    match first.as_str() {
        "vacuum" => Some(cleaning::parse_vacuum(words)),
        "analyze" => Some(cleaning::parse_analyze(words)),
        "checkpoint" => Some(words.expect_end().map(|()| Own::Checkpoint)),
        "create" | "alter" | "drop" if words.take_word("extension") => Some(extension::parse(&first, words)),
        "comment" if words.take_words(&["on", "extension"]) => Some(extension::parse(&first, words)),
        "create" if words.take_words(&["or", "replace", "function"]) => Some(function::parse(&first, true, words)),
        "create" | "alter" | "drop" if words.take_word("function") => Some(function::parse(&first, false, words)),
        "create" | "alter" | "drop"
            if words.take_word("procedure") || words.take_words(&["or", "replace", "procedure"]) =>
        {
            Some(Err(SqlError::unsupported("procedures are not supported")))
        }
        "alter" | "drop" if words.take_word("routine") => Some(function::parse(&first, false, words)),
        "comment" if words.take_words(&["on", "function"]) || words.take_words(&["on", "routine"]) => {
            Some(function::parse(&first, false, words))
        }
        "create" | "drop" if words.take_word("database") => database::parse(&first, &mut words),
        "comment" if words.take_words(&["on", "database"]) => database::parse(&first, &mut words),
        "alter" if words.take_word("database") => {
            database::parse(&first, &mut words.clone()).or_else(|| Some(recovery::parse(words)))
        }
        "create" if words.take_word("schema") => Some(schema::parse_create(words)),
        "drop" if words.take_words(&["index", "concurrently"]) => Some(parse_drop_index(&mut words)),
        // The parser would take other things than texts for it.
        "load" => Some(Err(words.unexpected())),
        "reindex" => Some(reindex::parse(words)),
        "copy" => Some(copy::parse(words)),
        "cluster" => {
            words.take_word("verbose");
            Some(words.expect_end().map(|()| Own::Cluster))
        }
        "alter" if words.take_word("schema") => Some(schema::parse_alter(words)),
        "alter" if let Some(set_schema) = set_schema::parse(&words) => Some(set_schema),
        "alter" if let Some(found) = alter_index::parse(&words) => Some(found),
        "alter" if words.take_word("sequence") => Some(alter_sequence::parse(words)),
        "create" if words.take_word("domain") => Some(domain::parse_create(text, words)),
        "drop" if words.take_word("domain") => Some(domain::parse_drop(words)),
        "alter" if words.take_word("domain") => Some(domain::parse_alter(text, words)),
        "alter" if words.take_word("type") => Some(user_type::parse(words)),
        "alter" if words.take_word("view") => Some(alter_view::parse_alter(words)),
        "prepare" | "commit" | "rollback" => two_phase::parse(&first, words),
        "exec" | "execute" | "call" => cleaning::parse_call(&first, words),
        "reset" => {
            if words.take_words(&["time", "zone"]) {
                return Some(words.expect_end().map(|()| Own::ResetZone));
            }
            None
        }
        "declare" => Some(cursor::parse_declare(text, words)),
        "fetch" | "move" => Some(cursor::parse_fetch(words, first == "move")),
        "close" => Some(cursor::parse_close(words)),
        "lock" => Some(lock::parse(words)),
        "listen" | "unlisten" | "notify" => Some(notify::parse(&first, words)),
        "set" => set_constraints::parse(words),
        "do" => Some(do_block::parse(words)),
        "show" => {
            let name = if words.take_words(&["transaction", "isolation", "level"]) {
                "transaction_isolation"
            } else if words.take_words(&["time", "zone"]) {
                "timezone"
            } else if words.take_words(&["session", "authorization"]) {
                "session_authorization"
            } else {
                return None;
            };
            Some(words.expect_end().map(|()| Own::Show(name)))
        }
        _ => None,
    }
}

/// CLUSTER [VERBOSE].
fn is_bare_cluster(first: &str, words: &Words<'_>) -> bool {
    let mut words = words.clone();
    words.take_word("verbose");
    first == "cluster" && words.is_at_end()
}

/// DROP INDEX CONCURRENTLY, of which these words are taken already.
fn parse_drop_index(words: &mut Words<'_>) -> Result<Own, SqlError> {
    let if_exists = words.take_words(&["if", "exists"]);
    let mut names = vec![object_name(words)?];
    while words.take(&Token::Comma) {
        names.push(object_name(words)?);
    }
    let cascade = words.take_word("cascade");
    if !cascade {
        words.take_word("restrict");
    }
    words.expect_end()?;
    Ok(Own::DropIndexApart { if_exists, names, cascade })
}
