//! Keys, values and bounds: one column or several, and what can be given in the place of an owned one.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use resurgam_engine::{ColumnType, DatumRef};

use crate::error::Result;
use crate::store::Source;
use crate::value::{Column, Unfit, text};

/// Values on their way to a row or a key.
pub type Values<'a> = Vec<DatumRef<'a>>;

/// One column, or a tuple of up to eight: the key or the value of a [`Table`](crate::Table). `()` is a value of no column.
pub trait Fields: Sized + 'static {
    #[doc(hidden)]
    fn types() -> Vec<(ColumnType, bool)>;
    #[doc(hidden)]
    fn put<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit>;
    #[doc(hidden)]
    fn take(source: &mut Source<'_>) -> Result<Self>;
}

impl<C: Column> Fields for C {
    fn types() -> Vec<(ColumnType, bool)> {
        vec![(C::TYPE, C::NULLABLE)]
    }
    fn put<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
        out.push(self.to_datum()?);
        Ok(())
    }
    fn take(source: &mut Source<'_>) -> Result<Self> {
        source.next()
    }
}

/// What a column of type `T` can be looked up by: itself, or what it is made of (`str` for `String`).
pub trait ColumnOf<T> {
    #[doc(hidden)]
    fn datum(&self) -> Result<DatumRef<'_>, Unfit>;
}

impl<T: Column> ColumnOf<T> for T {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        self.to_datum()
    }
}
impl ColumnOf<String> for str {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        text(self)
    }
}
impl ColumnOf<String> for &str {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        text(self)
    }
}
impl ColumnOf<String> for &String {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        text(self)
    }
}
impl ColumnOf<Vec<u8>> for [u8] {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(self))
    }
}
impl ColumnOf<Vec<u8>> for &[u8] {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(self))
    }
}
impl<const N: usize> ColumnOf<Vec<u8>> for [u8; N] {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(self))
    }
}
impl<const N: usize> ColumnOf<Vec<u8>> for &[u8; N] {
    fn datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(*self))
    }
}

/// What stands for a whole key, or a value, of type `K`: a column each, or what it is made of.
pub trait AsKey<K> {
    #[doc(hidden)]
    fn put_key<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit>;
}

impl<T: Column, Q: ColumnOf<T> + ?Sized> AsKey<T> for Q {
    fn put_key<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
        out.push(self.datum()?);
        Ok(())
    }
}

/// What a bound of a range can be: a whole key, or its first columns. A bound of the first columns stands for all keys that begin so.
pub trait AsBound<K> {
    #[doc(hidden)]
    fn put_bound<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit>;
}

impl<T: Column, Q: ColumnOf<T> + ?Sized> AsBound<T> for Q {
    fn put_bound<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
        out.push(self.datum()?);
        Ok(())
    }
}

/// What keys can begin with: of keys of one column that is text or bytes, text or bytes; of tuples, a tuple of their first columns.
pub trait AsPrefix<K> {
    /// Whether keys may go on within the last column.
    #[doc(hidden)]
    const WITHIN: bool;
    #[doc(hidden)]
    fn put_prefix<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit>;
}

macro_rules! within {
    ($($key:ty: $($prefix:ty $([$n:ident])?),*;)*) => {$($(
        impl$(<const $n: usize>)? AsPrefix<$key> for $prefix {
            const WITHIN: bool = true;
            fn put_prefix<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
                out.push(ColumnOf::<$key>::datum(self)?);
                Ok(())
            }
        }
    )*)*};
}

within! {
    String: str, &str, String;
    Vec<u8>: [u8], &[u8], [u8; N] [N], Vec<u8>;
}

macro_rules! tuples {
    ($(($($of:ident $by:ident $at:tt),+))*) => {$(
        impl<$($of: Column),+> Fields for ($($of,)+) {
            fn types() -> Vec<(ColumnType, bool)> {
                vec![$(($of::TYPE, $of::NULLABLE)),+]
            }
            fn put<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
                $(out.push(self.$at.to_datum()?);)+
                Ok(())
            }
            fn take(source: &mut Source<'_>) -> Result<Self> {
                Ok(($(source.next::<$of>()?,)+))
            }
        }
        impl<$($of: Column, $by: ColumnOf<$of>),+> AsKey<($($of,)+)> for ($($by,)+) {
            fn put_key<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
                $(out.push(self.$at.datum()?);)+
                Ok(())
            }
        }
    )*};
}

tuples! {
    (A QA 0)
    (A QA 0, B QB 1)
    (A QA 0, B QB 1, C QC 2)
    (A QA 0, B QB 1, C QC 2, D QD 3)
    (A QA 0, B QB 1, C QC 2, D QD 3, E QE 4)
    (A QA 0, B QB 1, C QC 2, D QD 3, E QE 4, F QF 5)
    (A QA 0, B QB 1, C QC 2, D QD 3, E QE 4, F QF 5, G QG 6)
    (A QA 0, B QB 1, C QC 2, D QD 3, E QE 4, F QF 5, G QG 6, H QH 7)
}

/// Tuples of the first columns of tuples: a bound in any case, a prefix if they are fewer.
macro_rules! beginnings {
    ($(($($by:ident $first:ident $at:tt),+) of ($($of:ident),+) $prefix:ident;)*) => {$(
        impl<$($of: Column,)+ $($by: ColumnOf<$first>),+> AsBound<($($of,)+)> for ($($by,)+) {
            fn put_bound<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
                $(out.push(self.$at.datum()?);)+
                Ok(())
            }
        }
        beginnings!(@$prefix ($($by $first $at),+) ($($of),+));
    )*};
    (@whole ($($by:ident $first:ident $at:tt),+) ($($of:ident),+)) => {};
    (@part ($($by:ident $first:ident $at:tt),+) ($($of:ident),+)) => {
        impl<$($of: Column,)+ $($by: ColumnOf<$first>),+> AsPrefix<($($of,)+)> for ($($by,)+) {
            const WITHIN: bool = false;
            fn put_prefix<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
                $(out.push(self.$at.datum()?);)+
                Ok(())
            }
        }
    };
}

beginnings! {
    (QA A 0) of (A) whole;
    (QA A 0) of (A, B) part;
    (QA A 0, QB B 1) of (A, B) whole;
    (QA A 0) of (A, B, C) part;
    (QA A 0, QB B 1) of (A, B, C) part;
    (QA A 0, QB B 1, QC C 2) of (A, B, C) whole;
    (QA A 0) of (A, B, C, D) part;
    (QA A 0, QB B 1) of (A, B, C, D) part;
    (QA A 0, QB B 1, QC C 2) of (A, B, C, D) part;
    (QA A 0, QB B 1, QC C 2, QD D 3) of (A, B, C, D) whole;
}

impl AsKey<()> for () {
    fn put_key<'a>(&'a self, _out: &mut Values<'a>) -> Result<(), Unfit> {
        Ok(())
    }
}

impl Fields for () {
    fn types() -> Vec<(ColumnType, bool)> {
        Vec::new()
    }
    fn put<'a>(&'a self, _out: &mut Values<'a>) -> Result<(), Unfit> {
        Ok(())
    }
    fn take(_source: &mut Source<'_>) -> Result<Self> {
        Ok(())
    }
}

/// What cannot be, and how many values were put before it: the position of its column.
pub type UnfitAt = (Unfit, usize);

/// Both bounds, as values.
pub type BoundValues<'a> = (Bound<Values<'a>>, Bound<Values<'a>>);

/// A range of keys of type `K`: `..`, `a..`, `a..b`, `a..=b`, `..b`, `..=b` or a pair of [`Bound`]s, of [`AsBound`].
pub trait Bounds<K> {
    #[doc(hidden)]
    fn bounds(&self) -> Result<BoundValues<'_>, UnfitAt>;
}

fn bound_of<K, Q: AsBound<K>>(q: &Q) -> Result<Values<'_>, UnfitAt> {
    let mut out = Values::new();
    q.put_bound(&mut out).map_err(|unfit| (unfit, out.len()))?;
    Ok(out)
}

fn values<K, Q: AsBound<K>>(bound: Bound<&Q>) -> Result<Bound<Values<'_>>, UnfitAt> {
    Ok(match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(q) => Bound::Included(bound_of(q)?),
        Bound::Excluded(q) => Bound::Excluded(bound_of(q)?),
    })
}

impl<K> Bounds<K> for RangeFull {
    fn bounds(&self) -> Result<BoundValues<'_>, UnfitAt> {
        Ok((Bound::Unbounded, Bound::Unbounded))
    }
}

macro_rules! ranges {
    ($($range:ident)*) => {$(
        impl<K, Q: AsBound<K>> Bounds<K> for $range<Q> {
            fn bounds(&self) -> Result<BoundValues<'_>, UnfitAt> {
                use std::ops::RangeBounds;
                Ok((values(self.start_bound())?, values(self.end_bound())?))
            }
        }
    )*};
}

ranges! { Range RangeFrom RangeInclusive RangeTo RangeToInclusive }

impl<K, Q: AsBound<K>> Bounds<K> for (Bound<Q>, Bound<Q>) {
    fn bounds(&self) -> Result<BoundValues<'_>, UnfitAt> {
        Ok((values(self.0.as_ref())?, values(self.1.as_ref())?))
    }
}

/// One value by which an index is searched: of the type of the index's column, or an integer that fits it.
pub trait IndexColumn {
    #[doc(hidden)]
    fn index_datum(&self) -> Result<DatumRef<'_>, Unfit>;
}

impl<C: Column> IndexColumn for C {
    fn index_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        self.to_datum()
    }
}
impl IndexColumn for str {
    fn index_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        text(self)
    }
}
impl IndexColumn for &str {
    fn index_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        text(self)
    }
}
impl IndexColumn for [u8] {
    fn index_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(self))
    }
}
impl IndexColumn for &[u8] {
    fn index_datum(&self) -> Result<DatumRef<'_>, Unfit> {
        Ok(DatumRef::Bytes(self))
    }
}

/// Values by which an index is searched: one, or a tuple, of its first columns or all.
pub trait IndexValues {
    #[doc(hidden)]
    fn put_values<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit>;
}

impl<Q: IndexColumn + ?Sized> IndexValues for Q {
    fn put_values<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
        out.push(self.index_datum()?);
        Ok(())
    }
}

macro_rules! index_tuples {
    ($(($($q:ident $at:tt),+))*) => {$(
        impl<$($q: IndexColumn),+> IndexValues for ($($q,)+) {
            fn put_values<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit> {
                $(out.push(self.$at.index_datum()?);)+
                Ok(())
            }
        }
    )*};
}

index_tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}

/// The range of an index: as [`Bounds`], of [`IndexValues`].
pub trait IndexBounds {
    #[doc(hidden)]
    fn index_bounds(&self) -> Result<BoundValues<'_>, UnfitAt>;
}

fn values_of<Q: IndexValues>(q: &Q) -> Result<Values<'_>, UnfitAt> {
    let mut out = Values::new();
    q.put_values(&mut out).map_err(|unfit| (unfit, out.len()))?;
    Ok(out)
}

fn index_values<Q: IndexValues>(bound: Bound<&Q>) -> Result<Bound<Values<'_>>, UnfitAt> {
    Ok(match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(q) => Bound::Included(values_of(q)?),
        Bound::Excluded(q) => Bound::Excluded(values_of(q)?),
    })
}

impl IndexBounds for RangeFull {
    fn index_bounds(&self) -> Result<BoundValues<'_>, UnfitAt> {
        Ok((Bound::Unbounded, Bound::Unbounded))
    }
}

macro_rules! index_ranges {
    ($($range:ident)*) => {$(
        impl<Q: IndexValues> IndexBounds for $range<Q> {
            fn index_bounds(&self) -> Result<BoundValues<'_>, UnfitAt> {
                use std::ops::RangeBounds;
                Ok((index_values(self.start_bound())?, index_values(self.end_bound())?))
            }
        }
    )*};
}

index_ranges! { Range RangeFrom RangeInclusive RangeTo RangeToInclusive }

impl<Q: IndexValues> IndexBounds for (Bound<Q>, Bound<Q>) {
    fn index_bounds(&self) -> Result<BoundValues<'_>, UnfitAt> {
        Ok((index_values(self.0.as_ref())?, index_values(self.1.as_ref())?))
    }
}
