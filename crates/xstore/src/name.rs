//! Names of objects.

use crate::error::{StoreError, StoreErrorKind, StoreResult};

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// Checks a name: parts of letters, digits, `-`, `_` and `.` with `/` between them, none of which begins with a dot (those
/// are a store's own). So it means the same in every store, and leads nowhere else.
///
/// # Errors
/// `Invalid`.
pub fn check_name(name: &str) -> StoreResult<()> {
    let letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(letter);
    if name.len() <= NAME_BYTES_MAX && name.split('/').all(part) {
        return Ok(());
    }
    Err(StoreError::new(StoreErrorKind::Invalid, format!("\"{}\" cannot be an object's name", name.escape_debug())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "runs/00-1F.run", "a/b/c_d.x"] {
            check_name(good).unwrap();
        }
        for bad in ["", "/a", "a/", "a//b", "../a", "a/..", ".hidden", "a b", "a\0", "ä", &"x".repeat(513)] {
            assert_eq!(check_name(bad).unwrap_err().kind(), StoreErrorKind::Invalid, "{bad}");
        }
    }
}
