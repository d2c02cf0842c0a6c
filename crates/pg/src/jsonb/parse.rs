//! Text to documents, as PostgreSQL's `jsonb_in` reads it: of keys that are equal the last stays; keys are sorted by
//! length, then bytes; numbers keep their digits and lose their exponents; escapes become characters.

use resurgam_numeric::Numeric;

use super::Value;
use crate::decode::check_json;
use crate::running;
use crate::wire::SqlError;

/// A document from its text.
///
/// # Errors
/// 22P02 for what is no JSON, 22P05 for `\u0000`, 22003 for numbers that are too large.
pub fn parse(text: &str) -> Result<Value, SqlError> {
    check_json(text)?;
    Reader { rest: text, read: 0 }.value()
}

/// Reads what has been found well-formed, and not too deep.
struct Reader<'t> {
    rest: &'t str,
    /// Values so far: each takes more than its text.
    read: usize,
}

/// Values after which it is asked whether to go on.
const VALUES_TOGETHER: usize = 4096;

fn broken() -> SqlError {
    SqlError::new("22P02", "invalid input syntax for type json")
}

impl Reader<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Result<Value, SqlError> {
        self.read += 1;
        if self.read.is_multiple_of(VALUES_TOGETHER) {
            running::check()?;
        }
        self.skip();
        if self.eat('[') {
            let mut list = Vec::new();
            while !self.eat(']') {
                list.push(self.value()?);
                let _ = self.eat(',');
                if self.rest.is_empty() {
                    return Err(broken());
                }
            }
            return Ok(Value::List(list));
        }
        if self.eat('{') {
            let mut map: Vec<(String, Value)> = Vec::new();
            while !self.eat('}') {
                self.skip();
                let key = self.string()?;
                if !self.eat(':') {
                    return Err(broken());
                }
                map.push((key, self.value()?));
                let _ = self.eat(',');
                if self.rest.is_empty() {
                    return Err(broken());
                }
            }
            return Ok(Value::map(map));
        }
        if self.rest.starts_with('"') {
            return self.string().map(Value::Text);
        }
        let end = self.rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => {
                let number = Numeric::parse(number, None);
                Value::Number(number.map_err(crate::functions::numeric::column::numeric_error)?.encoded())
            }
        })
    }

    fn string(&mut self) -> Result<String, SqlError> {
        self.rest = self.rest.strip_prefix('"').ok_or_else(broken)?;
        let mut out = String::new();
        let mut high: Option<u32> = None;
        loop {
            let mut chars = self.rest.chars();
            let c = chars.next().ok_or_else(broken)?;
            self.rest = chars.as_str();
            let lone = || broken().with_detail("Unicode low surrogate must follow a high surrogate.");
            if c != '\\' {
                if high.is_some() {
                    return Err(lone());
                }
                if c == '"' {
                    return Ok(out);
                }
                out.push(c);
                continue;
            }
            let escape = chars.next().ok_or_else(broken)?;
            self.rest = chars.as_str();
            if escape != 'u' {
                if high.is_some() {
                    return Err(lone());
                }
                out.push(match escape {
                    'b' => '\x08',
                    'f' => '\x0c',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                });
                continue;
            }
            let digits = self.rest.get(..4).ok_or_else(broken)?;
            let unit = u32::from_str_radix(digits, 16).map_err(|_| broken())?;
            self.rest = &self.rest[4..];
            match (unit, high.take()) {
                (0, _) => {
                    return Err(SqlError::new("22P05", "unsupported Unicode escape sequence")
                        .with_detail("\\u0000 cannot be converted to text."));
                }
                (0xd800..=0xdbff, None) => high = Some(unit),
                (0xdc00..=0xdfff, Some(first)) => {
                    let code = 0x10000 + ((first & 0x3ff) << 10) + (unit & 0x3ff);
                    out.push(char::from_u32(code).ok_or_else(lone)?);
                }
                (0xd800..=0xdfff, _) | (_, Some(_)) => return Err(lone()),
                (code, None) => out.push(char::from_u32(code).ok_or_else(lone)?),
            }
        }
    }
}
