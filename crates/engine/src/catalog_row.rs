//! Rows of the catalog's tree: keys, and what stands behind them. They are encoded and decoded here
//! only: the checker reads them with the same code.
//!
//! ```text
//! 't' table id u32 BE, chunk u16 BE   ->  a chunk of the encoded definition
//! 's' number u32 BE                   ->  values of a sequence: last i64 LE, 1 = it has been given out
//! 'a' table id u32 BE, chunk u16 BE   ->  a chunk of the table's statistics (statistics/codec.rs)
//! 'n' schema 0 name 0                 ->  table id u32 LE, 1 = the name is an index's
//! 'o' kind u8, schema 0 name 0        ->  the same, of an object that is no relation (catalog_object.rs): id u32 LE, 0
//! 'd' database u32 BE, key of a name  ->  what that key has, of a database other than the first one (databases.rs)
//! ```

use resurgam_base::ObjectId;

use crate::databases::FIRST_DATABASE;

/// Owner of the catalog's pages.
pub const CATALOG_OBJECT: ObjectId = ObjectId(4);

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogKey {
    /// Of a piece of a table's definition; they are joined in the order of their numbers, from 0.
    Definition { id: u32, chunk: u16 },
    /// Of a name that is taken.
    Name { database: u32, schema: String, name: String },
    /// Of a name of an object that is no relation.
    ObjectName { database: u32, kind: u8, schema: String, name: String },
    /// Of the values of a sequence.
    Values { number: u32 },
    /// Of a piece of a table's statistics.
    Statistics { table: u32, chunk: u16 },
}

impl CatalogKey {
    /// Reads a key; `None` if it is none.
    pub fn decode(key: &[u8]) -> Option<Self> {
        match key {
            [b't', a, b, c, d, e, f] => {
                let (id, chunk) = (u32::from_be_bytes([*a, *b, *c, *d]), u16::from_be_bytes([*e, *f]));
                Some(Self::Definition { id, chunk })
            }
            [b'a', a, b, c, d, e, f] => {
                let (table, chunk) = (u32::from_be_bytes([*a, *b, *c, *d]), u16::from_be_bytes([*e, *f]));
                Some(Self::Statistics { table, chunk })
            }
            [b's', a, b, c, d] => Some(Self::Values { number: u32::from_be_bytes([*a, *b, *c, *d]) }),
            [b'd', a, b, c, d, name @ ..] => match u32::from_be_bytes([*a, *b, *c, *d]) {
                FIRST_DATABASE => None,
                database => Self::decode_name(database, name),
            },
            name => Self::decode_name(FIRST_DATABASE, name),
        }
    }

    /// Reads a key of a name, as those of the first database are.
    fn decode_name(database: u32, key: &[u8]) -> Option<Self> {
        match key {
            [b'n', name @ ..] => decode_name(name).map(|(schema, name)| Self::Name { database, schema, name }),
            [b'o', kind, name @ ..] => {
                decode_name(name).map(|(schema, name)| Self::ObjectName { database, kind: *kind, schema, name })
            }
            _ => None,
        }
    }
}

/// Reads `schema 0 name 0`.
fn decode_name(bytes: &[u8]) -> Option<(String, String)> {
    let mut parts = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
    let mut text = || String::from_utf8(parts.next()?.to_vec()).ok();
    let (schema, name) = (text()?, text()?);
    parts.next().is_none().then_some((schema, name))
}

/// The key of a piece of a definition.
pub(crate) fn definition_key(id: u32, chunk: usize) -> Vec<u8> {
    let mut key = vec![b't'];
    key.extend_from_slice(&id.to_be_bytes());
    key.extend_from_slice(&(chunk as u16).to_be_bytes());
    key
}

/// The key of a piece of a table's statistics.
pub(crate) fn statistics_key(table: u32, chunk: usize) -> Vec<u8> {
    let mut key = vec![b'a'];
    key.extend_from_slice(&table.to_be_bytes());
    key.extend_from_slice(&(chunk as u16).to_be_bytes());
    key
}

/// The key of the values of a sequence.
pub(crate) fn values_key(number: u32) -> Vec<u8> {
    let mut key = vec![b's'];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The key of a name of a table, view, sequence or index.
pub(crate) fn name_key(database: u32, schema: &str, name: &str) -> Vec<u8> {
    key_of_name(database, b"n", schema, name)
}

/// The key of a name of an object of another kind.
pub(crate) fn object_name_key(database: u32, kind: u8, schema: &str, name: &str) -> Vec<u8> {
    key_of_name(database, &[b'o', kind], schema, name)
}

fn key_of_name(database: u32, kind: &[u8], schema: &str, name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    if database != FIRST_DATABASE {
        key.push(b'd');
        key.extend_from_slice(&database.to_be_bytes());
    }
    key.extend_from_slice(kind);
    key.extend_from_slice(schema.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key.push(0);
    key
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameOf {
    pub table: u32,
    /// The name of an index of that table, its primary key among them.
    pub is_index: bool,
}

impl NameOf {
    /// The row's value.
    pub fn encode(self) -> Vec<u8> {
        let mut value = self.table.to_le_bytes().to_vec();
        value.push(u8::from(self.is_index));
        value
    }
    /// Reads one; `None` if it is none.
    pub fn decode(value: &[u8]) -> Option<Self> {
        match value.split_first_chunk::<4>()? {
            (id, [is_index]) => Some(Self { table: u32::from_le_bytes(*id), is_index: *is_index != 0 }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_come_back() {
        let (schema, name) = ("public".to_owned(), "a b".to_owned());
        for database in [FIRST_DATABASE, 1, 16_400] {
            let (schema, name) = (schema.clone(), name.clone());
            let key = name_key(database, &schema, &name);
            assert_eq!(CatalogKey::decode(&key), Some(CatalogKey::Name { database, schema, name }));
            let key = object_name_key(database, 3, "", "x");
            let expected = CatalogKey::ObjectName { database, kind: 3, schema: String::new(), name: "x".into() };
            assert_eq!(CatalogKey::decode(&key), Some(expected));
        }
        // The form of data folders from before there were others.
        assert_eq!(name_key(FIRST_DATABASE, "a", "b"), b"na\0b\0");
        assert_eq!(
            CatalogKey::decode(&definition_key(70_000, 258)),
            Some(CatalogKey::Definition { id: 70_000, chunk: 258 })
        );
        assert_eq!(
            CatalogKey::decode(&statistics_key(70_000, 258)),
            Some(CatalogKey::Statistics { table: 70_000, chunk: 258 })
        );
        for bad in [
            &b"x"[..],
            b"",
            b"t123",
            b"t1234567",
            b"na\0b",
            b"na\0b\0c\0",
            b"n\xff\0b\0",
            b"d\0\0\0\x05na\0b\0",
            b"d\0\0\0\x01s123",
        ] {
            assert_eq!(CatalogKey::decode(bad), None, "{bad:?}");
        }
        let of = NameOf { table: 16_384, is_index: true };
        assert_eq!(NameOf::decode(&of.encode()), Some(of));
        assert_eq!((NameOf::decode(&[1, 2, 3, 4]), NameOf::decode(&[1, 2, 3, 4, 0, 0])), (None, None));
    }
}
