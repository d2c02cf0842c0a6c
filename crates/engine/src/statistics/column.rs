//! Statistics of one column from a sample, as PostgreSQL computes them (`compute_scalar_stats` of analyze.c).

use std::collections::HashSet;

use resurgam_base::Result;
use resurgam_page::key;
use resurgam_page::types::{ColumnType, Datum, DatumRef};

use super::ColumnStatistics;

/// Longer values are not compared: they count as distinct, and are neither common values nor bounds.
const WIDTH_MAX: usize = 1024;
/// Bytes of common values, and of bounds, that are kept of a column, and of all of a table together; of longer ones there
/// are fewer.
const KEPT_BYTES_MAX: usize = 256 << 10;
const KEPT_BYTES_OF_ALL: usize = 16 << 20;
/// Bytes of a sample's values that all columns of a table hold together, and what each may hold in any case.
const HELD_BYTES_OF_ALL: usize = 128 << 20;
const HELD_BYTES_MIN: usize = 64 << 10;
/// What a value takes beside its own bytes.
const HELD_BESIDE: usize = 96;

/// The values of one column in a sample. If they take more memory than they may, about half of the rows are forgotten, and of
/// those that follow about half are passed over.
pub(super) struct ColumnSample {
    name: String,
    ty: ColumnType,
    is_ordered: bool,
    /// How many columns the table's memory is for.
    share: usize,
    held: usize,
    /// Rows that were met, and each how many of them counts.
    met: usize,
    every: usize,
    rows: usize,
    nulls: usize,
    too_wide: usize,
    width: u64,
    /// Values by which they are ordered, and what they are, in the order of rows.
    values: Vec<(Vec<u8>, Datum)>,
    /// Which of the rows that were met each value is of.
    places: Vec<usize>,
}

/// Values that are equal, in order.
struct Run {
    first: usize,
    count: usize,
}

impl ColumnSample {
    /// A column of a table of which as many as `columns` are looked at.
    pub(super) fn new(name: &str, ty: ColumnType, columns: usize) -> Self {
        // PostgreSQL compares no values of json.
        let is_ordered = ty != ColumnType::Json;
        Self {
            name: name.to_owned(),
            ty,
            is_ordered,
            share: columns.max(1),
            held: 0,
            met: 0,
            every: 1,
            rows: 0,
            nulls: 0,
            too_wide: 0,
            width: 0,
            values: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Takes the value of the next row.
    pub(super) fn add(&mut self, value: DatumRef<'_>) -> Result<()> {
        self.met += 1;
        if !is_one_of(self.met, self.every) {
            return Ok(());
        }
        self.rows += 1;
        let width = match value {
            DatumRef::Null => {
                self.nulls += 1;
                return Ok(());
            }
            DatumRef::External(reference) => usize::try_from(reference.len).unwrap_or(usize::MAX),
            // With the byte that says how long it is.
            DatumRef::Text(text) => text.len() + 1,
            DatumRef::Bytes(bytes) => bytes.len() + 1,
            _ => self.ty.fixed_width().unwrap_or(8),
        };
        self.width = self.width.saturating_add(width as u64);
        if !self.is_ordered {
            return Ok(());
        }
        if width > WIDTH_MAX {
            self.too_wide += 1;
            return Ok(());
        }
        let mut by = Vec::with_capacity(width + 2);
        key::encode_unbounded(value, self.ty, &mut by)?;
        self.held += held(&by);
        self.values.push((by, value.to_owned()));
        self.places.push(self.met);
        if self.held > (HELD_BYTES_OF_ALL / self.share).max(HELD_BYTES_MIN) {
            self.thin();
        }
        Ok(())
    }

    /// Forgets about half of the rows.
    fn thin(&mut self) {
        let before = (self.values.len() + self.too_wide) as u128;
        self.every *= 2;
        let every = self.every;
        let mut places = self.places.iter();
        self.values.retain(|_| places.next().is_some_and(|place| is_one_of(*place, every)));
        self.places.retain(|place| is_one_of(*place, every));
        self.values.shrink_to_fit();
        self.held = self.values.iter().map(|(by, _)| held(by)).sum();
        self.nulls /= 2;
        self.too_wide /= 2;
        // What is left is as wide as what there was, one with another.
        let left = (self.values.len() + self.too_wide) as u128;
        self.width = (u128::from(self.width) * left / before.max(1)) as u64;
        self.rows = self.values.len() + self.nulls + self.too_wide;
    }

    /// What the sample says of a table of `total` rows; at most `target` common values, and as many groups.
    pub(super) fn statistics(self, total: f64, target: usize) -> ColumnStatistics {
        let mut out = ColumnStatistics {
            name: self.name,
            ty: self.ty,
            nulls: 0.0,
            width: 0,
            distinct: 0.0,
            common: Vec::new(),
            histogram: Vec::new(),
            correlation: None,
        };
        let there = self.rows - self.nulls;
        if self.rows == 0 {
            return out;
        }
        let nulls = self.nulls as f64 / self.rows as f64;
        out.nulls = nulls as f32;
        if there == 0 {
            return out;
        }
        out.width = u32::try_from(self.width / there as u64).unwrap_or(u32::MAX);
        if self.values.is_empty() {
            // All of them are too long to be compared, if they can be.
            out.distinct = if self.is_ordered { -(1.0 - nulls) as f32 } else { 0.0 };
            return out;
        }
        // Which place of the sample a value had, by where it is in their order.
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(|a, b| self.values[*a].0.cmp(&self.values[*b].0).then(a.cmp(b)));
        let mut runs: Vec<Run> = Vec::new();
        for (at, place) in order.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if self.values[order[run.first]].0 == self.values[*place].0 => run.count += 1,
                _ => runs.push(Run { first: at, count: 1 }),
            }
        }
        let multiple = runs.iter().filter(|run| run.count > 1).count();
        let sample = self.rows as f64;
        let distinct = distinct_values(Counts {
            total,
            nulls,
            there: there as f64,
            distinct: runs.len(),
            multiple,
            too_wide: self.too_wide,
        });
        out.distinct = distinct as f32;

        let mut common: Vec<&Run> = runs.iter().filter(|run| run.count > 1).collect();
        common.sort_by(|a, b| b.count.cmp(&a.count).then(a.first.cmp(&b.first)));
        common.truncate(target);
        let is_all = common.len() == runs.len() && self.too_wide == 0 && distinct > 0.0;
        if !is_all {
            let counts: Vec<f64> = common.iter().map(|run| run.count as f64).collect();
            common.truncate(worth_keeping(&counts, distinct, nulls, sample, total));
        }
        let value = |at: usize| self.values[order[at]].1.clone();
        out.common = common.iter().map(|run| (value(run.first), (run.count as f64 / sample) as f32)).collect();

        let firsts: HashSet<usize> = common.iter().map(|run| run.first).collect();
        let others: Vec<&Run> = runs.iter().filter(|run| !firsts.contains(&run.first)).collect();
        if others.len() >= 2 {
            let places: Vec<usize> = others.iter().flat_map(|run| run.first..run.first + run.count).collect();
            let bounds = others.len().min(target + 1).max(2);
            out.histogram = (0..bounds).map(|i| value(places[i * (places.len() - 1) / (bounds - 1)])).collect();
        }
        shorten(&mut out, KEPT_BYTES_MAX.min(KEPT_BYTES_OF_ALL / self.share));
        out.correlation = correlation(&order);
        out
    }
}

/// What a sample has of values.
struct Counts {
    total: f64,
    nulls: f64,
    there: f64,
    distinct: usize,
    multiple: usize,
    too_wide: usize,
}

/// Distinct values, as [`ColumnStatistics::distinct`] has them: the estimator of Haas and Stokes (IBM Research Report RJ 10025).
fn distinct_values(of: Counts) -> f64 {
    if of.multiple == 0 {
        // None came twice: it is taken for a column of which all values are distinct.
        return -(1.0 - of.nulls);
    }
    let distinct = if of.too_wide == 0 && of.multiple == of.distinct {
        // Each came more than once: there are no others.
        of.distinct as f64
    } else {
        let once = (of.distinct - of.multiple + of.too_wide) as f64;
        let seen = once + of.multiple as f64;
        let (sample, total) = (of.there, of.total * (1.0 - of.nulls));
        if total <= 0.0 {
            return 0.0;
        }
        let estimate = sample * seen / ((sample - once) + once * sample / total);
        estimate.clamp(seen, total.max(seen)).round()
    };
    if distinct > 0.1 * of.total { -(distinct / of.total).min(1.0) } else { distinct }
}

/// How many of the values that are most common, by their counts, are so much more so than the average of the others that they are worth
/// keeping (`analyze_mcv_list`).
fn worth_keeping(counts: &[f64], distinct: f64, nulls: f64, sample: f64, total: f64) -> usize {
    if sample >= total || total <= 1.0 {
        return counts.len();
    }
    let distinct = if distinct < 0.0 { -distinct * total } else { distinct };
    let mut kept = counts.len();
    let mut before: f64 = counts.iter().take(kept.saturating_sub(1)).sum();
    while kept > 0 {
        let least = counts[kept - 1];
        let mut part = (1.0 - before / sample - nulls).clamp(0.0, 1.0);
        let others = distinct - (kept - 1) as f64;
        if others > 1.0 {
            part /= others;
        }
        let there = total * least / sample;
        let variance = sample * there * (total - there) * (total - sample) / (total * total * (total - 1.0));
        if least > part * sample + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        kept -= 1;
        if kept > 0 {
            before -= counts[kept - 1];
        }
    }
    kept
}

/// How the order of values goes with that of rows; `None`: there are too few.
fn correlation(order: &[usize]) -> Option<f32> {
    if order.len() < 2 {
        return None;
    }
    let n = order.len() as f64;
    let both: f64 = order.iter().enumerate().map(|(at, place)| at as f64 * *place as f64).sum();
    let sum = (n - 1.0) * n / 2.0;
    let squares = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
    let correlation = (n * both - sum * sum) / (n * squares - sum * sum);
    Some(correlation.clamp(-1.0, 1.0) as f32)
}

/// Whether a row is among one in `every` (a power of two), by chance: values may follow each other in a pattern.
fn is_one_of(place: usize, every: usize) -> bool {
    let mixed = (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 29)) as usize) & (every - 1) == 0
}

/// About what a value takes, in the form that it is ordered by and in its own.
fn held(by: &[u8]) -> usize {
    2 * by.len() + HELD_BESIDE
}

/// Keeps fewer values where they are long.
fn shorten(of: &mut ColumnStatistics, most: usize) {
    let bytes = |value: &Datum| match value {
        Datum::Text(text) => text.len() + 8,
        Datum::Bytes(bytes) => bytes.len() + 8,
        _ => 24,
    };
    while of.common.iter().map(|(value, _)| bytes(value)).sum::<usize>() > most {
        of.common.truncate(of.common.len() / 2);
    }
    while of.histogram.len() > 2 && of.histogram.iter().map(bytes).sum::<usize>() > most {
        let last = of.histogram.len() - 1;
        let mut at = 0;
        of.histogram.retain(|_| {
            at += 1;
            (at - 1) % 2 == 0 || at - 1 == last
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = Option<i32>>, total: f64, target: usize) -> ColumnStatistics {
        let mut sample = ColumnSample::new("a", ColumnType::Int4, 1);
        for value in values {
            sample.add(value.map_or(DatumRef::Null, DatumRef::Int4)).expect("added");
        }
        sample.statistics(total, target)
    }

    fn near(a: f32, b: f32) -> bool {
        (a - b).abs() < 0.01
    }

    #[test]
    fn all_rows() {
        // A key: all distinct, in order.
        let key = of((0..1000).map(Some), 1000.0, 100);
        assert_eq!((key.nulls, key.width, key.distinct), (0.0, 4, -1.0));
        assert!(key.common.is_empty());
        assert_eq!(key.histogram.len(), 101);
        assert_eq!((&key.histogram[0], &key.histogram[100]), (&Datum::Int4(0), &Datum::Int4(999)));
        assert_eq!(key.correlation, Some(1.0));
        // The other way round.
        assert_eq!(of((0..1000).rev().map(Some), 1000.0, 100).correlation, Some(-1.0));
        // Few values: all of them are common ones.
        let few = of((0..1000).map(|i| Some(i % 4)), 1000.0, 100);
        assert_eq!((few.distinct, few.common.len(), few.histogram.len()), (4.0, 4, 0));
        assert!(few.common.iter().all(|(_, part)| near(*part, 0.25)));
        // NULLs.
        let half = of((0..1000).map(|i| (i % 2 == 0).then_some(i)), 1000.0, 10);
        assert!(near(half.nulls, 0.5) && near(half.distinct, -0.5), "{half:?}");
        assert_eq!(half.histogram.len(), 11);
        let none = of((0..10).map(|_| None), 10.0, 10);
        assert_eq!((none.nulls, none.width, none.distinct, none.correlation), (1.0, 0, 0.0, None));
        assert_eq!(of(std::iter::empty(), 0.0, 10).distinct, 0.0);
    }

    #[test]
    fn distinct_values_of_a_sample() {
        let counts = |distinct, multiple| Counts {
            total: 1_000_000.0,
            nulls: 0.0,
            there: 30_000.0,
            distinct,
            multiple,
            too_wide: 0,
        };
        // Each came more than once: that is all there are.
        assert_eq!(distinct_values(counts(100, 100)), 100.0);
        // None did.
        assert_eq!(distinct_values(counts(30_000, 0)), -1.0);
        // PostgreSQL's formula, by hand: 30000 * 25000 / (10000 + 20000 * 0.03) = 70754.7.
        assert_eq!(distinct_values(counts(25_000, 5_000)), 70_755.0);
        // More than a tenth of the rows: it grows with them.
        assert!((distinct_values(counts(29_000, 1_000)) + 30_000.0 * 29_000.0 / (2_000.0 + 840.0) / 1e6).abs() < 1e-3);
        // Half of a million values, of which a sample of 30,000 has few twice.
        let sample = of((0..30_000i64).map(|i| Some((i * 7_919 % 500_000) as i32)), 1e6, 100);
        assert!(sample.distinct == -1.0, "{}", sample.distinct);
    }

    #[test]
    fn common_values_stand_out() {
        // One value in a third of the rows, the others evenly spread.
        let skewed = of((0..30_000).map(|i| Some(if i % 3 == 0 { -1 } else { i })), 1e6, 100);
        assert_eq!(skewed.common.len(), 1);
        assert_eq!(skewed.common[0].0, Datum::Int4(-1));
        assert!(near(skewed.common[0].1, 1.0 / 3.0));
        assert_eq!(skewed.histogram.len(), 101);
        assert!(!skewed.histogram.contains(&Datum::Int4(-1)));
        // An even spread over many values has none.
        let even = of((0..30_000).map(|i| Some(i % 10_000)), 1e6, 100);
        assert!(even.common.is_empty(), "{:?}", even.common);
        assert_eq!(even.distinct, 10_000.0);
    }

    /// Of a wide table fewer rows are held: what they say stays about the same, and so does what they take.
    #[test]
    fn memory_is_bounded() {
        for columns in [1, 4000] {
            let mut sample = ColumnSample::new("a", ColumnType::Text, columns);
            let mut most = 0;
            for i in 0..60_000 {
                let text = format!("{:05}{}", i % 500, "x".repeat(900));
                let value = if i % 4 == 3 { DatumRef::Null } else { DatumRef::Text(&text) };
                sample.add(value).expect("added");
                most = most.max(sample.held);
            }
            assert!(most <= (HELD_BYTES_OF_ALL / columns).max(HELD_BYTES_MIN) + 2 * 1024, "{most}");
            let rows = sample.rows;
            let found = sample.statistics(60_000.0, 100);
            assert!((found.nulls - 0.25).abs() < 0.2, "{columns}: {found:?}");
            assert!((850..960).contains(&found.width), "{columns}: {}", found.width);
            assert!(rows > 10 && (columns > 1) == (rows < 1000), "{rows}");
            let bytes = (found.common.len() + found.histogram.len()) * 900;
            assert!(bytes <= 2 * (KEPT_BYTES_OF_ALL / columns).min(KEPT_BYTES_MAX) + 4 * 1024, "{bytes}");
        }
    }

    #[test]
    fn long_values_are_not_kept() {
        let mut sample = ColumnSample::new("a", ColumnType::Text, 1);
        for i in 0..100 {
            let text = format!("{i}{}", "x".repeat(2000));
            sample.add(DatumRef::Text(&text)).expect("added");
        }
        let found = sample.statistics(100.0, 100);
        assert!(found.width > 2000 && found.distinct == -1.0 && found.common.is_empty() && found.histogram.is_empty());
        let mut sample = ColumnSample::new("a", ColumnType::Text, 1);
        for i in 0..2000 {
            let text = format!("{i:05}{}", "x".repeat(1000));
            sample.add(DatumRef::Text(&text)).expect("added");
        }
        let found = sample.statistics(2000.0, 1000);
        let bytes: usize = found.histogram.len() * 1010;
        assert!(found.histogram.len() > 100 && bytes <= KEPT_BYTES_MAX + 2000, "{}", found.histogram.len());
        // Of json nothing is compared.
        let mut sample = ColumnSample::new("a", ColumnType::Json, 1);
        sample.add(DatumRef::Text("{}")).expect("added");
        let found = sample.statistics(1.0, 10);
        assert_eq!((found.distinct, found.width), (0.0, 3));
    }
}
