//! Words in dates and times, and how a text is cut into fields (PostgreSQL's `datetktbl` and `ParseDateTime`).

/// A word that is not a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Early,
    Late,
    Epoch,
    Now,
    Today,
    Tomorrow,
    Yesterday,
    /// `allballs`: midnight, UTC.
    Zulu,
    /// `true`: BC.
    Era(bool),
    /// `true`: PM.
    Half(bool),
    Month(i64),
    /// An hour of summer time more.
    Dst,
    Weekday,
    Unit(Unit),
    /// `t` before a time.
    Time,
    Ignore,
}

/// What the number behind a label is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    Time,
    /// `dow`, `doy` and the like: no number can follow.
    Other,
}

/// Words are known by their first ten characters.
pub(crate) fn token(word: &str) -> &str {
    word.get(..10).unwrap_or(word)
}

pub(super) fn word(text: &str) -> Option<Word> {
    Some(match token(text) {
        "-infinity" => Word::Early,
        "infinity" | "+infinity" => Word::Late,
        "epoch" => Word::Epoch,
        "now" => Word::Now,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "yesterday" => Word::Yesterday,
        "allballs" => Word::Zulu,
        "ad" => Word::Era(false),
        "bc" => Word::Era(true),
        "am" => Word::Half(false),
        "pm" => Word::Half(true),
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "dst" => Word::Dst,
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" | "thu"
        | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "y" => Word::Unit(Unit::Year),
        "m" => Word::Unit(Unit::Month),
        "d" => Word::Unit(Unit::Day),
        "h" => Word::Unit(Unit::Hour),
        "mm" => Word::Unit(Unit::Minute),
        "s" => Word::Unit(Unit::Second),
        "j" | "jd" | "julian" => Word::Unit(Unit::Julian),
        "dow" | "doy" | "isodow" | "isoyear" => Word::Unit(Unit::Other),
        "t" => Word::Time,
        "at" | "on" => Word::Ignore,
        _ => return None,
    })
}

/// What a field looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::decode) enum Kind {
    /// Digits, perhaps with a fraction.
    Number,
    /// A word.
    Text,
    /// With delimiters, or a zone's name.
    Date,
    /// With colons.
    Time,
    /// A sign and digits.
    Signed,
    /// A sign and a word.
    Special,
}

/// One field, letters in lower case where PostgreSQL makes them so.
#[derive(Clone, Debug)]
pub(in crate::decode) struct Field {
    pub kind: Kind,
    pub text: String,
}

/// Fields that a text may have.
const FIELDS_MAX: usize = 25;

/// Cuts a text into fields; `None` if it is not of that form or longer than `room` bytes with an end for each field.
pub(in crate::decode) fn fields(text: &str, room: usize) -> Option<Vec<Field>> {
    let bytes = text.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let (mut i, mut used) = (0, 0);
    let mut out: Vec<Field> = Vec::new();
    while i < bytes.len() {
        if at(i).is_ascii_whitespace() || at(i) == 0x0b {
            i += 1;
            continue;
        }
        if out.len() >= FIELDS_MAX {
            return None;
        }
        let mut field = Vec::new();
        // Takes bytes as long as they are of a kind.
        let take = |field: &mut Vec<u8>, i: &mut usize, of: &dyn Fn(u8) -> bool| {
            while *i < bytes.len() && of(bytes[*i]) {
                field.push(bytes[*i]);
                *i += 1;
            }
        };
        let digit = |b: u8| b.is_ascii_digit();
        let alpha = |b: u8| b.is_ascii_alphabetic();
        let kind = match at(i) {
            b'0'..=b'9' => {
                take(&mut field, &mut i, &digit);
                match at(i) {
                    b':' => {
                        take(&mut field, &mut i, &|b| digit(b) || matches!(b, b':' | b'.'));
                        Kind::Time
                    }
                    delimiter @ (b'-' | b'/' | b'.') => {
                        field.push(delimiter);
                        i += 1;
                        if digit(at(i)) {
                            take(&mut field, &mut i, &digit);
                            if at(i) == delimiter {
                                take(&mut field, &mut i, &|b| digit(b) || b == delimiter);
                                Kind::Date
                            } else if delimiter == b'.' {
                                Kind::Number
                            } else {
                                Kind::Date
                            }
                        } else {
                            take(&mut field, &mut i, &|b| b.is_ascii_alphanumeric() || b == delimiter);
                            Kind::Date
                        }
                    }
                    _ => Kind::Number,
                }
            }
            b'.' => {
                field.push(b'.');
                i += 1;
                take(&mut field, &mut i, &digit);
                Kind::Number
            }
            b if alpha(b) => {
                take(&mut field, &mut i, &alpha);
                let known = || word(&String::from_utf8_lossy(&field).to_ascii_lowercase()).is_some();
                let is_date = match at(i) {
                    b'-' | b'/' | b'.' => true,
                    b if b == b'+' || digit(b) => !known(),
                    _ => false,
                };
                if is_date {
                    take(&mut field, &mut i, &|b| {
                        b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'/' | b'_' | b'.' | b':')
                    });
                    Kind::Date
                } else {
                    Kind::Text
                }
            }
            sign @ (b'+' | b'-') => {
                field.push(sign);
                i += 1;
                while at(i).is_ascii_whitespace() {
                    i += 1;
                }
                if digit(at(i)) {
                    take(&mut field, &mut i, &|b| digit(b) || matches!(b, b':' | b'.' | b'-'));
                    Kind::Signed
                } else if alpha(at(i)) {
                    take(&mut field, &mut i, &alpha);
                    Kind::Special
                } else {
                    return None;
                }
            }
            b if b.is_ascii_punctuation() => {
                i += 1;
                continue;
            }
            _ => return None,
        };
        used += field.len() + 1;
        if used > room {
            return None;
        }
        let text = String::from_utf8_lossy(&field).to_ascii_lowercase();
        out.push(Field { kind, text });
    }
    Some(out)
}

/// The integer that a text begins with and what is behind it; the integer is `None` beyond 64 bits.
pub(in crate::decode) fn integer(text: &str) -> (Option<i64>, &str) {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = text.len() - digits.len() + digits.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(end);
    match number.trim_start_matches('+') {
        "" | "-" => (Some(0), text),
        number => (number.parse().ok(), rest),
    }
}

/// The same of an integer of 32 bits.
pub(in crate::decode) fn integer32(text: &str) -> (Option<i64>, &str) {
    let (value, rest) = integer(text);
    (value.filter(|value| i32::try_from(*value).is_ok()), rest)
}

/// A fraction, with its point: `.5`, or `.` alone.
pub(in crate::decode) fn fraction(text: &str) -> Option<f64> {
    match text {
        "." => Some(0.0),
        _ => text.parse().ok().filter(|value: &f64| value.is_finite()),
    }
}
