//! Names of constraints, indexes and sequences that the statement does not name, as PostgreSQL makes them
//! (`makeObjectName`, `ChooseRelationName`): `table_column_key`, cut to what a name may be, with a number if it is taken.

use resurgam_base::limits::IDENTIFIER_BYTES_MAX;

use crate::wire::SqlError;

/// `table_columns_label`, cut in the longer one of table and columns.
fn made_name(table: &str, columns: &str, label: &str) -> String {
    let parts = if columns.is_empty() { 1 } else { 2 };
    let room = IDENTIFIER_BYTES_MAX.saturating_sub(label.len() + parts);
    let (mut first, mut second) = (table.len(), columns.len());
    if first + second > room {
        // Both are cut to half of it, where neither fits in its half.
        let half = room / 2;
        if second <= half {
            first = room - second;
        } else if first <= room - half {
            second = room - first;
        } else {
            (first, second) = (room - half, half);
        }
    }
    let (first, second) = (cut(table, first), cut(columns, second));
    match parts {
        1 => format!("{first}_{label}"),
        _ => format!("{first}_{second}_{label}"),
    }
}

/// As many whole letters as fit.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The name that is made of a table, columns and a label, the label with the first number with which it is not `taken`.
///
/// # Errors
/// What `taken` fails with.
pub(crate) fn free_name(
    table: &str,
    columns: &[&str],
    label: &str,
    taken: &dyn Fn(&str) -> Result<bool, SqlError>,
) -> Result<String, SqlError> {
    let columns = columns.join("_");
    let mut name = made_name(table, &columns, label);
    let mut number = 0u64;
    while taken(&name)? {
        number += 1;
        name = made_name(table, &columns, &format!("{label}{number}"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_part_is_cut() {
        let long = "x".repeat(70);
        for (table, columns, label, wanted) in [
            ("t", "a_b", "key", "t_a_b_key".to_owned()),
            ("t", "", "pkey", "t_pkey".to_owned()),
            (&long, "", "pkey1", format!("{}_pkey1", "x".repeat(57))),
            (&long, "a", "key", format!("{}_a_key", "x".repeat(57))),
            ("t", &long, "idx", format!("t_{}_idx", "x".repeat(57))),
            (&long, &long, "key", format!("{}_{}_key", "x".repeat(29), "x".repeat(29))),
            (&long, &long, "key1", format!("{}_{}_key1", "x".repeat(29), "x".repeat(28))),
            (&"ä".repeat(40), "", "pkey", format!("{}_pkey", "ä".repeat(29))),
        ] {
            let made = made_name(table, columns, label);
            assert_eq!(made, wanted);
            assert!(made.len() <= IDENTIFIER_BYTES_MAX);
        }
    }

    #[test]
    fn a_number_follows_the_label() {
        let taken = |name: &str| Ok(["t_a_key", "t_a_key1"].contains(&name));
        assert_eq!(free_name("t", &["a"], "key", &taken).expect("a name"), "t_a_key2");
    }
}
