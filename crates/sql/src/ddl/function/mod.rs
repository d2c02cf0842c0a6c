//! Functions that users make: CREATE, ALTER, DROP and COMMENT ON FUNCTION.
//!
//! A function is an object of the catalog ([`crate::pg::user_functions`]). Whoever makes something that calls one keeps the
//! function until the transaction has ended; whoever drops it has it alone and looks afterwards for what calls it
//! ([`super::extension_users`]). So either finds the other. A body that is given as a text (AS '…') calls and reads by name, and keeps nothing;
//! a standard body (RETURN, BEGIN ATOMIC) is kept as a view's query is, and what it reads does not go before it.

mod body;

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use resurgam_dialect::{ArgMode, Catalog, Parallel, TypeId, Volatility};
use resurgam_engine::{CatalogObject, CommentOn, ObjectKind, StatementKind, Table, Transaction};

use crate::ddl::extension_users::{Callee, User, users_of};
use crate::ddl::needed::needed_by;
use crate::ddl::qualify::qualify;
use crate::parse::names::{no_schema, parts_of, unsupported};
use crate::parse::statement::function::{Action, Create, FunctionStatement, Options, Returns, Target};
use crate::pg::functions::quote_ident;
use crate::pg::roles::acl::Object;
use crate::pg::search_path::is_temporary;
use crate::pg::types::{format_type, oid, type_by_oid, type_from_sql};
use crate::pg::user_functions::{ARGS_MAX, Definition, Param, Source, UserFunction, entry_name};
use crate::pg::user_types::{FIRST_USER_OID, is_domain};
use crate::plan::analyze::check_param_default;
use crate::plan::expression::kept_text;
use crate::plan::lookup::has_schema;
use crate::plan::planner::Names;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// Cost of a function of which nothing is said.
const COST: f32 = 100.0;
/// Rows of one that returns a set.
const ROWS: f32 = 1000.0;

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new("42P13", message)
}

/// Pseudo-types that a name can be, all but `void`.
const PSEUDO: [&str; 14] = [
    "anyelement",
    "anyarray",
    "anynonarray",
    "anyenum",
    "anyrange",
    "anymultirange",
    "anycompatible",
    "anycompatiblearray",
    "record",
    "trigger",
    "event_trigger",
    "internal",
    "cstring",
    "any",
];

/// The last name of a type that has no other form.
fn plain_name(ty: &DataType) -> Option<String> {
    match ty {
        DataType::Custom(name, args) if args.is_empty() => parts_of(name).ok().map(|(_, name)| name),
        _ => None,
    }
}

/// A type that values of a function can have.
fn value_type(ty: &DataType, what: &str) -> Result<u32, SqlError> {
    if let Some(name) = plain_name(ty).filter(|name| PSEUDO.contains(&name.as_str())) {
        return Err(unsupported(&format!("{what} of the type {name}")));
    }
    // As in PostgreSQL their modifiers are nothing.
    let (oid, _) = type_from_sql(ty)?;
    if is_domain(oid) {
        return Err(unsupported(&format!("{what} of a domain")));
    }
    if crate::pg::types::arrow_type_of_oid(oid, -1).is_none() {
        return Err(unsupported(&format!("{what} of the type {}", format_type(oid, None))));
    }
    Ok(oid)
}

/// What a function returns: the type, and whether sets of it. `given`: the types of what it gives back by names.
fn result_of(returns: Option<&Returns>, given: &[u32]) -> Result<(u32, bool), SqlError> {
    let by_names = match given {
        [] => None,
        [one] => Some(*one),
        _ => Some(oid::RECORD),
    };
    let one = |ty: &DataType| match (plain_name(ty).as_deref(), by_names) {
        (Some("record"), Some(_)) => Ok(oid::RECORD),
        (Some("void"), _) => Ok(oid::VOID),
        _ => value_type(ty, "a result"),
    };
    let (result, is_set) = match returns {
        None => return by_names.map(|ty| (ty, false)).ok_or_else(|| invalid("function result type must be specified")),
        Some(Returns::Table(_)) => return Ok((by_names.unwrap_or(oid::RECORD), true)),
        Some(Returns::One(ty)) => (one(ty)?, false),
        Some(Returns::Set(ty)) => (one(ty)?, true),
    };
    match by_names {
        Some(needed) if needed != result => {
            let needed = format_type(needed, None);
            Err(invalid(format!("function result type must be {needed} because of OUT parameters")))
        }
        None if is_set && result == oid::VOID => Err(unsupported("SETOF void")),
        _ => Ok((result, is_set)),
    }
}

impl Options {
    /// What they say, laid over what a function has.
    fn over(&self, of: &mut Definition) -> Result<(), SqlError> {
        if let Some(letter) = self.volatility {
            of.volatility = match letter {
                'i' => Volatility::Immutable,
                's' => Volatility::Stable,
                _ => Volatility::Volatile,
            };
        }
        of.strict = self.strict.unwrap_or(of.strict);
        of.leakproof = self.leakproof.unwrap_or(of.leakproof);
        if let Some(word) = &self.parallel {
            of.parallel = match word.as_str() {
                "safe" => Parallel::Safe,
                "restricted" => Parallel::Restricted,
                "unsafe" => Parallel::Unsafe,
                _ => return Err(SqlError::syntax("parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE")),
            };
        }
        if let Some(cost) = self.cost {
            if cost <= 0.0 {
                return Err(SqlError::new("22023", "COST must be positive"));
            }
            of.cost = cost;
        }
        if let Some(rows) = self.rows {
            if rows <= 0.0 {
                return Err(SqlError::new("22023", "ROWS must be positive"));
            }
            if !of.returns_set {
                return Err(SqlError::new("22023", "ROWS is not applicable when function does not return a set"));
            }
            of.rows = rows;
        }
        Ok(())
    }
}

/// A name as errors show it.
fn shown(name: &ObjectName) -> String {
    match parts_of(name) {
        Ok((Some(schema), name)) => format!("{schema}.{name}"),
        Ok((None, name)) => name,
        Err(_) => name.to_string(),
    }
}

/// A list of types as errors show it.
fn shown_types(types: &[u32]) -> String {
    types.iter().map(|ty| format_type(*ty, None)).collect::<Vec<_>>().join(", ")
}

/// As errors call a function: `f(integer, text)`.
fn called(of: &Definition) -> String {
    format!("{}({})", of.name, shown_types(&of.input_types()))
}

/// `42883`
fn missing(name: &ObjectName, types: &[u32]) -> SqlError {
    SqlError::new("42883", format!("function {}({}) does not exist", shown(name), shown_types(types)))
}

/// Refuses what cannot take the place of a function.
fn refuse_other(old: &Definition, new: &Definition) -> Result<(), SqlError> {
    let hint = |error: SqlError| error.with_hint(format!("Use DROP FUNCTION {} first.", old.signature()));
    if (old.result, old.returns_set) != (new.result, new.returns_set) {
        return Err(hint(invalid("cannot change return type of existing function")));
    }
    let columns = |of: &Definition| of.columns().map(|param| (param.name.clone(), param.ty)).collect::<Vec<_>>();
    let types = |of: &Definition| of.columns().map(|param| param.ty).collect::<Vec<_>>();
    if types(old) != types(new) {
        let error = invalid("cannot change return type of existing function");
        return Err(hint(error.with_detail("Row type defined by OUT parameters is different.")));
    }
    for (old, new) in old.inputs().zip(new.inputs()) {
        if !old.name.is_empty() && old.name != new.name {
            return Err(hint(invalid(format!("cannot change name of input parameter \"{}\"", old.name))));
        }
    }
    if columns(old) != columns(new) {
        let error = invalid("cannot change return type of existing function");
        return Err(hint(error.with_detail("Row type defined by OUT parameters is different.")));
    }
    let defaults = |of: &Definition| of.inputs().filter(|param| param.default_sql.is_some()).count();
    if defaults(new) < defaults(old) {
        return Err(hint(invalid("cannot remove parameter defaults from existing function")));
    }
    Ok(())
}

/// Ids of the types of users that a function cannot be without.
fn types_of(of: &Definition) -> Vec<u32> {
    let Some(types) = crate::pg::user_types::current() else { return Vec::new() };
    let mut all: Vec<u32> = of.params.iter().map(|param| param.ty).chain([of.result]).collect();
    all.retain(|ty| *ty >= FIRST_USER_OID);
    let mut ids: Vec<u32> =
        all.into_iter().filter_map(|ty| types.by_oid(ty).or_else(|| types.by_array(ty)).map(|ty| ty.oid)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Session {
    /// Runs a statement about functions.
    pub(crate) async fn function_statement(&mut self, statement: &FunctionStatement) -> Result<Tag, SqlError> {
        self.ddl_deadline = self.deadline();
        match statement {
            FunctionStatement::Create(create) => self.create_function(create).await,
            FunctionStatement::Alter { target, action } => self.alter_function(target, action).await,
            FunctionStatement::Drop { targets, if_exists, cascade } => {
                self.drop_functions(targets, *if_exists, *cascade).await
            }
            FunctionStatement::Comment { target, comment } => {
                let comment = super::comment::checked(comment.as_deref())?;
                let txn = self.ddl_transaction("COMMENT")?;
                let (entry, _) = self.locked_function(&txn, target).await?;
                self.set_comment(&txn, &entry, CommentOn::Relation, comment).await?;
                Ok(Tag::Fixed("COMMENT"))
            }
        }
    }

    async fn create_function(&mut self, create: &Create) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("CREATE FUNCTION");
        let txn = self.ddl_transaction("CREATE FUNCTION")?;
        let (schema, name) = self.place_for(&txn, &create.name).await?;
        if is_temporary(&schema) {
            return Err(unsupported("a temporary function"));
        }
        self.refuse_language(create)?;
        let declared = self.declared(&txn, create, name).await;
        let mut of = declared.map_err(|error| match error.sqlstate.as_str() {
            "42704" if self.names_rows(&txn, create) => {
                unsupported("a function that takes or returns rows of a table's type")
            }
            _ => error,
        })?;
        let existing = self.function_in(&txn, &schema, &of.name, &of.input_types())?;
        if let Some(old) = &existing {
            let was = UserFunction::of_object(old)?;
            if !create.or_replace {
                let text = format!("function \"{}\" already exists with same argument types", of.name);
                return Err(SqlError::new("42723", text));
            }
            if !self.owns(old)? {
                return Err(crate::plan::needs::not_owner("function", &of.name));
            }
            refuse_other(&was.definition, &of)?;
        }
        let Some(body) = &create.body else { return Err(invalid("no function body specified")) };
        let (source, calls) = self.source_of(&txn, &schema, &of, body).await?;
        of.source = source;
        self.keep_functions(&txn, &calls).await?;
        let mut needs = of.needs();
        for ty in types_of(&of) {
            let kept = self.keep_type(&txn, ty).await?;
            needs.push(kept.id);
        }
        let entry = match existing {
            Some(_) => {
                let types = of.input_types();
                let find = |session: &mut Self| {
                    let found = session.function_in(&txn, &schema, &of.name, &types)?;
                    found.ok_or_else(|| missing(&create.name, &types))
                };
                let old = self.locked_newest(&txn, find).await?;
                refuse_other(&UserFunction::of_object(&old)?.definition, &of)?;
                self.settle_ddl(|| txn.replace_object(&old, needs.clone(), of.encode())).await?
            }
            None => {
                let object = CatalogObject { kind: ObjectKind::FUNCTION, needs, body: of.encode() };
                let key = entry_name(&of.name, &of.input_types());
                let made = self.settle_ddl(|| txn.create_object(&schema, &key, object.clone())).await;
                let made = made.map_err(|error| match error.sqlstate.as_str() {
                    "42710" => {
                        let text = format!("function \"{}\" already exists with same argument types", of.name);
                        SqlError::new("42723", text)
                    }
                    _ => error,
                })?;
                self.own_new_object(&txn, made, Object::Function).await?
            }
        };
        let checks = self.shared.variables.lock().get("check_function_bodies").as_deref() != Some("off");
        if checks && matches!(of.source, Source::Text(_)) {
            // It is there by now: it may call itself.
            self.check_text_body(&txn, &UserFunction::of_object(&entry)?)?;
        }
        Ok(TAG)
    }

    /// Whether one of its types has the name of a table or a view: in PostgreSQL that of its rows.
    fn names_rows(&self, txn: &Transaction, create: &Create) -> bool {
        let returned = match &create.returns {
            Some(Returns::One(ty) | Returns::Set(ty)) => vec![ty],
            Some(Returns::Table(columns)) => columns.iter().map(|(_, ty)| ty).collect(),
            None => Vec::new(),
        };
        let taken = create.params.iter().map(|param| &param.ty);
        taken.chain(returned).any(|ty| match ty {
            DataType::Custom(name, _) => self.relation_named(txn, name).is_ok(),
            _ => false,
        })
    }

    fn refuse_language(&self, create: &Create) -> Result<(), SqlError> {
        use crate::parse::statement::function::BodySyntax as B;
        match (create.language.as_deref(), &create.body) {
            (Some("sql"), _) | (None, Some(B::Expression(_) | B::Atomic(_))) => Ok(()),
            (None, _) => Err(invalid("no language specified")),
            (Some(language @ ("plpgsql" | "c" | "internal")), _) => {
                Err(unsupported(&format!("a function in the language {language}")))
            }
            (Some(language), _) => Err(SqlError::new("42704", format!("language \"{language}\" does not exist"))),
        }
    }

    /// What the statement says, but for the body.
    async fn declared(&mut self, txn: &Transaction, create: &Create, name: String) -> Result<Definition, SqlError> {
        let mut params: Vec<Param> = Vec::new();
        if create.params.len() > ARGS_MAX {
            return Err(SqlError::new("54023", format!("functions cannot have more than {ARGS_MAX} arguments")));
        }
        // What is only taken may have the name of what is only given back.
        let taken = |params: &[Param], name: &str, mode: ArgMode| {
            let is_given = |mode: ArgMode| matches!(mode, ArgMode::Out | ArgMode::Table);
            let is_taken = |mode: ArgMode| matches!(mode, ArgMode::In | ArgMode::Variadic);
            let apart = |of: ArgMode| is_taken(of) && is_given(mode) || is_taken(mode) && is_given(of);
            match params.iter().any(|param| param.name == name && !apart(param.mode)) {
                true => Err(invalid(format!("parameter name \"{name}\" used more than once"))),
                false => Ok(()),
            }
        };
        let mut had_default = false;
        for param in &create.params {
            let ty = value_type(&param.ty, "an argument").map_err(|error| match error.sqlstate.as_str() {
                // Of arguments PostgreSQL says it without quotes.
                "42704" => SqlError::new("42704", format!("type {} does not exist", param.ty)),
                _ => error,
            })?;
            let name = param.name.clone().unwrap_or_default();
            if !name.is_empty() {
                taken(&params, &name, param.mode)?;
            }
            let is_input = param.mode != ArgMode::Out;
            if is_input && params.iter().any(|before| before.mode == ArgMode::Variadic) {
                return Err(invalid("VARIADIC parameter must be the last input parameter"));
            }
            if param.mode == ArgMode::Variadic && type_by_oid(ty).is_none_or(|array| array.elem == 0) {
                return Err(invalid("VARIADIC parameter must be an array"));
            }
            let default_sql = match &param.default {
                Some(_) if !is_input => return Err(invalid("only input parameters can have default values")),
                None if is_input && had_default => {
                    return Err(invalid("input parameters after one with a default value must also have defaults"));
                }
                None => None,
                Some(expr) => {
                    let mut expr = expr.clone();
                    let called = qualify(&mut expr, &self.lookup(txn))?;
                    self.keep_called(txn, &called).await?;
                    let (state, cx) = (self.state()?, Arc::clone(&self.cx));
                    check_param_default(&Names { state: &state, txn, cx: &cx }, &expr, ty)?;
                    Some(kept_text(&expr))
                }
            };
            had_default |= default_sql.is_some();
            params.push(Param { name, mode: param.mode, ty, default_sql });
        }
        if let Some(Returns::Table(columns)) = &create.returns {
            if params.iter().any(|param| matches!(param.mode, ArgMode::Out | ArgMode::InOut)) {
                return Err(SqlError::syntax("OUT and INOUT arguments aren't allowed in TABLE functions"));
            }
            for (name, ty) in columns {
                taken(&params, name, ArgMode::Table)?;
                let ty = value_type(ty, "a column")?;
                params.push(Param { name: name.clone(), mode: ArgMode::Table, ty, default_sql: None });
            }
        }
        let given: Vec<u32> = params
            .iter()
            .filter(|param| !matches!(param.mode, ArgMode::In | ArgMode::Variadic))
            .map(|param| param.ty)
            .collect();
        let (result, returns_set) = result_of(create.returns.as_ref(), &given)?;
        let mut of = Definition {
            name,
            params,
            result,
            returns_set,
            strict: false,
            leakproof: false,
            volatility: Volatility::Volatile,
            parallel: Parallel::Unsafe,
            cost: COST,
            rows: if returns_set { ROWS } else { 0.0 },
            source: Source::Text(String::new()),
        };
        create.options.over(&mut of)?;
        self.refuse_leakproof(&of)?;
        Ok(of)
    }

    fn refuse_leakproof(&self, of: &Definition) -> Result<(), SqlError> {
        match of.leakproof && !self.rights()?.is_superuser(self.role()) {
            true => Err(SqlError::new("42501", "only superuser can define a leakproof function")),
            false => Ok(()),
        }
    }

    /// The function of that name and these argument types in a schema.
    fn function_in(
        &self,
        txn: &Transaction,
        schema: &str,
        name: &str,
        types: &[u32],
    ) -> Result<Option<Arc<Table>>, SqlError> {
        Ok(txn.object_named(ObjectKind::FUNCTION, schema, &entry_name(name, types))?)
    }

    /// The function that a statement means.
    ///
    /// # Errors
    /// `42883`, `42725`, `3F000`; `2BP01` for one of the system.
    pub(crate) fn function_named(&self, txn: &Transaction, target: &Target) -> Result<Arc<Table>, SqlError> {
        let (schema, name) = parts_of(&target.name)?;
        if let Some(schema) = &schema
            && !has_schema(txn, schema)?
        {
            return Err(no_schema(schema));
        }
        let path = self.cx.search_path();
        let schemas: Vec<String> = match &schema {
            Some(schema) => vec![path.meant(schema).to_owned()],
            None => path.schemas().map(|schema| schema.to_owned()).collect(),
        };
        let Some(args) = &target.args else {
            let mut found: Vec<Arc<Table>> = Vec::new();
            for entry in txn.objects(ObjectKind::FUNCTION)? {
                let Some(_) = schemas.iter().find(|schema| **schema == entry.schema) else { continue };
                if UserFunction::of_object(&entry)?.name() == name {
                    found.push(entry);
                }
            }
            return match found.len() {
                0 => {
                    Err(SqlError::new("42883", format!("could not find a function named \"{}\"", shown(&target.name))))
                }
                1 => Ok(found.remove(0)),
                _ => Err(SqlError::new("42725", format!("function name \"{}\" is not unique", shown(&target.name)))
                    .with_hint("Specify the argument list to select the function unambiguously.")),
            };
        };
        let types = args.iter().map(|ty| type_from_sql(ty).map(|(oid, _)| oid)).collect::<Result<Vec<_>, _>>()?;
        for schema in &schemas {
            if let Some(found) = self.function_in(txn, schema, &name, &types)? {
                return Ok(found);
            }
        }
        let is_system = schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
        let ids: Vec<_> = types.iter().map(|ty| TypeId(*ty)).collect();
        if is_system && Catalog::postgres().function_exact(&name, &ids).is_some() {
            let text = format!("function {name}({}) is required by the database system", shown_types(&types));
            return Err(SqlError::new("2BP01", format!("cannot change it: {text}")));
        }
        Err(missing(&target.name, &types))
    }

    /// The same, locked against everyone else.
    async fn locked_function(
        &mut self,
        txn: &Transaction,
        target: &Target,
    ) -> Result<(Arc<Table>, UserFunction), SqlError> {
        let find = |session: &mut Self| {
            let entry = session.function_named(txn, target)?;
            if !session.owns(&entry)? {
                let name = UserFunction::of_object(&entry)?.definition.name;
                return Err(crate::plan::needs::not_owner("function", &name));
            }
            Ok(entry)
        };
        let entry = self.locked_newest(txn, find).await?;
        let function = UserFunction::of_object(&entry)?;
        // What others have made with it while it was waited for.
        txn.statement(StatementKind::PointWrite)?;
        Ok((entry, function))
    }

    async fn alter_function(&mut self, target: &Target, action: &Action) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("ALTER FUNCTION");
        let txn = self.ddl_transaction("ALTER FUNCTION")?;
        let (entry, mut function) = self.locked_function(&txn, target).await?;
        let of = &mut function.definition;
        match action {
            Action::Rename(to) => {
                self.may_create_in(&entry.schema)?;
                self.refuse_taken_function(&txn, &entry.schema, to, of)?;
                to.clone_into(&mut of.name);
                let needs = entry.object.as_ref().map(|object| object.needs.clone()).unwrap_or_default();
                let (body, key) = (of.encode(), entry_name(to, &of.input_types()));
                let changed = self.settle_ddl(|| txn.replace_object(&entry, needs.clone(), body.clone())).await?;
                self.settle_ddl(|| txn.rename_object(&changed, &changed.schema, &key)).await?;
            }
            Action::SetSchema(to) => {
                if !has_schema(&txn, to)? {
                    return Err(no_schema(to));
                }
                if *to != entry.schema {
                    self.refuse_taken_function(&txn, to, &of.name.clone(), of)?;
                    self.keep_schema(&txn, to, &of.name).await?;
                    if is_temporary(to) {
                        return Err(unsupported("a temporary function"));
                    }
                    self.settle_ddl(|| txn.rename_object(&entry, to, &entry.name)).await?;
                }
            }
            Action::Owner(to) => self.give_object(&txn, &entry, ("function", &of.name), to).await?,
            Action::Options(options) => {
                options.over(of)?;
                if options.leakproof == Some(true) {
                    self.refuse_leakproof(of)?;
                }
                let needs = entry.object.as_ref().map(|object| object.needs.clone()).unwrap_or_default();
                let body = of.encode();
                self.settle_ddl(|| txn.replace_object(&entry, needs.clone(), body.clone())).await?;
            }
        }
        Ok(TAG)
    }

    /// `42723` for a name that a function of these arguments has.
    fn refuse_taken_function(
        &self,
        txn: &Transaction,
        schema: &str,
        name: &str,
        of: &Definition,
    ) -> Result<(), SqlError> {
        match self.function_in(txn, schema, name, &of.input_types())? {
            Some(_) => {
                let shown = called(&Definition { name: name.to_owned(), ..of.clone() });
                Err(SqlError::new("42723", format!("function {shown} already exists in schema \"{schema}\"")))
            }
            None => Ok(()),
        }
    }

    async fn drop_functions(&mut self, targets: &[Target], if_exists: bool, cascade: bool) -> Result<Tag, SqlError> {
        let txn = self.ddl_transaction("DROP FUNCTION")?;
        let mut all: Vec<Arc<Table>> = Vec::new();
        for target in targets {
            let find = |session: &mut Self| {
                let entry = session.function_named(&txn, target)?;
                let name = UserFunction::of_object(&entry)?.definition.name;
                session.may_drop(&entry, "function", &name)?;
                Ok(entry)
            };
            match self.locked_newest(&txn, find).await {
                Ok(entry) if all.iter().any(|known| known.id == entry.id) => {}
                Ok(entry) => all.push(entry),
                Err(error) if if_exists && matches!(error.sqlstate.as_str(), "42883" | "3F000" | "42704") => {
                    let text = match (error.sqlstate.as_str(), &target.args) {
                        ("42883", args) => {
                            let args = args.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(",");
                            format!("function {}({}) does not exist", shown(&target.name), args.to_lowercase())
                        }
                        _ => error.message.clone(),
                    };
                    self.skip(format!("{text}, skipping"));
                }
                Err(error) => return Err(error),
            }
        }
        self.drop_function_entries(&txn, all, cascade).await?;
        Ok(Tag::Fixed("DROP FUNCTION"))
    }

    /// Drops functions, which are locked, and with `cascade` what calls them.
    pub(crate) async fn drop_function_entries(
        &mut self,
        txn: &Transaction,
        all: Vec<Arc<Table>>,
        cascade: bool,
    ) -> Result<(), SqlError> {
        if all.is_empty() {
            return Ok(());
        }
        // What others have made with them while they were waited for.
        txn.statement(StatementKind::PointWrite)?;
        let callee = self.callee_of(&all)?;
        let mut users: Vec<User> = users_of(&self.lookup(txn), &callee)?;
        users.retain(|user| !all.iter().any(|entry| entry.id == user.entry));
        if !users.is_empty() && !cascade {
            let one = match all.as_slice() {
                [entry] => Some(format!("function {}", UserFunction::of_object(entry)?.definition.signature())),
                _ => None,
            };
            return Err(needed_by(one.as_deref(), users.iter().map(User::line).collect()));
        }
        self.tell_of_cascade(&users.iter().map(|user| user.name.clone()).collect::<Vec<_>>());
        self.drop_users(users).await?;
        // Those that others of them call come last: they are older in general.
        for entry in all.iter().rev() {
            if let Some(entry) = txn.object_by_id(entry.id)? {
                self.settle_ddl(|| txn.drop_object(&entry)).await?;
            }
        }
        Ok(())
    }

    /// Functions as what calls them is looked for.
    pub(super) fn callee_of(&self, all: &[Arc<Table>]) -> Result<Callee<'static>, SqlError> {
        let mut functions = Vec::with_capacity(all.len());
        for entry in all {
            let function = UserFunction::of_object(entry)?;
            functions.push((function.oid(), self.shown_function(&function)));
        }
        Ok(Callee::Functions(functions))
    }

    /// As errors call a function: with its schema where that is needed.
    pub(super) fn shown_function(&self, function: &UserFunction) -> String {
        let signature = function.definition.signature();
        match self.cx.search_path().place(&function.schema) {
            Some(_) => signature,
            None => format!("{}.{signature}", quote_ident(&function.schema)),
        }
    }

    /// Keeps functions, which something that is made calls, until the transaction has ended.
    pub(super) async fn keep_functions(&mut self, txn: &Transaction, oids: &[u32]) -> Result<(), SqlError> {
        for oid in oids {
            let gone = || {
                let error = SqlError::new("42883", "a function that is called was dropped meanwhile");
                error.with_hint("Retry the statement.")
            };
            let find = |_: &mut Self| {
                let functions = crate::pg::user_types::current().ok_or_else(gone)?;
                let id = functions.function(*oid).ok_or_else(gone)?.id;
                txn.object_by_id(id)?.ok_or_else(gone)
            };
            self.kept_newest(txn, find).await?;
        }
        Ok(())
    }
}

/// The statement that drops a function.
pub(super) fn drop_text(function: &UserFunction) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let types: Vec<String> = function.definition.inputs().map(|param| format_type(param.ty, None)).collect();
    let (schema, name) = (quoted(&function.schema), quoted(function.name()));
    format!("DROP FUNCTION IF EXISTS {schema}.{name}({}) CASCADE", types.join(", "))
}
