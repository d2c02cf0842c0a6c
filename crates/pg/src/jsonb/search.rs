//! What is in a document, read in place.

use resurgam_engine::document::{self, List, Node};

use super::too_deep;
use crate::wire::SqlError;

/// Element `at` of a list, from its end if negative.
pub fn element<'a>(list: &List<'a>, at: i64) -> Result<Option<Node<'a>>, SqlError> {
    let at = if at < 0 { at + list.len() as i64 } else { at };
    match usize::try_from(at) {
        Ok(at) if at < list.len() => Ok(Some(list.get(at)?)),
        _ => Ok(None),
    }
}

/// What a path of keys and numbers leads to.
///
/// # Errors
/// `XX001` for damaged bytes.
pub fn path<'a>(root: Node<'a>, steps: &[&str]) -> Result<Option<Node<'a>>, SqlError> {
    let mut node = root;
    for step in steps {
        let next = match &node {
            Node::Map(map) => map.find(step)?,
            Node::List(list) => match index_of(step) {
                Some(at) => element(list, at)?,
                None => None,
            },
            _ => None,
        };
        match next {
            Some(next) => node = next,
            None => return Ok(None),
        }
    }
    Ok(Some(node))
}

/// A step of a path as the number of an element, as C's `strtol` reads it.
pub(crate) fn index_of(step: &str) -> Option<i64> {
    let digits = step.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    digits.parse::<i32>().ok().map(i64::from)
}

/// Whether a text is a key of the map, or a text element of the list, or the text itself.
///
/// # Errors
/// `XX001` for damaged bytes.
pub fn exists(node: &Node<'_>, key: &str) -> Result<bool, SqlError> {
    Ok(match node {
        Node::Map(map) => map.find(key)?.is_some(),
        Node::List(list) => {
            for item in list.iter() {
                if item? == Node::Text(key) {
                    return Ok(true);
                }
            }
            false
        }
        Node::Text(text) => *text == key,
        _ => false,
    })
}

fn same_scalar(a: &Node<'_>, b: &Node<'_>) -> bool {
    match (a, b) {
        (Node::Number(a), Node::Number(b)) => resurgam_numeric::key::key_of(a) == resurgam_numeric::key::key_of(b),
        (a, b) => a == b,
    }
}

fn is_scalar(node: &Node<'_>) -> bool {
    !matches!(node, Node::List(_) | Node::Map(_))
}

/// `whole @> part`, as PostgreSQL's `JsonbDeepContains`: keys with values that contain, elements in any order. A list
/// contains a scalar on the outside only.
///
/// # Errors
/// `XX001` for damaged bytes.
pub fn contains(whole: &Node<'_>, part: &Node<'_>) -> Result<bool, SqlError> {
    match (whole, part) {
        (Node::List(list), scalar) if is_scalar(scalar) => holds(list, scalar),
        (a, b) if is_scalar(a) && is_scalar(b) => Ok(same_scalar(a, b)),
        (a, b) => deep(a, b, 0),
    }
}

fn holds(list: &List<'_>, scalar: &Node<'_>) -> Result<bool, SqlError> {
    for item in list.iter() {
        if same_scalar(&item?, scalar) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn deep(whole: &Node<'_>, part: &Node<'_>, depth: usize) -> Result<bool, SqlError> {
    if depth > document::DEPTH_MAX {
        return Err(too_deep());
    }
    match (whole, part) {
        (Node::Map(whole), Node::Map(part)) => {
            if part.len() > whole.len() {
                return Ok(false);
            }
            for entry in part.iter() {
                let (key, wanted) = entry?;
                match whole.find(key)? {
                    Some(found) if deep(&found, &wanted, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Node::List(whole), Node::List(part)) => {
            for wanted in part.iter() {
                crate::running::check()?;
                let wanted = wanted?;
                let mut found = false;
                if is_scalar(&wanted) {
                    found = holds(whole, &wanted)?;
                } else {
                    for item in whole.iter() {
                        if deep(&item?, &wanted, depth + 1)? {
                            found = true;
                            break;
                        }
                    }
                }
                if !found {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (a, b) if is_scalar(a) && is_scalar(b) => Ok(same_scalar(a, b)),
        _ => Ok(false),
    }
}
