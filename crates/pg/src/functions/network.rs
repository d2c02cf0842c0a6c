//! Functions and operators of `inet`, `cidr`, `macaddr` and `macaddr8`, under the names of what computes them in PostgreSQL
//! (`pg_proc.prosrc`): several of them share a name that other types' functions have as well (`trunc`, `text`).

use std::collections::HashSet;
use std::sync::LazyLock;

use datafusion::arrow::array::*;
use datafusion::common::ScalarValue;
use resurgam_engine::OrderedType;

use super::define::{Call, P, PgFunction, Returns, f, oid};
use crate::network::address::Address;
use crate::network::{mac, text};
use crate::ordered;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Whether a function of this source is one of these types.
pub(super) fn is_of_network(source: &str) -> bool {
    static SOURCES: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| all().iter().map(PgFunction::proc_name).collect());
    SOURCES.contains(source)
}

impl Call<'_> {
    fn stored(&self, at: usize, row: usize) -> Option<&[u8]> {
        let array = self.arrays.get(at)?.as_fixed_size_binary_opt()?;
        (!array.is_null(row)).then(|| array.value(row))
    }
    /// Values of the type that the function returns.
    fn ordered(&self, value: impl Fn(usize) -> Result<Option<Vec<u8>>, SqlError>) -> Result<ArrayRef, SqlError> {
        let ty = ordered::type_of_data(self.returns.data_type());
        let ty = ty.ok_or_else(|| SqlError::internal("a function of addresses that gives none"))?;
        ordered::column(ty, (0..self.rows).map(value))
    }
    fn address(&self, at: usize, row: usize) -> Result<Option<Address>, SqlError> {
        self.stored(at, row).map(Address::of_stored).transpose()
    }
    fn addresses(&self, row: usize) -> Result<Option<(Address, Address)>, SqlError> {
        Ok(self.address(0, row)?.zip(self.address(1, row)?))
    }
}

/// What a message calls a function of two addresses that have to be of one family.
fn sizes_differ(what: &str) -> SqlError {
    SqlError::new("22023", format!("cannot {what} inet values of different sizes"))
}

fn out_of_range() -> SqlError {
    SqlError::new("22003", "result is out of range")
}

/// An address from one.
fn of_one(
    name: &'static str,
    returns: Returns,
    make: impl Fn(&Address) -> Address + Send + Sync + 'static,
) -> PgFunction {
    f(name, &[P::Any], returns, move |call| {
        call.ordered(|row| Ok(call.address(0, row)?.map(|address| make(&address).to_stored())))
    })
}

/// A text of an address.
fn shown(name: &'static str, put: fn(&mut String, &Address)) -> PgFunction {
    f(name, &[P::Any], oid(t::TEXT), move |call| {
        call.texts(|row| {
            Ok(call.address(0, row)?.map(|address| {
                let mut out = String::with_capacity(24);
                put(&mut out, &address);
                out
            }))
        })
    })
}

/// A question about two addresses.
fn asked(name: &'static str, is: fn(&Address, &Address) -> bool) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::BOOL), move |call| {
        call.bools(|row| Ok(call.addresses(row)?.map(|(a, b)| is(&a, &b))))
    })
}

/// Bits of two addresses.
fn of_bits(name: &'static str, what: &'static str, with: fn(u128, u128) -> u128) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::INET), move |call| {
        call.ordered(|row| match call.addresses(row)? {
            Some((a, b)) => a.combined(&b, with).map(|out| Some(out.to_stored())).ok_or_else(|| sizes_differ(what)),
            None => Ok(None),
        })
    })
}

/// An address so much further on, or back.
fn moved(name: &'static str, back: bool) -> PgFunction {
    f(name, &[P::Any, P::Int], oid(t::INET), move |call| {
        call.ordered(|row| match call.address(0, row)?.zip(call.int(1, row)) {
            Some((address, by)) => {
                // PostgreSQL subtracts by adding the negative number, and the least one has none.
                let by = if back { by.wrapping_neg() } else { by };
                let moved = address.plus(by.into()).ok_or_else(out_of_range)?;
                Ok(Some(moved.to_stored()))
            }
            None => Ok(None),
        })
    })
}

/// The argument with a netmask of so many bits, -1 for all; of a network the bits behind it are dropped.
fn with_mask(name: &'static str, returns: Returns, is_cidr: bool) -> PgFunction {
    f(name, &[P::Any, P::Int], returns, move |call| {
        call.ordered(|row| match call.address(0, row)?.zip(call.int(1, row)) {
            Some((address, bits)) => {
                let all = i64::from(address.family().bits());
                let wanted = u8::try_from(if bits == -1 { all } else { bits }).ok();
                let changed = wanted.and_then(|bits| address.with_bits(bits));
                let changed = changed.ok_or_else(|| SqlError::new("22023", format!("invalid mask length: {bits}")))?;
                Ok(Some(if is_cidr { changed.network() } else { changed }.to_stored()))
            }
            None => Ok(None),
        })
    })
}

/// The smaller or the larger of two values that order as their bytes.
fn chosen(name: &'static str, larger: bool) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::INET), move |call| {
        call.ordered(|row| {
            Ok(call
                .stored(0, row)
                .zip(call.stored(1, row))
                .map(|(a, b)| if (a > b) == larger { a } else { b }.to_vec()))
        })
    })
}

/// Bytes of an interface's address from those of one or two.
fn mac_of(name: &'static str, parameters: &'static [P], ty: u32, make: fn(u8, u8) -> u8) -> PgFunction {
    let two = parameters.len() == 2;
    f(name, parameters, oid(ty), move |call| {
        call.ordered(|row| {
            let (Some(a), b) = (call.stored(0, row), call.stored(1, row)) else { return Ok(None) };
            Ok(match (two, b) {
                (false, _) => Some(a.iter().map(|byte| make(*byte, 0)).collect()),
                (true, Some(b)) => Some(a.iter().zip(b).map(|(a, b)| make(*a, *b)).collect()),
                (true, None) => None,
            })
        })
    })
}

/// The address with zeros behind its manufacturer's three bytes.
fn truncated(name: &'static str, ty: u32) -> PgFunction {
    f(name, &[P::Any], oid(ty), move |call| {
        call.ordered(|row| {
            Ok(call
                .stored(0, row)
                .map(|bytes| bytes.iter().enumerate().map(|(at, byte)| if at < 3 { *byte } else { 0 }).collect()))
        })
    })
}

/// -1, 0 or 1.
fn compared(name: &'static str) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::INT4), |call| {
        call.int4s(|row| Ok(call.stored(0, row).zip(call.stored(1, row)).map(|(a, b)| a.cmp(b) as i32)))
    })
}

/// A comparison as a function.
fn ordered(name: &'static str, is: fn(&[u8], &[u8]) -> bool) -> PgFunction {
    f(name, &[P::Any, P::Any], oid(t::BOOL), move |call| {
        call.bools(|row| Ok(call.stored(0, row).zip(call.stored(1, row)).map(|(a, b)| is(a, b))))
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    const ONE: &[P] = &[P::Any];
    const TWO: &[P] = &[P::Any, P::Any];
    let mut out = vec![
        of_one("network_broadcast", oid(t::INET), Address::broadcast),
        of_one("network_network", oid(t::CIDR), Address::network),
        of_one("network_netmask", oid(t::INET), Address::netmask),
        of_one("network_hostmask", oid(t::INET), Address::hostmask),
        of_one("inet_to_cidr", oid(t::CIDR), Address::network),
        of_one("inetnot", oid(t::INET), Address::inverted),
        shown("network_host", text::put_host),
        shown("network_show", |out, address| text::put(out, address, true)),
        shown("inet_abbrev", |out, address| text::put(out, address, false)),
        shown("cidr_abbrev", text::put_abbreviated),
        f("network_masklen", ONE, oid(t::INT4), |call| {
            call.int4s(|row| Ok(call.address(0, row)?.map(|address| address.bits().into())))
        }),
        f("network_family", ONE, oid(t::INT4), |call| {
            call.int4s(|row| Ok(call.address(0, row)?.map(|address| address.family().number().into())))
        }),
        with_mask("inet_set_masklen", oid(t::INET), false),
        with_mask("cidr_set_masklen", oid(t::CIDR), true),
        asked("network_sub", |a, b| a.bits() > b.bits() && a.shares(b, b.bits())),
        asked("network_subeq", |a, b| a.bits() >= b.bits() && a.shares(b, b.bits())),
        asked("network_sup", |a, b| a.bits() < b.bits() && a.shares(b, a.bits())),
        asked("network_supeq", |a, b| a.bits() <= b.bits() && a.shares(b, a.bits())),
        asked("network_overlap", |a, b| a.shares(b, a.bits().min(b.bits()))),
        asked("inet_same_family", |a, b| a.family() == b.family()),
        f("inet_merge", TWO, oid(t::CIDR), |call| {
            call.ordered(|row| match call.addresses(row)? {
                Some((a, b)) if a.family() == b.family() => {
                    let common = a.common_bits(&b).min(a.bits()).min(b.bits());
                    Ok(a.with_bits(common).map(|address| address.network().to_stored()))
                }
                Some(_) => Err(SqlError::new("22023", "cannot merge addresses from different families")),
                None => Ok(None),
            })
        }),
        of_bits("inetand", "AND", |a, b| a & b),
        of_bits("inetor", "OR", |a, b| a | b),
        moved("inetpl", false),
        moved("inetmi_int8", true),
        f("inetmi", TWO, oid(t::INT8), |call| {
            call.ints(|row| match call.addresses(row)? {
                Some((a, b)) if a.family() == b.family() => a.minus(&b).map(Some).ok_or_else(out_of_range),
                Some(_) => Err(sizes_differ("subtract")),
                None => Ok(None),
            })
        }),
        chosen("network_smaller", false),
        chosen("network_larger", true),
        mac_of("macaddr_not", ONE, t::MACADDR, |byte, _| !byte),
        mac_of("macaddr_and", TWO, t::MACADDR, |a, b| a & b),
        mac_of("macaddr_or", TWO, t::MACADDR, |a, b| a | b),
        mac_of("macaddr8_not", ONE, t::MACADDR8, |byte, _| !byte),
        mac_of("macaddr8_and", TWO, t::MACADDR8, |a, b| a & b),
        mac_of("macaddr8_or", TWO, t::MACADDR8, |a, b| a | b),
        truncated("macaddr_trunc", t::MACADDR),
        truncated("macaddr8_trunc", t::MACADDR8),
        f("macaddr8_set7bit", ONE, oid(t::MACADDR8), |call| {
            call.ordered(|row| {
                Ok(call.stored(0, row).map(|bytes| {
                    let mut out = bytes.to_vec();
                    if let Some(first) = out.first_mut() {
                        *first |= mac::UNIVERSAL;
                    }
                    out
                }))
            })
        }),
    ];
    for names in [
        ["network_cmp", "network_eq", "network_ne", "network_lt", "network_le", "network_gt", "network_ge"],
        ["macaddr_cmp", "macaddr_eq", "macaddr_ne", "macaddr_lt", "macaddr_le", "macaddr_gt", "macaddr_ge"],
        ["macaddr8_cmp", "macaddr8_eq", "macaddr8_ne", "macaddr8_lt", "macaddr8_le", "macaddr8_gt", "macaddr8_ge"],
    ] {
        let [cmp, eq, ne, lt, le, gt, ge] = names;
        out.push(compared(cmp));
        out.push(ordered(eq, |a, b| a == b));
        out.push(ordered(ne, |a, b| a != b));
        out.push(ordered(lt, |a, b| a < b));
        out.push(ordered(le, |a, b| a <= b));
        out.push(ordered(gt, |a, b| a > b));
        out.push(ordered(ge, |a, b| a >= b));
    }
    out
}

/// An address without a netmask as a constant.
///
/// # Errors
/// `22P02`
pub(super) fn inet_of(address: &str) -> Result<ScalarValue, SqlError> {
    ordered::scalar(OrderedType::Inet, Some(&text::parse(address, false)?.to_stored()))
}
