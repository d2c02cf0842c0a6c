//! Checksums of bytes that lie behind others, from checksums that are known: without another look at the bytes.
//!
//! CRC-32C is linear: what `seed` adds to the checksum of the `len` bytes behind it is `seed` times x to the power of 8 `len`, modulo the polynomial
//! (as zlib's `crc32_combine`). The crate `crc32c` can do the same, by squaring matrices, in a hundred times the time: by then the bytes
//! themselves are looked at.

/// The polynomial, lowest power in the highest bit, as everywhere here.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// x to the power of 0.
const ONE: u32 = 1 << 31;

/// x to the power of 2 to the power of n.
const POWERS: [u32; 32] = {
    let mut powers = [0; 32];
    powers[0] = ONE >> 1;
    let mut n = 1;
    while n < 32 {
        powers[n] = times(powers[n - 1], powers[n - 1]);
        n += 1;
    }
    powers
};

const fn times(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = if b & 1 == 0 { b >> 1 } else { (b >> 1) ^ POLYNOMIAL };
        bit >>= 1;
    }
    product
}

/// What a checksum `seed` adds to the checksum of `len` bytes that follow: for all bytes,
/// `checksum_append(seed, bytes) == checksum_shift(seed, bytes.len()) ^ checksum(bytes)`. Takes a microsecond at most, however many they are.
pub fn checksum_shift(seed: u32, len: usize) -> u32 {
    // Of 8 times `len`. Powers repeat after 2 to the power of 31, less one: the polynomial is that of one bit and one of degree 31.
    let (mut power, mut left, mut n) = (ONE, len, 3);
    while left != 0 {
        if left & 1 != 0 {
            power = times(POWERS[n % 31], power);
        }
        left >>= 1;
        n += 1;
    }
    times(power, seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum, checksum_append};

    #[test]
    fn of_any_length() {
        // Twice half as far is as far.
        for half in [1usize << 27, 1 << 28, 1 << 29, (1 << 30) + 5] {
            assert_eq!(checksum_shift(checksum_shift(77, half), half), checksum_shift(77, 2 * half), "{half}");
        }
    }

    #[test]
    fn a_checksum_moves_over_what_follows() {
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for len in (0..70).chain([127, 512, 4096, 8192, 65_535, 65_536, 99_999]) {
            for seed in [0, 1, u32::MAX, checksum(&bytes[..100]), checksum(&bytes[..len])] {
                let shifted = checksum_shift(seed, len) ^ checksum(&bytes[..len]);
                assert_eq!(shifted, checksum_append(seed, &bytes[..len]), "{seed:x} over {len}");
            }
        }
    }
}
