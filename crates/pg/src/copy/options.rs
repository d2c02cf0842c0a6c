//! What follows `WITH` in a COPY command.

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};

use crate::wire::SqlError;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    Text,
    Csv,
    Binary,
}

/// Options, checked and completed.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    /// The first line has the columns' names.
    pub header: bool,
    pub quote: u8,
    pub escape: u8,
    /// Columns whose values are always quoted.
    pub force_quote: Vec<String>,
    /// Columns in which the null string is a value.
    pub force_not_null: Vec<String>,
    /// Columns in which the null string is null even in quotes.
    pub force_null: Vec<String>,
}

impl CopyOptions {
    /// The defaults of a format.
    pub fn new(format: CopyFormat) -> Self {
        let csv = format == CopyFormat::Csv;
        Self {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".to_owned() },
            header: false,
            quote: b'"',
            escape: b'"',
            force_quote: vec![],
            force_not_null: vec![],
            force_null: vec![],
        }
    }

    /// Options as the parser gives them, `WITH (…)` and the old form.
    ///
    /// # Errors
    /// `0A000` for other encodings, `22023` and `42601` for options that
    /// contradict each other.
    pub fn parse(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Self, SqlError> {
        let mut given = Given::default();
        for option in options {
            match option {
                CopyOption::Format(name) => match name.value.to_ascii_lowercase().as_str() {
                    "text" => given.format = Some(CopyFormat::Text),
                    "csv" => given.format = Some(CopyFormat::Csv),
                    "binary" => given.format = Some(CopyFormat::Binary),
                    other => {
                        return Err(SqlError::new("22023", format!("COPY format \"{other}\" not recognized")));
                    }
                },
                CopyOption::Freeze(_) => {}
                CopyOption::Delimiter(c) => given.delimiter = Some(*c),
                CopyOption::Null(text) => given.null = Some(text.clone()),
                CopyOption::Header(on) => given.header = *on,
                CopyOption::Quote(c) => given.quote = Some(*c),
                CopyOption::Escape(c) => given.escape = Some(*c),
                CopyOption::ForceQuote(columns) => given.force_quote = names(columns),
                CopyOption::ForceNotNull(columns) => given.force_not_null = names(columns),
                CopyOption::ForceNull(columns) => given.force_null = names(columns),
                CopyOption::Encoding(name) => {
                    let plain = name.to_ascii_lowercase().replace(['-', '_'], "");
                    if plain != "utf8" && plain != "unicode" {
                        return Err(SqlError::unsupported(format!("encoding \"{name}\" is not supported")));
                    }
                }
            }
        }
        for option in legacy {
            match option {
                CopyLegacyOption::Binary => given.format = Some(CopyFormat::Binary),
                CopyLegacyOption::Delimiter(c) => given.delimiter = Some(*c),
                CopyLegacyOption::Null(text) => given.null = Some(text.clone()),
                CopyLegacyOption::Header => given.header = true,
                CopyLegacyOption::Csv(csv) => {
                    given.format = Some(CopyFormat::Csv);
                    for option in csv {
                        match option {
                            CopyLegacyCsvOption::Header => given.header = true,
                            CopyLegacyCsvOption::Quote(c) => given.quote = Some(*c),
                            CopyLegacyCsvOption::Escape(c) => given.escape = Some(*c),
                            CopyLegacyCsvOption::ForceQuote(columns) => given.force_quote = names(columns),
                            CopyLegacyCsvOption::ForceNotNull(columns) => given.force_not_null = names(columns),
                        }
                    }
                }
                other => {
                    return Err(SqlError::syntax(format!("option \"{other}\" not recognized")));
                }
            }
        }
        given.complete()
    }
}

fn names(columns: &[Ident]) -> Vec<String> {
    columns
        .iter()
        .map(|ident| match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_ascii_lowercase(),
        })
        .collect()
}

#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    delimiter: Option<char>,
    null: Option<String>,
    header: bool,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Vec<String>,
    force_not_null: Vec<String>,
    force_null: Vec<String>,
}

fn one_byte(c: Option<char>, what: &str, default: u8) -> Result<u8, SqlError> {
    match c {
        None => Ok(default),
        Some(c) if c.is_ascii() && c != '\0' => Ok(c as u8),
        Some(_) => Err(SqlError::unsupported(format!("COPY {what} must be a single one-byte character"))),
    }
}

impl Given {
    fn complete(self) -> Result<CopyOptions, SqlError> {
        let mut out = CopyOptions::new(self.format.unwrap_or(CopyFormat::Text));
        let csv = out.format == CopyFormat::Csv;
        if out.format == CopyFormat::Binary {
            let refused = [
                (self.delimiter.is_some(), "cannot specify DELIMITER in BINARY mode", "42601"),
                (self.null.is_some(), "cannot specify NULL in BINARY mode", "42601"),
                (self.header, "cannot specify HEADER in BINARY mode", "0A000"),
            ];
            for (given, message, state) in refused {
                if given {
                    return Err(SqlError::new(state, message));
                }
            }
        }
        if !csv {
            for (given, what) in [
                (self.quote.is_some(), "quote"),
                (self.escape.is_some(), "escape"),
                (!self.force_quote.is_empty(), "force quote"),
                (!self.force_not_null.is_empty(), "force not null"),
                (!self.force_null.is_empty(), "force null"),
            ] {
                if given {
                    return Err(SqlError::unsupported(format!("COPY {what} available only in CSV mode")));
                }
            }
        }
        out.delimiter = one_byte(self.delimiter, "delimiter", out.delimiter)?;
        out.quote = one_byte(self.quote, "quote", out.quote)?;
        out.escape = one_byte(self.escape, "escape", out.quote)?;
        out.null = self.null.unwrap_or(out.null);
        out.header = self.header;
        out.force_quote = self.force_quote;
        out.force_not_null = self.force_not_null;
        out.force_null = self.force_null;
        let invalid = |message: &str| Err(SqlError::new("22023", message));
        if matches!(out.delimiter, b'\n' | b'\r') {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        if out.null.contains(['\n', '\r']) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        if !csv && (out.delimiter.is_ascii_alphanumeric() || matches!(out.delimiter, b'\\' | b'.')) {
            return Err(SqlError::new("22023", format!("COPY delimiter cannot be \"{}\"", char::from(out.delimiter))));
        }
        if csv && out.delimiter == out.quote {
            return invalid("COPY delimiter and quote must be different");
        }
        if out.null.as_bytes().contains(&out.delimiter) {
            return invalid("COPY delimiter must not appear in the NULL specification");
        }
        if csv && out.null.as_bytes().contains(&out.quote) {
            return invalid("CSV quote character must not appear in the NULL specification");
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn parse(with: &str) -> Result<CopyOptions, SqlError> {
        let sql = format!("COPY t FROM STDIN {with}");
        match Parser::parse_sql(&PostgreSqlDialect {}, &sql).expect(&sql).remove(0) {
            Statement::Copy { options, legacy_options, .. } => CopyOptions::parse(&options, &legacy_options),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn options() {
        let csv = parse("WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x', FORCE_NOT_NULL (a, \"B\"))").expect("csv");
        assert_eq!((csv.format, csv.header, csv.delimiter, csv.null.as_str()), (CopyFormat::Csv, true, b';', "x"));
        assert_eq!(csv.force_not_null, ["a", "B"]);
        let old = parse("CSV HEADER").expect("old");
        assert_eq!((old.format, old.header), (CopyFormat::Csv, true));
        let text = parse("").expect("text");
        assert_eq!((text.delimiter, text.null.as_str()), (b'\t', "\\N"));
        assert_eq!(parse("BINARY").expect("old").format, CopyFormat::Binary);
        assert_eq!(parse("WITH (FORMAT binary)").expect("new").format, CopyFormat::Binary);
        for (bad, state) in [
            ("WITH (FORMAT binary, DELIMITER ',')", "42601"),
            ("BINARY NULL 'x'", "42601"),
            ("WITH (FORMAT binary, HEADER)", "0A000"),
            ("WITH (FORMAT nosuch)", "22023"),
            ("WITH (QUOTE '\"')", "0A000"),
            ("WITH (FORMAT csv, DELIMITER '\"')", "22023"),
            ("WITH (DELIMITER 'a')", "22023"),
        ] {
            assert_eq!(parse(bad).unwrap_err().sqlstate, state, "{bad}");
        }
    }
}
