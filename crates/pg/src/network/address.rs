//! An address of IPv4 or IPv6 with its netmask: a value of `inet`, and of `cidr`, whose bits behind the mask are zero.
//!
//! # Stored form
//! Bytes in the order in which PostgreSQL compares addresses (family, the bits of the network that both have, length of the netmask, all bits), so that keys,
//! sorts, joins and groups compare bytes, and nothing has to be read:
//! ```text
//! 4 or 6 | network: 4 or 16 bytes, zero behind the mask | bits of the netmask u8 | the whole address, if it is another than the network
//! ```
//! With two networks of which one is a part of the other, the longer one's further bits are zero and the netmask decides, or they are not
//! and it is larger: as if only the bits were compared that both have. An address is never below its network, so that none is least.
//! For the same reason zeros may follow: Arrow's columns have values of one width.

use crate::wire::SqlError;

/// Bytes of the longest address.
const LONGEST: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// The number that users see.
    pub const fn number(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 6,
        }
    }

    /// Bytes of an address.
    pub const fn bytes(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => LONGEST,
        }
    }

    /// Bits of an address.
    pub const fn bits(self) -> u8 {
        (self.bytes() * 8) as u8
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    family: Family,
    /// Bits of the netmask, at most those of an address.
    bits: u8,
    /// The address, and zeros.
    bytes: [u8; LONGEST],
}

impl Address {
    /// An address from its bytes; `None` if it has others than its family, or the netmask more bits.
    pub fn new(family: Family, address: &[u8], bits: u8) -> Option<Self> {
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..family.bytes()).filter(|to| to.len() == address.len())?.copy_from_slice(address);
        (bits <= family.bits()).then_some(Self { family, bits, bytes })
    }

    pub fn family(&self) -> Family {
        self.family
    }

    /// Bits of the netmask.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.family.bytes()]
    }

    /// The same with another netmask; `None` if an address has fewer bits.
    pub fn with_bits(&self, bits: u8) -> Option<Self> {
        (bits <= self.family.bits()).then_some(Self { bits, ..*self })
    }

    /// All bits, the first ones highest.
    fn number(&self) -> u128 {
        u128::from_be_bytes(self.bytes)
    }

    fn of_number(&self, number: u128) -> Self {
        Self { bytes: number.to_be_bytes(), ..*self }
    }

    /// Ones for the bits of an address from `bits` on.
    fn behind(&self, bits: u8) -> u128 {
        let all = u128::MAX.checked_shl(128 - u32::from(self.family.bits())).unwrap_or(0);
        all & u128::MAX.checked_shr(bits.into()).unwrap_or(0)
    }

    /// The network that it is in: zeros behind the netmask.
    pub fn network(&self) -> Self {
        self.of_number(self.number() & !self.behind(self.bits))
    }

    /// The last address of its network.
    pub fn broadcast(&self) -> Self {
        self.of_number(self.number() | self.behind(self.bits))
    }

    /// The netmask as an address.
    pub fn netmask(&self) -> Self {
        Self { bits: self.family.bits(), ..self.of_number(self.behind(0) & !self.behind(self.bits)) }
    }

    /// What the netmask leaves out, as an address.
    pub fn hostmask(&self) -> Self {
        Self { bits: self.family.bits(), ..self.of_number(self.behind(self.bits)) }
    }

    /// Whether no bit behind the netmask is set.
    pub fn is_network(&self) -> bool {
        *self == self.network()
    }

    /// Whether the first `bits` bits are those of `other`, of the same family.
    pub fn shares(&self, other: &Self, bits: u8) -> bool {
        self.family == other.family && self.common_bits(other) >= bits
    }

    /// How many bits at the beginning are those of `other`.
    pub fn common_bits(&self, other: &Self) -> u8 {
        (self.number() ^ other.number()).leading_zeros() as u8
    }

    /// Each bit by both addresses' of one family; its netmask is the longer one.
    pub fn combined(&self, other: &Self, with: impl Fn(u128, u128) -> u128) -> Option<Self> {
        let bits = self.bits.max(other.bits);
        (self.family == other.family)
            .then(|| Self { bits, ..self.of_number(with(self.number(), other.number()) & self.behind(0)) })
    }

    pub fn inverted(&self) -> Self {
        self.of_number(!self.number() & self.behind(0))
    }

    /// The address so much further on; `None` beyond the ends of its family.
    pub fn plus(&self, by: i128) -> Option<Self> {
        let shift = 128 - u32::from(self.family.bits());
        let number = self.number() >> shift;
        let moved = match u128::try_from(by) {
            Ok(by) => number.checked_add(by)?,
            Err(_) => number.checked_sub(by.unsigned_abs())?,
        };
        (moved <= u128::MAX >> shift).then(|| self.of_number(moved << shift))
    }

    /// How far it is from `other` of the same family; `None` where that is no `bigint`.
    pub fn minus(&self, other: &Self) -> Option<i64> {
        let shift = 128 - u32::from(self.family.bits());
        let (a, b) = (self.number() >> shift, other.number() >> shift);
        let far = i128::try_from(a.abs_diff(b)).ok()?;
        i64::try_from(if a < b { -far } else { far }).ok()
    }

    /// The stored form.
    pub fn to_stored(self) -> Vec<u8> {
        let network = self.network();
        let mut out = Vec::with_capacity(2 + 2 * self.family.bytes());
        out.push(self.family.number());
        out.extend_from_slice(network.bytes());
        out.push(self.bits);
        if network != self {
            out.extend_from_slice(self.bytes());
        }
        out
    }

    /// Reads the stored form, and zeros behind it.
    ///
    /// # Errors
    /// `XX001` if these bytes are none.
    pub fn of_stored(stored: &[u8]) -> Result<Self, SqlError> {
        let read = || {
            let (family, rest) = match stored.split_first()? {
                (4, rest) => (Family::V4, rest),
                (6, rest) => (Family::V6, rest),
                _ => return None,
            };
            let (network, rest) = rest.split_at_checked(family.bytes())?;
            let (&bits, whole) = rest.split_first()?;
            if whole.iter().all(|byte| *byte == 0) {
                return Self::new(family, network, bits);
            }
            let (whole, padding) = whole.split_at_checked(family.bytes())?;
            padding.iter().all(|byte| *byte == 0).then_some(())?;
            Self::new(family, whole, bits)
        };
        read().ok_or_else(|| SqlError::new("XX001", "an address is stored in a form that is none"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    fn address(text: &str) -> Address {
        text::parse(text, false).expect(text)
    }

    #[test]
    fn the_stored_form_comes_back_and_orders_as_postgresql_does() {
        // `SELECT … ORDER BY` of PostgreSQL 15.
        let ordered = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.1.2.3/8",
            "10.0.0.0/16",
            "10.0.0.0/24",
            "10.0.0.0",
            "10.1.0.0/16",
            "10.1.2.3/16",
            "10.1.2.3/24",
            "10.1.2.3",
            "192.168.0.1/24",
            "192.168.0.0/25",
            "255.255.255.255",
            "::/0",
            "1::/0",
            "::",
            "::1",
            "2001:db8::/32",
            "2001:db8::1/32",
            "2001:db8::1",
            "ffff::",
        ];
        let stored: Vec<Vec<u8>> = ordered.iter().map(|text| address(text).to_stored()).collect();
        for (at, bytes) in stored.iter().enumerate() {
            assert_eq!(Address::of_stored(bytes).expect("stored"), address(ordered[at]));
            assert!(at == 0 || stored[at - 1] < *bytes, "{} < {}", ordered[at - 1], ordered[at]);
        }
    }

    #[test]
    fn bytes_that_are_no_address_are_refused() {
        let good = address("10.1.2.3/8").to_stored();
        for len in 0..good.len() {
            let cut = Address::of_stored(&good[..len]);
            assert!(cut.is_err() || len == 6, "{len}");
        }
        for (text, with) in [("10.1.2.3/8", 10), ("10.1.2.3", 6), ("::1/8", 34), ("::1", 18)] {
            let mut padded = address(text).to_stored();
            assert_eq!(padded.len(), with);
            padded.resize(40, 0);
            assert_eq!(Address::of_stored(&padded).expect(text), address(text));
            padded[39] = 1;
            assert!(Address::of_stored(&padded).is_err());
        }
        assert!(Address::of_stored(&[5, 0, 0, 0, 0, 0]).is_err());
        assert!(Address::of_stored(&[4, 0, 0, 0, 0, 33]).is_err());
    }

    #[test]
    fn masks_and_arithmetic() {
        let a = address("192.168.5.130/25");
        assert_eq!(a.network(), address("192.168.5.128/25"));
        assert_eq!(a.broadcast(), address("192.168.5.255/25"));
        assert_eq!(a.netmask(), address("255.255.255.128"));
        assert_eq!(a.hostmask(), address("0.0.0.127"));
        assert_eq!(address("1.2.3.4/0").netmask(), address("0.0.0.0"));
        assert_eq!(address("::/0").hostmask(), address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
        assert_eq!(a.inverted(), address("63.87.250.125/25"));
        assert_eq!(a.plus(126), Some(address("192.168.6.0/25")));
        assert_eq!(address("255.255.255.255").plus(1), None);
        assert_eq!(address("0.0.0.0").plus(-1), None);
        assert_eq!(address("::").plus(i128::from(u64::MAX)), Some(address("::ffff:ffff:ffff:ffff")));
        assert_eq!(address("0.0.0.1").minus(&address("255.255.255.255")), Some(-4_294_967_294));
        assert_eq!(address("ffff::").minus(&address("::")), None);
        assert!(a.shares(&address("192.168.5.200"), 25) && !a.shares(&address("192.168.5.1"), 25));
    }
}
