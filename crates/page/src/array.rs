//! Arrays as rows keep them: one dimension, from 1 on.
//!
//! ```text
//! 0 version u8 = 1
//! 1 flags u8        bit 0: there are NULLs, and a bitmap of them
//! 2 count u32
//!   null bitmap     (count+7)/8 bytes, least significant bit first; only if there are NULLs
//!   elements        fixed width: count values as in a row's fixed area, a NULL is zero bytes
//!                   variable width: count ends u32, counted from their end; then the bytes
//! ```
//! An element is found in constant time. Arrays of several dimensions, and those that begin elsewhere than at 1, are
//! refused by the SQL layer; a later version of the form can hold them.
//!
//! # Invariant
//! A byte from disk is never trusted: the frame is checked when an array is looked at, an element when it is read.

use crate::row::{get_fixed, put_fixed};
use crate::types::{ColumnType, DatumRef};
use resurgam_base::{Error, ErrorKind, Result};

const VERSION: u8 = 1;
const HAS_NULLS: u8 = 1;
const HEAD: usize = 6;
/// Most elements, as in PostgreSQL (about: 1 GB of them).
const ELEMENTS_MAX: usize = 134_217_727;

#[cold]
fn bad(what: &str) -> Error {
    Error::corrupt(format!("array: {what}"))
}

/// Appends an array of elements of a type, which is no array.
///
/// # Errors
/// `Internal`: an element is not of the type; `LimitExceeded`: too many, or an element that is kept elsewhere.
pub fn encode(elements: &[DatumRef<'_>], ty: ColumnType, out: &mut Vec<u8>) -> Result<()> {
    if elements.len() > ELEMENTS_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "array size exceeds the maximum allowed (134217727)"));
    }
    let count = elements.len();
    let nulls = elements.iter().any(DatumRef::is_null);
    out.extend_from_slice(&[VERSION, if nulls { HAS_NULLS } else { 0 }]);
    out.extend_from_slice(&(count as u32).to_le_bytes());
    if nulls {
        let bitmap = out.len();
        out.resize(bitmap + count.div_ceil(8), 0);
        for (i, _) in elements.iter().enumerate().filter(|(_, element)| element.is_null()) {
            out[bitmap + i / 8] |= 1 << (i % 8);
        }
    }
    if let Some(width) = ty.fixed_width() {
        let at = out.len();
        out.resize(at + count * width, 0);
        for (i, element) in elements.iter().enumerate() {
            put_fixed(i, ty, element, &mut out[at + i * width..at + (i + 1) * width])?;
        }
        return Ok(());
    }
    let ends = out.len();
    out.resize(ends + count * 4, 0);
    let area = out.len();
    for (i, element) in elements.iter().enumerate() {
        match element {
            DatumRef::Null => {}
            DatumRef::Text(text) if ty.is_text() => out.extend_from_slice(text.as_bytes()),
            DatumRef::Bytes(bytes) if !ty.is_text() => out.extend_from_slice(bytes),
            other => return Err(Error::internal(format!("array of type {ty} given a {}", other.kind()))),
        }
        let end = u32::try_from(out.len() - area)
            .map_err(|_| Error::new(ErrorKind::LimitExceeded, "array is longer than 4 GiB"))?;
        out[ends + i * 4..ends + i * 4 + 4].copy_from_slice(&end.to_le_bytes());
    }
    Ok(())
}

/// An array whose frame has been checked.
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a> {
    ty: ColumnType,
    count: usize,
    nulls: Option<&'a [u8]>,
    body: &'a [u8],
}

impl<'a> ArrayView<'a> {
    /// Looks at an array of elements of a type.
    ///
    /// # Errors
    /// `Corrupt`: it is none.
    pub fn new(bytes: &'a [u8], ty: ColumnType) -> Result<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or_else(|| bad("cut off"))?;
        let [VERSION, flags, count @ ..] = *head else { return Err(bad("unknown version")) };
        let count = u32::from_le_bytes(count) as usize;
        let (nulls, body) = match flags {
            0 => (None, rest),
            HAS_NULLS => {
                let (nulls, body) = rest.split_at_checked(count.div_ceil(8)).ok_or_else(|| bad("nulls cut off"))?;
                (Some(nulls), body)
            }
            _ => return Err(bad("unknown flags")),
        };
        let needed = count.checked_mul(ty.fixed_width().unwrap_or(4));
        match (needed, ty.fixed_width()) {
            (Some(needed), Some(_)) if needed == body.len() => {}
            (Some(needed), None) if needed <= body.len() => {}
            _ => return Err(bad("elements cut off")),
        }
        Ok(Self { ty, count, nulls, body })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Element `i`, from 0.
    ///
    /// # Errors
    /// `Corrupt`: it cannot be read.
    pub fn get(&self, i: usize) -> Result<DatumRef<'a>> {
        if i >= self.count {
            return Err(bad("no such element"));
        }
        if self.nulls.is_some_and(|nulls| nulls.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)) {
            return Ok(DatumRef::Null);
        }
        if let Some(width) = self.ty.fixed_width() {
            return get_fixed(self.ty, self.body.get(i * width..(i + 1) * width).ok_or_else(|| bad("cut off"))?);
        }
        let end =
            |i: usize| self.body.get(i * 4..).and_then(|e| e.first_chunk()).map(|e| u32::from_le_bytes(*e) as usize);
        let start = if i == 0 { Some(0) } else { end(i - 1) };
        let area = self.body.get(self.count * 4..).unwrap_or(&[]);
        let bytes = match (start, end(i)) {
            (Some(start), Some(end)) => area.get(start..end),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| bad("element lies outside"))?;
        if self.ty.is_text() {
            return std::str::from_utf8(bytes).map(DatumRef::Text).map_err(|_| bad("element is not UTF-8"));
        }
        Ok(DatumRef::Bytes(bytes))
    }

    /// All elements.
    pub fn iter(&self) -> impl Iterator<Item = Result<DatumRef<'a>>> + use<'a> {
        let view = *self;
        (0..view.count).map(move |i| view.get(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Datum, strategies};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arrays_round_trip(
            (ty, values) in strategies::element_type().prop_flat_map(|ty| {
                (Just(ty), proptest::collection::vec(strategies::datum(ty), 0..20))
            }),
            at in 0usize..64, byte: u8,
        ) {
            let refs: Vec<DatumRef<'_>> = values.iter().map(Datum::as_ref).collect();
            let mut bytes = Vec::new();
            encode(&refs, ty, &mut bytes).unwrap();
            let view = ArrayView::new(&bytes, ty).unwrap();
            prop_assert_eq!(view.len(), values.len());
            for (i, value) in values.iter().enumerate() {
                let back = view.get(i).unwrap().to_owned();
                prop_assert!(&back == value || format!("{back:?}") == format!("{value:?}"), "{:?} {:?}", back, value);
            }
            // A damaged one is an error or another array, never a panic.
            if let Some(b) = bytes.get_mut(at) {
                *b = byte;
            }
            if let Ok(view) = ArrayView::new(&bytes, ty) {
                let _ = view.iter().take(100).filter(Result::is_ok).count();
            }
        }
    }
}
