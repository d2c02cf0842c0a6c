//! `hashtext` and its kin, which applications make keys of advisory locks with: Bob Jenkins' hash as PostgreSQL has it where
//! the lowest byte of a number comes first.

use super::define::{Call, P, PgFunction, f, oid};
use crate::types::oid as t;

/// Where the three parts begin, for a value of no bytes.
const START: u32 = 0x9e37_79b9_u32.wrapping_add(3_923_095);

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(length: usize, seed: u64) -> Self {
        let start = START.wrapping_add(length as u32);
        let mut state = Self { a: start, b: start, c: start };
        if seed != 0 {
            state.add((seed >> 32) as u32, seed as u32, 0);
            state.mix();
        }
        state
    }

    fn add(&mut self, a: u32, b: u32, c: u32) {
        self.a = self.a.wrapping_add(a);
        self.b = self.b.wrapping_add(b);
        self.c = self.c.wrapping_add(c);
    }

    fn mix(&mut self) {
        let (mut a, mut b, mut c) = (self.a, self.b, self.c);
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        (self.a, self.b, self.c) = (a, b, c);
    }

    fn finish(mut self) -> Self {
        let (mut a, mut b, mut c) = (self.a, self.b, self.c);
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        (self.a, self.b, self.c) = (a, b, c);
        self
    }

    fn of_bytes(bytes: &[u8], seed: u64) -> Self {
        let mut state = Self::new(bytes.len(), seed);
        let word = |part: &[u8], at: usize| u32::from_le_bytes([part[at], part[at + 1], part[at + 2], part[at + 3]]);
        let mut parts = bytes.chunks_exact(12);
        for part in parts.by_ref() {
            state.add(word(part, 0), word(part, 4), word(part, 8));
            state.mix();
        }
        let rest = parts.remainder();
        let mut last = [0u8; 12];
        last[..rest.len()].copy_from_slice(rest);
        // The lowest byte of the third part is the length's.
        state.add(word(&last, 0), word(&last, 4), word(&last, 8) << 8);
        state.finish()
    }

    fn of_number(number: u32, seed: u64) -> Self {
        let mut state = Self::new(4, seed);
        state.add(number, 0, 0);
        state.finish()
    }

    fn short(&self) -> i32 {
        self.c as i32
    }

    fn long(&self) -> i64 {
        (u64::from(self.b) << 32 | u64::from(self.c)) as i64
    }
}

/// Numbers have the same hash in each width.
fn of_long(number: i64) -> u32 {
    let high = (number >> 32) as u32;
    number as u32 ^ if number >= 0 { high } else { !high }
}

/// A function of one value, and the one with a seed.
fn hashes(
    names: [&'static str; 2],
    parameters: [&'static [P]; 2],
    state: fn(&Call<'_>, usize, u64) -> Option<State>,
) -> [PgFunction; 2] {
    let [short, long] = names;
    let [one, two] = parameters;
    [
        f(short, one, oid(t::INT4), move |call| call.int4s(|row| Ok(state(call, row, 0).map(|state| state.short())))),
        f(long, two, oid(t::INT8), move |call| {
            call.ints(|row| {
                let seeded = call.int(1, row).and_then(|seed| state(call, row, seed as u64));
                Ok(seeded.map(|state| state.long()))
            })
        }),
    ]
}

pub(super) fn all() -> Vec<PgFunction> {
    const TEXT: [&[P]; 2] = [&[P::Text], &[P::Text, P::Int]];
    const INT: [&[P]; 2] = [&[P::Int], &[P::Int, P::Int]];
    const OID: [&[P]; 2] = [&[P::Oid], &[P::Oid, P::Int]];
    let mut out = Vec::new();
    for names in [["hashtext", "hashtextextended"], ["hashname", "hashnameextended"]] {
        out.extend(hashes(names, TEXT, |call, row, seed| {
            call.text(0, row).map(|text| State::of_bytes(text.as_bytes(), seed))
        }));
    }
    for names in [["hashint2", "hashint2extended"], ["hashint4", "hashint4extended"]] {
        out.extend(hashes(names, INT, |call, row, seed| {
            call.int(0, row).map(|number| State::of_number(number as u32, seed))
        }));
    }
    out.extend(hashes(["hashint8", "hashint8extended"], INT, |call, row, seed| {
        call.int(0, row).map(|number| State::of_number(of_long(number), seed))
    }));
    out.extend(hashes(["hashoid", "hashoidextended"], OID, |call, row, seed| {
        call.oid(0, row).map(|number| State::of_number(number, seed))
    }));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_postgresqls() {
        assert_eq!(State::of_number(-5i32 as u32, 0).short(), 1_412_886_042);
        assert_eq!(State::of_number(-5i32 as u32, 3).long(), 4_566_310_048_417_840_633);
        assert_eq!(State::of_number(of_long(1 << 40), 0).short(), 1_851_357_687);
        assert_eq!(State::of_number(of_long(-5), 0).short(), 1_412_886_042);
    }
}
