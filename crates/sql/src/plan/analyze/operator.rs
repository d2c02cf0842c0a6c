//! What an operator is computed by.
//!
//! The dialect's tables choose the operator and its operands' types; here it becomes an expression of
//! DataFusion's over operands of one Arrow form, or a call.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{Expr, Like, Operator, binary_expr, cast, lit};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::bound::{Bound, Type};
use super::coerce::{catalog, sql_error};
use super::days::by_day;
use super::{Analyzer, Result, unknown};
use crate::exec::apply::holds_integers;
use crate::pg::functions::{INT_XOR, REGEX_OPERATORS, is_by_source, numeric, time_operator};
use crate::pg::ordered::type_of_oid;
use crate::pg::types::oid;
use crate::pg::user_types::FIRST_USER_OID;
use crate::wire::SqlError;

/// The comparison that a name is.
fn comparison(name: &str) -> Option<Operator> {
    Some(match name {
        "=" => Operator::Eq,
        "<>" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        _ => return None,
    })
}

fn is_integer(ty: Type) -> bool {
    matches!(ty.oid, oid::INT2 | oid::INT4 | oid::INT8)
}

/// An integer beside a numeric of a scale that holds every integer of its type, as one of these: so they are compared as numbers, and not by the digits
/// that each of them shows.
fn beside_decimals(left: Bound, right: Bound) -> (Bound, Bound) {
    let like = |bound: Bound, other: &DataType| match other {
        DataType::Decimal128(..) if is_integer(bound.ty) && holds_integers(&bound.data, other) => {
            let span = bound.span;
            Bound::with_data(
                datafusion::logical_expr::cast(bound.expr, other.clone()),
                Type::of(oid::NUMERIC),
                other.clone(),
            )
            .at(span)
        }
        _ => bound,
    };
    let (of_left, of_right) = (left.data.clone(), right.data.clone());
    (like(left, &of_right), like(right, &of_left))
}

fn is_float(ty: Type) -> bool {
    matches!(ty.oid, oid::FLOAT4 | oid::FLOAT8)
}

fn is_text(ty: Type) -> bool {
    matches!(ty.oid, oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR)
}

/// Types whose values are equal when their Arrow values are.
fn is_plain(ty: Type) -> bool {
    is_integer(ty)
        || is_float(ty)
        || is_text(ty)
        || ty.oid >= FIRST_USER_OID
        || type_of_oid(ty.oid).is_some()
        || matches!(
            ty.oid,
            oid::BOOL
                | oid::NUMERIC
                | oid::BYTEA
                | oid::DATE
                | oid::TIME
                | oid::TIMESTAMP
                | oid::TIMESTAMPTZ
                | oid::UUID
                | oid::JSONB
                | oid::OID
                | oid::XID
                | oid::CID
                | oid::REGCLASS
                | oid::REGTYPE
                | oid::REGNAMESPACE
                | oid::REGROLE
                | oid::REGPROC
                | oid::REGPROCEDURE
        )
}

impl Analyzer<'_> {
    /// The operands of an operator, brought to its types and to one Arrow form.
    ///
    /// # Errors
    /// `42883`, `42725`
    pub(super) fn operands(&mut self, name: &str, left: Bound, right: Bound, span: Span) -> Result<(Bound, Bound)> {
        let tables = catalog();
        let resolved = match tables.resolve_operator(name, Some(left.ty.id()), right.ty.id()) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        self.note_function(resolved.function);
        let to_left = Type::of(resolved.left.map_or(left.ty.oid, |ty| ty.0));
        let to_right = Type::of(resolved.right.0);
        self.check_citext_operator(to_left, to_right)?;
        let (left, right) = (self.operand(left, to_left)?, self.operand(right, to_right)?);
        self.check_elements(left.ty, !matches!(name, "=" | "<>"), span)?;
        self.one_form_pair(left, right)
    }

    pub(super) fn operand(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        let bound = if bound.ty.oid == to.oid { bound } else { self.implicit(bound, to)? };
        self.without_blanks(bound)
    }

    /// Values that an operator of mixed types compares or computes with, in one form.
    fn one_form_pair(&mut self, left: Bound, right: Bound) -> Result<(Bound, Bound)> {
        let (l, r) = (left.ty, right.ty);
        let wider = if l.oid == r.oid {
            None
        } else if is_integer(l) && is_integer(r) {
            let rank = |ty: Type| [oid::INT2, oid::INT4, oid::INT8].iter().position(|oid| *oid == ty.oid);
            Some(if rank(l) > rank(r) { l } else { r })
        } else if is_float(l) && is_float(r) {
            Some(Type::of(oid::FLOAT8))
        } else {
            let times = [oid::DATE, oid::TIMESTAMP, oid::TIMESTAMPTZ];
            let rank = |ty: Type| times.iter().position(|oid| *oid == ty.oid);
            match (rank(l), rank(r)) {
                (Some(a), Some(b)) => Some(if a > b { Type::of(l.oid) } else { Type::of(r.oid) }),
                _ => None,
            }
        };
        if let Some(wider) = wider {
            let wider = Type::of(wider.oid);
            let bring = |this: &mut Self, bound: Bound| match bound.ty.oid == wider.oid {
                true => Ok(bound),
                false => this.converted_time(bound, wider),
            };
            return Ok((bring(self, left)?, bring(self, right)?));
        }
        // `xid = integer`, the one operator of both.
        if l.oid == oid::XID && is_integer(r) {
            let wide = |bound: Bound| {
                let expr = datafusion::logical_expr::cast(bound.expr, DataType::Int64);
                Bound::with_data(expr, Type::of(oid::INT8), DataType::Int64).at(bound.span)
            };
            return Ok((wide(left), wide(right)));
        }
        let of = l.oid;
        if l.oid == r.oid && matches!(of, oid::NUMERIC | oid::NUMERIC_ARRAY) && left.data != right.data {
            let mut both = self.one_form(vec![left, right], Type::of(of))?.into_iter();
            if let (Some(left), Some(right)) = (both.next(), both.next()) {
                return Ok((left, right));
            }
            return unknown("numerics of several forms");
        }
        Ok((left, right))
    }

    /// A value as one of a wider type of its kind.
    fn converted_time(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        if bound.ty.oid == oid::DATE && to.oid == oid::TIMESTAMP {
            let function = std::sync::Arc::new(crate::pg::functions::timestamp_of_date());
            let span = bound.span;
            let (expr, data) = self.call_udf(&function, vec![bound])?;
            return Ok(Bound::with_data(expr, to, data).at(span));
        }
        self.converted(bound, to)
    }

    /// `left name right`
    pub(super) fn binary(&mut self, name: &str, left: Bound, right: Bound, span: Span) -> Result<Bound> {
        let (one, other, at) = (left.collation, right.collation, right.span);
        let bound = self.binary_of(name, left, right, span)?;
        match (one, other) {
            (None, None) => Ok(bound),
            (Some(one), Some(other)) if one != other => {
                let text = format!("collation mismatch between explicit collations \"{one}\" and \"{other}\"");
                Err(self.at(SqlError::new("42P21", text), at))
            }
            _ => {
                let collation = one.or(other).filter(|_| crate::pg::collation::of_type(bound.ty.oid) != 0);
                Ok(Bound { collation, ..bound })
            }
        }
    }

    fn binary_of(&mut self, name: &str, left: Bound, right: Bound, span: Span) -> Result<Bound> {
        let tables = catalog();
        let resolved = match tables.resolve_operator(name, Some(left.ty.id()), right.ty.id()) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        super::record::refuse_record(&left, "an operator")?;
        super::record::refuse_record(&right, "an operator")?;
        let result = Type::of(resolved.result.0);
        let code = super::coerce::builtin().function(resolved.function).map_or("", |function| function.source);
        self.note_operator(resolved.function, left.ty.oid, right.ty.oid);
        let to_left = Type::of(resolved.left.map_or(left.ty.oid, |ty| ty.0));
        let to_right = Type::of(resolved.right.0);
        self.check_citext_operator(to_left, to_right)?;
        if to_left.oid == oid::CITEXT {
            let (left, right) = (self.operand(left.clone(), to_left)?, self.operand(right.clone(), to_right)?);
            if let Some(matched) = self.citext_pattern(name, &left, &right, span)? {
                return Ok(matched.at(span));
            }
        }
        // A pattern is matched with the blanks too.
        let is_matched = left.is_padded() && name.trim_start_matches('!').starts_with('~');
        if result.oid == oid::BPCHAR_ARRAY {
            // They are put together, not compared.
            let both = vec![self.implicit(left, to_left)?, self.implicit(right, to_right)?];
            if let Ok([left, right]) = <[Bound; 2]>::try_from(self.mixed_elements(both)?) {
                return Ok(self.computed(name, code, left, right, result, span)?.at(span));
            }
            return unknown("this operator of arrays");
        }
        let (left, right) = match comparison(name).is_some() && to_left.oid == oid::NUMERIC {
            true => beside_decimals(left, right),
            false => (left, right),
        };
        let left = if is_matched { self.shown(left)? } else { self.operand(left, to_left)? };
        let right = self.operand(right, to_right)?;
        if matches!(name, "@>" | "<@" | "&&") {
            self.check_elements(left.ty, false, span)?;
        }
        if let Some(op) = comparison(name) {
            self.check_elements(left.ty, !matches!(name, "=" | "<>"), span)?;
            let dynamic = [&left.data, &right.data].contains(&&numeric::DYNAMIC);
            if dynamic && left.ty.oid == oid::NUMERIC && right.ty.oid == oid::NUMERIC {
                let function = match name {
                    "=" => "numeric_eq",
                    "<>" => "numeric_ne",
                    "<" => "numeric_lt",
                    "<=" => "numeric_le",
                    ">" => "numeric_gt",
                    _ => "numeric_ge",
                };
                return Ok(self.numeric_call(function, vec![left, right], Type::BOOL)?.at(span));
            }
            let arrays = is_array(left.ty) && is_array(right.ty);
            if !(is_plain(left.ty) || arrays || left.ty.oid == oid::INTERVAL) {
                return unknown(format!("comparing values of type {}", left.ty.name()));
            }
            let (left, right) = by_day(op, left, right);
            let (left, right) = self.one_form_pair(left, right)?;
            return Ok(self.compare(op, left, right)?.at(span));
        }
        let out = self.computed(name, code, left, right, result, span)?;
        Ok(out.at(span))
    }

    /// A comparison of values of one form.
    pub(super) fn compare(&mut self, op: Operator, left: Bound, right: Bound) -> Result<Bound> {
        Ok(Bound::new(binary_expr(left.expr, op, right.expr), Type::BOOL))
    }

    fn computed(
        &mut self,
        name: &str,
        code: &str,
        left: Bound,
        right: Bound,
        result: Type,
        span: Span,
    ) -> Result<Bound> {
        let (l, r) = (left.ty, right.ty);
        if code.starts_with("jsonb_") || code.starts_with("json_") || is_by_source(code) {
            return self.call_named(code, vec![left, right], result);
        }
        let arithmetic = match name {
            "+" => Some(Operator::Plus),
            "-" => Some(Operator::Minus),
            "*" => Some(Operator::Multiply),
            "/" => Some(Operator::Divide),
            "%" => Some(Operator::Modulo),
            _ => None,
        };
        if let Some(op) = arithmetic {
            if r.oid == oid::INET && is_integer(l) {
                // PostgreSQL has it as a function in SQL.
                return self.call_named("inetpl", vec![right, left], result);
            }
            if is_integer(l) && is_integer(r) || is_float(l) && is_float(r) {
                let (left, right) = self.one_form_pair(left, right)?;
                let data = left.data.clone();
                let expr = binary_expr(left.expr, op, right.expr);
                return Ok(Bound::with_data(expr, result, data));
            }
            if l.oid == oid::NUMERIC && r.oid == oid::NUMERIC {
                return self.numeric(op, left, right);
            }
            return self.date_arithmetic(op, left, right, result);
        }
        if is_text(l) && is_text(r) {
            match name {
                "||" => {
                    let expr = binary_expr(left.expr, Operator::StringConcat, right.expr);
                    return Ok(Bound::new(expr, result));
                }
                "~" | "~*" | "!~" | "!~*" => {
                    let function = REGEX_OPERATORS.iter().find(|(operator, _)| *operator == name);
                    let Some((_, function)) = function else { return unknown("this regular expression") };
                    let left = self.shown(left)?;
                    return self.call_named(function, vec![left, right], Type::BOOL);
                }
                "~~" | "!~~" | "~~*" | "!~~*" => {
                    let negated = name.starts_with('!');
                    let insensitive = name.ends_with('*');
                    let left = self.shown(left)?;
                    let pattern = self.like_pattern(&left, right, insensitive)?;
                    let like = Like::new(negated, Box::new(left.expr), Box::new(pattern), None, insensitive);
                    return Ok(Bound::new(Expr::Like(like), Type::BOOL));
                }
                "^@" => return self.call("starts_with", vec![left, right], span),
                _ => return unknown(format!("the operator {name} of texts")),
            }
        }
        match (name, code) {
            ("||", "byteacat") => return self.call_named("pg_byteacat", vec![left, right], result),
            ("||", _) if result.oid == oid::TEXT && (is_text(l) || is_text(r)) => {
                let text = Type::TEXT;
                let (left, right) = (self.as_text(left)?, self.as_text(right)?);
                return Ok(Bound::new(binary_expr(left.expr, Operator::StringConcat, right.expr), text));
            }
            ("^", "dpow") => return self.call_named("power", vec![left, right], result),
            ("^", "numeric_power") => return self.numeric_call("numeric_power", vec![left, right], result),
            ("||", "array_append" | "array_prepend" | "array_cat") => {
                let function = if code == "array_cat" { "array_concat" } else { code };
                return self.call_named(function, vec![left, right], result);
            }
            ("@>", "arraycontains") => return self.call_named("array_has_all", vec![left, right], result),
            ("<@", "arraycontained") => return self.call_named("array_has_all", vec![right, left], result),
            ("&&", "arrayoverlap") => return self.call_named("array_has_any", vec![left, right], result),
            _ => {}
        }
        let bits = match name {
            "&" => Some(Operator::BitwiseAnd),
            "|" => Some(Operator::BitwiseOr),
            "#" => Some(Operator::BitwiseXor),
            "<<" => Some(Operator::BitwiseShiftLeft),
            ">>" => Some(Operator::BitwiseShiftRight),
            _ => None,
        };
        if let Some(op) = bits
            && is_integer(l)
            && is_integer(r)
        {
            let shifts = matches!(op, Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight);
            if shifts && l.oid == oid::INT2 {
                return self.smallint_shift(op, left, right, result);
            }
            let right = if shifts { self.converted(right, Type::of(l.oid))? } else { right };
            let (left, right) = self.one_form_pair(left, right)?;
            if op == Operator::BitwiseXor {
                return self.call_named(INT_XOR, vec![left, right], result);
            }
            let data = left.data.clone();
            return Ok(Bound::with_data(binary_expr(left.expr, op, right.expr), result, data));
        }
        unknown(format!("the operator {name} of {} and {}", l.name(), r.name()))
    }

    /// A smallint is shifted as an integer is, of which the lower half is left.
    fn smallint_shift(&mut self, op: Operator, left: Bound, right: Bound, result: Type) -> Result<Bound> {
        let (left, right) = (self.converted(left, Type::INT4)?, self.converted(right, Type::INT4)?);
        let mut shifted = binary_expr(left.expr, op, right.expr);
        if op == Operator::BitwiseShiftLeft {
            let up = binary_expr(shifted, Operator::BitwiseShiftLeft, lit(16i32));
            shifted = binary_expr(up, Operator::BitwiseShiftRight, lit(16i32));
        }
        self.converted(Bound::new(shifted, Type::INT4), result)
    }

    fn as_text(&mut self, bound: Bound) -> Result<Bound> {
        if is_text(bound.ty) {
            return Ok(bound);
        }
        self.cast_as(bound, Type::TEXT, resurgam_dialect::CastContext::Assignment)
    }

    /// Arithmetic of numerics.
    fn numeric(&mut self, op: Operator, left: Bound, right: Bound) -> Result<Bound> {
        let ty = Type::of(oid::NUMERIC);
        let (sign, function) = match op {
            Operator::Plus => ('+', "numeric_add"),
            Operator::Minus => ('-', "numeric_sub"),
            Operator::Multiply => ('*', "numeric_mul"),
            Operator::Divide => ('/', "numeric_div"),
            _ => ('%', "numeric_mod"),
        };
        let dynamic = [&left.data, &right.data].contains(&&numeric::DYNAMIC);
        // Simplification takes a factor of zero for the product, whose digits are others, and zero for the rest of a division
        // by one, which is the fraction.
        let folded = match op {
            Operator::Multiply => [&left, &right].iter().any(|side| may_be(&side.expr, ScalarValue::new_zero)),
            Operator::Modulo => may_be(&right.expr, ScalarValue::new_one),
            _ => false,
        };
        if dynamic || folded || numeric::is_dynamic_result(&left.data, sign, &right.data) {
            return self.numeric_call(function, vec![left, right], ty);
        }
        self.coerced_binary(left, op, right, ty)
    }

    /// A function of numerics, by PostgreSQL's name of what computes it.
    pub(super) fn numeric_call(&mut self, name: &str, args: Vec<Bound>, result: Type) -> Result<Bound> {
        let Some(function) = numeric::by_proc_name(name) else { return unknown(format!("the function {name}")) };
        let (expr, data) = self.call_udf(&function, args)?;
        self.of_type(expr, data, result)
    }

    /// An operator whose result DataFusion's own rules for these operands say.
    fn coerced_binary(&mut self, left: Bound, op: Operator, right: Bound, ty: Type) -> Result<Bound> {
        let data = BinaryTypeCoercer::new(&left.data, &op, &right.data).get_result_type()?;
        Ok(Bound::with_data(binary_expr(left.expr, op, right.expr), ty, data))
    }

    /// `+`, `-`, `*`, `/` of dates, times and intervals.
    fn date_arithmetic(&mut self, op: Operator, left: Bound, right: Bound, result: Type) -> Result<Bound> {
        match time_operator(left.ty.oid, &op.to_string(), right.ty.oid) {
            Some((name, false)) => self.call_named(name, vec![left, right], result),
            Some((name, true)) => self.call_named(name, vec![right, left], result),
            None => unknown(format!("arithmetic of {} and {}", left.ty.name(), right.ty.name())),
        }
    }

    /// `name operand`
    pub(super) fn unary(&mut self, name: &str, operand: Bound, span: Span) -> Result<Bound> {
        let tables = catalog();
        let resolved = match tables.resolve_operator(name, None, operand.ty.id()) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        self.note_function(resolved.function);
        let result = Type::of(resolved.result.0);
        let operand = self.operand(operand, Type::of(resolved.right.0))?;
        let code = super::coerce::builtin().function(resolved.function).map_or("", |function| function.source);
        if is_by_source(code) {
            return Ok(self.call_named(code, vec![operand], result)?.at(span));
        }
        let data = operand.data.clone();
        let out = match name {
            "+" => operand,
            "-" if is_integer(operand.ty) => {
                // Checked, as `-(-32768)` of a smallint is out of range.
                let zero = datafusion::common::ScalarValue::new_zero(&data)?;
                Bound::with_data(binary_expr(lit(zero), Operator::Minus, operand.expr), result, data)
            }
            "-" if data == numeric::DYNAMIC => self.numeric_call("numeric_uminus", vec![operand], result)?,
            "-" => Bound::with_data(Expr::Negative(Box::new(operand.expr)), result, data),
            "@" => self.call_named("abs", vec![operand], result)?,
            "|/" => self.call_named("sqrt", vec![operand], result)?,
            "||/" => self.call_named("cbrt", vec![operand], result)?,
            "~" if is_integer(operand.ty) => {
                let ones = datafusion::common::ScalarValue::new_negative_one(&data)?;
                let ones = Bound::with_data(lit(ones), operand.ty, data);
                self.call_named(INT_XOR, vec![operand, ones], result)?
            }
            _ => return unknown(format!("the operator {name} of {}", operand.ty.name())),
        };
        Ok(out.at(span))
    }

    /// `left op ANY (array)`
    pub(super) fn compared_with_array(
        &mut self,
        name: &str,
        left: Bound,
        array: Bound,
        any: bool,
        span: Span,
    ) -> Result<Bound> {
        let tables = catalog();
        let resolved = match tables.resolve_array_operator(name, left.ty.id(), array.ty.id()) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.at(sql_error(error), span)),
        };
        self.note_function(resolved.operator.function);
        let element_type = Type::of(resolved.operator.right.0);
        let to_left = Type::of(resolved.operator.left.map_or(left.ty.oid, |ty| ty.0));
        let array_type = Type::of(resolved.array.0);
        if to_left.oid == oid::CITEXT {
            return unknown("ANY and ALL of an array of citext");
        }
        let left = self.operand(left, to_left)?;
        let array = self.operand(array, array_type)?;
        if matches!(element_type.oid, oid::JSONB | oid::INTERVAL) {
            return unknown(format!("ANY and ALL of arrays of {}", element_type.name()));
        }
        let Some(op) = comparison(name) else {
            return match name {
                "~~" | "!~~" | "~~*" | "!~~*" | "~" | "!~" | "~*" | "!~*" => {
                    unknown(format!("{name} {} of an array", if any { "ANY" } else { "ALL" }))
                }
                _ => unknown(format!("the operator {name} of arrays")),
            };
        };
        // The value has the wider type of the two.
        let wide = self.one_form_pair(left.clone(), Bound::new(lit(0), element_type));
        let left = wide.map_or(left, |(left, _)| left);
        // A constant array is looked through as a set.
        if matches!((name, any), ("=", true) | ("<>", false)) && crate::exec::access_path::is_constant(&array.expr) {
            // Numerics that may show other digits, by their keys.
            let shows_digits = |data: &DataType| data == &numeric::DYNAMIC;
            let of_elements = matches!(&array.data, DataType::List(item) if shows_digits(item.data_type()));
            let (array, left) = match of_elements || shows_digits(&left.data) {
                true => {
                    let (Some(keys), Some(key)) =
                        (numeric::by_proc_name(numeric::ARRAY_KEYS), numeric::by_proc_name(numeric::KEY))
                    else {
                        return unknown("keys of numerics");
                    };
                    let (array, keys_data) = self.call_udf(&keys, vec![array])?;
                    let (left, key_data) = self.call_udf(&key, vec![left])?;
                    (Bound::with_data(array, array_type, keys_data), Bound::with_data(left, element_type, key_data))
                }
                false => (array, left),
            };
            let has = self.call_named("array_has", vec![array, left], Type::BOOL)?;
            let expr = if any { has.expr } else { Expr::Not(Box::new(has.expr)) };
            return Ok(Bound::new(expr, Type::BOOL).at(span));
        }
        let function = std::sync::Arc::new(crate::exec::array_compare::function(op, any));
        let (expr, data) = self.call_udf(&function, vec![left, array])?;
        Ok(Bound::with_data(expr, Type::BOOL, data).at(span))
    }

    /// A function that the session has under that name, its result of that type.
    pub(super) fn call_named(&mut self, name: &str, args: Vec<Bound>, result: Type) -> Result<Bound> {
        let Some(function) = self.names.state.scalar_functions().get(name).cloned() else {
            return unknown(format!("the function {name}"));
        };
        let (expr, data) = self.call_udf(&function, args)?;
        self.of_type(expr, data, result)
    }

    /// A computed value as one of the type that it has to have.
    pub(super) fn of_type(&mut self, expr: Expr, data: DataType, result: Type) -> Result<Bound> {
        let wanted = result.data();
        let numeric = result.oid == oid::NUMERIC && matches!(data, DataType::Decimal128(..) | DataType::LargeBinary);
        if data == wanted || numeric || matches!((&data, &wanted), (DataType::List(_), DataType::List(_))) {
            return Ok(Bound::with_data(expr, result, data));
        }
        if result.oid == oid::NUMERIC {
            return unknown(format!("a numeric result computed as {data}"));
        }
        if result.oid == oid::RECORD {
            return unknown("a record as a result");
        }
        let text = |data: &DataType| data.is_string();
        if text(&data) && text(&wanted)
            || data.is_numeric() && wanted.is_numeric()
            || data == DataType::Null
            || data.is_temporal() && wanted.is_temporal()
            || data.is_binary() && wanted.is_binary()
        {
            return Ok(Bound::with_data(cast(expr, wanted.clone()), result, wanted));
        }
        // One of several functions of a name, and another one is computed; or of a type that is not known here.
        unknown(format!("a result of type {} computed as {data}", result.name()))
    }
}

/// Whether an operand is this value of its type for simplification, now or when its parameters have values.
fn may_be(operand: &Expr, value: fn(&DataType) -> datafusion::common::Result<ScalarValue>) -> bool {
    match operand {
        Expr::Literal(literal, _) => value(&literal.data_type()).is_ok_and(|value| value == *literal),
        other => !other.any_column_refs(),
    }
}

fn is_array(ty: Type) -> bool {
    catalog().element_type(ty.id()).is_some()
}
