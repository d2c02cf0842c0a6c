//! A path from its text.
//!
//! The grammar has values and conditions apart: a condition is no operand, and a value no condition; which one an expression
//! in parentheses is, what is in them says. Here one walk reads both, and says which it was.

use resurgam_numeric::Numeric;

use super::lexer::{Placed, Token, syntax, tokens};
use super::{Binary, Chain, DEPTH_MAX, Item, LEAVES, Method, OPERATORS_MAX, Path, RegexFlags, Unary, too_deep};
use crate::functions::are as regex;
use crate::functions::numeric::column::numeric_error;
use crate::wire::SqlError;

type Result<T> = std::result::Result<T, SqlError>;

/// What an expression turned out to be.
enum Expr {
    Value(Chain),
    /// `true`: in parentheses, or EXISTS, so that it can be negated.
    Condition(Chain, bool),
}

/// A path from its text.
///
/// # Errors
/// `42601`, `22P02` and `22P05` for what is none, `2201B` for a regular expression that is none, `54001` for one that is nested
/// too deeply.
pub fn parse(text: &str) -> Result<Path> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err(SqlError::new("22P02", format!("invalid input syntax for type jsonpath: \"{text}\"")));
    }
    let mut parser = Parser { tokens, at: 0, depth: 0, operators: 0 };
    let lax = match parser.word() {
        Some("strict") => {
            parser.at += 1;
            false
        }
        Some("lax") => {
            parser.at += 1;
            true
        }
        _ => true,
    };
    let (Expr::Value(chain) | Expr::Condition(chain, _)) = parser.expression()?;
    if parser.at < parser.tokens.len() {
        return Err(parser.unexpected());
    }
    check(&chain, 0, false)?;
    Ok(Path { lax, chain })
}

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
    depth: usize,
    operators: usize,
}

/// Words that mean something without quotes. `true`, `false` and `null` do so in small letters only.
const KEYWORDS: [&str; 22] = [
    "is",
    "to",
    "abs",
    "lax",
    "flag",
    "last",
    "null",
    "size",
    "true",
    "type",
    "with",
    "false",
    "floor",
    "double",
    "exists",
    "starts",
    "strict",
    "ceiling",
    "unknown",
    "datetime",
    "keyvalue",
    "like_regex",
];

fn keyword(word: &str) -> Option<&'static str> {
    let found = KEYWORDS.into_iter().find(|known| known.eq_ignore_ascii_case(word))?;
    (!matches!(found, "true" | "false" | "null") || found == word).then_some(found)
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    fn second(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1).map(|placed| &placed.token)
    }

    /// The keyword that stands here.
    fn word(&self) -> Option<&'static str> {
        match self.peek() {
            Some(Token::Word(word)) => keyword(word),
            _ => None,
        }
    }

    fn take(&mut self, special: char) -> bool {
        let is = self.peek() == Some(&Token::Special(special));
        self.at += usize::from(is);
        is
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.word() == Some(word);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, special: char) -> Result<()> {
        if self.take(special) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> SqlError {
        syntax("syntax error", self.tokens.get(self.at).map_or("", |placed| placed.shown.as_str()))
    }

    fn text(&mut self) -> Result<String> {
        match self.peek() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn value(&self, expr: Expr) -> Result<Chain> {
        match expr {
            Expr::Value(chain) => Ok(chain),
            Expr::Condition(..) => Err(self.unexpected()),
        }
    }

    fn condition(&self, expr: Expr) -> Result<Chain> {
        match expr {
            Expr::Condition(chain, _) => Ok(chain),
            Expr::Value(_) => Err(self.unexpected()),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let out = read(self)?;
        self.depth -= 1;
        Ok(out)
    }

    /// An operator: its operands lie a level below it.
    fn one_more(&mut self) -> Result<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX { Err(too_deep()) } else { Ok(()) }
    }

    /// A value or a condition of any form.
    fn expression(&mut self) -> Result<Expr> {
        self.deeper(Self::any_of)
    }

    /// Terms between `||`, or between `&&`.
    fn joined(&mut self, token: &Token, op: Binary, part: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut left = part(self)?;
        while self.peek() == Some(token) {
            let so_far = self.condition(left)?;
            self.at += 1;
            self.one_more()?;
            let right = part(self)?;
            let right = self.condition(right)?;
            left = Expr::Condition(vec![Item::Binary(op, so_far, right)], false);
        }
        Ok(left)
    }

    fn any_of(&mut self) -> Result<Expr> {
        self.joined(&Token::Or, Binary::Or, Self::all_of)
    }

    fn all_of(&mut self) -> Result<Expr> {
        self.joined(&Token::And, Binary::And, Self::comparison)
    }

    fn comparison(&mut self) -> Result<Expr> {
        if self.take('!') {
            return match self.deeper(Self::additive)? {
                Expr::Condition(chain, true) => Ok(Expr::Condition(vec![Item::Unary(Unary::Not, chain)], false)),
                _ => Err(self.unexpected()),
            };
        }
        let in_parentheses = self.peek() == Some(&Token::Special('('));
        let left = match self.additive()? {
            Expr::Condition(chain, _) if in_parentheses && self.word() == Some("is") => {
                self.at += 1;
                if !self.take_word("unknown") {
                    return Err(self.unexpected());
                }
                return Ok(Expr::Condition(vec![Item::Unary(Unary::IsUnknown, chain)], false));
            }
            Expr::Value(chain) => chain,
            condition => return Ok(condition),
        };
        let op = match self.peek() {
            Some(Token::Equal) => Binary::Equal,
            Some(Token::NotEqual) => Binary::NotEqual,
            Some(Token::Less) => Binary::Less,
            Some(Token::Greater) => Binary::Greater,
            Some(Token::LessOrEqual) => Binary::LessOrEqual,
            Some(Token::GreaterOrEqual) => Binary::GreaterOrEqual,
            _ => return self.test(left),
        };
        self.at += 1;
        let right = self.additive()?;
        let right = self.value(right)?;
        Ok(Expr::Condition(vec![Item::Binary(op, left, right)], false))
    }

    /// `starts with`, `like_regex`, or a value as it is.
    fn test(&mut self, of: Chain) -> Result<Expr> {
        if self.take_word("starts") {
            if !self.take_word("with") {
                return Err(self.unexpected());
            }
            let initial = match self.peek() {
                Some(Token::Text(text)) => Item::Text(text.clone()),
                Some(Token::Variable(name)) => Item::Variable(name.clone()),
                _ => return Err(self.unexpected()),
            };
            self.at += 1;
            return Ok(Expr::Condition(vec![Item::Binary(Binary::StartsWith, of, vec![initial])], false));
        }
        if self.take_word("like_regex") {
            let pattern = self.text()?;
            let flags = match self.take_word("flag") {
                true => self.text()?,
                false => String::new(),
            };
            let flags = regex_flags(&flags)?;
            regex::check(&pattern, flags.options())?;
            return Ok(Expr::Condition(vec![Item::LikeRegex { of, pattern, flags }], false));
        }
        Ok(Expr::Value(of))
    }

    /// Operands between signs of one rank.
    fn operated(&mut self, ops: &[(char, Binary)], part: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let mut left = part(self)?;
        loop {
            let Some(Token::Special(sign)) = self.peek() else { return Ok(left) };
            let Some((_, op)) = ops.iter().find(|(known, _)| known == sign) else { return Ok(left) };
            let of = self.value(left)?;
            self.at += 1;
            self.one_more()?;
            let right = part(self)?;
            let right = self.value(right)?;
            left = Expr::Value(vec![Item::Binary(*op, of, right)]);
        }
    }

    fn additive(&mut self) -> Result<Expr> {
        self.operated(&[('+', Binary::Add), ('-', Binary::Sub)], Self::multiplicative)
    }

    fn multiplicative(&mut self) -> Result<Expr> {
        self.operated(&[('*', Binary::Mul), ('/', Binary::Div), ('%', Binary::Mod)], Self::signed)
    }

    fn signed(&mut self) -> Result<Expr> {
        let op = match self.peek() {
            Some(Token::Special('+')) => Unary::Plus,
            Some(Token::Special('-')) => Unary::Minus,
            _ => return self.accessed(),
        };
        self.at += 1;
        let of = self.deeper(Self::signed)?;
        let of = self.value(of)?;
        Ok(Expr::Value(match (op, of.as_slice()) {
            (Unary::Plus, [Item::Number(_)]) => of,
            (Unary::Minus, [Item::Number(number)]) => vec![Item::Number(number.neg())],
            _ => vec![Item::Unary(op, of)],
        }))
    }

    /// A primary, and accessors behind it.
    fn accessed(&mut self) -> Result<Expr> {
        if self.word() == Some("exists") {
            self.at += 1;
            self.expect('(')?;
            let of = self.expression()?;
            let of = self.value(of)?;
            self.expect(')')?;
            return Ok(Expr::Condition(vec![Item::Unary(Unary::Exists, of)], true));
        }
        let mut chain = match self.take('(') {
            true => {
                let inner = self.expression()?;
                self.expect(')')?;
                if !matches!(self.peek(), Some(Token::Special('.' | '[' | '?'))) {
                    return Ok(match inner {
                        Expr::Condition(chain, _) => Expr::Condition(chain, true),
                        value => value,
                    });
                }
                let (Expr::Value(chain) | Expr::Condition(chain, _)) = inner;
                chain
            }
            false => vec![self.primary()?],
        };
        loop {
            chain.push(match self.peek() {
                Some(Token::Special('.')) => {
                    self.at += 1;
                    self.member()?
                }
                Some(Token::Special('[')) => {
                    self.at += 1;
                    self.subscript()?
                }
                Some(Token::Special('?')) => {
                    self.at += 1;
                    self.expect('(')?;
                    let condition = self.expression()?;
                    let condition = self.condition(condition)?;
                    self.expect(')')?;
                    Item::Filter(condition)
                }
                _ => return Ok(Expr::Value(chain)),
            });
        }
    }

    fn primary(&mut self) -> Result<Item> {
        let item = match self.peek() {
            Some(Token::Text(text)) => Item::Text(text.clone()),
            Some(Token::Integer(text) | Token::Number(text)) => {
                Item::Number(Numeric::parse(text, None).map_err(numeric_error)?)
            }
            Some(Token::Variable(name)) => Item::Variable(name.clone()),
            Some(Token::Special('$')) => Item::Root,
            Some(Token::Special('@')) => Item::Current,
            _ => match self.word() {
                Some("null") => Item::Null,
                Some("true") => Item::Bool(true),
                Some("false") => Item::Bool(false),
                Some("last") => Item::Last,
                _ => return Err(self.unexpected()),
            },
        };
        self.at += 1;
        Ok(item)
    }

    /// What stands behind a point.
    fn member(&mut self) -> Result<Item> {
        if self.take('*') {
            return Ok(Item::AnyKey);
        }
        if self.peek() == Some(&Token::Any) {
            self.at += 1;
            return self.levels();
        }
        let is_call = self.second() == Some(&Token::Special('('));
        if let (Some(name), true) = (self.word(), is_call) {
            if name == "datetime" {
                self.at += 2;
                let template = match self.peek() {
                    Some(Token::Text(_)) => Some(self.text()?),
                    _ => None,
                };
                self.expect(')')?;
                return Ok(Item::Datetime(template));
            }
            if let Some((_, method)) = Method::ALL.into_iter().find(|(known, _)| *known == name) {
                self.at += 2;
                self.expect(')')?;
                return Ok(Item::Method(method));
            }
        }
        match self.peek() {
            Some(Token::Word(key) | Token::Text(key)) => {
                let key = key.clone();
                self.at += 1;
                Ok(Item::Key(key))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `.**`, and its levels.
    fn levels(&mut self) -> Result<Item> {
        if !self.take('{') {
            return Ok(Item::Any { first: 0, last: LEAVES });
        }
        let first = self.level()?;
        let last = if self.take_word("to") { self.level()? } else { first };
        self.expect('}')?;
        Ok(Item::Any { first, last })
    }

    fn level(&mut self) -> Result<u32> {
        let level = match self.peek() {
            Some(Token::Integer(text)) => text
                .parse::<i32>()
                .map(|level| level.unsigned_abs())
                .map_err(|_| SqlError::new("22003", format!("value \"{text}\" is out of range for type integer")))?,
            _ if self.word() == Some("last") => LEAVES,
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(level)
    }

    fn subscript(&mut self) -> Result<Item> {
        if self.peek() == Some(&Token::Special('*')) && self.second() == Some(&Token::Special(']')) {
            self.at += 2;
            return Ok(Item::AnyArray);
        }
        let mut all = Vec::new();
        loop {
            let from = self.deeper(Self::additive)?;
            let from = self.value(from)?;
            let to = match self.take_word("to") {
                true => {
                    let to = self.deeper(Self::additive)?;
                    Some(self.value(to)?)
                }
                false => None,
            };
            all.push((from, to));
            if self.take(']') {
                return Ok(Item::Index(all));
            }
            self.expect(',')?;
        }
    }
}

fn regex_flags(letters: &str) -> Result<RegexFlags> {
    let mut flags = RegexFlags::default();
    for letter in letters.chars() {
        match letter {
            'i' => flags.ignore_case = true,
            's' => flags.dot_all = true,
            'm' => flags.multi_line = true,
            'x' => flags.blanks = true,
            'q' => flags.quote = true,
            other => {
                let detail = format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                return Err(SqlError::new("42601", "invalid input syntax for type jsonpath").with_detail(detail));
            }
        }
    }
    // As XQuery has it, the others say nothing beside `q`.
    if flags.blanks && !flags.quote {
        return Err(SqlError::unsupported("XQuery \"x\" flag (expanded regular expressions) is not implemented"));
    }
    Ok(flags)
}

/// Where `@` and `last` may stand.
fn check(chain: &[Item], filters: usize, in_subscript: bool) -> Result<()> {
    for item in chain {
        match item {
            Item::Current if filters == 0 => {
                return Err(SqlError::new("42601", "@ is not allowed in root expressions"));
            }
            Item::Last if !in_subscript => {
                return Err(SqlError::new("42601", "LAST is allowed only in array subscripts"));
            }
            Item::Index(all) => {
                for (from, to) in all {
                    check(from, filters, true)?;
                    check(to.as_deref().unwrap_or_default(), filters, true)?;
                }
            }
            Item::Filter(condition) => check(condition, filters + 1, in_subscript)?,
            Item::Binary(_, left, right) => {
                check(left, filters, in_subscript)?;
                check(right, filters, in_subscript)?;
            }
            Item::Unary(_, of) | Item::LikeRegex { of, .. } => check(of, filters, in_subscript)?,
            _ => {}
        }
    }
    Ok(())
}
