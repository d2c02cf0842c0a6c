//! What a statement is, and which names it makes or changes: as far as its words tell.
//!
//! No parser: the suite has everything that PostgreSQL's grammar has, and things that it has
//! not. A name that is missed counts a difference as one of its own; one too many as a
//! consequence of another.

/// A token of SQL, comments and blanks left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word, in small letters; a quoted name as it is.
    Word(String),
    /// A string, a number or a parameter.
    Value,
    /// One character of an operator, a parenthesis, a comma.
    Sign(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(text) if text == word)
    }
}

/// The tokens of a statement.
pub fn tokens(sql: &str) -> Vec<Token> {
    let text: Vec<char> = sql.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    let find = |from: usize, what: &[char]| {
        (from..text.len()).find(|i| text[*i..].starts_with(what)).map_or(text.len(), |i| i + what.len())
    };
    while let Some(&c) = text.get(at) {
        let next = text.get(at + 1).copied();
        match c {
            _ if c.is_whitespace() => at += 1,
            '-' if next == Some('-') => at = find(at, &['\n']),
            '/' if next == Some('*') => at = find(at + 2, &['*', '/']),
            '\'' => {
                at = find(at + 1, &['\'']);
                out.push(Token::Value);
            }
            '"' => {
                let end = find(at + 1, &['"']);
                out.push(Token::Word(text[at + 1..end.saturating_sub(1).max(at + 1)].iter().collect()));
                at = end;
            }
            '$' => {
                let tag: Vec<char> = text[at + 1..].iter().copied().take_while(|c| is_word(*c)).collect();
                if text.get(at + 1 + tag.len()) == Some(&'$') {
                    let tag = &text[at..at + tag.len() + 2];
                    at = find(at + tag.len(), tag);
                } else {
                    at += 1 + tag.len();
                }
                out.push(Token::Value);
            }
            '0'..='9' => {
                at += text[at..].iter().take_while(|c| is_word(**c) || **c == '.').count();
                out.push(Token::Value);
            }
            _ if is_word(c) => {
                let word: String = text[at..].iter().take_while(|c| is_word(**c) || **c == '$').collect();
                at += word.chars().count();
                out.push(Token::Word(word.to_lowercase()));
            }
            _ => {
                out.push(Token::Sign(c));
                at += 1;
            }
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a statement, for looking names up; the bodies of functions and strings are
/// looked into as well, since statements are made of them.
pub fn all_words(sql: &str) -> impl Iterator<Item = String> + '_ {
    sql.split(|c: char| !is_word(c) && c != '$')
        .flat_map(|word| word.split("$$"))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// The first word, in small letters; that of `(SELECT …)` is `select`. Empty without any.
pub fn first(tokens: &[Token]) -> &str {
    let word = tokens.iter().find(|t| **t != Token::Sign('('));
    if let Some(Token::Word(word)) = word { word } else { "" }
}

/// Whether the rows' order is the statement's: ORDER BY outside of all parentheses.
pub fn is_ordered(tokens: &[Token]) -> bool {
    // A query in parentheses is a whole one: as deep as its first token.
    let base = tokens.iter().take_while(|t| **t == Token::Sign('(')).count() as i64;
    let mut depth = 0i64;
    tokens.windows(2).any(|pair| {
        match pair[0] {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            _ => {}
        }
        depth <= base && pair[0].is("order") && pair[1].is("by")
    })
}

/// Whether it only reads, as far as the first word tells: a function may write.
pub fn only_reads(tokens: &[Token]) -> bool {
    matches!(first(tokens), "select" | "values" | "table" | "show" | "explain" | "fetch" | "move" | "")
        && !tokens.iter().any(|t| t.is("into"))
}

/// What CREATE, ALTER and DROP can be followed by before the name.
const KINDS: &[&str] = &[
    "or",
    "replace",
    "global",
    "local",
    "temp",
    "temporary",
    "unlogged",
    "unique",
    "trusted",
    "procedural",
    "recursive",
    "materialized",
    "foreign",
    "constraint",
    "event",
    "default",
    "text",
    "search",
    "table",
    "view",
    "index",
    "sequence",
    "type",
    "domain",
    "function",
    "procedure",
    "routine",
    "aggregate",
    "operator",
    "class",
    "family",
    "schema",
    "role",
    "user",
    "group",
    "database",
    "tablespace",
    "extension",
    "language",
    "collation",
    "conversion",
    "statistics",
    "publication",
    "subscription",
    "server",
    "data",
    "wrapper",
    "access",
    "method",
    "configuration",
    "dictionary",
    "parser",
    "template",
    "if",
    "not",
    "exists",
    "concurrently",
    "only",
    "cast",
    "transform",
    "for",
    "trigger",
    "rule",
    "policy",
];

/// The names that a statement makes, changes or removes, in small letters.
pub fn targets(tokens: &[Token]) -> Vec<String> {
    let word = |i: usize| if let Some(Token::Word(word)) = tokens.get(i) { Some(word.as_str()) } else { None };
    let mut out = Vec::new();
    match first(tokens) {
        "create" | "alter" | "drop" | "comment" | "import" => {
            let mut at = 1;
            while word(at).is_some_and(|w| KINDS.contains(&w)) {
                at += 1;
            }
            let kind = word(1).unwrap_or_default();
            out.extend(names(tokens, at, first(tokens) == "drop"));
            // What a trigger, a rule or a policy is on behaves differently with it.
            let on_matters = tokens[..at].iter().any(|t| t.is("trigger") || t.is("unique"))
                || ["trigger", "rule", "policy", "constraint"].contains(&kind)
                || tokens.get(at - 1).is_some_and(|t| t.is("rule") || t.is("policy"))
                || word(1).is_some_and(|w| matches!(w, "trigger" | "rule" | "policy"));
            if on_matters {
                let which = if kind == "rule" || word(3) == Some("rule") { "to" } else { "on" };
                for at in after(tokens, which) {
                    out.extend(names(tokens, at, false));
                }
            }
            for at in after(tokens, "rename") {
                out.extend(
                    tokens[at..].iter().position(|t| t.is("to")).and_then(|i| word(at + i + 1)).map(str::to_owned),
                );
            }
            // A partition and its table.
            for at in after(tokens, "of").chain(after(tokens, "partition")) {
                if at >= 2 && ["partition", "attach", "detach"].iter().any(|w| tokens[at - 2].is(w)) {
                    out.extend(names(tokens, at, false));
                }
            }
        }
        "truncate" | "lock" | "cluster" | "reindex" | "refresh" => {
            let mut at = 1;
            while word(at).is_some_and(|w| KINDS.contains(&w)) {
                at += 1;
            }
            out.extend(names(tokens, at, true));
        }
        "copy" => out.extend(names(tokens, 1, false)),
        "declare" | "close" | "prepare" | "deallocate" => out.extend(word(1).map(str::to_owned)),
        "grant" | "revoke" => {
            for at in after(tokens, "on").chain(after(tokens, "to")).chain(after(tokens, "from")) {
                let at = at + usize::from(word(at).is_some_and(|w| KINDS.contains(&w)));
                out.extend(names(tokens, at, true));
            }
        }
        _ => {}
    }
    // Also in WITH, in EXPLAIN ANALYZE and behind `\;`.
    for verb in ["into", "update", "from"] {
        for at in after(tokens, verb) {
            let is_target = match verb {
                "from" => at >= 2 && tokens[at - 2].is("delete"),
                "update" => {
                    !tokens.get(at.wrapping_sub(2)).is_some_and(|t| ["for", "key", "do", "on"].iter().any(|w| t.is(w)))
                }
                _ => true,
            };
            if is_target {
                let skip = tokens[at..]
                    .iter()
                    .take_while(|t| ["only", "table", "temp", "temporary", "unlogged"].iter().any(|w| t.is(w)));
                let at = at + skip.count();
                out.extend(names(tokens, at, false));
            }
        }
    }
    // An index without a name of its own, and the like.
    out.retain(|name| !["on", "as", "all", "to", "from", "current", "public", "postgres"].contains(&name.as_str()));
    out
}

/// The places behind each occurrence of a word.
fn after<'a>(tokens: &'a [Token], word: &'a str) -> impl Iterator<Item = usize> + 'a {
    tokens.iter().enumerate().filter(move |(_, t)| t.is(word)).map(|(i, _)| i + 1).filter(|i| *i < tokens.len())
}

/// The name at a place, without what it is qualified with; with `all`, those behind commas too.
/// An operator's name is its signs.
fn names(tokens: &[Token], mut at: usize, all: bool) -> Vec<String> {
    let mut out = Vec::new();
    loop {
        let mut name = None;
        while let Some(Token::Word(word)) = tokens.get(at) {
            name = Some(word.clone());
            at += 1;
            if tokens.get(at) != Some(&Token::Sign('.')) {
                break;
            }
            at += 1;
        }
        if name.is_none() {
            let signs = tokens[at.min(tokens.len())..].iter().map_while(|t| match t {
                Token::Sign(c) if !"(),;*[]".contains(*c) => Some(*c),
                _ => None,
            });
            name = Some(signs.collect::<String>()).filter(|signs| !signs.is_empty());
        }
        let Some(name) = name else { return out };
        out.push(name);
        if !all || tokens.get(at) != Some(&Token::Sign(',')) {
            return out;
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets_of(sql: &str) -> Vec<String> {
        targets(&tokens(sql))
    }

    #[test]
    fn tokens_leave_comments_and_values_out() {
        let word = |text: &str| Token::Word(text.to_owned());
        let got = tokens("SELECT a$b, \"X y\" /* c */ -- d\n 'it''s' $1 $$b$$ 1.5e3");
        let expected =
            [word("select"), word("a$b"), Token::Sign(','), word("X y"), Token::Value, Token::Value, Token::Value];
        assert_eq!(got[..7], expected);
        assert_eq!(got.len(), 9);
    }

    #[test]
    fn order_counts_outside_only() {
        let ordered = |sql: &str| is_ordered(&tokens(sql));
        assert!(ordered("select * from t order by a"));
        assert!(ordered("(select 1 order by a) limit 1"));
        assert!(!ordered("select * from (select 1 order by a) t"));
        assert!(!ordered("select rank() over (order by a) from t"));
    }

    #[test]
    fn targets_are_found() {
        assert_eq!(targets_of("CREATE TEMP TABLE IF NOT EXISTS s.T1 (a int)"), ["t1"]);
        assert_eq!(targets_of("create unique index i on t (a)"), ["i", "t"]);
        assert_eq!(targets_of("create trigger tr before insert on s.t for each row execute function f()"), ["tr", "t"]);
        assert_eq!(targets_of("create rule r as on insert to v do instead select 1"), ["r", "v"]);
        assert_eq!(targets_of("create operator ### (procedure = f)"), ["###"]);
        assert_eq!(targets_of("drop table a, b.c cascade"), ["a", "c"]);
        assert_eq!(targets_of("with x as (delete from a returning *) insert into b select * from x"), ["b", "a"]);
        assert_eq!(targets_of("update only t set a = 1"), ["t"]);
        assert_eq!(targets_of("insert into t values (1) on conflict (a) do update set b = 1"), ["t"]);
        assert_eq!(targets_of("select a into temp x from y"), ["x"]);
        assert_eq!(targets_of("select a from y for update"), Vec::<String>::new());
        assert_eq!(targets_of("alter table t rename to u"), ["t", "u"]);
        assert_eq!(targets_of("truncate table only a, b"), ["a", "b"]);
        assert_eq!(targets_of("create table p1 partition of p for values in (1)"), ["p1", "p"]);
    }
}
