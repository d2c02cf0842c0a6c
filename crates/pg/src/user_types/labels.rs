//! Labels as texts and as numbers.

use std::sync::Arc;

use super::definition::{EnumType, Kind, Label, UserType};
use super::{UserTypes, by_oid};
use crate::wire::SqlError;

/// An enumerated type at hand, to read and print many labels.
#[derive(Clone, Debug)]
pub struct Labels(Arc<UserType>);

impl Labels {
    fn of(ty: &Arc<UserType>) -> Option<Self> {
        matches!(ty.body.kind, Kind::Enum(_)).then(|| Self(Arc::clone(ty)))
    }

    /// The type.
    pub fn ty(&self) -> &EnumType {
        match &self.0.body.kind {
            Kind::Enum(labels) => labels,
            // `of` has looked.
            Kind::Domain(_) | Kind::Citext => unreachable!("a type without labels"),
        }
    }

    /// Its name, as errors show it.
    fn name(&self) -> String {
        crate::types::format_type(self.0.oid, None)
    }

    /// The label of a number.
    ///
    /// # Errors
    /// `XX000`: there is none.
    pub fn text(&self, number: i64) -> Result<&str, SqlError> {
        let found = self.ty().by_number(number).map(|label| label.name.as_str());
        found.ok_or_else(|| SqlError::internal(format!("a value of the enum {} without a label", self.0.name)))
    }

    /// The numbers of all labels from the one to the other.
    ///
    /// # Errors
    /// `55P04`: one of them was added by this transaction.
    pub fn range(&self, from: Option<i64>, to: Option<i64>) -> Result<Vec<i64>, SqlError> {
        let (from, to) = (from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX));
        let within = self.ty().labels().iter().filter(|label| (from..=to).contains(&label.number));
        within.map(|label| self.usable(label)).collect()
    }

    /// The number of a label that may be used.
    fn usable(&self, label: &Label) -> Result<i64, SqlError> {
        if !label.is_new {
            return Ok(label.number);
        }
        let message = format!("unsafe use of new value \"{}\" of enum type {}", label.name, self.name());
        Err(SqlError::new("55P04", message).with_hint("New enum values must be committed before they can be used."))
    }

    /// The number of the first label, or of the last one.
    ///
    /// # Errors
    /// `55000` without labels; as [`Labels::range`].
    pub fn end(&self, last: bool) -> Result<i64, SqlError> {
        let labels = self.ty().labels();
        match if last { labels.last() } else { labels.first() } {
            Some(label) => self.usable(label),
            None => Err(SqlError::new("55000", format!("enum {} contains no values", self.name()))),
        }
    }

    /// The number of a label.
    ///
    /// # Errors
    /// `22P02`: there is none of that name; as [`Labels::range`].
    pub fn number(&self, text: &str) -> Result<i64, SqlError> {
        match self.ty().named(text) {
            Some(label) => self.usable(label),
            None => {
                let message = format!("invalid input value for enum {}: \"{text}\"", self.name());
                Err(SqlError::new("22P02", message))
            }
        }
    }
}

/// The labels of the enumerated type with that oid; `types`: where no others are meant.
///
/// # Errors
/// `XX000`: it is not known here.
pub fn labels_of(oid: u32, types: Option<&UserTypes>) -> Result<Labels, SqlError> {
    let found = match types {
        Some(types) => types.by_oid(oid).cloned(),
        None => by_oid(oid),
    };
    found.as_ref().and_then(Labels::of).ok_or_else(|| SqlError::internal(format!("the enum {oid} is not known here")))
}

/// The label of a number, of the enumerated type with that oid.
///
/// # Errors
/// `XX000`
pub fn text_of(oid: u32, number: i64) -> Result<String, SqlError> {
    labels_of(oid, None)?.text(number).map(str::to_owned)
}
