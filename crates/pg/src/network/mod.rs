//! `inet`, `cidr`, `macaddr`, `macaddr8`: their texts, their binary forms and the bytes in which they are stored and computed with.
//!
//! | file | |
//! |---|---|
//! | `address.rs` | an address with its netmask, its stored form, arithmetic |
//! | `text.rs` | addresses as text |
//! | `mac.rs` | addresses of interfaces |
//!
//! The stored bytes order and are equal as the values are ([`OrderedType`]). To Arrow they are `FixedSizeBinary` of a width that no other type
//! has, so that a value's form says of which type it is; zeros follow what is shorter.

pub mod address;
pub mod mac;
pub mod text;

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, ListArray, StringViewArray,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use resurgam_engine::OrderedType;

use self::address::{Address, Family};
use crate::types::{TEXT, oid};
use crate::wire::SqlError;

/// Numbers of the families in the binary form, which are those of PostgreSQL wherever it runs.
const WIRE_V4: u8 = 2;
const WIRE_V6: u8 = 3;

/// The type with that oid.
pub const fn type_of_oid(oid: u32) -> Option<OrderedType> {
    Some(match oid {
        oid::INET => OrderedType::Inet,
        oid::CIDR => OrderedType::Cidr,
        oid::MACADDR => OrderedType::MacAddr,
        oid::MACADDR8 => OrderedType::MacAddr8,
        _ => return None,
    })
}

/// A type's oid.
pub const fn oid_of(ty: OrderedType) -> u32 {
    match ty {
        OrderedType::Inet => oid::INET,
        OrderedType::Cidr => oid::CIDR,
        OrderedType::MacAddr => oid::MACADDR,
        OrderedType::MacAddr8 => oid::MACADDR8,
    }
}

/// Bytes of each value in a column of Arrow's: as many as the longest has, and those of `cidr` one more.
const fn width(ty: OrderedType) -> i32 {
    match ty {
        OrderedType::Inet => 34,
        OrderedType::Cidr => 35,
        OrderedType::MacAddr => 6,
        OrderedType::MacAddr8 => 8,
    }
}

/// In what form plans hold values of a type.
pub const fn data_type(ty: OrderedType) -> DataType {
    DataType::FixedSizeBinary(width(ty))
}

/// The type whose values have that form.
pub fn type_of_data(data: &DataType) -> Option<OrderedType> {
    OrderedType::ALL.into_iter().find(|ty| data_type(*ty) == *data)
}

/// Stored bytes, or none, as a constant.
pub fn scalar(ty: OrderedType, stored: Option<Vec<u8>>) -> ScalarValue {
    let padded = stored.map(|mut bytes| {
        bytes.resize(width(ty) as usize, 0);
        bytes
    });
    ScalarValue::FixedSizeBinary(width(ty), padded)
}

/// The stored bytes of what a plan holds.
pub fn stored(ty: OrderedType, held: &[u8]) -> &[u8] {
    let len = match ty {
        OrderedType::MacAddr | OrderedType::MacAddr8 => held.len(),
        OrderedType::Inet | OrderedType::Cidr => {
            let address = if held.first() == Some(&Family::V4.number()) { Family::V4 } else { Family::V6 }.bytes();
            let is_network = held.get(2 + address..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0));
            if is_network { 2 + address } else { 2 + 2 * address }
        }
    };
    held.get(..len).unwrap_or(held)
}

/// Makes a column of a type.
pub struct Builder {
    inner: FixedSizeBinaryBuilder,
    width: usize,
    padded: Vec<u8>,
}

impl Builder {
    pub fn new(ty: OrderedType, capacity: usize) -> Self {
        let inner = FixedSizeBinaryBuilder::with_capacity(capacity, width(ty));
        Self { inner, width: width(ty) as usize, padded: Vec::new() }
    }

    pub fn append_null(&mut self) {
        self.inner.append_null();
    }

    /// # Errors
    /// `XX001` for bytes that are longer than any value.
    pub fn append(&mut self, stored: &[u8]) -> Result<(), SqlError> {
        self.padded.clear();
        self.padded.extend_from_slice(stored);
        self.padded.resize(self.width.max(stored.len()), 0);
        self.inner
            .append_value(&self.padded)
            .map_err(|_| SqlError::new("XX001", "a value that is longer than its type allows"))
    }

    pub fn finish(&mut self) -> FixedSizeBinaryArray {
        self.inner.finish()
    }
}

/// A column of a type from the stored bytes of each row.
///
/// # Errors
/// Those of `values`.
pub fn column(
    ty: OrderedType,
    values: impl ExactSizeIterator<Item = Result<Option<Vec<u8>>, SqlError>>,
) -> Result<ArrayRef, SqlError> {
    let mut out = Builder::new(ty, values.len());
    for value in values {
        match value? {
            Some(stored) => out.append(&stored)?,
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The stored bytes of a text.
///
/// # Errors
/// `22P02`, `22003`
pub fn parse(ty: OrderedType, value: &str) -> Result<Vec<u8>, SqlError> {
    Ok(match ty {
        OrderedType::Inet => text::parse(value, false)?.to_stored(),
        OrderedType::Cidr => text::parse(value, true)?.to_stored(),
        OrderedType::MacAddr => mac::parse(value)?.to_vec(),
        OrderedType::MacAddr8 => mac::parse8(value)?.to_vec(),
    })
}

/// The text of stored bytes, or of what a plan holds.
///
/// # Errors
/// `XX001` if they are none.
pub fn to_text(ty: OrderedType, stored: &[u8]) -> Result<String, SqlError> {
    let mut out = String::with_capacity(24);
    match ty {
        OrderedType::Inet | OrderedType::Cidr => {
            text::put(&mut out, &Address::of_stored(stored)?, ty == OrderedType::Cidr);
        }
        OrderedType::MacAddr | OrderedType::MacAddr8 => mac::put(&mut out, stored),
    }
    Ok(out)
}

/// The text that a cast to `text` gives: an address has its netmask there in any case.
///
/// # Errors
/// As [`to_text`].
pub fn to_cast_text(ty: OrderedType, stored: &[u8]) -> Result<String, SqlError> {
    match ty {
        OrderedType::Inet | OrderedType::Cidr => to_text(OrderedType::Cidr, stored),
        OrderedType::MacAddr | OrderedType::MacAddr8 => to_text(ty, stored),
    }
}

/// The stored bytes of a binary form.
///
/// # Errors
/// `22P03`
pub fn receive(ty: OrderedType, bytes: &[u8]) -> Result<Vec<u8>, SqlError> {
    let short = || SqlError::new("08P01", "insufficient data left in message");
    let bad = |what: &str| SqlError::new("22P03", format!("invalid {what} in external \"{}\" value", ty.name()));
    let rest_of = |rest: &[u8]| match rest.is_empty() {
        true => Ok(()),
        false => Err(SqlError::new("22P03", "incorrect binary data format")),
    };
    match ty {
        OrderedType::MacAddr => <[u8; 6]>::try_from(bytes).map(Vec::from).map_err(|_| short()),
        OrderedType::MacAddr8 => match <[u8; 6]>::try_from(bytes) {
            Ok(six) => Ok(mac::widened(six).to_vec()),
            Err(_) => <[u8; 8]>::try_from(bytes).map(Vec::from).map_err(|_| short()),
        },
        OrderedType::Inet | OrderedType::Cidr => {
            let [family, bits, _, len, address @ ..] = bytes else { return Err(short()) };
            let family = match *family {
                WIRE_V4 => Family::V4,
                WIRE_V6 => Family::V6,
                _ => return Err(bad("address family")),
            };
            if *bits > family.bits() {
                return Err(bad("bits"));
            }
            if usize::from(*len) != family.bytes() {
                return Err(bad("length"));
            }
            let (address, rest) = address.split_at_checked(family.bytes()).ok_or_else(short)?;
            let address = Address::new(family, address, *bits).ok_or_else(|| bad("bits"))?;
            if ty == OrderedType::Cidr && !address.is_network() {
                let error = SqlError::new("22P03", "invalid external \"cidr\" value");
                return Err(error.with_detail("Value has bits set to right of mask."));
            }
            rest_of(rest)?;
            Ok(address.to_stored())
        }
    }
}

/// The binary form of stored bytes, or of what a plan holds.
///
/// # Errors
/// `XX001` if they are none.
pub fn send(ty: OrderedType, stored: &[u8]) -> Result<Vec<u8>, SqlError> {
    match ty {
        OrderedType::MacAddr | OrderedType::MacAddr8 => Ok(stored.to_vec()),
        OrderedType::Inet | OrderedType::Cidr => {
            let address = Address::of_stored(stored)?;
            let family = match address.family() {
                Family::V4 => WIRE_V4,
                Family::V6 => WIRE_V6,
            };
            let mut out = vec![family, address.bits(), u8::from(ty == OrderedType::Cidr), address.bytes().len() as u8];
            out.extend_from_slice(address.bytes());
            Ok(out)
        }
    }
}

/// A column of one of these types as one of another, or as text, or a text as one of these; `None` where there is no such cast.
///
/// # Errors
/// `22P02`, `22003`
pub fn cast(array: &ArrayRef, to: &DataType) -> Option<Result<ArrayRef, SqlError>> {
    let from = type_of_data(array.data_type());
    match (from, type_of_data(to)) {
        (None, Some(to)) => {
            let texts = array.as_string_view_opt()?;
            Some(column(to, texts.iter().map(|text| text.map(|text| parse(to, text)).transpose())))
        }
        (Some(from), None) if to == &TEXT => {
            let held = array.as_fixed_size_binary_opt()?;
            let texts = held.iter().map(|bytes| bytes.map(|bytes| to_cast_text(from, bytes)).transpose());
            Some(texts.collect::<Result<StringViewArray, _>>().map(|array| Arc::new(array) as ArrayRef))
        }
        (Some(from), Some(to)) => {
            let held = array.as_fixed_size_binary_opt()?;
            let row = |row| held.is_valid(row).then(|| converted(from, to, held.value(row))).transpose();
            Some(column(to, (0..held.len()).map(row)))
        }
        (None, None) => match (array.data_type(), to) {
            // Elements by the same casts.
            (DataType::List(from), DataType::List(item)) if type_of_data(from.data_type()).is_some() => {
                let lists = array.as_list::<i32>();
                let values = cast(lists.values(), item.data_type())?;
                Some(values.and_then(|values| {
                    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
                    let out = ListArray::try_new(Arc::clone(item), offsets, values, nulls);
                    Ok(Arc::new(out.map_err(|error| crate::errors::from_arrow(&error))?) as ArrayRef)
                }))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A value of one type as one of another.
fn converted(from: OrderedType, to: OrderedType, held: &[u8]) -> Result<Vec<u8>, SqlError> {
    use OrderedType as T;
    let damaged = |_| SqlError::new("XX001", "an address of an interface is stored in a form that is none");
    Ok(match (from, to) {
        (T::Inet, T::Cidr) => Address::of_stored(held)?.network().to_stored(),
        (T::MacAddr, T::MacAddr8) => mac::widened(held.try_into().map_err(damaged)?).to_vec(),
        (T::MacAddr8, T::MacAddr) => mac::narrowed(held.try_into().map_err(damaged)?)?.to_vec(),
        // A network is an address as it is.
        _ => stored(from, held).to_vec(),
    })
}
