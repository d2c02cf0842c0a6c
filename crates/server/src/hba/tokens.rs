//! From the text of an `hba` file to its lines, fields and tokens, by PostgreSQL's rules (`hba.c`).
//!
//! ```text
//! file:   lines; one that ends in a backslash goes on in the next; '#' begins a comment
//! line:   fields, apart by blanks
//! field:  tokens, apart by commas; a token within double quotes is no keyword, "" within them is a quote
//!         @name stands for the tokens of another file, relative to this one
//! ```

use std::path::Path;

/// Longest token (`MAX_TOKEN` in PostgreSQL), in bytes.
const TOKEN_BYTES_MAX: usize = 10240;
/// Files within files (PostgreSQL 16's bound; 15 has none and overflows).
const DEPTH_MAX: u32 = 10;

/// A word of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    /// It began with a quote: it is a name, whatever it looks like.
    pub quoted: bool,
}

impl Token {
    /// Whether it is that keyword.
    pub fn is_keyword(&self, word: &str) -> bool {
        !self.quoted && self.text == word
    }
}

/// A line that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it begins, from 1.
    pub number: u32,
    /// Its text, continuations joined.
    pub raw: String,
    pub fields: Vec<Vec<Token>>,
    pub error: Option<String>,
}

/// Reads a file and the files that it names.
///
/// # Errors
/// Why it could not be read. What is wrong with a line is told by the line.
pub fn read(path: &Path) -> std::io::Result<Vec<Line>> {
    Ok(lines(path, &std::fs::read_to_string(path)?, 0))
}

/// The lines of a file's text; `path` is what names of other files are relative to.
pub fn lines(path: &Path, text: &str, depth: u32) -> Vec<Line> {
    let mut out = Vec::new();
    let mut physical = text.lines().map(|line| line.trim_end_matches('\r'));
    let mut number = 1;
    while let Some(first) = physical.next() {
        let (mut raw, mut count) = (first.to_owned(), 1);
        let mut joined = 0;
        // The backslash has to be in what the last continuation brought.
        while raw.len() > joined && raw.ends_with('\\') {
            raw.pop();
            joined = raw.len();
            let Some(next) = physical.next() else { break };
            raw.push_str(next);
            count += 1;
        }
        let mut line = Line { number, raw, fields: Vec::new(), error: None };
        let mut rest = Cursor { text: &line.raw, at: 0 };
        while !rest.is_at_end() {
            match field(path, &mut rest, depth) {
                Ok(tokens) if tokens.is_empty() => {}
                Ok(tokens) => line.fields.push(tokens),
                Err(error) => {
                    line.error = Some(error);
                    break;
                }
            }
        }
        number += count;
        if !line.fields.is_empty() || line.error.is_some() {
            out.push(line);
        }
    }
    out
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }
    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }
    fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

/// The tokens up to the next blank that no comma precedes.
fn field(path: &Path, rest: &mut Cursor<'_>, depth: u32) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    loop {
        let Some((token, comma)) = token(rest)? else { return Ok(tokens) };
        match token.text.strip_prefix('@') {
            Some(name) if !token.quoted && !name.is_empty() => tokens.extend(included(path, name, depth)?),
            _ => tokens.push(token),
        }
        if !comma {
            return Ok(tokens);
        }
    }
}

/// The next token of the line, and whether a comma ends it.
fn token(rest: &mut Cursor<'_>) -> Result<Option<(Token, bool)>, String> {
    while rest.peek().is_some_and(|c| is_blank(c) || c == ',') {
        rest.next();
    }
    let mut text = String::new();
    let (mut in_quote, mut was_quote, mut saw_quote, mut quoted, mut comma) = (false, false, false, false, false);
    while let Some(c) = rest.peek() {
        if is_blank(c) && !in_quote {
            break;
        }
        rest.next();
        if c == '#' && !in_quote {
            rest.at = rest.text.len();
            break;
        }
        if text.len() >= TOKEN_BYTES_MAX {
            return Err("authentication file token too long".into());
        }
        if c == ',' && !in_quote {
            comma = true;
            break;
        }
        if c != '"' || was_quote {
            text.push(c);
        }
        was_quote = in_quote && c == '"' && !was_quote;
        if c == '"' {
            in_quote = !in_quote;
            saw_quote = true;
            quoted |= text.is_empty();
        }
    }
    Ok((saw_quote || !text.is_empty()).then_some((Token { text, quoted }, comma)))
}

/// All tokens of the file `name`.
fn included(outer: &Path, name: &str, depth: u32) -> Result<Vec<Token>, String> {
    let path = outer.parent().unwrap_or(Path::new("")).join(name);
    let failed = |why: String| {
        format!("could not open secondary authentication file \"@{name}\" as \"{}\": {why}", path.display())
    };
    if depth >= DEPTH_MAX {
        return Err(failed("maximum nesting depth exceeded".into()));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let mut tokens = Vec::new();
    for line in lines(&path, &text, depth + 1) {
        match line.error {
            Some(error) => return Err(error),
            None => tokens.extend(line.fields.into_iter().flatten()),
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields with `|` between, tokens with `,`, quoted ones within `<>`.
    fn show(text: &str) -> Vec<String> {
        lines(Path::new("/no/file"), text, 0)
            .into_iter()
            .map(|line| {
                let fields = line.fields.iter().map(|field| {
                    let tokens = field.iter().map(|token| match token.quoted {
                        true => format!("<{}>", token.text),
                        false => token.text.clone(),
                    });
                    tokens.collect::<Vec<_>>().join(",")
                });
                let shown = format!("{}: {}", line.number, fields.collect::<Vec<_>>().join("|"));
                line.error.map_or(shown.clone(), |error| format!("{shown} ! {error}"))
            })
            .collect()
    }

    #[test]
    fn lines_are_cut_as_postgresql_cuts_them() {
        for (text, shown) in [
            ("host all all\t127.0.0.1/32 trust", vec!["1: host|all|all|127.0.0.1/32|trust"]),
            ("# nothing\n\n  \nlocal all all trust # why", vec!["4: local|all|all|trust"]),
            ("local a,b , c x", vec!["1: local|a,b|c|x"]),
            ("local a, b x", vec!["1: local|a,b|x"]),
            (r#"local "a b","all" "x""y""#, vec![r#"1: local|<a b>,<all>|<x"y>"#]),
            ("local \\\n all\\\n all trust\nhost", vec!["1: local|all|all|trust", "4: host"]),
            ("local a#b", vec!["1: local|a"]),
            (r#"local """#, vec!["1: local|<>"]),
            ("local trust\r\nhost x", vec!["1: local|trust", "2: host|x"]),
        ] {
            assert_eq!(show(text), shown, "{text:?}");
        }
    }

    #[test]
    fn other_files_are_read_and_a_circle_ends() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("hba");
        std::fs::write(dir.path().join("names"), "alice bob\n\"carol d\"\n").unwrap();
        std::fs::write(dir.path().join("circle"), "@circle").unwrap();
        let line = &lines(&main, "host all x,@names,y 1", 0)[0];
        let names: Vec<&str> = line.fields[2].iter().map(|token| token.text.as_str()).collect();
        assert_eq!(names, ["x", "alice", "bob", "carol d", "y"]);
        for (text, why) in [("host @none", "could not open"), ("host @circle", "maximum nesting depth")] {
            let error = lines(&main, text, 0)[0].error.clone().unwrap();
            assert!(error.contains(why), "{error}");
        }
        let long = format!("host {}", "x".repeat(TOKEN_BYTES_MAX + 1));
        assert_eq!(lines(&main, &long, 0)[0].error.as_deref(), Some("authentication file token too long"));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "[ ,\"\\\\#@a\n]{0,40}") {
            let _ = lines(Path::new("/no/file"), &text, 0);
        }
    }
}
