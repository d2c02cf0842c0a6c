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

/// How long the primary has waited for pages, as its metrics say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageWaits {
    /// Seconds, ascending, and how many waits were not longer; last those that were, for which the bound is infinite.
    pub buckets: Vec<(f64, f64)>,
    pub sum: f64,
}

impl PageWaits {
    const NAME: &str = "resurgam_remote_wait_seconds";

    /// Reads the metrics.
    pub fn at(port: u16) -> Result<Self> {
        Self::of(&metrics(port)?).ok_or_else(|| format!("there is no metric {}", Self::NAME))
    }

    fn of(text: &str) -> Option<Self> {
        let parts = text.lines().filter_map(|line| line.strip_prefix(Self::NAME)?.rsplit_once(' '));
        let mut waits = Self::default();
        for (part, value) in parts {
            let value: f64 = value.parse().ok()?;
            match part.strip_prefix("_bucket{le=\"").and_then(|bound| bound.strip_suffix("\"}")) {
                Some(bound) => waits.buckets.push((bound.parse().ok()?, value)),
                None if part == "_sum" => waits.sum = value,
                None => {}
            }
        }
        (!waits.buckets.is_empty()).then_some(waits)
    }

    /// What came after `before`.
    pub fn since(&self, before: &Self) -> Self {
        let buckets = self.buckets.iter().zip(&before.buckets);
        Self {
            buckets: buckets.map(|((bound, now), (_, then))| (*bound, now - then)).collect(),
            sum: self.sum - before.sum,
        }
    }

    pub fn count(&self) -> f64 {
        self.buckets.last().map_or(0.0, |(_, count)| *count)
    }

    /// The time in seconds that this share of the waits did not take longer than, as if within a bucket all times were equally many.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let wanted = self.count() * share;
        let mut below = (0.0, 0.0);
        for (bound, count) in &self.buckets {
            if *count >= wanted && *count > 0.0 {
                if bound.is_infinite() {
                    return Some(f64::INFINITY);
                }
                let of_bucket = (wanted - below.1) / (count - below.1).max(1.0);
                return Some(below.0 + (bound - below.0) * of_bucket.clamp(0.0, 1.0));
            }
            below = (*bound, *count);
        }
        None
    }
}

fn metrics(port: u16) -> Result<String> {
    let failed = |e: std::io::Error| format!("could not read the metrics: {e}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: lab\r\n\r\n").map_err(failed)?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).map_err(failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_from_the_histogram() {
        let text = |counts: [u32; 3], sum: f64| {
            let name = PageWaits::NAME;
            format!(
                "# HELP {name} H.\n# TYPE {name} histogram\n{name}_bucket{{le=\"0.0001\"}} {}\n{name}_bucket{{le=\"0.0002\"}} {}\n\
                 {name}_bucket{{le=\"+Inf\"}} {}\n{name}_sum {sum}\n{name}_count {}\n{name}s_other 7\n",
                counts[0], counts[1], counts[2], counts[2]
            )
        };
        let before = PageWaits::of(&text([10, 10, 10], 1.0)).expect("it is there");
        let waits = PageWaits::of(&text([60, 100, 110], 1.5)).expect("it is there").since(&before);
        assert_eq!((waits.count(), waits.sum), (100.0, 0.5));
        let near = |share: f64, seconds: f64| {
            let found = waits.percentile(share).expect("there were waits");
            assert!(found == seconds || (found - seconds).abs() < 1e-9, "{share}: {found}");
        };
        near(0.25, 0.00005);
        near(0.5, 0.0001);
        near(0.7, 0.00015);
        near(0.99, f64::INFINITY);
        assert_eq!((PageWaits::default().percentile(0.5), PageWaits::of("a 1\n")), (None, None));
    }

    #[test]
    fn pages_that_were_given_are_no_hits() {
        let before = Look { hits: 10.0, misses: 10.0, given: 5.0, ..Look::default() };
        let after = Look { hits: 70.0, misses: 50.0, given: 35.0, ..Look::default() };
        assert_eq!(after.hit_rate_since(&before), Some(0.7));
        assert_eq!(before.hit_rate_since(&before), None);
    }
}
