//! Options of sequences in any order, as PostgreSQL takes them: the parser knows one order only (AS, INCREMENT, MINVALUE,
//! MAXVALUE, START, CACHE, CYCLE, OWNED BY). They are put into that one, in `CREATE SEQUENCE` and in the parentheses of
//! `GENERATED … AS IDENTITY (…)`. One that is given twice stays, and is an error of syntax.
//!
//! The parser has no `SEQUENCE NAME s` among them: of a new column it is read as `COMMENT 'resurgam$sequence_name s'` behind
//! the parentheses (of one that is there see `identity`).

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::parse::words::is_word;

/// The words that options begin with, in the parser's order.
const ORDER: [&str; 8] = ["as", "increment", "minvalue", "maxvalue", "start", "cache", "cycle", "owned"];

/// What the comment begins with that says how an identity column's sequence is called.
pub(crate) const NAME: &str = "resurgam$sequence_name ";

/// See the module's head.
pub(crate) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let named = |tokens: &[TokenWithSpan], word: &str| tokens.iter().any(|token| is_word(&token.token, word));
    if !named(&tokens, "sequence") && !named(&tokens, "identity") {
        return tokens;
    }
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut at = 0;
    while at < tokens.len() {
        let range = if is_word(&tokens[at].token, "sequence") && creates(&tokens[..at]) {
            // Options begin behind the name.
            let behind = (at + 2).min(tokens.len());
            let begin = tokens[behind..].iter().position(|token| rank(&token.token).is_some());
            let begin = begin.map(|found| behind + found);
            let end = tokens[at..].iter().position(|token| matches!(token.token, Token::SemiColon | Token::EOF));
            begin.map(|begin| begin..end.map_or(tokens.len(), |end| at + end))
        } else if is_word(&tokens[at].token, "identity")
            && tokens.get(at + 1).is_some_and(|token| token.token == Token::LParen)
        {
            let end = tokens[at..].iter().position(|token| token.token == Token::RParen);
            end.map(|end| at + 2..at + end)
        } else {
            None
        };
        match range {
            Some(range) if range.start < range.end => {
                let is_identity = is_word(&tokens[at].token, "identity");
                let mut options = tokens[range.clone()].to_vec();
                let name = is_identity.then(|| take_name(&mut options)).flatten();
                let sorted = sorted(options);
                if let Some(name) = name {
                    let parentheses = range.start - 1..=range.end;
                    let (open, close) = (tokens[range.start - 1].clone(), tokens[range.end].clone());
                    // Empty ones are an error.
                    let mut with_name =
                        if sorted.is_empty() { sorted } else { [vec![open], sorted, vec![close]].concat() };
                    with_name.extend(name);
                    at = range.start - 1 + with_name.len();
                    tokens.splice(parentheses, with_name);
                } else {
                    at = range.end;
                    tokens.splice(range, sorted);
                }
            }
            _ => at += 1,
        }
    }
    tokens
}

/// Takes SEQUENCE NAME out of options: the comment that stands for it. One that is given twice stays, an error of syntax.
fn take_name(options: &mut Vec<TokenWithSpan>) -> Option<[TokenWithSpan; 2]> {
    let begins = |at: &usize| {
        let word = |at: usize, word: &str| options.get(at).is_some_and(|token| is_word(&token.token, word));
        word(*at, "sequence") && word(*at + 1, "name")
    };
    let [at] = (0..options.len()).filter(begins).collect::<Vec<_>>()[..] else { return None };
    let mut end = at + 3;
    while options.get(end).is_some_and(|token| token.token == Token::Period) {
        end += 2;
    }
    if end > options.len() {
        return None;
    }
    let span = options[at].span;
    let name: Vec<String> = options.drain(at..end).skip(2).map(|token| token.token.to_string()).collect();
    let of = |token| TokenWithSpan { token, span };
    Some([of(Token::make_word("COMMENT", None)), of(Token::SingleQuotedString(format!("{NAME}{}", name.concat())))])
}

/// Whether what is before the word SEQUENCE is CREATE [TEMP | TEMPORARY].
fn creates(before: &[TokenWithSpan]) -> bool {
    let mut back = before.iter().rev().peekable();
    back.next_if(|token| ["temp", "temporary"].iter().any(|word| is_word(&token.token, word)));
    back.next().is_some_and(|token| is_word(&token.token, "create"))
}

fn rank(token: &Token) -> Option<usize> {
    ORDER.iter().position(|word| is_word(token, word)).or_else(|| is_word(token, "no").then_some(0))
}

/// Options, each with its words, in the parser's order.
fn sorted(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let no = is_word(&token.token, "no");
        let first = if no { tokens.peek().and_then(|next| rank(&next.token)) } else { rank(&token.token) };
        match first {
            Some(rank) => {
                let mut option = vec![token];
                option.extend(no.then(|| tokens.next()).flatten());
                options.push((rank, option));
            }
            None => match options.last_mut() {
                Some((_, option)) => option.push(token),
                // No option begins here: the parser says what is wrong.
                None => options.push((0, vec![token])),
            },
        }
    }
    options.sort_by_key(|(rank, _)| *rank);
    options.into_iter().flat_map(|(_, option)| option).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn read(text: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().expect("tokens");
        let words: Vec<String> = known(tokens).iter().map(|token| token.token.to_string()).collect();
        words.join(" ").replace(" EOF", "").trim().to_owned()
    }

    #[test]
    fn options_come_in_the_order_that_is_known() {
        assert_eq!(
            read("create sequence s start with 5 increment by -2 no maxvalue minvalue -9 cache 3 no cycle as int"),
            "create sequence s as int increment by - 2 minvalue - 9 no maxvalue start with 5 cache 3 no cycle"
        );
        assert_eq!(
            read("create table t (a int generated by default as identity (start 10 increment 5), b int)"),
            "create table t ( a int generated by default as identity ( increment 5 start 10 ) , b int )"
        );
        assert_eq!(
            read(
                "create table t (a int generated always as identity (sequence name x.\"S\" start 1 increment 2) unique)"
            ),
            "create table t ( a int generated always as identity ( increment 2 start 1 ) \
             COMMENT 'resurgam$sequence_name x.\"S\"' unique )"
        );
        assert_eq!(
            read("create table t (a int generated always as identity (sequence name s), b int)"),
            "create table t ( a int generated always as identity COMMENT 'resurgam$sequence_name s' , b int )"
        );
        assert_eq!(
            read("create sequence s; select start, cycle from t"),
            "create sequence s ; select start , cycle from t"
        );
        assert_eq!(
            read("select sequence, as_of from t order by start"),
            "select sequence , as_of from t order by start"
        );
        assert_eq!(
            read("create sequence s owned by t.a start 1 start 2"),
            "create sequence s start 1 start 2 owned by t . a"
        );
    }
}
