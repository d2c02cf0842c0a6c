//! Functions and aggregates that make JSON: what they are computed by.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bound::{Bound, Type};
use super::{Analyzer, Result, unknown};
use crate::pg::types::{element_oid, field_oid, oid};

/// The function of [`crate::pg::functions`] that makes a record of the arguments into JSON.
fn computed_by(name: &str) -> Option<&'static str> {
    Some(match name {
        "to_json" | "row_to_json" | "array_to_json" | "to_jsonb" => "pg_json_value",
        "json_build_object" | "jsonb_build_object" => "pg_json_object",
        "json_build_array" | "jsonb_build_array" => "pg_json_array",
        _ => return None,
    })
}

/// Whether a function takes records, to make JSON of them.
pub(super) fn is_json_builder(name: &str) -> bool {
    computed_by(name).is_some()
}

/// Whether an aggregate gathers values as JSON.
pub(super) fn is_json_aggregate(name: &str) -> bool {
    matches!(name, "json_agg" | "json_object_agg" | "jsonb_agg" | "jsonb_object_agg")
}

/// What is before an element that begins a line.
const LINE: &str = "\n ";

/// Whether an aggregate gives each element a line of its own, but for the first one and NULLs, as `json_agg` does with arrays and records.
pub(super) fn is_in_lines(name: &str, args: &[Bound]) -> bool {
    let is = |arg: &Bound| arg.ty.oid == oid::RECORD || element_oid(arg.ty.oid).is_some();
    name == "json_agg" && args.first().is_some_and(is)
}

/// Whether values have times in the session's zone.
fn is_zoned(field: &Field) -> bool {
    matches!(field_oid(field), oid::TIMESTAMPTZ | oid::TSTZRANGE)
        || match field.data_type() {
            DataType::List(item) => is_zoned(item),
            DataType::Struct(fields) => fields.iter().any(|field| is_zoned(field)),
            DataType::Timestamp(_, Some(_)) => true,
            _ => false,
        }
}

impl Analyzer<'_> {
    /// A call of a function that makes JSON; `None` if it is none.
    pub(super) fn json_call(&mut self, name: &str, args: Vec<Bound>, span: Span) -> Result<Option<Bound>> {
        let Some(function) = computed_by(name) else { return Ok(None) };
        if function == "pg_json_value" && args.len() != 1 {
            return unknown(format!("the second argument of {name}"));
        }
        let made = self.json_of(function, args, span)?;
        match name {
            // It is what that text is as a document.
            "to_jsonb" | "jsonb_build_object" | "jsonb_build_array" => {
                self.converted(made, Type::of(oid::JSONB)).map(|made| Some(made.at(span)))
            }
            _ => Ok(Some(made)),
        }
    }

    /// `json_build_array(VARIADIC array)` and its kin: what it makes of the elements.
    pub(super) fn json_of_elements(&mut self, name: &str, array: Bound, span: Span) -> Result<Bound> {
        let function = if name.ends_with("array") { "pg_json_array_of" } else { "pg_json_object_of" };
        let array = self.citext_text(array)?;
        let made = self.json_of(function, vec![array], span)?;
        match name.starts_with("jsonb") {
            true => Ok(self.converted(made, Type::of(oid::JSONB))?.at(span)),
            false => Ok(made),
        }
    }

    fn json_of(&mut self, function: &str, args: Vec<Bound>, span: Span) -> Result<Bound> {
        let zoned = if args.iter().any(|arg| is_zoned(&arg.field())) { "_zoned" } else { "" };
        let fields = args.into_iter().enumerate().map(|(at, arg)| (format!("f{}", at + 1), arg)).collect();
        let record = self.record(fields, span)?;
        let Some(function) = self.names.state.scalar_functions().get(format!("{function}{zoned}").as_str()).cloned()
        else {
            return unknown(function);
        };
        let (expr, data) = self.call_udf(&function, vec![record])?;
        Ok(Bound::with_data(expr, Type::of(oid::JSON), data).at(span))
    }

    /// What an aggregate of JSON joins, and by what: a text of each row. `in_lines`: see [`is_in_lines`].
    pub(super) fn json_elements(
        &mut self,
        name: &str,
        args: Vec<Bound>,
        in_lines: bool,
        span: Span,
    ) -> Result<Vec<Bound>> {
        let text = |bound: Bound| Bound { ty: Type::TEXT, ..bound };
        let element = match name {
            "json_agg" | "jsonb_agg" => {
                let mut element = text(self.json_of("pg_json_value", args, span)?);
                if in_lines {
                    let line = self.text_constant(LINE);
                    element = self.binary("||", line, element, span)?;
                }
                let null = text(self.text_constant("null"));
                self.of_one_type("coalesce", vec![element, null], Type::TEXT)?
            }
            _ => text(self.json_of("pg_json_pair", args, span)?),
        };
        Ok(vec![element, self.text_constant(", ")])
    }

    /// The joined elements as a whole; NULL if there are none.
    pub(super) fn json_whole(&mut self, name: &str, joined: Bound, in_lines: bool, span: Span) -> Result<Bound> {
        let joined = match in_lines {
            // The first one does not begin a line.
            true => {
                let line = self.text_constant(LINE);
                let line = self.or_text(line)?;
                self.call_named("ltrim", vec![joined, line], Type::TEXT)?
            }
            false => joined,
        };
        let (open, close) = if matches!(name, "json_agg" | "jsonb_agg") { ("[", "]") } else { ("{ ", " }") };
        let open = self.text_constant(open);
        let close = self.text_constant(close);
        let whole = self.binary("||", open, joined, span)?;
        let whole = self.binary("||", whole, close, span)?;
        let whole = Bound { ty: Type::of(oid::JSON), ..whole }.at(span);
        match name.starts_with("jsonb") {
            true => self.converted(whole, Type::of(oid::JSONB)),
            false => Ok(whole),
        }
    }
}
