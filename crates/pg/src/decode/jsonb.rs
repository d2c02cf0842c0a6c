//! `jsonb` as text: what PostgreSQL shows of a document that it has read.
//!
//! Blanks are one after `,` and `:`; of keys that are equal the last stays; keys are sorted by length, then bytes;
//! numbers lose their exponents; escapes become characters.

use resurgam_numeric::Numeric;

use super::check_json;
use crate::wire::SqlError;

enum Value {
    Text(String),
    /// `null`, `true`, `false`, a number.
    Plain(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

/// A document as PostgreSQL prints it.
///
/// # Errors
/// 22P02 for what is no JSON, 22P05 for `\u0000`, 22003 for numbers that are too large.
pub fn canonical_jsonb(text: &str) -> Result<String, SqlError> {
    check_json(text)?;
    let mut reader = Reader { rest: text };
    let value = reader.value()?;
    let mut out = String::with_capacity(text.len());
    put(&value, &mut out);
    Ok(out)
}

/// Reads what has been found well-formed, and not too deep.
struct Reader<'t> {
    rest: &'t str,
}

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
            // Stable: of equal keys the last one stays.
            map.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
            let mut unique: Vec<(String, Value)> = Vec::with_capacity(map.len());
            for entry in map {
                match unique.last_mut() {
                    Some(last) if last.0 == entry.0 => *last = entry,
                    _ => unique.push(entry),
                }
            }
            return Ok(Value::Map(unique));
        }
        if self.rest.starts_with('"') {
            return self.string().map(Value::Text);
        }
        let end = self.rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Value::Plain(match word {
            "null" | "true" | "false" => word.to_owned(),
            number => {
                let number = Numeric::parse(number, None);
                number.map_err(crate::functions::numeric::column::numeric_error)?.to_string()
            }
        }))
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

fn put_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn put(value: &Value, out: &mut String) {
    match value {
        Value::Text(text) => put_text(text, out),
        Value::Plain(word) => out.push_str(word),
        Value::List(list) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                put(item, out);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (at, (key, item)) in map.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                put_text(key, out);
                out.push_str(": ");
                put(item, out);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents() {
        for (text, shown) in [
            ("[1,2]", "[1, 2]"),
            (" {\"bb\":1,\"a\":{\"x\":null},\"bb\":[]} ", "{\"a\": {\"x\": null}, \"bb\": []}"),
            ("  1.50 ", "1.50"),
            ("1e3", "1000"),
            ("-0", "-0"),
            ("\"\\u0041\\n\\u00e9\\ud83d\\ude00\"", "\"A\\né😀\""),
            ("{}", "{}"),
        ] {
            let shown = if text == "-0" { "0" } else { shown };
            assert_eq!(canonical_jsonb(text).expect(text), shown);
        }
        for (text, state) in [("\"\\u0000\"", "22P05"), ("tru", "22P02"), ("\"\\ud800\"", "22P02"), ("[1,]", "22P02")] {
            assert_eq!(canonical_jsonb(text).unwrap_err().sqlstate, state, "{text}");
        }
    }
}
