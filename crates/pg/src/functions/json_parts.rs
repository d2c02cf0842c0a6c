//! `->`, `->>`, `#>` and `#>>` of `json`, whose parts are shown as they were written (`jsonfuncs.c`).

use super::define::{Call, P, PgFunction, f, oid};
use super::json_scan::{BLANKS, Kind, check_escapes, element, field, kind, shown};
use crate::jsonb;
use crate::types::oid as t;
use crate::wire::SqlError;

/// What a path leads to.
fn path<'a>(text: &'a str, steps: &[Option<String>]) -> Result<Option<&'a str>, SqlError> {
    // Of no steps it is the whole, with the blanks before it.
    let mut here = text.trim_end_matches(BLANKS);
    for step in steps {
        let Some(step) = step else { return Ok(None) };
        let next = if kind(here) == Kind::Map {
            field(here, step)?
        } else {
            jsonb::index_of(step).and_then(|at| element(here, at))
        };
        match next {
            Some(next) => here = next,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

fn part<'a>(call: &'a Call<'_>, row: usize, by: By) -> Result<Option<&'a str>, SqlError> {
    let Some(text) = call.text(0, row) else { return Ok(None) };
    // All of it is read, whichever part is asked for.
    let text = || check_escapes(text).map(|()| text);
    match by {
        By::Key => call.text(1, row).map_or(Ok(None), |key| field(text()?, key)),
        By::Number => call.int(1, row).map_or(Ok(None), |at| Ok(element(text()?, at))),
        By::Path => match call.words(1, row)? {
            Some(steps) if steps.iter().all(Option::is_some) => path(text()?, &steps),
            _ => Ok(None),
        },
    }
}

#[derive(Clone, Copy)]
enum By {
    Key,
    Number,
    Path,
}

pub(super) fn all() -> Vec<PgFunction> {
    let mut out = Vec::new();
    for (name, text, by) in [
        ("json_object_field", false, By::Key),
        ("json_object_field_text", true, By::Key),
        ("json_array_element", false, By::Number),
        ("json_array_element_text", true, By::Number),
        ("json_extract_path", false, By::Path),
        ("json_extract_path_text", true, By::Path),
    ] {
        let parameters: &'static [P] = match by {
            By::Key => &[P::Text, P::Text],
            By::Number => &[P::Text, P::Int],
            By::Path => &[P::Text, P::Any],
        };
        let result = if text { t::TEXT } else { t::JSON };
        out.push(f(name, parameters, oid(result), move |c| {
            c.texts(|row| match part(c, row, by)? {
                Some(part) if text => shown(part),
                part => Ok(part.map(str::to_owned)),
            })
        }));
    }
    out
}
