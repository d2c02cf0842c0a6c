//! Types: SQL names, PostgreSQL oids and modifiers, engine column types, Arrow types.
//!
//! Choices, each with its reason:
//! - `text`, `varchar`, `char`, `json`, `uuid` are Arrow `Utf8View`: a view array
//!   has no 2 GB limit, and filters and sorts copy 16 bytes a value instead of the text.
//! - `uuid` is its canonical lower-case text: byte order of the text is the
//!   order of the 16 bytes, and comparisons with string literals need no special case.
//! - `bytea` is `BinaryView`; types whose bytes order as their values do are `FixedSizeBinary`, each of its own width, and bits are
//!   texts of zeros and ones ([`crate::ordered`]).
//! - `char(n)` is held without its padding, so that comparison and every text
//!   function see what PostgreSQL's see; the padding comes back at the edge.
//!   What mixes several lengths has them: [`PADDED`].
//! - `oid` and the `reg…` types are `UInt32`, which nothing else is, so an oid stays
//!   an oid through expressions. `regproc` is the function's name.
//! - `int2vector` and `oidvector` are lists that print without braces.
//! - `numeric` has two forms, `Decimal128` and bytes; see `functions::numeric`. Columns of `numeric(p,s)` with p ≤ 38
//!   and 0 ≤ s ≤ p are of the first, all others of the second. Before there were such columns, those of bare `numeric`
//!   were `Decimal128(38, 10)`, printed without zeros at the end; the form still means that, so that such tables read
//!   as they did, and a column that is declared as `numeric(38,10)` is of the second.
//! - dates and times count from 1970 in Arrow and from 2000 in the engine and on the wire;
//!   [`EPOCH_DAYS`] and [`EPOCH_US`] are the difference.
//! - what Arrow cannot tell apart (`varchar(20)`, `json`, `name`…) travels as field
//!   metadata under [`OID_KEY`] and [`TYPMOD_KEY`]. It survives column references and
//!   aliases and is lost by expressions, as PostgreSQL loses modifiers there.
//! - the field of a list's elements says nothing but their Arrow type: metadata there is a part of the list's own type,
//!   and Arrow's operations keep it in one place and drop it in another, so that columns of one type would differ. The
//!   array's field says `uuid[]`, as a scalar's says `uuid`, and the analysis of a statement knows it in any case.

mod names;
pub mod oid;
mod sql;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use resurgam_engine::{ColumnType, ElementType, NumericLimit, OrderedType};
use resurgam_numeric::Typmod;

use crate::citext;
use crate::ordered;
use crate::user_types::{self, definition::Kind};

pub use names::{PgType, TYPES, builtin_oid, format_type, interval_fields, type_by_name, type_by_oid};
pub use sql::{arrow_field_from_sql, column_type_from_sql, domain_from_sql, interval_type, oid_of_text, type_from_sql};

/// Field metadata key: PostgreSQL type oid, decimal.
pub const OID_KEY: &str = "pg.oid";
/// Field metadata key: PostgreSQL type modifier, decimal.
pub const TYPMOD_KEY: &str = "pg.typmod";

/// Days from 1970-01-01 to 2000-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub const EPOCH_US: i64 = 946_684_800_000_000;
/// Precision of `numeric` columns without one, as they were once.
pub const NUMERIC_PRECISION: u8 = 38;
/// Their scale.
pub const NUMERIC_SCALE: u8 = 10;
/// Time zone name that Arrow timestamps with time zone carry; the instants are UTC.
pub const UTC: &str = "UTC";

/// Arrow type of text.
pub const TEXT: DataType = DataType::Utf8View;

/// Arrow type of `jsonb`: the stored form, see [`crate::jsonb`]. Nothing else that a plan shows is of this type.
pub const JSONB: DataType = DataType::Binary;

/// Arrow type of `character` without a length whose values carry their blanks: mixtures of several lengths. Nothing else
/// that a plan shows is of this type.
pub const PADDED: DataType = DataType::LargeUtf8;

/// Arrow type of `timestamptz`.
pub fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from(UTC)))
}

/// PostgreSQL type oid of an engine column type.
pub fn column_oid(ty: &ColumnType) -> u32 {
    match ty {
        ColumnType::Bool => oid::BOOL,
        ColumnType::Int2 => oid::INT2,
        ColumnType::Int4 => oid::INT4,
        ColumnType::Int8 => oid::INT8,
        ColumnType::Float4 => oid::FLOAT4,
        ColumnType::Float8 => oid::FLOAT8,
        ColumnType::Numeric { .. } | ColumnType::VarNumeric(_) => oid::NUMERIC,
        ColumnType::Text => oid::TEXT,
        ColumnType::Varchar(_) => oid::VARCHAR,
        ColumnType::Char(_) => oid::BPCHAR,
        ColumnType::Bytes => oid::BYTEA,
        ColumnType::Date => oid::DATE,
        ColumnType::Time(_) => oid::TIME,
        ColumnType::Timestamp(_) => oid::TIMESTAMP,
        ColumnType::TimestampTz(_) => oid::TIMESTAMPTZ,
        ColumnType::Uuid => oid::UUID,
        ColumnType::Json => oid::JSON,
        ColumnType::Jsonb => oid::JSONB,
        ColumnType::Interval(_) => oid::INTERVAL,
        ColumnType::Enum(id) => *id,
        ColumnType::Folded => oid::CITEXT,
        ColumnType::Ordered(ty) => ordered::oid_of(*ty),
        ColumnType::Array(element) => {
            type_by_oid(column_oid(&element.column_type())).map_or(oid::TEXT_ARRAY, |ty| ty.array)
        }
    }
}

/// Engine column type in which values of a PostgreSQL type are kept; `None` if there is none.
pub fn column_type_of_oid(oid: u32, typmod: i32) -> Option<ColumnType> {
    let length = (typmod - 4).max(0) as u32;
    Some(match oid {
        oid::BOOL => ColumnType::Bool,
        oid::INT2 => ColumnType::Int2,
        oid::INT4 => ColumnType::Int4,
        oid::INT8 => ColumnType::Int8,
        oid::FLOAT4 => ColumnType::Float4,
        oid::FLOAT8 => ColumnType::Float8,
        oid::NUMERIC => match fixed_numeric(typmod) {
            Some((precision, scale)) => ColumnType::Numeric { precision, scale },
            None => ColumnType::VarNumeric(
                Typmod::from_pg(typmod)
                    .map(|limits| NumericLimit { precision: limits.precision(), scale: limits.scale() }),
            ),
        },
        oid::VARCHAR if typmod >= 4 => ColumnType::Varchar(length),
        oid::VARCHAR => ColumnType::VARCHAR,
        // without a length they are text in all but name
        oid::BPCHAR if typmod >= 4 => ColumnType::Char(length),
        oid::TEXT | oid::BPCHAR | oid::UNKNOWN => ColumnType::Text,
        oid::BYTEA => ColumnType::Bytes,
        oid::DATE => ColumnType::Date,
        oid::TIME => ColumnType::Time(second_digits(typmod)),
        oid::TIMESTAMP => ColumnType::Timestamp(second_digits(typmod)),
        oid::TIMESTAMPTZ => ColumnType::TimestampTz(second_digits(typmod)),
        oid::UUID => ColumnType::Uuid,
        oid if let Some(ty) = ordered::type_of(oid, typmod) => ColumnType::Ordered(ty),
        oid::JSON => ColumnType::Json,
        oid::JSONB => ColumnType::Jsonb,
        oid::INTERVAL => ColumnType::Interval(u32::try_from(typmod).ok()),
        oid::CITEXT => ColumnType::Folded,
        user_types::FIRST_USER_OID.. if let Some(ty) = user_types::by_oid(oid) => match &ty.body.kind {
            Kind::Enum(_) => ColumnType::Enum(oid),
            Kind::Citext => ColumnType::Folded,
            Kind::Domain(_) => {
                let (base, typmod) = user_types::base_type(oid, typmod);
                return column_type_of_oid(base, typmod);
            }
        },
        _ => return array_type(oid, typmod),
    })
}

/// The column type of arrays of that oid.
fn array_type(oid: u32, typmod: i32) -> Option<ColumnType> {
    let row = type_by_oid(oid)?;
    if row.elem == 0 || matches!(oid, oid::INT2VECTOR | oid::OIDVECTOR) {
        return None;
    }
    let element = match row.elem {
        // Elements are held without the blanks that these would show, and others have no place in a row.
        oid::BPCHAR | oid::UNKNOWN => return None,
        // What their elements have to fulfil would be checked by nobody.
        elem if user_types::is_domain(elem) => return None,
        oid::CITEXT => return None,
        // Numbers of an array have one form, whatever their limit.
        oid::NUMERIC => ColumnType::VarNumeric(
            Typmod::from_pg(typmod).map(|limits| NumericLimit { precision: limits.precision(), scale: limits.scale() }),
        ),
        // What the fields say of a text is not known when it is read as an element.
        oid::INTERVAL if typmod >= 0 && typmod >> 16 != crate::decode::range::FULL => return None,
        elem => column_type_of_oid(elem, typmod)?,
    };
    ElementType::of(element).map(ColumnType::Array)
}

/// Digits of seconds that a modifier says; `None` for as many as there are.
fn second_digits(typmod: i32) -> Option<u8> {
    u8::try_from(typmod).ok().map(|digits| digits.min(6))
}

/// Limits of a column whose values are dynamic numerics.
pub fn numeric_limits(ty: &ColumnType) -> Option<Typmod> {
    match ty {
        ColumnType::VarNumeric(Some(limit)) => Typmod::new(limit.precision.into(), limit.scale.into()).ok(),
        _ => None,
    }
}

/// PostgreSQL type modifier of an engine column type, -1 for none.
pub fn column_typmod(ty: &ColumnType) -> i32 {
    match *ty {
        ColumnType::Varchar(n) if n == 0 || n > 10_485_760 => -1,
        ColumnType::Varchar(n) | ColumnType::Char(n) => n as i32 + 4,
        ColumnType::Numeric { precision, scale } => numeric_typmod(precision, scale as i32),
        ColumnType::VarNumeric(_) => numeric_limits(ty).map_or(-1, Typmod::to_pg),
        ColumnType::Time(Some(digits))
        | ColumnType::Timestamp(Some(digits))
        | ColumnType::TimestampTz(Some(digits)) => digits.into(),
        ColumnType::Interval(Some(limit)) => limit as i32,
        ColumnType::Ordered(ty) => ordered::typmod_of(ty),
        ColumnType::Array(element) => column_typmod(&element.column_type()),
        _ => -1,
    }
}

/// Modifier of a `Decimal128` column's `numeric(precision, scale)`; -1 for what plain `numeric` was once.
pub fn numeric_typmod(precision: u8, scale: i32) -> i32 {
    if precision == NUMERIC_PRECISION && scale == i32::from(NUMERIC_SCALE) {
        -1
    } else {
        ((i32::from(precision) << 16) | (scale & 0x7ff)) + 4
    }
}

/// Arrow type in which a column of this type is read.
pub fn arrow_type(ty: &ColumnType) -> DataType {
    match *ty {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int2 => DataType::Int16,
        ColumnType::Int4 => DataType::Int32,
        ColumnType::Int8 => DataType::Int64,
        ColumnType::Float4 => DataType::Float32,
        ColumnType::Float8 => DataType::Float64,
        ColumnType::Numeric { precision, scale } => DataType::Decimal128(precision, scale),
        ColumnType::VarNumeric(_) => crate::functions::numeric::DYNAMIC,
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) | ColumnType::Uuid | ColumnType::Json => TEXT,
        ColumnType::Bytes => DataType::BinaryView,
        ColumnType::Ordered(ty) => ordered::data_type(ty),
        ColumnType::Date => DataType::Date32,
        ColumnType::Time(_) => DataType::Time64(TimeUnit::Microsecond),
        ColumnType::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnType::TimestampTz(_) => timestamptz(),
        ColumnType::Jsonb => JSONB,
        ColumnType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        ColumnType::Enum(id) => user_types::enum_data(id),
        ColumnType::Folded => citext::DATA.clone(),
        ColumnType::Array(element) => {
            let data = arrow_type_of_oid(column_oid(&element.column_type()), -1);
            DataType::List(Arc::new(Field::new("item", data.unwrap_or(TEXT), true)))
        }
    }
}

/// Arrow field of a table column, with the metadata that keeps its PostgreSQL type.
pub fn arrow_field(name: &str, ty: &ColumnType, nullable: bool) -> Field {
    let field = Field::new(name, arrow_type(ty), nullable);
    match ty {
        ColumnType::Varchar(_)
        | ColumnType::Char(_)
        | ColumnType::Uuid
        | ColumnType::Json
        | ColumnType::Array(_)
        | ColumnType::Ordered(
            OrderedType::Bit(_) | OrderedType::VarBit(_) | OrderedType::Name | OrderedType::OneChar,
        ) => with_pg_type(field, column_oid(ty), column_typmod(ty)),
        _ if column_typmod(ty) != -1 => with_pg_type(field, column_oid(ty), column_typmod(ty)),
        _ => field,
    }
}

/// The field marked as having that PostgreSQL type.
pub fn with_pg_type(field: Field, oid: u32, typmod: i32) -> Field {
    let mut metadata: HashMap<String, String> = field.metadata().clone();
    metadata.insert(OID_KEY.to_owned(), oid.to_string());
    if typmod >= 0 {
        metadata.insert(TYPMOD_KEY.to_owned(), typmod.to_string());
    } else {
        metadata.remove(TYPMOD_KEY);
    }
    field.with_metadata(metadata)
}

/// Nullable field of an oid, marked where Arrow alone would not say it; used for the
/// catalog tables and for parameters. `None` for an oid that is not known.
pub fn field_of_oid(name: &str, oid: u32, typmod: i32) -> Option<Field> {
    let data_type = arrow_type_of_oid(oid, typmod)?;
    let implied = arrow_oid(&data_type);
    let field = Field::new(name, data_type, true);
    Some(if implied == oid && typmod < 0 { field } else { with_pg_type(field, oid, typmod) })
}

/// Arrow type in which values of a PostgreSQL type are computed; `None` if unknown.
pub fn arrow_type_of_oid(oid: u32, typmod: i32) -> Option<DataType> {
    Some(match oid {
        oid::BOOL => DataType::Boolean,
        oid::INT2 => DataType::Int16,
        oid::INT4 => DataType::Int32,
        // There are no values of the other type but those of functions.
        oid::INT8 | oid::XID8 => DataType::Int64,
        oid::FLOAT4 => DataType::Float32,
        oid::FLOAT8 => DataType::Float64,
        oid::NUMERIC => match fixed_numeric(typmod) {
            Some((precision, scale)) => DataType::Decimal128(precision, scale),
            None => DataType::LargeBinary,
        },
        oid::TEXT
        | oid::VARCHAR
        | oid::BPCHAR
        | oid::NAME
        | oid::CHAR
        | oid::UUID
        | oid::JSON
        | oid::JSONPATH
        | oid::UNKNOWN
        | oid::CSTRING
        | oid::REGPROC
        | oid::REGPROCEDURE
        | oid::PG_NODE_TREE
        | oid::ACLITEM => TEXT,
        oid::BYTEA => DataType::BinaryView,
        oid if let Some(ty) = ordered::type_of_oid(oid) => ordered::data_type(ty),
        oid::JSONB => JSONB,
        oid::DATE => DataType::Date32,
        oid::TIME => DataType::Time64(TimeUnit::Microsecond),
        oid::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        oid::TIMESTAMPTZ => timestamptz(),
        oid::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        oid::OID | oid::REGCLASS | oid::REGTYPE | oid::REGNAMESPACE | oid::REGROLE | oid::XID | oid::CID => {
            DataType::UInt32
        }
        oid::CITEXT => citext::DATA.clone(),
        user_types::FIRST_USER_OID.. if let Some(ty) = user_types::by_oid(oid) => match &ty.body.kind {
            Kind::Citext => citext::DATA.clone(),
            Kind::Enum(_) => user_types::enum_data(oid),
            Kind::Domain(_) => {
                let (base, typmod) = user_types::base_type(oid, typmod);
                return arrow_type_of_oid(base, typmod);
            }
        },
        _ => {
            let elem = type_by_oid(oid)?.elem;
            // What elements of a domain have to fulfil would be checked by nobody; what compares arrays knows no texts without
            // case.
            if elem == 0 || elem == oid::CITEXT || user_types::is_domain(elem) {
                return None;
            }
            DataType::List(Arc::new(element_field(elem)?))
        }
    })
}

/// Precision and scale that a `numeric` modifier says.
pub fn numeric_of_typmod(typmod: i32) -> (u8, i8) {
    if typmod < 4 {
        return (NUMERIC_PRECISION, NUMERIC_SCALE as i8);
    }
    let bits = typmod - 4;
    let precision = (bits >> 16).clamp(1, 38) as u8;
    // 11 bits, two's complement.
    let scale = ((bits & 0x7ff) ^ 1024) - 1024;
    (precision, scale.clamp(0, i32::from(precision)) as i8)
}

/// Field of a list's elements of that type: its Arrow type and nothing else, see the top.
pub fn element_field(elem: u32) -> Option<Field> {
    Some(Field::new("item", arrow_type_of_oid(elem, -1)?, true))
}

/// Type of the elements of an array type; `None` of other types.
pub fn element_oid(array: u32) -> Option<u32> {
    type_by_oid(array).map(|ty| ty.elem).filter(|elem| *elem != 0)
}

/// Precision and scale of a `numeric` modifier that a `Decimal128` can hold; `None` for those of values whose digits
/// are their own.
pub fn fixed_numeric(typmod: i32) -> Option<(u8, i8)> {
    let bits = typmod.checked_sub(4).filter(|bits| *bits >= 0)?;
    let (precision, scale) = (bits >> 16, ((bits & 0x7ff) ^ 1024) - 1024);
    let fits = (1..=38).contains(&precision) && (0..=precision).contains(&scale);
    // That one is how columns without a modifier are kept, and does not show all its digits.
    let bare = precision == i32::from(NUMERIC_PRECISION) && scale == i32::from(NUMERIC_SCALE);
    (fits && !bare).then_some((precision as u8, scale as i8))
}

/// PostgreSQL type that an Arrow type shows as when no metadata says more.
pub fn arrow_oid(ty: &DataType) -> u32 {
    match ty {
        DataType::Boolean => oid::BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => oid::INT2,
        DataType::Int32 | DataType::UInt16 => oid::INT4,
        DataType::Int64 | DataType::UInt64 => oid::INT8,
        DataType::UInt32 => oid::OID,
        DataType::Float16 | DataType::Float32 => oid::FLOAT4,
        DataType::Float64 => oid::FLOAT8,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            oid::NUMERIC
        }
        // Nothing else is kept so; see `functions::numeric`.
        DataType::LargeBinary => oid::NUMERIC,
        DataType::Binary => oid::JSONB,
        DataType::FixedSizeBinary(_) if let Some(ty) = ordered::type_of_data(ty) => ordered::oid_of(ty),
        DataType::BinaryView | DataType::FixedSizeBinary(_) => oid::BYTEA,
        DataType::Date32 | DataType::Date64 => oid::DATE,
        DataType::Time32(_) | DataType::Time64(_) => oid::TIME,
        DataType::Timestamp(TimeUnit::Second, Some(_)) if let Some(oid) = user_types::enum_of_data(ty) => oid,
        DataType::Timestamp(_, None) => oid::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => oid::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => oid::INTERVAL,
        data if citext::is_citext(data) => oid::CITEXT,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => match type_by_oid(field_oid(item)) {
            Some(ty) if ty.array != 0 => ty.array,
            // Arrays of several dimensions are of the same type.
            Some(ty) if ty.elem != 0 => ty.oid,
            _ => oid::TEXT_ARRAY,
        },
        DataType::Struct(_) => oid::RECORD,
        DataType::Dictionary(_, value) => arrow_oid(value),
        DataType::RunEndEncoded(_, value) => field_oid(value),
        _ => oid::TEXT,
    }
}

/// PostgreSQL type of a field: its metadata's if that fits the Arrow type, else the Arrow type's.
pub fn field_oid(field: &Field) -> u32 {
    let implied = arrow_oid(field.data_type());
    match field.metadata().get(OID_KEY).and_then(|v| v.parse().ok()) {
        Some(marked) if compatible(marked, implied) => marked,
        _ => implied,
    }
}

/// Type modifier of a field, -1 for none.
pub fn field_typmod(field: &Field) -> i32 {
    match field.metadata().get(OID_KEY).and_then(|v| v.parse::<u32>().ok()) {
        Some(marked) if compatible(marked, arrow_oid(field.data_type())) => {
            field.metadata().get(TYPMOD_KEY).and_then(|v| v.parse().ok()).unwrap_or(-1)
        }
        _ => -1,
    }
}

/// Whether metadata may refine the type that Arrow implies: expressions can carry the
/// metadata of an input although they changed its type.
pub(crate) fn compatible(marked: u32, implied: u32) -> bool {
    marked == implied
        || match implied {
            oid::TEXT => matches!(
                marked,
                oid::VARCHAR
                    | oid::BPCHAR
                    | oid::NAME
                    | oid::CHAR
                    | oid::UUID
                    | oid::JSON
                    | oid::JSONPATH
                    | oid::BIT
                    | oid::VARBIT
                    | oid::UNKNOWN
                    | oid::CSTRING
                    | oid::VOID
                    | oid::REGPROC
                    | oid::REGPROCEDURE
                    | oid::PG_NODE_TREE
                    | oid::ACLITEM
            ),
            oid::OID => {
                matches!(marked, oid::REGCLASS | oid::REGTYPE | oid::REGNAMESPACE | oid::REGROLE | oid::XID | oid::CID)
            }
            oid::INT8 => marked == oid::XID8,
            // The field of the elements says their Arrow type only. Vectors are lists as arrays are.
            oid::TEXT_ARRAY => element_oid(marked).is_some_and(|element| compatible(element, oid::TEXT)),
            oid::OID_ARRAY => element_oid(marked).is_some_and(|element| compatible(element, oid::OID)),
            oid::INT2_ARRAY => marked == oid::INT2VECTOR,
            _ => false,
        }
}

/// `RowDescription` entry of a result column.
pub fn wire_field(field: &Field, table_oid: u32, column: i16) -> crate::wire::Field {
    let type_oid = field_oid(field);
    crate::wire::Field {
        name: field.name().clone(),
        type_oid,
        type_len: type_by_oid(type_oid).map_or(-1, |ty| ty.len),
        typmod: field_typmod(field),
        table_oid,
        column,
    }
}

/// `RowDescription` entry of a table column.
pub fn wire_column(name: &str, ty: &ColumnType, table_oid: u32, column: i16) -> crate::wire::Field {
    let type_oid = column_oid(ty);
    crate::wire::Field {
        name: name.to_owned(),
        type_oid,
        type_len: type_by_oid(type_oid).map_or(-1, |ty| ty.len),
        typmod: column_typmod(ty),
        table_oid,
        column,
    }
}

/// Field of a statement parameter declared with that oid; text for 0 and unknown ones.
pub fn parameter_field(name: &str, oid: u32) -> FieldRef {
    Arc::new(field_of_oid(name, oid, -1).unwrap_or_else(|| Field::new(name, TEXT, true)))
}

/// SQL name of a column type with its modifier, for instance `character varying(20)`.
pub fn column_type_name(ty: &ColumnType) -> String {
    format_type(column_oid(ty), Some(column_typmod(ty)))
}

/// The same without its modifier.
pub fn bare_type_name(ty: &ColumnType) -> String {
    format_type(column_oid(ty), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_modifiers_round_trip() {
        for (p, s) in [(12u8, 2i8), (1, 0), (38, 38), (38, 0)] {
            assert_eq!(numeric_of_typmod(numeric_typmod(p, i32::from(s))), (p, s));
        }
        assert_eq!(numeric_typmod(12, 2), 786_438); // what PostgreSQL has in atttypmod
        assert_eq!(numeric_typmod(38, 10), -1);
    }

    #[test]
    fn columns_keep_their_type() {
        let types = [
            ColumnType::Bool,
            ColumnType::Int2,
            ColumnType::Int4,
            ColumnType::Int8,
            ColumnType::Float4,
            ColumnType::Float8,
            ColumnType::Numeric { precision: 12, scale: 2 },
            ColumnType::Numeric { precision: 38, scale: 10 },
            ColumnType::Text,
            ColumnType::Varchar(20),
            ColumnType::Char(3),
            ColumnType::Bytes,
            ColumnType::Date,
            ColumnType::VarNumeric(None),
            ColumnType::VarNumeric(Some(NumericLimit { precision: 1000, scale: -1000 })),
            ColumnType::VarNumeric(Some(NumericLimit { precision: 38, scale: 10 })),
            ColumnType::Time(None),
            ColumnType::Timestamp(None),
            ColumnType::TimestampTz(Some(0)),
            ColumnType::Timestamp(Some(6)),
            ColumnType::Uuid,
            ColumnType::Json,
        ];
        let arrays = types.iter().filter_map(|ty| ElementType::of(*ty)).map(ColumnType::Array).collect::<Vec<_>>();
        assert!(arrays.len() > 10);
        for ty in types.into_iter().chain(arrays) {
            let field = arrow_field("c", &ty, true);
            assert_eq!(field_oid(&field), column_oid(&ty), "{ty:?}");
            assert_eq!(field_typmod(&field), column_typmod(&ty), "{ty:?}");
            // Without a modifier a value of that type has digits of its own, which a column does not keep.
            if ty != (ColumnType::Numeric { precision: NUMERIC_PRECISION, scale: NUMERIC_SCALE as _ }) {
                assert_eq!(arrow_type_of_oid(column_oid(&ty), column_typmod(&ty)), Some(arrow_type(&ty)));
            }
        }
    }

    /// Lists of one Arrow type are of one form, whatever their elements are: nothing can take them for different ones.
    #[test]
    fn elements_say_their_arrow_type_only() {
        for ty in TYPES.iter().filter(|ty| ty.elem != 0) {
            let Some(DataType::List(item)) = arrow_type_of_oid(ty.oid, -1) else { continue };
            assert_eq!(item.metadata().len(), 0, "{}", ty.name);
            assert_eq!(Some(item.data_type().clone()), arrow_type_of_oid(ty.elem, -1), "{}", ty.name);
            let field = field_of_oid("c", ty.oid, -1).expect(ty.name);
            assert_eq!(field_oid(&field), ty.oid, "{}", ty.name);
        }
    }

    #[test]
    fn metadata_of_another_type_is_ignored() {
        let field = with_pg_type(Field::new("n", DataType::Int32, true), oid::VARCHAR, 24);
        assert_eq!((field_oid(&field), field_typmod(&field)), (oid::INT4, -1));
    }

    #[test]
    fn every_type_has_an_array_that_points_back() {
        for ty in TYPES.iter().filter(|ty| ty.array != 0) {
            let array = type_by_oid(ty.array).expect(ty.name);
            assert_eq!(array.elem, ty.oid, "{}", ty.name);
        }
    }
}
