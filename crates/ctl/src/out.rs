//! Writing lines of text.

use std::fmt::Arguments;
use std::io::Write;

use resurgam_base::{Error, Result};

/// Writes formatted text.
pub(crate) fn put(out: &mut dyn Write, text: Arguments<'_>) -> Result<()> {
    out.write_fmt(text).map_err(|e| Error::io("write to", "the output", &e))
}

/// Writes `text` with `indent` before each of its lines.
pub(crate) fn indented(out: &mut dyn Write, indent: &str, text: &str) -> Result<()> {
    text.lines().try_for_each(|line| put(out, format_args!("{indent}{line}\n")))
}

/// `say!(out, "format", …)?`: one line.
macro_rules! say {
    ($out:expr, $($arg:tt)*) => {
        $crate::out::put($out, format_args!("{}\n", format_args!($($arg)*)))
    };
}
pub(crate) use say;
