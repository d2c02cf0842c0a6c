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
    /// PostgreSQL's answer in words.
    pub theirs: &'a str,
    /// Resurgam's.
    pub ours: &'a str,
}

/// The list. An entry is about one case only; a run says how often each excused something.
pub const KNOWN: &[Known] = &[
    Known {
        name: "long key",
        reason: "PostgreSQL compresses a key before it finds it too long (2,704 bytes, mostly in a third of a page); here \
                 1,800 bytes are the maximum as they are",
        is: |seen| seen.theirs.contains(" rows") && seen.ours.contains("ERROR 54000: key of "),
    },
    Known {
        name: "slow",
        reason: "no answer within the 10 seconds that each statement has: a time, which depends on the machine and what else it \
                 does, and no other answer",
        is: |seen| {
            let timeout = "ERROR 57014: canceling statement due to statement timeout";
            seen.what == Difference::ErrorAdded && seen.ours.contains(timeout)
        },
    },
    Known {
        name: "any element of a domain",
        reason: "operators and functions of any element (`<@` of ranges) take no value of a domain in PostgreSQL; here it is one of the \
                 type which the domain is of (docs/sql.md)",
        is: |seen| {
            let domain = ["d_int", "d_text"].iter().any(|name| seen.theirs.contains(name));
            seen.what == Difference::ErrorMissing && domain && seen.theirs.contains("ERROR 42883: ")
        },
    },
    Known {
        name: "row type",
        reason: "a whole row has its table's row type in PostgreSQL, and is a record here",
        is: |seen| seen.what == Difference::Types && made_for(seen, &["2249"]),
    },
    Known {
        name: "array of a domain",
        reason: "array_agg of a column of a domain is an array of the domain in PostgreSQL, and here one of what the domain is of, as all \
                 expressions over such columns (docs/known-issues.md)",
        is: |seen| seen.what == Difference::Types && made_for(seen, &["integer[]", "text[]"]),
    },
    Known {
        name: "referred to twice",
        reason: "a row that one foreign key keeps (RESTRICT) and of which another one's action fails: PostgreSQL looks at them in \
                 the order in which they were made, here actions come first; the statement fails either way",
        is: |seen| {
            let both = |a: &str, b: &str| seen.theirs.contains(a) && seen.ours.contains(b);
            seen.what == Difference::Code
                && (both("ERROR 23503: update or delete on ", "ERROR 23502: null value in column ")
                    || both("ERROR 23502: null value in column ", "ERROR 23503: update or delete on "))
        },
    },
];

/// Whether two lists of types differ only where PostgreSQL has one that was made (its oid is a number from 16,384 on) and
/// Resurgam one of these.
fn made_for(seen: &Seen, types: &[&str]) -> bool {
    let (a, b): (Vec<&str>, Vec<&str>) = (seen.theirs.split(", ").collect(), seen.ours.split(", ").collect());
    let is_made = |ty: &str| ty.parse::<u32>().is_ok_and(|oid| oid >= 16_384);
    a.len() == b.len() && a.iter().zip(&b).all(|(x, y)| x == y || is_made(x) && types.contains(y))
}

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
    fn made_types_are_told_from_others() {
        let seen = |theirs, ours| Seen { what: Difference::Types, theirs, ours };
        assert!(explained(&seen("bigint, 16678", "bigint, 2249")).is_some());
        assert!(explained(&seen("16623, 16623", "integer[], integer[]")).is_some());
        for (theirs, ours) in [("bigint, 16678", "integer, 2249"), ("16678", "bigint"), ("23, 16678", "2249")] {
            assert!(explained(&seen(theirs, ours)).is_none());
        }
        assert!(explained(&Seen { what: Difference::Parameters, ..seen("16678", "2249") }).is_none());
    }

    #[test]
    fn only_what_is_listed_is_known() {
        let list = [Known {
            name: "too long",
            reason: "a test",
            is: |seen| seen.what == Difference::ErrorMissing && seen.theirs.contains("ERROR 22001"),
        }];
        let theirs = "ERROR 22001: value too long for type character(5)";
        let mut seen = Seen { what: Difference::ErrorMissing, theirs, ours: "0 rows" };
        assert!(entry(&list, &seen).is_some());
        seen.what = Difference::Rows;
        assert!(entry(&list, &seen).is_none());
        assert!(explained(&seen).is_none());
    }
}
