//! `random` and `setseed`: PostgreSQL's generator (xoroshiro128**), so that a seed gives the same numbers as there.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use parking_lot::Mutex;

use super::define::{P, PgFunction, f, oid};
use crate::types::oid as t;
use crate::wire::SqlError;

/// Every function here; each session has its own numbers.
pub(super) const NAMES: &[&str] = &["random", "setseed"];

struct Generator {
    first: u64,
    second: u64,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        match (next(), next()) {
            // All of its numbers would be 0.
            (0, 0) => Self { first: 0x5851_f42d_4c95_7f2d, second: 0x1405_7b7e_f767_814f },
            (first, second) => Self { first, second },
        }
    }

    /// By a seed from -1 to 1.
    fn of_fraction(seed: f64) -> Self {
        Self::new((((1u64 << 52) - 1) as f64 * seed) as i64 as u64)
    }

    fn number(&mut self) -> u64 {
        let (first, second) = (self.first, self.second ^ self.first);
        self.first = first.rotate_left(24) ^ second ^ (second << 16);
        self.second = second.rotate_left(37);
        first.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// From 0 up to, but not, 1.
    fn fraction(&mut self) -> f64 {
        (self.number() >> 12) as f64 / (1u64 << 52) as f64
    }
}

pub(super) fn all() -> Vec<PgFunction> {
    let generator = Arc::new(Mutex::new(Generator::new(RandomState::new().hash_one(0u8))));
    let seeded = Arc::clone(&generator);
    vec![
        f("random", &[], oid(t::FLOAT8), move |call| {
            let mut generator = generator.lock();
            let values = Float64Array::from_iter_values((0..call.rows).map(|_| generator.fraction()));
            Ok(Arc::new(values) as ArrayRef)
        })
        .each_row(),
        f("setseed", &[P::Float], oid(t::TEXT), move |call| {
            call.texts(|row| {
                let Some(seed) = call.float(0, row) else { return Ok(None) };
                if !(-1.0..=1.0).contains(&seed) {
                    let message = format!("setseed parameter {seed} is out of allowed range [-1,1]");
                    return Err(SqlError::new("22023", message));
                }
                *seeded.lock() = Generator::of_fraction(seed);
                Ok(Some(String::new()))
            })
        })
        .each_row(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_postgresqls() {
        for (seed, first) in
            [(0.5, 0.9851677175347999), (-0.3, 0.739669804988659), (0.0, 0.8702553105818676), (1.0, 0.3978842227698167)]
        {
            assert_eq!(Generator::of_fraction(seed).fraction(), first, "{seed}");
        }
    }
}
