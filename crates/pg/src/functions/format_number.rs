//! `to_char` of numbers: every template pattern of PostgreSQL 15 (`src/backend/utils/adt/formatting.c`), in locale C.

use resurgam_numeric::Numeric;

use super::numeric::column::numeric_error;
use crate::wire::SqlError;

/// A number by its type: they are brought to digits in different ways.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Int(i64),
    Numeric(Numeric),
    /// `double precision`, or `real` if the last is true.
    Float(f64, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Comma,
    Point,
    Zero,
    Nine,
    Blank,
    /// A currency code: writes nothing.
    C,
    Decimal,
    Exponent,
    Fill,
    Group,
    Currency,
    Minus,
    Plus,
    Bracket,
    Roman(bool),
    Sign,
    /// Writes nothing.
    Spell,
    AnchoredSign,
    Th(bool),
    Shift,
}

/// Longer ones before those that they begin with.
const KEYS: [(&str, Key); 36] = [
    (",", Key::Comma),
    (".", Key::Point),
    ("0", Key::Zero),
    ("9", Key::Nine),
    ("B", Key::Blank),
    ("C", Key::C),
    ("D", Key::Decimal),
    ("EEEE", Key::Exponent),
    ("FM", Key::Fill),
    ("G", Key::Group),
    ("L", Key::Currency),
    ("MI", Key::Minus),
    ("PL", Key::Plus),
    ("PR", Key::Bracket),
    ("RN", Key::Roman(true)),
    ("SG", Key::Sign),
    ("SP", Key::Spell),
    ("S", Key::AnchoredSign),
    ("TH", Key::Th(true)),
    ("V", Key::Shift),
    ("b", Key::Blank),
    ("c", Key::C),
    ("d", Key::Decimal),
    ("eeee", Key::Exponent),
    ("fm", Key::Fill),
    ("g", Key::Group),
    ("l", Key::Currency),
    ("mi", Key::Minus),
    ("pl", Key::Plus),
    ("pr", Key::Bracket),
    ("rn", Key::Roman(false)),
    ("sg", Key::Sign),
    ("sp", Key::Spell),
    ("s", Key::AnchoredSign),
    ("th", Key::Th(false)),
    ("v", Key::Shift),
];

pub(super) enum Node {
    Action(Key),
    Char(char),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Anchor {
    #[default]
    None,
    Before,
    Behind,
}

/// What the patterns say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub(super) before: i32,
    pub(super) behind: i32,
    /// Digits behind `V`.
    pub(super) shift: i32,
    pub(super) anchor: Anchor,
    pub(super) before_at_anchor: i32,
    pub(super) zero_start: i32,
    pub(super) zero_end: i32,
    pub(super) decimal: bool,
    pub(super) anchored: bool,
    pub(super) fill: bool,
    pub(super) zero: bool,
    pub(super) blank: bool,
    pub(super) shifted: bool,
    pub(super) minus: bool,
    pub(super) plus: bool,
    pub(super) bracket: bool,
    pub(super) roman: bool,
    pub(super) exponent: bool,
}

fn syntax(message: &str) -> SqlError {
    SqlError::new("42601", message)
}

impl Description {
    fn add(&mut self, key: Key) -> Result<(), SqlError> {
        if self.exponent && key != Key::Exponent {
            return Err(syntax("\"EEEE\" must be the last pattern used"));
        }
        match key {
            Key::Nine | Key::Zero if self.bracket => {
                let digit = if key == Key::Nine { '9' } else { '0' };
                return Err(syntax(&format!("\"{digit}\" must be ahead of \"PR\"")));
            }
            Key::Nine if self.shifted => self.shift += 1,
            Key::Nine if self.decimal => self.behind += 1,
            Key::Nine => self.before += 1,
            Key::Zero => {
                if !self.zero && !self.decimal {
                    self.zero = true;
                    self.zero_start = self.before + 1;
                }
                if self.decimal {
                    self.behind += 1
                } else {
                    self.before += 1
                }
                self.zero_end = self.before + self.behind;
            }
            Key::Blank if self.before == 0 && self.behind == 0 && !self.zero => self.blank = true,
            Key::Decimal | Key::Point => {
                if self.decimal {
                    return Err(syntax("multiple decimal points"));
                }
                if self.shifted {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.decimal = true;
            }
            Key::Fill => self.fill = true,
            Key::AnchoredSign => {
                if self.anchored {
                    return Err(syntax("cannot use \"S\" twice"));
                }
                if self.plus || self.minus || self.bracket {
                    return Err(syntax("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                if !self.decimal {
                    self.anchor = Anchor::Before;
                    self.before_at_anchor = self.before;
                    self.anchored = true;
                } else if self.anchor == Anchor::None {
                    self.anchor = Anchor::Behind;
                    self.anchored = true;
                }
            }
            Key::Minus | Key::Plus | Key::Sign if self.anchored => {
                let name = match key {
                    Key::Minus => "MI",
                    Key::Plus => "PL",
                    _ => "SG",
                };
                return Err(syntax(&format!("cannot use \"S\" and \"{name}\" together")));
            }
            Key::Minus => self.minus = true,
            Key::Plus => self.plus = true,
            Key::Sign => (self.minus, self.plus) = (true, true),
            Key::Bracket => {
                if self.anchored || self.plus || self.minus {
                    return Err(syntax("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.bracket = true;
            }
            Key::Roman(_) => self.roman = true,
            Key::Shift => {
                if self.decimal {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.shifted = true;
            }
            Key::Exponent => {
                if self.exponent {
                    return Err(syntax("cannot use \"EEEE\" twice"));
                }
                let signs = self.anchored || self.bracket || self.minus || self.plus;
                if self.blank || self.fill || signs || self.roman || self.shifted {
                    return Err(syntax("\"EEEE\" is incompatible with other formats")
                        .with_detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
                }
                self.exponent = true;
            }
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn parse(template: &str) -> Result<(Vec<Node>, Description), SqlError> {
    let (mut nodes, mut description) = (Vec::new(), Description::default());
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if let Some((name, key)) = KEYS.iter().find(|(name, _)| rest.starts_with(name)) {
            description.add(*key)?;
            nodes.push(Node::Action(*key));
            rest = &rest[name.len()..];
        } else if first == '"' {
            rest = super::format_time::quoted(&rest[1..], |c| nodes.push(Node::Char(c)));
        } else {
            if rest.starts_with("\\\"") {
                rest = &rest[1..];
            }
            let c = rest.chars().next().unwrap_or(first);
            nodes.push(Node::Char(c));
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok((nodes, description))
}

/// Ordinal ending of a number's digits.
pub(super) fn ordinal(digits: &str, upper: bool) -> &'static str {
    let bytes = digits.as_bytes();
    let teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    match (bytes.last(), teen, upper) {
        (Some(b'1'), false, true) => "ST",
        (Some(b'1'), false, false) => "st",
        (Some(b'2'), false, true) => "ND",
        (Some(b'2'), false, false) => "nd",
        (Some(b'3'), false, true) => "RD",
        (Some(b'3'), false, false) => "rd",
        (_, _, true) => "TH",
        (_, _, false) => "th",
    }
}

fn roman(number: i64) -> String {
    if !(1..=3999).contains(&number) {
        return "#".repeat(15);
    }
    const PARTS: [(i64, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let (mut rest, mut out) = (number, String::new());
    for (value, letters) in PARTS {
        while rest >= value {
            out.push_str(letters);
            rest -= value;
        }
    }
    out
}

/// As `%+.*e` with a space for the plus.
fn scientific(value: f64, places: usize) -> String {
    let text = format!("{value:.places$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let space = if mantissa.starts_with('-') { "" } else { " " };
    format!("{space}{mantissa}e{sign}{:02}", exponent.abs())
}

/// `#`s in the place of a number that does not fit.
fn hashes(description: &Description, exponent: bool) -> String {
    let (before, behind) = (description.before.max(0) as usize, description.behind.max(0) as usize);
    match exponent {
        true => format!(" {}.{}", "#".repeat(before), "#".repeat(behind + 4)),
        false => format!("{}.{}", "#".repeat(before), "#".repeat(behind)),
    }
}

/// The number's digits, whether it is negative, and blanks before it.
fn digits(number: &Number, description: &mut Description) -> Result<(String, bool, i32), SqlError> {
    let out_of_range = || SqlError::new("22003", "integer out of range");
    if description.roman {
        let whole = match number {
            Number::Int(value) => *value,
            Number::Numeric(value) => value.to_i32().map_err(numeric_error)?.into(),
            Number::Float(value, _) => value.round_ties_even() as i32 as i64,
        };
        return Ok((roman(i32::try_from(whole).map_err(|_| out_of_range())?.into()), false, 0));
    }
    if description.exponent {
        let places = description.behind.max(0) as usize;
        let text = match number {
            Number::Int(value) if value.unsigned_abs() < 1 << 53 => scientific(*value as f64, places),
            Number::Int(value) => exact_scientific(&Numeric::from(*value), places, description),
            Number::Numeric(value) => exact_scientific(value, places, description),
            Number::Float(value, _) if value.is_finite() => scientific(*value, places),
            Number::Float(..) => hashes(description, true),
        };
        return Ok((text, false, 0));
    }
    let text = match number {
        Number::Int(value) => {
            let mut value = *value;
            if description.shifted {
                let power = 10i64.checked_pow(description.shift.max(0) as u32);
                value = power
                    .and_then(|power| value.checked_mul(power))
                    .ok_or_else(|| SqlError::new("22003", "bigint out of range"))?;
                description.before += description.shift;
            }
            match description.behind {
                0 => value.to_string(),
                behind => format!("{value}.{}", "0".repeat(behind.max(0) as usize)),
            }
        }
        Number::Numeric(value) => {
            let mut value = value.clone();
            if description.shifted {
                let power = Numeric::from(10i64).power(&Numeric::from(description.shift)).map_err(numeric_error)?;
                value = value.mul(&power).map_err(numeric_error)?;
                description.before += description.shift;
            }
            value.round(description.behind).map_err(numeric_error)?.to_string()
        }
        Number::Float(value, single) => {
            let mut value = *value;
            if description.shifted {
                value *= 10f64.powi(description.shift);
                description.before += description.shift;
            }
            let most = if *single { 6 } else { 15 };
            // Infinity is as long as its word.
            let whole = if value.is_infinite() { 8 } else { format!("{:.0}", value.abs()).len() as i32 };
            if whole >= most {
                description.behind = 0;
            } else if whole + description.behind > most {
                description.behind = most - whole;
            }
            let places = description.behind.max(0) as usize;
            match value {
                f64::INFINITY => "Infinity".to_owned(),
                f64::NEG_INFINITY => "-Infinity".to_owned(),
                value if value.is_nan() => "NaN".to_owned(),
                value => format!("{value:.places$}"),
            }
        }
    };
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.to_owned()),
        None => (false, text),
    };
    let whole = text.find('.').unwrap_or(text.len()) as i32;
    if whole < description.before {
        return Ok((text, negative, description.before - whole));
    }
    if whole > description.before {
        return Ok((hashes(description, false), negative, 0));
    }
    Ok((text, negative, 0))
}

fn exact_scientific(value: &Numeric, places: usize, description: &Description) -> String {
    let Some(dec) = value.as_dec() else { return hashes(description, true) };
    let exponent = dec.weight();
    let shifted = resurgam_numeric::dec::Dec { coef: dec.coef.clone(), scale: dec.scale + exponent as i32 };
    let rounded = shifted.round(places as i32);
    let mantissa = Numeric::new(rounded.coef, rounded.scale).map_or_else(|_| "#".to_owned(), |value| value.to_string());
    let sign = if exponent < 0 { '-' } else { '+' };
    let space = if mantissa.starts_with('-') { "" } else { " " };
    format!("{space}{mantissa}e{sign}{:02}", exponent.abs())
}

/// The state in which digits are laid into the template.
struct Layout<'a> {
    description: &'a Description,
    digits: &'a [u8],
    at: usize,
    out: String,
    sign: char,
    sign_written: bool,
    blanks: i32,
    /// Last digit that is to be shown, where the fill mode strips zeros.
    last_relevant: Option<usize>,
    count: i32,
    current: i32,
    in_number: bool,
    /// A digit was asked for behind the last: PostgreSQL's text ends there, whatever follows in the template.
    ended: bool,
}

impl Layout<'_> {
    fn digit(&self) -> u8 {
        self.digits.get(self.at).copied().unwrap_or(0)
    }
    fn relevant_is_point(&self) -> bool {
        self.last_relevant.is_some_and(|at| self.digits.get(at) == Some(&b'.'))
    }
    /// Whether the place is that of the zero in 0.1.
    fn before_point(&self) -> bool {
        !self.description.zero && self.at == 0 && self.digit() == b'0' && self.description.behind != 0
    }
    fn number_part(&mut self, zero: bool) {
        let description = self.description;
        if description.roman {
            return;
        }
        self.in_number = false;
        if !self.sign_written
            && (self.current >= self.blanks || (description.zero && description.zero_start == self.current))
            && (!self.before_point() || self.relevant_is_point())
        {
            if description.anchored {
                if description.anchor == Anchor::Before {
                    self.out.push(self.sign);
                    self.sign_written = true;
                }
            } else if description.bracket {
                self.out.push(if self.sign == '+' { ' ' } else { '<' });
                self.sign_written = true;
            } else if self.sign == '+' {
                if !description.fill {
                    self.out.push(' ');
                }
                self.sign_written = true;
            } else {
                self.out.push('-');
                self.sign_written = true;
            }
        }
        if self.current < self.blanks && (description.zero_start > self.current || !description.zero) {
            if !description.fill {
                self.out.push(' ');
            }
        } else if description.zero && self.current < self.blanks && description.zero_start <= self.current {
            self.out.push('0');
            self.in_number = true;
        } else {
            if self.digit() == b'.' {
                if !self.relevant_is_point() || description.fill {
                    self.out.push('.');
                }
            } else if !zero && self.last_relevant.is_some_and(|last| self.at > last) {
                // A zero at the end that the fill mode strips.
            } else if self.before_point() {
                if !description.fill {
                    self.out.push(' ');
                } else if self.relevant_is_point() {
                    self.out.push('0');
                }
            } else {
                match self.digits.get(self.at) {
                    Some(digit) => self.out.push(char::from(*digit)),
                    None => self.ended = true,
                }
                self.in_number = true;
            }
            if self.at < self.digits.len() {
                self.at += 1;
            }
        }
        let mut end = self.count + i32::from(self.blanks > 0) + i32::from(description.decimal);
        if self.last_relevant == Some(self.at) {
            end = self.current;
        }
        if self.current + 1 == end {
            if self.sign_written && description.bracket {
                self.out.push(if self.sign == '+' { ' ' } else { '>' });
            } else if description.anchored && description.anchor == Anchor::Behind {
                self.out.push(self.sign);
            }
        }
        self.current += 1;
    }
}

/// A number by a template.
///
/// # Errors
/// 42601 for templates that make no sense; 22003 for numbers beyond what the template computes with.
pub(super) fn format(number: &Number, template: &str) -> Result<String, SqlError> {
    if template.is_empty() {
        return Ok(String::new());
    }
    let (nodes, mut description) = parse(template)?;
    let (text, negative, mut blanks) = digits(number, &mut description)?;
    let sign = if negative { '-' } else { '+' };
    if description.zero_start > 0 {
        description.zero_start -= 1;
    }
    if description.exponent {
        return Ok(text);
    }
    if description.roman {
        let fill = description.fill;
        description = Description { fill, roman: true, ..Description::default() };
        blanks = 0;
    }
    let sign_written = if description.plus || description.minus {
        !description.plus || description.minus
    } else {
        if sign != '-' && description.bracket && description.fill {
            description.bracket = false;
        }
        if description.anchor == Anchor::Before && description.before == description.before_at_anchor {
            description.anchor = Anchor::Behind;
        }
        sign == '+' && description.fill && !description.anchored
    };
    let mut last_relevant = None;
    if description.fill && description.decimal {
        let bytes = text.as_bytes();
        last_relevant = text.find('.').map(|point| {
            let last = bytes.iter().rposition(|byte| *byte != b'0').unwrap_or(point);
            last.max(point)
        });
        if let Some(last) = last_relevant
            && description.zero_end > blanks
        {
            let wanted = (text.len() as i32 - 1).min(description.zero_end - blanks).max(0) as usize;
            last_relevant = Some(last.max(wanted));
        }
    }
    let count = description.behind + description.before - 1 + i32::from(!sign_written && blanks == 0);
    let mut layout = Layout {
        description: &description,
        digits: text.as_bytes(),
        at: 0,
        out: String::new(),
        sign,
        sign_written,
        blanks,
        last_relevant,
        count,
        current: 0,
        in_number: false,
        ended: false,
    };
    let fill = description.fill;
    for node in &nodes {
        if layout.ended {
            break;
        }
        let key = match node {
            Node::Char(c) => {
                layout.out.push(*c);
                continue;
            }
            Node::Action(key) => *key,
        };
        match key {
            Key::Nine | Key::Zero | Key::Point | Key::Decimal => layout.number_part(key == Key::Zero),
            Key::Comma | Key::Group if layout.in_number => layout.out.push(','),
            Key::Comma | Key::Group if !fill => layout.out.push(' '),
            Key::Currency => layout.out.push(' '),
            Key::Roman(upper) => {
                let shown = if upper { text.clone() } else { text.to_ascii_lowercase() };
                layout.out.push_str(&if fill { shown } else { format!("{shown:>15}") });
            }
            Key::Th(upper) if !(description.roman || text.starts_with('#') || sign == '-' || description.decimal) => {
                if !text.ends_with(|last: char| last.is_ascii_digit()) {
                    return Err(SqlError::new("22P02", format!("\"{text}\" is not a number")));
                }
                layout.out.push_str(ordinal(&text, upper));
            }
            Key::Minus if negative && !description.roman => layout.out.push('-'),
            Key::Plus if !negative && !description.roman => layout.out.push('+'),
            Key::Minus | Key::Plus if !fill => layout.out.push(' '),
            // A Roman number has no sign, and PostgreSQL's text ends with what it writes for it.
            Key::Sign if description.roman => break,
            Key::Sign => layout.out.push(sign),
            _ => {}
        }
    }
    Ok(layout.out)
}
