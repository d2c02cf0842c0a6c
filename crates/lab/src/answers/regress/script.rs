//! Reads a psql script: statements as psql cuts them, and backslash commands.
//!
//! After `psqlscan.l` of PostgreSQL 15. A statement ends at a semicolon outside of quotes,
//! dollar quotes, comments, parentheses and `BEGIN … END` of a CREATE FUNCTION or PROCEDURE; a
//! backslash outside of those begins a command, whose arguments end with the line or at the
//! next backslash; `\;` is a semicolon within a statement.
//!
//! Two texts are made of each statement, one for each server, since what `\gset` keeps in
//! variables (oids, names made by the server) may differ. `:name`, `:'name'`, `:"name"` and
//! `:{?name}` are replaced; a name that no variable has stays as it is written.

use std::collections::HashMap;

/// PostgreSQL's text or value, and Resurgam's.
pub type Both = [String; 2];

/// Variables of psql.
pub type Variables = HashMap<String, Both>;

/// What comes next in a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A statement (or several, joined by `\;`) and the line that it begins in, from 1.
    Statement { texts: Both, line: usize },
    /// A command: its name without the backslash, and its arguments as they are written. What
    /// was read of a statement before it is still there ([`Script::take`]).
    Command { name: String, rest: String, line: usize },
}

/// A script and how far it is read.
pub struct Script {
    text: Vec<char>,
    at: usize,
    line: usize,
    buffer: Both,
    /// Line of the buffer's first token.
    begun: usize,
    parens: usize,
    /// Depth of BEGIN and CASE in a function's body.
    blocks: usize,
    /// The statement's first words.
    words: Vec<String>,
    /// `standard_conforming_strings`: a backslash in quotes is only a character.
    pub conforming: bool,
    /// Not in a branch of `\if` that is left out.
    pub active: bool,
}

/// A place to come back to, at the begin of a branch that is left out.
#[derive(Clone, Debug)]
pub struct Mark {
    lengths: [usize; 2],
    parens: usize,
    blocks: usize,
    words: usize,
}

impl Script {
    pub fn new(text: &str) -> Self {
        Self {
            text: text.replace("\r\n", "\n").chars().collect(),
            at: 0,
            line: 1,
            buffer: Both::default(),
            begun: 1,
            parens: 0,
            blocks: 0,
            words: Vec::new(),
            conforming: true,
            active: true,
        }
    }

    /// What was read of a statement that has not ended, and its line; the buffer is empty then.
    /// None if there is nothing but blanks and comments.
    pub fn take(&mut self) -> Option<(Both, usize)> {
        let texts = std::mem::take(&mut self.buffer).map(|text| text.trim().to_owned());
        (self.parens, self.blocks) = (0, 0);
        self.words.clear();
        (!texts[0].is_empty()).then_some((texts, self.begun))
    }

    /// Where the buffer ends.
    pub fn mark(&self) -> Mark {
        Mark {
            lengths: [self.buffer[0].len(), self.buffer[1].len()],
            parens: self.parens,
            blocks: self.blocks,
            words: self.words.len(),
        }
    }

    /// Forgets what was read after the mark.
    pub fn back_to(&mut self, mark: &Mark) {
        for (text, len) in self.buffer.iter_mut().zip(mark.lengths) {
            text.truncate(len);
        }
        (self.parens, self.blocks) = (mark.parens, mark.blocks);
        self.words.truncate(mark.words);
    }

    /// The lines up to `\.`, the data of a `COPY … FROM STDIN`, from the next line on.
    pub fn copy_data(&mut self) -> Vec<u8> {
        self.rest_of_line();
        let mut data = String::new();
        while self.at < self.text.len() {
            let line = self.rest_of_line();
            if line == "\\." {
                break;
            }
            data.push_str(&line);
            data.push('\n');
        }
        data.into_bytes()
    }

    /// Ends the script here (`\quit`).
    pub fn quit(&mut self) {
        self.at = self.text.len();
        self.take();
    }

    /// The next statement or command.
    pub fn next(&mut self, variables: &Variables) -> Option<Item> {
        while let Some(c) = self.peek(0) {
            if self.buffer[0].is_empty() && c.is_whitespace() {
                self.skip();
                continue;
            }
            if self.buffer[0].is_empty() {
                self.begun = self.line;
            }
            match c {
                '-' if self.peek(1) == Some('-') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '\'' => self.quoted('\''),
                '"' => self.quoted('"'),
                '$' => self.dollar(),
                '(' | ')' => {
                    self.parens = if c == '(' { self.parens + 1 } else { self.parens.saturating_sub(1) };
                    self.eat();
                }
                ';' if self.parens == 0 && self.blocks == 0 && self.active => {
                    self.skip();
                    if let Some((texts, line)) = self.take() {
                        return Some(Item::Statement { texts, line });
                    }
                }
                '\\' if self.peek(1) == Some(';') => {
                    self.skip();
                    self.eat();
                    self.words.clear();
                }
                '\\' => return Some(self.command()),
                ':' => self.colon(variables),
                _ if is_word_start(c) => self.word(),
                _ => self.eat(),
            }
        }
        // psql runs what is left at the end of its input.
        if !self.active {
            return None;
        }
        self.take().map(|(texts, line)| Item::Statement { texts, line })
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    /// Goes on by a character and answers it.
    fn skip(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// Takes the next character into the statement.
    fn eat(&mut self) {
        if let Some(c) = self.skip() {
            self.buffer.iter_mut().for_each(|text| text.push(c));
        }
    }

    fn rest_of_line(&mut self) -> String {
        let mut line = String::new();
        while let Some(c) = self.skip() {
            if c == '\n' {
                break;
            }
            line.push(c);
        }
        line
    }

    /// Comments before a statement are left out, others are sent.
    fn line_comment(&mut self) {
        let first = self.buffer[0].is_empty();
        while self.peek(0).is_some_and(|c| c != '\n') {
            if first {
                self.skip();
            } else {
                self.eat();
            }
        }
    }

    fn block_comment(&mut self) {
        let first = self.buffer[0].is_empty();
        let mut depth = 0;
        loop {
            let step = match (self.peek(0), self.peek(1)) {
                (None, _) => return,
                (Some('/'), Some('*')) => {
                    depth += 1;
                    2
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    2
                }
                _ => 1,
            };
            for _ in 0..step {
                if first {
                    self.skip();
                } else {
                    self.eat();
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A string or a quoted name; two quotes in it are one.
    fn quoted(&mut self, quote: char) {
        // E'…' knows backslashes, as do all strings in the old style; U&'…' and the others do not.
        let before: Vec<char> = self.buffer[0].chars().rev().take(2).collect();
        let escape = matches!(before.first(), Some('e' | 'E')) && !before.get(1).is_some_and(|c| is_word(*c));
        let backslashes = quote == '\'' && (escape || !self.conforming);
        self.eat();
        while let Some(c) = self.peek(0) {
            self.eat();
            if c == '\\' && backslashes {
                self.eat();
            } else if c == quote {
                if self.peek(0) != Some(quote) {
                    return;
                }
                self.eat();
            }
        }
    }

    /// `$tag$ … $tag$`, or a dollar that is something else.
    fn dollar(&mut self) {
        let mut len = 1;
        while let Some(c) = self.peek(len)
            && c != '$'
        {
            let fits = if len == 1 { is_word_start(c) } else { is_word_start(c) || c.is_ascii_digit() };
            if !fits {
                return self.eat();
            }
            len += 1;
        }
        if self.peek(len) != Some('$') {
            return self.eat();
        }
        let tag: Vec<char> = self.text[self.at..=self.at + len].to_vec();
        for _ in 0..tag.len() {
            self.eat();
        }
        while self.at < self.text.len() {
            if self.text[self.at..].starts_with(&tag) {
                for _ in 0..tag.len() {
                    self.eat();
                }
                return;
            }
            self.eat();
        }
    }

    /// A word, and what it says of blocks in the body of a function.
    fn word(&mut self) {
        let mut word = String::new();
        while let Some(c) = self.peek(0)
            && (is_word(c) || c == '$')
        {
            word.push(c.to_ascii_lowercase());
            self.eat();
        }
        if self.words.len() < 5 {
            self.words.push(word.clone());
        }
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let routine = match words[..] {
            ["create", "or", "replace", kind, ..] | ["create", kind, ..] => matches!(kind, "function" | "procedure"),
            _ => false,
        };
        if routine && self.parens == 0 {
            match word.as_str() {
                "begin" => self.blocks += 1,
                "case" if self.blocks > 0 => self.blocks += 1,
                "end" => self.blocks = self.blocks.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// A variable, a cast, or a colon.
    fn colon(&mut self, variables: &Variables) {
        if matches!(self.peek(1), Some(':' | '=')) {
            self.eat();
            return self.eat();
        }
        let rest: String = self.text[self.at + 1..].iter().take(80).collect();
        let Some((reference, len)) = Reference::read(&rest) else { return self.eat() };
        let values = match reference {
            Reference::IsSet(name) => {
                let word = if variables.contains_key(&name) { "TRUE" } else { "FALSE" };
                Some([word.to_owned(), word.to_owned()])
            }
            Reference::Plain(name) => variables.get(&name).cloned(),
            Reference::String(name) => variables.get(&name).cloned().map(|v| v.map(|text| literal(&text))),
            Reference::Name(name) => {
                variables.get(&name).cloned().map(|v| v.map(|text| format!("\"{}\"", text.replace('"', "\"\""))))
            }
        };
        let Some(values) = values else { return self.eat() };
        for _ in 0..=len {
            self.skip();
        }
        for (text, value) in self.buffer.iter_mut().zip(values) {
            text.push_str(&value);
        }
    }

    fn command(&mut self) -> Item {
        let line = self.line;
        self.skip();
        let mut name = String::new();
        while let Some(c) = self.peek(0)
            && !c.is_whitespace()
            && c != '\\'
        {
            name.push(c);
            self.skip();
            if !is_word(c) {
                break;
            }
        }
        // `\\` only separates commands.
        if name.is_empty() && self.peek(0) == Some('\\') {
            self.skip();
        }
        let whole = matches!(name.as_str(), "copy" | "!");
        let mut rest = String::new();
        let mut quote = None;
        while let Some(c) = self.peek(0)
            && c != '\n'
        {
            if c == '\\' && quote.is_none() && !whole {
                break;
            }
            match quote {
                Some(open) if open == c => quote = None,
                None if matches!(c, '\'' | '"') => quote = Some(c),
                _ => {}
            }
            rest.push(c);
            self.skip();
            if c == '\\' && quote == Some('\'') && self.peek(0).is_some_and(|c| c != '\n') {
                rest.extend(self.skip());
            }
        }
        if name.is_empty() {
            // What follows the separator belongs to the statement again.
            self.at -= rest.chars().count();
            rest.clear();
        }
        Item::Command { name, rest: rest.trim().to_owned(), line }
    }
}

/// A variable as it is written after the colon.
enum Reference {
    Plain(String),
    String(String),
    Name(String),
    IsSet(String),
}

impl Reference {
    /// With the number of characters that it takes.
    fn read(rest: &str) -> Option<(Self, usize)> {
        let name_of = |text: &str| text.chars().take_while(|c| is_word(*c)).collect::<String>();
        let (open, close, make): (&str, &str, fn(String) -> Self) = match rest.chars().next()? {
            '\'' => ("'", "'", Self::String),
            '"' => ("\"", "\"", Self::Name),
            '{' => ("{?", "}", Self::IsSet),
            _ => ("", "", Self::Plain),
        };
        let inner = rest.strip_prefix(open)?;
        let name = name_of(inner);
        if name.is_empty() || !inner[name.len()..].starts_with(close) {
            return None;
        }
        let len = open.len() + name.chars().count() + close.len();
        Some((make(name), len))
    }
}

/// A value as a string of SQL.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_word(c: char) -> bool {
    is_word_start(c) || c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statements as PostgreSQL gets them, commands in angle brackets.
    fn read_with(text: &str, variables: &Variables) -> Vec<String> {
        let mut script = Script::new(text);
        let mut out = Vec::new();
        while let Some(item) = script.next(variables) {
            out.push(match item {
                Item::Statement { texts, .. } => texts[0].clone(),
                Item::Command { name, rest, .. } => {
                    let before = script.take().map(|(texts, _)| texts[0].clone()).unwrap_or_default();
                    format!("{before}<{name} {rest}>")
                }
            });
        }
        out
    }

    fn read(text: &str) -> Vec<String> {
        read_with(text, &Variables::new())
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_everything() {
        assert_eq!(read("select 1; ;select ';';\n"), ["select 1", "select ';'"]);
        assert_eq!(read("select 'it''s;', \"a;\"\"b\"; x"), ["select 'it''s;', \"a;\"\"b\"", "x"]);
        assert_eq!(
            read("-- a; b\nselect 1 -- c;\n, 2; /* x; /* y; */ z; */ select 3;"),
            ["select 1 -- c;\n, 2", "select 3"]
        );
        assert_eq!(
            read("create rule r as on delete to t do (select 1; select 2); select 3"),
            ["create rule r as on delete to t do (select 1; select 2)", "select 3"]
        );
        assert_eq!(
            read("select $$a;$b$;$$, $x$;$$;$x$; select $1; a$b$c;"),
            ["select $$a;$b$;$$, $x$;$$;$x$", "select $1", "a$b$c"]
        );
    }

    #[test]
    fn bodies_of_functions_hold_statements() {
        let body =
            "create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end";
        assert_eq!(read(&format!("{body}; select 3;")), [body, "select 3"]);
        // Not in other statements.
        assert_eq!(read("begin; select 1; end;"), ["begin", "select 1", "end"]);
        assert_eq!(read("create table function (a int); begin; commit;").len(), 3);
    }

    #[test]
    fn backslashes_in_strings() {
        assert_eq!(read(r"select E'a\';', '\'; select e'\\'; x"), [r"select E'a\';', '\'", r"select e'\\'", "x"]);
        // The e of a name is none.
        assert_eq!(read(r"select name'\'; x"), [r"select name'\'", "x"]);
        let mut script = Script::new(r"select 'a\';'; x");
        script.conforming = false;
        let Some(Item::Statement { texts, .. }) = script.next(&Variables::new()) else { panic!("a statement") };
        assert_eq!(texts[0], r"select 'a\';'");
    }

    #[test]
    fn commands_leave_what_was_read() {
        assert_eq!(
            read("select 1 as a \\gset p_\nselect 2;\n\\d+ t\n\\echo 'a b' \\\\ select 3;"),
            ["select 1 as a<gset p_>", "select 2", "<d+ t>", "<echo 'a b'>", "< >", "select 3"]
        );
        assert_eq!(read("select 1 \\; select 2;"), ["select 1 ; select 2"]);
        assert_eq!(read("\\copy t from 'a\\b'\nselect 1"), ["<copy t from 'a\\b'>", "select 1"]);
        assert_eq!(read("\\dT *.\"a\\\"\nx"), ["<dT *.\"a\\\">", "x"]);
    }

    #[test]
    fn variables_are_replaced_for_each_server() {
        let mut variables = Variables::new();
        variables.insert("v".into(), ["1'".into(), "2".into()]);
        let text = "select :v, :'v', :\"v\", :w, a::v, ':v', x[1:v], :{?v}, :{?w}, b:='c';";
        let mut script = Script::new(text);
        let Some(Item::Statement { texts, .. }) = script.next(&variables) else { panic!("a statement") };
        let [postgres, resurgam] = texts;
        assert_eq!(postgres, "select 1', '1''', \"1'\", :w, a::v, ':v', x[11'], TRUE, FALSE, b:='c'");
        assert!(resurgam.starts_with("select 2, '2', \"2\", :w"));
        assert_eq!(literal("a\\b'c"), " E'a\\\\b''c'");
    }

    #[test]
    fn lines_are_counted_and_data_is_read() {
        let mut script = Script::new("\n-- c\ncopy t from stdin;\n1\t2\n\\N\t;\n\\.\n\nselect 1;");
        let none = Variables::new();
        assert!(matches!(script.next(&none), Some(Item::Statement { line: 3, .. })));
        assert_eq!(script.copy_data(), b"1\t2\n\\N\t;\n");
        let next = script.next(&none);
        assert!(matches!(&next, Some(Item::Statement { line: 8, texts }) if texts[0] == "select 1"), "{next:?}");
        assert_eq!(script.next(&none), None);
    }

    #[test]
    fn a_branch_left_out_is_forgotten() {
        let mut script = Script::new("select \\if (bogus; \\else 42;");
        let none = Variables::new();
        assert!(matches!(script.next(&none), Some(Item::Command { name, .. }) if name == "if"));
        let mut script = Script::new("select \\x\n (bogus; \\else 42;");
        script.next(&none);
        let mark = script.mark();
        script.active = false;
        assert!(matches!(script.next(&none), Some(Item::Command { name, .. }) if name == "else"));
        script.back_to(&mark);
        script.active = true;
        let Some((texts, _)) = script.take() else { panic!("the begin of a statement") };
        assert_eq!(texts[0], "select");
    }
}
