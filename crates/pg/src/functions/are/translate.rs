//! PostgreSQL's syntax of regular expressions to that of the `regex` crates (`src/backend/regex/regc_lex.c`).

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use super::Options;
use crate::wire::SqlError;

/// A translated expression, and what it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Syntax {
    pub expression: String,
    pub greedy: bool,
    pub lazy: bool,
    pub alternatives: bool,
}

/// Deepest nesting of parentheses.
const DEPTH_MAX: usize = 200;

fn invalid(why: &str) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {why}"))
}

/// Translates an expression.
///
/// # Errors
/// 2201B for what is none, 0A000 for what the crates cannot do.
pub(super) fn translate(pattern: &str, mut options: Options) -> Result<Syntax, SqlError> {
    let mut rest = pattern;
    if let Some(behind) = rest.strip_prefix("***=") {
        (rest, options.literal) = (behind, true);
    } else if let Some(behind) = rest.strip_prefix("***:") {
        rest = behind;
    } else if rest.starts_with("***") {
        return Err(invalid("quantifier operand invalid"));
    } else if !options.literal
        && let Some((letters, behind)) = rest.strip_prefix("(?").and_then(|rest| rest.split_once(')'))
        && !letters.is_empty()
        && letters.bytes().all(|letter| letter.is_ascii_alphabetic())
    {
        for letter in letters.chars() {
            if !options.set(letter)? {
                return Err(invalid("invalid embedded option"));
            }
        }
        rest = behind;
    }
    let mut out = Syntax::default();
    if options.ignore_case {
        out.expression.push_str("(?i)");
    }
    if options.literal {
        rest.chars().for_each(|c| literal(&mut out.expression, c));
        return Ok(out);
    }
    let mut state = State { chars: rest.chars().peekable(), options, out, depth: 0, groups: 0 };
    state.expression()?;
    Ok(state.out)
}

fn literal(out: &mut String, c: char) {
    match c.is_alphanumeric() {
        true => out.push(c),
        false => {
            let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
        }
    }
}

/// What a quantifier may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Atom,
    Constraint,
}

struct State<'p> {
    chars: Peekable<Chars<'p>>,
    options: Options,
    out: Syntax,
    depth: usize,
    groups: usize,
}

impl State<'_> {
    fn put(&mut self, text: &str) {
        self.out.expression.push_str(text);
    }

    fn expression(&mut self) -> Result<(), SqlError> {
        let mut before = Before::Nothing;
        while let Some(c) = self.chars.next() {
            match c {
                '|' => {
                    self.out.alternatives = true;
                    self.put("|");
                    before = Before::Nothing;
                    continue;
                }
                '(' => {
                    if self.chars.peek() == Some(&'?') {
                        self.chars.next();
                        match self.chars.next() {
                            Some(':') => self.put("(?:"),
                            Some('=' | '!' | '<') => {
                                return Err(SqlError::unsupported(
                                    "regular expressions that look ahead or behind are not supported",
                                ));
                            }
                            Some('#') => {
                                if !self.chars.any(|c| c == ')') {
                                    return Err(invalid("parentheses () not balanced"));
                                }
                                continue;
                            }
                            _ => return Err(invalid("quantifier operand invalid")),
                        }
                    } else {
                        self.groups += 1;
                        self.put("(");
                    }
                    self.depth += 1;
                    if self.depth > DEPTH_MAX {
                        return Err(invalid("regular expression is too complex"));
                    }
                    before = Before::Nothing;
                    continue;
                }
                ')' => {
                    self.depth = self.depth.checked_sub(1).ok_or_else(|| invalid("parentheses () not balanced"))?;
                    self.put(")");
                    before = Before::Atom;
                    continue;
                }
                '*' | '+' | '?' => self.quantifier(before, c.to_string())?,
                '{' if self.chars.peek().is_some_and(char::is_ascii_digit) => {
                    let bounds = self.bounds()?;
                    self.quantifier(before, bounds)?;
                }
                '^' => {
                    self.put(if self.options.newline_anchors { "(?m:^)" } else { "\\A" });
                    before = Before::Constraint;
                    continue;
                }
                '$' => {
                    self.put(if self.options.newline_anchors { "(?m:$)" } else { "\\z" });
                    before = Before::Constraint;
                    continue;
                }
                '.' => {
                    self.put(if self.options.newline_stops { "[^\\n]" } else { "(?s:.)" });
                    before = Before::Atom;
                    continue;
                }
                '[' => {
                    before = self.bracket()?;
                    continue;
                }
                '\\' => {
                    before = self.escape()?;
                    continue;
                }
                c if self.options.expanded && (c.is_whitespace() || c == '#') => {
                    if c == '#' {
                        let _ = self.chars.by_ref().find(|c| *c == '\n');
                    }
                    continue;
                }
                c => {
                    literal(&mut self.out.expression, c);
                    before = Before::Atom;
                    continue;
                }
            }
            // Behind a quantifier.
            before = Before::Nothing;
        }
        if self.depth > 0 {
            return Err(invalid("parentheses () not balanced"));
        }
        Ok(())
    }

    fn quantifier(&mut self, before: Before, text: String) -> Result<(), SqlError> {
        if before != Before::Atom {
            return Err(invalid("quantifier operand invalid"));
        }
        let lazy = self.chars.peek() == Some(&'?');
        self.put(&text);
        // A fixed number has no preference.
        let fixed = text.starts_with('{') && !text.contains(',');
        if lazy {
            self.chars.next();
            self.put("?");
        }
        if !fixed {
            self.out.lazy |= lazy;
            self.out.greedy |= !lazy;
        }
        Ok(())
    }

    /// `{m}`, `{m,}`, `{m,n}` behind the brace.
    fn bounds(&mut self) -> Result<String, SqlError> {
        let number = |state: &mut Self| {
            let mut digits = String::new();
            while let Some(digit) = state.chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            match digits.parse::<u32>() {
                Ok(value) if value <= 255 => Ok(Some(value)),
                Err(_) if digits.is_empty() => Ok(None),
                _ => Err(invalid("invalid repetition count(s)")),
            }
        };
        let wrong = || invalid("invalid repetition count(s)");
        let low = number(self)?.ok_or_else(wrong)?;
        let out = match self.chars.next() {
            Some('}') => return Ok(format!("{{{low}}}")),
            Some(',') => match number(self)? {
                None => format!("{{{low},}}"),
                Some(high) if high >= low => format!("{{{low},{high}}}"),
                Some(_) => return Err(wrong()),
            },
            _ => return Err(wrong()),
        };
        if self.chars.next() != Some('}') {
            return Err(wrong());
        }
        Ok(out)
    }

    /// The character of an escape that is one.
    fn escaped_char(&mut self, c: char) -> Result<Option<char>, SqlError> {
        let hex = |state: &mut Self, digits: Option<usize>| -> Result<char, SqlError> {
            let mut value = 0u32;
            let mut count = 0;
            while digits.is_none_or(|digits| count < digits)
                && let Some(digit) = state.chars.peek().and_then(|c| c.to_digit(16))
            {
                value = value
                    .checked_mul(16)
                    .map(|value| value + digit)
                    .ok_or_else(|| invalid("invalid escape \\ sequence"))?;
                count += 1;
                state.chars.next();
            }
            if count == 0 || digits.is_some_and(|digits| count < digits) {
                return Err(invalid("invalid escape \\ sequence"));
            }
            char::from_u32(value).ok_or_else(|| invalid("invalid escape \\ sequence"))
        };
        Ok(Some(match c {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'c' => {
                let next = self.chars.next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
                char::from_u32(u32::from(next) & 0x1f).unwrap_or_default()
            }
            'u' => hex(self, Some(4))?,
            'U' => hex(self, Some(8))?,
            'x' => hex(self, None)?,
            '0' => {
                let mut value = 0;
                for _ in 0..2 {
                    let Some(digit) = self.chars.peek().and_then(|c| c.to_digit(8)) else { break };
                    value = value * 8 + digit;
                    self.chars.next();
                }
                char::from_u32(value).unwrap_or_default()
            }
            c if !c.is_ascii_alphanumeric() => c,
            _ => return Ok(None),
        }))
    }

    fn escape(&mut self) -> Result<Before, SqlError> {
        let c = self.chars.next().ok_or_else(|| invalid("invalid escape \\ sequence"))?;
        let (text, before) = match c {
            'd' => ("[0-9]", Before::Atom),
            'D' if self.options.newline_stops => ("[^0-9\\n]", Before::Atom),
            'D' => ("[^0-9]", Before::Atom),
            's' => ("\\s", Before::Atom),
            'S' => ("\\S", Before::Atom),
            'w' => ("[\\p{Alphabetic}\\p{Nd}_]", Before::Atom),
            'W' if self.options.newline_stops => ("[^\\p{Alphabetic}\\p{Nd}_\\n]", Before::Atom),
            'W' => ("[^\\p{Alphabetic}\\p{Nd}_]", Before::Atom),
            'A' => ("\\A", Before::Constraint),
            'Z' => ("\\z", Before::Constraint),
            'm' => ("\\b{start}", Before::Constraint),
            'M' => ("\\b{end}", Before::Constraint),
            'y' => ("\\b", Before::Constraint),
            'Y' => ("\\B", Before::Constraint),
            '1'..='9' => {
                return Err(match (c.to_digit(10).unwrap_or(0) as usize) > self.groups {
                    true => invalid("invalid backreference number"),
                    false => SqlError::unsupported("back references in regular expressions are not supported"),
                });
            }
            c => match self.escaped_char(c)? {
                Some(c) => {
                    literal(&mut self.out.expression, c);
                    return Ok(Before::Atom);
                }
                None => return Err(invalid("invalid escape \\ sequence")),
            },
        };
        self.put(text);
        Ok(before)
    }

    /// A bracket expression behind its bracket.
    fn bracket(&mut self) -> Result<Before, SqlError> {
        let unbalanced = || invalid("brackets [] not balanced");
        // Begin and end of a word.
        for (text, constraint) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
            let rest: String = self.chars.clone().take(6).collect();
            if rest == text {
                for _ in 0..6 {
                    self.chars.next();
                }
                self.put(constraint);
                return Ok(Before::Constraint);
            }
        }
        let mut out = String::from("[");
        let negated = self.chars.next_if_eq(&'^').is_some();
        if negated {
            out.push('^');
            if self.options.newline_stops {
                out.push_str("\\n");
            }
        }
        let mut first = true;
        loop {
            let c = self.chars.next().ok_or_else(unbalanced)?;
            if c == ']' && !first {
                break;
            }
            first = false;
            let Some(low) = self.bracket_item(c, &mut out)? else { continue };
            let mut ahead = self.chars.clone();
            if ahead.next() == Some('-') && ahead.peek().is_some_and(|c| *c != ']') {
                self.chars.next();
                let c = self.chars.next().ok_or_else(unbalanced)?;
                let mut class = String::new();
                let high = self.bracket_item(c, &mut class)?.ok_or_else(|| invalid("invalid character range"))?;
                if high < low {
                    return Err(invalid("invalid character range"));
                }
                let _ = write!(out, "\\x{{{:x}}}-\\x{{{:x}}}", u32::from(low), u32::from(high));
            } else {
                let _ = write!(out, "\\x{{{:x}}}", u32::from(low));
            }
        }
        out.push(']');
        self.put(&out);
        Ok(Before::Atom)
    }

    /// One thing within brackets: a character, or a class that goes to `out`.
    fn bracket_item(&mut self, c: char, out: &mut String) -> Result<Option<char>, SqlError> {
        match (c, self.chars.peek()) {
            ('[', Some(kind @ (':' | '.' | '='))) => {
                let kind = *kind;
                self.chars.next();
                let mut name = String::new();
                loop {
                    let c = self.chars.next().ok_or_else(|| invalid("brackets [] not balanced"))?;
                    if c == kind && self.chars.next_if_eq(&']').is_some() {
                        break;
                    }
                    name.push(c);
                }
                if kind != ':' {
                    let mut chars = name.chars();
                    return match (chars.next(), chars.next()) {
                        (Some(c), None) => Ok(Some(c)),
                        _ => Err(invalid("invalid collating element")),
                    };
                }
                out.push_str(match name.as_str() {
                    "alpha" => "\\p{Alphabetic}",
                    "alnum" => "\\p{Alphabetic}\\p{Nd}",
                    "word" => "\\p{Alphabetic}\\p{Nd}_",
                    "digit" => "0-9",
                    "xdigit" => "0-9A-Fa-f",
                    "lower" => "\\p{Lowercase}",
                    "upper" => "\\p{Uppercase}",
                    "space" => "\\s",
                    "blank" => " \\t",
                    "punct" => "[:punct:]\\p{P}\\p{S}",
                    "cntrl" => "\\p{Cc}",
                    "graph" => "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}",
                    "print" => "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S} ",
                    "ascii" => "\\x00-\\x7f",
                    _ => return Err(invalid("invalid character class")),
                });
                // A class by its own name stands in brackets of its own.
                if out.ends_with("[:punct:]\\p{P}\\p{S}") {
                    let at = out.len() - "[:punct:]\\p{P}\\p{S}".len();
                    out.replace_range(at.., "[[:punct:]]\\p{P}\\p{S}");
                }
                Ok(None)
            }
            ('\\', _) => {
                let c = self.chars.next().ok_or_else(|| invalid("brackets [] not balanced"))?;
                let class = match c {
                    'd' => "0-9",
                    's' => "\\s",
                    'w' => "\\p{Alphabetic}\\p{Nd}_",
                    _ => {
                        let c = self.escaped_char(c)?;
                        return c.map(Some).ok_or_else(|| invalid("invalid escape \\ sequence"));
                    }
                };
                out.push_str(class);
                Ok(None)
            }
            (c, _) => Ok(Some(c)),
        }
    }
}
