//! Whether what is analysed always gives the same for the same row: what generated columns and indexes may be made of.
//!
//! As in PostgreSQL (`contain_mutable_functions`) the functions count that names, operators and casts mean by its tables, one
//! form of a name apart from another: `extract` of a `timestamp` is immutable, of a `timestamptz` it is not. That a type's text
//! is read or written counts like a function. Of a function of SQL that is not declared IMMUTABLE its body counts, where that takes
//! the place of a call (`user_function.rs`).

use resurgam_dialect::{CastStep, TypeId, Volatility};

use super::Analyzer;
use super::coerce::catalog;
use crate::pg::types::oid;

/// Types whose texts mean, and are, the same to everyone at all times.
const FIXED: [u32; 29] = [
    oid::BOOL,
    oid::BYTEA,
    oid::CHAR,
    oid::NAME,
    oid::INT2,
    oid::INT4,
    oid::INT8,
    oid::TEXT,
    oid::OID,
    oid::XID,
    oid::JSON,
    oid::FLOAT4,
    oid::FLOAT8,
    oid::MACADDR,
    oid::MACADDR8,
    oid::INET,
    oid::CIDR,
    oid::BPCHAR,
    oid::VARCHAR,
    oid::BIT,
    oid::VARBIT,
    oid::NUMERIC,
    oid::UUID,
    oid::JSONB,
    oid::JSONPATH,
    oid::UNKNOWN,
    oid::CID,
    // These are written alike, but read by words and zones of the day.
    oid::TIME,
    oid::TIMETZ,
];

fn is_read_alike(ty: u32) -> bool {
    FIXED.contains(&ty) && !matches!(ty, oid::TIME | oid::TIMETZ)
}

impl Analyzer<'_> {
    /// A function is called, maybe by an operator.
    pub(super) fn note_function(&mut self, function: u32) {
        if function == 0 || self.is_mutable {
            return;
        }
        let tables = catalog();
        self.is_mutable = tables.function(function).is_none_or(|found| found.volatility != Volatility::Immutable);
    }

    /// Operands of an operator are: `||` of a text and something else is a function of SQL, in whose place its body counts.
    pub(super) fn note_operator(&mut self, function: u32, left: u32, right: u32) {
        match catalog().function(function).map_or("", |found| found.name) {
            "textanycat" => self.is_mutable |= !FIXED.contains(&right),
            "anytextcat" => self.is_mutable |= !FIXED.contains(&left),
            _ => self.note_function(function),
        }
    }

    /// Values of type `from` are cast like that.
    pub(super) fn note_steps(&mut self, from: u32, steps: &[CastStep]) {
        let mut from = from;
        for step in steps {
            match step {
                CastStep::Function { function, ty: TypeId(ty), .. } => {
                    self.note_function(*function);
                    from = *ty;
                }
                CastStep::ViaIo { ty: TypeId(ty) } => {
                    self.is_mutable |= !FIXED.contains(&from) || !is_read_alike(*ty);
                    from = *ty;
                }
                CastStep::Array { ty: TypeId(ty), element, .. } => {
                    let inner = catalog().element_type(TypeId(from)).map_or(from, |element| element.0);
                    self.note_steps(inner, element);
                    from = *ty;
                }
                CastStep::Relabel { ty, .. } | CastStep::Domain { ty } => from = ty.0,
                // A constant has its value here, but for what depends on the session (`Analyzer::read` notes that).
                CastStep::Input { ty, .. } => from = ty.0,
                CastStep::Row { .. } => self.is_mutable = true,
            }
        }
    }
}
