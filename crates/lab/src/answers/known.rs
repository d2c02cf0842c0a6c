//! Differences that have a reason: lists that people write.
//!
//! A line `= reason` begins a group. Each other line is one entry: a name (of a script, of a family of statements) or `*`, then
//! a piece of the statement as it is written there, blanks as one and letters as small ones.
//! Empty lines and lines with `#` say nothing. An entry excuses other rows and other order,
//! and statements that only Resurgam accepts.

use std::cell::Cell;

/// A list.
pub struct Known(Vec<Entry>);

struct Entry {
    reason: String,
    file: String,
    piece: String,
    used: Cell<bool>,
}

impl Known {
    /// # Errors
    /// In words: a line that says nothing.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut reason = String::new();
        let mut entries = Vec::new();
        for (number, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(text) = line.strip_prefix("= ") {
                reason = text.to_owned();
                continue;
            }
            let entry = line.split_once(' ').filter(|_| !reason.is_empty());
            let (file, piece) = entry.ok_or_else(|| format!("line {} of the list says nothing", number + 1))?;
            entries.push(Entry {
                reason: reason.clone(),
                file: file.to_owned(),
                piece: plain(piece),
                used: Cell::new(false),
            });
        }
        Ok(Self(entries))
    }

    /// Why this statement of this script may differ.
    pub fn reason(&self, file: &str, sql: &str) -> Option<&str> {
        let sql = plain(sql);
        let entry = self.0.iter().find(|e| (e.file == "*" || e.file == file) && sql.contains(&e.piece))?;
        entry.used.set(true);
        Some(&entry.reason)
    }

    /// Entries that excused nothing, of scripts that were run.
    pub fn unused(&self, files: &[String]) -> Vec<String> {
        let unused = self.0.iter().filter(|e| !e.used.get() && (e.file == "*" || files.contains(&e.file)));
        unused.map(|e| format!("{} {}", e.file, e.piece)).collect()
    }
}

/// Blanks as one, letters as small ones.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_and_counted() {
        let known = Known::read("# c\n= at random\n* random()\nfloat8 SELECT  x\n= b\nint4 y\n").expect("a list");
        assert_eq!(known.reason("any", "select\n RANDOM()"), Some("at random"));
        assert_eq!(known.reason("float8", "select x from t"), Some("at random"));
        assert_eq!(known.reason("float4", "select x from t"), None);
        assert_eq!(known.unused(&["int4".into()]), ["int4 y"]);
        assert!(Known::read("* before any reason").is_err());
        assert!(Known::read("= r\nword").is_err());
    }

    #[test]
    fn our_lists_can_be_read() {
        for list in [include_str!("regress/known.txt"), include_str!("matrix/known.txt")] {
            Known::read(list).expect("the list is well formed");
        }
    }
}
