//! Frames of windows.
//!
//! DataFusion computes a bound of RANGE as a value of the sorted column plus or minus the offset, in the column's
//! Arrow type. So that nothing overflows there (PostgreSQL takes a bound beyond the type's range for an endless
//! one), integers are sorted as wide decimals, and dates as timestamps.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, WindowFrame, WindowFrameBound, WindowFrameUnits, cast};
use datafusion::sql::sqlparser::ast::{self, Spanned};

use super::bound::{Bound, Type};
use super::expr::Clause;
use super::scope::Scope;
use super::{Analyzer, Refusal, Result, unknown};
use crate::pg::types::oid;
use crate::wire::SqlError;

/// What the offsets of RANGE are added to.
struct RangeOver {
    /// Of the sorted column.
    ty: Type,
    /// In which it is sorted.
    data: DataType,
    /// Of an offset without a type.
    offset: Type,
}

impl Analyzer<'_> {
    /// A frame, and whether it ends before it begins: then no row is in it. `sorted_by` are the values of the window's ORDER BY.
    pub(super) fn frame(
        &mut self,
        frame: &ast::WindowFrame,
        order_by: &mut Vec<Sort>,
        sorted_by: &[Bound],
        scope: &Scope<'_>,
    ) -> Result<(WindowFrame, bool)> {
        let units = match frame.units {
            ast::WindowFrameUnits::Rows => WindowFrameUnits::Rows,
            ast::WindowFrameUnits::Range => WindowFrameUnits::Range,
            ast::WindowFrameUnits::Groups => WindowFrameUnits::Groups,
        };
        if units == WindowFrameUnits::Groups && order_by.is_empty() {
            return Err(SqlError::new("42P20", "GROUPS mode requires an ORDER BY clause").into());
        }
        check_order(frame)?;
        let over = match units == WindowFrameUnits::Range && has_offset(frame) {
            true => Some(self.range_over(frame, order_by, sorted_by)?),
            false => None,
        };
        let start = self.frame_bound(&frame.start_bound, units, over.as_ref(), "starting", scope)?;
        let end = match &frame.end_bound {
            Some(end) => self.frame_bound(end, units, over.as_ref(), "ending", scope)?,
            None => WindowFrameBound::CurrentRow,
        };
        if is_empty(&start, &end) {
            // What is said of it is as good as another, which the engine takes.
            let whole = WindowFrame::new((!order_by.is_empty()).then_some(false));
            return Ok((with_peers(whole, sorted_by), true));
        }
        let mut frame = WindowFrame::new_bounds(units, start, end);
        if over.is_none() {
            frame = with_peers(frame, sorted_by);
        }
        frame.regularize_order_bys(order_by)?;
        Ok((frame, false))
    }

    /// The one column that offsets are of, sorted in a type that has room for them.
    fn range_over(&self, frame: &ast::WindowFrame, order_by: &mut [Sort], sorted_by: &[Bound]) -> Result<RangeOver> {
        let ([by], [sorted]) = (order_by, sorted_by) else {
            let text = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(self.at(SqlError::new("42P20", text), offset_span(frame)));
        };
        let ty = Type::of(sorted.ty.oid);
        let timestamp = |zone: Option<std::sync::Arc<str>>| DataType::Timestamp(TimeUnit::Microsecond, zone);
        let (data, offset) = match (ty.oid, &sorted.data) {
            (oid::INT2 | oid::INT4 | oid::INT8, _) => (DataType::Decimal128(38, 0), ty),
            (oid::FLOAT4 | oid::FLOAT8, _) => (DataType::Float64, Type::of(oid::FLOAT8)),
            (oid::NUMERIC, DataType::Decimal128(precision, scale)) if precision - *scale as u8 <= 18 => {
                (DataType::Decimal128(38, (*scale).max(18)), ty)
            }
            (oid::DATE | oid::TIMESTAMP, _) => (timestamp(None), Type::of(oid::INTERVAL)),
            (oid::TIMESTAMPTZ, data) => (data.clone(), Type::of(oid::INTERVAL)),
            (oid::NUMERIC | oid::TIME | oid::TIMETZ | oid::INTERVAL, _) => {
                return unknown(format!("RANGE with an offset over {}", ty.name()));
            }
            _ => {
                let text =
                    format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}", ty.name());
                return Err(self.at(SqlError::unsupported(text), offset_span(frame)));
            }
        };
        if sorted.data != data {
            by.expr = cast(by.expr.clone(), data.clone());
        }
        Ok(RangeOver { ty, data, offset })
    }

    fn frame_bound(
        &mut self,
        bound: &ast::WindowFrameBound,
        units: WindowFrameUnits,
        over: Option<&RangeOver>,
        side: &str,
        scope: &Scope<'_>,
    ) -> Result<WindowFrameBound> {
        let (expr, preceding) = match bound {
            ast::WindowFrameBound::CurrentRow => return Ok(WindowFrameBound::CurrentRow),
            ast::WindowFrameBound::Preceding(expr) => (expr, true),
            ast::WindowFrameBound::Following(expr) => (expr, false),
        };
        let value = match expr {
            None => ScalarValue::UInt64(None),
            Some(expr) => {
                let mode = match units {
                    WindowFrameUnits::Rows => "ROWS",
                    WindowFrameUnits::Range => "RANGE",
                    WindowFrameUnits::Groups => "GROUPS",
                };
                let bound = match self.expr(expr, &scope.without_items(), Clause::Window) {
                    Err(Refusal::Error(error)) if matches!(error.sqlstate.as_str(), "42703" | "42P01") => {
                        let text = format!("argument of {mode} must not contain variables");
                        return Err(self.at(SqlError::new("42P10", text), expr.span()));
                    }
                    other => other?,
                };
                let bound = match over {
                    Some(over) => self.range_offset(bound, over)?,
                    None => self.assigned_to(bound, Type::INT8, &format!("argument of {mode} must be type bigint"))?,
                };
                let value = crate::plan::planner::simplified(self.names.state, bound.expr.clone(), &DFSchema::empty())?;
                let Expr::Literal(value, _) = value else {
                    return unknown("an offset of a window's frame that is not a constant");
                };
                if value.is_null() {
                    let text = format!("frame {side} offset must not be null");
                    return Err(self.at(SqlError::new("22004", text), expr.span()));
                }
                match (over, &value) {
                    (None, ScalarValue::Int64(Some(count))) => match u64::try_from(*count) {
                        Ok(count) => ScalarValue::UInt64(Some(count)),
                        Err(_) => {
                            let text = format!("frame {side} offset must not be negative");
                            return Err(self.at(SqlError::new("22013", text), expr.span()));
                        }
                    },
                    (Some(over), _) => match offset_value(value, over)? {
                        Some(value) => value,
                        None => {
                            let text = "invalid preceding or following size in window function";
                            return Err(self.at(SqlError::new("22013", text), expr.span()));
                        }
                    },
                    _ => return unknown("this offset of a window's frame"),
                }
            }
        };
        Ok(if preceding { WindowFrameBound::Preceding(value) } else { WindowFrameBound::Following(value) })
    }

    /// An offset of RANGE in its type.
    fn range_offset(&mut self, offset: Bound, over: &RangeOver) -> Result<Bound> {
        if offset.ty.is_unknown() {
            return self.read(offset, over.offset);
        }
        let integer = |ty: Type| matches!(ty.oid, oid::INT2 | oid::INT4 | oid::INT8);
        let fits = match over.ty.oid {
            // There is none of smallint and bigint the other way round, but that is an extension.
            oid::INT2 | oid::INT4 => integer(offset.ty),
            oid::INT8 => offset.ty.oid == oid::INT8 || integer(offset.ty),
            oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC => {
                let span = offset.span;
                let found = super::coerce::catalog().coerce(
                    offset.ty.id(),
                    -1,
                    over.offset.id(),
                    -1,
                    resurgam_dialect::CastContext::Implicit,
                );
                return match found {
                    Some(_) => Ok(self.implicit(offset, over.offset)?.at(span)),
                    None => Err(self.no_such_offset(&offset, over)),
                };
            }
            _ => offset.ty.oid == oid::INTERVAL,
        };
        if fits { Ok(offset) } else { Err(self.no_such_offset(&offset, over)) }
    }

    fn no_such_offset(&self, offset: &Bound, over: &RangeOver) -> Refusal {
        let text = format!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {}",
            over.ty.name(),
            offset.ty.name()
        );
        let error = SqlError::unsupported(text).with_hint("Cast the offset value to an appropriate type.");
        self.at(error, offset.span)
    }
}

/// Whether a frame ends before it begins, whatever the row.
fn is_empty(start: &WindowFrameBound, end: &WindowFrameBound) -> bool {
    use WindowFrameBound as B;
    let known = |value: &ScalarValue| !value.is_null();
    match (start, end) {
        (B::Preceding(start), B::Preceding(end)) => known(start) && known(end) && start < end,
        (B::Following(start), B::Following(end)) => known(start) && known(end) && start > end,
        _ => false,
    }
}

/// A frame of RANGE without offsets is one of GROUPS: DataFusion knows RANGE of some types only.
pub(super) fn with_peers(frame: WindowFrame, sorted_by: &[Bound]) -> WindowFrame {
    let knows = |data: &DataType| {
        data.is_numeric()
            || data.is_string()
            || matches!(data, DataType::Boolean | DataType::Date32 | DataType::Timestamp(..))
            || data == &crate::pg::functions::numeric::DYNAMIC
    };
    match frame.units == WindowFrameUnits::Range && !sorted_by.iter().all(|bound| knows(&bound.data)) {
        true => WindowFrame::new_bounds(WindowFrameUnits::Groups, frame.start_bound, frame.end_bound),
        false => frame,
    }
}

/// An offset in the type in which the column is sorted; `None` if it is negative.
fn offset_value(value: ScalarValue, over: &RangeOver) -> Result<Option<ScalarValue>> {
    if let ScalarValue::IntervalMonthDayNano(Some(interval)) = &value {
        let (months, days, nanos) = (interval.months, interval.days, interval.nanoseconds);
        if over.ty.oid == oid::TIMESTAMPTZ && (months != 0 || days != 0) {
            return unknown("RANGE with an offset of days over timestamp with time zone");
        }
        if months < 0 || days < 0 || nanos < 0 {
            return Ok(None);
        }
        return Ok(Some(value));
    }
    let value = value.cast_to(&over.data)?;
    let negative = match &value {
        ScalarValue::Decimal128(Some(value), _, _) => *value < 0,
        // A bound beside rows that are infinite, too, would be no number.
        ScalarValue::Float64(Some(value)) if value.is_infinite() && *value > 0.0 => {
            return unknown("an infinite offset of RANGE");
        }
        ScalarValue::Float64(Some(value)) => *value < 0.0 || value.is_nan(),
        _ => return unknown("this offset of a window's frame"),
    };
    Ok((!negative).then_some(value))
}

fn has_offset(frame: &ast::WindowFrame) -> bool {
    use ast::WindowFrameBound as B;
    let offset = |bound: &B| matches!(bound, B::Preceding(Some(_)) | B::Following(Some(_)));
    offset(&frame.start_bound) || frame.end_bound.as_ref().is_some_and(offset)
}

fn offset_span(frame: &ast::WindowFrame) -> datafusion::sql::sqlparser::tokenizer::Span {
    use ast::WindowFrameBound as B;
    match (&frame.start_bound, &frame.end_bound) {
        (B::Preceding(Some(expr)) | B::Following(Some(expr)), _) => expr.span(),
        (_, Some(B::Preceding(Some(expr)) | B::Following(Some(expr)))) => expr.span(),
        _ => datafusion::sql::sqlparser::tokenizer::Span::empty(),
    }
}

/// `42P20` for a frame that ends before it begins, by its words.
fn check_order(frame: &ast::WindowFrame) -> Result<()> {
    use ast::WindowFrameBound as B;
    let end = frame.end_bound.as_ref().unwrap_or(&B::CurrentRow);
    let wrong = match (&frame.start_bound, end) {
        (B::Following(None), _) => "frame start cannot be UNBOUNDED FOLLOWING",
        (_, B::Preceding(None)) => "frame end cannot be UNBOUNDED PRECEDING",
        (B::CurrentRow, B::Preceding(_)) => "frame starting from current row cannot have preceding rows",
        (B::Following(_), B::CurrentRow) if frame.end_bound.is_none() => {
            "frame starting from following row cannot end with current row"
        }
        (B::Following(_), B::CurrentRow | B::Preceding(_)) => {
            "frame starting from following row cannot have preceding rows"
        }
        _ => return Ok(()),
    };
    Err(SqlError::new("42P20", wrong).into())
}
