//! Paths into documents (`jsonpath`): SQL/JSON path language, as PostgreSQL 15 has it.
//!
//! | file | what | in PostgreSQL |
//! |---|---|---|
//! | `lexer` | a text to tokens | `jsonpath_scan.l` |
//! | `parser` | tokens to a [`Path`] | `jsonpath_gram.y`, `jsonpath.c` (`flattenJsonPathParseItem`) |
//! | `print` | a path as it is shown | `jsonpath.c` (`printJsonPathItem`) |
//! | `exec` | what a path finds in a document | `jsonpath_exec.c` |
//! | `predicate` | conditions: three-valued, with errors as the third | `jsonpath_exec.c` (`executeBoolItem`) |
//! | `moment` | `.datetime()`, and comparing what it gives | `jsonpath_exec.c`, `formatting.c` (`parse_datetime`) |
//! | `ids` | the ids that `.keyvalue()` gives | `jsonb_util.c` (`convertJsonbValue`) |
//!
//! In plans a value of the type is its text as PostgreSQL shows it; whoever evaluates paths reads each text once.
//!
//! # Invariants
//! 1. A text that [`parse`] accepts is shown as a text that it accepts, and that is shown alike.
//! 2. Paths are nested no deeper than [`DEPTH_MAX`] and [`OPERATORS_MAX`] allow, and evaluation never recurses deeper than `exec` says: `54001`.
//! 3. Evaluation asks whether its statement was told to stop, and for the memory that what it finds takes.

mod exec;
mod ids;
mod lexer;
mod moment;
mod parser;
mod predicate;
mod print;

use resurgam_numeric::Numeric;

use crate::functions::are::Options;
use crate::wire::SqlError;

pub use exec::{Found, Mode, execute};
pub use parser::parse;

/// Parts of a path within each other, at most.
pub const DEPTH_MAX: usize = 500;
/// Operators of a path, at most: each may lie a level below another.
const OPERATORS_MAX: usize = 2000;

/// A path.
#[derive(Clone, Debug)]
pub struct Path {
    /// Structural errors are none, and arrays are unwrapped; the other mode is `strict`.
    pub lax: bool,
    chain: Chain,
}

/// Items one after another, each applied to what the ones before it found.
type Chain = Vec<Item>;

#[derive(Clone, Debug)]
enum Item {
    /// `$`
    Root,
    /// `@`
    Current,
    /// The last index of the innermost array.
    Last,
    Null,
    Bool(bool),
    Number(Numeric),
    Text(String),
    Variable(String),
    /// `.key`
    Key(String),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyArray,
    /// `[from to to, …]`
    Index(Vec<(Chain, Option<Chain>)>),
    /// `.**{first to last}`: [`LEAVES`] is `last`.
    Any {
        first: u32,
        last: u32,
    },
    /// `.name()`
    Method(Method),
    /// `.datetime(template)`
    Datetime(Option<String>),
    /// `? (condition)`
    Filter(Chain),
    Binary(Binary, Chain, Chain),
    Unary(Unary, Chain),
    LikeRegex {
        of: Chain,
        pattern: String,
        flags: RegexFlags,
    },
}

/// `last` as a level of `.**`.
const LEAVES: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Type,
    Size,
    Abs,
    Floor,
    Ceiling,
    Double,
    KeyValue,
}

impl Method {
    const ALL: [(&'static str, Self); 7] = [
        ("type", Self::Type),
        ("size", Self::Size),
        ("abs", Self::Abs),
        ("floor", Self::Floor),
        ("ceiling", Self::Ceiling),
        ("double", Self::Double),
        ("keyvalue", Self::KeyValue),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    StartsWith,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::Greater => ">",
            Self::LessOrEqual => "<=",
            Self::GreaterOrEqual => ">=",
            Self::StartsWith => "starts with",
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
        }
    }
    fn is_arithmetic(self) -> bool {
        matches!(self, Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Mod)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unary {
    Plus,
    Minus,
    Not,
    IsUnknown,
    Exists,
}

/// Flags of `like_regex`, XQuery's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RegexFlags {
    ignore_case: bool,
    dot_all: bool,
    multi_line: bool,
    /// `x`: not there but beside `q`, where it says nothing.
    blanks: bool,
    quote: bool,
}

impl RegexFlags {
    /// As regular expressions here take them (`jspConvertRegexFlags`).
    fn options(self) -> Options {
        let Self { ignore_case, dot_all, multi_line, blanks: _, quote } = self;
        Options {
            ignore_case,
            newline_stops: !quote && !dot_all,
            newline_anchors: !quote && multi_line,
            literal: quote,
            ..Options::default()
        }
    }
}

#[cold]
fn too_deep() -> SqlError {
    SqlError::new("54001", "stack depth limit exceeded")
}
