//! Positions in statement texts, in characters from 1, as the protocol wants them.

/// Character position of a 1-based line and column (both in characters).
/// `None` if the text has no such place.
pub fn character_position(sql: &str, line: u64, column: u64) -> Option<u32> {
    if line == 0 || column == 0 {
        return None;
    }
    let mut before = 0u64;
    for (number, text) in sql.split('\n').enumerate() {
        let characters = text.chars().count() as u64;
        if number as u64 + 1 == line {
            return (column <= characters + 1).then(|| u32::try_from(before + column).ok()).flatten();
        }
        before += characters + 1;
    }
    None
}

/// Character position of the first use of an identifier outside strings and comments.
/// Unquoted identifiers compare without regard to case. `None` if it does not occur.
pub fn find_identifier(sql: &str, name: &str) -> Option<u32> {
    let mut chars = sql.char_indices().peekable();
    let mut position = 0u32;
    while let Some((start, c)) = chars.next() {
        position += 1;
        let at = position;
        match c {
            '\'' => {
                for (_, c) in chars.by_ref() {
                    position += 1;
                    if c == '\'' {
                        break;
                    }
                }
            }
            '"' => {
                let mut text = String::new();
                for (_, c) in chars.by_ref() {
                    position += 1;
                    if c == '"' {
                        break;
                    }
                    text.push(c);
                }
                if text == name {
                    return Some(at);
                }
            }
            '-' if matches!(chars.peek(), Some((_, '-'))) => {
                for (_, c) in chars.by_ref() {
                    position += 1;
                    if c == '\n' {
                        break;
                    }
                }
            }
            '/' if matches!(chars.peek(), Some((_, '*'))) => {
                let mut last = ' ';
                for (_, c) in chars.by_ref() {
                    position += 1;
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            c if c.is_alphabetic() || c == '_' => {
                let mut end = start + c.len_utf8();
                while let Some(&(next, c)) = chars.peek() {
                    if !(c.is_alphanumeric() || c == '_' || c == '$') {
                        break;
                    }
                    end = next + c.len_utf8();
                    chars.next();
                    position += 1;
                }
                if sql[start..end].to_lowercase() == name {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns() {
        assert_eq!(character_position("select\nfoo", 2, 1), Some(8));
        assert_eq!(character_position("äö x", 1, 4), Some(4));
        assert_eq!(character_position("a", 1, 2), Some(2));
        assert_eq!(character_position("a", 3, 1), None);
        assert_eq!(character_position("a", 0, 0), None);
    }

    #[test]
    fn identifiers() {
        assert_eq!(find_identifier("SELECT x, 'tab' FROM Tab", "tab"), Some(22));
        assert_eq!(find_identifier("SELECT /* tab */ 1 -- tab\n FROM \"tab\"", "tab"), Some(33));
        assert_eq!(find_identifier("SELECT tabs", "tab"), None);
        assert_eq!(find_identifier("'unterminated", "x"), None);
    }
}
