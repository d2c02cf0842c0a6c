//! The entries of the catalog, one struct a system catalog. Field by field they are PostgreSQL's
//! columns (see the chapter "System Catalogs" of its manual); a reference to no object is `None` where
//! resolution looks at it and 0 elsewhere.

use super::kinds::*;
use crate::types::TypeId;

/// An entry of `pg_type`.
#[derive(Clone, Debug)]
pub struct Type {
    pub oid: TypeId,
    /// The catalog's name: `int4`, `bpchar`, `_text`. [`Catalog::format_type`](crate::Catalog::format_type)
    /// gives the name that messages use.
    pub name: &'static str,
    pub schema: Schema,
    /// Bytes of a value; -1 for a variable length, -2 for a C string.
    pub len: i16,
    pub by_value: bool,
    pub kind: TypeKind,
    /// The category by which resolution prefers: `N` numbers, `S` strings, `D` dates…
    pub category: char,
    /// The type of its category that wins when several would do.
    pub preferred: bool,
    pub delimiter: char,
    /// The relation of a row type, else 0.
    pub relation: u32,
    /// Name of the function for `[]`, or `-`.
    pub subscript: &'static str,
    /// What `[]` gives. Types that are not arrays can have one too (`name`, `point`).
    pub element: Option<TypeId>,
    /// The array of this type.
    pub array: Option<TypeId>,
    pub input: u32,
    pub output: u32,
    pub receive: u32,
    pub send: u32,
    pub typmod_in: u32,
    pub typmod_out: u32,
    pub analyze: u32,
    pub align: char,
    pub storage: char,
    pub not_null: bool,
    /// What a domain is of.
    pub base: Option<TypeId>,
    /// The modifier that a domain gives to its base type, -1 for none.
    pub typmod: i32,
    pub dimensions: i32,
    /// 0: not collatable; 100: the default collation; 950: `C`.
    pub collation: u32,
    /// A range's element type; a multirange's range type.
    pub subtype: Option<TypeId>,
    /// A range's multirange type.
    pub multirange: Option<TypeId>,
}

impl Type {
    /// An array, of any kind: not `name` or `point`, which can only be subscripted.
    pub fn is_true_array(&self) -> bool {
        self.element.is_some() && self.subscript == "array_subscript_handler"
    }
}

/// An entry of `pg_operator`.
#[derive(Clone, Debug)]
pub struct Operator {
    pub oid: u32,
    pub name: &'static str,
    /// `None` for a prefix operator.
    pub left: Option<TypeId>,
    pub right: TypeId,
    pub result: TypeId,
    pub can_merge: bool,
    pub can_hash: bool,
    /// Oid of the commutator, or 0.
    pub commutator: u32,
    /// Oid of the negator, or 0.
    pub negator: u32,
    /// Oid of the function that computes it; 0 for none.
    pub code: u32,
    pub restriction: u32,
    pub join: u32,
}

/// One parameter's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Default {
    /// A constant in SQL: `'{}'::jsonb`, `false`, `0.0`.
    pub sql: &'static str,
    pub ty: TypeId,
}

/// An entry of `pg_proc`.
#[derive(Clone, Debug)]
pub struct Function {
    pub oid: u32,
    pub name: &'static str,
    pub schema: Schema,
    /// `internal`, `c`, `sql`; Resurgam's own have `resurgam`.
    pub language: &'static str,
    pub kind: FunctionKind,
    /// Types of the arguments of a call: input parameters in their order.
    pub args: Vec<TypeId>,
    /// Types of all parameters, with those of OUT and TABLE; empty if there are none of these.
    pub all_args: Vec<TypeId>,
    /// Modes beside `all_args`; empty: all are IN.
    pub modes: Vec<ArgMode>,
    /// Names of all parameters; empty, or an empty name: without.
    pub names: Vec<&'static str>,
    /// The element type of the last parameter, if that is VARIADIC.
    pub variadic: Option<TypeId>,
    /// Defaults of the last parameters.
    pub defaults: Vec<Default>,
    pub result: TypeId,
    pub returns_set: bool,
    /// A NULL argument makes the result NULL without a call.
    pub strict: bool,
    pub volatility: Volatility,
    pub parallel: Parallel,
    pub leakproof: bool,
    pub security_definer: bool,
    /// In units of `cpu_operator_cost`.
    pub cost: f32,
    /// Estimated rows of a set; 0 if it returns none.
    pub rows: f32,
    pub support: u32,
    /// For `internal` functions the name of the C function: the same code under several SQL names has
    /// the same one. For `sql` functions their text.
    pub source: &'static str,
}

impl Function {
    /// Mode of the parameter at `at` (counted over all parameters).
    pub fn mode(&self, at: usize) -> ArgMode {
        self.modes.get(at).copied().unwrap_or(ArgMode::In)
    }

    /// The output columns of a function with OUT or TABLE parameters: name and type. Empty for others.
    pub fn out_columns(&self) -> Vec<(&'static str, TypeId)> {
        self.modes
            .iter()
            .zip(&self.all_args)
            .enumerate()
            .filter(|(_, (mode, _))| matches!(mode, ArgMode::Out | ArgMode::InOut | ArgMode::Table))
            .map(|(at, (_, ty))| (self.names.get(at).copied().unwrap_or(""), *ty))
            .collect()
    }
}

/// An entry of `pg_cast`.
#[derive(Clone, Debug)]
pub struct Cast {
    pub oid: u32,
    pub source: TypeId,
    pub target: TypeId,
    /// Oid of the function, 0 where the method needs none.
    pub function: u32,
    pub context: CastContext,
    pub method: CastMethod,
}

/// An entry of `pg_aggregate`. Functions are oids, 0 for none; those with `moving` serve frames whose
/// begin moves.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Oid of its entry among the functions.
    pub function: u32,
    pub kind: AggregateKind,
    /// Arguments before WITHIN GROUP.
    pub direct_args: usize,
    pub transition: u32,
    /// 0: the result is the last state.
    pub last: u32,
    pub combine: u32,
    pub serialize: u32,
    pub deserialize: u32,
    pub moving_transition: u32,
    pub moving_inverse: u32,
    pub moving_last: u32,
    pub last_extra: bool,
    pub moving_last_extra: bool,
    /// `r`: the last function leaves the state as it is; `s`: shareable; `w`: it writes to it.
    pub last_modify: char,
    pub moving_last_modify: char,
    /// For `min` and `max`: the operator by which the first row of an index is the answer; else 0.
    pub sort_operator: u32,
    pub state: TypeId,
    /// Bytes of a state; 0: as its type says.
    pub state_space: i32,
    /// `None` without a moving transition.
    pub moving_state: Option<TypeId>,
    pub moving_state_space: i32,
    /// Text of the first state; `None` for NULL.
    pub initial: Option<&'static str>,
    pub moving_initial: Option<&'static str>,
}

/// A type's default operator classes: what sorts and groups it. 0 where there is none.
#[derive(Clone, Copy, Debug)]
pub struct OperatorClass {
    pub ty: TypeId,
    pub btree_family: u32,
    pub less: u32,
    pub equal: u32,
    pub greater: u32,
    pub hash_family: u32,
    pub hash_equal: u32,
}
