//! Bits that nobody can guess: the operating system's.

use ring::rand::{SecureRandom, SystemRandom};

use crate::wire::SqlError;

/// Fills bytes with such bits.
///
/// # Errors
/// `XX000` when the system has none, which happens to nobody who has started.
pub fn fill(bytes: &mut [u8]) -> Result<(), SqlError> {
    SystemRandom::new().fill(bytes).map_err(|_| SqlError::internal("could not generate random values"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_differ() {
        let (mut a, mut b) = ([0; 32], [0; 32]);
        fill(&mut a).expect("bits");
        fill(&mut b).expect("bits");
        assert_ne!(a, b);
    }
}
