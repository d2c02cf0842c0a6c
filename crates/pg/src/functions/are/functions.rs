//! `~` and its kin, `regexp_…` and `substring(… from …)`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, ListBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field};

use super::{ASK_EVERY, Groups, Options, compiled};
use crate::functions::define::{Call, P, PgFunction, Returns, f, oid};
use crate::memory;
use crate::running;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Operators by their names, and the functions that they are.
pub const OPERATORS: [(&str, &str); 4] =
    [("~", "textregexeq"), ("~*", "texticregexeq"), ("!~", "textregexne"), ("!~*", "texticregexne")];

/// Byte at which a character begins, counted from 1; none beyond the end.
fn byte_of(text: &str, character: i64) -> Option<usize> {
    let before = usize::try_from(character.checked_sub(1)?).ok()?;
    if before == 0 {
        return Some(0);
    }
    text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len())).nth(before)
}

fn invalid_parameter(name: &str, value: i64) -> SqlError {
    SqlError::new("22023", format!("invalid value for parameter \"{name}\": {value}"))
}

fn no_global(function: &str) -> SqlError {
    SqlError::new("22023", format!("{function}() does not support the \"global\" option"))
}

/// Optional arguments of a call: NULL if one that is given is null.
struct Arguments<'a> {
    text: &'a str,
    pattern: &'a str,
    options: Options,
}

/// Text, pattern, and flags at `flags`; `None` if one of them is null.
fn arguments<'a>(call: &'a Call<'_>, row: usize, flags: usize) -> Result<Option<Arguments<'a>>, SqlError> {
    let (Some(text), Some(pattern)) = (call.text(0, row), call.text(1, row)) else { return Ok(None) };
    let options = match call.given(flags) {
        true => match call.text(flags, row) {
            Some(letters) => Options::parse(letters)?,
            None => return Ok(None),
        },
        false => Options::default(),
    };
    Ok(Some(Arguments { text, pattern, options }))
}

/// An integer argument of at least `least`, 1 if it is not given; `None` if it is null.
fn number(call: &Call<'_>, at: usize, row: usize, name: &str, least: i64) -> Result<Option<i64>, SqlError> {
    if !call.given(at) {
        return Ok(Some(1));
    }
    match call.int(at, row) {
        Some(value) if value < least => Err(invalid_parameter(name, value)),
        value => Ok(value),
    }
}

fn operator(name: &'static str, ignore_case: bool, negated: bool) -> PgFunction {
    f(name, &[P::Text, P::Text], oid(t::BOOL), move |call| {
        let options = Options { ignore_case, ..Options::default() };
        let mut last: Option<(&str, std::rc::Rc<super::Are>)> = None;
        let mut out = BooleanArray::builder(call.rows);
        for row in 0..call.rows {
            let (Some(text), Some(pattern)) = (call.text(0, row), call.text(1, row)) else {
                out.append_null();
                continue;
            };
            let are = match &last {
                Some((known, are)) if *known == pattern => are,
                _ => &last.insert((pattern, compiled(pattern, options)?)).1,
            };
            out.append_value(are.is_match(text) != negated);
        }
        Ok(Arc::new(out.finish()) as ArrayRef)
    })
}

fn texts_of(found: &Groups, text: &str) -> Vec<Option<String>> {
    // The groups, or the whole if there are none.
    let from = usize::from(found.len() > 1);
    found[from..].iter().map(|span| span.map(|(begin, end)| text[begin..end].to_owned())).collect()
}

fn text_lists(rows: impl Iterator<Item = Result<Option<Vec<Option<String>>>, SqlError>>) -> Result<ArrayRef, SqlError> {
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for row in rows {
        match row? {
            Some(values) => {
                for value in values {
                    builder.values().append_option(value);
                }
                builder.append(true);
            }
            None => builder.append(false),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// The pieces of each text, put where they stay at once: there may be millions.
fn split_lists(call: &Call<'_>, function: &str) -> Result<ArrayRef, SqlError> {
    let mut builder = ListBuilder::new(StringViewBuilder::new());
    for row in 0..call.rows {
        let of = arguments(call, row, 2)?;
        if let Some(of) = &of {
            if of.options.global {
                return Err(no_global(function));
            }
            split(of, |piece| builder.values().append_value(piece))?;
        }
        builder.append(of.is_some());
    }
    Ok(Arc::new(builder.finish()))
}

fn text_list() -> Returns {
    Returns::By(|_| Arc::new(Field::new("", DataType::new_list(DataType::Utf8View, true), true)))
}

/// What a replacement puts in place of a match: `\1`, `\&` and `\\` are read.
fn replacement(out: &mut String, with: &str, text: &str, found: &Groups) {
    let mut chars = with.chars();
    let group = |out: &mut String, at: usize| {
        if let Some(Some((begin, end))) = found.get(at) {
            out.push_str(&text[*begin..*end]);
        }
    };
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('&') => group(out, 0),
            Some(digit @ '1'..='9') => group(out, digit as usize - '0' as usize),
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
}

/// A text with the `n`th match from a character on replaced, or all of them if `n` is 0.
fn replaced(of: &Arguments<'_>, with: &str, start: i64, n: i64) -> Result<String, SqlError> {
    let Some(from) = byte_of(of.text, start) else { return Ok(of.text.to_owned()) };
    let are = compiled(of.pattern, of.options)?;
    let limit = if n == 0 { usize::MAX } else { usize::try_from(n).unwrap_or(usize::MAX) };
    let mut out = String::with_capacity(of.text.len());
    let (mut at, mut number) = (0, 0i64);
    are.each_match(of.text, from, limit, |found| {
        let (begin, end) = found[0].unwrap_or_default();
        number += 1;
        if n > 0 && number != n {
            return Ok(());
        }
        out.push_str(&of.text[at..begin]);
        replacement(&mut out, with, of.text, &found);
        at = end;
        memory::value(out.len())
    })?;
    out.push_str(&of.text[at..]);
    Ok(out)
}

/// Calls `with` for the pieces between matches; an empty match at an end or right behind another one splits nothing.
fn split<'t>(of: &Arguments<'t>, mut with: impl FnMut(&'t str)) -> Result<(), SqlError> {
    let are = compiled(of.pattern, of.options)?;
    let (mut at, mut search, mut pieces) = (0, 0, 0usize);
    while search <= of.text.len() {
        if pieces.is_multiple_of(ASK_EVERY) {
            running::check()?;
        }
        let Some(found) = are.find_at(of.text, search)? else { break };
        let (begin, end) = found[0].unwrap_or_default();
        search = match begin == end {
            true => end + of.text[end..].chars().next().map_or(1, char::len_utf8),
            false => end,
        };
        if begin == end && (begin == 0 && at == 0 || begin >= of.text.len() || begin == at) {
            continue;
        }
        with(&of.text[at..begin]);
        pieces += 1;
        at = end;
    }
    with(&of.text[at..]);
    Ok(())
}

/// The `n`th match from a character on.
fn nth(of: &Arguments<'_>, start: i64, n: i64) -> Result<Option<Groups>, SqlError> {
    let Some(from) = byte_of(of.text, start) else { return Ok(None) };
    let are = compiled(of.pattern, of.options)?;
    let n = usize::try_from(n).unwrap_or(usize::MAX);
    Ok(are.find_all(of.text, from, n)?.into_iter().nth(n - 1))
}

/// Every match, each with its groups.
fn all_matches(of: &Arguments<'_>) -> Result<Vec<Vec<Option<String>>>, SqlError> {
    let are = compiled(of.pattern, of.options)?;
    let limit = if of.options.global { usize::MAX } else { 1 };
    Ok(are.find_all(of.text, 0, limit)?.iter().map(|found| texts_of(found, of.text)).collect())
}

pub(in crate::functions) fn all() -> Vec<PgFunction> {
    vec![
        operator("textregexeq", false, false),
        operator("texticregexeq", true, false),
        operator("textregexne", false, true),
        operator("texticregexne", true, true),
        f("regexp_like", &[P::Text, P::Text, P::Text], oid(t::BOOL), |call| {
            call.bools(|row| {
                let Some(of) = arguments(call, row, 2)? else { return Ok(None) };
                if of.options.global {
                    return Err(no_global("regexp_like"));
                }
                Ok(Some(compiled(of.pattern, of.options)?.is_match(of.text)))
            })
        })
        .required(2),
        f("regexp_match", &[P::Text, P::Text, P::Text], text_list(), |call| {
            text_lists((0..call.rows).map(|row| {
                let Some(of) = arguments(call, row, 2)? else { return Ok(None) };
                if of.options.global {
                    return Err(no_global("regexp_match").with_hint("Use the regexp_matches function instead."));
                }
                Ok(all_matches(&of)?.pop())
            }))
        })
        .required(2),
        f("regexp_replace", &[P::Text, P::Text, P::Text, P::Any, P::Int, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| {
                let (Some(text), Some(pattern), Some(with)) = (call.text(0, row), call.text(1, row), call.text(2, row))
                else {
                    return Ok(None);
                };
                // The fourth is a text with flags or the character to begin at.
                let flags = match call.given(3) && call.arrays[3].data_type().is_string() {
                    true => Some(3),
                    false => call.given(5).then_some(5),
                };
                let options = match flags {
                    None => Options::default(),
                    Some(at) => match any_text(call, at, row)? {
                        Some(letters) => {
                            if at == 3 && letters.starts_with(|c: char| c.is_ascii_digit()) {
                                let message = format!("invalid regular expression option: \"{}\"", &letters[..1]);
                                return Err(SqlError::new("22023", message)
                                    .with_hint("If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer explicitly."));
                            }
                            Options::parse(&letters)?
                        }
                        None => return Ok(None),
                    },
                };
                let (mut start, mut n) = (1, if options.global { 0 } else { 1 });
                if call.given(3) && flags != Some(3) {
                    let Some(value) = any_int(call, 3, row)? else { return Ok(None) };
                    start = value;
                    if start <= 0 {
                        return Err(invalid_parameter("start", start));
                    }
                }
                if call.given(4) {
                    let Some(value) = call.int(4, row) else { return Ok(None) };
                    n = value;
                    if n < 0 {
                        return Err(invalid_parameter("n", n));
                    }
                }
                replaced(&Arguments { text, pattern, options }, with, start, n).map(Some)
            })
        })
        .required(3),
        f("regexp_count", &[P::Text, P::Text, P::Int, P::Text], oid(t::INT4), |call| {
            call.int4s(|row| {
                let Some(of) = arguments(call, row, 3)? else { return Ok(None) };
                let Some(start) = number(call, 2, row, "start", 1)? else { return Ok(None) };
                if of.options.global {
                    return Err(no_global("regexp_count"));
                }
                let Some(from) = byte_of(of.text, start) else { return Ok(Some(0)) };
                let (are, mut count) = (compiled(of.pattern, of.options)?, 0);
                are.each_match(of.text, from, usize::MAX, |_| {
                    count += 1;
                    Ok(())
                })?;
                Ok(Some(count))
            })
        })
        .required(2),
        f("regexp_instr", &[P::Text, P::Text, P::Int, P::Int, P::Int, P::Text, P::Int], oid(t::INT4), |call| {
            call.int4s(|row| {
                let Some(of) = arguments(call, row, 5)? else { return Ok(None) };
                let start = number(call, 2, row, "start", 1)?;
                let n = number(call, 3, row, "n", 1)?;
                let end_wanted = if call.given(4) { call.int(4, row) } else { Some(0) };
                if let Some(value) = end_wanted.filter(|value| !(0..=1).contains(value)) {
                    return Err(invalid_parameter("endoption", value));
                }
                if of.options.global {
                    return Err(no_global("regexp_instr"));
                }
                let group = if call.given(6) { number(call, 6, row, "subexpr", 0)? } else { Some(0) };
                let (Some(start), Some(n), Some(end_wanted), Some(group)) = (start, n, end_wanted, group) else {
                    return Ok(None);
                };
                let found = nth(&of, start, n)?;
                let span = found.and_then(|found| found.get(usize::try_from(group).ok()?).copied().flatten());
                let Some((begin, end)) = span else { return Ok(Some(0)) };
                let byte = if end_wanted == 1 { end } else { begin };
                Ok(Some(of.text[..byte].chars().count() as i32 + 1))
            })
        })
        .required(2),
        f("regexp_substr", &[P::Text, P::Text, P::Int, P::Int, P::Text, P::Int], oid(t::TEXT), |call| {
            call.texts(|row| {
                let Some(of) = arguments(call, row, 4)? else { return Ok(None) };
                let start = number(call, 2, row, "start", 1)?;
                let n = number(call, 3, row, "n", 1)?;
                if of.options.global {
                    return Err(no_global("regexp_substr"));
                }
                let group = if call.given(5) { number(call, 5, row, "subexpr", 0)? } else { Some(0) };
                let (Some(start), Some(n), Some(group)) = (start, n, group) else { return Ok(None) };
                let found = nth(&of, start, n)?;
                let span = found.and_then(|found| found.get(usize::try_from(group).ok()?).copied().flatten());
                Ok(span.map(|(begin, end)| of.text[begin..end].to_owned()))
            })
        })
        .required(2),
        f("regexp_split_to_array", &[P::Text, P::Text, P::Text], text_list(), |call| {
            split_lists(call, "regexp_split_to_array")
        })
        .required(2),
        // Of functions that return sets the rows, as a list; under names that nobody calls for one value.
        f("pg_regexp_split_to_table", &[P::Text, P::Text, P::Text], text_list(), |call| {
            split_lists(call, "regexp_split_to_table")
        })
        .required(2),
        f("pg_regexp_matches", &[P::Text, P::Text, P::Text], lists_of_texts(), |call| {
            let mut builder = ListBuilder::new(ListBuilder::new(StringViewBuilder::new()));
            for row in 0..call.rows {
                if let Some(of) = arguments(call, row, 2)? {
                    for found in all_matches(&of)? {
                        for value in found {
                            builder.values().values().append_option(value);
                        }
                        builder.values().append(true);
                    }
                }
                builder.append(true);
            }
            Ok(Arc::new(builder.finish()) as ArrayRef)
        })
        .required(2),
        // substring(text from pattern): the first group, or the whole if there are none
        f("textregexsubstr", &[P::Text, P::Text], oid(t::TEXT), |call| {
            call.texts(|row| {
                let Some(of) = arguments(call, row, 2)? else { return Ok(None) };
                let Some(found) = compiled(of.pattern, of.options)?.find_at(of.text, 0)? else { return Ok(None) };
                let span = found.get(usize::from(found.len() > 1)).copied().flatten();
                Ok(span.map(|(begin, end)| of.text[begin..end].to_owned()))
            })
        }),
    ]
}

fn lists_of_texts() -> Returns {
    Returns::By(|_| {
        let inner = DataType::new_list(DataType::Utf8View, true);
        Arc::new(Field::new("", DataType::new_list(inner, true), true))
    })
}

fn any_text(call: &Call<'_>, at: usize, row: usize) -> Result<Option<String>, SqlError> {
    let texts = crate::arrow::cast_array(&call.arrays[at], &DataType::Utf8View, t::TEXT, &crate::datetime::Zone::Utc)?;
    let texts = datafusion::arrow::array::AsArray::as_string_view(&texts);
    Ok(texts.is_valid(row).then(|| texts.value(row).to_owned()))
}

fn any_int(call: &Call<'_>, at: usize, row: usize) -> Result<Option<i64>, SqlError> {
    let values = crate::arrow::cast_array(&call.arrays[at], &DataType::Int64, t::INT8, &crate::datetime::Zone::Utc)?;
    let values = datafusion::arrow::array::AsArray::as_primitive::<datafusion::arrow::datatypes::Int64Type>(&values);
    Ok(values.is_valid(row).then(|| values.value(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(text: &'a str, pattern: &'a str, flags: &str) -> Arguments<'a> {
        Arguments { text, pattern, options: Options::parse(flags).expect(flags) }
    }

    #[test]
    fn replacing() {
        assert_eq!(replaced(&of("foobar", "o(.)", ""), "<\\1\\&\\\\>", 1, 1).expect("text"), "f<ooo\\>bar");
        assert_eq!(replaced(&of("aaa", "a", ""), "b", 2, 0).expect("text"), "abb");
        assert_eq!(replaced(&of("aaa", "a", ""), "b", 1, 2).expect("text"), "aba");
        assert_eq!(replaced(&of("abc", "", ""), "-", 1, 0).expect("text"), "-a-b-c-");
    }

    #[test]
    fn splitting() {
        let split = |of: &Arguments<'static>| {
            let mut pieces = Vec::new();
            split(of, |piece| pieces.push(piece)).map(|()| pieces)
        };
        assert_eq!(split(&of("the quick", "\\s+", "")).expect("pieces"), ["the", "quick"]);
        assert_eq!(split(&of("abc", "", "")).expect("pieces"), ["a", "b", "c"]);
        assert_eq!(split(&of("", "x", "")).expect("pieces"), [""]);
        assert_eq!(split(&of("aXb", "x", "i")).expect("pieces"), ["a", "b"]);
    }
}
