use super::*;

#[test]
fn the_tables_are_whole() {
    let c = Catalog::postgres();
    assert_eq!((c.types().len(), c.operators().len(), c.functions().len()), (611, 799, 3245));
    assert_eq!((c.casts().len(), c.aggregates.len()), (229, 148));
    for t in c.types() {
        for other in [t.element, t.array, t.base, t.subtype, t.multirange].into_iter().flatten() {
            assert!(c.type_of(other).is_some(), "{}: {other}", t.name);
        }
    }
    for o in c.operators() {
        assert!(o.code == 0 || c.function(o.code).is_some(), "{}", o.name);
        assert!(c.type_of(o.result).is_some_and(|_| c.type_of(o.right).is_some()), "{}", o.name);
    }
    for f in c.functions() {
        assert!(f.args.iter().chain(&f.all_args).chain([&f.result]).all(|t| c.type_of(*t).is_some()), "{}", f.name);
        // satisfies_hash_partition has a mode without an entry in proallargtypes.
        assert!(f.modes.len() == f.all_args.len() || f.all_args.is_empty(), "{}", f.name);
        assert_eq!(f.kind == FunctionKind::Aggregate, c.aggregate(f.oid).is_some(), "{}", f.name);
    }
    for cast in c.casts() {
        assert_eq!(cast.method == CastMethod::Function, c.function(cast.function).is_some(), "{cast:?}");
    }
}

#[test]
fn own_functions_stand_beside_postgresqls() {
    let own = NewFunction {
        columns: &[("page", TypeId::INT8), ("why", TypeId::TEXT)],
        result: TypeId::RECORD,
        returns_set: true,
        ..NewFunction::scalar("resurgam_pages", &[TypeId::TEXT], TypeId::RECORD)
    };
    let c = Catalog::with_functions(&[own]);
    let f = c.function_exact("resurgam_pages", &[TypeId::TEXT]).unwrap();
    assert_eq!(f.oid, FIRST_OWN_OID);
    assert_eq!(f.out_columns(), [("page", TypeId::INT8), ("why", TypeId::TEXT)]);
    assert!(Catalog::postgres().function_exact("resurgam_pages", &[TypeId::TEXT]).is_none());
}
