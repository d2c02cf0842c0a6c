//! Functions, operators and aggregates of `bit` and `bit varying`, under the names of what computes them in PostgreSQL
//! (`pg_proc.prosrc`). Values are texts of zeros and ones ([`crate::bits`]).

use std::sync::Arc;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::define::{Call, P, PgFunction, f, oid};
use super::moments::both;
use crate::bits::{MAX, packed, too_long};
use crate::errors::to_datafusion;
use crate::types::{TEXT, oid as t};
use crate::wire::SqlError;

/// What these functions are called.
pub(super) const NAMES: &[&str] = &[
    "bit_and",
    "bit_bit_count",
    "bit_or",
    "bitcat",
    "bitcmp",
    "biteq",
    "bitfromint4",
    "bitfromint8",
    "bitge",
    "bitgetbit",
    "bitgt",
    "bitle",
    "bitlength",
    "bitlt",
    "bitne",
    "bitnot",
    "bitoctetlength",
    "bitoverlay",
    "bitoverlay_no_len",
    "bitposition",
    "bitsetbit",
    "bitshiftleft",
    "bitshiftright",
    "bitsubstr",
    "bitsubstr_no_len",
    "bittoint4",
    "bittoint8",
    "bitxor",
];

/// What is made of two bits at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Gate {
    And,
    Or,
    Xor,
}

impl Gate {
    const fn name(self) -> &'static str {
        match self {
            Self::And => "AND",
            Self::Or => "OR",
            Self::Xor => "XOR",
        }
    }

    fn of(self, a: &str, b: &str) -> Result<String, SqlError> {
        if a.len() != b.len() {
            return Err(SqlError::new("22026", format!("cannot {} bit strings of different sizes", self.name())));
        }
        let bit = |(a, b): (u8, u8)| {
            let (a, b) = (a == b'1', b == b'1');
            let bit = match self {
                Self::And => a && b,
                Self::Or => a || b,
                Self::Xor => a != b,
            };
            char_of(bit)
        };
        Ok(a.bytes().zip(b.bytes()).map(bit).collect())
    }
}

const fn char_of(bit: bool) -> char {
    if bit { '1' } else { '0' }
}

impl Call<'_> {
    fn two_bits(&self, row: usize) -> Option<(&str, &str)> {
        self.text(0, row).zip(self.text(1, row))
    }
}

fn gate(name: &'static str, gate: Gate) -> PgFunction {
    f(name, &[P::Text, P::Text], oid(t::BIT), move |call| {
        call.texts(|row| call.two_bits(row).map(|(a, b)| gate.of(a, b)).transpose())
    })
}

fn compared(name: &'static str, is: fn(&str, &str) -> bool) -> PgFunction {
    f(name, &[P::Text, P::Text], oid(t::BOOL), move |call| {
        call.bools(|row| Ok(call.two_bits(row).map(|(a, b)| is(a, b))))
    })
}

/// What the first bytes that differ differ by, as `memcmp` has it in PostgreSQL; of such a beginning, which is shorter.
fn difference(a: &str, b: &str) -> i32 {
    let (x, y) = (packed(a), packed(b));
    let differing = x.iter().zip(&y).find(|(x, y)| x != y);
    differing.map_or(a.len().cmp(&b.len()) as i32, |(x, y)| i32::from(*x) - i32::from(*y))
}

/// Bits so many places to the left, or to the right if that is negative; zeros come after them.
fn shifted(bits: &str, left: i64) -> String {
    let by = usize::try_from(left.unsigned_abs()).unwrap_or(usize::MAX).min(bits.len());
    let zeros = "0".repeat(by);
    match left < 0 {
        true => zeros + &bits[..bits.len() - by],
        false => bits[by..].to_owned() + &zeros,
    }
}

fn negative_length() -> SqlError {
    SqlError::new("22011", "negative substring length not allowed")
}

/// The bits from the place `start` on, which counts from 1; `length` of them, or all.
fn part(bits: &str, start: i64, length: Option<i64>) -> Result<&str, SqlError> {
    let all = bits.len() as i64 + 1;
    let end = match length {
        None => all,
        Some(length) if length < 0 => return Err(negative_length()),
        Some(length) => start.saturating_add(length).min(all),
    };
    let start = start.max(1);
    Ok(if start >= end { "" } else { &bits[(start - 1) as usize..(end - 1) as usize] })
}

fn joined(parts: [&str; 3]) -> Result<String, SqlError> {
    match parts.iter().map(|part| part.len()).sum::<usize>() > MAX {
        true => Err(too_long()),
        false => Ok(parts.concat()),
    }
}

/// Other bits in place of `length` from `start` on.
fn overlaid(bits: &str, new: &str, start: i64, length: i64) -> Result<String, SqlError> {
    if start <= 0 {
        return Err(negative_length());
    }
    let behind = i32::try_from(start + length).map_err(|_| SqlError::new("22003", "integer out of range"))?;
    joined([part(bits, 1, Some(start - 1))?, new, part(bits, behind.into(), None)?])
}

/// The lowest bits of a number, its sign before them.
fn of_number(number: i64, length: i64) -> Result<String, SqlError> {
    let length = usize::try_from(length).ok().filter(|length| (1..=MAX).contains(length)).unwrap_or(1);
    crate::memory::value(length)?;
    Ok((0..length).rev().map(|at| char_of(number >> at.min(63) & 1 == 1)).collect())
}

/// The number that so many bits at most are.
fn number(bits: &str, most: usize, name: &str) -> Result<u64, SqlError> {
    if bits.len() > most {
        return Err(SqlError::new("22003", format!("{name} out of range")));
    }
    Ok(bits.bytes().fold(0, |number, bit| number << 1 | u64::from(bit == b'1')))
}

/// The place of a bit, which counts from 0.
fn place(bits: &str, at: i64) -> Result<usize, SqlError> {
    let place = usize::try_from(at).ok().filter(|place| *place < bits.len());
    place.ok_or_else(|| {
        let last = bits.len() as i64 - 1;
        SqlError::new("2202E", format!("bit index {at} out of valid range (0..{last})"))
    })
}

fn with_bit(bits: &str, at: i64, bit: i64) -> Result<String, SqlError> {
    let place = place(bits, at)?;
    let new = match bit {
        0 => "0",
        1 => "1",
        _ => return Err(SqlError::new("22023", "new bit must be 0 or 1")),
    };
    joined([&bits[..place], new, &bits[place + 1..]])
}

pub(super) fn all() -> Vec<PgFunction> {
    const ONE: &[P] = &[P::Text];
    const TWO: &[P] = &[P::Text, P::Text];
    const WITH_NUMBER: &[P] = &[P::Text, P::Int];
    let mut out = vec![
        gate("bit_and", Gate::And),
        gate("bit_or", Gate::Or),
        gate("bitxor", Gate::Xor),
        compared("biteq", |a, b| a == b),
        compared("bitne", |a, b| a != b),
        compared("bitlt", |a, b| a < b),
        compared("bitle", |a, b| a <= b),
        compared("bitgt", |a, b| a > b),
        compared("bitge", |a, b| a >= b),
        f("bitcmp", TWO, oid(t::INT4), |call| call.int4s(|row| Ok(call.two_bits(row).map(|(a, b)| difference(a, b))))),
        f("bitnot", ONE, oid(t::BIT), |call| {
            call.texts(|row| Ok(call.text(0, row).map(|bits| bits.bytes().map(|bit| char_of(bit == b'0')).collect())))
        }),
        f("bitcat", TWO, oid(t::VARBIT), |call| {
            call.texts(|row| call.two_bits(row).map(|(a, b)| joined([a, b, ""])).transpose())
        }),
        f("bitlength", ONE, oid(t::INT4), |call| call.int4s(|row| Ok(call.text(0, row).map(|bits| bits.len() as i32)))),
        f("bitoctetlength", ONE, oid(t::INT4), |call| {
            call.int4s(|row| Ok(call.text(0, row).map(|bits| bits.len().div_ceil(8) as i32)))
        }),
        f("bit_bit_count", ONE, oid(t::INT8), |call| {
            call.ints(|row| Ok(call.text(0, row).map(|bits| bits.bytes().filter(|bit| *bit == b'1').count() as i64)))
        }),
        f("bitposition", TWO, oid(t::INT4), |call| {
            call.int4s(|row| {
                Ok(call.two_bits(row).map(|(bits, part)| match bits.find(part) {
                    Some(at) if !bits.is_empty() => at as i32 + 1,
                    _ => 0,
                }))
            })
        }),
        f("bitgetbit", WITH_NUMBER, oid(t::INT4), |call| {
            call.int4s(|row| {
                both(call.text(0, row), call.int(1, row), |bits, at| {
                    Ok(i32::from(bits.as_bytes()[place(bits, at)?] == b'1'))
                })
            })
        }),
        f("bitsetbit", &[P::Text, P::Int, P::Int], oid(t::BIT), |call| {
            call.texts(|row| {
                let numbers = call.int(1, row).zip(call.int(2, row));
                both(call.text(0, row), numbers, |bits, (at, bit)| with_bit(bits, at, bit))
            })
        }),
        f("bitsubstr", &[P::Text, P::Int, P::Int], oid(t::BIT), |call| {
            call.texts(|row| {
                let numbers = call.int(1, row).zip(call.int(2, row));
                both(call.text(0, row), numbers, |bits, (start, length)| {
                    part(bits, start, Some(length)).map(str::to_owned)
                })
            })
        }),
        f("bitsubstr_no_len", WITH_NUMBER, oid(t::BIT), |call| {
            call.texts(|row| {
                both(call.text(0, row), call.int(1, row), |bits, start| part(bits, start, None).map(str::to_owned))
            })
        }),
        f("bitoverlay", &[P::Text, P::Text, P::Int, P::Int], oid(t::BIT), |call| {
            call.texts(|row| {
                let numbers = call.int(2, row).zip(call.int(3, row));
                both(call.two_bits(row), numbers, |(bits, new), (start, length)| overlaid(bits, new, start, length))
            })
        }),
        f("bitoverlay_no_len", &[P::Text, P::Text, P::Int], oid(t::BIT), |call| {
            call.texts(|row| {
                both(call.two_bits(row), call.int(2, row), |(bits, new), start| {
                    overlaid(bits, new, start, new.len() as i64)
                })
            })
        }),
        f("bittoint4", ONE, oid(t::INT4), |call| {
            call.int4s(|row| {
                call.text(0, row).map(|bits| number(bits, 32, "integer").map(|number| number as u32 as i32)).transpose()
            })
        }),
        f("bittoint8", ONE, oid(t::INT8), |call| {
            call.ints(|row| {
                call.text(0, row).map(|bits| number(bits, 64, "bigint").map(|number| number as i64)).transpose()
            })
        }),
    ];
    for (name, right) in [("bitshiftleft", false), ("bitshiftright", true)] {
        out.push(f(name, WITH_NUMBER, oid(t::BIT), move |call| {
            call.texts(|row| {
                both(call.text(0, row), call.int(1, row), |bits, by| {
                    Ok(shifted(bits, if right { by.saturating_neg() } else { by }))
                })
            })
        }));
    }
    for name in ["bitfromint4", "bitfromint8"] {
        out.push(f(name, &[P::Int, P::Int], oid(t::BIT), |call| {
            call.texts(|row| both(call.int(0, row), call.int(1, row), of_number))
        }));
    }
    out
}

/// The aggregate of that name over bits.
pub fn bits_aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    let (gate, name) = match name {
        "bit_and" => (Gate::And, "bits_and"),
        "bit_or" => (Gate::Or, "bits_or"),
        "bit_xor" => (Gate::Xor, "bits_xor"),
        _ => return None,
    };
    let signature = Signature::exact(vec![TEXT], Volatility::Immutable);
    Some(Arc::new(AggregateUDF::new_from_impl(OfBits { gate, name, signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBits {
    gate: Gate,
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for OfBits {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(TEXT)
    }
    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(State { gate: self.gate, value: None }))
    }
    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        Ok(vec![Field::new(format!("{}[value]", args.name), TEXT, true).into()])
    }
}

#[derive(Debug)]
struct State {
    gate: Gate,
    value: Option<String>,
}

impl Accumulator for State {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for value in values[0].as_string_view().iter().flatten() {
            self.value = Some(match self.value.take() {
                None => value.to_owned(),
                Some(before) => self.gate.of(&before, value).map_err(to_datafusion)?,
            });
        }
        Ok(())
    }
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Utf8View(self.value.clone()))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.value.as_ref().map_or(0, String::capacity)
    }
    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_known_by_their_names() {
        let mut names: Vec<&str> = all().iter().map(PgFunction::name).collect();
        names.sort_unstable();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn parts_are_postgresqls() {
        assert_eq!(part("0101", -1, Some(4)).expect("part"), "01");
        assert_eq!(part("0101", 2, Some(i64::from(i32::MAX))).expect("part"), "101");
        assert_eq!(part("0101", 5, None).expect("part"), "");
        assert_eq!(part("0101", 1, Some(-1)).unwrap_err().sqlstate, "22011");
        assert_eq!(overlaid("0000", "11", 2, 2).expect("bits"), "0110");
        assert_eq!(overlaid("0000", "11", 0, 2).unwrap_err().sqlstate, "22011");
        assert_eq!((shifted("1011", 1), shifted("1011", -9)), ("0110".to_owned(), "0000".to_owned()));
        assert_eq!(of_number(-44, 10).expect("bits"), "1111010100");
        assert_eq!(number("1111111111111111111111111111111111", 32, "integer").unwrap_err().sqlstate, "22003");
    }
}
