//! Functions that users make: what the catalog keeps of one, and as what PostgreSQL's catalogs and functions show it.
//!
//! A function is an object of the engine's catalog ([`ObjectKind::FUNCTION`]), in its schema. Several may have one name, so
//! the entry's name is a digest of name and argument types ([`entry_name`]); what the function is called is in the body.
//!
//! What a definition keeps (a view's query, a DEFAULT) calls a function by its oid: the call's schema is written
//! `pg_function_<oid>` ([`marker`]), a name that no schema can have. So another name of the function, another schema, or a
//! function of the same name that comes later changes nothing of what the definition says.
//!
//! ```text
//! body of an entry   version u8 (2: with parameters that are OUT, INOUT or VARIADIC; else 1) | flags u8 (1 set, 2 strict, 4 leakproof, 8 standard body, 16 RETURN) | volatility u8 |
//!                    parallel u8 | cost f32 | rows f32 | result's type oid u32 | name counted |
//!                    parameters: count u16, each: mode u8, type oid u32, flags u8 (1 DEFAULT), name counted,
//!                    [DEFAULT as SQL counted] | source
//! source             SQL as it was given, counted
//! standard body      a view's definition, as views have it: query, columns, what its names mean
//! ```

use std::fmt::Write;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use md5::{Digest, Md5};
use resurgam_dialect::{
    ArgMode, Catalog, Default as ParamDefault, Function, FunctionKind, Parallel, Schema, TypeId, Volatility, intern,
};
use resurgam_engine::codec::{Reader, put_counted};
use resurgam_engine::{Access, CommentOn, Error, ErrorKind, ObjectKind, Result, Table, View};

use crate::catalog::relation_oid;
use crate::functions::quote_ident;
use crate::types::{format_type, type_by_oid};

/// Version of a body, and of one that has no parameters but IN and TABLE.
const BODY: u8 = 2;
const PLAIN_BODY: u8 = 1;
/// What stands in the place of a schema in calls that definitions keep.
const MARKER: &str = "pg_function_";
/// As PostgreSQL's `FUNC_MAX_ARGS`.
pub const ARGS_MAX: usize = 100;

/// A function that a user made.
#[derive(Clone, Debug, PartialEq)]
pub struct UserFunction {
    /// The id of its entry.
    pub id: u32,
    pub schema: String,
    /// Its owner, and who may call it.
    pub access: Access,
    pub comment: Option<String>,
    pub definition: Definition,
}

/// What the body of its entry says.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    /// Arguments and what is given back, as they are written, then the columns of RETURNS TABLE.
    pub params: Vec<Param>,
    pub result: u32,
    pub returns_set: bool,
    pub strict: bool,
    pub leakproof: bool,
    pub volatility: Volatility,
    pub parallel: Parallel,
    pub cost: f32,
    pub rows: f32,
    pub source: Source,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Empty: it has none.
    pub name: String,
    pub mode: ArgMode,
    pub ty: u32,
    pub default_sql: Option<String>,
}

/// What it does.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// AS '…': statements whose names mean what they mean to the caller.
    Text(String),
    /// RETURN: the expression as a query, whose names mean what they meant when the function was made.
    Return(Box<View>),
    /// BEGIN ATOMIC: a query, likewise.
    Atomic(Box<View>),
}

impl Source {
    /// The query of a standard body.
    pub fn view(&self) -> Option<&View> {
        match self {
            Self::Text(_) => None,
            Self::Return(view) | Self::Atomic(view) => Some(view),
        }
    }
}

fn volatility_code(of: Volatility) -> u8 {
    of.letter() as u8
}

fn text(r: &mut Reader<'_>) -> Result<String> {
    let bytes = r.counted()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| r.bad("a text that is not UTF-8"))
}

impl Definition {
    pub fn encode(&self) -> Vec<u8> {
        let is_return = matches!(self.source, Source::Return(_));
        let flags = u8::from(self.returns_set)
            | u8::from(self.strict) << 1
            | u8::from(self.leakproof) << 2
            | u8::from(self.source.view().is_some()) << 3
            | u8::from(is_return) << 4;
        let is_plain = |param: &Param| matches!(param.mode, ArgMode::In | ArgMode::Table);
        let version = if self.params.iter().all(is_plain) { PLAIN_BODY } else { BODY };
        let mut out = vec![version, flags, volatility_code(self.volatility), self.parallel.letter() as u8];
        out.extend_from_slice(&self.cost.to_bits().to_le_bytes());
        out.extend_from_slice(&self.rows.to_bits().to_le_bytes());
        out.extend_from_slice(&self.result.to_le_bytes());
        put_counted(&mut out, self.name.as_bytes());
        out.extend_from_slice(&(self.params.len() as u16).to_le_bytes());
        for param in &self.params {
            out.push(param.mode.letter() as u8);
            out.extend_from_slice(&param.ty.to_le_bytes());
            out.push(u8::from(param.default_sql.is_some()));
            put_counted(&mut out, param.name.as_bytes());
            if let Some(sql) = &param.default_sql {
                put_counted(&mut out, sql.as_bytes());
            }
        }
        match &self.source {
            Source::Text(sql) => put_counted(&mut out, sql.as_bytes()),
            Source::Return(view) | Source::Atomic(view) => view.encode_into(&mut out),
        }
        out
    }

    /// # Errors
    /// `Corrupt`, `NewerFormat`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "function");
        let version = r.u8()?;
        if version > BODY {
            return Err(Error::new(ErrorKind::NewerFormat, format!("a function of version {version}")));
        }
        let flags = r.u8()?;
        let volatility = match r.u8()? {
            b'i' => Volatility::Immutable,
            b's' => Volatility::Stable,
            b'v' => Volatility::Volatile,
            _ => return Err(r.bad("an unknown volatility")),
        };
        let parallel = match r.u8()? {
            b's' => Parallel::Safe,
            b'r' => Parallel::Restricted,
            b'u' => Parallel::Unsafe,
            _ => return Err(r.bad("an unknown mode of parallel execution")),
        };
        let (cost, rows) = (f32::from_bits(r.u32()?), f32::from_bits(r.u32()?));
        let (result, name) = (r.u32()?, text(&mut r)?);
        let mut params = Vec::new();
        for _ in 0..r.u16()? {
            let mode = match r.u8()? {
                b'i' => ArgMode::In,
                b't' => ArgMode::Table,
                b'o' => ArgMode::Out,
                b'b' => ArgMode::InOut,
                b'v' => ArgMode::Variadic,
                _ => return Err(r.bad("an unknown mode of a parameter")),
            };
            let (ty, has_default, name) = (r.u32()?, r.u8()?, text(&mut r)?);
            let default_sql = if has_default != 0 { Some(text(&mut r)?) } else { None };
            params.push(Param { name, mode, ty, default_sql });
        }
        let source = match flags & 24 {
            24 => Source::Return(Box::new(View::decode(&mut r)?)),
            8 => Source::Atomic(Box::new(View::decode(&mut r)?)),
            0 => Source::Text(text(&mut r)?),
            _ => return Err(r.bad("an unknown kind of body")),
        };
        if !r.is_empty() {
            return Err(r.bad("more than a function"));
        }
        Ok(Self {
            name,
            params,
            result,
            returns_set: flags & 1 != 0,
            strict: flags & 2 != 0,
            leakproof: flags & 4 != 0,
            volatility,
            parallel,
            cost,
            rows,
            source,
        })
    }

    /// Its arguments.
    pub fn inputs(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|param| matches!(param.mode, ArgMode::In | ArgMode::InOut | ArgMode::Variadic))
    }

    /// Their types.
    pub fn input_types(&self) -> Vec<u32> {
        self.inputs().map(|param| param.ty).collect()
    }

    /// What it gives back by names: the columns of RETURNS TABLE, OUT and INOUT parameters.
    pub fn columns(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|param| matches!(param.mode, ArgMode::Out | ArgMode::InOut | ArgMode::Table))
    }

    /// RETURNS TABLE
    pub fn is_table(&self) -> bool {
        self.params.iter().any(|param| param.mode == ArgMode::Table)
    }

    /// `name(type, type)`, as messages have it.
    pub fn signature(&self) -> String {
        let types: Vec<String> = self.inputs().map(|param| format_type(param.ty, None)).collect();
        format!("{}({})", quote_ident(&self.name), types.join(","))
    }

    /// Ids of the relations that it cannot be without.
    pub fn needs(&self) -> Vec<u32> {
        let view = self.source.view().into_iter();
        view.flat_map(|view| &view.relations).map(|relation| relation.id).collect()
    }

    /// `pg_get_function_arguments`; `identity`: without defaults, `pg_get_function_identity_arguments`.
    pub fn arguments(&self, identity: bool, shown: &dyn Fn(&str, u32) -> String) -> String {
        let mut out = String::new();
        for param in self.params.iter().filter(|param| param.mode != ArgMode::Table) {
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(match param.mode {
                ArgMode::Out => "OUT ",
                ArgMode::InOut => "INOUT ",
                ArgMode::Variadic => "VARIADIC ",
                ArgMode::In | ArgMode::Table => "",
            });
            put_param(&mut out, param);
            if let (false, Some(sql)) = (identity, &param.default_sql) {
                let _ = write!(out, " DEFAULT {}", shown(sql, param.ty));
            }
        }
        out
    }

    /// `pg_get_function_result`
    pub fn returns(&self) -> String {
        if self.is_table() {
            let columns: Vec<String> = self
                .columns()
                .map(|param| {
                    let mut out = String::new();
                    put_param(&mut out, param);
                    out
                })
                .collect();
            return format!("TABLE({})", columns.join(", "));
        }
        let result = format_type(self.result, None);
        if self.returns_set { format!("SETOF {result}") } else { result }
    }
}

fn put_param(out: &mut String, param: &Param) {
    if !param.name.is_empty() {
        out.push_str(&quote_ident(&param.name));
        out.push(' ');
    }
    out.push_str(&format_type(param.ty, None));
}

/// Under which name the catalog has a function of that name and those argument types.
pub fn entry_name(name: &str, types: &[u32]) -> String {
    let mut digest = Md5::new();
    digest.update(name.as_bytes());
    for ty in types {
        digest.update([0]);
        digest.update(ty.to_le_bytes());
    }
    digest.finalize().iter().fold(String::from("f"), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

impl UserFunction {
    /// That of an object of the catalog.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat` for a body that cannot be read; `Internal` for the entry of something else.
    pub fn of_object(object: &Table) -> Result<Self> {
        let Some(inner) = object.object.as_ref().filter(|inner| inner.kind == ObjectKind::FUNCTION) else {
            return Err(Error::internal(format!("\"{}\" is no function", object.name)));
        };
        let comment = object.comments.iter().find(|(on, _)| *on == CommentOn::Relation).map(|(_, text)| text.clone());
        Ok(Self {
            id: object.id,
            schema: object.schema.clone(),
            access: object.access.as_deref().cloned().unwrap_or(Access::FIRST),
            comment,
            definition: Definition::decode(&inner.body)?,
        })
    }

    pub fn oid(&self) -> u32 {
        relation_oid(self.id)
    }

    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// As the dialect has it; `is_visible`: names alone are looked for in its schema.
    pub fn of_dialect(&self, is_visible: bool) -> Function {
        let of = &self.definition;
        let args: Vec<TypeId> = of.inputs().map(|param| TypeId(param.ty)).collect();
        let has_modes = of.params.iter().any(|param| param.mode != ArgMode::In);
        let variadic = of.params.iter().find(|param| param.mode == ArgMode::Variadic);
        let element = variadic.and_then(|param| type_by_oid(param.ty)).map(|array| TypeId(array.elem));
        let all = |take: bool| of.params.iter().filter(move |_| take);
        let named = of.params.iter().any(|param| !param.name.is_empty());
        // Their texts are asked of the definition.
        let defaults = of.inputs().filter(|param| param.default_sql.is_some());
        Function {
            oid: self.oid(),
            name: intern(&of.name),
            schema: Schema::User(intern(&self.schema), is_visible),
            language: "sql",
            kind: FunctionKind::Function,
            args,
            all_args: all(has_modes).map(|param| TypeId(param.ty)).collect(),
            modes: all(has_modes).map(|param| param.mode).collect(),
            names: all(named).map(|param| intern(&param.name)).collect(),
            variadic: element,
            defaults: defaults.map(|param| ParamDefault { sql: "", ty: TypeId(param.ty) }).collect(),
            result: TypeId(of.result),
            returns_set: of.returns_set,
            strict: of.strict,
            volatility: of.volatility,
            parallel: of.parallel,
            leakproof: of.leakproof,
            security_definer: false,
            cost: of.cost,
            rows: of.rows,
            support: 0,
            source: "",
        }
    }
}

/// What stands in the place of the schema where a definition calls the function with that oid.
pub fn marker(oid: u32) -> String {
    format!("{MARKER}{oid}")
}

/// The function that a call in a definition means, by what stands in the place of its schema.
pub fn marked(schema: &str) -> Option<u32> {
    schema.strip_prefix(MARKER)?.parse().ok()
}

/// The same of a call's name.
pub fn marked_name(name: &ObjectName) -> Option<u32> {
    match name.0.as_slice() {
        [schema, _] => marked(&schema.as_ident()?.value),
        _ => None,
    }
}

/// Functions in the order in which a name without a schema finds them: by the place of their schemas, then by age.
pub(crate) fn of_dialect(
    all: &[Arc<UserFunction>],
    place: &dyn Fn(&str) -> Option<usize>,
) -> Vec<(usize, u32, Function)> {
    all.iter()
        .map(|one| {
            let place = place(&one.schema);
            (place.unwrap_or(usize::MAX), one.id, one.of_dialect(place.is_some()))
        })
        .collect()
}

/// Whether `pg_catalog` has a function of that name and those arguments, which goes before all others.
pub(crate) fn is_hidden_by_builtin(of: &Definition) -> bool {
    let args: Vec<TypeId> = of.inputs().map(|param| TypeId(param.ty)).collect();
    Catalog::postgres().function_exact(&of.name, &args).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(source: Source) -> Definition {
        let param = |name: &str, mode, default: Option<&str>| Param {
            name: name.into(),
            mode,
            ty: 23,
            default_sql: default.map(str::to_owned),
        };
        Definition {
            name: "F x".into(),
            params: vec![
                param("a", ArgMode::In, None),
                param("", ArgMode::In, Some("1")),
                param("c", ArgMode::Table, None),
            ],
            result: 23,
            returns_set: true,
            strict: true,
            leakproof: false,
            volatility: Volatility::Stable,
            parallel: Parallel::Unsafe,
            cost: 100.0,
            rows: 1000.0,
            source,
        }
    }

    #[test]
    fn bodies_come_back_whole_or_not_at_all() {
        let view = View { sql: "SELECT 1".into(), ..View::default() };
        let sources =
            [Source::Text("select 1".into()), Source::Return(Box::new(view.clone())), Source::Atomic(Box::new(view))];
        for source in sources {
            let of = definition(source);
            let bytes = of.encode();
            assert_eq!(Definition::decode(&bytes).expect("a body"), of);
            for len in 0..bytes.len() {
                assert!(Definition::decode(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
            }
            assert!(Definition::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
            let newer = [&[BODY + 1], &bytes[1..]].concat();
            assert!(Definition::decode(&newer).is_err_and(|error| error.kind() == ErrorKind::NewerFormat));
        }
    }

    #[test]
    fn what_it_is_called() {
        let of = definition(Source::Text(String::new()));
        assert_eq!(of.signature(), "\"F x\"(integer,integer)");
        assert_eq!(of.arguments(false, &|sql, _| sql.to_owned()), "a integer, integer DEFAULT 1");
        assert_eq!(of.arguments(true, &|sql, _| sql.to_owned()), "a integer, integer");
        assert_eq!(of.returns(), "TABLE(c integer)");
        assert_ne!(entry_name("f", &[23]), entry_name("f", &[20]));
        assert_eq!(marked(&marker(16_500)), Some(16_500));
        assert_eq!(marked("public"), None);
    }
}
