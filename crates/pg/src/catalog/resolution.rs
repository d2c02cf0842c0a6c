//! `pg_type`, `pg_operator`, `pg_proc`, `pg_cast` and `pg_aggregate`: the tables by which statements are
//! resolved, shown. They have all that PostgreSQL has built in, also what is not implemented here.
//!
//! Left out: trees of parsed SQL (`prosqlbody`) and privileges. Defaults of parameters are their SQL,
//! as `pg_get_expr` gives it.

use resurgam_dialect::{Cast, Catalog, Function, Operator, Schema, Type, TypeId, TypeKind, quote_identifier};

use super::namespaces::schema_oid;
use super::rows::{Rows, V};
use super::{INFORMATION_SCHEMA_OID, PG_CATALOG_OID, SUPERUSER_OID};
use crate::operator_classes::default_class;

/// Fills a relation; false if it is not one of these.
pub(super) fn fill(name: &str, rows: &mut Rows<'_>) -> bool {
    let catalog = Catalog::postgres();
    match name {
        "pg_type" => catalog.types().iter().for_each(|ty| pg_type(catalog, rows, ty, None)),
        "pg_operator" => catalog.operators().iter().for_each(|operator| pg_operator(catalog, rows, operator)),
        "pg_proc" => catalog.functions().iter().for_each(|function| pg_proc(catalog, rows, function)),
        "pg_aggregate" => pg_aggregate(catalog, rows),
        "pg_range" => pg_range(catalog, rows),
        "pg_cast" => {
            catalog.casts().iter().for_each(|cast| pg_cast(rows, cast));
        }
        _ => return false,
    }
    true
}

fn namespace(schema: Schema) -> V {
    match schema {
        Schema::PgCatalog => PG_CATALOG_OID,
        Schema::InformationSchema => INFORMATION_SCHEMA_OID,
        Schema::User(name, _) => schema_oid(name),
    }
    .into()
}

fn type_oid(ty: Option<TypeId>) -> V {
    ty.map_or(0, |ty| ty.0).into()
}

/// A function as `regproc` prints it: its name, with the schema where the name alone is of several.
fn regproc(catalog: &Catalog, oid: u32) -> V {
    let Some(function) = catalog.function(oid) else { return "-".into() };
    let name = quote_identifier(function.name);
    let own = |schema: Schema| catalog.functions_named(schema, function.name).count();
    let of_users = catalog.user_functions().iter().filter(|other| other.name == function.name).count();
    let alone = match function.schema {
        Schema::PgCatalog => own(Schema::PgCatalog) == 1,
        Schema::User(_, true) => own(Schema::PgCatalog) == 0 && of_users == 1,
        _ => false,
    };
    if alone {
        return name.into_owned().into();
    }
    format!("{}.{name}", function.schema.name()).into()
}

pub(super) fn pg_type(catalog: &Catalog, rows: &mut Rows<'_>, ty: &Type, default: Option<&str>) {
    let function = |oid| regproc(catalog, oid);
    rows.add([
        ("oid", ty.oid.0.into()),
        ("typname", ty.name.into()),
        ("typnamespace", namespace(ty.schema)),
        ("typowner", SUPERUSER_OID.into()),
        ("typlen", ty.len.into()),
        ("typbyval", ty.by_value.into()),
        ("typtype", ty.kind.letter().into()),
        ("typcategory", ty.category.into()),
        ("typispreferred", ty.preferred.into()),
        ("typisdefined", true.into()),
        ("typdelim", ty.delimiter.into()),
        ("typrelid", ty.relation.into()),
        ("typsubscript", ty.subscript.into()),
        ("typelem", type_oid(ty.element)),
        ("typarray", type_oid(ty.array)),
        ("typinput", function(ty.input)),
        ("typoutput", function(ty.output)),
        ("typreceive", function(ty.receive)),
        ("typsend", function(ty.send)),
        ("typmodin", function(ty.typmod_in)),
        ("typmodout", function(ty.typmod_out)),
        ("typanalyze", function(ty.analyze)),
        ("typalign", ty.align.into()),
        ("typstorage", ty.storage.into()),
        ("typnotnull", ty.not_null.into()),
        ("typbasetype", type_oid(ty.base)),
        ("typtypmod", ty.typmod.into()),
        ("typndims", ty.dimensions.into()),
        ("typcollation", ty.collation.into()),
        ("typdefaultbin", default.into()),
        ("typdefault", default.into()),
    ]);
}

fn pg_range(catalog: &Catalog, rows: &mut Rows<'_>) {
    for ty in catalog.types().iter().filter(|ty| ty.kind == TypeKind::Range) {
        let function = |suffix: &str| {
            let name = format!("{}_{suffix}", ty.name);
            catalog.functions_named(Schema::PgCatalog, &name).next().map_or(0, |function| function.oid)
        };
        let subtype = ty.subtype.map_or(0, |subtype| subtype.0);
        rows.add([
            ("rngtypid", ty.oid.0.into()),
            ("rngsubtype", subtype.into()),
            ("rngmultitypid", type_oid(ty.multirange)),
            ("rngcollation", 0u32.into()),
            ("rngsubopc", default_class(subtype).into()),
            ("rngcanonical", regproc(catalog, function("canonical"))),
            ("rngsubdiff", regproc(catalog, function("subdiff"))),
        ]);
    }
}

/// The row of an operator; of one that an extension brings, `oprnamespace` is the caller's.
pub(super) fn pg_operator(catalog: &Catalog, rows: &mut Rows<'_>, operator: &Operator) {
    rows.add([
        ("oid", operator.oid.into()),
        ("oprname", operator.name.into()),
        ("oprnamespace", PG_CATALOG_OID.into()),
        ("oprowner", SUPERUSER_OID.into()),
        ("oprkind", (if operator.left.is_some() { 'b' } else { 'l' }).into()),
        ("oprcanmerge", operator.can_merge.into()),
        ("oprcanhash", operator.can_hash.into()),
        ("oprleft", type_oid(operator.left)),
        ("oprright", operator.right.0.into()),
        ("oprresult", operator.result.0.into()),
        ("oprcom", operator.commutator.into()),
        ("oprnegate", operator.negator.into()),
        ("oprcode", regproc(catalog, operator.code)),
        ("oprrest", regproc(catalog, operator.restriction)),
        ("oprjoin", regproc(catalog, operator.join)),
    ]);
}

pub(super) fn pg_cast(rows: &mut Rows<'_>, cast: &Cast) {
    rows.add([
        ("oid", cast.oid.into()),
        ("castsource", cast.source.0.into()),
        ("casttarget", cast.target.0.into()),
        ("castfunc", cast.function.into()),
        ("castcontext", cast.context.letter().into()),
        ("castmethod", cast.method.letter().into()),
    ]);
}

/// The row of a function; of one in a schema of users, `pronamespace` is the caller's.
pub(super) fn pg_proc(catalog: &Catalog, rows: &mut Rows<'_>, function: &Function) {
    let language: u32 = match function.language {
        "c" => 13,
        "sql" => 14,
        _ => 12,
    };
    let types = |all: &[TypeId]| V::List(all.iter().map(|ty| ty.0.into()).collect());
    let some = |given: bool, list: V| if given { list } else { V::Null };
    let modes = V::List(function.modes.iter().map(|mode| mode.letter().into()).collect());
    let names = V::List(function.names.iter().map(|name| (*name).into()).collect());
    let defaults: Vec<&str> = function.defaults.iter().map(|default| default.sql).collect();
    rows.add([
        ("oid", function.oid.into()),
        ("proname", function.name.into()),
        ("pronamespace", namespace(function.schema)),
        ("proowner", SUPERUSER_OID.into()),
        ("prolang", language.into()),
        ("procost", f64::from(function.cost).into()),
        ("prorows", f64::from(function.rows).into()),
        ("provariadic", type_oid(function.variadic)),
        ("prosupport", regproc(catalog, function.support)),
        ("prokind", function.kind.letter().into()),
        ("prosecdef", function.security_definer.into()),
        ("proleakproof", function.leakproof.into()),
        ("proisstrict", function.strict.into()),
        ("proretset", function.returns_set.into()),
        ("provolatile", function.volatility.letter().into()),
        ("proparallel", function.parallel.letter().into()),
        ("pronargs", function.args.len().into()),
        ("pronargdefaults", function.defaults.len().into()),
        ("prorettype", function.result.0.into()),
        ("proargtypes", types(&function.args)),
        ("proallargtypes", some(!function.all_args.is_empty(), types(&function.all_args))),
        ("proargmodes", some(!function.modes.is_empty(), modes)),
        ("proargnames", some(!function.names.is_empty(), names)),
        ("proargdefaults", some(!defaults.is_empty(), defaults.join(", ").into())),
        ("prosrc", function.source.into()),
    ]);
}

fn pg_aggregate(catalog: &Catalog, rows: &mut Rows<'_>) {
    for aggregate in catalog.functions().iter().filter_map(|function| catalog.aggregate(function.oid)) {
        let function = |oid| regproc(catalog, oid);
        rows.add([
            ("aggfnoid", function(aggregate.function)),
            ("aggkind", aggregate.kind.letter().into()),
            ("aggnumdirectargs", aggregate.direct_args.into()),
            ("aggtransfn", function(aggregate.transition)),
            ("aggfinalfn", function(aggregate.last)),
            ("aggcombinefn", function(aggregate.combine)),
            ("aggserialfn", function(aggregate.serialize)),
            ("aggdeserialfn", function(aggregate.deserialize)),
            ("aggmtransfn", function(aggregate.moving_transition)),
            ("aggminvtransfn", function(aggregate.moving_inverse)),
            ("aggmfinalfn", function(aggregate.moving_last)),
            ("aggfinalextra", aggregate.last_extra.into()),
            ("aggmfinalextra", aggregate.moving_last_extra.into()),
            ("aggfinalmodify", aggregate.last_modify.into()),
            ("aggmfinalmodify", aggregate.moving_last_modify.into()),
            ("aggsortop", aggregate.sort_operator.into()),
            ("aggtranstype", aggregate.state.0.into()),
            ("aggtransspace", aggregate.state_space.into()),
            ("aggmtranstype", type_oid(aggregate.moving_state)),
            ("aggmtransspace", aggregate.moving_state_space.into()),
            ("agginitval", aggregate.initial.into()),
            ("aggminitval", aggregate.moving_initial.into()),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, StringViewArray, UInt32Array};

    use super::super::{provider, system_relation, tests::TestContext};

    /// A column of a relation's row whose oid is `oid`, as text.
    fn text(relation: &str, oid: u32, column: &str) -> String {
        let relation = system_relation("pg_catalog", relation).expect(relation);
        let batch = provider::build(relation, &TestContext::default()).expect("rows");
        let oids = batch.column_by_name("oid").expect("oid").as_any().downcast_ref::<UInt32Array>().expect("oids");
        let row = (0..oids.len()).find(|&row| oids.value(row) == oid).expect("row");
        let values = batch.column_by_name(column).expect(column);
        values.as_any().downcast_ref::<StringViewArray>().expect("texts").value(row).to_owned()
    }

    #[test]
    fn rows_are_postgresqls() {
        assert_eq!(text("pg_type", 1043, "typmodin"), "varchartypmodin");
        assert_eq!(text("pg_type", 1009, "typsubscript"), "array_subscript_handler");
        assert_eq!(text("pg_operator", 98, "oprcode"), "texteq");
        assert_eq!(text("pg_operator", 349, "oprcode"), "array_append");
        assert_eq!(text("pg_operator", 3285, "oprcode"), "pg_catalog.jsonb_delete");
        assert_eq!(text("pg_type", 1009, "typanalyze"), "array_typanalyze");
        assert_eq!(text("pg_proc", 870, "prosrc"), "lower");
        assert_eq!(text("pg_proc", 3305, "proargdefaults"), "true");
    }
}
