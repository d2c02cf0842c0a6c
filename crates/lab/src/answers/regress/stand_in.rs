//! Stand-ins: a table that Resurgam refused, or that holds other rows there, is made as a plain
//! table with PostgreSQL's columns and rows before a query reads it, so that the query can be
//! compared all the same (`--stand-ins`).
//!
//! A stand-in has no constraints, defaults or indexes, so it is for queries only: what writes
//! to it is still judged as a consequence of the refusal. Views, partitions and tables with
//! children are stood in for as well: by what `SELECT *` of them answers.

use super::judge::Said;
use super::pair::Pair;
use super::taint::Taint;
use super::words::{self, Token};
use crate::Result;
use crate::answers::client::Outcome;

/// Tables with more rows are not stood in for.
const ROWS: usize = 30_000;

/// Sees to it that the tables of a query are in Resurgam as they are in PostgreSQL; the names
/// of those of which that is now true.
///
/// # Errors
/// A server that cannot be started again.
pub fn prepare(pair: &mut Pair, taint: &Taint, sql: &str, tokens: &[Token]) -> Result<Vec<String>> {
    let reads =
        words::only_reads(tokens) && !matches!(words::first(tokens), "explain" | "show" | "fetch" | "move" | "");
    // What ONLY and system columns see cannot be copied.
    let special = tokens
        .iter()
        .any(|t| matches!(t, Token::Word(w) if ["only", "tableoid", "ctid", "xmin"].contains(&w.as_str())));
    let names = if reads && !special && !pair.has_failed() { taint.names_in(sql) } else { Vec::new() };
    if names.is_empty() {
        return Ok(names);
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("'{}'", name.replace('\'', "''"))).collect();
    let relations = format!(
        "SELECT relname::text FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p', 'v', 'm', 'f') \
         AND pg_table_is_visible(oid) AND relname IN ({})",
        quoted.join(", ")
    );
    let mut done = Vec::new();
    for name in pair.ask_postgres(&relations)? {
        if is_stood_in(pair, &name)? {
            done.push(name);
        }
    }
    Ok(done)
}

/// Whether a table is now the same in both.
fn is_stood_in(pair: &mut Pair, name: &str) -> Result<bool> {
    let table = format!("\"{}\"", name.replace('"', "\"\""));
    let [theirs, ours] = pair.look(&format!("COPY (SELECT * FROM {table} LIMIT {}) TO STDOUT", ROWS + 1))?;
    let Some(data) = copied(&theirs).filter(|data| data.iter().filter(|b| **b == b'\n').count() <= ROWS) else {
        return Ok(false);
    };
    if copied(&ours).is_some_and(|own| lines(&own) == lines(&data)) {
        return Ok(true);
    }
    let columns = pair.ask_postgres(&format!(
        "SELECT string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) \
         FROM pg_attribute WHERE attrelid = '{}'::regclass AND attnum > 0 AND NOT attisdropped",
        table.replace('\'', "''")
    ))?;
    let Some(columns) = columns.into_iter().next() else { return Ok(false) };
    let fill = (format!("COPY {table} FROM STDIN"), Some(data));
    // The table that is there keeps its keys, if it takes the rows.
    let refill = [(format!("DELETE FROM {table}"), None), fill.clone()];
    let make =
        [(format!("DROP TABLE IF EXISTS {table}"), None), (format!("CREATE TABLE {table} ({columns})"), None), fill];
    Ok(pair.own(&refill)? || pair.own(&make)?)
}

fn copied(said: &Said) -> Option<Vec<u8>> {
    let Said::Reply(reply) = said else { return None };
    let outcome: &Outcome = reply.outcomes.last().filter(|outcome| outcome.error.is_none())?;
    Some(outcome.copied.clone())
}

fn lines(data: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = data.split(|b| *b == b'\n').collect();
    lines.sort_unstable();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_in_any_order() {
        assert_eq!(lines(b"2\n1\n"), lines(b"1\n2\n"));
        assert_ne!(lines(b"1\n1\n"), lines(b"1\n"));
    }
}
