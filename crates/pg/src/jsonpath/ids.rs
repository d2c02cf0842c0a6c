//! The ids that `.keyvalue()` gives: where an object begins in its document as PostgreSQL keeps it.
//!
//! Documents are kept in another form here, so the place is counted: a container has four bytes, and four for each key and
//! value; then keys, then values, where numbers and containers begin at multiples of four (`convertJsonbValue`).

use resurgam_engine::document::{self, Node};
use resurgam_numeric::Numeric;

use super::too_deep;
use crate::functions::numeric::column::numeric_error;
use crate::wire::SqlError;

/// Bytes of a container's header, and of what it says of each part.
const WORD: i64 = 4;

/// Bytes between the beginnings of a container and of one that is part of it, or the same; 0 for one that is no part of it.
///
/// # Errors
/// `XX001` for damaged bytes.
pub(super) fn offset_within(whole: &Node<'_>, part: &Node<'_>) -> Result<i64, SqlError> {
    let Some(target) = part.place() else { return Ok(0) };
    let mut at = 0;
    Ok(walk(whole, target, &mut at, 0)?.unwrap_or(0))
}

fn align(at: &mut i64) {
    *at = (*at + WORD - 1) / WORD * WORD;
}

/// Counts past a value; where the target begins, if it is in there.
fn walk(node: &Node<'_>, target: usize, at: &mut i64, depth: usize) -> Result<Option<i64>, SqlError> {
    crate::running::check()?;
    if depth > document::DEPTH_MAX {
        return Err(too_deep());
    }
    match node {
        Node::Null | Node::Bool(_) => {}
        Node::Text(text) => *at += text.len() as i64,
        Node::Number(number) => {
            align(at);
            *at += number_bytes(&Numeric::decode(number).map_err(numeric_error)?);
        }
        Node::List(_) | Node::Map(_) => {
            align(at);
            if node.place() == Some(target) {
                return Ok(Some(*at));
            }
            return parts(node, target, at, depth);
        }
    }
    Ok(None)
}

fn parts(node: &Node<'_>, target: usize, at: &mut i64, depth: usize) -> Result<Option<i64>, SqlError> {
    match node {
        Node::List(list) => {
            *at += WORD * (1 + list.len() as i64);
            for item in list.iter() {
                if let Some(found) = walk(&item?, target, at, depth + 1)? {
                    return Ok(Some(found));
                }
            }
        }
        Node::Map(map) => {
            *at += WORD * (1 + 2 * map.len() as i64);
            for place in 0..map.len() {
                *at += map.key(place)?.len() as i64;
            }
            for place in 0..map.len() {
                if let Some(found) = walk(&map.value(place)?, target, at, depth + 1)? {
                    return Ok(Some(found));
                }
            }
        }
        _ => {}
    }
    Ok(None)
}

/// Bytes of a number in PostgreSQL: a length, a header, and two for four digits.
fn number_bytes(number: &Numeric) -> i64 {
    const LENGTH: i64 = 4;
    let mut text = String::new();
    number.write_text(&mut text);
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let shown = fraction.len();
    let whole = whole.trim_start_matches('0');
    // Groups of four to both sides of the point, without those of zeros at the ends.
    let padded = format!("{}{whole}{fraction}{}", "0".repeat(pad(whole.len())), "0".repeat(pad(fraction.len())));
    let groups: Vec<&[u8]> = padded.as_bytes().chunks(4).collect();
    let is_zero = |group: &&&[u8]| group.iter().all(|digit| *digit == b'0');
    let leading = groups.iter().take_while(is_zero).count();
    let trailing = groups[leading..].iter().rev().take_while(is_zero).count();
    let count = (groups.len() - leading - trailing) as i64;
    let weight = whole.len().div_ceil(4) as i64 - 1 - leading as i64;
    let is_short = shown <= 63 && (count == 0 || (-64..=63).contains(&weight));
    LENGTH + if is_short { 2 } else { 4 } + 2 * count
}

fn pad(digits: usize) -> usize {
    (4 - digits % 4) % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_in_postgresql() {
        // pg_column_size of jsonb scalars, less its twelve bytes of headers.
        for (text, bytes) in
            [("0", 6), ("1", 8), ("10000", 8), ("10001", 10), ("0.0001", 8), ("1.5", 10), ("123456789.25", 14)]
        {
            let number = Numeric::parse(text, None).expect("a number");
            assert_eq!(number_bytes(&number), bytes, "{text}");
        }
    }
}
