//! What a call's arguments become; which function it is, is compared with PostgreSQL in
//! `tests/golden.rs`.

use crate::{Call, CallKind, CastStep, Catalog, NewFunction, ResolvedFunction, TypeId as T, Variadic};

fn resolved<'a>(call: &Call<'_>) -> ResolvedFunction<'a> {
    Catalog::postgres().resolve_function(call).unwrap()
}

#[test]
fn named_arguments_find_their_parameters_and_defaults_the_rest() {
    let args = [T::INT4, T::INT4, T::NUMERIC];
    let found = resolved(&Call { arg_names: &["days", "secs"], ..Call::new("make_interval", &args) });
    assert_eq!(found.positions, Some(vec![0, 3, 6]));
    assert_eq!(found.args, [T::INT4, T::INT4, T::FLOAT8]);
    let defaults: Vec<_> = found.defaults.iter().map(|(at, sql, _)| (*at, *sql)).collect();
    assert_eq!(defaults, [(1, "0"), (2, "0"), (4, "0"), (5, "0")]);

    let found = resolved(&Call::new("jsonb_set", &[T::UNKNOWN, T::UNKNOWN, T::UNKNOWN]));
    assert_eq!(found.args, [T::JSONB, T::TEXT_ARRAY, T::JSONB]);
    assert_eq!((found.positions, found.defaults), (None, vec![(3, "true", T::BOOL)]));
}

#[test]
fn variadic_arguments() {
    // format(text, VARIADIC "any") takes them one by one.
    let found = resolved(&Call::new("format", &[T::UNKNOWN, T::INT4, T::UNKNOWN]));
    assert_eq!(found.variadic, Some(Variadic::Any { first: 1 }));
    assert_eq!(found.args, [T::TEXT, T::INT4, T::UNKNOWN]);
    // jsonb_extract_path(jsonb, VARIADIC text[]) collects them.
    let found = resolved(&Call::new("jsonb_extract_path", &[T::JSONB, T::UNKNOWN, T::VARCHAR]));
    assert_eq!(found.args, [T::JSONB, T::TEXT, T::TEXT]);
    assert_eq!(found.variadic, Some(Variadic::Collect { first: 1, element: T::TEXT, array: T::TEXT_ARRAY }));
    // or takes an array.
    let call = Call { variadic: true, ..Call::new("jsonb_extract_path", &[T::JSONB, T::UNKNOWN]) };
    let found = resolved(&call);
    assert_eq!((found.args, found.variadic), (vec![T::JSONB, T::TEXT_ARRAY], Some(Variadic::Array)));
    // VARIADIC at a function without one means nothing.
    let found = resolved(&Call { variadic: true, ..Call::new("abs", &[T::INT4]) });
    assert_eq!(found.variadic, None);
}

#[test]
fn polymorphic_arguments_are_solved() {
    let found = resolved(&Call::new("array_append", &[T::INT4_ARRAY, T::UNKNOWN]));
    assert_eq!((found.args, found.result), (vec![T::INT4_ARRAY, T::INT4], T::INT4_ARRAY));
    let found = resolved(&Call::new("array_append", &[T::INT4_ARRAY, T::NUMERIC]));
    assert_eq!((found.args, found.result), (vec![T::NUMERIC_ARRAY, T::NUMERIC], T::NUMERIC_ARRAY));
    let found = resolved(&Call::new("array_position", &[T::UNKNOWN, T::UNKNOWN]));
    assert_eq!((found.args, found.result), (vec![T::TEXT_ARRAY, T::TEXT], T::INT4));
    let found = resolved(&Call::new("unnest", &[T::DATE_ARRAY]));
    assert_eq!((found.args, found.result, found.returns_set), (vec![T::DATE_ARRAY], T::DATE, true));
}

#[test]
fn operands_of_operators() {
    let c = Catalog::postgres();
    let found = c.resolve_operator("||", Some(T::INT4_ARRAY), T::UNKNOWN).unwrap();
    assert_eq!((found.left, found.right, found.result), (Some(T::INT4_ARRAY), T::INT4_ARRAY, T::INT4_ARRAY));
    let found = c.resolve_operator("||", Some(T::INT4), T::UNKNOWN).unwrap();
    assert_eq!((found.left, found.right, found.result), (Some(T::INT4), T::TEXT, T::TEXT));
    let found = c.resolve_operator("=", Some(T::VARCHAR), T::UNKNOWN).unwrap();
    assert_eq!((found.left, found.right), (Some(T::TEXT), T::TEXT));
    let found = c.resolve_operator("-", None, T::INT2).unwrap();
    assert_eq!((found.left, found.right, found.result), (None, T::INT2, T::INT2));

    let found = c.resolve_array_operator("=", T::INT4, T::UNKNOWN).unwrap();
    assert_eq!((found.operator.left, found.operator.right, found.array), (Some(T::INT4), T::INT4, T::INT4_ARRAY));
    let found = c.resolve_array_operator("=", T::INT4, T::NUMERIC_ARRAY).unwrap();
    assert_eq!((found.operator.left, found.array), (Some(T::NUMERIC), T::NUMERIC_ARRAY));
    let found = c.resolve_array_operator("=", T::VARCHAR, T::VARCHAR_ARRAY).unwrap();
    assert_eq!((found.operator.left, found.array), (Some(T::TEXT), T::TEXT_ARRAY));
}

#[test]
fn casts_written_as_functions() {
    let found = resolved(&Call::new("date", &[T::UNKNOWN]));
    let CallKind::Cast(plan) = &found.kind else { panic!("{found:?}") };
    assert_eq!(plan.steps, [CastStep::Input { ty: T::DATE, typmod: -1 }]);
    // A parameter has no text to read: date(timestamp) and date(timestamptz) would both do, and the
    // latter is preferred.
    let found = resolved(&Call { is_parameter: true, ..Call::new("date", &[T::UNKNOWN]) });
    assert_eq!(found.args, [T::TIMESTAMPTZ]);
}

#[test]
fn hypothetical_arguments_are_of_the_columns_type() {
    let args = [T::INT4, T::UNKNOWN, T::NUMERIC, T::VARCHAR];
    let call = Call { within_group: true, order_by: 2, ..Call::new("rank", &args) };
    assert_eq!(resolved(&call).args, [T::NUMERIC, T::VARCHAR, T::NUMERIC, T::VARCHAR]);
}

#[test]
fn own_functions_are_resolved_like_others() {
    const OWN: &[NewFunction] = &[
        NewFunction { defaults: &["10"], ..NewFunction::scalar("resurgam_sample", &[T::TEXT, T::INT8], T::INT8) },
        NewFunction { variadic: Some(T::TEXT), ..NewFunction::scalar("resurgam_any", &[T::TEXT_ARRAY], T::BOOL) },
    ];
    let c = Catalog::with_functions(OWN);
    let found = c.resolve_function(&Call::new("resurgam_sample", &[T::UNKNOWN])).unwrap();
    assert_eq!((found.args, found.defaults), (vec![T::TEXT], vec![(1, "10", T::INT8)]));
    let found = c.resolve_function(&Call::new("resurgam_any", &[T::VARCHAR, T::UNKNOWN])).unwrap();
    assert_eq!(found.args, [T::TEXT, T::TEXT]);
    let error = c.resolve_function(&Call::new("resurgam_sample", &[T::BOOL])).unwrap_err();
    assert_eq!(error.message, "function resurgam_sample(boolean) does not exist");
}
