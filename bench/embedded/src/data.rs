//! Keys and values, each made from its number.

pub const KEY: usize = 24;
pub const VALUE: usize = 150;

/// A number that looks random (splitmix64).
pub fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn fill(seed: u64, out: &mut [u8]) {
    for (at, chunk) in out.chunks_mut(8).enumerate() {
        let bytes = mix(seed.wrapping_mul(0x1_0000).wrapping_add(at as u64)).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// The key of row `n`, random.
pub fn key(n: u64) -> [u8; KEY] {
    let mut key = [0; KEY];
    fill(n ^ 0x5EED, &mut key);
    key
}

/// The key of row `n`, ascending with it.
pub fn sorted_key(n: u64) -> [u8; KEY] {
    let mut key = key(n);
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

pub fn value(n: u64) -> [u8; VALUE] {
    let mut value = [0; VALUE];
    fill(!n, &mut value);
    value
}
