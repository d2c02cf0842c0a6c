//! What the body of a type's catalog object says. It is encoded and decoded here only.
//!
//! ```text
//! version u8 = 1 | kind u8 (1 enum, 2 domain) | oid of the array type u32 | comment counted (empty: none)
//! enum     count u32, each: oid u32, number i64, sort order f32, transaction that added it u64 (0: it came with the
//!          type), name counted; by number
//! domain   base type's oid u32, modifier i32, flags u8 (1 NOT NULL, 2 DEFAULT), [DEFAULT as SQL counted],
//!          count u16, each: id u32, name counted, condition as SQL counted, flags u8 (1 validated)
//! ```

use resurgam_dialect::intern;
use resurgam_engine::codec::{Reader, put_counted};
use resurgam_engine::{Error, ErrorKind, ObjectKind, Result, Table};

use crate::wire::SqlError;

const VERSION: u8 = 1;
/// Room between the numbers of labels that are made together, or at an end: so many halvings are there between two.
const STEP: i64 = 1 << 40;
/// Most bytes of a label, as of a name.
pub const LABEL_BYTES_MAX: usize = 63;

/// A type that a user made.
#[derive(Clone, Debug, PartialEq)]
pub struct UserType {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// Role.
    pub owner: u32,
    pub body: Body,
}

/// What is kept in the object's body.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// Oid of the type of its arrays.
    pub array: u32,
    pub comment: Option<String>,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// That of the extension of this name. No object of the catalog is one.
    Citext,
    Enum(EnumType),
    Domain(DomainType),
}

/// Labels, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnumType {
    labels: Vec<Label>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    pub oid: u32,
    /// What rows and keys have in its place: it never changes.
    pub number: i64,
    /// `enumsortorder`
    pub sort_order: f32,
    pub name: String,
    /// The transaction that added it to the type: before it has committed, it may not use it. 0: it came with the type.
    pub added_by: u64,
    /// Whoever sees it is that transaction. Not stored.
    pub is_new: bool,
}

/// Where a label is added.
#[derive(Clone, Copy, Debug)]
pub enum LabelPlace<'a> {
    Last,
    Before(&'a str),
    After(&'a str),
}

/// A type with conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainType {
    pub base: u32,
    pub typmod: i32,
    pub not_null: bool,
    pub default_sql: Option<String>,
    pub checks: Vec<DomainCheck>,
}

/// A condition on `VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainCheck {
    pub id: u32,
    pub name: String,
    pub sql: String,
    /// Values that were stored before it are known to fulfil it.
    pub validated: bool,
}

impl EnumType {
    /// Labels in that order, with these oids.
    pub fn new(names: impl IntoIterator<Item = (String, u32)>) -> Self {
        let labels = names.into_iter().zip(1..).map(|((name, oid), place): (_, i64)| Label {
            oid,
            number: place * STEP,
            sort_order: place as f32,
            name,
            added_by: 0,
            is_new: false,
        });
        Self { labels: labels.collect() }
    }

    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    pub fn by_number(&self, number: i64) -> Option<&Label> {
        self.labels.binary_search_by_key(&number, |label| label.number).ok().and_then(|at| self.labels.get(at))
    }

    pub fn named(&self, name: &str) -> Option<&Label> {
        self.labels.iter().find(|label| label.name == name)
    }

    /// Adds a label, whose number is between those of its neighbours.
    ///
    /// # Errors
    /// `22023`: the neighbour is not there; `54000`: no number is left between the two.
    pub fn add(&mut self, name: &str, oid: u32, place: LabelPlace<'_>, by: u64) -> Result<(), SqlError> {
        let of = |neighbour: &str| {
            let at = self.labels.iter().position(|label| label.name == neighbour);
            at.ok_or_else(|| SqlError::new("22023", format!("\"{neighbour}\" is not an existing enum label")))
        };
        let at = match place {
            LabelPlace::Last => self.labels.len(),
            LabelPlace::Before(neighbour) => of(neighbour)?,
            LabelPlace::After(neighbour) => of(neighbour)? + 1,
        };
        let before = at.checked_sub(1).and_then(|at| self.labels.get(at));
        let behind = self.labels.get(at);
        let (number, sort_order) = match (before, behind) {
            (None, None) => (Some(STEP), 1.0),
            (Some(last), None) => (last.number.checked_add(STEP), last.sort_order + 1.0),
            (None, Some(first)) => (first.number.checked_sub(STEP), first.sort_order - 1.0),
            (Some(a), Some(b)) => {
                let middle = a.number + (b.number - a.number) / 2;
                ((middle > a.number).then_some(middle), (a.sort_order + b.sort_order) / 2.0)
            }
        };
        let Some(number) = number else {
            let neighbours = before.into_iter().chain(behind).map(|label| format!("\"{}\"", label.name));
            let neighbours = neighbours.collect::<Vec<_>>().join(" and ");
            return Err(SqlError::new("54000", format!("there is no more room for a label beside {neighbours}"))
                .with_hint("Make a new type with the labels in their order, and give the columns that type."));
        };
        self.labels.insert(at, Label { oid, number, sort_order, name: name.to_owned(), added_by: by, is_new: false });
        Ok(())
    }

    /// Gives a label another name; whether it was there.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let found = self.labels.iter_mut().find(|label| label.name == from);
        found.map(|label| to.clone_into(&mut label.name)).is_some()
    }

    /// Marks the labels that the transaction with that id has added.
    pub fn mark_new(&mut self, by: u64) {
        for label in &mut self.labels {
            label.is_new = label.added_by == by && by != 0;
        }
    }
}

impl UserType {
    /// That of an object of the catalog.
    ///
    /// # Errors
    /// Corrupt bytes.
    pub fn of_object(object: &Table) -> Result<Self> {
        let Some(inner) = object.object.as_ref().filter(|inner| inner.kind == ObjectKind::TYPE) else {
            return Err(Error::internal(format!("\"{}\" is no type", object.name)));
        };
        let body = Body::decode(&inner.body)?;
        let owner = object.access.as_ref().map_or(resurgam_engine::FIRST_ROLE, |access| access.owner);
        Ok(Self { oid: object.id, schema: object.schema.clone(), name: object.name.clone(), owner, body })
    }

    /// The name of the type of its arrays.
    pub fn array_name(&self) -> String {
        let mut name = format!("_{}", self.name);
        let mut end = name.len().min(63);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name
    }

    pub fn as_enum(&self) -> Option<&EnumType> {
        match &self.body.kind {
            Kind::Enum(labels) => Some(labels),
            Kind::Domain(_) | Kind::Citext => None,
        }
    }

    pub fn as_domain(&self) -> Option<&DomainType> {
        match &self.body.kind {
            Kind::Domain(domain) => Some(domain),
            Kind::Enum(_) | Kind::Citext => None,
        }
    }

    /// Its name for as long as the process lives.
    pub fn interned(&self) -> &'static str {
        intern(&self.name)
    }
}

impl Body {
    pub fn encode(&self) -> Vec<u8> {
        let kind = match self.kind {
            Kind::Citext => 0,
            Kind::Enum(_) => 1,
            Kind::Domain(_) => 2,
        };
        let mut out = vec![VERSION, kind];
        out.extend_from_slice(&self.array.to_le_bytes());
        put_counted(&mut out, self.comment.as_deref().unwrap_or_default().as_bytes());
        match &self.kind {
            // It is not stored, and could not be read again.
            Kind::Citext => {}
            Kind::Enum(labels) => {
                out.extend_from_slice(&(labels.labels.len() as u32).to_le_bytes());
                for label in &labels.labels {
                    out.extend_from_slice(&label.oid.to_le_bytes());
                    out.extend_from_slice(&label.number.to_le_bytes());
                    out.extend_from_slice(&label.sort_order.to_le_bytes());
                    out.extend_from_slice(&label.added_by.to_le_bytes());
                    put_counted(&mut out, label.name.as_bytes());
                }
            }
            Kind::Domain(domain) => {
                out.extend_from_slice(&domain.base.to_le_bytes());
                out.extend_from_slice(&domain.typmod.to_le_bytes());
                out.push(u8::from(domain.not_null) | u8::from(domain.default_sql.is_some()) << 1);
                if let Some(sql) = &domain.default_sql {
                    put_counted(&mut out, sql.as_bytes());
                }
                out.extend_from_slice(&(domain.checks.len() as u16).to_le_bytes());
                for check in &domain.checks {
                    out.extend_from_slice(&check.id.to_le_bytes());
                    put_counted(&mut out, check.name.as_bytes());
                    put_counted(&mut out, check.sql.as_bytes());
                    out.push(u8::from(check.validated));
                }
            }
        }
        out
    }

    /// # Errors
    /// `Corrupt`, `NewerFormat`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "type");
        let version = r.u8()?;
        if version > VERSION {
            return Err(Error::new(ErrorKind::NewerFormat, format!("a type of version {version}")));
        }
        let (kind, array) = (r.u8()?, r.u32()?);
        let comment = Some(text(&mut r)?).filter(|comment| !comment.is_empty());
        let kind = match kind {
            1 => Kind::Enum(labels(&mut r)?),
            2 => Kind::Domain(domain(&mut r)?),
            _ => return Err(r.bad("an unknown kind of type")),
        };
        if !r.is_empty() {
            return Err(r.bad("more than a type"));
        }
        Ok(Self { array, comment, kind })
    }

    /// The highest oid that it has given to its parts.
    pub fn highest_id(&self) -> u32 {
        let own = match &self.kind {
            Kind::Enum(labels) => labels.labels.iter().map(|label| label.oid).max(),
            Kind::Domain(domain) => domain.checks.iter().map(|check| check.id).max(),
            Kind::Citext => None,
        };
        own.unwrap_or(0).max(self.array)
    }
}

fn labels(r: &mut Reader<'_>) -> Result<EnumType> {
    let mut labels: Vec<Label> = Vec::new();
    for _ in 0..r.u32()? {
        let (oid, number) = (r.u32()?, r.i64()?);
        let (sort_order, added_by, name) = (f32::from_bits(r.u32()?), r.u64()?, text(r)?);
        if labels.last().is_some_and(|last| last.number >= number) {
            return Err(r.bad("labels out of order"));
        }
        labels.push(Label { oid, number, sort_order, name, added_by, is_new: false });
    }
    Ok(EnumType { labels })
}

fn domain(r: &mut Reader<'_>) -> Result<DomainType> {
    let (base, typmod, flags) = (r.u32()?, r.u32()? as i32, r.u8()?);
    let default_sql = if flags & 2 != 0 { Some(text(r)?) } else { None };
    let mut checks = Vec::new();
    for _ in 0..r.u16()? {
        let (id, name, sql) = (r.u32()?, text(r)?, text(r)?);
        checks.push(DomainCheck { id, name, sql, validated: r.u8()? != 0 });
    }
    Ok(DomainType { base, typmod, not_null: flags & 1 != 0, default_sql, checks })
}

fn text(r: &mut Reader<'_>) -> Result<String> {
    let bytes = r.counted()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| r.bad("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> EnumType {
        EnumType::new(names.iter().zip(100..).map(|(name, oid)| ((*name).to_owned(), oid)))
    }

    #[test]
    fn bodies_come_back_whole_or_not_at_all() {
        let domain = DomainType {
            base: 25,
            typmod: -1,
            not_null: true,
            default_sql: Some("'x'".into()),
            checks: vec![DomainCheck { id: 9, name: "c".into(), sql: "VALUE <> ''".into(), validated: false }],
        };
        for kind in [Kind::Enum(named(&["sad", "happy"])), Kind::Enum(named(&[])), Kind::Domain(domain)] {
            let body = Body { array: 16_401, comment: Some("why".into()), kind };
            let bytes = body.encode();
            assert_eq!(Body::decode(&bytes).expect("a body"), body);
            for len in 0..bytes.len() {
                assert!(Body::decode(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
            }
            assert!(Body::decode(&[bytes.as_slice(), &[0]].concat()).is_err());
            let newer = [&[VERSION + 1], &bytes[1..]].concat();
            assert!(Body::decode(&newer).is_err_and(|error| error.kind() == ErrorKind::NewerFormat));
        }
    }

    #[test]
    fn numbers_keep_the_order() {
        let mut ty = named(&["b", "d"]);
        ty.add("c", 1, LabelPlace::Before("d"), 0).expect("between");
        ty.add("a", 2, LabelPlace::Before("b"), 0).expect("first");
        ty.add("e", 3, LabelPlace::Last, 0).expect("last");
        ty.add("d2", 4, LabelPlace::After("d"), 0).expect("behind");
        let names: Vec<&str> = ty.labels().iter().map(|label| label.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d", "d2", "e"]);
        assert!(ty.labels().is_sorted_by(|a, b| a.number < b.number && a.sort_order < b.sort_order));
        assert_eq!(ty.add("x", 5, LabelPlace::After("y"), 0).expect_err("none").sqlstate, "22023");
        let mut ends = 0;
        for n in 0..50 {
            let (name, next) = (format!("n{n}"), format!("n{}", n - 1));
            let place = if n == 0 { LabelPlace::Before("d") } else { LabelPlace::Before(&next) };
            match ty.add(&name, 10 + n as u32, place, 0) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.sqlstate, "54000");
                    ends = n;
                    break;
                }
            }
        }
        assert!((38..=40).contains(&ends), "{ends}");
        assert!(ty.labels().is_sorted_by_key(|label| label.number));
    }
}
