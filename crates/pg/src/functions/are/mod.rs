//! PostgreSQL's advanced regular expressions.
//!
//! - `translate`: an expression to the syntax of the `regex` crates
//! - `functions`: `~` and its kin, `regexp_…`
//!
//! What matches, and how much of it, is Henry Spencer's: of the matches that begin first the longest one, where a
//! greedy quantifier decides. The crates prefer alternatives in their order; so the end of a match is searched for
//! among all matches of its begin. Not here, and `0A000`: back references, looking ahead or behind, quantifiers of both
//! kinds in one expression where the extent of a match is asked for.

mod functions;
mod translate;

use std::cell::RefCell;
use std::rc::Rc;

use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input, MatchKind, meta};

pub use functions::OPERATORS;
pub(super) use functions::all;

use crate::running;
use crate::wire::SqlError;
use translate::{Syntax, translate};

/// Options of an expression, from its flags or its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Options {
    pub ignore_case: bool,
    pub expanded: bool,
    /// `.` and negated brackets stop at newlines.
    pub newline_stops: bool,
    /// `^` and `$` are at each newline as well.
    pub newline_anchors: bool,
    pub literal: bool,
    /// All matches: of functions, not of expressions.
    pub global: bool,
}

impl Options {
    /// Options by their letters.
    ///
    /// # Errors
    /// 22023 for one that is none.
    pub(super) fn parse(flags: &str) -> Result<Self, SqlError> {
        let mut out = Self::default();
        for letter in flags.chars() {
            if letter == 'g' {
                out.global = true;
            } else if !out.set(letter)? {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(SqlError::new("22023", message));
            }
        }
        Ok(out)
    }

    /// Sets one; false if there is no such letter.
    fn set(&mut self, letter: char) -> Result<bool, SqlError> {
        match letter {
            'i' => self.ignore_case = true,
            'c' => self.ignore_case = false,
            'm' | 'n' => (self.newline_stops, self.newline_anchors) = (true, true),
            'p' => (self.newline_stops, self.newline_anchors) = (true, false),
            's' => (self.newline_stops, self.newline_anchors) = (false, false),
            'w' => (self.newline_stops, self.newline_anchors) = (false, true),
            'x' => self.expanded = true,
            't' => self.expanded = false,
            'q' => self.literal = true,
            'b' | 'e' => {
                return Err(SqlError::unsupported("basic and extended regular expressions are not supported"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The end of a match and of its groups, in bytes: the whole first.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

/// A compiled expression.
pub(super) struct Are {
    first: meta::Regex,
    /// Finds the longest match of a begin; made when it is first asked for.
    longest: RefCell<Option<(PikeVM, Cache)>>,
    syntax: Syntax,
}

fn broken(error: impl std::fmt::Display) -> SqlError {
    SqlError::new("2201B", format!("invalid regular expression: {error}"))
}

/// Bytes that a compiled expression may take.
const SIZE_MAX: usize = 10 << 20;

impl Are {
    fn new(pattern: &str, options: Options) -> Result<Self, SqlError> {
        let syntax = translate(pattern, options)?;
        let config = meta::Config::new().nfa_size_limit(Some(SIZE_MAX));
        let first = meta::Builder::new().configure(config).build(&syntax.expression).map_err(|error| {
            match error.size_limit() {
                Some(_) => broken("regular expression is too complex"),
                None => broken(error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string)),
            }
        })?;
        Ok(Self { first, longest: RefCell::new(None), syntax })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.first.is_match(text)
    }

    /// The first match at or behind a byte.
    ///
    /// # Errors
    /// 0A000 where quantifiers of both kinds make the extent unclear.
    pub(super) fn find_at(&self, text: &str, from: usize) -> Result<Option<Groups>, SqlError> {
        if self.syntax.lazy && (self.syntax.greedy || self.syntax.alternatives) {
            return Err(SqlError::unsupported(
                "regular expressions with greedy and non-greedy quantifiers are not supported here",
            ));
        }
        let input = Input::new(text).span(from..text.len());
        if self.syntax.lazy {
            let mut captures = self.first.create_captures();
            self.first.search_captures(&input, &mut captures);
            return Ok(groups(&captures));
        }
        let Some(found) = self.first.find(input) else { return Ok(None) };
        let mut longest = self.longest.borrow_mut();
        if longest.is_none() {
            let vm = PikeVM::builder()
                .configure(PikeVM::config().match_kind(MatchKind::All))
                .thompson(thompson::Config::new().nfa_size_limit(Some(SIZE_MAX)))
                .build(&self.syntax.expression)
                .map_err(broken)?;
            let cache = vm.create_cache();
            *longest = Some((vm, cache));
        }
        let Some((vm, cache)) = longest.as_mut() else { return Ok(None) };
        let begin = found.start();
        let mut captures = vm.create_captures();
        vm.captures(cache, Input::new(text).span(begin..text.len()).anchored(Anchored::Yes), &mut captures);
        let end = captures.get_match().map_or(found.end(), |longest| longest.end().max(found.end()));
        // Groups as the preferred way to that extent has them.
        let mut within = self.first.create_captures();
        let exact = Input::new(text).span(begin..end).anchored(Anchored::Yes);
        self.first.search_captures(&exact, &mut within);
        match within.get_match() {
            Some(found) if found.end() == end => Ok(groups(&within)),
            _ => Ok(groups(&captures)),
        }
    }

    /// Calls `with` for the matches that do not overlap, from a byte on; at most `limit`.
    ///
    /// # Errors
    /// Those of `with`; `57014` and `53200` when the statement has to end.
    pub(super) fn each_match(
        &self,
        text: &str,
        from: usize,
        limit: usize,
        mut with: impl FnMut(Groups) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let (mut at, mut count) = (from, 0usize);
        while at <= text.len() && count < limit {
            if count.is_multiple_of(ASK_EVERY) {
                running::check()?;
            }
            let Some(found) = self.find_at(text, at)? else { break };
            let (begin, end) = found[0].unwrap_or((at, at));
            with(found)?;
            count += 1;
            // Behind an empty match the search goes on at the next character.
            at = match begin == end {
                true => end + text[end..].chars().next().map_or(1, char::len_utf8),
                false => end,
            };
        }
        Ok(())
    }

    /// As [`Are::each_match`], all of them together.
    pub(super) fn find_all(&self, text: &str, from: usize, limit: usize) -> Result<Vec<Groups>, SqlError> {
        let mut out = Vec::new();
        self.each_match(text, from, limit, |found| {
            out.push(found);
            Ok(())
        })?;
        Ok(out)
    }
}

fn groups(captures: &Captures) -> Option<Groups> {
    captures.is_match().then(|| captures.iter().map(|span| span.map(|span| (span.start, span.end))).collect())
}

/// Matches between two questions whether to stop.
pub(super) const ASK_EVERY: usize = 256;

/// # Errors
/// 2201B for what is no expression, 0A000 for what is not there.
pub(crate) fn check(pattern: &str, options: Options) -> Result<(), SqlError> {
    compiled(pattern, options).map(|_| ())
}

/// Whether a text has a match.
///
/// # Errors
/// As [`check`].
pub(crate) fn is_match(pattern: &str, text: &str, options: Options) -> Result<bool, SqlError> {
    Ok(compiled(pattern, options)?.is_match(text))
}

/// Compiled expressions that a thread keeps.
const KEPT: usize = 32;

thread_local! {
    static COMPILED: RefCell<Vec<(String, Options, Rc<Are>)>> = const { RefCell::new(Vec::new()) };
}

/// An expression, compiled once for a thread as long as it is among those last used.
///
/// # Errors
/// 2201B for what is none, 0A000 for what is not there.
pub(super) fn compiled(pattern: &str, options: Options) -> Result<Rc<Are>, SqlError> {
    let options = Options { global: false, ..options };
    let known = COMPILED.with_borrow_mut(|kept| {
        let at = kept.iter().position(|(text, with, _)| text == pattern && *with == options)?;
        let entry = kept.remove(at);
        let are = Rc::clone(&entry.2);
        kept.push(entry);
        Some(are)
    });
    if let Some(are) = known {
        return Ok(are);
    }
    let are = Rc::new(Are::new(pattern, options)?);
    COMPILED.with_borrow_mut(|kept| {
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((pattern.to_owned(), options, Rc::clone(&are)));
    });
    Ok(are)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> Option<Vec<Option<String>>> {
        let are = compiled(pattern, Options::default()).expect(pattern);
        let groups = are.find_at(text, 0).expect(pattern)?;
        Some(groups.iter().map(|span| span.map(|(begin, end)| text[begin..end].to_owned())).collect())
    }

    fn whole(pattern: &str, text: &str) -> Option<String> {
        found(pattern, text).and_then(|mut groups| groups.remove(0))
    }

    #[test]
    fn the_longest_match_wins() {
        for (pattern, text, out) in [
            (".|...", "xyz", "xyz"),
            ("a|ab", "xab", "ab"),
            ("(a?)(ab)?", "ab", "ab"),
            ("a.b", "a\nb", "a\nb"),
            ("x*?y", "xxy", "xxy"),
            ("a{", "a{", "a{"),
            (r"\mbar\M", "foo bar", "bar"),
            ("[[:alpha:]]+", "1é2", "é"),
            (r"\d+", "٣12", "12"),
            ("(?i)ABC", "xabc", "abc"),
            ("***=a.b", "axb a.b", "a.b"),
            ("[^a]", "ab", "b"),
            ("[]a]+", "x]a", "]a"),
            ("(?x)a b # c", "ab", "ab"),
        ] {
            assert_eq!(whole(pattern, text).as_deref(), Some(out), "{pattern}");
        }
        assert_eq!(found("(a)(b)?", "a"), Some(vec![Some("a".into()), Some("a".into()), None]));
        assert_eq!(whole("^b", "a\nb"), None);
        assert_eq!(whole("(?n)^b", "a\nb").as_deref(), Some("b"));
    }

    #[test]
    fn wrong_ones() {
        for (pattern, state) in [
            ("[", "2201B"),
            ("(", "2201B"),
            (")", "2201B"),
            ("a**", "2201B"),
            ("*a", "2201B"),
            (r"\q", "2201B"),
            ("a{2,1}", "2201B"),
            ("a{256}", "2201B"),
            ("[b-a]", "2201B"),
            (r"(a)\1", "0A000"),
            ("a(?=b)", "0A000"),
        ] {
            let error = compiled(pattern, Options::default()).err();
            assert_eq!(error.map(|error| error.into_fields().sqlstate), Some(state.to_owned()), "{pattern}");
        }
        assert_eq!(Options::parse("gz").unwrap_err().sqlstate, "22023");
    }
}
