//! A type's name as PostgreSQL prints it in messages, in `format_type()` and in `regtype`.

use std::borrow::Cow;

use crate::catalog::{Catalog, Schema};
use crate::types::{TypeId, lexer, typmod};

/// An identifier, in quotes if it would otherwise be read as something else.
pub fn quote_identifier(name: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let safe = name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty();
    if safe && !lexer::is_keyword(name) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("\"{}\"", name.replace('"', "\"\"")))
}

impl Catalog {
    /// The name of a type in PostgreSQL's messages: `integer`, `character varying`, `text[]`. A type
    /// that is not in the catalog is `???`, number 0 is `-`.
    pub fn format_type(&self, ty: TypeId) -> String {
        self.format(ty, None)
    }

    /// The same with its modifier: `numeric(10,2)`, `character(3)[]`. With -1 there is one difference:
    /// `bpchar`, because `character` would be `character(1)`.
    pub fn format_type_typmod(&self, ty: TypeId, typmod: i32) -> String {
        self.format(ty, Some(typmod))
    }

    fn format(&self, ty: TypeId, typmod: Option<i32>) -> String {
        let Some(entry) = self.type_of(ty) else {
            return if ty.0 == 0 { "-" } else { "???" }.to_string();
        };
        let (element, array) = match entry.element {
            // int2vector and oidvector are arrays by their own names.
            Some(element) if entry.is_true_array() && entry.storage != 'p' => (element, true),
            _ => (ty, false),
        };
        let Some(entry) = self.type_of(element) else {
            return "???[]".to_string();
        };
        let modifier = typmod::print(element, typmod.unwrap_or(typmod::NONE));
        let given = typmod.is_some_and(|t| t >= 0);
        let mut name = match element {
            TypeId::BIT if typmod.is_none() || given => format!("bit{modifier}"),
            // Without its length it would be read as bit(1).
            TypeId::BIT => "\"bit\"".to_string(),
            TypeId::BOOL => "boolean".to_string(),
            TypeId::BPCHAR if typmod.is_none() || given => format!("character{modifier}"),
            TypeId::FLOAT4 => "real".to_string(),
            TypeId::FLOAT8 => "double precision".to_string(),
            TypeId::INT2 => "smallint".to_string(),
            TypeId::INT4 => "integer".to_string(),
            TypeId::INT8 => "bigint".to_string(),
            TypeId::TIME => format!("time{modifier} without time zone"),
            TypeId::TIMETZ => format!("time{modifier} with time zone"),
            TypeId::TIMESTAMP => format!("timestamp{modifier} without time zone"),
            TypeId::TIMESTAMPTZ => format!("timestamp{modifier} with time zone"),
            TypeId::NUMERIC => format!("numeric{modifier}"),
            TypeId::INTERVAL => format!("interval{modifier}"),
            TypeId::VARBIT => format!("bit varying{modifier}"),
            TypeId::VARCHAR => format!("character varying{modifier}"),
            _ => {
                let name = quote_identifier(entry.name);
                match entry.schema {
                    Schema::PgCatalog | Schema::User(_, true) => format!("{name}{modifier}"),
                    schema => format!("{}.{name}{modifier}", quote_identifier(schema.name())),
                }
            }
        };
        if array {
            name.push_str("[]");
        }
        name
    }
}
