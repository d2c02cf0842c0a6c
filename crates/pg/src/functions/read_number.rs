//! `to_number`: numbers read by the templates of `to_char`, by the rules of PostgreSQL's `formatting.c`, in locale C.

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use resurgam_numeric::{Numeric, Typmod};

use super::define::{P, PgFunction, Returns, f};
use super::format_number::{Anchor, Description, Key, Node, parse};
use super::numeric::DYNAMIC;
use super::numeric::column::{collect, numeric_error};
use crate::wire::SqlError;

/// Bytes of a template from which on PostgreSQL gives NULL.
const TEMPLATE_MAX: usize = i32::MAX as usize / 8;

/// What has been read of a text.
struct Reading<'a> {
    text: &'a [u8],
    at: usize,
    description: &'a Description,
    sign: Option<char>,
    /// Digits and the point.
    digits: String,
    /// Digits before the point and behind it.
    before: i32,
    behind: i32,
    point: bool,
}

impl Reading<'_> {
    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }
    /// Bytes of the character that begins here.
    fn width(&self) -> usize {
        match self.byte() {
            Some(byte) if byte & 0xe0 == 0xc0 => 2,
            Some(byte) if byte & 0xf0 == 0xe0 => 3,
            Some(byte) if byte & 0xf8 == 0xf0 => 4,
            _ => 1,
        }
    }

    /// Leaves out so many characters, until one that may belong to the number.
    fn skip(&mut self, characters: usize) {
        for _ in 0..characters {
            match self.byte() {
                Some(byte) if !b"0123456789.,+-".contains(&byte) => self.at += self.width(),
                _ => return,
            }
        }
    }

    /// A sign here.
    fn sign_here(&self) -> Option<char> {
        match self.byte() {
            Some(b'-') => Some('-'),
            Some(b'+') => Some('+'),
            _ => None,
        }
    }

    /// Reads for a digit or the point of the template; the last byte read is left to the caller.
    fn part(&mut self, is_digit: bool) {
        for _ in 0..2 {
            if self.byte() == Some(b' ') {
                self.at += 1;
            }
        }
        if self.is_at_end() {
            return;
        }
        if self.sign.is_none() && is_digit && self.before + self.behind == 0 {
            let is_locale = self.description.anchored && self.description.anchor == Anchor::Before;
            let found = match self.byte() {
                Some(b'<') if !is_locale && self.description.bracket => Some('-'),
                _ => self.sign_here(),
            };
            if found.is_some() {
                self.sign = found;
                self.at += 1;
            }
        }
        let Some(byte) = self.byte() else { return };
        let mut is_read = false;
        if byte.is_ascii_digit() {
            if self.point && self.behind == self.description.behind {
                return;
            }
            self.digits.push(char::from(byte));
            match self.point {
                true => self.behind += 1,
                false => self.before += 1,
            }
            is_read = true;
        } else if self.description.decimal && !self.point && byte == b'.' {
            self.digits.push('.');
            self.point = true;
            is_read = true;
        }
        // A sign behind the number.
        if self.sign.is_none() && self.before + self.behind > 0 {
            let next = self.text.get(self.at + 1);
            if self.description.anchored && is_read && next.is_some_and(|next| !next.is_ascii_digit()) {
                self.at += 1;
                match self.sign_here() {
                    Some(sign) => self.sign = Some(sign),
                    None => self.at -= 1,
                }
            } else if !is_read && !self.description.anchored && (self.description.plus || self.description.minus) {
                self.sign = self.sign_here();
            }
        }
    }

    /// Reads what the template says.
    fn all(&mut self, nodes: &[Node]) {
        for node in nodes {
            if self.is_at_end() {
                return;
            }
            let key = match node {
                // Any character is in the place of one that is no pattern.
                Node::Char(_) => {
                    self.at += self.width();
                    continue;
                }
                Node::Action(key) => *key,
            };
            let is_here = match key {
                Key::Nine | Key::Zero | Key::Point | Key::Decimal => {
                    self.part(matches!(key, Key::Nine | Key::Zero));
                    true
                }
                Key::Comma | Key::Group => !self.description.fill && self.byte() == Some(b','),
                Key::Currency => {
                    self.skip(1);
                    false
                }
                Key::Th(_) => {
                    if !self.description.decimal {
                        self.skip(2);
                    }
                    false
                }
                Key::Minus | Key::Plus | Key::Sign => {
                    let wanted = match (key, self.sign_here()) {
                        (Key::Minus, Some('-')) | (Key::Sign, Some('-')) => Some('-'),
                        (Key::Plus, Some('+')) | (Key::Sign, Some('+')) => Some('+'),
                        _ => None,
                    };
                    match wanted {
                        Some(_) => self.sign = wanted,
                        None => self.skip(1),
                    }
                    wanted.is_some()
                }
                _ => false,
            };
            if is_here {
                self.at += 1;
            }
        }
    }
}

/// A number by a template; `None` by one that is empty.
fn number(text: &str, template: &str) -> Result<Option<Numeric>, SqlError> {
    if template.is_empty() || template.len() >= TEMPLATE_MAX {
        return Ok(None);
    }
    let (nodes, description) = parse(template)?;
    if description.exponent {
        return Err(SqlError::unsupported("\"EEEE\" not supported for input"));
    }
    if description.roman {
        return Err(SqlError::unsupported("\"RN\" not supported for input"));
    }
    let mut reading = Reading {
        text: text.as_bytes(),
        at: 0,
        description: &description,
        sign: None,
        digits: String::new(),
        before: 0,
        behind: 0,
        point: false,
    };
    reading.all(&nodes);
    let digits = reading.digits.strip_suffix('.').unwrap_or(&reading.digits);
    let read = match reading.sign {
        Some(sign) => format!("{sign}{digits}"),
        None => digits.to_owned(),
    };
    let scale = reading.behind;
    let precision = description.before.saturating_add(description.shift).saturating_add(scale);
    // As the modifier of a column would say it, whether or not there can be such a column.
    let typmod = Typmod::from_pg(((precision.clamp(0, 0x7ffe) << 16) | (scale & 0xffff)) + 4);
    let value = Numeric::parse(&read, typmod).map_err(numeric_error)?;
    if !description.shifted {
        return Ok(Some(value));
    }
    let power = Numeric::from(10i64).power(&Numeric::from(-description.shift)).map_err(numeric_error)?;
    value.mul(&power).map(Some).map_err(numeric_error)
}

pub(super) fn all() -> Vec<PgFunction> {
    let numeric = Returns::Fixed(Arc::new(Field::new("", DYNAMIC, true)));
    vec![f("to_number", &[P::Text, P::Text], numeric, |call| {
        collect(call.rows, |row| match (call.text(0, row), call.text(1, row)) {
            (Some(text), Some(template)) => {
                crate::running::check()?;
                number(text, template)
            }
            _ => Ok(None),
        })
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_templates() {
        for (text, template, out) in [
            ("-34,338,492", "99G999G999", "-34338492"),
            ("-34,338,492.654,878", "99G999G999D999G999", "-34338492.654878"),
            ("<564646.654564>", "999999.999999PR", "-564646.654564"),
            ("0.00001-", "9.999999S", "-0.00001"),
            ("5.01-", "FM9.999999S", "-5.01"),
            ("5.01-", "FM9.999999MI", "-5.01"),
            ("5 4 4 4 4 8 . 7 8", "9 9 9 9 9 9 . 9 9", "544448.78"),
            (".01", "FM9.99", "0.01"),
            (".-01", "99.99", "-0.01"),
            (" . 0 1-", " 9 9 . 9 9 S", "-0.01"),
            ("34,50", "999,99", "3450"),
            ("$1,234.56", "L99,999.99", "1234.56"),
            ("42nd", "99th", "42"),
            ("123456", "999V99", "123.4500000000000000"),
        ] {
            let read = number(text, template).expect(template).map(|value| value.to_string());
            assert_eq!(read.as_deref(), Some(out), "{text} {template}");
        }
        assert!(number("1", "").expect("nothing").is_none());
        assert_eq!(number("1", "9EEEE").unwrap_err().sqlstate, "0A000");
        assert_eq!(number("x", "9").unwrap_err().sqlstate, "22P02");
    }
}
