//! `upper`, `lower`, `initcap`, and `left` and `right`: texts by their characters.
//!
//! As in PostgreSQL's `C.UTF-8` a character becomes one character (`towupper`, `towlower`): `ß` stays as it is in capital
//! letters, and a sigma at the end of a word is like any other.

use std::sync::LazyLock;

use regex_automata::meta::Regex;

use super::define::{P, PgFunction, f, oid};
use crate::types::oid as t;

/// The only character that there is, if it is one.
fn single(mut chars: impl Iterator<Item = char>) -> Option<char> {
    let first = chars.next();
    first.filter(|_| chars.next().is_none())
}

/// The simple mapping to a capital letter. Of characters whose full mapping is several ones only Greek letters with an
/// iota below have another one.
fn upper(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    single(c.to_uppercase()).unwrap_or_else(|| {
        let distance = match c {
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
            _ => 0,
        };
        char::from_u32(u32::from(c) + distance).unwrap_or(c)
    })
}

/// The simple mapping to a small letter. Only that of `İ` is not the full one.
pub(crate) fn lower(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    single(c.to_lowercase()).unwrap_or(if c == 'İ' { 'i' } else { c })
}

/// Whether a character is part of a word (`iswalnum`): letters and digits, other numbers not.
fn is_of_word(c: char) -> bool {
    static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("^\\p{Nd}$").ok());
    let is_digit = || DIGIT.as_ref().is_some_and(|digit| digit.is_match(&*c.encode_utf8(&mut [0; 4])));
    c.is_alphabetic() || c.is_ascii_digit() || !c.is_ascii() && c.is_numeric() && is_digit()
}

/// The first letter of each word a capital one, the others small.
fn initcap(text: &str) -> String {
    let mut within = false;
    let change = |c: char| {
        let c = if within { lower(c) } else { upper(c) };
        within = is_of_word(c);
        c
    };
    text.chars().map(change).collect()
}

/// Where the character of that number begins; the end if there are not as many.
fn place(text: &str, number: usize) -> usize {
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

/// The first `count` characters; all but the last ones, if it is negative.
fn left(text: &str, count: i64) -> &str {
    let count = match usize::try_from(count) {
        Ok(count) => count,
        Err(_) => {
            let cut = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
            text.chars().count().saturating_sub(cut)
        }
    };
    &text[..place(text, count)]
}

/// The last `count` characters; all but the first ones, if it is negative. The least of all integers, which has no
/// opposite, cuts nothing.
fn right(text: &str, count: i64) -> &str {
    let cut = match usize::try_from(count) {
        Ok(count) => text.chars().count().saturating_sub(count),
        Err(_) if count == i64::from(i32::MIN) => 0,
        Err(_) => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    &text[place(text, cut)..]
}

/// All of them.
pub(super) fn all() -> Vec<PgFunction> {
    vec![
        f("upper", &[P::Text], oid(t::TEXT), |call| {
            call.texts(|row| Ok(call.text(0, row).map(|text| text.chars().map(upper).collect())))
        }),
        f("lower", &[P::Text], oid(t::TEXT), |call| {
            call.texts(|row| Ok(call.text(0, row).map(|text| text.chars().map(lower).collect())))
        }),
        f("initcap", &[P::Text], oid(t::TEXT), |call| call.texts(|row| Ok(call.text(0, row).map(initcap)))),
        f("left", &[P::Text, P::Int], oid(t::TEXT), |call| {
            call.texts(|row| Ok(call.text(0, row).zip(call.int(1, row)).map(|(text, n)| left(text, n).to_owned())))
        }),
        f("right", &[P::Text, P::Int], oid(t::TEXT), |call| {
            call.texts(|row| Ok(call.text(0, row).zip(call.int(1, row)).map(|(text, n)| right(text, n).to_owned())))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_character_for_one() {
        let text = |change: fn(char) -> char, text: &str| text.chars().map(change).collect::<String>();
        assert_eq!(text(upper, "straße ŉ ﬁ ᾳ ᾂ ΐ ÿ ı ǆ ǅ ς"), "STRAßE ŉ ﬁ ᾼ ᾊ ΐ Ÿ I Ǆ Ǆ Σ");
        assert_eq!(text(lower, "ΑΣ İ K ẞ ǅ ᾼ"), "ασ i k ß ǆ ᾳ");
        assert_eq!(initcap("hello wORLD-x 1st o'neil éa ½a ٣A"), "Hello World-X 1st O'Neil Éa ½A ٣a");
    }

    #[test]
    fn ends() {
        assert_eq!((left("äöü", 2), left("äöü", -1), left("äöü", -3), left("äöü", 9)), ("äö", "äö", "", "äöü"));
        assert_eq!((right("äöü", 2), right("äöü", -1), right("äöü", -3), right("äöü", 9)), ("öü", "öü", "", "äöü"));
        let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
        assert_eq!((left("aaa", least), left("aaa", most)), ("", "aaa"));
        assert_eq!((right("aaa", least), right("aaa", least + 1), right("aaa", most)), ("aaa", "", "aaa"));
    }
}
