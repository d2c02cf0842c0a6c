//! Documents made out of others, as `jsonfuncs.c` makes them.

use super::Value;
use super::search::index_of;
use crate::wire::SqlError;

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new("22023", message)
}

/// `a || b`: maps are merged, anything else is a list.
pub fn concat(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Map(mut a), Value::Map(b)) => {
            a.extend(b);
            Value::map(a)
        }
        (Value::List(mut a), Value::List(b)) => {
            a.extend(b);
            Value::List(a)
        }
        (Value::List(mut a), b) => {
            a.push(b);
            Value::List(a)
        }
        (a, Value::List(mut b)) => {
            b.insert(0, a);
            Value::List(b)
        }
        (a, b) => Value::List(vec![a, b]),
    }
}

/// Without these keys, or text elements.
///
/// # Errors
/// 22023: a scalar.
pub fn delete_keys(value: Value, keys: &[&str]) -> Result<Value, SqlError> {
    Ok(match value {
        Value::Map(mut map) => {
            map.retain(|(key, _)| !keys.contains(&key.as_str()));
            Value::Map(map)
        }
        Value::List(mut list) => {
            list.retain(|item| !matches!(item, Value::Text(text) if keys.contains(&text.as_str())));
            Value::List(list)
        }
        _ => return Err(invalid("cannot delete from scalar")),
    })
}

/// Without an element.
///
/// # Errors
/// 22023: no list.
pub fn delete_index(value: Value, at: i64) -> Result<Value, SqlError> {
    match value {
        Value::List(mut list) => {
            let at = if at < 0 { at + list.len() as i64 } else { at };
            if let Some(at) = usize::try_from(at).ok().filter(|at| *at < list.len()) {
                list.remove(at);
            }
            Ok(Value::List(list))
        }
        Value::Map(_) => Err(invalid("cannot delete from object using integer index")),
        _ => Err(invalid("cannot delete from scalar")),
    }
}

/// What is done at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `jsonb_set`: replaced, and made if it is not there and `create`.
    Set {
        create: bool,
    },
    /// `jsonb_insert`: beside an element, or as a new key.
    Insert {
        after: bool,
    },
    Delete,
}

/// The number of an element that a step says.
fn index(step: &str, position: usize) -> Result<i64, SqlError> {
    index_of(step).ok_or_else(|| {
        SqlError::new("22P02", format!("path element at position {position} is not an integer: \"{step}\""))
    })
}

fn at_path(
    value: &mut Value,
    steps: &[&str],
    level: usize,
    change: Change,
    new: Option<&Value>,
) -> Result<(), SqlError> {
    let Some(step) = steps.get(level) else { return Ok(()) };
    let last = level + 1 == steps.len();
    let made = || new.cloned().unwrap_or(Value::Null);
    match value {
        Value::Map(map) => {
            let found = map.iter().position(|(key, _)| key == step);
            match (found, last, change) {
                (Some(at), false, _) => at_path(&mut map[at].1, steps, level + 1, change, new)?,
                (Some(at), true, Change::Delete) => drop(map.remove(at)),
                (Some(at), true, Change::Set { .. }) => map[at].1 = made(),
                (Some(_), true, Change::Insert { .. }) => {
                    return Err(invalid("cannot replace existing key")
                        .with_hint("Try using the function jsonb_set to replace key value."));
                }
                (None, true, Change::Set { create: true } | Change::Insert { .. }) => {
                    let mut entries = std::mem::take(map);
                    entries.push(((*step).to_owned(), made()));
                    *value = Value::map(entries);
                }
                (None, ..) => {}
            }
        }
        Value::List(list) => {
            let at = index(step, level + 1)?;
            let count = list.len() as i64;
            let place = if at < 0 { at + count } else { at };
            let found = usize::try_from(place).ok().filter(|place| *place < list.len());
            match (found, last, change) {
                (Some(at), false, _) => at_path(&mut list[at], steps, level + 1, change, new)?,
                (Some(at), true, Change::Delete) => drop(list.remove(at)),
                (Some(at), true, Change::Set { .. }) => list[at] = made(),
                (Some(at), true, Change::Insert { after }) => list.insert(at + usize::from(after), made()),
                (None, true, Change::Set { create: true } | Change::Insert { .. }) => match place < 0 {
                    true => list.insert(0, made()),
                    false => list.push(made()),
                },
                (None, ..) => {}
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether a document is a list or a map of nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.is_empty(),
        Value::List(list) => list.is_empty(),
        _ => false,
    }
}

/// A document changed at the end of a path.
///
/// # Errors
/// 22023: a scalar, or a key that is there; 22P02: a step that is no number.
pub fn set_path(mut value: Value, steps: &[&str], new: &Value, change: Change) -> Result<Value, SqlError> {
    if !matches!(value, Value::List(_) | Value::Map(_)) {
        return Err(invalid("cannot set path in scalar"));
    }
    // There is nothing to replace, and no step is looked at.
    if change == (Change::Set { create: false }) && is_empty(&value) {
        return Ok(value);
    }
    at_path(&mut value, steps, 0, change, Some(new))?;
    Ok(value)
}

/// A document with `new` at the end of a path, which is made as far as it is not there: what `d['k'][2] = …` assigns.
/// Between the elements of a list and a new one behind them there are nulls. (`setPath` with `JB_PATH_FILL_GAPS`.)
///
/// # Errors
/// 22023: a scalar on the way, or a number before the first element; 22P02: a step that is no number; 54000: more nulls
/// than a value may hold; 54001: more steps than a document may have levels.
pub fn assign(mut value: Value, steps: &[&str], new: Value) -> Result<Value, SqlError> {
    if steps.len() > STEPS_MAX {
        return Err(SqlError::new("54001", "stack depth limit exceeded"));
    }
    let mut nulls = 0;
    assign_at(&mut value, steps, 0, new, &mut nulls)?;
    Ok(value)
}

/// Levels of a document.
const STEPS_MAX: usize = 512;

fn assign_at(value: &mut Value, steps: &[&str], level: usize, new: Value, nulls: &mut usize) -> Result<(), SqlError> {
    let Some(step) = steps.get(level) else {
        *value = new;
        return Ok(());
    };
    match value {
        Value::Map(map) => match map.iter().position(|(key, _)| key == step) {
            Some(at) => assign_at(&mut map[at].1, steps, level + 1, new, nulls),
            None => {
                let mut entries = std::mem::take(map);
                entries.push(((*step).to_owned(), made_of(&steps[level + 1..], new, nulls)?));
                *value = Value::map(entries);
                Ok(())
            }
        },
        Value::List(list) => {
            let index = index(step, level + 1)?;
            let place = if index < 0 { index + list.len() as i64 } else { index };
            let Ok(place) = usize::try_from(place) else {
                return Err(invalid(format!("path element at position {} is out of range: {index}", level + 1)));
            };
            match list.get_mut(place) {
                Some(item) => assign_at(item, steps, level + 1, new, nulls),
                None => {
                    fill(list, place, nulls)?;
                    list.push(made_of(&steps[level + 1..], new, nulls)?);
                    Ok(())
                }
            }
        }
        _ => Err(invalid("cannot replace existing key")
            .with_detail("The path assumes key is a composite object, but it is a scalar value.")),
    }
}

/// Brings a list to that length with nulls, which are counted.
fn fill(list: &mut Vec<Value>, length: usize, nulls: &mut usize) -> Result<(), SqlError> {
    *nulls = nulls.saturating_add(length.saturating_sub(list.len()));
    crate::memory::value(nulls.saturating_mul(size_of::<Value>()))?;
    list.resize(length, Value::Null);
    Ok(())
}

/// What a path is when there is nothing of it: lists for numbers, maps for other steps.
fn made_of(steps: &[&str], new: Value, nulls: &mut usize) -> Result<Value, SqlError> {
    let mut value = new;
    for step in steps.iter().rev() {
        value = match index_of(step) {
            Some(index) => {
                let mut list = Vec::new();
                fill(&mut list, usize::try_from(index).unwrap_or(0), nulls)?;
                list.push(value);
                Value::List(list)
            }
            None => Value::map(vec![((*step).to_owned(), value)]),
        };
    }
    Ok(value)
}

/// A document without what a path leads to.
///
/// # Errors
/// As [`set_path`].
pub fn delete_path(mut value: Value, steps: &[&str]) -> Result<Value, SqlError> {
    if !matches!(value, Value::List(_) | Value::Map(_)) {
        return Err(invalid("cannot delete path in scalar"));
    }
    if is_empty(&value) {
        return Ok(value);
    }
    at_path(&mut value, steps, 0, Change::Delete, None)?;
    Ok(value)
}

/// Without keys whose value is `null`, at any depth.
pub fn strip_nulls(value: Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(
            map.into_iter()
                .filter(|(_, item)| *item != Value::Null)
                .map(|(key, item)| (key, strip_nulls(item)))
                .collect(),
        ),
        Value::List(list) => Value::List(list.into_iter().map(strip_nulls).collect()),
        other => other,
    }
}
