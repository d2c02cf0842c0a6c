//! What follows `WITH` in a COPY command.

use crate::wire::SqlError;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    Text,
    Csv,
    Binary,
}

/// What is made of the first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyHeader {
    /// It is a record.
    #[default]
    None,
    /// It has the columns' names.
    Line,
    /// The same, and whether they are the right ones is looked at. Of COPY FROM.
    Match,
}

/// An option as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenOption {
    /// Folded unless it is quoted.
    pub name: String,
    pub value: GivenValue,
    /// Where it is in the statement: its character, from 1.
    pub position: Option<u32>,
}

/// What is written behind an option's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenValue {
    Nothing,
    /// A word or a string.
    Text(String),
    Number(String),
    Star,
    List(Vec<String>),
}

impl GivenOption {
    /// # Errors
    /// `42601` where there is none.
    fn text(&self) -> Result<String, SqlError> {
        match &self.value {
            GivenValue::Text(text) | GivenValue::Number(text) => Ok(text.clone()),
            GivenValue::Star => Ok("*".to_owned()),
            GivenValue::List(names) => Ok(names.join(".")),
            GivenValue::Nothing => Err(SqlError::syntax(format!("{} requires a parameter", self.name))),
        }
    }

    /// # Errors
    /// `42601`
    fn boolean(&self) -> Result<bool, SqlError> {
        let wrong = || SqlError::syntax(format!("{} requires a Boolean value", self.name));
        match &self.value {
            GivenValue::Nothing => Ok(true),
            GivenValue::Number(digits) => truth_of_number(digits).ok_or_else(wrong),
            _ => truth_of_word(&self.text()?).ok_or_else(wrong),
        }
    }

    /// # Errors
    /// `42601`; `0A000` for `match` of COPY TO.
    fn header(&self, from: bool) -> Result<CopyHeader, SqlError> {
        let found = match &self.value {
            GivenValue::Nothing => Some(true),
            GivenValue::Number(digits) => truth_of_number(digits),
            _ => {
                let word = self.text()?;
                if word.eq_ignore_ascii_case("match") {
                    return match from {
                        true => Ok(CopyHeader::Match),
                        false => Err(SqlError::unsupported(format!("cannot use \"{word}\" with HEADER in COPY TO"))),
                    };
                }
                truth_of_word(&word)
            }
        };
        match found {
            Some(true) => Ok(CopyHeader::Line),
            Some(false) => Ok(CopyHeader::None),
            None => Err(SqlError::syntax(format!("{} requires a Boolean value or \"match\"", self.name))),
        }
    }

    /// # Errors
    /// `22023`
    fn columns(&self) -> Result<Vec<String>, SqlError> {
        match &self.value {
            GivenValue::List(names) => Ok(names.clone()),
            _ => {
                let message = format!("argument to option \"{}\" must be a list of column names", self.name);
                Err(self.at(SqlError::new("22023", message)))
            }
        }
    }

    fn at(&self, error: SqlError) -> SqlError {
        match self.position {
            Some(position) => error.with_position(position),
            None => error,
        }
    }

    /// Puts a value where none may be yet.
    ///
    /// # Errors
    /// `42601`
    fn put<T>(&self, place: &mut Option<T>, value: T) -> Result<(), SqlError> {
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(self.at(SqlError::syntax("conflicting or redundant options"))),
        }
    }
}

fn truth_of_number(digits: &str) -> Option<bool> {
    match digits {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn truth_of_word(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "on" => Some(true),
        "false" | "off" => Some(false),
        _ => None,
    }
}

/// Options, checked and completed.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: u8,
    pub null: String,
    pub header: CopyHeader,
    pub quote: u8,
    pub escape: u8,
    /// Columns whose values are always quoted.
    pub force_quote: Vec<String>,
    /// All of them are.
    pub force_quote_all: bool,
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
            header: CopyHeader::None,
            quote: b'"',
            escape: b'"',
            force_quote: vec![],
            force_quote_all: false,
            force_not_null: vec![],
            force_null: vec![],
        }
    }

    /// Options as they are written, of COPY FROM or COPY TO.
    ///
    /// # Errors
    /// Those of PostgreSQL, in its order; `0A000` for other encodings.
    pub fn parse(options: &[GivenOption], from: bool) -> Result<Self, SqlError> {
        let (mut given, mut format, mut freeze, mut header, mut encoding) = (Given::default(), None, None, None, None);
        for option in options {
            match option.name.as_str() {
                "format" => {
                    let name = option.text()?;
                    let known = match name.as_str() {
                        "text" => Some(CopyFormat::Text),
                        "csv" => Some(CopyFormat::Csv),
                        "binary" => Some(CopyFormat::Binary),
                        _ => None,
                    };
                    option.put(&mut format, known)?;
                    if known.is_none() {
                        let message = format!("COPY format \"{name}\" not recognized");
                        return Err(option.at(SqlError::new("22023", message)));
                    }
                }
                "freeze" => option.put(&mut freeze, ()).and_then(|()| option.boolean().map(drop))?,
                "delimiter" => option.put(&mut given.delimiter, option.text()?)?,
                "null" => option.put(&mut given.null, option.text()?)?,
                "header" => option.put(&mut header, option.header(from)?)?,
                "quote" => option.put(&mut given.quote, option.text()?)?,
                "escape" => option.put(&mut given.escape, option.text()?)?,
                "force_quote" if option.value == GivenValue::Star => {
                    option.put(&mut given.force_quote, Vec::new())?;
                    given.force_quote_all = true;
                }
                "force_quote" => option.put(&mut given.force_quote, option.columns()?)?,
                "force_not_null" => option.put(&mut given.force_not_null, option.columns()?)?,
                "force_null" => option.put(&mut given.force_null, option.columns()?)?,
                "encoding" => {
                    let name = option.text()?;
                    option.put(&mut encoding, ())?;
                    let plain: String =
                        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
                    if !ENCODINGS.split(' ').any(|known| known == plain) {
                        let message = "argument to option \"encoding\" must be a valid encoding name";
                        return Err(option.at(SqlError::new("22023", message)));
                    }
                    if plain != "utf8" && plain != "unicode" {
                        return Err(SqlError::unsupported(format!("encoding \"{name}\" is not supported")));
                    }
                }
                name => return Err(option.at(SqlError::syntax(format!("option \"{name}\" not recognized")))),
            }
        }
        given.header = header.unwrap_or_default();
        given.complete(format.flatten().unwrap_or(CopyFormat::Text), from)
    }
}

/// Names of PostgreSQL's encodings, without what is no letter and no digit.
const ENCODINGS: &str = "abc alt big5 euccn eucjis2004 eucjp euckr euctw gb18030 gbk iso88591 iso885910 iso885913 \
    iso885914 iso885915 iso885916 iso88592 iso88593 iso88594 iso88595 iso88596 iso88597 iso88598 iso88599 johab koi8 \
    koi8r koi8u latin1 latin10 latin2 latin3 latin4 latin5 latin6 latin7 latin8 latin9 mskanji muleinternal shiftjis \
    shiftjis2004 sjis sqlascii tcvn tcvn5712 uhc unicode utf8 vscii win win1250 win1251 win1252 win1253 win1254 win1255 \
    win1256 win1257 win1258 win866 win874 win932 win936 win949 win950 windows1250 windows1251 windows1252 windows1253 \
    windows1254 windows1255 windows1256 windows1257 windows1258 windows866 windows874 windows932 windows936 windows949 \
    windows950";

#[derive(Default)]
struct Given {
    delimiter: Option<String>,
    null: Option<String>,
    header: CopyHeader,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<Vec<String>>,
    force_quote_all: bool,
    force_not_null: Option<Vec<String>>,
    force_null: Option<Vec<String>>,
}

/// The one byte that a text is.
fn one_byte(text: &str, what: &str) -> Result<u8, SqlError> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(SqlError::unsupported(format!("COPY {what} must be a single one-byte character"))),
    }
}

impl Given {
    /// The checks of PostgreSQL in its order.
    fn complete(self, format: CopyFormat, from: bool) -> Result<CopyOptions, SqlError> {
        let mut out = CopyOptions::new(format);
        let (csv, binary) = (format == CopyFormat::Csv, format == CopyFormat::Binary);
        let invalid = |message: &str| Err(SqlError::new("22023", message));
        let unsupported = |message: &str| Err(SqlError::unsupported(message));
        if binary && self.delimiter.is_some() {
            return Err(SqlError::syntax("cannot specify DELIMITER in BINARY mode"));
        }
        if binary && self.null.is_some() {
            return Err(SqlError::syntax("cannot specify NULL in BINARY mode"));
        }
        if let Some(delimiter) = &self.delimiter {
            out.delimiter = one_byte(delimiter, "delimiter")?;
        }
        out.null = self.null.unwrap_or(out.null);
        if matches!(out.delimiter, b'\n' | b'\r') {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        if out.null.contains(['\n', '\r']) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        let is_letter = out.delimiter.is_ascii_lowercase() || out.delimiter.is_ascii_digit();
        if !csv && (is_letter || matches!(out.delimiter, b'\\' | b'.')) {
            return invalid(&format!("COPY delimiter cannot be \"{}\"", char::from(out.delimiter)));
        }
        if binary && self.header != CopyHeader::None {
            return unsupported("cannot specify HEADER in BINARY mode");
        }
        out.header = self.header;
        if !csv && self.quote.is_some() {
            return unsupported("COPY quote available only in CSV mode");
        }
        if let Some(quote) = &self.quote {
            out.quote = one_byte(quote, "quote")?;
        }
        if csv && out.delimiter == out.quote {
            return invalid("COPY delimiter and quote must be different");
        }
        if !csv && self.escape.is_some() {
            return unsupported("COPY escape available only in CSV mode");
        }
        out.escape = match &self.escape {
            Some(escape) => one_byte(escape, "escape")?,
            None => out.quote,
        };
        if !csv && self.force_quote.is_some() {
            return unsupported("COPY force quote available only in CSV mode");
        }
        if from && self.force_quote.is_some() {
            return unsupported("COPY force quote only available using COPY TO");
        }
        for (what, given) in [("not null", &self.force_not_null), ("null", &self.force_null)] {
            if !csv && given.is_some() {
                return unsupported(&format!("COPY force {what} available only in CSV mode"));
            }
            if !from && given.is_some() {
                return unsupported(&format!("COPY force {what} only available using COPY FROM"));
            }
        }
        if out.null.as_bytes().contains(&out.delimiter) {
            return unsupported("COPY delimiter must not appear in the NULL specification");
        }
        if csv && out.null.as_bytes().contains(&out.quote) {
            return unsupported("CSV quote character must not appear in the NULL specification");
        }
        out.force_quote = self.force_quote.unwrap_or_default();
        out.force_quote_all = self.force_quote_all;
        out.force_not_null = self.force_not_null.unwrap_or_default();
        out.force_null = self.force_null.unwrap_or_default();
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, value: &str) -> GivenOption {
        GivenOption { name: name.to_owned(), value: GivenValue::Text(value.to_owned()), position: Some(7) }
    }
    fn bare(name: &str) -> GivenOption {
        GivenOption { value: GivenValue::Nothing, ..text(name, "") }
    }
    fn list(name: &str, names: &[&str]) -> GivenOption {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        GivenOption { value: GivenValue::List(names), ..text(name, "") }
    }

    #[test]
    fn options() {
        let csv = CopyOptions::parse(
            &[
                text("format", "csv"),
                bare("header"),
                text("delimiter", ";"),
                text("null", "x"),
                list("force_not_null", &["a", "B"]),
            ],
            true,
        )
        .expect("csv");
        assert_eq!(
            (csv.format, csv.header, csv.delimiter, csv.null.as_str()),
            (CopyFormat::Csv, CopyHeader::Line, b';', "x")
        );
        assert_eq!(csv.force_not_null, ["a", "B"]);
        let plain = CopyOptions::parse(&[], true).expect("text");
        assert_eq!((plain.delimiter, plain.null.as_str()), (b'\t', "\\N"));
        let header = |word: &str| CopyOptions::parse(&[text("header", word)], true).map(|options| options.header);
        assert_eq!(header("Match").expect("a header"), CopyHeader::Match);
        assert_eq!(header("off").expect("a header"), CopyHeader::None);
        assert_eq!(header("nothing").expect_err("no header").sqlstate, "42601");
        let star = GivenOption { value: GivenValue::Star, ..text("force_quote", "") };
        let all = CopyOptions::parse(&[text("format", "csv"), star.clone()], false).expect("all");
        assert!(all.force_quote_all);
        for (bad, from, state) in [
            (vec![text("format", "binary"), text("delimiter", ",")], true, "42601"),
            (vec![text("format", "binary"), text("null", "x")], true, "42601"),
            (vec![text("format", "binary"), bare("header")], true, "0A000"),
            (vec![text("format", "nosuch")], true, "22023"),
            (vec![text("format", "CSV")], true, "22023"),
            (vec![bare("format")], true, "42601"),
            (vec![bare("nothing")], true, "42601"),
            (vec![text("quote", "\"")], true, "0A000"),
            (vec![text("format", "csv"), text("delimiter", "\"")], true, "22023"),
            (vec![text("delimiter", "a")], true, "22023"),
            (vec![text("delimiter", "ab")], true, "0A000"),
            (vec![text("delimiter", ""), text("null", "x")], true, "0A000"),
            (vec![text("null", "a\tb")], true, "0A000"),
            (vec![text("header", "match")], false, "0A000"),
            (vec![text("format", "csv"), star], true, "0A000"),
            (vec![text("format", "csv"), list("force_null", &["a"])], false, "0A000"),
            (vec![text("format", "csv"), text("force_null", "a")], true, "22023"),
            (vec![text("encoding", "latin1")], true, "0A000"),
            (vec![text("encoding", "nothing")], true, "22023"),
            (vec![bare("header"), bare("header")], true, "42601"),
        ] {
            assert_eq!(CopyOptions::parse(&bad, from).expect_err("refused").sqlstate, state, "{bad:?}");
        }
        assert!(CopyOptions::parse(&[text("delimiter", "A"), text("encoding", "UTF-8"), bare("freeze")], true).is_ok());
    }
}
