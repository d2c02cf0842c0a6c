//! SQL type names, as the parser gives them, to engine column types and Arrow fields.

use datafusion::arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as SqlType, DateTimeField, ExactNumberInfo, Ident, Interval,
    IntervalFields, ObjectName, TimezoneInfo,
};
use resurgam_dialect::Catalog;
use resurgam_engine::ColumnType;

use super::{field_of_oid, oid, type_by_name};
use crate::decode::range;
use crate::search_path::PG_CATALOG;
use crate::user_types;
use crate::wire::SqlError;

/// Longest `varchar(n)` and `char(n)`, in characters, as in PostgreSQL.
const CHARACTERS_MAX: u64 = 10_485_760;
/// Longest `bit(n)` and `bit varying(n)`, as in PostgreSQL.
const BITS_MAX: u64 = CHARACTERS_MAX * 8;

/// A SQL type by oid and modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resolved {
    oid: u32,
    typmod: i32,
}

impl Resolved {
    const fn plain(oid: u32) -> Self {
        Self { oid, typmod: -1 }
    }
}

/// The oid of a type as SQL writes it, maybe with modifiers, or as `pg_type` names it; `None`: there is none of that name.
///
/// # Errors
/// `42601` for what is no type, `22023` for modifiers that it cannot have.
pub fn oid_of_text(text: &str) -> Result<Option<u32>, SqlError> {
    if let Some(oid) = super::type_by_name(text).map(|ty| ty.oid).or_else(|| super::builtin_oid(text)) {
        return Ok(Some(oid));
    }
    if text.trim().is_empty() {
        return Err(SqlError::syntax(format!("invalid type name \"{text}\"")));
    }
    match resolve(&crate::definition::parse_type(text)?) {
        Ok(resolved) => Ok(Some(resolved.oid)),
        Err(error) if matches!(error.sqlstate.as_str(), "42704" | "3F000") => Ok(None),
        Err(error) => Err(error),
    }
}

/// Column type that `CREATE TABLE` gives a column.
///
/// # Errors
/// `42704` for an unknown type, `0A000` for one that columns cannot have,
/// `22023` for a length or precision out of range.
pub fn column_type_from_sql(ty: &SqlType) -> Result<ColumnType, SqlError> {
    let resolved = resolve(ty)?;
    match resolved.oid {
        // Blanks at its end would count in comparisons.
        oid::BPCHAR if resolved.typmod < 0 => None,
        oid => super::column_type_of_oid(oid, resolved.typmod),
    }
    .ok_or_else(|| SqlError::unsupported(format!("columns of type {ty} are not supported")))
}

/// The domain that a SQL type is, if it is one.
pub fn domain_from_sql(ty: &SqlType) -> Option<u32> {
    if !matches!(ty, SqlType::Custom(..)) {
        return by_name(ty).as_ref().and_then(domain_from_sql);
    }
    resolve(ty).ok().map(|resolved| resolved.oid).filter(|oid| user_types::is_domain(*oid))
}

/// The oid and the modifier of a SQL type; those of a domain are its own.
///
/// # Errors
/// `42704` for an unknown type.
pub fn type_from_sql(ty: &SqlType) -> Result<(u32, i32), SqlError> {
    resolve(ty).map(|resolved| (resolved.oid, resolved.typmod))
}

/// Arrow field (unnamed, nullable) in which a SQL type is computed.
///
/// # Errors
/// `42704` for an unknown type, `0A000` for one that is not supported.
pub fn arrow_field_from_sql(ty: &SqlType) -> Result<Field, SqlError> {
    let resolved = resolve(ty)?;
    field_of_oid("", resolved.oid, resolved.typmod)
        .ok_or_else(|| SqlError::unsupported(format!("type {ty} is not supported")))
}

/// The name of a type that the parser has a word for, and that is a name as others to PostgreSQL.
fn name_of(ty: &SqlType) -> Option<&'static str> {
    use SqlType as T;
    Some(match ty {
        T::Text => "text",
        T::Uuid => "uuid",
        T::JSON => "json",
        T::JSONB => "jsonb",
        T::Bytea => "bytea",
        T::Date => "date",
        T::Bool => "bool",
        T::Int2(None) => "int2",
        T::Int4(None) => "int4",
        T::Int8(None) => "int8",
        T::Float4 => "float4",
        T::Float8 => "float8",
        T::Regclass => "regclass",
        _ => return None,
    })
}

fn resolve(ty: &SqlType) -> Result<Resolved, SqlError> {
    use SqlType as T;
    // One of users goes first where the search path has `pg_catalog` behind its schema.
    if let Some(own) = name_of(ty).and_then(|name| user_types::current()?.named_before_system(name).map(|ty| ty.oid)) {
        return Ok(Resolved::plain(own));
    }
    Ok(match ty {
        T::Bool | T::Boolean => Resolved::plain(oid::BOOL),
        T::SmallInt(None) | T::Int2(None) => Resolved::plain(oid::INT2),
        T::Int(None) | T::Integer(None) | T::Int4(None) => Resolved::plain(oid::INT4),
        T::BigInt(None) | T::Int8(None) => Resolved::plain(oid::INT8),
        T::Real | T::Float4 => Resolved::plain(oid::FLOAT4),
        T::Float8 | T::DoublePrecision => Resolved::plain(oid::FLOAT8),
        T::Float(ExactNumberInfo::None) => Resolved::plain(oid::FLOAT8),
        T::Float(ExactNumberInfo::Precision(bits)) => match bits {
            1..=24 => Resolved::plain(oid::FLOAT4),
            25..=53 => Resolved::plain(oid::FLOAT8),
            0 => return Err(invalid("precision for type float must be at least 1 bit")),
            _ => return Err(invalid("precision for type float must be less than 54 bits")),
        },
        T::Numeric(info) | T::Decimal(info) | T::Dec(info) => numeric(info)?,
        T::Text => Resolved::plain(oid::TEXT),
        T::Varchar(n) | T::CharacterVarying(n) | T::CharVarying(n) => {
            Resolved { oid: oid::VARCHAR, typmod: length("varchar", n.as_ref(), -1)? }
        }
        T::Char(n) | T::Character(n) => Resolved { oid: oid::BPCHAR, typmod: length("char", n.as_ref(), 5)? },
        T::Bytea => Resolved::plain(oid::BYTEA),
        T::Date => Resolved::plain(oid::DATE),
        T::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => seconds(oid::TIME, *digits),
        T::Time(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => seconds(oid::TIMETZ, *digits),
        T::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => seconds(oid::TIMESTAMP, *digits),
        T::Timestamp(digits, _) => seconds(oid::TIMESTAMPTZ, *digits),
        T::Interval { fields, precision } => {
            Resolved { oid: oid::INTERVAL, typmod: interval_typmod(fields.as_ref(), *precision) }
        }
        T::Bit(n) => Resolved { oid: oid::BIT, typmod: bits("bit", n.unwrap_or(1))? },
        T::VarBit(None) | T::BitVarying(None) => Resolved::plain(oid::VARBIT),
        T::VarBit(Some(n)) | T::BitVarying(Some(n)) => Resolved { oid: oid::VARBIT, typmod: bits("varbit", *n)? },
        T::Uuid => Resolved::plain(oid::UUID),
        T::JSON => Resolved::plain(oid::JSON),
        T::JSONB => Resolved::plain(oid::JSONB),
        T::Regclass => Resolved::plain(oid::REGCLASS),
        T::Array(element) => {
            let inner = match element {
                ArrayElemTypeDef::AngleBracket(inner)
                | ArrayElemTypeDef::SquareBracket(inner, _)
                | ArrayElemTypeDef::Parenthesis(inner) => inner,
                ArrayElemTypeDef::None => return Err(unknown(ty)),
            };
            // Through all its dimensions: to PostgreSQL these are one type.
            if matches!(inner.as_ref(), T::Array(_)) {
                return resolve(inner);
            }
            let inner = resolve(inner)?;
            match super::type_by_oid(inner.oid) {
                // The modifier is that of the elements.
                Some(row) if row.array != 0 => Resolved { oid: row.array, typmod: inner.typmod },
                _ => return Err(unknown(ty)),
            }
        }
        T::Custom(name, modifiers) => {
            let parts: Vec<String> = name
                .0
                .iter()
                .filter_map(|part| part.as_ident())
                .map(|ident| match ident.quote_style {
                    Some(_) => ident.value.clone(),
                    None => ident.value.to_ascii_lowercase(),
                })
                .collect();
            let (schema, base) = match parts.as_slice() {
                [base] => (None, base.as_str()),
                [schema, base] => (Some(schema.as_str()), base.as_str()),
                _ => return Err(unknown(ty)),
            };
            let quoted = name.0.last().is_some_and(is_quoted);
            if schema.is_none_or(|s| s != PG_CATALOG && s != "information_schema") {
                let own = user_types::current().and_then(|types| match schema {
                    Some(schema) => match name.0.first().and_then(|part| user_types::marked(&part.as_ident()?.value)) {
                        // As it was written where it was kept: in small letters.
                        Some(oid) => types.by_oid(oid).map(|ty| ty.oid),
                        None => types.oid_named(Some(schema), base),
                    },
                    // Names of the system come first, unless the path says otherwise.
                    None if custom(base, quoted, modifiers).is_some() => {
                        types.named_before_system(base).map(|ty| ty.oid)
                    }
                    None => types.oid_named(None, base),
                });
                if let Some(oid) = own {
                    if !modifiers.is_empty() {
                        let message = format!("type modifier is not allowed for type \"{base}\"");
                        return Err(SqlError::syntax(message));
                    }
                    return Ok(Resolved::plain(oid));
                }
                if let Some(schema) = schema {
                    return Err(match user_types::current().is_none_or(|types| types.has_schema(schema)) {
                        true => unknown(ty),
                        false => SqlError::new("3F000", format!("schema \"{schema}\" does not exist")),
                    });
                }
            }
            custom(base, quoted, modifiers).ok_or_else(|| match base {
                "serial" | "bigserial" | "smallserial" | "serial4" | "serial8" | "serial2" => {
                    SqlError::unsupported(format!("type {base} is not supported"))
                        .with_hint("Serial types are for columns of CREATE TABLE and ADD COLUMN.")
                }
                _ => unknown(ty),
            })?
        }
        _ => match by_name(ty) {
            Some(named) => return resolve(&named),
            None => return Err(unknown(ty)),
        },
    })
}

/// A type that the parser has a word for and PostgreSQL has not (`uint64`, `datetime`): to PostgreSQL these are names as others.
fn by_name(ty: &SqlType) -> Option<SqlType> {
    use SqlType as T;
    let is_own = matches!(
        ty,
        T::Bool | T::Boolean | T::SmallInt(_) | T::Int2(_) | T::Int(_) | T::Integer(_) | T::Int4(_) | T::BigInt(_)
    ) || matches!(ty, T::Custom(..) | T::Array(_) | T::Interval { .. } | T::Time(..) | T::Timestamp(..));
    if is_own {
        return None;
    }
    let text = ty.to_string();
    let (word, modifiers) = match text.split_once('(') {
        Some((word, rest)) => (word.trim(), rest.trim_end().strip_suffix(')')?.split(',').collect()),
        None => (text.as_str(), Vec::new()),
    };
    let mut letters = word.chars();
    let is_word = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    let modifiers = modifiers.into_iter().map(|modifier: &str| modifier.trim().to_owned()).collect();
    is_word.then(|| T::Custom(ObjectName::from(vec![Ident::new(word)]), modifiers))
}

fn is_quoted(part: &datafusion::sql::sqlparser::ast::ObjectNamePart) -> bool {
    part.as_ident().is_some_and(|ident| ident.quote_style.is_some())
}

/// A time with so many digits of seconds; more than six are six.
fn seconds(oid: u32, digits: Option<u64>) -> Resolved {
    Resolved { oid, typmod: digits.map_or(-1, |digits| digits.min(6) as i32) }
}

/// The type of `INTERVAL '…' DAY TO SECOND(2)`; `None` for fields that do not go together.
pub fn interval_type(interval: &Interval) -> Option<SqlType> {
    use DateTimeField as D;
    use IntervalFields as F;
    let fields = match (&interval.leading_field, &interval.last_field) {
        (None, None) => None,
        (Some(D::Year | D::Years), None) => Some(F::Year),
        (Some(D::Month | D::Months), None) => Some(F::Month),
        (Some(D::Day | D::Days), None) => Some(F::Day),
        (Some(D::Hour | D::Hours), None) => Some(F::Hour),
        (Some(D::Minute | D::Minutes), None) => Some(F::Minute),
        (Some(D::Second | D::Seconds), None) => Some(F::Second),
        (Some(D::Year), Some(D::Month)) => Some(F::YearToMonth),
        (Some(D::Day), Some(D::Hour)) => Some(F::DayToHour),
        (Some(D::Day), Some(D::Minute)) => Some(F::DayToMinute),
        (Some(D::Day), Some(D::Second)) => Some(F::DayToSecond),
        (Some(D::Hour), Some(D::Minute)) => Some(F::HourToMinute),
        (Some(D::Hour), Some(D::Second)) => Some(F::HourToSecond),
        (Some(D::Minute), Some(D::Second)) => Some(F::MinuteToSecond),
        _ => return None,
    };
    let precision = interval.fractional_seconds_precision.or(interval.leading_precision);
    Some(SqlType::Interval { fields, precision })
}

/// Modifier of an interval type: the fields that it keeps, and digits of its seconds.
fn interval_typmod(fields: Option<&IntervalFields>, precision: Option<u64>) -> i32 {
    use IntervalFields as F;
    use range::{DAY, HOUR, MINUTE, MONTH, SECOND, YEAR};
    let digits = precision.map_or(0xffff, |digits| digits.min(6) as i32);
    let kept = match fields {
        None if precision.is_none() => return -1,
        None => range::FULL,
        Some(F::Year) => YEAR,
        Some(F::Month) => MONTH,
        Some(F::Day) => DAY,
        Some(F::Hour) => HOUR,
        Some(F::Minute) => MINUTE,
        Some(F::Second) => SECOND,
        Some(F::YearToMonth) => YEAR | MONTH,
        Some(F::DayToHour) => DAY | HOUR,
        Some(F::DayToMinute) => DAY | HOUR | MINUTE,
        Some(F::DayToSecond) => DAY | HOUR | MINUTE | SECOND,
        Some(F::HourToMinute) => HOUR | MINUTE,
        Some(F::HourToSecond) => HOUR | MINUTE | SECOND,
        Some(F::MinuteToSecond) => MINUTE | SECOND,
    };
    kept << 16 | digits
}

/// Types that the parser has no keyword for.
fn custom(name: &str, quoted: bool, modifiers: &[String]) -> Option<Resolved> {
    let modifier = modifiers.first().and_then(|m| m.parse::<i32>().ok());
    // "char" in quotes, and char after pg_catalog., is the one-byte type
    let row = match name {
        "char" if quoted => super::type_by_oid(oid::CHAR),
        // domains of the information schema
        "sql_identifier" => super::type_by_oid(oid::NAME),
        "character_data" | "yes_or_no" => super::type_by_oid(oid::VARCHAR),
        "cardinal_number" => super::type_by_oid(oid::INT4),
        other => type_by_name(other).filter(|row| row.oid < user_types::FIRST_USER_OID),
    }?;
    let typmod = match (row.oid, modifier) {
        (oid::VARCHAR | oid::BPCHAR, Some(n)) if n > 0 => n.saturating_add(4),
        (oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ, Some(n)) if n >= 0 => n.min(6),
        (oid::BIT | oid::VARBIT, Some(n)) if n > 0 => n,
        (oid::NUMERIC, Some(p)) if (1..=1000).contains(&p) => {
            let scale = modifiers.get(1).and_then(|m| m.parse().ok()).unwrap_or(0);
            numeric_typmod_of(p, scale)
        }
        _ => -1,
    };
    Some(Resolved { oid: row.oid, typmod })
}

fn length(name: &str, n: Option<&CharacterLength>, default: i32) -> Result<i32, SqlError> {
    let n = match n {
        None => return Ok(default),
        Some(CharacterLength::Max) => return Ok(-1),
        Some(CharacterLength::IntegerLength { length, .. }) => *length,
    };
    if n == 0 {
        return Err(invalid(format!("length for type {name} must be at least 1")));
    }
    if n > CHARACTERS_MAX {
        return Err(invalid(format!("length for type {name} cannot exceed {CHARACTERS_MAX}")));
    }
    Ok(n as i32 + 4)
}

/// The modifier of a type of so many bits.
fn bits(name: &str, n: u64) -> Result<i32, SqlError> {
    match n {
        0 => Err(invalid(format!("length for type {name} must be at least 1"))),
        _ if n > BITS_MAX => Err(invalid(format!("length for type {name} cannot exceed {BITS_MAX}"))),
        _ => Ok(n as i32),
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<Resolved, SqlError> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(Resolved::plain(oid::NUMERIC)),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if precision == 0 || precision > 1000 {
        return Err(invalid(format!("NUMERIC precision {precision} must be between 1 and 1000")));
    }
    if !(-1000..=1000).contains(&scale) {
        return Err(invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000")));
    }
    Ok(Resolved { oid: oid::NUMERIC, typmod: numeric_typmod_of(precision as u16, scale as i32) })
}

/// Modifier of `numeric(precision, scale)`, as PostgreSQL has it.
fn numeric_typmod_of(precision: impl Into<i32>, scale: i32) -> i32 {
    ((precision.into() << 16) | (scale & 0x7ff)) + 4
}

fn unknown(ty: &SqlType) -> SqlError {
    let text = ty.to_string().to_ascii_lowercase();
    let word = text.strip_prefix("pg_catalog.").unwrap_or(&text);
    let word = word.split(['(', '[']).next().unwrap_or(word).trim();
    let is_postgres = Catalog::postgres().types().iter().any(|known| known.name == word && known.relation == 0);
    if is_postgres {
        return SqlError::unsupported(format!("type {text} is not supported"));
    }
    SqlError::new("42704", format!("type \"{text}\" does not exist"))
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new("22023", message)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    use resurgam_engine::{NumericLimit, OrderedType};

    use super::*;

    fn parse(text: &str) -> SqlType {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).expect("tokens");
        parser.parse_data_type().expect(text)
    }

    fn array(ty: ColumnType) -> ColumnType {
        ColumnType::Array(resurgam_engine::ElementType::of(ty).expect("an element"))
    }

    #[test]
    fn column_types() {
        for (text, ty) in [
            ("int", ColumnType::Int4),
            ("bigint", ColumnType::Int8),
            ("int2", ColumnType::Int2),
            ("double precision", ColumnType::Float8),
            ("float(10)", ColumnType::Float4),
            ("numeric(12,2)", ColumnType::Numeric { precision: 12, scale: 2 }),
            ("numeric", ColumnType::VarNumeric(None)),
            ("numeric(38,10)", ColumnType::VarNumeric(Some(NumericLimit { precision: 38, scale: 10 }))),
            ("numeric(39,2)", ColumnType::VarNumeric(Some(NumericLimit { precision: 39, scale: 2 }))),
            ("varchar", ColumnType::VARCHAR),
            ("varchar(20)", ColumnType::Varchar(20)),
            ("character(3)", ColumnType::Char(3)),
            ("char", ColumnType::Char(1)),
            ("timestamptz", ColumnType::TimestampTz(None)),
            ("timestamp(3)", ColumnType::Timestamp(Some(3))),
            ("time(0)", ColumnType::Time(Some(0))),
            ("timestamp without time zone", ColumnType::Timestamp(None)),
            ("pg_catalog.int4", ColumnType::Int4),
            ("uuid", ColumnType::Uuid),
            ("bytea", ColumnType::Bytes),
            ("json", ColumnType::Json),
            ("jsonb", ColumnType::Jsonb),
            ("interval", ColumnType::Interval(None)),
            ("int[]", array(ColumnType::Int4)),
            ("varchar(5)[][]", array(ColumnType::Varchar(5))),
            ("time with time zone", ColumnType::Ordered(OrderedType::TimeTz(None))),
            ("timetz(3)", ColumnType::Ordered(OrderedType::TimeTz(Some(3)))),
            ("time(9) with time zone", ColumnType::Ordered(OrderedType::TimeTz(Some(6)))),
            ("bit", ColumnType::Ordered(OrderedType::Bit(Some(1)))),
            ("bit(5)", ColumnType::Ordered(OrderedType::Bit(Some(5)))),
            ("\"bit\"", ColumnType::Ordered(OrderedType::Bit(None))),
            ("bit varying", ColumnType::Ordered(OrderedType::VarBit(None))),
            ("varbit(7)", ColumnType::Ordered(OrderedType::VarBit(Some(7)))),
            ("numeric(5,2)[3]", array(ColumnType::VarNumeric(Some(NumericLimit { precision: 5, scale: 2 })))),
        ] {
            assert_eq!(column_type_from_sql(&parse(text)).expect(text), ty, "{text}");
        }
    }

    #[test]
    fn bad_types() {
        for (text, state) in [
            ("nosuch", "42704"),
            ("varchar(0)", "22023"),
            ("numeric(1001,2)", "22023"),
            ("serial", "0A000"),
            ("bit(0)", "22023"),
            ("bit varying(83886081)", "22023"),
            ("char(3)[]", "0A000"),
        ] {
            assert_eq!(column_type_from_sql(&parse(text)).unwrap_err().sqlstate, state, "{text}");
        }
    }

    #[test]
    fn cast_targets() {
        for (text, oid) in [
            ("pg_catalog.regclass", oid::REGCLASS),
            ("regtype", oid::REGTYPE),
            ("oid", oid::OID),
            ("name", oid::NAME),
            ("\"char\"", oid::CHAR),
            ("text[]", oid::TEXT_ARRAY),
            ("pg_catalog.int2[]", oid::INT2_ARRAY),
            ("information_schema.sql_identifier", oid::NAME),
        ] {
            let field = arrow_field_from_sql(&parse(text)).expect(text);
            assert_eq!(super::super::field_oid(&field), oid, "{text}");
        }
    }
}
