//! Reads the checked-in tables. A malformed line is a defect of this crate, found by its tests, and
//! panics with the line.

use std::collections::HashMap;
use std::fmt::Debug;
use std::str::FromStr;

use super::entry::*;
use super::kinds::*;
use crate::types::TypeId;

/// The fields of one line, taken in their order.
struct Fields {
    line: &'static str,
    rest: std::str::Split<'static, char>,
}

impl Fields {
    fn text(&mut self) -> &'static str {
        match self.rest.next() {
            Some(field) => field,
            None => panic!("too few fields: {}", self.line),
        }
    }

    fn get<T: FromStr<Err: Debug>>(&mut self) -> T {
        let text = self.text();
        text.parse().unwrap_or_else(|e| panic!("field {text:?}: {e:?}: {}", self.line))
    }

    fn letter(&mut self) -> char {
        self.get()
    }

    fn bool(&mut self) -> bool {
        self.text() == "t"
    }

    fn ty(&mut self) -> TypeId {
        TypeId(self.get())
    }

    fn optional(&mut self) -> Option<TypeId> {
        Some(self.ty()).filter(|ty| ty.0 != 0)
    }

    fn types(&mut self) -> Vec<TypeId> {
        let text = self.text();
        let one = |oid: &str| TypeId(oid.parse().unwrap_or_else(|e| panic!("{oid:?}: {e}: {text}")));
        text.split_ascii_whitespace().map(one).collect()
    }

    /// No field of the tables is an empty text.
    fn nullable(&mut self) -> Option<&'static str> {
        Some(self.text()).filter(|text| !text.is_empty())
    }

    fn schema(&mut self) -> Schema {
        let name = self.text();
        Schema::from_name(name).unwrap_or_else(|| panic!("schema {name}"))
    }
}

fn table<T>(text: &'static str, mut entry: impl FnMut(&mut Fields) -> T) -> Vec<T> {
    text.lines()
        .filter(|line| !line.starts_with("# ") && !line.is_empty())
        .map(|line| entry(&mut Fields { line, rest: line.split('\t') }))
        .collect()
}

pub(super) fn types() -> Vec<Type> {
    table(include_str!("../../data/types.txt"), |f| Type {
        oid: f.ty(),
        name: f.text(),
        schema: f.schema(),
        len: f.get(),
        by_value: f.bool(),
        kind: TypeKind::from_letter(f.letter()),
        category: f.letter(),
        preferred: f.bool(),
        delimiter: f.letter(),
        relation: f.get(),
        subscript: f.text(),
        element: f.optional(),
        array: f.optional(),
        input: f.get(),
        output: f.get(),
        receive: f.get(),
        send: f.get(),
        typmod_in: f.get(),
        typmod_out: f.get(),
        analyze: f.get(),
        align: f.letter(),
        storage: f.letter(),
        not_null: f.bool(),
        base: f.optional(),
        typmod: f.get(),
        dimensions: f.get(),
        collation: f.get(),
        subtype: f.optional(),
        multirange: f.optional(),
    })
}

pub(super) fn operators() -> Vec<Operator> {
    operators_of(include_str!("../../data/operators.txt"))
}

/// Those of the extension `citext`.
pub(super) fn citext_operators() -> Vec<Operator> {
    operators_of(include_str!("../../data/citext_operators.txt"))
}

fn operators_of(text: &'static str) -> Vec<Operator> {
    table(text, |f| {
        let (oid, name, _kind) = (f.get(), f.text(), f.letter());
        let (can_merge, can_hash) = (f.bool(), f.bool());
        Operator {
            oid,
            name,
            left: f.optional(),
            right: f.ty(),
            result: f.ty(),
            can_merge,
            can_hash,
            commutator: f.get(),
            negator: f.get(),
            code: f.get(),
            restriction: f.get(),
            join: f.get(),
        }
    })
}

pub(super) fn functions() -> Vec<Function> {
    table(include_str!("../../data/functions.txt"), |f| {
        let (oid, name, schema) = (f.get(), f.text(), f.schema());
        function(f, oid, name, schema)
    })
}

/// Functions of extensions, each with the extension's name.
pub(super) fn extensions() -> Vec<(&'static str, Function)> {
    table(include_str!("../../data/extensions.txt"), |f| {
        let (oid, name, extension) = (f.get(), f.text(), f.text());
        (extension, function(f, oid, name, Schema::PgCatalog))
    })
}

/// The fields of a function's line behind its schema.
fn function(f: &mut Fields, oid: u32, name: &'static str, schema: Schema) -> Function {
    let language = f.text();
    let (cost, rows, variadic, support) = (f.get(), f.get(), f.optional(), f.get());
    let kind = FunctionKind::from_letter(f.letter());
    let (security_definer, leakproof, strict, returns_set) = (f.bool(), f.bool(), f.bool(), f.bool());
    let (volatility, parallel) = (Volatility::from_letter(f.letter()), Parallel::from_letter(f.letter()));
    let (result, args, all_args) = (f.ty(), f.types(), f.types());
    let modes = f.text().chars().map(ArgMode::from_letter).collect();
    let names = match f.text() {
        "" => Vec::new(),
        names => names.split(',').collect(),
    };
    let count: usize = f.get();
    let defaults = defaults(f.text(), args.get(args.len().saturating_sub(count)..).unwrap_or(&[]));
    let source = f.text();
    Function {
        oid,
        name,
        schema,
        language,
        kind,
        args,
        all_args,
        modes,
        names,
        variadic,
        defaults,
        result,
        returns_set,
        strict,
        volatility,
        parallel,
        leakproof,
        security_definer,
        cost,
        rows,
        support,
        source,
    }
}

/// The defaults of the last parameters, which have the types `types`: constants, none with a comma
/// in it, each of its parameter's type.
fn defaults(text: &'static str, types: &[TypeId]) -> Vec<Default> {
    if types.is_empty() {
        return Vec::new();
    }
    let all: Vec<_> = text.split(", ").zip(types).map(|(sql, &ty)| Default { sql, ty }).collect();
    assert_eq!(all.len(), types.len(), "defaults {text}");
    all
}

pub(super) fn casts() -> Vec<Cast> {
    casts_of(include_str!("../../data/casts.txt"))
}

pub(super) fn citext_casts() -> Vec<Cast> {
    casts_of(include_str!("../../data/citext_casts.txt"))
}

fn casts_of(text: &'static str) -> Vec<Cast> {
    table(text, |f| Cast {
        oid: f.get(),
        source: f.ty(),
        target: f.ty(),
        function: f.get(),
        context: CastContext::from_letter(f.letter()),
        method: CastMethod::from_letter(f.letter()),
    })
}

pub(super) fn aggregates() -> HashMap<u32, Aggregate> {
    aggregates_of(include_str!("../../data/aggregates.txt"))
}

pub(super) fn citext_aggregates() -> HashMap<u32, Aggregate> {
    aggregates_of(include_str!("../../data/citext_aggregates.txt"))
}

fn aggregates_of(text: &'static str) -> HashMap<u32, Aggregate> {
    let all = table(text, |f| Aggregate {
        function: f.get(),
        kind: AggregateKind::from_letter(f.letter()),
        direct_args: f.get(),
        transition: f.get(),
        last: f.get(),
        combine: f.get(),
        serialize: f.get(),
        deserialize: f.get(),
        moving_transition: f.get(),
        moving_inverse: f.get(),
        moving_last: f.get(),
        last_extra: f.bool(),
        moving_last_extra: f.bool(),
        last_modify: f.letter(),
        moving_last_modify: f.letter(),
        sort_operator: f.get(),
        state: f.ty(),
        state_space: f.get(),
        moving_state: f.optional(),
        moving_state_space: f.get(),
        initial: f.nullable(),
        moving_initial: f.nullable(),
    });
    all.into_iter().map(|a| (a.function, a)).collect()
}

pub(super) fn classes() -> HashMap<TypeId, OperatorClass> {
    let all = table(include_str!("../../data/opclasses.txt"), |f| OperatorClass {
        ty: f.ty(),
        btree_family: f.get(),
        less: f.get(),
        equal: f.get(),
        greater: f.get(),
        hash_family: f.get(),
        hash_equal: f.get(),
    });
    all.into_iter().map(|c| (c.ty, c)).collect()
}
