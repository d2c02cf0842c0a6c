//! Types by the names that SQL writes: `int`, `timestamp(3) with time zone`, `varchar(10)[]`,
//! `interval day to second(3)`, `"char"`, `pg_catalog.int4`.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::lexer::{Token, is_keyword, syntax_error, tokens};
use super::typmod::{self, field};
use crate::catalog::{Catalog, Schema};
use crate::error::{ResolveError, Result};
use crate::types::TypeId;

impl Catalog {
    /// The type and the modifier (-1: none) that a type's name in SQL stands for.
    ///
    /// Unquoted words are read as SQL reads them, so `int`, `char`, `float(30)` and `dec` have their
    /// meanings and `char` is `character(1)`; quoted ones are catalog names (`"char"`). Any number of
    /// `[]` is one array type.
    ///
    /// # Errors
    /// 42704: no such type; 22023: a modifier that the type does not take; 42601: not a type's name.
    pub fn parse_type(&self, text: &str) -> Result<(TypeId, i32)> {
        let mut parser = Parser { catalog: self, tokens: tokens(text)?.into_iter().peekable() };
        let simple = parser.simple()?;
        let array = parser.array_bounds()?;
        if let Some(rest) = parser.tokens.peek() {
            return Err(syntax_error(Some(rest)));
        }
        let (ty, typmod) = match simple {
            Simple::Known(ty, typmod) => (ty, typmod),
            Simple::Named(names, modifiers) => parser.named(names, &modifiers, array)?,
        };
        if !array {
            return Ok((ty, typmod));
        }
        let array = self.array_type(ty).ok_or_else(|| {
            let name = self.type_of(ty).map_or("???", |t| t.name);
            ResolveError::new("42704", format!("type \"{name}[]\" does not exist"))
        })?;
        Ok((array, typmod))
    }

    /// The type of this catalog name: `int4`, not `integer`; without a schema it is looked for in
    /// `pg_catalog`.
    ///
    /// # Errors
    /// 42704: there is none. The caller, who knows its schemas, gives 3F000 for one that does not exist.
    pub fn lookup_type(&self, schema: Option<&str>, name: &str) -> Result<TypeId> {
        let found = match schema {
            None => self.type_named(Schema::PgCatalog, name).or_else(|| self.user_type_named(None, name)),
            Some(schema) => match Schema::from_name(schema) {
                Some(schema) => self.type_named(schema, name),
                None => self.user_type_named(Some(schema), name),
            },
        };
        found.map(|t| t.oid).ok_or_else(|| {
            let full = schema.map(|schema| format!("{schema}.{name}"));
            let shown = full.as_deref().unwrap_or(name);
            ResolveError::new("42704", format!("type \"{shown}\" does not exist"))
        })
    }
}

struct Parser<'a> {
    catalog: &'a Catalog,
    tokens: Peekable<IntoIter<Token>>,
}

impl Parser<'_> {
    fn word(&mut self, word: &str) -> bool {
        self.tokens.next_if(|t| matches!(t, Token::Word(w) if w == word)).is_some()
    }

    fn sign(&mut self, sign: char) -> bool {
        self.tokens.next_if(|t| matches!(t, Token::Sign(c) if *c == sign)).is_some()
    }

    fn error<T>(&mut self) -> Result<T> {
        Err(syntax_error(self.tokens.peek()))
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.word(word) { Ok(()) } else { self.error() }
    }

    fn expect_sign(&mut self, sign: char) -> Result<()> {
        if self.sign(sign) { Ok(()) } else { self.error() }
    }

    /// `(1, -2)`; nothing is no numbers.
    fn modifiers(&mut self) -> Result<Vec<i64>> {
        let mut all = Vec::new();
        if !self.sign('(') {
            return Ok(all);
        }
        loop {
            let negative = self.sign('-');
            match self.tokens.next() {
                Some(Token::Number(n)) if self.sign('.') => {
                    let fraction = self.digits_after_point();
                    let message = format!("invalid input syntax for type integer: \"{n}.{fraction}\"");
                    return Err(ResolveError::new("22P02", message));
                }
                Some(Token::Number(n)) => all.push(if negative { -n } else { n }),
                Some(Token::Word(w) | Token::Quoted(w)) if !negative => {
                    let message = format!("invalid input syntax for type integer: \"{w}\"");
                    return Err(ResolveError::new("22P02", message));
                }
                other => return Err(syntax_error(other.as_ref())),
            }
            if self.sign(')') {
                return Ok(all);
            }
            self.expect_sign(',')?;
        }
    }

    fn digits_after_point(&mut self) -> String {
        match self.tokens.peek() {
            Some(Token::Number(n)) => n.to_string(),
            _ => String::new(),
        }
    }

    /// One number in parentheses, where the grammar has no sign.
    fn digits(&mut self) -> Result<Option<i64>> {
        if !self.sign('(') {
            return Ok(None);
        }
        let Some(&Token::Number(n)) = self.tokens.peek() else { return self.error() };
        self.tokens.next();
        self.expect_sign(')')?;
        Ok(Some(n))
    }

    fn array_bounds(&mut self) -> Result<bool> {
        let mut any = false;
        if self.word("array") {
            if self.sign('[') {
                if self.tokens.next_if(|t| matches!(t, Token::Number(_))).is_none() {
                    return self.error();
                }
                self.expect_sign(']')?;
            }
            return Ok(true);
        }
        while self.sign('[') {
            self.tokens.next_if(|t| matches!(t, Token::Number(_)));
            self.expect_sign(']')?;
            any = true;
        }
        Ok(any)
    }

    fn simple(&mut self) -> Result<Simple> {
        let plain = |ty| Ok(Simple::Known(ty, typmod::NONE));
        let word = match self.tokens.next() {
            Some(Token::Word(word)) => word,
            Some(Token::Quoted(name)) => return self.names(name),
            other => return Err(syntax_error(other.as_ref())),
        };
        match word.as_str() {
            "int" | "integer" => plain(TypeId::INT4),
            "smallint" => plain(TypeId::INT2),
            "bigint" => plain(TypeId::INT8),
            "real" => plain(TypeId::FLOAT4),
            "boolean" => plain(TypeId::BOOL),
            "float" => self.float(),
            "double" if self.word("precision") => plain(TypeId::FLOAT8),
            "dec" | "decimal" | "numeric" => self.modified(TypeId::NUMERIC, &[]),
            "bit" if self.word("varying") => self.modified(TypeId::VARBIT, &[]),
            "bit" => self.modified(TypeId::BIT, &[1]),
            "national" => match self.tokens.next() {
                Some(Token::Word(w)) if w == "char" || w == "character" => self.character(),
                other => Err(syntax_error(other.as_ref())),
            },
            "char" | "character" | "nchar" => self.character(),
            "varchar" => self.length(TypeId::VARCHAR, None),
            "timestamp" => self.time(TypeId::TIMESTAMP, TypeId::TIMESTAMPTZ),
            "time" => self.time(TypeId::TIME, TypeId::TIMETZ),
            "interval" => self.interval(),
            _ if is_keyword(&word) => Err(syntax_error(Some(&Token::Word(word)))),
            _ => self.names(word),
        }
    }

    fn modified(&mut self, ty: TypeId, default: &[i64]) -> Result<Simple> {
        let modifiers = self.modifiers()?;
        let modifiers = if modifiers.is_empty() { default } else { &modifiers };
        Ok(Simple::Known(ty, self.catalog.typmod_in(ty, modifiers)?))
    }

    fn length(&mut self, ty: TypeId, default: Option<i64>) -> Result<Simple> {
        let modifier = self.digits()?.or(default);
        Ok(Simple::Known(ty, self.catalog.typmod_in(ty, modifier.as_slice())?))
    }

    fn character(&mut self) -> Result<Simple> {
        if self.word("varying") { self.length(TypeId::VARCHAR, None) } else { self.length(TypeId::BPCHAR, Some(1)) }
    }

    fn float(&mut self) -> Result<Simple> {
        let ty = match self.digits()? {
            None => TypeId::FLOAT8,
            Some(..1) => {
                let message = "precision for type float must be at least 1 bit";
                return Err(ResolveError::invalid_parameter(message));
            }
            Some(1..=24) => TypeId::FLOAT4,
            Some(25..=53) => TypeId::FLOAT8,
            Some(54..) => {
                let message = "precision for type float must be less than 54 bits";
                return Err(ResolveError::invalid_parameter(message));
            }
        };
        Ok(Simple::Known(ty, typmod::NONE))
    }

    fn time(&mut self, without: TypeId, with: TypeId) -> Result<Simple> {
        let modifier = self.digits()?;
        let zoned = self.word("with");
        if zoned || self.word("without") {
            let word = Token::Word(if zoned { "with" } else { "without" }.to_string());
            if !self.word("time") {
                return Err(syntax_error(Some(&word)));
            }
            self.expect_word("zone")?;
        }
        let ty = if zoned { with } else { without };
        Ok(Simple::Known(ty, self.catalog.typmod_in(ty, modifier.as_slice())?))
    }

    fn interval(&mut self) -> Result<Simple> {
        use field::*;
        if let Some(precision) = self.digits()? {
            return Ok(Simple::Known(TypeId::INTERVAL, typmod::interval_fields(None, Some(precision))?));
        }
        // From the largest to the smallest: what lies between two named fields is kept as well.
        let fields = [("year", YEAR), ("month", MONTH), ("day", DAY), ("hour", HOUR), ("minute", MINUTE)];
        let fields: Vec<_> = fields.into_iter().chain([("second", SECOND)]).collect();
        let Some(first) = fields.iter().position(|(name, _)| self.word(name)) else {
            return Ok(Simple::Known(TypeId::INTERVAL, typmod::NONE));
        };
        let mut last = first;
        if self.word("to") {
            // YEAR and MONTH do not mix with the others, whose lengths are fixed.
            let until = if first <= 1 { 2 } else { fields.len() };
            let to = (first + 1..until).find(|&at| self.word(fields[at].0));
            last = match to {
                Some(to) => to,
                None if until <= first + 1 => return Err(syntax_error(Some(&Token::Word("to".to_string())))),
                None => return self.error(),
            };
        }
        let precision = if fields[last].1 == SECOND { self.digits()? } else { None };
        let kept = fields[first..=last].iter().fold(0, |kept, (_, bit)| kept | bit);
        Ok(Simple::Known(TypeId::INTERVAL, typmod::interval_fields(Some(kept), precision)?))
    }

    /// A catalog name; only the whole type's text says whether it is right.
    fn names(&mut self, first: String) -> Result<Simple> {
        let mut names = vec![first];
        while self.sign('.') {
            match self.tokens.next() {
                Some(Token::Word(word) | Token::Quoted(word)) => names.push(word),
                other => return Err(syntax_error(other.as_ref())),
            }
        }
        Ok(Simple::Named(names, self.modifiers()?))
    }

    fn named(&self, names: Vec<String>, modifiers: &[i64], array: bool) -> Result<(TypeId, i32)> {
        let missing = |mut error: ResolveError| {
            if array {
                error.message = format!("type \"{}[]\" does not exist", names.join("."));
            }
            error
        };
        let ty = match names.as_slice() {
            [name] => self.catalog.lookup_type(None, name).map_err(missing)?,
            [schema, name] => self.catalog.lookup_type(Some(schema), name).map_err(missing)?,
            [_, _, _] => {
                let message = format!("cross-database references are not implemented: {}", names.join("."));
                return Err(ResolveError::not_supported(message));
            }
            _ => {
                let message = format!("improper qualified name (too many dotted names): {}", names.join("."));
                return Err(ResolveError::new("42601", message));
            }
        };
        Ok((ty, self.catalog.typmod_in(ty, modifiers)?))
    }
}

/// A type without its array bounds.
enum Simple {
    Known(TypeId, i32),
    Named(Vec<String>, Vec<i64>),
}
