//! Which addresses a rule is for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address field of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRule {
    All,
    /// Any address of this machine.
    SameHost,
    /// Any address of a network that this machine is in.
    SameNet,
    Range {
        address: IpAddr,
        mask: IpAddr,
    },
}

/// The mask whose first `bits` bits are set, for addresses of the family of `of`.
pub fn mask(of: IpAddr, bits: &str) -> Option<IpAddr> {
    let bits: u32 = bits.parse().ok()?;
    match of {
        IpAddr::V4(_) if bits <= 32 => Some(Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - bits).unwrap_or(0)).into()),
        IpAddr::V6(_) if bits <= 128 => {
            Some(Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - bits).unwrap_or(0)).into())
        }
        _ => None,
    }
}

fn in_range(peer: IpAddr, address: IpAddr, mask: IpAddr) -> bool {
    match (peer, address, mask) {
        (IpAddr::V4(peer), IpAddr::V4(address), IpAddr::V4(mask)) => {
            (peer.to_bits() ^ address.to_bits()) & mask.to_bits() == 0
        }
        (IpAddr::V6(peer), IpAddr::V6(address), IpAddr::V6(mask)) => {
            (peer.to_bits() ^ address.to_bits()) & mask.to_bits() == 0
        }
        _ => false,
    }
}

impl AddressRule {
    /// Whether it covers a client there. An IPv4 client of a socket for both families counts as one of IPv4.
    pub fn covers(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        match *self {
            Self::All => true,
            Self::Range { address, mask } => in_range(peer, address, mask),
            Self::SameHost => interfaces().any(|(address, _)| address == peer),
            Self::SameNet => interfaces().any(|(address, mask)| in_range(peer, address, mask)),
        }
    }

    /// Whether clients of other machines can be meant.
    pub fn reaches_others(&self) -> bool {
        match self {
            Self::All | Self::SameNet => true,
            Self::SameHost => false,
            Self::Range { address, mask } => !address.is_loopback() || *mask < loopback_mask(*address),
        }
    }
}

/// The mask of all loopback addresses of a family.
fn loopback_mask(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => Ipv4Addr::new(255, 0, 0, 0).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::MAX).into(),
    }
}

/// Addresses of this machine with their networks' masks, as they are now.
fn interfaces() -> impl Iterator<Item = (IpAddr, IpAddr)> {
    let found = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::error!("error enumerating network interfaces: {error}");
        Vec::new()
    });
    found.into_iter().map(|interface| match interface.addr {
        if_addrs::IfAddr::V4(v4) => (v4.ip.into(), v4.netmask.into()),
        if_addrs::IfAddr::V6(v6) => (v6.ip.into(), v6.netmask.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_cover_what_they_say() {
        let range = |address: &str, bits: &str| AddressRule::Range {
            address: ip(address),
            mask: mask(ip(address), bits).unwrap(),
        };
        for (rule, peer, covered) in [
            (range("10.1.0.0", "16"), "10.1.200.3", true),
            (range("10.1.0.0", "16"), "10.2.0.1", false),
            (range("10.1.0.0", "16"), "::ffff:10.1.7.7", true),
            (range("0.0.0.0", "0"), "1.2.3.4", true),
            (range("0.0.0.0", "0"), "::1", false),
            (range("::", "0"), "fe80::1", true),
            (range("fe80::", "10"), "febf::1", true),
            (range("fe80::", "10"), "fec0::1", false),
            (range("127.0.0.1", "32"), "127.0.0.2", false),
            (AddressRule::SameHost, "127.0.0.1", true),
            (AddressRule::SameNet, "127.200.0.1", true),
            (AddressRule::SameHost, "203.0.113.9", false),
            (AddressRule::SameNet, "203.0.113.9", false),
            (AddressRule::All, "203.0.113.9", true),
        ] {
            assert_eq!(rule.covers(ip(peer)), covered, "{rule:?} {peer}");
        }
        for (address, bits) in [("1.2.3.4", "33"), ("::1", "129"), ("1.2.3.4", ""), ("1.2.3.4", "x"), ("1.2.3.4", "-1")]
        {
            assert_eq!(mask(ip(address), bits), None, "{address}/{bits}");
        }
        assert!(!range("127.0.0.1", "8").reaches_others() && !range("::1", "128").reaches_others());
        assert!(range("127.0.0.1", "7").reaches_others() && range("10.0.0.0", "8").reaches_others());
    }
}
