//! Random numbers that are the same on every machine and in every version, a sequence of its own for each row of each
//! table: a row can be made again, alone, which is how lines agree with their orders. (SplitMix64.)

/// A sequence.
pub struct Random(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The sequence of a row.
    pub fn of(seed: u64, table: u64, row: u64) -> Self {
        let mut start = Self(seed.wrapping_mul(STEP) ^ table.rotate_left(56));
        let start = start.draw();
        let mut row = Self(start ^ row);
        Self(row.draw())
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `count`; 0 of none.
    pub fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(count)) >> 64) as u64
    }

    /// A number from `low` to `high`, both of which it may be.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1).unsigned_abs()) as i64
    }

    /// One of a list that is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// One of a list that is not empty, by weight.
    pub fn weighted(&mut self, list: &[(&'static str, u32)]) -> &'static str {
        let sum = list.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut at = self.below(sum);
        for (word, weight) in list {
            match at.checked_sub(u64::from(*weight)) {
                Some(rest) => at = rest,
                None => return word,
            }
        }
        list[list.len() - 1].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_each_rows_own() {
        let first = |table, row| Random::of(1, table, row).draw();
        assert_eq!(first(3, 5), first(3, 5));
        let mut seen: Vec<u64> = (0..8).flat_map(|table| (0..1000).map(move |row| first(table, row))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 8000);
    }

    #[test]
    fn numbers_reach_both_ends() {
        let mut random = Random::of(1, 0, 0);
        let drawn: Vec<i64> = (0..1000).map(|_| random.between(-2, 2)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&-2), Some(&2)));
        let heads = (0..1000).filter(|_| random.weighted(&[("head", 9), ("tail", 1)]) == "head").count();
        assert!((850..950).contains(&heads), "{heads}");
    }
}
