//! Kinds of setting values: how each is written and read back.

use std::path::PathBuf;
use std::time::Duration;

/// A kind of value that a setting can have.
pub trait Value: Sized {
    /// Name that `--help` shows for the value.
    const PLACEHOLDER: &'static str;
    /// PostgreSQL's `vartype`: `bool`, `integer`, `string` or `enum`.
    const KIND: &'static str;
    /// Reads what a user wrote; the error says what was expected.
    fn read(text: &str) -> Result<Self, String>;
    /// The value as `SHOW` prints it; `read` accepts it.
    fn show(&self) -> String;
}

/// A number of bytes, written with a binary unit: `64MB`, `1GB`, or plain bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const BYTE_UNITS: [(&str, u64); 5] = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];

impl Value for Bytes {
    const PLACEHOLDER: &'static str = "BYTES";
    const KIND: &'static str = "integer";
    fn read(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is not a number of bytes; write for instance 64MB or 1GB");
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| expected())?;
        let unit = text[digits..].trim();
        let factor = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
            "" => 1,
            "k" => 1 << 10,
            "m" => 1 << 20,
            "g" => 1 << 30,
            "t" => 1u64 << 40,
            _ => return Err(expected()),
        };
        number.checked_mul(factor).map(Self).ok_or_else(|| format!("{text:?} is too large"))
    }
    fn show(&self) -> String {
        let (unit, factor) =
            BYTE_UNITS.into_iter().find(|&(_, factor)| self.0 != 0 && self.0.is_multiple_of(factor)).unwrap_or(("", 1));
        format!("{}{unit}", self.0 / factor)
    }
}

impl Value for Duration {
    const PLACEHOLDER: &'static str = "TIME";
    const KIND: &'static str = "integer";
    /// As PostgreSQL: `us`, `ms`, `s`, `min`, `h`, `d`; without a unit milliseconds.
    fn read(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is not a time; write for instance 500ms, 30s or 5min");
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| expected())?;
        let micros = match text[digits..].trim() {
            "us" => 1,
            "ms" | "" => 1_000,
            "s" => 1_000_000,
            "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return Err(expected()),
        };
        number.checked_mul(micros).map(Self::from_micros).ok_or_else(|| format!("{text:?} is too long"))
    }
    fn show(&self) -> String {
        let micros = self.as_micros();
        for (unit, factor) in [
            ("d", 86_400_000_000),
            ("h", 3_600_000_000),
            ("min", 60_000_000),
            ("s", 1_000_000),
            ("ms", 1_000),
            ("us", 1),
        ] {
            if micros != 0 && micros.is_multiple_of(factor) {
                return format!("{}{unit}", micros / factor);
            }
        }
        "0".into()
    }
}

/// A time that is written and shown in seconds when it has no unit; 0 is the system's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub u32);

impl Value for Seconds {
    const PLACEHOLDER: &'static str = "SECONDS";
    const KIND: &'static str = "integer";
    fn read(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.trim().parse() {
            return Ok(Self(number));
        }
        let seconds = Duration::read(text)?.as_secs_f64().ceil();
        if seconds <= f64::from(i32::MAX) { Ok(Self(seconds as u32)) } else { Err(format!("{text:?} is too long")) }
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Kilobytes unless a unit is written, or -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kilobytes(pub Option<u64>);

impl Value for Kilobytes {
    const PLACEHOLDER: &'static str = "KILOBYTES";
    const KIND: &'static str = "integer";
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "-1" {
            return Ok(Self(None));
        }
        let kb = match text.parse::<u64>() {
            Ok(kb) => kb,
            Err(_) => Bytes::read(text)?.0.div_ceil(1024),
        };
        if kb <= i32::MAX as u64 { Ok(Self(Some(kb))) } else { Err(format!("{text:?} is too much")) }
    }
    fn show(&self) -> String {
        self.0.map_or("-1".into(), |kb| kb.to_string())
    }
}

/// A shortest time, or none at all (-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least(pub Option<Duration>);

impl Value for Least {
    const PLACEHOLDER: &'static str = "TIME";
    const KIND: &'static str = "integer";
    fn read(text: &str) -> Result<Self, String> {
        if text.trim() == "-1" { Ok(Self(None)) } else { Duration::read(text).map(|time| Self(Some(time))) }
    }
    fn show(&self) -> String {
        self.0.map_or("-1".into(), |time| time.show())
    }
}

impl Value for bool {
    const PLACEHOLDER: &'static str = "on|off";
    const KIND: &'static str = "bool";
    fn read(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => Ok(true),
            "off" | "false" | "no" | "0" => Ok(false),
            _ => Err(format!("{text:?} is neither on nor off")),
        }
    }
    fn show(&self) -> String {
        if *self { "on" } else { "off" }.into()
    }
}

impl Value for u32 {
    const PLACEHOLDER: &'static str = "N";
    const KIND: &'static str = "integer";
    fn read(text: &str) -> Result<Self, String> {
        text.trim().parse().map_err(|_| format!("{text:?} is not a whole number"))
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    const PLACEHOLDER: &'static str = "TEXT";
    const KIND: &'static str = "string";
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
    fn show(&self) -> String {
        self.clone()
    }
}

/// A path; the empty one means "none".
impl Value for PathBuf {
    const PLACEHOLDER: &'static str = "PATH";
    const KIND: &'static str = "string";
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }
    fn show(&self) -> String {
        self.display().to_string()
    }
}

/// Defines a setting that is one of a few words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
        impl Value for $name {
            const PLACEHOLDER: &'static str = concat!($("|", $word),+);
            const KIND: &'static str = "enum";
            fn read(text: &str) -> Result<Self, String> {
                match text.trim().to_ascii_lowercase().as_str() {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("{text:?} is none of: {}", [$($word),+].join(", "))),
                }
            }
            fn show(&self) -> String {
                match self { $(Self::$variant => $word),+ }.into()
            }
        }
    };
}

words! {
    /// How a client proves who it is.
    Authentication {
        /// It need not.
        Trust = "trust",
        /// By a password that never crosses the network (RFC 7677).
        ScramSha256 = "scram-sha-256",
    }
}

words! {
    /// Shape of the server's own log lines.
    LogFormat {
        Text = "text",
        Compact = "compact",
    }
}

words! {
    /// Whether changed pages are written twice.
    DoubleWriting { Auto = "auto", On = "on", Off = "off" }
}

words! {
    /// What a process is for.
    ServerRole { Primary = "primary", PageServer = "pageserver", Xlog = "xlog" }
}

words! {
    /// How much the server says about itself.
    LogLevel { Error = "error", Warn = "warn", Info = "info", Debug = "debug", Trace = "trace" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_show() {
        for (text, bytes, shown) in [
            ("1GB", 1 << 30, "1GB"),
            ("64 mb", 64 << 20, "64MB"),
            ("8KiB", 8192, "8kB"),
            ("17", 17, "17B"),
            ("0", 0, "0"),
        ] {
            assert_eq!(Bytes::read(text), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).show(), shown);
            assert_eq!(Bytes::read(shown), Ok(Bytes(bytes)));
        }
        for text in ["", "GB", "1XB", "-1", "99999999999TB"] {
            assert!(Bytes::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_read_and_show() {
        for (text, time, shown) in [
            ("5min", Duration::from_secs(300), "5min"),
            ("1500", Duration::from_millis(1500), "1500ms"),
            ("60s", Duration::from_secs(60), "1min"),
            ("0", Duration::ZERO, "0"),
        ] {
            assert_eq!(Duration::read(text), Ok(time), "{text}");
            assert_eq!(time.show(), shown);
            assert_eq!(Duration::read(shown), Ok(time));
        }
        assert!(Duration::read("soon").is_err());
        for (text, seconds) in [("60", 60), ("2min", 120), ("1500ms", 2), ("0", 0)] {
            assert_eq!(Seconds::read(text), Ok(Seconds(seconds)), "{text}");
        }
        assert!(Seconds::read("-1").is_err() && Seconds::read("99999d").is_err());
        assert_eq!((Least::read("-1"), Least::read("0")), (Ok(Least(None)), Ok(Least(Some(Duration::ZERO)))));
        assert!(Least::read("-2").is_err());
    }
}
