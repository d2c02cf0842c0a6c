//! What the definition of a view says, and its stored form.
//!
//! A view is an entry of the catalog like a table (its rows are chunks of an encoded [`Definition`](crate::stored::Definition)
//! whose `view` is set), without columns, indexes and trees of its own. What its query means is the SQL layer's.
//!
//! The query is kept as text, with the names that it was written with. What those names mean is kept beside it, by id and
//! position, as of the view's creation: so neither a new name of a table or a column nor a column that a table gets later
//! changes what the view says.
//!
//! ```text
//! query                  counted SQL text
//! check option           u8: 0 none, 1 LOCAL, 2 CASCADED
//! columns                count u16, each: name counted, type oid u32, type modifier i32, flags u8 (1: DEFAULT),
//!                        [DEFAULT counted SQL text]
//! relations              count u16, each: id u32, schema and name counted (as the query has them), columns: count u16,
//!                        each: name counted (as the query has it), position u16, flags u8 (1: the query reads it)
//! ```

use resurgam_base::Result;
use resurgam_page::codec::{Reader, put_counted};

/// The definition of a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Its query.
    pub sql: String,
    pub columns: Vec<ViewColumn>,
    /// What the names of relations in the query mean, each name once.
    pub relations: Vec<ViewRelation>,
    pub check: CheckOption,
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewColumn {
    pub name: String,
    /// PostgreSQL's id of its type, and the type's modifier (-1: none).
    pub oid: u32,
    pub typmod: i32,
    /// The DEFAULT expression as SQL text; its meaning is the SQL layer's.
    pub default_sql: Option<String>,
}

/// A table or view that a view's query names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRelation {
    pub id: u32,
    /// As the query has them.
    pub schema: String,
    pub name: String,
    /// Its columns when the view was made, but for those that were dropped since.
    pub columns: Vec<SeenColumn>,
}

/// A column of a relation as a view's query sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenColumn {
    /// The name that the query has for it.
    pub name: String,
    /// Where it is among the relation's columns.
    pub at: usize,
    /// The query reads it.
    pub used: bool,
}

/// WITH CHECK OPTION.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckOption {
    #[default]
    None,
    Local,
    Cascaded,
}

impl View {
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        put_counted(out, self.sql.as_bytes());
        out.push(match self.check {
            CheckOption::None => 0,
            CheckOption::Local => 1,
            CheckOption::Cascaded => 2,
        });
        put_count(out, self.columns.len());
        for column in &self.columns {
            put_counted(out, column.name.as_bytes());
            out.extend_from_slice(&column.oid.to_le_bytes());
            out.extend_from_slice(&column.typmod.to_le_bytes());
            out.push(u8::from(column.default_sql.is_some()));
            if let Some(sql) = &column.default_sql {
                put_counted(out, sql.as_bytes());
            }
        }
        put_count(out, self.relations.len());
        for relation in &self.relations {
            out.extend_from_slice(&relation.id.to_le_bytes());
            put_counted(out, relation.schema.as_bytes());
            put_counted(out, relation.name.as_bytes());
            put_count(out, relation.columns.len());
            for column in &relation.columns {
                put_counted(out, column.name.as_bytes());
                put_count(out, column.at);
                out.push(u8::from(column.used));
            }
        }
    }

    /// Reads what [`View::encode_into`] wrote.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let sql = text(r)?;
        let check = match r.u8()? {
            0 => CheckOption::None,
            1 => CheckOption::Local,
            2 => CheckOption::Cascaded,
            _ => return Err(r.bad("an unknown check option of a view")),
        };
        let mut columns = Vec::new();
        for _ in 0..r.u16()? {
            let (name, oid, typmod) = (text(r)?, r.u32()?, r.u32()?.cast_signed());
            let default_sql = if r.u8()? & 1 != 0 { Some(text(r)?) } else { None };
            columns.push(ViewColumn { name, oid, typmod, default_sql });
        }
        let mut relations = Vec::new();
        for _ in 0..r.u16()? {
            let (id, schema, name) = (r.u32()?, text(r)?, text(r)?);
            let mut seen = Vec::new();
            for _ in 0..r.u16()? {
                let (name, at) = (text(r)?, usize::from(r.u16()?));
                seen.push(SeenColumn { name, at, used: r.u8()? & 1 != 0 });
            }
            relations.push(ViewRelation { id, schema, name, columns: seen });
        }
        Ok(Self { sql, columns, relations, check })
    }

    /// Whether its query reads the column at that position of a relation.
    pub fn reads(&self, relation: u32, at: usize) -> bool {
        let of_it = self.relations.iter().filter(|seen| seen.id == relation);
        of_it.flat_map(|seen| &seen.columns).any(|column| column.at == at && column.used)
    }

    /// A column of a relation, which it does not read, is gone: those behind it have moved up.
    pub(crate) fn forget_column(&mut self, relation: u32, at: usize) {
        for seen in self.relations.iter_mut().filter(|seen| seen.id == relation) {
            seen.columns.retain(|column| column.at != at);
            seen.columns.iter_mut().for_each(|column| column.at -= usize::from(column.at > at));
        }
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    debug_assert!(count <= usize::from(u16::MAX));
    out.extend_from_slice(&(count as u16).to_le_bytes());
}

fn text(r: &mut Reader<'_>) -> Result<String> {
    let bytes = r.counted()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| r.bad("a text that is not UTF-8"))
}
