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
    /// PostgreSQL's answer in words.
    pub theirs: &'a str,
}

/// The list.
pub const KNOWN: &[Known] = &[Known {
    name: "a constant that does not fit, in a branch that is not reached",
    reason: "PostgreSQL brings constants to their type when it plans, and fails there; here they fail when they are needed",
    is: |seen| {
        seen.what == Difference::ErrorMissing
            && seen.theirs.contains("ERROR 22001")
            && seen.text.contains("DO UPDATE SET")
    },
}];

/// The entry that explains a difference, if there is one.
pub fn explained(seen: &Seen) -> Option<&'static Known> {
    KNOWN.iter().find(|known| (known.is)(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_known() {
        let text = "INSERT INTO t VALUES (1) ON CONFLICT (k) DO UPDATE SET c = 'too long'";
        let mut seen =
            Seen { what: Difference::ErrorMissing, text, theirs: "ERROR 22001: value too long for type character(5)" };
        assert!(explained(&seen).is_some());
        seen.what = Difference::Rows;
        assert!(explained(&seen).is_none());
    }
}
