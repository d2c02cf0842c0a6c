//! Looking up entries, and the questions about types that every rule asks.

use super::{Aggregate, Cast, Catalog, Function, Operator, OperatorClass, Schema, Type, TypeKind};
use crate::types::TypeId;

impl Catalog {
    /// All types, by rising oid.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// All operators.
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// All functions, aggregates and window functions but those of users; one's own at the end.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// All casts.
    pub fn casts(&self) -> &[Cast] {
        &self.casts
    }

    /// The type of this oid.
    pub fn type_of(&self, ty: TypeId) -> Option<&Type> {
        self.type_by_oid.get(&ty).map(|&at| &self.types[at as usize])
    }

    /// The type of this catalog name (`int4`, not `integer`) in a schema.
    pub fn type_named(&self, schema: Schema, name: &str) -> Option<&Type> {
        let all = self.type_by_name.get(name)?;
        all.iter().map(|&at| &self.types[at as usize]).find(|t| t.schema == schema)
    }

    /// The type of a user of this name: in that schema, or in one of those that names alone are looked for in, of which
    /// the first counts.
    pub fn user_type_named(&self, schema: Option<&str>, name: &str) -> Option<&Type> {
        let all = self.type_by_name.get(name)?;
        all.iter().map(|&at| &self.types[at as usize]).find(|t| match (t.schema, schema) {
            (Schema::User(own, _), Some(wanted)) => own == wanted,
            (Schema::User(_, is_visible), None) => is_visible,
            _ => false,
        })
    }

    /// The operator of this oid.
    pub fn operator(&self, oid: u32) -> Option<&Operator> {
        self.operator_by_oid.get(&oid).map(|&at| &self.operators[at as usize])
    }

    /// The operators of this name, prefix and binary ones.
    pub fn operators_named(&self, name: &str) -> impl Iterator<Item = &Operator> {
        self.operators_by_name.get(name).into_iter().flatten().map(|&at| &self.operators[at as usize])
    }

    /// The operator of exactly these operand types.
    pub fn operator_exact(&self, name: &str, left: Option<TypeId>, right: TypeId) -> Option<&Operator> {
        self.operators_named(name).find(|o| o.left == left && o.right == right)
    }

    /// The function of this oid.
    pub fn function(&self, oid: u32) -> Option<&Function> {
        let builtin = self.function_by_oid.get(&oid).map(|&at| &self.functions[at as usize]);
        builtin.or_else(|| self.user_functions.of_oid(oid))
    }

    /// The functions of this name in a schema of the system.
    pub fn functions_named(&self, schema: Schema, name: &str) -> impl Iterator<Item = &Function> {
        let all = self.functions_by_name.get(name).into_iter().flatten();
        all.map(|&at| &self.functions[at as usize]).filter(move |f| f.schema == schema)
    }

    /// The function of exactly these argument types in `pg_catalog`.
    pub fn function_exact(&self, name: &str, args: &[TypeId]) -> Option<&Function> {
        self.functions_named(Schema::PgCatalog, name).find(|f| f.args == args)
    }

    /// What `pg_aggregate` says of a function.
    pub fn aggregate(&self, function: u32) -> Option<&Aggregate> {
        self.aggregates.get(&function)
    }

    /// The cast from one type to another, of exactly these types.
    pub fn cast_entry(&self, source: TypeId, target: TypeId) -> Option<&Cast> {
        self.cast_by_types.get(&(source, target)).map(|&at| &self.casts[at as usize])
    }

    /// A type's own default operator class; see [`Catalog::sort_operators`] for what sorts it.
    pub fn operator_class(&self, ty: TypeId) -> Option<&OperatorClass> {
        self.classes.get(&ty)
    }

    /// The category of a type, and whether it is the preferred type there. `U` (user-defined) for a
    /// type that is not in the catalog.
    pub fn category(&self, ty: TypeId) -> (char, bool) {
        self.type_of(ty).map_or(('U', false), |t| (t.category, t.preferred))
    }

    /// A domain's base type, through domains over domains; another type is its own.
    pub fn base_type(&self, ty: TypeId) -> TypeId {
        self.base_type_typmod(ty, -1).0
    }

    /// A domain's base type and the modifier that the domain gives it; another type and `typmod`.
    pub fn base_type_typmod(&self, ty: TypeId, typmod: i32) -> (TypeId, i32) {
        let (mut ty, mut typmod) = (ty, typmod);
        while let Some(Type { kind: TypeKind::Domain, base: Some(base), typmod: own, .. }) = self.type_of(ty) {
            (ty, typmod) = (*base, *own);
        }
        (ty, typmod)
    }

    /// What an array holds; `None` for what is no array, also for a domain over an array.
    pub fn element_type(&self, ty: TypeId) -> Option<TypeId> {
        self.type_of(ty).filter(|t| t.is_true_array())?.element
    }

    /// What an array or a domain over an array holds.
    pub fn base_element_type(&self, ty: TypeId) -> Option<TypeId> {
        self.element_type(self.base_type(ty))
    }

    /// The type of arrays of `ty`.
    pub fn array_type(&self, ty: TypeId) -> Option<TypeId> {
        self.type_of(ty)?.array
    }

    /// An array, not a domain over one.
    pub fn is_array(&self, ty: TypeId) -> bool {
        self.element_type(ty).is_some()
    }

    /// A row type, or a domain over one. `record` is not one.
    pub fn is_composite(&self, ty: TypeId) -> bool {
        self.type_of(self.base_type(ty)).is_some_and(|t| t.kind == TypeKind::Composite)
    }

    /// An array of a row type. `record[]` is not one.
    pub(crate) fn is_composite_array(&self, ty: TypeId) -> bool {
        self.element_type(ty).is_some_and(|e| self.is_composite(e))
    }

    pub(crate) fn is_kind(&self, ty: TypeId, kind: TypeKind) -> bool {
        self.type_of(ty).is_some_and(|t| t.kind == kind)
    }

    /// The element type of a range.
    pub fn range_subtype(&self, ty: TypeId) -> Option<TypeId> {
        self.type_of(ty).filter(|t| t.kind == TypeKind::Range)?.subtype
    }

    /// The range type of a multirange.
    pub fn multirange_range(&self, ty: TypeId) -> Option<TypeId> {
        self.type_of(ty).filter(|t| t.kind == TypeKind::Multirange)?.subtype
    }

    /// The multirange type of a range.
    pub fn range_multirange(&self, ty: TypeId) -> Option<TypeId> {
        self.type_of(ty).filter(|t| t.kind == TypeKind::Range)?.multirange
    }

    /// Values of the type have a collation: text and what contains text.
    pub fn is_collatable(&self, ty: TypeId) -> bool {
        self.type_of(ty).is_some_and(|t| t.collation != 0)
    }
}
