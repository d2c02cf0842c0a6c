//! What a primary says of itself: its views, and what only its metrics have.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::Result;
use crate::wire::Client;

/// Until a primary that was just started has heard of the other parts.
const FOUND_MAX: Duration = Duration::from_secs(10);

/// Counters and positions at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Pages that were wanted and were in memory, and that were not.
    pub hits: f64,
    pub misses: f64,
    /// Pages that page servers gave.
    pub given: f64,
    pub log_end: f64,
    /// Up to where the page server has applied the log, and how far that is behind what is durable.
    pub applied: f64,
    pub lag: f64,
    /// What is in the long-term log.
    pub destaged: f64,
}

impl Look {
    /// Looks, in one statement. A primary that has just begun does not know of the other parts yet.
    pub fn at(client: &mut Client) -> Result<Self> {
        let begun = Instant::now();
        loop {
            match Self::once(client) {
                Err(_) if begun.elapsed() < FOUND_MAX => std::thread::sleep(Duration::from_millis(50)),
                look => return look,
            }
        }
    }

    fn once(client: &mut Client) -> Result<Self> {
        const SQL: &str = "select b.hits, b.misses, s.given, l.end_lsn, \
                           s.applied, s.lag, (select max(destaged_lsn) from resurgam_log_service) from resurgam_buffer b, \
                           resurgam_log l, (select sum(pages) as given, min(applied_lsn) as applied, max(lag_bytes) as lag \
                           from resurgam_page_servers) s";
        let rows = client.rows(SQL)?;
        let row = rows.first().ok_or("the views have no row")?;
        let of = |column: usize| row.get(column).and_then(Option::as_deref).and_then(|text| text.parse().ok());
        // What is missing is no number.
        let must = |column: usize, name: &str| of(column).ok_or_else(|| format!("the views do not say {name}"));
        Ok(Self {
            hits: must(0, "hits")?,
            misses: must(1, "misses")?,
            given: must(2, "how many pages were given")?,
            log_end: must(3, "where the log ends")?,
            applied: must(4, "how far the page server is")?,
            lag: must(5, "how far the page server is behind")?,
            destaged: must(6, "how far the log is destaged")?,
        })
    }

    /// The same of a server without parts, of which only the log is of interest.
    pub fn at_log(client: &mut Client) -> Result<Self> {
        let end = client.query("select end_lsn from resurgam_log")?.and_then(|text| text.parse().ok());
        Ok(Self { log_end: end.ok_or("the view does not say where the log ends")?, ..Self::default() })
    }

    /// The share of the pages that were wanted since `before` that no page server had to give.
    pub fn hit_rate_since(&self, before: &Self) -> Option<f64> {
        let wanted = (self.hits - before.hits) + (self.misses - before.misses);
        (wanted > 0.0).then(|| 1.0 - (self.given - before.given) / wanted)
    }
}

/// One of the primary's metrics that has no labels.
pub fn metric(port: u16, name: &str) -> Result<f64> {
    let failed = |e: std::io::Error| format!("could not read the metrics: {e}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: lab\r\n\r\n").map_err(failed)?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).map_err(failed)?;
    value_of(&String::from_utf8_lossy(&text), name).ok_or_else(|| format!("there is no metric {name}"))
}

fn value_of(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_by_their_whole_name() {
        let text = "# HELP a_total of a\na_total_more 3\na_total 4.5\n";
        assert_eq!(value_of(text, "a_total"), Some(4.5));
        assert_eq!(value_of(text, "a"), None);
    }

    #[test]
    fn pages_that_were_given_are_no_hits() {
        let before = Look { hits: 10.0, misses: 10.0, given: 5.0, ..Look::default() };
        let after = Look { hits: 70.0, misses: 50.0, given: 35.0, ..Look::default() };
        assert_eq!(after.hit_rate_since(&before), Some(0.7));
        assert_eq!(before.hit_rate_since(&before), None);
    }
}
