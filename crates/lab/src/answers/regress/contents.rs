//! Whether the tables that a statement reads hold the same rows on both servers: if not, an
//! earlier difference (a trigger that is not there, a refused function that writes) explains
//! what the statement answers.

use std::collections::HashMap;

use super::judge::Said;
use super::pair::Pair;
use super::words;
use crate::Result;
use crate::answers::client::{Outcome, Value};

/// Larger tables are compared by their first rows and their number.
const ROWS: usize = 30_000;

/// The tables among a text's words that have other rows in Resurgam, or are not there. Nothing
/// is looked at in a block that has failed.
///
/// # Errors
/// A server that cannot be started again.
pub fn different(pair: &mut Pair, sql: &str) -> Result<Vec<String>> {
    if pair.has_failed() {
        return Ok(Vec::new());
    }
    let words: Vec<String> = words::all_words(sql).map(|word| format!("'{word}'")).collect();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let names = format!(
        "SELECT quote_ident(relname) FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p', 'v', 'm') \
         AND pg_table_is_visible(oid) AND relname IN ({})",
        words.join(", ")
    );
    let mut out = Vec::new();
    for name in pair.ask_postgres(&names)? {
        let [theirs, ours] = pair.look(&format!("SELECT * FROM {name} LIMIT {ROWS}"))?;
        if rows(&theirs) != rows(&ours) {
            out.push(name);
        }
    }
    Ok(out)
}

/// The rows as a multiset, none of an error.
fn rows(said: &Said) -> Option<HashMap<&Vec<Value>, usize>> {
    let Said::Reply(reply) = said else { return None };
    let outcome: &Outcome = reply.outcomes.last().filter(|outcome| outcome.error.is_none())?;
    let mut counts = HashMap::new();
    outcome.rows.iter().for_each(|row| *counts.entry(row).or_default() += 1);
    Some(counts)
}
