//! Tables of structs: columns with names and types, that SQL sees alike.

use std::borrow::Borrow;
use std::ops::Deref;

use resurgam_engine::Direction;

use crate::by_index::ByIndex;
use crate::error::Result;
use crate::fields::{AsKey, Bounds, Fields, Values};
use crate::reader::Reader;
use crate::shape::Shape;
use crate::store::{Source, Store};
use crate::value::Unfit;

/// A struct that is a row of a table: made by [`row!`](crate::row!).
pub trait Row: Sized + 'static {
    /// Its key: a column, or a tuple of them.
    type Key: Fields;
    /// The schema and the name of the table.
    const SCHEMA: &'static str;
    const TABLE: &'static str;
    #[doc(hidden)]
    fn shape() -> Shape;
    #[doc(hidden)]
    fn put_row<'a>(&'a self, out: &mut Values<'a>) -> Result<(), Unfit>;
    #[doc(hidden)]
    fn take_row(source: &mut Source<'_>) -> Result<Self>;
}

/// Declares a struct whose values are rows of a table.
///
/// ```
/// resurgam_embedded::row! {
///     /// Somebody with an account.
///     #[derive(Debug, Clone, PartialEq)]
///     pub struct User in "users" {
///         pub id: i64,
///         pub email: String,
///         pub city: Option<String>,
///     }
///     key(id: i64);
///     unique email(email);
///     index city(city, id);
/// }
/// ```
///
/// `in "users" of schema "app"` names another schema than `public`. `key` has the columns of the primary key in its order, with
/// their types once more; those of a struct that has another type are refused by the compiler. `unique` and `index` name indexes
/// for [`by`](crate::ReadRows::by); in SQL they are `users_email_key` and `users_city_idx`.
#[macro_export]
macro_rules! row {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident in $table:literal $(of schema $schema:literal)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $ty:ty),+ $(,)?
        }
        key($($key:ident: $key_ty:ty),+ $(,)?);
        $($kind:ident $index:ident($($column:ident),+ $(,)?);)*
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $ty),+
        }

        impl $crate::Row for $name {
            type Key = $crate::row!(@key $($key_ty),+);
            const SCHEMA: &'static str = $crate::row!(@schema $($schema)?);
            const TABLE: &'static str = $table;
            fn shape() -> $crate::macros::Shape {
                $crate::macros::Shape::new(Self::SCHEMA, Self::TABLE)
                    $(.column::<$ty>($crate::row!(@name $field)))+
                    .key(&[$($crate::row!(@name $key)),+])
                    $(.index(
                        $crate::row!(@name $index),
                        &[$($crate::row!(@name $column)),+],
                        $crate::row!(@is_unique $kind),
                    ))*
            }
            fn put_row<'a>(&'a self, out: &mut $crate::macros::Values<'a>) -> ::std::result::Result<(), $crate::Unfit> {
                $(out.push($crate::Column::to_datum(&self.$field)?);)+
                ::std::result::Result::Ok(())
            }
            fn take_row(source: &mut $crate::macros::Source<'_>) -> $crate::Result<Self> {
                ::std::result::Result::Ok(Self { $($field: source.next::<$ty>()?),+ })
            }
        }

        // The key's types are those of the fields, and there are the columns of indexes.
        const _: fn(&$name) -> ($(&$key_ty,)+) = |row| ($(&row.$key,)+);
        const _: fn(&$name) = |_row| { $($(let _ = &_row.$column;)+)* };
    };
    (@key $key:ty) => { $key };
    (@key $($key:ty),+) => { ($($key,)+) };
    (@schema) => { "public" };
    (@schema $schema:literal) => { $schema };
    (@name $name:ident) => { $crate::macros::plain(stringify!($name)) };
    (@is_unique unique) => { true };
    (@is_unique index) => { false };
}

/// The table of a struct's rows in a transaction: what [`Reader`] has, of structs, and more.
pub struct ReadRows<'tx, R: Row>(Reader<'tx, R::Key, R>);

/// The same in one that writes.
pub struct WriteRows<'tx, R: Row>(ReadRows<'tx, R>);

impl<'tx, R: Row> ReadRows<'tx, R> {
    pub(crate) fn new(store: Store<'tx>) -> Self {
        Self(Reader::new(store, R::take_row))
    }

    /// The row with the key.
    ///
    /// # Errors
    /// [`Value`](crate::Error::Value) if SQL wrote what the struct cannot have; those of reading.
    pub fn get<Q: AsKey<R::Key> + ?Sized>(&self, key: &Q) -> Result<Option<R>> {
        let key = self.0.key(key)?;
        let view = self.0.store.view()?;
        self.0.store.read(&view, &key, R::take_row)
    }

    /// An index, by the name that the struct gives it, or by its name in SQL.
    ///
    /// # Errors
    /// [`NoIndex`](crate::Error::NoIndex).
    pub fn by(&self, index: &str) -> Result<ByIndex<'_, 'tx, R>> {
        ByIndex::new(self, index)
    }
}

impl<'tx, R: Row> WriteRows<'tx, R> {
    pub(crate) fn new(store: Store<'tx>) -> Self {
        Self(ReadRows::new(store))
    }

    fn row<'a>(&self, row: &'a R) -> Result<Values<'a>> {
        self.values(Values::new(), |out| row.put_row(out))
    }

    /// Writes a row: over the one with its key, or as a new one. Whether there was one.
    ///
    /// # Errors
    /// [`Duplicate`](crate::Error::Duplicate) if another row has what an index allows once; [`TooLong`](crate::Error::TooLong),
    /// [`Value`](crate::Error::Value), [`ReadOnly`](crate::Error::ReadOnly), [`Conflict`](crate::Error::Conflict).
    pub fn put(&self, row: &R) -> Result<bool> {
        self.store.put(&self.row(row)?)
    }

    /// Writes a new row.
    ///
    /// # Errors
    /// [`Duplicate`](crate::Error::Duplicate) if there is one with its key; as [`WriteRows::put`].
    pub fn insert(&self, row: &R) -> Result<()> {
        self.store.insert(&self.row(row)?)
    }

    /// Writes many new rows, all or none; how many they are. It costs less than one after the other, the less the closer they are to each
    /// other; they may come in any order. They are there when it returns, and not before.
    ///
    /// # Errors
    /// As [`WriteRows::insert`], of the first row that cannot be written.
    pub fn insert_all<B: Borrow<R>>(&self, rows: impl IntoIterator<Item = B>) -> Result<u64> {
        self.store.insert_all(|loading| {
            for row in rows {
                loading.push(&self.row(row.borrow())?)?;
            }
            Ok(())
        })
    }

    /// Writes over the row with the same key.
    ///
    /// # Errors
    /// [`NoRow`](crate::Error::NoRow) if there is none; as [`WriteRows::put`].
    pub fn update(&self, row: &R) -> Result<()> {
        self.store.update(&self.row(row)?)
    }

    /// Changes the row with the key, if there is one; its key may change as well. Whether there was one.
    ///
    /// # Errors
    /// As [`WriteRows::put`].
    pub fn modify<Q: AsKey<R::Key> + ?Sized>(&self, key: &Q, change: impl FnOnce(&mut R)) -> Result<bool> {
        self.store.check_writable()?;
        let Some(mut row) = self.get(key)? else { return Ok(false) };
        change(&mut row);
        self.store.update_at(&self.key(key)?, &self.row(&row)?)?;
        Ok(true)
    }

    /// The row with the key, which no other transaction changes before this one has ended: for a decision that rests on a row
    /// which is not written.
    ///
    /// # Errors
    /// As [`WriteRows::put`].
    pub fn get_for_update<Q: AsKey<R::Key> + ?Sized>(&self, key: &Q) -> Result<Option<R>> {
        match self.store.lock(&self.key(key)?)? {
            true => self.get(key),
            false => Ok(None),
        }
    }

    /// Deletes the row with the key. Whether there was one.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::Error::ReadOnly), [`Conflict`](crate::Error::Conflict).
    pub fn delete<Q: AsKey<R::Key> + ?Sized>(&self, key: &Q) -> Result<bool> {
        self.store.delete(&self.key(key)?)
    }

    /// Deletes the row with the key, and returns it.
    ///
    /// # Errors
    /// As [`WriteRows::delete`].
    pub fn take<Q: AsKey<R::Key> + ?Sized>(&self, key: &Q) -> Result<Option<R>> {
        let Some(row) = self.get(key)? else { return Ok(None) };
        self.store.delete_at(&self.key(key)?)?;
        Ok(Some(row))
    }

    /// Deletes the row with the first key, and returns it.
    ///
    /// # Errors
    /// As [`WriteRows::delete`].
    pub fn pop_first(&self) -> Result<Option<R>> {
        self.pop(Direction::Forward)
    }

    /// Deletes the row with the last key, and returns it.
    ///
    /// # Errors
    /// As [`WriteRows::delete`].
    pub fn pop_last(&self) -> Result<Option<R>> {
        self.pop(Direction::Backward)
    }

    /// Deletes the rows of a range of keys. How many there were.
    ///
    /// # Errors
    /// As [`WriteRows::delete`].
    pub fn delete_range(&self, bounds: impl Bounds<R::Key>) -> Result<u64> {
        self.delete_in(&bounds)
    }
}

impl<'tx, R: Row> Deref for ReadRows<'tx, R> {
    type Target = Reader<'tx, R::Key, R>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'tx, R: Row> Deref for WriteRows<'tx, R> {
    type Target = ReadRows<'tx, R>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
