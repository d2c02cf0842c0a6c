//! Tokens of a path. A rule that matches more wins, and of those that match as much the one that PostgreSQL's scanner has first.

use crate::wire::SqlError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// One of `?%$.[]{}()|&!=<>@#,*:-+/`.
    Special(char),
    And,
    Or,
    /// `**`
    Any,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    /// A word without quotes: maybe a keyword.
    Word(String),
    Text(String),
    Variable(String),
    Integer(String),
    Number(String),
}

/// A token, and where it stands.
pub(super) struct Placed {
    pub token: Token,
    /// The text of it that errors show.
    pub shown: String,
}

/// `42601` at a text; without one, at the end.
pub(super) fn syntax(message: &str, near: &str) -> SqlError {
    SqlError::new(
        "42601",
        match near {
            "" => format!("{message} at end of jsonpath input"),
            near => format!("{message} at or near \"{near}\" of jsonpath input"),
        },
    )
}

fn invalid(detail: &str) -> SqlError {
    SqlError::new("22P02", "invalid input syntax for type jsonpath").with_detail(detail)
}

fn is_special(c: char) -> bool {
    "?%$.[]{}()|&!=<>@#,*:-+/".contains(c)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}

/// What words are of.
fn is_other(c: char) -> bool {
    !is_special(c) && !is_blank(c) && c != '\\' && c != '"'
}

/// All tokens of a text.
///
/// # Errors
/// `42601`, `22P02`, `22P05` as PostgreSQL has them.
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, SqlError> {
    let mut lexer = Lexer { rest: text };
    let mut out = Vec::new();
    while let Some(token) = lexer.next()? {
        out.push(token);
    }
    Ok(out)
}

struct Lexer<'t> {
    rest: &'t str,
}

/// Bytes at the start of a text whose characters are such.
fn run(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

fn digits(text: &str) -> usize {
    run(text, |c| c.is_ascii_digit())
}

/// Bytes of a number at the start of a text: whole, with a point, with an exponent; 0 of a form that is not there.
struct NumberForms {
    integer: usize,
    decimal: usize,
    real: usize,
    /// An exponent with a sign and without digits.
    broken: usize,
}

fn number_forms(text: &str) -> NumberForms {
    let integer = match text.as_bytes().first() {
        Some(b'0') => 1,
        Some(b'1'..=b'9') => digits(text),
        _ => 0,
    };
    let fraction = |at: usize| text[at..].starts_with('.').then(|| digits(&text[at + 1..]));
    let decimal = match (integer, fraction(integer)) {
        (0, Some(0)) | (_, None) => 0,
        (_, Some(count)) => integer + 1 + count,
    };
    let (mut real, mut broken) = (0, 0);
    for base in [integer, decimal] {
        let exponent = &text[base..];
        if base == 0 || !exponent.starts_with(['e', 'E']) {
            continue;
        }
        let sign = usize::from(exponent[1..].starts_with(['+', '-']));
        match digits(&exponent[1 + sign..]) {
            0 if sign == 1 => broken = broken.max(base + 2),
            0 => {}
            count => real = real.max(base + 1 + sign + count),
        }
    }
    NumberForms { integer, decimal, real, broken }
}

impl<'t> Lexer<'t> {
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn next(&mut self) -> Result<Option<Placed>, SqlError> {
        loop {
            let rest = self.rest;
            let Some(first) = rest.chars().next() else { return Ok(None) };
            if is_blank(first) {
                self.take(run(rest, is_blank));
                continue;
            }
            if rest.starts_with("/*") {
                self.comment()?;
                continue;
            }
            if let Some(token) = self.operator() {
                return Ok(Some(token));
            }
            if let Some(token) = self.number()? {
                return Ok(Some(token));
            }
            if first == '"' {
                self.take(1);
                let text = self.quoted()?;
                return Ok(Some(Placed { token: Token::Text(text), shown: "\"".into() }));
            }
            if first == '$' {
                if rest[1..].starts_with('"') {
                    self.take(2);
                    let text = self.quoted()?;
                    return Ok(Some(Placed { token: Token::Variable(text), shown: "\"".into() }));
                }
                let shown = self.take(1 + run(&rest[1..], is_other));
                let token = match &shown[1..] {
                    "" => Token::Special('$'),
                    name => Token::Variable(name.to_owned()),
                };
                return Ok(Some(Placed { token, shown: shown.to_owned() }));
            }
            if is_special(first) {
                self.take(1);
                return Ok(Some(Placed { token: Token::Special(first), shown: first.into() }));
            }
            // A word that a comment follows is forgotten.
            if let Some(token) = self.word()? {
                return Ok(Some(token));
            }
        }
    }

    fn operator(&mut self) -> Option<Placed> {
        const TWO: [(&str, Token); 8] = [
            ("&&", Token::And),
            ("||", Token::Or),
            ("**", Token::Any),
            ("<=", Token::LessOrEqual),
            ("==", Token::Equal),
            ("<>", Token::NotEqual),
            ("!=", Token::NotEqual),
            (">=", Token::GreaterOrEqual),
        ];
        const ONE: [(&str, Token); 2] = [("<", Token::Less), (">", Token::Greater)];
        let (text, token) = TWO.iter().chain(&ONE).find(|(text, _)| self.rest.starts_with(text))?;
        self.take(text.len());
        Some(Placed { token: token.clone(), shown: (*text).to_owned() })
    }

    fn number(&mut self) -> Result<Option<Placed>, SqlError> {
        let rest = self.rest;
        let forms = number_forms(rest);
        let NumberForms { integer, decimal, real, broken } = forms;
        let best = integer.max(decimal).max(real);
        if best == 0 {
            return Ok(None);
        }
        let junk = |of: usize| match rest[of..].chars().next() {
            Some(c) if of > 0 && is_other(c) => of + c.len_utf8(),
            _ => 0,
        };
        let junk = junk(integer).max(junk(decimal)).max(junk(real));
        let word = run(rest, is_other);
        if best >= broken && best >= junk && best >= word {
            let text = self.take(best).to_owned();
            let token = match best == integer {
                true => Token::Integer(text.clone()),
                false => Token::Number(text.clone()),
            };
            return Ok(Some(Placed { token, shown: text }));
        }
        if broken >= junk && broken >= word {
            return Err(syntax("invalid numeric literal", &rest[..broken]));
        }
        if junk >= word {
            return Err(syntax("trailing junk after numeric literal", &rest[..junk]));
        }
        Ok(None)
    }

    /// Past a comment.
    fn comment(&mut self) -> Result<(), SqlError> {
        match self.rest[2..].find("*/") {
            Some(at) => {
                self.take(2 + at + 2);
                Ok(())
            }
            None => Err(syntax("unexpected end of comment", "")),
        }
    }

    /// A word; `None`: a comment stands behind it.
    fn word(&mut self) -> Result<Option<Placed>, SqlError> {
        let mut out = String::new();
        let mut shown = "";
        loop {
            let plain = self.take(run(self.rest, is_other));
            if !plain.is_empty() {
                shown = plain;
            }
            out.push_str(plain);
            match self.rest.chars().next() {
                Some('\\') => self.escape(&mut out)?,
                Some(c) if is_blank(c) => {
                    // The blanks belong to it.
                    shown = self.take(run(self.rest, is_blank));
                    break;
                }
                Some('/') if self.rest.starts_with("/*") => {
                    self.comment()?;
                    return Ok(None);
                }
                _ => break,
            }
        }
        let shown = if shown.trim().is_empty() { out.clone() } else { shown.to_owned() };
        Ok(Some(Placed { token: Token::Word(out), shown }))
    }

    /// What stands up to the closing quote.
    fn quoted(&mut self) -> Result<String, SqlError> {
        let mut out = String::new();
        loop {
            let plain = self.take(run(self.rest, |c| c != '"' && c != '\\'));
            out.push_str(plain);
            match self.rest.chars().next() {
                Some('"') => {
                    self.take(1);
                    return Ok(out);
                }
                Some(_) => self.escape(&mut out)?,
                None => return Err(syntax("unexpected end of quoted string", "")),
            }
        }
    }

    /// A backslash and what it stands for.
    fn escape(&mut self, out: &mut String) -> Result<(), SqlError> {
        let Some(c) = self.rest[1..].chars().next().filter(|c| *c != '\n') else {
            return Err(syntax("unexpected end after backslash", &self.rest[..1]));
        };
        match c {
            'u' => return self.unicode(out),
            'x' => {
                let digits = self.rest.get(2..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
                let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
                    let count = run(&self.rest[2..], |c| c.is_ascii_hexdigit()).min(1);
                    return Err(syntax("invalid hex character sequence", &self.rest[..2 + count]));
                };
                put(code, out)?;
                self.take(4);
                return Ok(());
            }
            'b' => out.push('\x08'),
            'f' => out.push('\x0c'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'v' => out.push('\x0b'),
            other => out.push(other),
        }
        self.take(1 + c.len_utf8());
        Ok(())
    }

    /// `\uXXXX` and `\u{X…}`, as many as follow one another: two may be one character.
    fn unicode(&mut self, out: &mut String) -> Result<(), SqlError> {
        let mut high: Option<u32> = None;
        let whole = self.rest;
        while self.rest.starts_with("\\u") {
            let body = &self.rest[2..];
            let braced = body.starts_with('{');
            let start = usize::from(braced);
            let count = run(&body[start..], |c| c.is_ascii_hexdigit()).min(if braced { 6 } else { 4 });
            let closed = !braced || body[start + count..].starts_with('}');
            if !closed || count == 0 || !braced && count < 4 {
                let used = whole.len() - body.len() + start + count;
                return Err(syntax("invalid unicode sequence", &whole[..used]));
            }
            let code = u32::from_str_radix(&body[start..start + count], 16).unwrap_or(u32::MAX);
            self.take(2 + start + count + usize::from(braced));
            match (code, high) {
                (0xD800..=0xDBFF, Some(_)) => {
                    return Err(invalid("Unicode high surrogate must not follow a high surrogate."));
                }
                (0xD800..=0xDBFF, None) => high = Some(code),
                (0xDC00..=0xDFFF, Some(first)) => {
                    put(0x10000 + ((first & 0x3FF) << 10) + (code & 0x3FF), out)?;
                    high = None;
                }
                (0xDC00..=0xDFFF, None) | (_, Some(_)) => {
                    return Err(invalid("Unicode low surrogate must follow a high surrogate."));
                }
                (code, None) => put(code, out)?,
            }
        }
        match high {
            Some(_) => Err(invalid("Unicode low surrogate must follow a high surrogate.")),
            None => Ok(()),
        }
    }
}

fn put(code: u32, out: &mut String) -> Result<(), SqlError> {
    if code == 0 {
        return Err(SqlError::new("22P05", "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text."));
    }
    // As `pg_unicode_to_server` refuses them.
    out.push(char::from_u32(code).ok_or_else(|| SqlError::new("42601", "invalid Unicode code point"))?);
    Ok(())
}
