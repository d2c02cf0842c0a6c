//! `citext`: texts that are compared without case, the type of the extension of that name.
//!
//! In plans they are one-element lists of Arrow, a type that no other value is of ([`DATA`]): nothing that takes texts takes them,
//! so whoever compares, shows or changes them has to know them. Comparisons go by [`fold`] (`order_key`,
//! [`NumericKeys`](crate::functions::numeric::keys::NumericKeys)); rows keep that beside the text
//! ([`resurgam_engine::folded`]), and keys of indexes have it alone.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, LargeListArray, NullBufferBuilder, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use resurgam_dialect::intern;
use resurgam_engine::folded;

use crate::functions::lower;
use crate::types::{TEXT, oid};
use crate::user_types::definition::Kind;
use crate::user_types::{Body, UserType};
use crate::wire::SqlError;

/// The extension's name, and the type's.
pub const NAME: &str = "citext";

static ITEM: LazyLock<FieldRef> = LazyLock::new(|| Arc::new(Field::new(NAME, TEXT, true)));

/// The Arrow type of such texts.
pub static DATA: LazyLock<DataType> = LazyLock::new(|| DataType::LargeList(Arc::clone(&ITEM)));

/// Whether values of an Arrow type are such texts.
pub fn is_citext(data: &DataType) -> bool {
    matches!(data, DataType::LargeList(item) if item.name() == NAME)
}

/// Whether there are such texts within arrays or records of that type.
pub fn is_within(data: &DataType) -> bool {
    let has = |data: &DataType| is_citext(data) || is_within(data);
    match data {
        DataType::List(item) | DataType::FixedSizeList(item, _) => has(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has(field.data_type())),
        _ => false,
    }
}

/// What a text is compared by: as `lower` has it.
pub fn fold(text: &str) -> String {
    text.chars().map(lower).collect()
}

/// The stored form of a text.
pub fn stored(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    folded::encode(fold(text).as_bytes(), text.as_bytes(), &mut out);
    out
}

/// The stored form of a text that is what it is compared by.
pub fn stored_of_key(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 1);
    folded::encode(key, key, &mut out);
    out
}

/// The text that a stored form shows.
///
/// # Errors
/// `XX001`
pub fn shown(stored: &[u8]) -> Result<&str, SqlError> {
    let text = folded::decode(stored)?.text;
    std::str::from_utf8(text).map_err(|_| SqlError::new("XX001", "a stored citext that is no text"))
}

/// A text as a constant.
pub fn scalar(text: Option<&str>) -> ScalarValue {
    let texts: StringViewArray = std::iter::once(text).collect();
    ScalarValue::LargeList(Arc::new(lists(&texts)))
}

/// The text of a constant; `None` of a NULL, and of any other value.
pub fn text_of(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::LargeList(list) if is_citext(list.data_type()) && list.len() == 1 => {
            Column::of(list.as_ref()).get(0).map(str::to_owned)
        }
        _ => None,
    }
}

fn lists(texts: &StringViewArray) -> LargeListArray {
    let offsets = OffsetBuffer::<i64>::from_lengths(std::iter::repeat_n(1, texts.len()));
    LargeListArray::new(Arc::clone(&ITEM), offsets, Arc::new(texts.clone()), texts.nulls().cloned())
}

/// Texts as such.
pub fn of_texts(texts: &StringViewArray) -> ArrayRef {
    Arc::new(lists(texts))
}

/// A column of them.
#[derive(Debug)]
pub struct Column<'a> {
    lists: &'a LargeListArray,
    texts: &'a StringViewArray,
}

impl<'a> Column<'a> {
    /// Of an array of that Arrow type.
    pub fn of(array: &'a dyn Array) -> Self {
        let lists = array.as_list::<i64>();
        Self { lists, texts: lists.values().as_string_view() }
    }

    /// The text of a row; `None`: NULL.
    pub fn get(&self, row: usize) -> Option<&'a str> {
        let at = self.lists.value_offsets().get(row).copied()? as usize;
        self.lists.is_valid(row).then(|| self.texts.value(at))
    }

    pub fn iter(&self) -> impl Iterator<Item = Option<&'a str>> + '_ {
        (0..self.lists.len()).map(|row| self.get(row))
    }

    /// As texts.
    pub fn to_texts(&self) -> StringViewArray {
        self.iter().collect()
    }
}

/// Makes a column of stored forms.
pub struct Builder {
    texts: StringViewBuilder,
    nulls: NullBufferBuilder,
}

impl Builder {
    pub fn new(capacity: usize) -> Self {
        Self { texts: StringViewBuilder::with_capacity(capacity), nulls: NullBufferBuilder::new(capacity) }
    }

    /// # Errors
    /// `XX001`
    pub fn append(&mut self, stored: &[u8]) -> Result<(), SqlError> {
        self.texts.append_value(shown(stored)?);
        self.nulls.append_non_null();
        Ok(())
    }

    pub fn append_null(&mut self) {
        self.texts.append_null();
        self.nulls.append_null();
    }

    pub fn finish(&mut self) -> ArrayRef {
        let texts = self.texts.finish();
        let offsets = OffsetBuffer::<i64>::from_lengths(std::iter::repeat_n(1, texts.len()));
        Arc::new(LargeListArray::new(Arc::clone(&ITEM), offsets, Arc::new(texts), self.nulls.finish()))
    }
}

/// The type as one of those that a database has beside PostgreSQL's own, in the extension's schema.
pub fn user_type(schema: &str, owner: u32) -> UserType {
    let body = Body { array: oid::CITEXT_ARRAY, comment: None, kind: Kind::Citext };
    UserType { oid: oid::CITEXT, schema: schema.to_owned(), name: intern(NAME).to_owned(), owner, body }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::compute::{concat, take};

    use super::*;

    #[test]
    fn texts_come_back() {
        let texts: StringViewArray =
            [Some("Ab"), None, Some(""), Some("a longer text than a view holds")].into_iter().collect();
        let column = of_texts(&texts);
        assert!(is_citext(column.data_type()) && column.data_type() == &*DATA);
        assert_eq!(Column::of(column.as_ref()).to_texts(), texts);
        // Kernels may leave no element where there is a NULL.
        let at = datafusion::arrow::array::UInt32Array::from(vec![Some(3), None, Some(1), Some(0)]);
        let taken = take(&concat(&[column.as_ref(), column.as_ref()]).unwrap(), &at, None).unwrap();
        let shown: Vec<Option<&str>> = Column::of(taken.as_ref()).iter().collect();
        assert_eq!(shown, [Some("a longer text than a view holds"), None, None, Some("Ab")]);
        assert_eq!(text_of(&scalar(Some("Ab"))).as_deref(), Some("Ab"));
        assert_eq!(text_of(&scalar(None)), None);
    }

    #[test]
    fn stored_forms() {
        let mut builder = Builder::new(2);
        builder.append(&stored("Straße ÀÉ")).unwrap();
        builder.append_null();
        let column = builder.finish();
        assert_eq!(Column::of(column.as_ref()).get(0), Some("Straße ÀÉ"));
        assert_eq!(Column::of(column.as_ref()).get(1), None);
        assert_eq!(folded::decode(&stored("ÀÉ")).unwrap().key, "àé".as_bytes());
        assert_eq!(stored("abc"), stored_of_key(b"abc"));
    }
}
