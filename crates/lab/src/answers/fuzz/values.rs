//! Constants by type: *tame* ones (small, few, so that joins meet and sums are exact in any
//! order) and *wild* ones (ends of ranges, infinities, texts that want quoting).

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::types::{Ty, Value, days};

const DAY_US: i64 = 86_400_000_000;

/// Tame integers are within this.
pub const TAME_INTEGER_MAX: f64 = 12.0;

/// Texts that patterns and functions have something to do with.
const TEXTS: [&str; 20] = [
    "", "a", "b", "ab", "abc", "ABC", "Ab", "a%b", "a_c", " a", "a ", "x,y", "12", "-3", "foo bar", "zz", "é", "Éa",
    "b\\c", "1.50",
];

const WILD_TEXTS: [&str; 8] = ["it's", "naïve ☃ 𝄞", "line\nbreak\ttab", "null", "\\", "--", "$1", "%"];

/// Documents without numbers that are equal and print otherwise.
const DOCUMENTS: [&str; 13] = [
    "{\"a\": 1}",
    "[1, 2]",
    "null",
    "\"x\"",
    "{}",
    "12.5",
    "{\"a\": {\"b\": [1, null, \"x\"]}, \"c\": true}",
    "[]",
    "[{\"a\": 2}, {\"a\": null}]",
    "true",
    "7",
    "[\"a\", \"b\"]",
    "{\"b\": \"x\", \"a\": \"12\"}",
];

/// A constant that keeps arithmetic small and exact. `NULL` is the caller's business.
pub fn tame(rng: &mut StdRng, ty: Ty) -> Value {
    match ty {
        Ty::Bool => Value::Bool(rng.random()),
        Ty::Int2 | Ty::Int4 | Ty::Int8 => Value::Int(rng.random_range(-3..=12)),
        Ty::Float4 | Ty::Float8 => {
            let quarters: i32 = rng.random_range(-12..=48);
            // No negative zero: it prints otherwise and equals zero.
            Value::Float(f64::from(quarters) / 4.0)
        }
        Ty::Numeric => {
            let hundredths: i32 = rng.random_range(-300..=1200);
            let digits = rng.random_range(0..=2);
            let text = format!("{:.*}", digits, f64::from(hundredths) / 100.0);
            Value::Numeric(if text.trim_start_matches(['-', '0', '.']).is_empty() { "0".into() } else { text })
        }
        Ty::Text | Ty::Varchar => Value::Text(pick(rng, &TEXTS).into()),
        Ty::Char => Value::Text(pick(rng, &TEXTS).trim_end().into()),
        Ty::Bytea => {
            let len = rng.random_range(0..4);
            Value::Bytes((0..len).map(|_| *[0, 1, 0x61, 0x7f, 0xff].choose(rng).unwrap_or(&0)).collect())
        }
        Ty::Date => Value::Date(tame_date(rng)),
        Ty::Time => {
            Value::Time(*[0, 1, 3_600_000_000, 45_296_789_000, 43_200_000_000, DAY_US - 1].choose(rng).unwrap_or(&0))
        }
        Ty::Timestamp | Ty::Timestamptz => {
            let time = *[0, 0, 1, 3_600_000_000, 45_296_789_000, 43_200_000_000, DAY_US - 1].choose(rng).unwrap_or(&0);
            Value::Stamp(i64::from(tame_date(rng)) * DAY_US + time)
        }
        Ty::Interval => {
            let months = *[0, 0, 0, 1, -1, 12, 14].choose(rng).unwrap_or(&0);
            let days = *[0, 0, 1, -1, 30, 7].choose(rng).unwrap_or(&0);
            let us = *[0, 0, 3_600_000_000, -3_600_000_000, 1_500_000, 90_000_000_000].choose(rng).unwrap_or(&0);
            Value::Interval { months, days, us }
        }
        Ty::Uuid => Value::Uuid([*[0, 1, 0x2a, 0xab, 0xff].choose(rng).unwrap_or(&0); 16]),
        Ty::Json => Value::Text(pick(rng, &["{\"a\": 1}", "[1, 2]", "null", "\"x\"", "{}", "12.50"]).into()),
        Ty::Citext => Value::Text(pick(rng, &TEXTS).into()),
        Ty::Bit => Value::Text(bits(rng, 4)),
        Ty::Varbit => {
            let count = rng.random_range(0..=8);
            Value::Text(bits(rng, count))
        }
        ty => Value::Text(pick(rng, tame_texts(ty)).into()),
    }
}

fn bits(rng: &mut StdRng, count: usize) -> String {
    (0..count).map(|_| if rng.random() { '1' } else { '0' }).collect()
}

/// Constants of types that are written as texts here.
fn tame_texts(ty: Ty) -> &'static [&'static str] {
    match ty {
        Ty::Jsonb => &DOCUMENTS,
        Ty::Timetz => &["00:00:00+00", "12:00:00+02", "12:34:56.789-05", "23:59:59.999999+00", "10:00:00+00"],
        Ty::Inet => &["10.0.0.1", "10.0.0.0/24", "192.168.1.5/16", "127.0.0.1", "10.0.0.1/24", "0.0.0.0/0"],
        Ty::Cidr => &["10.0.0.0/24", "10.0.0.1/32", "192.168.0.0/16", "0.0.0.0/0", "10.0.0.0/8"],
        Ty::Int4Range => &["[1,5)", "[3,8]", "empty", "(,4]", "[2,)", "(,)", "[1,2)", "(-3,12)"],
        Ty::DateRange => &[
            "[2020-01-28,2020-02-01)",
            "[2020-01-30,2020-01-30]",
            "empty",
            "(,2020-02-01)",
            "[2019-12-31,)",
            "(2000-01-01,2020-02-29)",
        ],
        Ty::TsRange => &[
            "[2020-01-28 00:00:00,2020-02-01 12:00:00)",
            "[2020-01-30 12:34:56.789,2020-01-30 12:34:56.789]",
            "empty",
            "(,2020-02-01 00:00:00)",
            "[2019-12-31 01:00:00,)",
        ],
        Ty::Int4Array => &["{}", "{1}", "{1,2,3}", "{3,NULL,1}", "{NULL}", "{-3,12,5,7}", "{2,2}"],
        Ty::TextArray => &["{}", "{a}", "{a,b,NULL}", "{\"x,y\",\" a\"}", "{\"\"}", "{é,zz}", "{ab,ab,Ab}"],
        Ty::DateArray => &["{}", "{2020-02-29}", "{2020-01-28,NULL}", "{2020-01-30,2020-01-29,2000-01-01}"],
        Ty::Mood => &["sad", "ok", "happy", "über"],
        _ => &[""],
    }
}

fn tame_date(rng: &mut StdRng) -> i32 {
    match rng.random_range(0..8) {
        0 => days(2020, 2, 29),
        1 => days(2019, 12, 31),
        2 => days(2000, 1, 1),
        3 => days(1969, 7, 20),
        _ => days(2020, 1, 28) + rng.random_range(0..8),
    }
}

/// A constant at an end of its type's range, or one that is awkward otherwise.
pub fn wild(rng: &mut StdRng, ty: Ty) -> Value {
    match ty {
        Ty::Int2 => Value::Int(*[i16::MIN, i16::MAX, 0, -1, 100, i16::MAX - 1].choose(rng).unwrap_or(&0) as i64),
        Ty::Int4 => Value::Int(*[i32::MIN, i32::MAX, 0, -1, 65_536, i32::MAX - 1].choose(rng).unwrap_or(&0) as i64),
        Ty::Int8 => Value::Int(*[i64::MIN, i64::MAX, 0, -1, 1 << 32, 9_007_199_254_740_993].choose(rng).unwrap_or(&0)),
        Ty::Float4 => Value::Float(
            *[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.4e38, 1e-38, 0.1, 16_777_216.0].choose(rng).unwrap_or(&0.0),
        ),
        Ty::Float8 => {
            let all =
                [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e-300, 0.1, 1e15, 1e-5, 123_456_789.123, 5e-324];
            Value::Float(*all.choose(rng).unwrap_or(&0.0))
        }
        Ty::Numeric => {
            let all = [
                "99999999.99",
                "-99999999.99",
                "0.01",
                "12345678.9",
                "0.005",
                "-0.005",
                "1234567890123456.78",
                "NaN",
                "1e3",
            ];
            Value::Numeric(pick(rng, &all).into())
        }
        Ty::Text | Ty::Varchar if rng.random_ratio(1, 8) => Value::Text("long ".repeat(rng.random_range(1..200))),
        Ty::Text | Ty::Varchar => Value::Text(pick(rng, &WILD_TEXTS).into()),
        Ty::Char => Value::Text(pick(rng, &["it's", "é", "abcde", "a b"]).into()),
        Ty::Date => {
            let all = [
                i32::MAX,
                i32::MIN,
                days(1, 1, 1),
                days(9999, 12, 31),
                days(-4712, 1, 1),
                days(1970, 1, 1),
                days(1900, 2, 28),
            ];
            Value::Date(*all.choose(rng).unwrap_or(&0))
        }
        Ty::Time => Value::Time(*[0, DAY_US, DAY_US - 1].choose(rng).unwrap_or(&0)),
        Ty::Timestamp | Ty::Timestamptz => {
            let end = i64::from(days(294_276, 12, 31)) * DAY_US + DAY_US - 1;
            let all = [
                i64::MAX,
                i64::MIN,
                end,
                -1,
                i64::from(days(1, 1, 1)) * DAY_US,
                i64::from(days(1883, 11, 18)) * DAY_US,
            ];
            Value::Stamp(*all.choose(rng).unwrap_or(&0))
        }
        Ty::Interval => {
            let all = [(0, 0, 1), (1200, -5, 7), (-13, 400, -DAY_US * 2), (0, 0, DAY_US * 40)];
            let (months, days, us) = *all.choose(rng).unwrap_or(&(0, 0, 0));
            Value::Interval { months, days, us }
        }
        ty => {
            let all: &[&str] = match ty {
                Ty::Jsonb => &[
                    "{\"b\": 1, \"aa\": 2, \"b\": 3}",
                    "\"\\u00e9\\n\"",
                    "-0",
                    "123456789012345678901234567890",
                    "[[[[[[1]]]]]]",
                    "\"it's \\\"so\\\"\"",
                ],
                Ty::Timetz => &["24:00:00+00", "00:00:00+15:59", "12:00:00-15:59:30"],
                Ty::Inet => &["::1", "2001:db8::/32", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "255.255.255.255"],
                Ty::Cidr => &["::/0", "2001:db8::/32", "255.255.255.255/32"],
                Ty::Int4Range => &["[-2147483648,2147483647)", "[2147483646,2147483647)"],
                Ty::DateRange => &["[-infinity,infinity]", "[0001-01-01,9999-12-31]", "(4713-01-01 BC,)"],
                Ty::TsRange => &["[-infinity,infinity]", "[0001-01-01 00:00:00,9999-12-31 23:59:59.999999]"],
                Ty::Int4Array => &["{2147483647,-2147483648}", "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1}"],
                Ty::TextArray => &["{it's,\"a\\\"b\",\"NULL\",\"back\\\\slash\"}", "{\"{}\",\"a b\"}"],
                Ty::DateArray => &["{infinity,-infinity}", "{9999-12-31}"],
                _ => return tame(rng, ty),
            };
            Value::Text(pick(rng, all).into())
        }
    }
}

/// A text that no value of the type is written as, or a value beyond the type's range.
pub fn invalid(rng: &mut StdRng, ty: Ty) -> Value {
    let all: &[&str] = match ty {
        Ty::Bool => &["maybe", "", "2"],
        Ty::Int2 => &["32768", "1.5", "", "abc", "0x1"],
        Ty::Int4 => &["2147483648", "-2147483649", "1e3", "12 3"],
        Ty::Int8 => &["9223372036854775808", "--1", "1_000"],
        Ty::Float4 | Ty::Float8 => &["1e400", "abc", "", "1,5"],
        Ty::Numeric => &["1..2", "abc", "", "1e"],
        Ty::Bytea => &["\\xabc", "\\xzz", "\\1"],
        Ty::Date => &["2023-02-29", "2023-13-01", "not a date", "", "99999999-01-01"],
        Ty::Time => &["25:00:00", "12:60:00", "noonish"],
        Ty::Timestamp | Ty::Timestamptz => {
            &["2023-02-30 00:00:00", "2023-01-01 25:00:00", "x", "294277-01-01 00:00:00"]
        }
        Ty::Interval => &["1 fortnightish", "x", ""],
        Ty::Uuid => &["abc", "00000000-0000-0000-0000-00000000000g", ""],
        Ty::Json => &["{", "{a: 1}", "", "[1,]"],
        Ty::Text | Ty::Varchar | Ty::Char | Ty::Citext => &["fine"],
        Ty::Jsonb => &["{", "{a: 1}", "", "[1,]", "\"\\u0000\"", "nul"],
        Ty::Timetz => &["25:00:00+00", "12:00:00+99", "noonish"],
        Ty::Inet => &["10.0.0", "10.0.0.256", "10.0.0.1/33", "", "::g"],
        Ty::Cidr => &["10.0.0.1/24", "10.0.0.256", "", "1.2.3.4/"],
        Ty::Bit => &["2", "01012", "x"],
        Ty::Varbit => &["2", "xg", "01a"],
        Ty::Int4Range => &["[5,1)", "[1,2", "1,2", "", "[a,b)", "[1,2147483648)"],
        Ty::DateRange => &["[2020-02-01,2020-01-01)", "[x,)", "(2020-01-01"],
        Ty::TsRange => &["[2020-02-01,2020-01-01)", "[x,)", "()"],
        Ty::Int4Array => &["{1", "{a}", "1", "{1,}", "{{1},2}"],
        Ty::TextArray => &["{a", "a", "{\"a}", "{a}b"],
        Ty::DateArray => &["{2020-02-30}", "{x}", "2020-01-01"],
        Ty::Mood => &["glad", "", "OK"],
    };
    Value::Text(pick(rng, all).into())
}

/// One of a list.
pub fn pick<'a>(rng: &mut StdRng, all: &[&'a str]) -> &'a str {
    all.choose(rng).copied().unwrap_or_default()
}
