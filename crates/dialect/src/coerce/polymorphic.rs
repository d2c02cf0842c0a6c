//! Polymorphic types: what `anyelement`, `anyarray`, `anycompatible` and their kin stand for in a call
//! (`check_generic_type_consistency`, `enforce_generic_type_consistency` of `parse_coerce.c`).
//!
//! Two families. In the first (`anyelement`, `anyarray`, `anynonarray`, `anyenum`, `anyrange`,
//! `anymultirange`) all arguments must agree as they are. In the second (`anycompatible…`) they are
//! cast to their common type, but ranges must agree as they are. An unknown literal agrees with
//! everything and gets the type that the others decide.
//!
//! The quiet check finds candidates; the loud one tells what is wrong with the one that was chosen.
//! They share the collection of what the arguments say.

use crate::catalog::{Catalog, TypeKind};
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

/// What the arguments of one call say about the polymorphic types.
#[derive(Default)]
struct Evidence {
    /// Arguments of the first family, unknown ones too.
    family_1: usize,
    /// There is an argument of the second family, perhaps an unknown one.
    family_2: bool,
    unknown_1: bool,
    element: Option<TypeId>,
    array: Option<TypeId>,
    range: Option<TypeId>,
    multirange: Option<TypeId>,
    nonarray: bool,
    enumeration: bool,
    any_multirange: bool,
    /// Types that the second family must have in common.
    compatible: Vec<TypeId>,
    compatible_nonarray: bool,
    compatible_array: bool,
    compatible_range_wanted: bool,
    compatible_multirange_wanted: bool,
    compatible_range: Option<TypeId>,
    compatible_subtype: Option<TypeId>,
    compatible_multirange: Option<TypeId>,
}

impl Catalog {
    /// The actual types can stand for the declared ones, as far as polymorphic types go.
    pub(super) fn check_generic(&self, actual: &[TypeId], declared: &[TypeId]) -> bool {
        let mut seen = Evidence::default();
        // An anyarray without a known element type is let through: the loud check words it better.
        self.collect(&mut seen, actual, declared).is_ok()
            && (seen.array == Some(TypeId::ANYARRAY) || self.agree_1(&mut seen).is_ok())
            && self.agree_2(&mut seen).is_ok()
    }

    /// Solves the polymorphic types of a call: replaces those of `declared` that an argument must be
    /// cast to, and returns the type of the result.
    ///
    /// `actual` and `declared` have the same length, defaulted arguments included. A declared
    /// `anyelement` stays where the argument is taken as it is.
    ///
    /// # Errors
    /// 42804 where the arguments do not agree, or say nothing (all are unknown literals); 42704 where
    /// there is no array type of the element type.
    pub fn enforce_generic(&self, actual: &[TypeId], declared: &mut [TypeId], result: TypeId) -> Result<TypeId> {
        let mut seen = Evidence {
            nonarray: result == TypeId::ANYNONARRAY,
            enumeration: result == TypeId::ANYENUM,
            any_multirange: result == TypeId::ANYMULTIRANGE,
            compatible_nonarray: result == TypeId::ANYCOMPATIBLENONARRAY,
            compatible_array: result == TypeId::ANYCOMPATIBLEARRAY,
            compatible_range_wanted: result == TypeId::ANYCOMPATIBLERANGE,
            compatible_multirange_wanted: result == TypeId::ANYCOMPATIBLEMULTIRANGE,
            ..Evidence::default()
        };
        self.collect(&mut seen, actual, declared)?;
        if seen.family_1 == 0 && !seen.family_2 {
            return Ok(result);
        }
        if seen.family_1 > 0 {
            self.solve_1(&mut seen, result)?;
        }
        let mut compatible = Compatible::default();
        if seen.family_2 {
            compatible = self.solve_2(&mut seen)?;
            for declared in declared.iter_mut() {
                if let Some(ty) = compatible.of(*declared, &seen) {
                    *declared = ty;
                }
            }
        }
        if seen.unknown_1 {
            for (declared, _) in declared.iter_mut().zip(actual).filter(|(_, a)| a.is_unknown()) {
                if declared.is_polymorphic_family_1() {
                    *declared = self.family_1_type(*declared, &seen)?;
                }
            }
        }
        if result.is_polymorphic_family_1() {
            return if seen.family_1 > 0 { self.family_1_type(result, &seen) } else { Ok(result) };
        }
        if !result.is_polymorphic_family_2() {
            return Ok(result);
        }
        let name = self.type_of(result).map_or("anycompatible", |t| t.name);
        compatible.of(result, &seen).ok_or_else(|| ResolveError::mismatch(format!("could not identify {name} type")))
    }

    /// What a polymorphic type of the first family stands for.
    fn family_1_type(&self, declared: TypeId, seen: &Evidence) -> Result<TypeId> {
        let unknown = |name: &str| undetermined(Some(name));
        match declared {
            TypeId::ANYARRAY => match (seen.array, seen.element) {
                (Some(array), _) => Ok(array),
                (None, Some(element)) => self.array_of(element),
                (None, None) => Err(unknown("anyarray")),
            },
            TypeId::ANYRANGE => seen.range.ok_or_else(|| unknown("anyrange")),
            TypeId::ANYMULTIRANGE => seen.multirange.ok_or_else(|| unknown("anymultirange")),
            _ => seen.element.ok_or_else(|| unknown("anyelement")),
        }
    }

    fn array_of(&self, element: TypeId) -> Result<TypeId> {
        self.array_type(element).ok_or_else(|| {
            let message = format!("could not find array type for data type {}", self.format_type(element));
            ResolveError::new("42704", message)
        })
    }

    /// Takes in what each argument says.
    fn collect(&self, seen: &mut Evidence, actual: &[TypeId], declared: &[TypeId]) -> Result<()> {
        for (&actual, &declared) in actual.iter().zip(declared) {
            if declared.is_polymorphic_family_1() {
                seen.family_1 += 1;
            } else if declared.is_polymorphic_family_2() {
                seen.family_2 = true;
            } else {
                continue;
            }
            match declared {
                TypeId::ANYNONARRAY => seen.nonarray = true,
                TypeId::ANYENUM => seen.enumeration = true,
                TypeId::ANYMULTIRANGE => seen.any_multirange = true,
                TypeId::ANYCOMPATIBLENONARRAY => seen.compatible_nonarray = true,
                TypeId::ANYCOMPATIBLEARRAY => seen.compatible_array = true,
                TypeId::ANYCOMPATIBLERANGE => seen.compatible_range_wanted = true,
                TypeId::ANYCOMPATIBLEMULTIRANGE => seen.compatible_multirange_wanted = true,
                _ => {}
            }
            if actual.is_unknown() {
                seen.unknown_1 |= declared.is_polymorphic_family_1();
                continue;
            }
            // Domains are their base type except where a value is taken as it is.
            let base = self.base_type(actual);
            match declared {
                TypeId::ANYELEMENT | TypeId::ANYNONARRAY | TypeId::ANYENUM => {
                    self.alike(&mut seen.element, actual, "anyelement")?;
                }
                TypeId::ANYARRAY => self.alike(&mut seen.array, base, "anyarray")?,
                TypeId::ANYRANGE => self.alike(&mut seen.range, base, "anyrange")?,
                TypeId::ANYMULTIRANGE => self.alike(&mut seen.multirange, base, "anymultirange")?,
                TypeId::ANYCOMPATIBLE | TypeId::ANYCOMPATIBLENONARRAY => seen.compatible.push(actual),
                TypeId::ANYCOMPATIBLEARRAY => {
                    let element = self.element_type(base);
                    let element = element.ok_or_else(|| self.is_not("anycompatiblearray", "an array", base))?;
                    seen.compatible.push(element);
                }
                TypeId::ANYCOMPATIBLERANGE => {
                    let first = seen.compatible_range.is_none();
                    self.alike(&mut seen.compatible_range, base, "anycompatiblerange")?;
                    if first {
                        let subtype = self.range_subtype(base);
                        let subtype = subtype.ok_or_else(|| self.is_not("anycompatiblerange", "a range type", base))?;
                        seen.compatible_subtype = Some(subtype);
                        seen.compatible.push(subtype);
                    }
                }
                _ => {
                    self.alike(&mut seen.compatible_multirange, base, "anycompatiblemultirange")?;
                    if self.multirange_range(base).is_none() {
                        return Err(self.is_not("anycompatiblemultirange", "a multirange type", base));
                    }
                }
            }
        }
        Ok(())
    }

    fn alike(&self, known: &mut Option<TypeId>, ty: TypeId, declared: &str) -> Result<()> {
        match *known {
            Some(known) if known != ty => {
                let message = format!("arguments declared \"{declared}\" are not all alike");
                Err(ResolveError::mismatch(message).with_detail(self.versus(known, ty)))
            }
            _ => {
                *known = Some(ty);
                Ok(())
            }
        }
    }

    fn versus(&self, a: TypeId, b: TypeId) -> String {
        format!("{} versus {}", self.format_type(a), self.format_type(b))
    }

    fn is_not(&self, declared: &str, what: &str, ty: TypeId) -> ResolveError {
        let ty = self.format_type(ty);
        ResolveError::mismatch(format!("argument declared {declared} is not {what} but type {ty}"))
    }

    /// The element type is `implied`, if it is known at all: told by an argument declared `declared`
    /// of type `ty`.
    fn same_element(&self, seen: &mut Evidence, implied: TypeId, declared: &str, ty: TypeId) -> Result<()> {
        match seen.element {
            Some(element) if element != implied => {
                let message =
                    format!("argument declared {declared} is not consistent with argument declared anyelement");
                Err(ResolveError::mismatch(message).with_detail(self.versus(ty, element)))
            }
            _ => {
                seen.element = Some(implied);
                Ok(())
            }
        }
    }

    /// The first family agrees with itself; fills in the element type and the range from the others.
    fn agree_1(&self, seen: &mut Evidence) -> Result<()> {
        if let Some(array) = seen.array {
            let element = match array {
                TypeId::ANYARRAY => TypeId::ANYELEMENT,
                _ => self.element_type(array).ok_or_else(|| self.is_not("anyarray", "an array", array))?,
            };
            self.same_element(seen, element, "anyarray", array)?;
        }
        if let Some(multirange) = seen.multirange {
            let range = self.multirange_range(multirange);
            let range = range.ok_or_else(|| self.is_not("anymultirange", "a multirange type", multirange))?;
            match seen.range {
                Some(known) if known != range => {
                    let message = "argument declared anymultirange is not consistent with argument declared anyrange";
                    return Err(ResolveError::mismatch(message).with_detail(self.versus(multirange, known)));
                }
                _ => seen.range = Some(range),
            }
        } else if let Some(range) = seen.range.filter(|_| seen.any_multirange) {
            seen.multirange = self.range_multirange(range);
        }
        if let Some(range) = seen.range {
            let subtype = self.range_subtype(range).ok_or_else(|| self.is_not("anyrange", "a range type", range))?;
            self.same_element(seen, subtype, "anyrange", range)?;
        }
        let Some(element) = seen.element else {
            // Nothing but unknown literals: they fit, except where they would have to be an enum.
            return if seen.enumeration { Err(undetermined(None)) } else { Ok(()) };
        };
        self.nonarray_and_enum(seen, element)
    }

    fn nonarray_and_enum(&self, seen: &Evidence, element: TypeId) -> Result<()> {
        let shown = || self.format_type(element);
        if element == TypeId::ANYELEMENT {
            return Ok(());
        }
        if seen.nonarray && self.base_element_type(element).is_some() {
            return Err(ResolveError::mismatch(format!("type matched to anynonarray is an array type: {}", shown())));
        }
        if seen.enumeration && !self.is_kind(element, TypeKind::Enum) {
            return Err(ResolveError::mismatch(format!("type matched to anyenum is not an enum type: {}", shown())));
        }
        Ok(())
    }

    fn solve_1(&self, seen: &mut Evidence, result: TypeId) -> Result<()> {
        // An anyarray without a known element type (columns of pg_stats) goes only where nothing
        // depends on the element type.
        let depends = seen.family_1 != 1 || result != TypeId::ANYARRAY && result.is_polymorphic_family_1();
        if seen.array == Some(TypeId::ANYARRAY) && depends {
            let message = "cannot determine element type of \"anyarray\" argument";
            return Err(ResolveError::mismatch(message));
        }
        if seen.element.or(seen.array).or(seen.range).or(seen.multirange).is_none() {
            return Err(undetermined(None));
        }
        self.agree_1(seen)
    }

    /// The range of the second family from its multirange, or the other way round.
    fn agree_2_ranges(&self, seen: &mut Evidence) -> Result<()> {
        if let Some(multirange) = seen.compatible_multirange {
            let range = self.multirange_range(multirange);
            let other = || self.is_not("anycompatiblemultirange", "a multirange type", multirange);
            let range = range.ok_or_else(other)?;
            match seen.compatible_range {
                Some(known) if known != range => {
                    let message = "argument declared anycompatiblemultirange is not consistent with argument declared \
                                   anycompatiblerange";
                    return Err(ResolveError::mismatch(message).with_detail(self.versus(multirange, known)));
                }
                Some(_) => {}
                None => {
                    let subtype = self.range_subtype(range).ok_or_else(other)?;
                    seen.compatible_range = Some(range);
                    seen.compatible_subtype = Some(subtype);
                    seen.compatible_range_wanted = true;
                    seen.compatible.push(subtype);
                }
            }
        } else if let Some(range) = seen.compatible_range.filter(|_| seen.compatible_multirange_wanted) {
            seen.compatible_multirange = self.range_multirange(range);
        }
        Ok(())
    }

    /// The second family has a common type that all its members can have. `None`: all are unknown.
    fn agree_2(&self, seen: &mut Evidence) -> Result<Option<TypeId>> {
        self.agree_2_ranges(seen)?;
        if seen.compatible.is_empty() {
            return Ok(None);
        }
        let common = self.common_type("argument", &seen.compatible)?;
        if !self.verify_common(common, &seen.compatible) {
            let message = "arguments of anycompatible family cannot be cast to a common type";
            return Err(ResolveError::mismatch(message));
        }
        let shown = || self.format_type(common);
        for (wanted, known, name) in [
            (seen.compatible_range_wanted, seen.compatible_range, "anycompatiblerange"),
            (seen.compatible_multirange_wanted, seen.compatible_multirange, "anycompatiblemultirange"),
        ] {
            let Some(known) = known else { continue };
            if wanted && seen.compatible_subtype != Some(common) {
                let known = self.format_type(known);
                let message = format!("{name} type {known} does not match anycompatible type {}", shown());
                return Err(ResolveError::mismatch(message));
            }
        }
        if seen.compatible_nonarray && self.base_element_type(common).is_some() {
            let message = format!("type matched to anycompatiblenonarray is an array type: {}", shown());
            return Err(ResolveError::mismatch(message));
        }
        Ok(Some(common))
    }

    fn solve_2(&self, seen: &mut Evidence) -> Result<Compatible> {
        let common = self.agree_2(seen)?;
        // No other argument tells which of several ranges it would be.
        if seen.compatible_range_wanted && seen.compatible_range.is_none() {
            return Err(undetermined(Some("anycompatiblerange")));
        }
        if seen.compatible_multirange_wanted && seen.compatible_multirange.is_none() {
            return Err(undetermined(Some("anycompatiblemultirange")));
        }
        let common = common.unwrap_or(TypeId::TEXT);
        let array = if seen.compatible_array { Some(self.array_of(common)?) } else { None };
        Ok(Compatible { common: Some(common), array })
    }
}

/// What the second family stands for.
#[derive(Default)]
struct Compatible {
    common: Option<TypeId>,
    array: Option<TypeId>,
}

impl Compatible {
    fn of(&self, declared: TypeId, seen: &Evidence) -> Option<TypeId> {
        match declared {
            TypeId::ANYCOMPATIBLE | TypeId::ANYCOMPATIBLENONARRAY => self.common,
            TypeId::ANYCOMPATIBLEARRAY => self.array,
            TypeId::ANYCOMPATIBLERANGE => seen.compatible_range,
            TypeId::ANYCOMPATIBLEMULTIRANGE => seen.compatible_multirange,
            _ => None,
        }
    }
}

fn undetermined(name: Option<&str>) -> ResolveError {
    let message = match name {
        None => "could not determine polymorphic type because input has type unknown".to_string(),
        Some(name) => format!("could not determine polymorphic type {name} because input has type unknown"),
    };
    ResolveError::mismatch(message)
}
