//! Casts, written out.
//!
//! The dialect's tables say which steps a cast takes ([`CastPlan`]); here the steps become expressions.
//! Constants are read at once. What depends on the session (its zone, its tables, today's date) is a call
//! of `pg_cast_…`, which asks the session when it runs.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, cast, lit};
use resurgam_dialect::{CastContext, CastPlan, CastStep, Catalog, NewFunction, ResolveError, TypeId, Volatility};

use super::blanks::BPCHAR;
use super::bound::{Bound, Relation, Type};
use super::select::{Target, project};
use super::{Analyzer, Result, unknown};
use crate::exec::cell::placeholder_index;
use crate::pg::datetime::Zone;
use crate::pg::decode::decode_param;
use crate::pg::functions::array_blanks::padded_list;
use crate::pg::functions::{cast_to_user_type, numeric};
use crate::pg::types::{self, PADDED, TEXT, oid};
use crate::pg::user_types;
use crate::wire::{Format, SqlError};

/// The dialect's error as one of ours.
pub(super) fn sql_error(error: ResolveError) -> SqlError {
    let mut out = SqlError::new(error.sqlstate, error.message);
    (out.detail, out.hint) = (error.detail, error.hint);
    out
}

/// Functions that PostgreSQL does not have.
const OWN: [NewFunction; 4] = [
    crate::exec::clean_function::CLEAN,
    NewFunction {
        arg_names: &["from_archive"],
        defaults: &["false"],
        volatility: Volatility::Volatile,
        ..NewFunction::scalar("resurgam_backup", &[TypeId::BOOL], TypeId::TEXT)
    },
    NewFunction {
        arg_names: &["device"],
        volatility: Volatility::Volatile,
        ..NewFunction::scalar("resurgam_fail_device", &[TypeId::TEXT], TypeId::BOOL)
    },
    // Of PostgreSQL 18.
    NewFunction { volatility: Volatility::Volatile, ..NewFunction::scalar("uuidv7", &[], TypeId::UUID) },
];

/// The tables of the dialect, with functions of our own.
pub(super) fn builtin() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::with_functions(&OWN));
    &CATALOG
}

/// The same with the types and functions of users that the statement sees.
pub(super) enum Tables {
    Builtin,
    WithTypes(Arc<Catalog>),
}

impl Deref for Tables {
    type Target = Catalog;
    fn deref(&self) -> &Catalog {
        match self {
            Self::Builtin => builtin(),
            Self::WithTypes(catalog) => catalog,
        }
    }
}

/// See [`Tables`].
pub(super) fn catalog() -> Tables {
    match user_types::current() {
        Some(types) if !types.is_builtin() => Tables::WithTypes(types.catalog(builtin())),
        _ => Tables::Builtin,
    }
}

impl Type {
    pub(super) fn id(self) -> TypeId {
        TypeId(self.oid)
    }
}

/// Types whose values are oids that print as names.
fn is_of_names(ty: u32) -> bool {
    matches!(ty, oid::REGCLASS | oid::REGTYPE | oid::REGNAMESPACE | oid::REGROLE | oid::REGPROC | oid::REGPROCEDURE)
}

/// The same of arrays as of their elements.
fn has_names(ty: u32) -> bool {
    is_of_names(types::element_oid(ty).unwrap_or(ty))
}

pub(super) const fn is_of_bits(ty: u32) -> bool {
    matches!(ty, oid::BIT | oid::VARBIT)
}

/// What makes a number of bits, or bits of a number.
const fn between_bits_and_numbers(from: u32, to: u32) -> Option<&'static str> {
    Some(match (from, to) {
        (oid::BIT | oid::VARBIT, oid::INT4) => "bittoint4",
        (oid::BIT | oid::VARBIT, oid::INT8) => "bittoint8",
        (oid::INT4, oid::BIT) => "bitfromint4",
        (oid::INT8, oid::BIT) => "bitfromint8",
        _ => return None,
    })
}

/// `0A000` for arrays of numbers as arrays of bits, and the other way: elements are read as texts there.
fn refuse_arrays_of_bits(from: Type, to: Type) -> Result<()> {
    let element = |ty: Type| catalog().element_type(ty.id()).map(|element| element.0);
    let (Some(a), Some(b)) = (element(from), element(to)) else { return Ok(()) };
    match between_bits_and_numbers(a, b) {
        Some(_) => unknown(format!("a cast from {} to {}", from.name(), to.name())),
        None => Ok(()),
    }
}

/// Whether values of a type are shown in the zone of whoever looks at them.
pub(super) fn is_shown_in_zone(ty: u32) -> bool {
    matches!(ty, oid::TIMESTAMPTZ | oid::TSTZRANGE | oid::TIMESTAMPTZ_ARRAY | oid::TSTZRANGE_ARRAY)
}

/// Words that a date or time can be, whose values are those of the day.
fn is_of_the_day(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    ["now", "today", "tomorrow", "yesterday"].iter().any(|word| text.contains(word))
}

impl Analyzer<'_> {
    /// A cast of that context.
    pub(super) fn cast_as(&mut self, bound: Bound, to: Type, context: CastContext) -> Result<Bound> {
        let span = bound.span;
        if to.oid != oid::RECORD {
            super::record::refuse_record(&bound, "a cast")?;
        }
        if bound.has_padded_elements() && matches!(to.oid, oid::TEXT | oid::VARCHAR) {
            let shown = self.shown(bound)?;
            return self.cast_as(shown, to, context);
        }
        if let Some(kept) = self.kept_blanks(&bound, to) {
            return Ok(kept);
        }
        let plan = catalog().cast(bound.ty.id(), bound.ty.typmod, to.id(), to.typmod, context);
        match plan {
            Ok(plan) => self.steps(bound, plan),
            Err(error) => Err(self.at(sql_error(error), span)),
        }
    }

    /// The change of type that happens by itself; PostgreSQL has found before that it can.
    pub(super) fn implicit(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        if bound.ty == to {
            return Ok(bound);
        }
        super::record::refuse_record(&bound, "a conversion")?;
        if bound.ty.oid == oid::BPCHAR && to == BPCHAR {
            return self.mixed(bound);
        }
        if let Some(kept) = self.kept_blanks(&bound, to) {
            return Ok(kept);
        }
        let span = bound.span;
        match catalog().coerce(bound.ty.id(), bound.ty.typmod, to.id(), -1, CastContext::Implicit) {
            Some(plan) => self.steps(bound, plan),
            None => {
                let message = format!("cannot cast type {} to {}", bound.ty.name(), to.name());
                Err(self.at(SqlError::new("42846", message), span))
            }
        }
    }

    /// As an argument of something that takes one type only; `message` is the error's, without the
    /// given type.
    pub(super) fn assigned_to(&mut self, bound: Bound, to: Type, message: &str) -> Result<Bound> {
        let span = bound.span;
        match catalog().coerce(bound.ty.id(), bound.ty.typmod, to.id(), -1, CastContext::Assignment) {
            Some(plan) => self.steps(bound, plan),
            None => {
                let message = format!("{message}, not type {}", bound.ty.name());
                Err(self.at(SqlError::new("42804", message), span))
            }
        }
    }

    /// Untyped constants and parameters become texts.
    pub(super) fn or_text(&mut self, bound: Bound) -> Result<Bound> {
        if bound.ty.is_unknown() { self.read(bound, Type::TEXT) } else { Ok(bound) }
    }

    fn steps(&mut self, bound: Bound, plan: CastPlan) -> Result<Bound> {
        let to = Type { oid: plan.ty.0, typmod: plan.typmod };
        self.note_steps(bound.ty.oid, &plan.steps);
        if bound.ty.oid == oid::BPCHAR && to == BPCHAR {
            return self.mixed(bound);
        }
        if bound.has_padded_elements() && to == Type::of(oid::BPCHAR_ARRAY) {
            return Ok(Bound { ty: to, ..bound });
        }
        let bound = self.without_blanks(bound)?;
        let span = bound.span;
        let out = match plan.steps.as_slice() {
            [] => bound,
            [CastStep::Input { ty, typmod }, rest @ ..] => {
                let read = self.read(bound, Type { oid: ty.0, typmod: *typmod })?;
                match rest {
                    [] => read,
                    [CastStep::Relabel { .. }] => self.relabel(read, to)?,
                    _ => self.converted(read, to)?,
                }
            }
            steps if steps.iter().all(|step| matches!(step, CastStep::Relabel { .. })) => self.relabel(bound, to)?,
            steps if steps.iter().any(|step| matches!(step, CastStep::Domain { .. } | CastStep::Row { .. })) => {
                return unknown(format!("a cast to {}", to.name()));
            }
            _ => self.converted(bound, to)?,
        };
        let has_length = to.oid == oid::BPCHAR_ARRAY && to.typmod >= 0;
        let out = if has_length { self.with_blanks_in_elements(out, to.typmod)? } else { out };
        Ok(out.at(span))
    }

    /// The same value under another type.
    fn relabel(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        let data = to.data();
        // What a name's oid prints as hangs on its type, which a cast says.
        let named = is_of_names(to.oid) && bound.ty.oid != to.oid;
        if !named && bound.data == data || bound.ty.oid == to.oid {
            return Ok(Bound { ty: to, ..bound });
        }
        self.converted(bound, to)
    }

    /// An untyped constant or parameter as a value of a type.
    pub(super) fn read(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        let span = bound.span;
        if let Expr::Placeholder(placeholder) = &bound.expr {
            let id = placeholder.id.clone();
            // What its text means hangs on the fields ('5' as `interval year`): a constant has to be seen, and a parameter is no constant. With seconds
            // alone it means what it does without fields, and is cut to them then.
            if to.oid == oid::INTERVAL && to.typmod >= 0 {
                match to.typmod >> 16 {
                    crate::pg::decode::range::FULL => {}
                    crate::pg::decode::range::SECOND => {
                        let read = self.typed_parameter(&id, Type::of(oid::INTERVAL))?.at(span);
                        return self.cast_as(read, to, CastContext::Explicit);
                    }
                    _ => return unknown(format!("a parameter as {}", types::format_type(to.oid, Some(to.typmod)))),
                }
            }
            return Ok(self.typed_parameter(&id, to)?.at(span));
        }
        if bound.is_null() {
            return Ok(self.null(to)?.at(span));
        }
        let Some(text) = bound.untyped_text().map(str::to_owned) else {
            // The column of a subquery that stayed untyped is a text.
            return match to.oid {
                oid::TEXT | oid::UNKNOWN => Ok(Bound { ty: to, ..bound }),
                _ => self.converted(Bound { ty: Type::TEXT, ..bound }, to),
            };
        };
        if to.oid == oid::REGCLASS
            && let Some(sequence) = self.sequence_constant(&bound)
        {
            return Ok(sequence.at(span));
        }
        let by_session = match to.oid {
            oid::DATE | oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ if is_of_the_day(&text) => true,
            oid::DATERANGE | oid::TSRANGE | oid::TSTZRANGE if is_of_the_day(&text) => true,
            oid::DATE_ARRAY | oid::TIMETZ_ARRAY | oid::TIMESTAMP_ARRAY | oid::TIMESTAMPTZ_ARRAY
                if is_of_the_day(&text) =>
            {
                true
            }
            oid::DATERANGE_ARRAY | oid::TSRANGE_ARRAY | oid::TSTZRANGE_ARRAY if is_of_the_day(&text) => true,
            oid::TIMESTAMPTZ
            | oid::TIMETZ
            | oid::TSTZRANGE
            | oid::TIMESTAMPTZ_ARRAY
            | oid::TIMETZ_ARRAY
            | oid::TSTZRANGE_ARRAY => {
                let elsewhere = Zone::parse("Asia/Tokyo").unwrap_or_default();
                let read = |zone: &Zone| decode_param(to.oid, Format::Text, Some(text.as_bytes()), zone).ok();
                read(&Zone::Utc) != read(&elsewhere)
            }
            ty => has_names(ty),
        };
        if matches!(to.oid, oid::TEXT | oid::VARCHAR | oid::UNKNOWN) && to.typmod < 0 {
            return Ok(Bound { ty: to, ..bound });
        }
        if by_session && self.views.fixed && !has_names(to.oid) {
            let shown = types::format_type(to.oid, None);
            let message =
                format!("a constant of type {shown} here that depends on the session or the time is not supported");
            let hint = format!("Write its type before it, as in {shown} '...', with its zone.");
            return Err(self.at(SqlError::unsupported(message).with_hint(hint), span));
        }
        if by_session {
            self.is_mutable = true;
            return self.call_cast(Bound { ty: Type::TEXT, ..bound }, to);
        }
        if to.oid == oid::BPCHAR_ARRAY && to.typmod < 0 && text.contains(' ') {
            // With the blanks that are written.
            let texts = self.read(bound, Type::of(oid::TEXT_ARRAY))?;
            return self.in_form(Bound { ty: to, ..texts }, &padded_list());
        }
        if types::type_by_oid(to.oid).is_none() || types::arrow_type_of_oid(to.oid, to.typmod).is_none() {
            return unknown(format!("constants of type {}", to.name()));
        }
        if to.oid == oid::NUMERIC
            && let Some(value) = super::literal::decimal(&text)
        {
            // The digits that are written.
            return Ok(Bound::literal(value, Type::of(oid::NUMERIC)).at(span));
        }
        if to.oid == oid::NUMERIC && to.typmod < 0 {
            let args = vec![Bound { ty: Type::TEXT, ..bound }, Bound::new(lit(-1i32), Type::INT4)];
            return Ok(self.numeric_call("numeric_in", args, to)?.at(span));
        }
        if matches!(to.oid, oid::NAME | oid::CHAR | oid::JSON) || to.typmod >= 0 {
            return self.call_cast(Bound { ty: Type::TEXT, ..bound }, to);
        }
        match decode_param(to.oid, Format::Text, Some(text.as_bytes()), &self.names.cx.zone()) {
            Ok(value) if value.data_type() == to.data() => Ok(Bound::literal(value, to).at(span)),
            Ok(_) => self.call_cast(Bound { ty: Type::TEXT, ..bound }, to),
            Err(error) => Err(self.at(error, span)),
        }
    }

    /// A NULL of a type.
    pub(super) fn null(&mut self, ty: Type) -> Result<Bound> {
        let data = match ty.oid {
            oid::NUMERIC if ty.typmod < 0 => DataType::Decimal128(1, 0),
            _ => ty.data(),
        };
        let value = ScalarValue::try_from(&data)?;
        Ok(Bound::literal(value, ty))
    }

    /// A parameter, which takes the type if it has none.
    fn typed_parameter(&mut self, id: &str, to: Type) -> Result<Bound> {
        let index = placeholder_index(id);
        let Some(slot) = index.and_then(|index| self.params.known.get_mut(index)) else {
            return Err(SqlError::new("42P02", format!("there is no parameter {id}")).into());
        };
        let to = Type::of(to.oid);
        // Names of tables and the like are looked up when the statement runs.
        let by_name = has_names(to.oid);
        if slot.is_none() {
            *slot = Some(types::parameter_field(id, if by_name { oid::TEXT } else { to.oid }));
            if let Some(domain) = index.and_then(|index| self.params.domains.get_mut(index)) {
                *domain = self.reads_domain;
            }
        }
        let bound = self.parameter(id)?;
        if by_name && bound.ty.oid == oid::TEXT {
            return self.call_cast(bound, to);
        }
        match bound.ty.oid == to.oid {
            true => Ok(bound),
            false => {
                // It stood somewhere else before: PostgreSQL has it of one type.
                self.cast_as(bound, to, CastContext::Implicit)
            }
        }
    }

    /// A parameter as far as it is known.
    pub(super) fn parameter(&mut self, id: &str) -> Result<Bound> {
        let Some(slot) = placeholder_index(id).and_then(|index| self.params.known.get(index)) else {
            return Err(SqlError::new("42P02", format!("there is no parameter {id}")).into());
        };
        let placeholder = |field| Expr::Placeholder(Placeholder::new_with_field(id.to_owned(), field));
        Ok(match slot {
            Some(field) => {
                let ty = Type::of(types::field_oid(field));
                Bound::with_data(placeholder(Some(field.clone())), ty, field.data_type().clone())
            }
            None => Bound::with_data(placeholder(None), Type::UNKNOWN, TEXT),
        })
    }

    /// A value of one type as one of another, by what computes it.
    pub(super) fn converted(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        use DataType as D;
        if bound.is_null() {
            return self.null(to);
        }
        // To others it is its text, and of others its text is taken.
        if let Expr::Literal(value, _) = &bound.expr
            && let Some(text) = crate::pg::citext::text_of(value)
            && to == Type::TEXT
        {
            return Ok(Bound::literal(ScalarValue::Utf8View(Some(text)), to).at(bound.span));
        }
        if bound.ty.oid == oid::CITEXT && ![oid::CITEXT, oid::TEXT].contains(&to.oid) {
            let text = self.converted(bound, Type::TEXT)?;
            return match to.oid == oid::VARCHAR && to.typmod < 0 {
                true => Ok(Bound { ty: to, ..text }),
                false => self.converted(text, to),
            };
        }
        if to.oid == oid::CITEXT && bound.ty.oid != oid::CITEXT && bound.ty != Type::TEXT {
            let span = bound.span;
            let text = self.cast_as(bound, Type::TEXT, CastContext::Explicit)?;
            return Ok(self.converted(text, to)?.at(span));
        }
        let data = to.data();
        let whole = |data: &D| matches!(data, D::Int16 | D::Int32 | D::Int64);
        if to.oid == oid::NUMERIC && to.typmod < 0 {
            // Integers keep their digits, and have none behind the point.
            let form = match bound.data {
                D::Int16 => Some(D::Decimal128(5, 0)),
                D::Int32 => Some(D::Decimal128(10, 0)),
                D::Int64 => Some(D::Decimal128(19, 0)),
                _ => None,
            };
            if let Some(form) = form {
                return Ok(Bound::with_data(self.folded(cast(bound.expr, form.clone())), to, form));
            }
        }
        if bound.ty.oid == oid::CHAR && to.oid == oid::INT4 {
            // Its byte, not the number that it may be a digit of.
            let text = self.converted(bound, Type::TEXT)?;
            return self.call_named("ascii", vec![text], to);
        }
        if let Some(function) = between_bits_and_numbers(bound.ty.oid, to.oid) {
            let span = bound.span;
            let mut args = vec![bound];
            if is_of_bits(to.oid) {
                args.push(Bound::new(lit(to.typmod), Type::INT4));
            }
            return Ok(self.call_named(function, args, to)?.at(span));
        }
        refuse_arrays_of_bits(bound.ty, to)?;
        if bound.data == data && bound.ty.oid == to.oid && to.typmod < 0 {
            return Ok(Bound { ty: to, ..bound });
        }
        let widens = match (&bound.data, &data) {
            (D::Int16, D::Int32 | D::Int64) | (D::Int32, D::Int64) => true,
            (from, D::Float32 | D::Float64) if whole(from) => true,
            (D::Float32, D::Float64) => true,
            (D::UInt32, D::Int64) => true,
            _ => false,
        };
        if widens {
            return Ok(Bound::with_data(self.folded(cast(bound.expr, data.clone())), to, data));
        }
        self.call_cast(bound, to)
    }

    /// What shows itself by a name of the catalog (`regclass` and kin) as the text that it shows, for what makes a text of values without asking
    /// of which type they are.
    pub(super) fn by_name(&mut self, bound: Bound) -> Result<Bound> {
        match types::element_oid(bound.ty.oid) {
            Some(element) if is_of_names(element) => {
                self.cast_as(bound, Type::of(oid::TEXT_ARRAY), CastContext::Explicit)
            }
            None if is_of_names(bound.ty.oid) => self.cast_as(bound, Type::TEXT, CastContext::Explicit),
            _ => Ok(bound),
        }
    }

    /// A constant cast to another type is that constant.
    pub(super) fn folded(&self, expr: Expr) -> Expr {
        if let Expr::Cast(cast) = &expr
            && let Expr::Literal(value, _) = cast.expr.as_ref()
            && let Ok(value) = value.cast_to(cast.field.data_type())
        {
            return Expr::Literal(value, None);
        }
        expr
    }

    /// A call of `pg_cast_…`.
    fn call_cast(&mut self, bound: Bound, to: Type) -> Result<Bound> {
        let Some(row) = types::type_by_oid(to.oid) else { return unknown(format!("type {}", to.oid)) };
        let name = format!("pg_cast_{}", row.name);
        let function = match to.oid {
            // Each is of one statement, as its type is.
            user_types::FIRST_USER_OID.. => cast_to_user_type(to.oid).map(Arc::new),
            _ => self.names.state.scalar_functions().get(name.as_str()).cloned(),
        };
        let Some(function) = function else { return unknown(format!("casts to {}", to.name())) };
        let span = bound.span;
        // Which of the types that are kept alike it is: the value itself does not say it everywhere.
        let arrays = types::element_oid(bound.ty.oid).is_some() && types::element_oid(to.oid).is_some();
        // (An oid that was a name keeps that one's field.)
        let alike = has_names(bound.ty.oid) || bound.data == to.data() || bound.data == DataType::UInt32 || arrays;
        let said = alike && to.oid < user_types::FIRST_USER_OID;
        let from = bound.ty.oid;
        let mut args = vec![bound];
        if to.typmod >= 0 || said {
            args.push(Bound::new(lit(i64::from(to.typmod)), Type::INT8));
        }
        if said {
            args.push(Bound::literal(ScalarValue::UInt32(Some(from)), Type::of(oid::OID)));
        }
        let (expr, data) = self.call_udf(&function, args)?;
        Ok(Bound::with_data(expr, to, data).at(span))
    }

    /// The type that values have in common; `context` is the construct's name.
    pub(super) fn common_type(&self, values: &[&Bound], context: &str) -> Result<Type> {
        let ids: Vec<TypeId> = values.iter().map(|bound| bound.ty.id()).collect();
        match catalog().common_type(context, &ids) {
            Ok(ty) => {
                let mut all = values.iter().map(|bound| bound.ty);
                let first = all.next().map_or(-1, |ty| ty.typmod);
                let same = values.iter().all(|bound| bound.ty.oid == ty.0 && bound.ty.typmod == first);
                Ok(Type { oid: ty.0, typmod: if same { first } else { -1 } })
            }
            Err(error) => {
                // The place is that of the first one which does not fit.
                let first = values.iter().find(|bound| !bound.ty.is_unknown());
                let category = |bound: &Bound| catalog().category(bound.ty.id()).0;
                let odd = values.iter().find(|bound| {
                    !bound.ty.is_unknown() && first.is_some_and(|first| category(first) != category(bound))
                });
                let span = odd.or(first).map_or_else(datafusion::sql::sqlparser::tokenizer::Span::empty, |b| b.span);
                Err(self.at(sql_error(error), span))
            }
        }
    }

    /// The same; unknown if all are.
    pub(super) fn common_type_or_unknown(&self, values: &[&Bound], context: &str) -> Result<Type> {
        if values.iter().all(|bound| bound.ty.is_unknown()) {
            return Ok(Type::UNKNOWN);
        }
        self.common_type(values, context)
    }

    /// Values of one type in one Arrow form: numerics get the scale that holds them all.
    pub(super) fn one_form(&mut self, values: Vec<Bound>, ty: Type) -> Result<Vec<Bound>> {
        // Elements of one type may be of several forms, or say their type otherwise.
        let padded = values.iter().any(Bound::has_padded_elements);
        let form = if padded { padded_list() } else { ty.data() };
        if matches!(form, DataType::List(_)) {
            let uneven = values.iter().any(|bound| values.iter().any(|other| other.data != bound.data));
            return match uneven {
                true => values.into_iter().map(|bound| self.in_form(bound, &form)).collect(),
                false => Ok(values),
            };
        }
        if ty.oid == oid::BPCHAR && values.iter().any(Bound::is_padded) {
            return values.into_iter().map(|bound| self.in_form(bound, &PADDED)).collect();
        }
        if ty.oid != oid::NUMERIC {
            return Ok(values);
        }
        let form = numeric_form(values.iter().map(|bound| &bound.data));
        values.into_iter().map(|bound| self.in_form(bound, &form)).collect()
    }

    /// A value in an Arrow form of its type.
    pub(super) fn in_form(&mut self, bound: Bound, form: &DataType) -> Result<Bound> {
        if &bound.data == form {
            return Ok(bound);
        }
        if bound.ty.oid == oid::NUMERIC && form == &numeric::DYNAMIC {
            let span = bound.span;
            return Ok(self.numeric_call("numeric_dynamic", vec![bound], Type::of(oid::NUMERIC))?.at(span));
        }
        if form == &padded_list() && bound.ty.oid == oid::BPCHAR_ARRAY {
            return Ok(Bound::with_data(cast(bound.expr, form.clone()), bound.ty, form.clone()).at(bound.span));
        }
        if let (DataType::List(_), DataType::List(item)) = (form, &bound.data)
            && !item.data_type().is_list()
        {
            let ty = bound.ty;
            return self.call_cast(bound, ty);
        }
        let expr = self.folded(cast(bound.expr, form.clone()));
        Ok(Bound::with_data(expr, bound.ty, form.clone()).at(bound.span))
    }

    /// Two relations of the same types, their numerics of the same forms.
    pub(super) fn one_form_columns(&mut self, a: Relation, b: Relation) -> Result<(Relation, Relation)> {
        let mut forms = Vec::with_capacity(a.columns.len());
        for (x, y) in a.columns.iter().zip(&b.columns) {
            forms.push(match x.bound.data == y.bound.data {
                true => None,
                false if x.bound.ty.oid == oid::NUMERIC => {
                    Some(numeric_form([&x.bound.data, &y.bound.data].into_iter()))
                }
                false if x.bound.ty.oid == oid::BPCHAR => Some(PADDED),
                false if x.bound.ty.oid == oid::BPCHAR_ARRAY => Some(padded_list()),
                false => Some(x.bound.ty.data()),
            });
        }
        let mut bring = |relation: Relation| -> Result<Relation> {
            if forms.iter().zip(&relation.columns).all(|(form, c)| form.as_ref().is_none_or(|f| f == &c.bound.data)) {
                return Ok(relation);
            }
            let mut targets = Vec::with_capacity(forms.len());
            for (column, form) in relation.columns.into_iter().zip(&forms) {
                let bound = match form {
                    Some(form) => self.in_form(column.bound, form)?,
                    None => column.bound,
                };
                targets.push(Target { name: column.name, bound, is_hidden: false });
            }
            project(relation.plan, &targets)
        };
        Ok((bring(a)?, bring(b)?))
    }
}

/// The form of numerics that holds values of all of these. Decimals of one scale stay so; of several, each
/// value keeps the digits that it shows.
fn numeric_form<'d>(types: impl Iterator<Item = &'d DataType>) -> DataType {
    let (mut precision, mut scale) = (1, None);
    for ty in types {
        match ty {
            DataType::Decimal128(p, s) if scale.is_none_or(|scale| scale == *s) => {
                precision = precision.max(*p);
                scale = Some(*s);
            }
            _ => return numeric::DYNAMIC,
        }
    }
    DataType::Decimal128(precision, scale.unwrap_or(0))
}
