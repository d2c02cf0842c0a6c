//! Differences that are known, each with its reason. They are counted apart and fail nothing.

use super::compare::Difference;

/// What is known about a difference.
pub struct Known {
    pub name: &'static str,
    /// Why it stays for now, or for good.
    pub reason: &'static str,
    is: fn(&Seen) -> bool,
}

/// A difference, as the list judges it.
pub struct Seen<'a> {
    pub what: Difference,
    /// The statement with its constants.
    pub text: &'a str,
    pub theirs: &'a str,
    pub ours: &'a str,
}

/// The list.
pub const KNOWN: &[Known] = &[];

/// The entry that explains a difference, if there is one.
pub fn explained(seen: &Seen) -> Option<&'static Known> {
    KNOWN.iter().find(|known| (known.is)(seen))
}
