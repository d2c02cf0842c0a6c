//! Key/value tables.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;

use resurgam_engine::Direction;

use crate::error::Result;
use crate::fields::{AsKey, Bounds, Fields, Values};
use crate::reader::Reader;
use crate::shape::PUBLIC;
use crate::store::{Source, Store};
use crate::value::Unfit;

/// The name of a key/value table, with the types of its keys and values: a column each, or a tuple of columns. In SQL it is a
/// table with columns `key` and `value`, or `key1`, `key2`, … where there are several.
///
/// ```
/// use resurgam_embedded::Table;
/// const SCORES: Table<(String, u32), i64> = Table::new("scores");
/// ```
pub struct Table<K, V> {
    schema: Cow<'static, str>,
    name: Cow<'static, str>,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: Fields, V: Fields> Table<K, V> {
    /// A table of the schema `public`.
    pub const fn new(name: &'static str) -> Self {
        Self { schema: Cow::Borrowed(PUBLIC), name: Cow::Borrowed(name), of: PhantomData }
    }
    /// A table of a schema, which SQL has made.
    pub const fn in_schema(schema: &'static str, name: &'static str) -> Self {
        Self { schema: Cow::Borrowed(schema), name: Cow::Borrowed(name), of: PhantomData }
    }
    /// A table whose name is known when the program runs.
    pub fn named(name: impl Into<String>) -> Self {
        Self { schema: Cow::Borrowed(PUBLIC), name: Cow::Owned(name.into()), of: PhantomData }
    }
    pub fn name(&self) -> &str {
        &self.name
    }
    pub fn schema(&self) -> &str {
        &self.schema
    }
}

/// A key/value table in a transaction: what [`Reader`] has, of pairs, and more.
pub struct ReadTable<'tx, K, V>(Reader<'tx, K, (K, V)>);

/// The same in one that writes.
pub struct WriteTable<'tx, K, V>(ReadTable<'tx, K, V>);

fn pair<K: Fields, V: Fields>(source: &mut Source<'_>) -> Result<(K, V)> {
    Ok((K::take(source)?, V::take(source)?))
}

fn value<K: Fields, V: Fields>(source: &mut Source<'_>) -> Result<V> {
    source.skip(K::types().len());
    V::take(source)
}

impl<'tx, K: Fields, V: Fields> ReadTable<'tx, K, V> {
    pub(crate) fn new(store: Store<'tx>) -> Self {
        Self(Reader::new(store, pair::<K, V>))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::Value`](crate::Error::Value) if SQL wrote what `V` cannot be; those of reading.
    pub fn get<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Option<V>> {
        let key = self.0.key(key)?;
        let view = self.0.store.view()?;
        self.0.store.read(&view, &key, value::<K, V>)
    }
}

impl<'tx, K: Fields, V: Fields> WriteTable<'tx, K, V> {
    pub(crate) fn new(store: Store<'tx>) -> Self {
        Self(ReadTable::new(store))
    }

    fn row<'a, Q: AsKey<K> + ?Sized>(
        &self,
        key: &'a Q,
        put: impl FnOnce(&mut Values<'a>) -> Result<(), Unfit>,
    ) -> Result<Values<'a>> {
        let values = self.values(Values::new(), |out| key.put_key(out))?;
        self.values(values, put)
    }

    /// Sets the value of a key. Whether it had one before.
    ///
    /// # Errors
    /// [`TooLong`](crate::Error::TooLong), [`Value`](crate::Error::Value), [`ReadOnly`](crate::Error::ReadOnly),
    /// [`Conflict`](crate::Error::Conflict).
    pub fn put<Q: AsKey<K> + ?Sized, W: AsKey<V> + ?Sized>(&self, key: &Q, value: &W) -> Result<bool> {
        self.store.put(&self.row(key, |out| value.put_key(out))?)
    }

    /// Sets the value of a key that has none.
    ///
    /// # Errors
    /// [`Duplicate`](crate::Error::Duplicate) if it has one; as [`WriteTable::put`].
    pub fn insert<Q: AsKey<K> + ?Sized, W: AsKey<V> + ?Sized>(&self, key: &Q, value: &W) -> Result<()> {
        self.store.insert(&self.row(key, |out| value.put_key(out))?)
    }

    /// Sets the values of many keys that have none, all or none; how many they are. It costs less than one after the other, the less the
    /// closer the keys are to each other; they may come in any order. They are there when it returns, and not before.
    ///
    /// # Errors
    /// As [`WriteTable::insert`], of the first key that cannot be set.
    pub fn insert_all<Q: AsKey<K>, W: AsKey<V>>(&self, pairs: impl IntoIterator<Item = (Q, W)>) -> Result<u64> {
        self.store.insert_all(|loading| {
            for (key, value) in pairs {
                loading.push(&self.row(&key, |out| value.put_key(out))?)?;
            }
            Ok(())
        })
    }

    /// Sets the value of a key that has one.
    ///
    /// # Errors
    /// [`NoRow`](crate::Error::NoRow) if it has none; as [`WriteTable::put`].
    pub fn update<Q: AsKey<K> + ?Sized, W: AsKey<V> + ?Sized>(&self, key: &Q, value: &W) -> Result<()> {
        self.store.update(&self.row(key, |out| value.put_key(out))?)
    }

    /// Changes the value of a key, if it has one. Whether it had.
    ///
    /// # Errors
    /// As [`WriteTable::put`].
    pub fn modify<Q: AsKey<K> + ?Sized>(&self, key: &Q, change: impl FnOnce(&mut V)) -> Result<bool> {
        self.store.check_writable()?;
        let Some(mut value) = self.get(key)? else { return Ok(false) };
        change(&mut value);
        self.store.update_at(&self.key(key)?, &self.row(key, |out| value.put(out))?)?;
        Ok(true)
    }

    /// The value of a key, which no other transaction changes before this one has ended: for a decision that rests on a row
    /// which is not written.
    ///
    /// # Errors
    /// As [`WriteTable::put`].
    pub fn get_for_update<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Option<V>> {
        match self.store.lock(&self.key(key)?)? {
            true => self.get(key),
            false => Ok(None),
        }
    }

    /// Deletes a key. Whether it was there.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::Error::ReadOnly), [`Conflict`](crate::Error::Conflict).
    pub fn delete<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<bool> {
        self.store.delete(&self.key(key)?)
    }

    /// Deletes a key, and returns its value.
    ///
    /// # Errors
    /// As [`WriteTable::delete`].
    pub fn take<Q: AsKey<K> + ?Sized>(&self, key: &Q) -> Result<Option<V>> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        self.store.delete_at(&self.key(key)?)?;
        Ok(Some(value))
    }

    /// Deletes the first key, and returns it with its value.
    ///
    /// # Errors
    /// As [`WriteTable::delete`].
    pub fn pop_first(&self) -> Result<Option<(K, V)>> {
        self.pop(Direction::Forward)
    }

    /// Deletes the last key, and returns it with its value.
    ///
    /// # Errors
    /// As [`WriteTable::delete`].
    pub fn pop_last(&self) -> Result<Option<(K, V)>> {
        self.pop(Direction::Backward)
    }

    /// Deletes all keys of a range. How many there were.
    ///
    /// # Errors
    /// As [`WriteTable::delete`].
    pub fn delete_range(&self, bounds: impl Bounds<K>) -> Result<u64> {
        self.delete_in(&bounds)
    }
}

impl<'tx, K, V> Deref for ReadTable<'tx, K, V> {
    type Target = Reader<'tx, K, (K, V)>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'tx, K, V> Deref for WriteTable<'tx, K, V> {
    type Target = ReadTable<'tx, K, V>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
