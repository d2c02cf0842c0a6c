//! Functions that PostgreSQL has and DataFusion lacks, or has with another meaning.
//!
//! - [`define`]: how a function is written down here
//! - `session`: who, where, when; settings
//! - `catalog`: `pg_get_…`, `pg_…_is_visible`, sizes
//! - `privileges`: `has_…_privilege`
//! - `cast`: `pg_cast_TYPE`, which casts are rewritten to
//! - `letters`: capital and small letters, the ends of texts
//! - `strings`: padding, joining, parts
//! - `encodings`: `encode`, `decode`
//! - `text`: quoting, patterns, `format`
//! - `time`: `now()` and its kin, `age`, `timezone`
//! - `extract`: `extract`, `date_part`
//! - `fields`: `date_trunc`
//! - `floats`: floating-point arithmetic and functions
//! - `moments`: arithmetic of dates, times and intervals
//! - `zoned_times`: `time with time zone`
//! - `to_char`: `to_char`, `to_date`, `to_timestamp`; `format_number`, `format_time`, `parse_time`: its templates
//! - `are`: regular expressions
//! - `bits`: `bit` and `bit varying`
//! - `arrays`, `math`: what their names say
//! - `checked`: integer arithmetic that does not wrap around, one kind of NaN
//! - `advisory`: advisory locks
//! - `aggregate`: `pg_single`
//! - `nullable`: `pg_nullable`
//! - `numeric`: `numeric` of any digits, and aggregates of numbers
//! - `percentile`: `percentile_cont`, `percentile_disc`, `mode`
//! - `int_xor`: `#` of integers
//! - `interval_aggregate`: `sum`, `avg`, `min`, `max` of intervals
//! - `float_extremes`: `min` and `max` of floats by groups
//! - `json`: values as JSON
//! - `jsonpath`: what paths find in documents
//! - `bytea`: functions of `bytea` that share their names with others
//! - `identifiers`: `parse_ident`, `unistr`, `pg_size_bytes`
//! - `hashes`, `random`: values that are PostgreSQL's bit by bit
//! - `reg_names`: `to_regproc` and its kin; `keywords`: `pg_get_keywords`
//! - `sends`: `int4send` and its kin
//! - `sequence`: `nextval` and its kin
//! - `series`: `generate_series`
//! - `modifiers`: what type modifiers say
//! - `growing`: bounds of what makes long texts
//!
//! Volatility: what depends on the session but not on the statement is `Volatile`, so that
//! it is never folded into a plan; `now()` and its kin are `Stable`: they are folded, and plans
//! with them are made anew for each statement.

mod advisory;
mod aggregate;
pub(crate) mod are;
pub mod array_blanks;
mod array_made;
mod array_slice;
mod arrays;
mod bits;
mod bytea;
mod call_name;
pub(crate) mod cast;
mod catalog;
mod checked;
mod column_size;
mod crypt;
mod define;
mod dump;
mod encodings;
mod extract;
mod fields;
mod float_extremes;
mod floats;
mod format_number;
mod format_time;
mod growing;
mod hashes;
mod identifiers;
mod int_xor;
mod interval_aggregate;
mod json;
mod json_parts;
mod json_records;
mod json_scan;
mod json_sets;
mod json_values;
mod jsonb;
mod jsonpath;
mod keywords;
mod letters;
mod like;
mod math;
mod modifiers;
mod moments;
mod network;
mod notify;
mod nullable;
pub mod numeric;
mod objects;
pub(crate) mod order_key;
mod overlaps;
pub(crate) mod parse_time;
mod percentile;
mod pgcrypto;
mod privileges;
mod random;
mod ranges;
mod read_number;
mod reg_names;
mod sends;
mod sequence;
mod series;
mod session;
mod strict;
mod strings;
mod text;
mod time;
mod to_char;
mod user_types;
mod uuids;
mod window_excluding;
mod window_values;
mod zoned_times;

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ScalarUDF;

pub use are::OPERATORS as REGEX_OPERATORS;
pub use bits::bits_aggregate;
pub use call_name::call_name;
pub use checked::checked_arithmetic;
pub use float_extremes::float_extreme;
pub use int_xor::INT_XOR;
pub use interval_aggregate::interval_aggregate;
pub(crate) use letters::lower;
pub use like::{ends_with_escape, like_pattern, like_pattern_name};
pub use moments::time_operator;
pub use order_key::NAME as ORDER_KEY;
pub(crate) use reg_names::function_of_oid;
pub use series::{SeriesFunction, SeriesRows, series_call_name, series_function};
pub use strict::parameters_that_leave_out;
pub use strings::{PIECE, PIECES};
pub use text::{quote_ident, quote_literal, similar_to_regex};
pub use time::timestamp_of_date;
pub use user_types::{cast_to_user_type, domain_check, enum_range};
pub use window_excluding::{Excluded, excluding};
pub use window_values::{sorts_at_the_end, sorts_itself, watched};

use crate::context::PgContext;

/// Adds everything to a session's state.
///
/// # Errors
/// Only if the state refuses registrations, which it does not.
pub fn register(state: &mut SessionState, cx: &Arc<dyn PgContext>) -> DfResult<()> {
    for udf in datafusion_functions_nested::all_default_nested_functions() {
        state.register_udf(udf)?;
    }
    if let Ok(series) = state.udf("generate_series") {
        state.register_udf(Arc::new(arrays::finite_series(series)))?;
    }
    if let Ok(has) = state.udf("array_has") {
        state.register_udf(Arc::new(arrays::array_has(has)))?;
    }
    state.add_analyzer_rule(Arc::new(checked::CheckedArithmetic::new()));
    for function in all(cx) {
        state.register_udf(Arc::new(function.into_udf()))?;
    }
    for udf in cast::all(cx) {
        state.register_udf(Arc::new(udf))?;
    }
    for udf in time::special(cx) {
        state.register_udf(Arc::new(udf))?;
    }
    for function in numeric::functions() {
        state.register_udf(function)?;
    }
    state.register_udaf(Arc::new(aggregate::pg_single()))?;
    // names that only differ
    for (alias, name) in [("char_length", "character_length")] {
        if let Ok(udf) = state.udf(name)
            && !udf.aliases().iter().any(|known| known == alias)
        {
            let renamed = udf.as_ref().clone().with_aliases([alias]);
            state.register_udf(Arc::new(renamed))?;
        }
    }
    for (alias, name) in [("every", "bool_and"), ("variance", "var")] {
        if let Ok(udaf) = state.udaf(name) {
            state.register_udaf(Arc::new(udaf.as_ref().clone().with_aliases([alias])))?;
        }
    }
    for udaf in numeric::aggregates() {
        state.register_udaf(udaf)?;
    }
    for udaf in percentile::all() {
        state.register_udaf(Arc::new(udaf))?;
    }
    for overloaded in numeric::overloads(|name| state.udf(name).ok()) {
        state.register_udf(Arc::new(overloaded))?;
    }
    if let Some(keys) = numeric::keys::NumericKeys::new() {
        state.add_analyzer_rule(Arc::new(keys));
    }
    for bounded in growing::bounded(state) {
        state.register_udf(Arc::new(bounded))?;
    }
    for series in series::functions(cx) {
        state.register_udf(Arc::new(series))?;
    }
    for pattern in like::functions() {
        state.register_udf(Arc::new(pattern))?;
    }
    Ok(())
}

/// Whether a function is known here by what computes it in PostgreSQL (`pg_proc.prosrc`), as several types' share a name.
pub fn is_by_source(source: &str) -> bool {
    network::is_of_network(source)
        || ranges::is_of_ranges(source)
        || zoned_times::NAMES.contains(&source)
        || bits::NAMES.contains(&source)
        || bytea::NAMES.contains(&source)
        || matches!(source, "width_bucket_array" | "xid_age")
}

/// The function whose values intervals compare by.
pub fn interval_key() -> ScalarUDF {
    moments::interval_key_function().into_udf()
}

/// The function whose values documents and arrays compare by.
pub fn order_key() -> ScalarUDF {
    order_key::function().into_udf()
}

/// What `greatest` and `least` of intervals are.
pub(crate) fn interval_extreme(greatest: bool) -> ScalarUDF {
    moments::extreme(greatest).into_udf()
}

/// What `greatest` and `least` of documents and arrays are.
pub(crate) fn order_extreme(greatest: bool) -> ScalarUDF {
    order_key::extreme(greatest).into_udf()
}

/// Whether a function is bound to the session it was registered for, so that a plan with it
/// must not be given to another.
pub fn is_session_function(name: &str) -> bool {
    session::NAMES.contains(&name)
        || advisory::NAMES.contains(&name)
        || sequence::NAMES.contains(&name)
        || notify::NAMES.contains(&name)
        || dump::NAMES.contains(&name)
        || catalog::NAMES.contains(&name)
        || objects::is_of_session(name)
        || privileges::NAMES.contains(&name)
        || time::SESSION_NAMES.contains(&name)
        || random::NAMES.contains(&name)
        || reg_names::NAMES.contains(&name)
        || name.starts_with("pg_cast_")
        || series::is_of_session(name)
        || json::SESSION_NAMES.contains(&name)
        || jsonpath::SESSION_NAMES.contains(&name)
        || name == "to_char"
        || name == "to_timestamp"
        || name == "to_date"
}

fn all(cx: &Arc<dyn PgContext>) -> Vec<define::PgFunction> {
    let mut out = session::all(cx);
    out.extend(advisory::all(cx));
    out.extend(sequence::all(cx));
    out.extend(notify::all(cx));
    out.extend(dump::all(cx));
    out.extend(catalog::all(cx));
    out.extend(objects::all(cx));
    out.extend(privileges::all(cx));
    out.extend(text::all());
    out.extend(time::all(cx));
    out.extend(extract::all(cx));
    out.extend(to_char::all(cx));
    out.extend(arrays::all());
    out.extend(array_blanks::all());
    out.extend(array_made::all());
    out.extend(math::all());
    out.extend(int_xor::all());
    out.extend(floats::all());
    out.extend(are::all());
    out.extend(letters::all());
    out.extend(strings::all());
    out.extend(encodings::all());
    out.extend(uuids::all());
    out.extend(network::all());
    out.extend(ranges::all());
    out.extend(zoned_times::all(cx));
    out.extend(bits::all());
    out.extend(bytea::all());
    out.extend(column_size::all());
    out.extend(hashes::all());
    out.extend(identifiers::all());
    out.extend(keywords::all());
    out.extend(modifiers::all());
    out.extend(random::all());
    out.extend(read_number::all());
    out.extend(reg_names::all(cx));
    out.extend(sends::all());
    out.extend(pgcrypto::all());
    out.extend(crypt::all());
    out.extend(nullable::all());
    out.extend(json::all(cx));
    out.extend(jsonb::all());
    out.extend(jsonpath::all(cx));
    out.extend(json_parts::all());
    out.extend(json_values::all());
    out.extend(json_sets::all());
    out.extend(json_records::all());
    out.push(order_key::function());
    out.push(array_slice::function());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::TestContext;

    #[test]
    fn session_functions_are_known_as_such() {
        let cx: Arc<dyn PgContext> = Arc::new(TestContext::default());
        for function in session::all(&cx).into_iter().chain(catalog::all(&cx)).chain(privileges::all(&cx)) {
            assert!(is_session_function(function.name()), "{}", function.name());
        }
    }

    /// The query engine computes conditions with such NULLs in the place of columns: no body may end in a panic, or in an
    /// error of ours, for what it is handed.
    #[test]
    fn nulls_without_a_type_are_arguments_of_every_function() {
        use datafusion::arrow::array::new_null_array;
        use datafusion::arrow::datatypes::{DataType, Field};
        use datafusion::config::ConfigOptions;
        use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs};

        let cx: Arc<dyn PgContext> = Arc::new(TestContext::default());
        let mut failed = Vec::new();
        for function in all(&cx) {
            let (name, count) = (function.name(), function.count());
            // What makes JSON is called with a record, which is of no other type.
            if count == 0 || name.starts_with("pg_json_") {
                continue;
            }
            let untyped = vec![DataType::Null; count];
            let udf = function.into_udf();
            let Ok(types) = udf.coerce_types(&untyped) else { continue };
            // What is coerced is cast by the plan.
            let arg_fields: Vec<_> = types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
            let scalar_arguments = vec![None; count];
            let run = || {
                let return_field = udf.return_field_from_args(ReturnFieldArgs {
                    arg_fields: &arg_fields,
                    scalar_arguments: &scalar_arguments,
                })?;
                let expected = return_field.data_type().clone();
                let args = types.iter().map(|ty| ColumnarValue::Array(new_null_array(ty, 1))).collect();
                let value = udf.invoke_with_args(ScalarFunctionArgs {
                    args,
                    arg_fields: arg_fields.clone(),
                    number_rows: 1,
                    return_field,
                    config_options: Arc::new(ConfigOptions::default()),
                })?;
                Ok::<_, datafusion::common::DataFusionError>(value.data_type() == expected)
            };
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => failed.push(format!("{name}: of another type")),
                Ok(Err(error)) if !error.to_string().contains("XX000") => {}
                Ok(Err(error)) => failed.push(format!("{name}: {error}")),
                Err(_) => failed.push(format!("{name}: panic")),
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}
