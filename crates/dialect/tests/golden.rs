//! Resolution against PostgreSQL 15's own answers, kept in `golden/` (written by `golden/oracle.sh`).
//!
//! The files hold what PostgreSQL chose, or the SQLSTATE of its error, for every combination of a list
//! of types; a combination that is not there failed with the file's usual SQLSTATE. The tests go
//! through all combinations, so an operator too many is found as well as one too few.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use resurgam_dialect::{
    Call, CallKind, CastContext, CastPlan, CastStep, Catalog, ResolveError, Schema, TypeId, same_typmod,
};

fn read(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn catalog() -> &'static Catalog {
    Catalog::postgres()
}

fn ty(name: &str) -> TypeId {
    let (schema, name) = match name.split_once('.') {
        Some((schema, name)) => (Schema::from_name(schema).unwrap(), name),
        None => (Schema::PgCatalog, name),
    };
    catalog().type_named(schema, name).unwrap_or_else(|| panic!("type {name}")).oid
}

/// A list of types that the files were made with: `all`, `common`, `few`.
fn types(list: &str) -> Vec<(String, TypeId)> {
    let text = read("types.txt");
    let line = text.lines().find_map(|line| line.strip_prefix(list)?.strip_prefix(' ')).unwrap();
    line.split(' ').map(|name| (name.to_string(), ty(name))).collect()
}

/// The outcomes of a file with lines `what : outcome : type type…`, by `what type`.
fn outcomes(file: &str) -> HashMap<String, String> {
    let mut all = HashMap::new();
    for line in read(file).lines() {
        let mut parts = line.split(" : ");
        let (what, outcome, types) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        for ty in types.split(' ') {
            assert!(all.insert(format!("{what} {ty}"), outcome.to_string()).is_none(), "{what} {ty}");
        }
    }
    assert!(!all.is_empty(), "{file}");
    all
}

/// Compares each of ours with PostgreSQL's and fails with the first differences.
#[derive(Default)]
struct Comparison {
    expected: HashMap<String, String>,
    usual: &'static str,
    seen: usize,
    differences: usize,
    report: String,
}

impl Comparison {
    fn with(file: &str, usual: &'static str) -> Comparison {
        Comparison { expected: outcomes(file), usual, ..Comparison::default() }
    }

    fn check(&mut self, what: &str, ours: &str) {
        let theirs = self.expected.remove(what).unwrap_or_else(|| self.usual.to_string());
        self.seen += 1;
        if theirs != ours {
            self.differences += 1;
            if self.differences <= 60 {
                let _ = writeln!(self.report, "{what}: PostgreSQL {theirs}, ours {ours}");
            }
        }
    }

    fn finish(self) {
        let (seen, differences) = (self.seen, self.differences);
        assert_eq!(differences, 0, "of {seen}:\n{}", self.report);
        assert!(self.expected.is_empty(), "not asked: {:?}", self.expected.iter().take(20).collect::<Vec<_>>());
    }
}

fn state<T>(result: Result<T, ResolveError>, shown: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => shown(value),
        Err(error) => error.sqlstate.to_string(),
    }
}

fn operator(name: &str, left: Option<TypeId>, right: TypeId) -> String {
    state(catalog().resolve_operator(name, left, right), |o| format!("{} {}", o.operator.oid, o.result))
}

#[test]
fn operators() {
    let (all, mut compared) = (types("all"), Comparison::with("operators.txt", "42883"));
    let mut names: Vec<_> = catalog().operators().iter().map(|o| (o.name, o.left.is_some())).collect();
    names.sort_unstable();
    names.dedup();
    for (name, binary) in names {
        for (right_name, right) in &all {
            if !binary {
                compared.check(&format!("{name} - {right_name}"), &operator(name, None, *right));
                continue;
            }
            for (left_name, left) in &all {
                compared.check(&format!("{name} {left_name} {right_name}"), &operator(name, Some(*left), *right));
            }
        }
    }
    compared.finish();
}

#[test]
fn operators_over_arrays() {
    let (all, mut compared) = (types("all"), Comparison::with("any_operators.txt", "42883"));
    let right_sides =
        |name: &str| name.starts_with('_') || matches!(name, "int2vector" | "oidvector" | "unknown" | "text");
    for name in ["=", "<>", "<", "~~", "||", "@>"] {
        for (left_name, left) in &all {
            for (right_name, right) in all.iter().filter(|(name, _)| right_sides(name)) {
                let ours = catalog().resolve_array_operator(name, *left, *right);
                let ours = state(ours, |o| o.operator.operator.oid.to_string());
                compared.check(&format!("{name} {left_name} {right_name}"), &ours);
            }
        }
    }
    compared.finish();
}

/// `left IN (item, item)` as PostgreSQL makes it.
fn in_list(left: TypeId, item: TypeId) -> String {
    match catalog().in_list_type(left, &[item, item]) {
        Some(common) => {
            let array = catalog().array_type(common).unwrap();
            state(catalog().resolve_array_operator("=", left, array), |o| o.operator.operator.oid.to_string())
        }
        None => state(catalog().resolve_operator("=", Some(left), item), |_| "or".to_string()),
    }
}

#[test]
fn in_lists() {
    let (all, mut compared) = (types("all"), Comparison::with("in_lists.txt", "42883"));
    for (left_name, left) in &all {
        for (item_name, item) in &all {
            compared.check(&format!("{left_name} {item_name}"), &in_list(*left, *item));
        }
    }
    compared.finish();
}

fn function(name: &str, args: &[TypeId]) -> String {
    let call = Call { schema: Some("pg_catalog"), ..Call::new(name, args) };
    let resolved = match catalog().resolve_function(&call) {
        Ok(resolved) => resolved,
        Err(error) => return error.sqlstate.to_string(),
    };
    // PostgreSQL reads literals here, and the input functions of some pseudo-types refuse even NULL.
    let unreadable = |(given, wanted): (&TypeId, &TypeId)| given.is_unknown() && !readable(*wanted);
    if args.iter().zip(&resolved.args).any(unreadable) {
        return "0A000".to_string();
    }
    match resolved.kind {
        CallKind::Cast(plan) => match plan.steps.first() {
            Some(CastStep::Input { ty, .. }) if !readable(*ty) => "0A000".to_string(),
            Some(CastStep::Function { function, .. }) => format!("{function} {}", plan.ty),
            _ => "cast".to_string(),
        },
        _ => format!("{} {}", resolved.function().unwrap().oid, resolved.result),
    }
}

/// A NULL literal can be read as a value of the type.
fn readable(ty: TypeId) -> bool {
    !matches!(
        ty,
        TypeId::TRIGGER
            | TypeId::EVENT_TRIGGER
            | TypeId::LANGUAGE_HANDLER
            | TypeId::INTERNAL
            | TypeId::FDW_HANDLER
            | TypeId::INDEX_AM_HANDLER
            | TypeId::TSM_HANDLER
            | TypeId::TABLE_AM_HANDLER
    )
}

/// The names that a call of so many arguments was tried with.
fn called_names(args: usize) -> Vec<&'static str> {
    let c = catalog();
    let counts = |f: &&resurgam_dialect::Function| {
        let least = f.args.len() - f.defaults.len();
        let most = if f.variadic.is_some() { 100 } else { f.args.len() };
        (least, most)
    };
    let mut ranges: HashMap<&str, (usize, usize)> = HashMap::new();
    let functions = c.functions().iter().filter(|f| f.schema == Schema::PgCatalog);
    let of_functions = functions.map(|f| (f.name, counts(&f)));
    let of_types = c.types().iter().filter(|t| t.schema == Schema::PgCatalog && t.kind.letter() != 'c');
    for (name, (least, most)) in of_functions.chain(of_types.map(|t| (t.name, (1, 1)))) {
        let range = ranges.entry(name).or_insert((least, most));
        *range = (range.0.min(least), range.1.max(most));
    }
    let wanted = ranges.into_iter().filter(|(_, (least, most))| (*least..=*most).contains(&args));
    let mut names: Vec<_> = wanted.map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

#[test]
fn functions_of_none() {
    let mut compared = Comparison::with("functions_0.txt", "42883");
    let mut names: Vec<_> = (0..=100).flat_map(called_names).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        compared.check(&format!("{name} -"), &function(name, &[]));
    }
    compared.finish();
}

#[test]
fn functions_of_one() {
    let (all, mut compared) = (types("all"), Comparison::with("functions_1.txt", "42883"));
    for name in called_names(1) {
        for (a_name, a) in &all {
            compared.check(&format!("{name} {a_name}"), &function(name, &[*a]));
        }
    }
    compared.finish();
}

#[test]
fn functions_of_two() {
    let (all, mut compared) = (types("common"), Comparison::with("functions_2.txt", "42883"));
    for name in called_names(2) {
        for (a_name, a) in &all {
            for (b_name, b) in &all {
                compared.check(&format!("{name} {a_name} {b_name}"), &function(name, &[*a, *b]));
            }
        }
    }
    compared.finish();
}

#[test]
fn functions_of_three() {
    let (all, mut compared) = (types("few"), Comparison::with("functions_3.txt", "42883"));
    for name in called_names(3) {
        for (a_name, a) in &all {
            for (b_name, b) in &all {
                for (c_name, c) in &all {
                    let what = format!("{name} {a_name} {b_name} {c_name}");
                    compared.check(&what, &function(name, &[*a, *b, *c]));
                }
            }
        }
    }
    compared.finish();
}

fn common(context: &str, types: &[TypeId]) -> Result<TypeId, ResolveError> {
    let common = catalog().common_type(context, types)?;
    types.iter().try_for_each(|ty| catalog().check_common(context, *ty, common))?;
    Ok(common)
}

fn case(results: &[TypeId], otherwise: TypeId) -> String {
    let result = catalog().case_type(results, otherwise).and_then(|common| {
        results.iter().chain([&otherwise]).try_for_each(|ty| catalog().check_common("CASE", *ty, common))?;
        Ok(common)
    });
    state(result, |ty| ty.to_string())
}

#[test]
fn results_of_case() {
    let (all, few) = (types("all"), types("common"));
    let mut compared = Comparison::with("case.txt", "42883");
    for (a_name, a) in &all {
        for (b_name, b) in &all {
            compared.check(&format!("{a_name} {b_name}"), &case(&[*a], *b));
        }
    }
    for (a_name, a) in &few {
        for (b_name, b) in &few {
            for (c_name, c) in &few {
                compared.check(&format!("{a_name} {b_name} {c_name}"), &case(&[*a, *b], *c));
            }
        }
    }
    compared.finish();
}

#[test]
fn elements_of_arrays() {
    let (all, mut compared) = (types("all"), Comparison::with("array.txt", "42883"));
    for (a_name, a) in &all {
        for (b_name, b) in &all {
            let ours = catalog().array_type_of(&[*a, *b]).and_then(|array| {
                common("ARRAY", &[*a, *b])?;
                Ok(array.array)
            });
            compared.check(&format!("{a_name} {b_name}"), &state(ours, |ty| ty.to_string()));
        }
    }
    compared.finish();
}

/// A cast's steps as the oracle writes the nodes, outermost first.
fn nodes(steps: &[CastStep]) -> String {
    let Some((last, before)) = steps.split_last() else {
        return String::new();
    };
    let inner = nodes(before);
    match last {
        CastStep::Input { ty, typmod: -1 } => format!(" const:{ty}{inner}"),
        CastStep::Input { ty, typmod } => format!(" const:{ty}:{typmod}{inner}"),
        CastStep::Relabel { .. } => format!(" relabeltype{inner}"),
        CastStep::ViaIo { .. } => format!(" coerceviaio{inner}"),
        CastStep::Domain { .. } => format!(" coercetodomain{inner}"),
        CastStep::Row { .. } => " row".to_string(),
        CastStep::Array { element, .. } => format!(" arraycoerceexpr{inner}{}", nodes(element)),
        CastStep::Function { function, pass_typmod, pass_explicit, .. } => {
            let mut all = format!(" funcexpr:{function}{inner}");
            if let Some(typmod) = pass_typmod {
                let _ = write!(all, " const:23={typmod}");
            }
            if let Some(explicit) = pass_explicit {
                let _ = write!(all, " const:16={}", u8::from(*explicit));
            }
            all
        }
    }
}

fn cast(source: (TypeId, i32), target: (TypeId, i32), context: CastContext) -> Result<CastPlan, ResolveError> {
    catalog().cast(source.0, source.1, target.0, target.1, context)
}

#[test]
fn casts() {
    let all = types("all");
    let mut expected: HashMap<String, String> = HashMap::new();
    for line in read("casts.txt").lines() {
        let mut parts = line.splitn(3, ' ');
        let (from, to) = (parts.next().unwrap(), parts.next().unwrap());
        expected.insert(format!("{from} {to}"), parts.next().unwrap().to_string());
    }
    let mut compared = Comparison { expected, usual: "42846", ..Comparison::default() };
    // As the oracle's columns are: `character` is `character(1)`.
    let sized = |ty: TypeId| catalog().parse_type(&catalog().format_type(ty)).unwrap();
    for (from_name, from) in &all {
        let source = if matches!(*from, TypeId::RECORD | TypeId::UNKNOWN) { (*from, -1) } else { sized(*from) };
        for (to_name, to) in all.iter().filter(|(_, ty)| !matches!(*ty, TypeId::RECORD | TypeId::UNKNOWN)) {
            let target = sized(*to);
            let ours = cast(source, target, CastContext::Explicit).map(|plan| {
                let mut ours = format!("ok{}", nodes(&plan.steps));
                if catalog().can_coerce_one(*from, *to, CastContext::Assignment) {
                    ours.push_str(" a");
                }
                if catalog().can_coerce_one(*from, *to, CastContext::Implicit) {
                    ours.push_str(" i");
                }
                ours
            });
            compared.check(&format!("{from_name} {to_name}"), &state(ours, |x| x));
        }
    }
    compared.finish();
}

#[test]
fn casts_with_modifiers() {
    let mut differences = String::new();
    for line in read("lengths.txt").lines() {
        let mut parts = line.split(" : ");
        let (from, to) = parts.next().unwrap().split_once(" -> ").unwrap();
        let theirs: Vec<&str> = parts.collect();
        let (source, target) = (catalog().parse_type(from).unwrap(), catalog().parse_type(to).unwrap());
        let mut ours = match cast(source, target, CastContext::Explicit) {
            Ok(plan) => vec![format!("ok{}", nodes(&plan.steps)), format!("{} {}", plan.ty, plan.typmod)],
            Err(error) => vec![error.sqlstate.to_string()],
        };
        let assigned = catalog().assign("d", source.0, source.1, target.0, target.1);
        ours.push(state(assigned, |plan| format!("ok{}", nodes(&plan.steps))));
        if ours != theirs {
            let _ = writeln!(differences, "{from} -> {to}:\n  PostgreSQL {theirs:?}\n  ours       {ours:?}");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn names_of_types() {
    let mut differences = String::new();
    for line in read("type_names.txt").lines() {
        let (name, theirs) = line.rsplit_once(" : ").unwrap();
        let ours = match catalog().parse_type(name) {
            Ok((ty, typmod)) => format!("{ty} {typmod} {}", catalog().format_type_typmod(ty, typmod)),
            Err(error) => format!("{} {error}", error.sqlstate),
        };
        if ours != theirs {
            let _ = writeln!(differences, "{name}: PostgreSQL {theirs}, ours {ours}");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn sorting() {
    let mut differences = String::new();
    for line in read("sorting.txt").lines() {
        let (name, theirs) = line.split_once(' ').unwrap();
        let found = catalog().sort_operators(ty(name));
        let ours = match found.equal {
            None => "42883".to_string(),
            Some(equal) => {
                let greater = found.greater.map(|oid| format!(" {oid}")).unwrap_or_default();
                format!("{equal} {} {}{greater}", found.less.unwrap_or(0), found.hashable)
            }
        };
        assert_eq!(found.equal.is_none(), catalog().equality_operator(ty(name)).is_err());
        assert_eq!(found.less.is_none(), catalog().ordering_operators(ty(name)).is_err());
        if ours != theirs {
            let _ = writeln!(differences, "{name}: PostgreSQL {theirs}, ours {ours}");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// The modifiers of expressions whose members keep theirs only if they agree.
#[test]
fn modifiers() {
    let file = read("modifiers.txt");
    let theirs = |expr: &str| {
        let found = file.lines().find_map(|line| line.strip_prefix(expr)?.strip_prefix(" : "));
        found.unwrap_or_else(|| panic!("{expr}")).to_string()
    };
    let parsed = |name: &str| catalog().parse_type(name).unwrap();
    let (v3, v5, n52) = (parsed("varchar(3)"), parsed("varchar(5)"), parsed("numeric(5,2)"));
    let (text, int, a3) = (parsed("text"), parsed("int"), parsed("varchar(3)[]"));
    let unknown = (TypeId::UNKNOWN, -1);
    // Members as they are after the cast to the common type.
    let member = |common: TypeId, value: (TypeId, i32)| {
        let plan = catalog().coerce(value.0, value.1, common, -1, CastContext::Implicit).unwrap();
        (plan.ty, plan.typmod)
    };
    let joined = |common: TypeId, values: &[(TypeId, i32)]| {
        let members: Vec<_> = values.iter().map(|value| member(common, *value)).collect();
        format!("{common} {}", same_typmod(common, &members))
    };
    let check = |expr: &str, values: &[(TypeId, i32)]| {
        let types: Vec<TypeId> = values.iter().map(|v| v.0).collect();
        let common = catalog().common_type("CASE", &types).unwrap();
        assert_eq!(joined(common, values), theirs(expr), "{expr}");
    };
    check("case when true then v3 else v3b end", &[v3, v3]);
    check("case when true then v3 else v5 end", &[v5, v3]);
    check("case when true then v3 end", &[unknown, v3]);
    check("case when true then v3 else t end", &[text, v3]);
    check("case when true then n52 else n52b end", &[n52, n52]);
    check("case when true then n52 else i end", &[int, n52]);
    check("coalesce(v3, v3b)", &[v3, v3]);
    check("coalesce(v3, v5)", &[v3, v5]);
    check("coalesce(v3, 'a')", &[v3, unknown]);
    check("coalesce(n52, i)", &[n52, int]);
    check("greatest(n52, n52b)", &[n52, n52]);
    check("least(n52, n)", &[n52, (TypeId::NUMERIC, -1)]);
    let array = |expr: &str, values: &[(TypeId, i32)]| {
        let types: Vec<TypeId> = values.iter().map(|v| v.0).collect();
        let of = catalog().array_type_of(&types).unwrap();
        let members: Vec<_> = values.iter().map(|value| member(of.member, *value)).collect();
        assert_eq!(format!("{} {}", of.array, same_typmod(of.member, &members)), theirs(expr), "{expr}");
    };
    array("array[v3, v3b]", &[v3, v3]);
    array("array[v3, v5]", &[v3, v5]);
    array("array[a3, a3]", &[a3, a3]);
}
