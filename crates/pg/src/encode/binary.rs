//! Binary format of the types whose bytes are not simply big-endian.

use bytes::{BufMut, BytesMut};

/// `numeric`: digits to base 10000 (PostgreSQL's `numeric_send`): `i16` count, weight of
/// the first, sign (0 or 0x4000), display scale, then the digits.
pub fn put_numeric_binary(out: &mut BytesMut, unscaled: i128, scale: i32, trim: bool) {
    let mut value = unscaled.unsigned_abs();
    let mut scale = scale;
    while scale < 0 {
        value = value.saturating_mul(10);
        scale += 1;
    }
    if trim {
        while scale > 0 && value.is_multiple_of(10) {
            value /= 10;
            scale -= 1;
        }
    }
    let display = scale;
    // groups of four digits, least significant first; a group never straddles the point
    let mut groups = [0u16; 12];
    let mut count = 0usize;
    let fraction_groups = (scale + 3) / 4;
    let partial = scale % 4;
    if partial != 0 {
        let power = 10u128.pow(partial as u32);
        let digits = (value % power) * 10u128.pow(4 - partial as u32);
        value /= power;
        groups[count] = digits as u16;
        count += 1;
    }
    while value != 0 && count < groups.len() {
        groups[count] = (value % 10_000) as u16;
        value /= 10_000;
        count += 1;
    }
    // leading and trailing zero groups are not sent
    while count > 0 && groups[count - 1] == 0 {
        count -= 1;
    }
    let first = groups[..count].iter().position(|&g| g != 0).unwrap_or(count);
    let weight = if first == count { 0 } else { count as i32 - fraction_groups - 1 };
    out.put_i16((count - first) as i16);
    out.put_i16(weight as i16);
    out.put_u16(if unscaled < 0 { 0x4000 } else { 0 });
    out.put_i16(display as i16);
    for &group in groups[first..count].iter().rev() {
        out.put_u16(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(unscaled: i128, scale: i32, trim: bool) -> Vec<i16> {
        let mut out = BytesMut::new();
        put_numeric_binary(&mut out, unscaled, scale, trim);
        out.chunks(2).map(|c| i16::from_be_bytes([c[0], c[1]])).collect()
    }

    #[test]
    fn as_numeric_send() {
        assert_eq!(words(0, 2, false), [0, 0, 0, 2]);
        assert_eq!(words(150, 2, false), [2, 0, 0, 2, 1, 5000]);
        assert_eq!(words(-1, 0, false), [1, 0, 0x4000, 0, 1]);
        assert_eq!(words(123_456_789, 0, false), [3, 2, 0, 0, 1, 2345, 6789]);
        assert_eq!(words(1, 5, false), [1, -2, 0, 5, 1000]);
        assert_eq!(words(100_000, 0, false), [1, 1, 0, 0, 10]);
        assert_eq!(words(15_000_000_000, 10, true), [2, 0, 0, 1, 1, 5000]);
    }
}
