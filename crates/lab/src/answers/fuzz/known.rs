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
#[allow(dead_code)] // While the list is empty nobody reads them.
pub struct Seen<'a> {
    pub what: Difference,
    /// The statement with its constants.
    pub text: &'a str,
    /// PostgreSQL's answer in words.
    pub theirs: &'a str,
}

/// The list: none today.
pub const KNOWN: &[Known] = &[];

/// The entry that explains a difference, if there is one.
pub fn explained(seen: &Seen) -> Option<&'static Known> {
    entry(KNOWN, seen)
}

fn entry<'k>(list: &'k [Known], seen: &Seen) -> Option<&'k Known> {
    list.iter().find(|known| (known.is)(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_known() {
        let list = [Known {
            name: "too long",
            reason: "a test",
            is: |seen| seen.what == Difference::ErrorMissing && seen.theirs.contains("ERROR 22001"),
        }];
        let text = "INSERT INTO t VALUES (1)";
        let mut seen =
            Seen { what: Difference::ErrorMissing, text, theirs: "ERROR 22001: value too long for type character(5)" };
        assert!(entry(&list, &seen).is_some());
        seen.what = Difference::Rows;
        assert!(entry(&list, &seen).is_none());
        assert!(explained(&seen).is_none());
    }
}
