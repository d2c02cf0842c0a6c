//! What paths find in documents: `@?`, `@@` and the functions `jsonb_path_…`, under the names of what computes them in
//! PostgreSQL (`pg_proc.prosrc`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bumpalo::Bump;
use datafusion::arrow::array::*;
use resurgam_engine::document::{Map, Node, begin, put_list, read};

use super::define::{Call, P, PgFunction, f, oid};
use super::json_sets::list_of;
use crate::context::PgContext;
use crate::jsonpath::{Found, Mode, Path, execute, parse};
use crate::memory;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Those that go by the session's zone.
pub(super) const SESSION_NAMES: &[&str] = &[
    "jsonb_path_exists_tz",
    "jsonb_path_match_tz",
    "pg_jsonb_path_query_tz",
    "jsonb_path_query_array_tz",
    "jsonb_path_query_first_tz",
];

thread_local! {
    /// The path that was last read: most calls have one.
    static LAST: RefCell<Option<(String, Rc<Path>)>> = const { RefCell::new(None) };
}

fn path_of(text: &str) -> Result<Rc<Path>, SqlError> {
    let known =
        LAST.with_borrow(|last| last.as_ref().filter(|(known, _)| known == text).map(|(_, path)| Rc::clone(path)));
    if let Some(path) = known {
        return Ok(path);
    }
    let path = Rc::new(parse(text)?);
    LAST.with_borrow_mut(|last| *last = Some((text.to_owned(), Rc::clone(&path))));
    Ok(path)
}

/// What a row's call is given; `None`: something of it is NULL.
struct Given<'a> {
    root: Node<'a>,
    path: Rc<Path>,
    vars: Option<Map<'a>>,
    silent: bool,
}

fn given<'a>(call: &'a Call<'_>, row: usize) -> Result<Option<Given<'a>>, SqlError> {
    let document = |at: usize| {
        let array = call.arrays.get(at).and_then(|array| array.as_binary_opt::<i32>());
        array.filter(|array| !array.is_null(row)).map(|array| array.value(row))
    };
    let (Some(root), Some(path)) = (document(0), call.text(1, row)) else { return Ok(None) };
    let (path, root) = (path_of(path)?, read(root)?);
    // The operators are silent, and have no variables.
    if !call.given(2) {
        return Ok(Some(Given { root, path, vars: None, silent: true }));
    }
    let (Some(vars), Some(silent)) = (document(2), call.bool(3, row)) else { return Ok(None) };
    let Node::Map(vars) = read(vars)? else {
        return Err(SqlError::new("22023", "\"vars\" argument is not an object")
            .with_detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    };
    Ok(Some(Given { root, path, vars: Some(vars), silent }))
}

/// What is wanted of what is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Whether there is anything.
    Exists,
    /// The one boolean that it is.
    Match,
    /// The first item.
    First,
    /// All of them, as a list.
    Array,
}

/// Evaluates a row's call.
fn run<T>(
    call: &Call<'_>,
    row: usize,
    cx: Option<&Arc<dyn PgContext>>,
    all: bool,
    take: impl FnOnce(&Given<'_>, Option<bool>, &Found<'_>, &dyn Fn(usize) -> Option<Vec<u8>>) -> Result<T, SqlError>,
) -> Result<Option<T>, SqlError> {
    let Some(given) = given(call, row)? else { return Ok(None) };
    let arena = Bump::new();
    let zone = cx.map(|cx| cx.zone());
    let mode = Mode { silent: given.silent, zone: zone.as_ref() };
    let (outcome, found) = execute(&given.path, given.root, given.vars, mode, all, &arena)?;
    let document = |at: usize| found.node(at, &arena).map(|node| node.to_document());
    take(&given, outcome, &found, &document).map(Some)
}

fn exists(call: &Call<'_>, cx: Option<&Arc<dyn PgContext>>) -> Result<ArrayRef, SqlError> {
    call.bools(|row| Ok(run(call, row, cx, false, |_, outcome, _, _| Ok(outcome))?.flatten()))
}

fn matches(call: &Call<'_>, cx: Option<&Arc<dyn PgContext>>) -> Result<ArrayRef, SqlError> {
    call.bools(|row| {
        let value = run(call, row, cx, true, |given, _, found, document| {
            if found.len() == 1
                && let Some(document) = document(0)
            {
                match read(&document)? {
                    Node::Bool(value) => return Ok(Some(value)),
                    Node::Null => return Ok(None),
                    _ => {}
                }
            }
            match given.silent {
                true => Ok(None),
                false => Err(SqlError::new("22038", "single boolean result is expected")),
            }
        })?;
        Ok(value.flatten())
    })
}

/// A document for each row.
fn documents(
    call: &Call<'_>,
    cx: Option<&Arc<dyn PgContext>>,
    make: impl Fn(&Found<'_>, &dyn Fn(usize) -> Option<Vec<u8>>) -> Option<Vec<u8>>,
) -> Result<ArrayRef, SqlError> {
    let mut out = BinaryBuilder::new();
    let mut bytes = 0usize;
    for row in 0..call.rows {
        crate::running::check()?;
        let made = run(call, row, cx, true, |_, _, found, document| Ok(make(found, document)))?.flatten();
        if let Some(document) = &made {
            memory::value(document.len())?;
            bytes = bytes.saturating_add(document.len());
            memory::column(call.rows, bytes)?;
        }
        out.append_option(made);
    }
    Ok(Arc::new(out.finish()))
}

/// All that was found, as one list.
fn as_list(found: &Found<'_>, document: &dyn Fn(usize) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = begin();
    let version = out.len();
    let mut open = put_list(found.len(), &mut out);
    for at in 0..found.len() {
        out.extend_from_slice(document(at).unwrap_or_default().get(version..).unwrap_or_default());
        open.end(&mut out);
    }
    out
}

/// A list of each row's items, for the functions that return them as rows.
fn rows(call: &Call<'_>, cx: Option<&Arc<dyn PgContext>>) -> Result<ArrayRef, SqlError> {
    let mut out = BinaryBuilder::new();
    let mut bytes = 0usize;
    let (lengths, valid) = call.collected(|row| {
        run(call, row, cx, true, |_, _, found, document| {
            for at in 0..found.len() {
                let document = document(at).unwrap_or_default();
                bytes = bytes.saturating_add(document.len());
                memory::column(call.rows, bytes)?;
                out.append_value(document);
            }
            Ok(found.len())
        })
    })?;
    call.list_of(lengths, valid, Arc::new(out.finish()))
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    const OF: &[P] = &[P::Any, P::Text, P::Any, P::Bool];
    const OPERANDS: &[P] = &[P::Any, P::Text];
    let mut out = vec![
        f("jsonb_path_exists_opr", OPERANDS, oid(t::BOOL), |call| exists(call, None)),
        f("jsonb_path_match_opr", OPERANDS, oid(t::BOOL), |call| matches(call, None)),
    ];
    let kinds = [
        ("jsonb_path_exists", "jsonb_path_exists_tz", Wanted::Exists),
        ("jsonb_path_match", "jsonb_path_match_tz", Wanted::Match),
        ("jsonb_path_query_first", "jsonb_path_query_first_tz", Wanted::First),
        ("jsonb_path_query_array", "jsonb_path_query_array_tz", Wanted::Array),
    ];
    for (name, zoned, wanted) in kinds {
        let returns = || oid(if matches!(wanted, Wanted::Exists | Wanted::Match) { t::BOOL } else { t::JSONB });
        let compute = move |call: &Call<'_>, cx: Option<&Arc<dyn PgContext>>| match wanted {
            Wanted::Exists => exists(call, cx),
            Wanted::Match => matches(call, cx),
            Wanted::First => documents(call, cx, |_, document| document(0)),
            Wanted::Array => documents(call, cx, |found, document| Some(as_list(found, document))),
        };
        out.push(f(name, OF, returns(), move |call| compute(call, None)));
        let cx = Arc::clone(cx);
        out.push(f(zoned, OF, returns(), move |call| compute(call, Some(&cx))).volatile());
    }
    out.push(f("pg_jsonb_path_query", OF, list_of(t::JSONB), |call| rows(call, None)));
    let cx = Arc::clone(cx);
    out.push(f("pg_jsonb_path_query_tz", OF, list_of(t::JSONB), move |call| rows(call, Some(&cx))).volatile());
    out
}
