//! Bytes from disk and network: what is no number is an error, never a panic; keys order as numbers do.

use resurgam_numeric::aggregate::Moments;
use resurgam_numeric::key::{key_len, key_of, read_key, read_whole};
use resurgam_numeric::{Numeric, Typmod};

/// A sequence without a pattern (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.next() % most).map(|_| self.next() as u8).collect()
    }
    /// Numbers of all sizes, often close to each other.
    fn number(&mut self) -> Numeric {
        let digits: String = (0..self.next() % 45 + 1).map(|_| char::from(b'0' + (self.next() % 10) as u8)).collect();
        let text = match self.next() % 8 {
            0 => return [Numeric::NaN, Numeric::Infinity, Numeric::NegInfinity][(self.next() % 3) as usize].clone(),
            1 => format!("{}", self.next() % 5),
            2 => format!("0.{}{digits}", "0".repeat((self.next() % 30) as usize)),
            3 => format!("{digits}{}", "0".repeat((self.next() % 100) as usize)),
            4 => format!("1{}.{digits}", "0".repeat((self.next() % 20) as usize)),
            5 => format!("{}e{}", self.next() % 1000, (self.next() % 4000) as i64 - 2000),
            _ => format!("{digits}.{}", self.next() % 100),
        };
        let value: Numeric = text.parse().expect("number");
        if self.next().is_multiple_of(2) { value.neg() } else { value }
    }
}

#[test]
fn damaged_bytes_are_errors() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for _ in 0..200_000 {
        let bytes = random.bytes(40);
        let _ = Numeric::decode(&bytes);
        let _ = Numeric::from_wire(&bytes, Typmod::new(10, 2).ok());
        let _ = Moments::from_bytes(&bytes);
        if let Ok(length) = key_len(&bytes) {
            let _ = read_key(&bytes[..length], (random.next() % 20_000) as u16);
        }
        let text: String =
            bytes.iter().map(|byte| char::from(b"0123456789.eE+- NaInf"[usize::from(byte % 21)])).collect();
        let _ = Numeric::parse(&text, None);
        let _ = Numeric::parse(&text, Typmod::new(5, 3).ok());
    }
    // One bit wrong in a good one.
    for _ in 0..50_000 {
        let mut bytes = random.number().encoded();
        let at = random.next() as usize % bytes.len();
        bytes[at] ^= 1 << (random.next() % 8);
        let _ = Numeric::decode(&bytes);
    }
}

#[test]
fn keys_order_as_numbers_and_tell_where_they_end() {
    let mut random = Random(42);
    let mut numbers: Vec<Numeric> = (0..3000).map(|_| random.number()).collect();
    numbers.sort();
    for pair in numbers.windows(2) {
        let (a, b) = (pair[0].encoded(), pair[1].encoded());
        assert_eq!(key_of(&a).cmp(key_of(&b)), pair[0].cmp(&pair[1]), "{} {}", pair[0], pair[1]);
        // Others may follow in a longer key.
        let mut longer = key_of(&a).to_vec();
        longer.extend_from_slice(&b);
        assert_eq!(key_len(&longer), Ok(key_of(&a).len()));
        assert_eq!(Numeric::decode(&a).map(|value| value.to_string()), Ok(pair[0].to_string()));
        // Without the display scale: all digits, no zeros behind them.
        assert_eq!(read_whole(key_of(&a)).map(|value| value.to_string()), Ok(pair[0].clone().trim_scale().to_string()));
    }
}

#[test]
fn the_largest_values() {
    let largest: Numeric = "9".repeat(131_072).parse().expect("fits");
    assert_eq!(largest.to_string().len(), 131_072);
    assert_eq!(Numeric::decode(&largest.encoded()).map(|value| value == largest), Ok(true));
    assert_eq!(largest.add(&Numeric::ONE).unwrap_err().code, "22003");
    assert_eq!("1e131072".parse::<Numeric>().unwrap_err().code, "22003");
    assert_eq!("1e-16384".parse::<Numeric>().unwrap_err().code, "22003");
    let smallest: Numeric = "1e-16383".parse().expect("fits");
    assert_eq!(smallest.scale(), Some(16_383));
    assert_eq!(smallest.mul(&smallest).expect("zero").signum(), Some(0));
    assert_eq!(largest.power(&Numeric::from(2)).unwrap_err().code, "22003");
    let mut wire = Vec::new();
    largest.write_wire(&mut wire);
    assert_eq!(Numeric::from_wire(&wire, None).map(|value| value == largest), Ok(true));
}
