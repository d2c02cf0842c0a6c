//! The tokens of statements that are read by hand, without white space and comments.
//!
//! Every statement that the parser does not know is read through [`Words`], so that comments
//! (`--`, nested `/* */`), quotes and positions in errors are the same for all of them.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::wire::SqlError;

/// The first word of a text in lower case, behind white space and comments; empty if it begins
/// with something else.
pub(crate) fn first_word(text: &str) -> String {
    let rest = &text.as_bytes()[skip_blank(text)..];
    let end = rest.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(rest.len());
    rest[..end].iter().map(|b| b.to_ascii_lowercase() as char).collect()
}

/// Bytes of white space and comments at the start of a text.
fn skip_blank(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b), _) if b.is_ascii_whitespace() => at += 1,
            (Some(b'-'), Some(b'-')) => {
                at = bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| at + end);
            }
            (Some(b'/'), Some(b'*')) => {
                let mut depth = 1;
                at += 2;
                while depth > 0 {
                    match (bytes.get(at), bytes.get(at + 1)) {
                        (Some(b'/'), Some(b'*')) => (depth, at) = (depth + 1, at + 2),
                        (Some(b'*'), Some(b'/')) => (depth, at) = (depth - 1, at + 2),
                        (Some(_), _) => at += 1,
                        (None, _) => return bytes.len(),
                    }
                }
            }
            _ => return at,
        }
    }
}

/// What operators are made of.
const OPERATOR: &[u8] = b"+-*/<>=~!@#%^&|`?";

/// The tokens of a text in which an operator and a sign stand without a blank between them (`a>-1`, `j->-1`), where the
/// tokenizer cuts other than PostgreSQL's lexer. To that, all such characters that stand together are one operator; but it
/// ends in a sign only if it has one of `~ ! @ # % ^ & | ? and the back quote`, else the signs stand for themselves. `None`:
/// there is nothing of the kind.
pub(crate) fn with_signs_apart(text: &str) -> Option<Vec<TokenWithSpan>> {
    let glued = |pair: &[u8]| matches!(pair[1], b'+' | b'-') && OPERATOR.contains(&pair[0]) && pair != b"--";
    if !text.as_bytes().windows(2).any(glued) {
        return None;
    }
    let tokens = crate::pg::lexer::tokens(text).ok()?;
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 1);
    let mut changed = false;
    let mut at = 0;
    while at < tokens.len() {
        let mut end = at;
        while tokens.get(end).is_some_and(|token| is_operator(&token.token))
            && (end == at || tokens[end - 1].span.end == tokens[end].span.start)
        {
            end += 1;
        }
        let run = &tokens[at..end.max(at + 1)];
        at += run.len();
        let before = out.iter().rev().find(|token| !matches!(token.token, Token::Whitespace(_)));
        match signs_apart(text, run, before.is_some_and(|token| ends_operand(&token.token))) {
            Some(parts) => {
                changed = true;
                out.extend(parts.into_iter().map(|token| TokenWithSpan { token, span: run[0].span }));
            }
            None => out.extend_from_slice(run),
        }
    }
    changed.then_some(out)
}

fn is_operator(token: &Token) -> bool {
    !matches!(token, Token::Whitespace(_) | Token::EOF | Token::Placeholder(_))
        && token.to_string().bytes().all(|b| OPERATOR.contains(&b))
}

/// Whether an operator behind it has it on its left.
fn ends_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::RParen
            | Token::RBracket
    )
}

/// What a run of operators is to PostgreSQL that ends in a sign; `None`: what it is already.
fn signs_apart(text: &str, run: &[TokenWithSpan], is_binary: bool) -> Option<Vec<Token>> {
    let last = run.last()?.token.to_string();
    if !last.ends_with(['+', '-']) || (run.len() == 1 && last.len() == 1) {
        return None;
    }
    // As it is written: `!=` and `<>` are the same token.
    let written = match run.iter().any(|token| token.token == Token::Neq) {
        true => text.get(byte_of(text, run[0].span.start)..byte_of(text, run[run.len() - 1].span.end))?.to_owned(),
        false => run.iter().map(|token| token.token.to_string()).collect(),
    };
    if written.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?']) {
        // One operator, that there is none of. In front of an operand it stays what it was taken for.
        return (run.len() > 1 && is_binary).then(|| vec![Token::CustomBinaryOperator(written)]);
    }
    let operator = written.trim_end_matches(['+', '-']);
    // Nothing but signs: each is one.
    let operator = if operator.is_empty() { &written[..1] } else { operator };
    let mut parts = vec![match operator {
        ">" => Token::Gt,
        ">=" => Token::GtEq,
        "<" => Token::Lt,
        "<=" => Token::LtEq,
        "<>" => Token::Neq,
        "=" => Token::Eq,
        "=>" => Token::RArrow,
        "*" => Token::Mul,
        "/" => Token::Div,
        "+" => Token::Plus,
        "-" => Token::Minus,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        other => Token::CustomBinaryOperator(other.to_owned()),
    }];
    let signs = written[operator.len()..].chars();
    parts.extend(signs.map(|sign| if sign == '-' { Token::Minus } else { Token::Plus }));
    let is_as_before = parts.iter().eq(run.iter().map(|token| &token.token));
    (!is_as_before).then_some(parts)
}

/// See the module's head.
#[derive(Clone)]
pub(crate) struct Words<'t> {
    text: &'t str,
    tokens: Vec<TokenWithSpan>,
    at: usize,
}

impl<'t> Words<'t> {
    /// The tokens of one statement, without the semicolons behind it. `None`: these are several
    /// statements, or the text cannot be cut into tokens.
    pub fn of(text: &'t str) -> Option<Self> {
        let mut tokens = crate::pg::lexer::tokens(text).ok()?;
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        while tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
            tokens.pop();
        }
        let several = !separators(tokens.iter().map(|token| &token.token)).is_empty();
        (!several).then_some(Self { text, tokens, at: 0 })
    }

    /// The tokens of a text that may have several statements. `None`: it cannot be cut into tokens.
    pub fn of_block(text: &'t str) -> Option<Self> {
        let mut tokens = crate::pg::lexer::tokens(text).ok()?;
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        Some(Self { text, tokens, at: 0 })
    }

    /// The line of the next token, from 1.
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).map_or(0, |token| u32::try_from(token.span.start.line).unwrap_or(u32::MAX))
    }

    /// Where it is; see [`Words::back_to`] and [`Words::between`].
    pub fn mark(&self) -> usize {
        self.at
    }

    /// Gives back what was taken since.
    pub fn back_to(&mut self, mark: usize) {
        self.at = mark;
    }

    /// The text from the token at one mark up to that at another, without what is between the last ones.
    pub fn between(&self, from: usize, to: usize) -> &'t str {
        let (Some(first), Some(last)) = (self.tokens.get(from), to.checked_sub(1).and_then(|at| self.tokens.get(at)))
        else {
            return "";
        };
        let (begin, end) = (byte_of(self.text, first.span.start), byte_of(self.text, last.span.end));
        self.text.get(begin..end).unwrap_or_default()
    }

    /// The tokens that are left.
    pub fn rest(&self) -> impl Iterator<Item = &Token> {
        self.tokens[self.at..].iter().map(|token| &token.token)
    }

    /// The next token, which stays.
    pub fn peek(&self) -> Option<&Token> {
        self.rest().next()
    }

    /// The next token.
    pub fn next(&mut self) -> Option<&Token> {
        let found = self.tokens.get(self.at)?;
        self.at += 1;
        Some(&found.token)
    }

    /// Takes the token if it is the next.
    pub fn take(&mut self, wanted: &Token) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// Takes the word (not quoted, in any case) if it is the next.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|token| is_word(token, word));
        self.at += usize::from(found);
        found
    }

    /// Takes the words if they are the next.
    pub fn take_words(&mut self, words: &[&str]) -> bool {
        let found = self.rest().zip(words).filter(|(token, word)| is_word(token, word)).count() == words.len();
        self.at += if found { words.len() } else { 0 };
        found
    }

    /// The next token as a name: folded unless it is quoted.
    ///
    /// # Errors
    /// `42601` if it is none.
    pub fn name(&mut self) -> Result<String, SqlError> {
        let name = match self.peek() {
            Some(Token::Word(word)) if word.quote_style.is_some() => word.value.clone(),
            Some(Token::Word(word)) => word.value.to_lowercase(),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(name)
    }

    /// Where the next token is in the text: its character, from 1.
    pub fn position(&self) -> Option<u32> {
        let start = self.tokens.get(self.at)?.span.start;
        crate::pg::errors::character_position(self.text, start.line, start.column)
    }

    /// The text from the next token on.
    pub fn rest_of_text(&self) -> &'t str {
        let begin = self.position().and_then(|at| self.text.char_indices().nth((at as usize).saturating_sub(1)));
        begin.and_then(|(at, _)| self.text.get(at..)).unwrap_or_default().trim_end().trim_end_matches(';')
    }

    pub fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// `42601` unless all tokens are taken.
    pub fn expect_end(&self) -> Result<(), SqlError> {
        if self.is_at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// PostgreSQL's error for the next token.
    pub fn unexpected(&self) -> SqlError {
        let Some(token) = self.tokens.get(self.at) else { return SqlError::syntax("syntax error at end of input") };
        let error = SqlError::syntax(format!("syntax error at or near \"{}\"", token.token));
        let start = token.span.start;
        match crate::pg::errors::character_position(self.text, start.line, start.column) {
            Some(position) => error.with_position(position),
            None => error,
        }
    }
}

/// Where a place is in a text, in bytes.
fn byte_of(text: &str, place: Location) -> usize {
    let mut line = 1;
    let mut begin = 0;
    while line < place.line {
        match text[begin..].find('\n') {
            Some(at) => begin += at + 1,
            None => return text.len(),
        }
        line += 1;
    }
    let column = usize::try_from(place.column).unwrap_or(usize::MAX).saturating_sub(1);
    text[begin..].char_indices().nth(column).map_or(text.len(), |(at, _)| begin + at)
}

/// Which of some tokens are semicolons between statements: those in a body of a function, BEGIN ATOMIC … END, are none. White
/// space may be among the tokens.
pub(crate) fn separators<'t>(tokens: impl Iterator<Item = &'t Token>) -> Vec<usize> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0usize, false);
    for (at, token) in tokens.enumerate() {
        match token {
            Token::Whitespace(_) => continue,
            Token::SemiColon if depth == 0 => found.push(at),
            token if begin && is_word(token, "atomic") => depth += 1,
            token if depth > 0 && is_word(token, "case") => depth += 1,
            token if depth > 0 && is_word(token, "end") => depth -= 1,
            _ => {}
        }
        begin = is_word(token, "begin");
    }
    found
}

/// Whether a token is that word, not quoted, in any case.
pub(crate) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words() {
        for text in ["vacuum", " \n-- x\n/* a /* b */ ; */VACUUM(x)", "--\n--\nVacuum;"] {
            assert_eq!(first_word(text), "vacuum", "{text}");
        }
        for text in ["", "--vacuum", "/* vacuum", "/* /* */ vacuum", "(vacuum)", "\"vacuum\""] {
            assert_eq!(first_word(text), "", "{text}");
        }
    }

    #[test]
    fn signs() {
        let shown = |text: &str| {
            let tokens = with_signs_apart(text)?;
            let tokens = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
            Some(tokens.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" "))
        };
        for (text, cut) in [
            ("a->-1", "a -> - 1"),
            ("a->>-1", "a ->> - 1"),
            ("5<<-1", "5 << - 1"),
            ("5>>-1", "5 >> - 1"),
            ("1+-+-2", "1 + - + - 2"),
            ("1*-+-+-1", "1 * - + - + - 1"),
            ("2^-1", "2 ^- 1"),
            ("3!=-1", "3 !=- 1"),
            ("a>=-1", "a >= - 1"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(cut), "{text}");
        }
        for text in ["a-1", "a - -1", "a--1", "a /*->-*/ - 1", "'->-'", "a#-b", "count(*)-1", "3<>-1", "5%-3", "~-1"] {
            assert!(shown(text).is_none_or(|cut| cut.replace(' ', "") == text.replace(' ', "")), "{text}");
        }
    }

    #[test]
    fn one_statement() {
        let words = |text: &str| Words::of(text).map(|words| words.rest().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(words("a /* ; /* b */ */ 'x;' -- ;\n ; ;"), Some(vec!["a".to_owned(), "'x;'".to_owned()]));
        assert_eq!(words("a; b"), None);
        assert_eq!(words("'open"), None);
    }
}
