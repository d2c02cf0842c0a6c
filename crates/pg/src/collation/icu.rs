//! Orders of ICU: keys by which texts are ordered as CLDR says for a locale.
//!
//! A key is what ICU makes of a text, then a zero, then the text itself. Keys compare as bytes. ICU's part has no zero in it,
//! so that a text which is a beginning of another comes first; and of texts that ICU takes for equal (`strcoll` gives 0) the bytes
//! decide, as in PostgreSQL's deterministic collations. So keys are equal where the texts are.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use icu_casemap::CaseMapper;
use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use parking_lot::RwLock;

use crate::wire::SqlError;

/// What ends ICU's part of a key.
const END: u8 = 0;

/// The order of a locale.
pub struct Order {
    locale: String,
    collator: CollatorBorrowed<'static>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Order").field(&self.locale).finish()
    }
}

/// Orders that were asked for: one takes a while to make, and there are few.
static KNOWN: LazyLock<RwLock<HashMap<String, Arc<Order>>>> = LazyLock::new(Default::default);

impl Order {
    /// That of a language tag.
    ///
    /// # Errors
    /// `22023` for what is no tag, `0A000` for a keyword that is not known here.
    pub fn of(locale: &str) -> Result<Arc<Self>, SqlError> {
        if let Some(known) = KNOWN.read().get(locale) {
            return Ok(Arc::clone(known));
        }
        let order = Arc::new(Self::new(locale)?);
        KNOWN.write().insert(locale.to_owned(), Arc::clone(&order));
        Ok(order)
    }

    fn new(tag: &str) -> Result<Self, SqlError> {
        let invalid = || SqlError::new("22023", format!("could not open collator for locale \"{tag}\""));
        let locale = Locale::try_from_str(tag).map_err(|_| invalid())?;
        let options = options(&locale, tag)?;
        let collator = Collator::try_new(CollatorPreferences::from(&locale), options).map_err(|_| invalid())?;
        Ok(Self { locale: tag.to_owned(), collator })
    }

    /// Appends the key of a text.
    pub fn put_key(&self, text: &str, out: &mut Vec<u8>) {
        // A Vec takes whatever is written.
        let _ = self.collator.write_sort_key_to(text, out);
        out.push(END);
        out.extend_from_slice(text.as_bytes());
    }
}

/// A text in the letters of one case, by the rules of a language.
///
/// # Errors
/// `22023` for what is no tag of a locale.
pub fn in_case(locale: &str, upper: bool, text: &str) -> Result<String, SqlError> {
    let invalid = || SqlError::new("22023", format!("could not open collator for locale \"{locale}\""));
    let language = Locale::try_from_str(locale).map_err(|_| invalid())?.id;
    let mapper = CaseMapper::new();
    Ok(match upper {
        true => mapper.uppercase_to_string(text, &language).into_owned(),
        false => mapper.lowercase_to_string(text, &language).into_owned(),
    })
}

/// The text that a key is of.
pub fn text_of_key(key: &[u8]) -> Option<&str> {
    // Texts have no zeros either.
    let end = key.iter().rposition(|byte| *byte == END)?;
    std::str::from_utf8(&key[end + 1..]).ok()
}

/// The options that the tag's keywords say.
fn options(locale: &Locale, tag: &str) -> Result<CollatorOptions, SqlError> {
    let unknown =
        |name: &str| SqlError::unsupported(format!("the keyword {name} of the locale \"{tag}\" is not supported"));
    let mut options = CollatorOptions::default();
    for (name, value) in locale.extensions.unicode.keywords.iter() {
        let (name, value) = (name.as_str(), value.to_string());
        let refused = || unknown(&format!("{name}-{value}"));
        match (name, value.as_str()) {
            // Read by the collator itself.
            ("co", _) | ("kn", "" | "true" | "false") | ("kf", "upper" | "lower" | "false") => {}
            ("ks", value) => {
                options.strength = Some(match value {
                    "level1" => Strength::Primary,
                    "level2" => Strength::Secondary,
                    "level3" => Strength::Tertiary,
                    "level4" => Strength::Quaternary,
                    "identic" => Strength::Identical,
                    _ => return Err(refused()),
                });
            }
            ("ka", value) => {
                options.alternate_handling = Some(match value {
                    "noignore" => AlternateHandling::NonIgnorable,
                    "shifted" => AlternateHandling::Shifted,
                    _ => return Err(refused()),
                });
            }
            ("kc", value) => {
                options.case_level = Some(match value {
                    "" | "true" => CaseLevel::On,
                    "false" => CaseLevel::Off,
                    _ => return Err(refused()),
                });
            }
            ("kv", value) => {
                options.max_variable = Some(match value {
                    "space" => MaxVariable::Space,
                    "punct" => MaxVariable::Punctuation,
                    "symbol" => MaxVariable::Symbol,
                    "currency" => MaxVariable::Currency,
                    _ => return Err(refused()),
                });
            }
            _ => return Err(refused()),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    const TEXTS: [&str; 40] = [
        "", " ", "-", "a", "A", "á", "Á", "a\u{301}", "ab", "a b", "a-b", "aB", "Ab", "b", "ä", "Ä", "ae", "az", "z",
        "Z", "å", "ö", "o", "ø", "ñ", "n", "nz", "ch", "cz", "ll", "lz", "1", "2", "10", "β", "Б", "б", "中", "文",
        "😀",
    ];

    fn key(order: &Order, text: &str) -> Vec<u8> {
        let mut key = Vec::new();
        order.put_key(text, &mut key);
        key
    }

    #[test]
    fn keys_are_ordered_as_texts_are_compared() {
        for locale in ["und", "en-US", "de", "sv", "da", "es-u-co-trad", "zh", "de-u-kn-ka-shifted", "und-u-ks-level1"]
        {
            let order = Order::of(locale).expect(locale);
            for a in TEXTS {
                assert_eq!(text_of_key(&key(&order, a)), Some(a));
                assert_eq!(key(&order, a).iter().filter(|byte| **byte == END).count(), 1, "{locale}: {a:?}");
                for b in TEXTS {
                    // Bytes decide between texts that are equal for ICU.
                    let wanted = order.collator.compare(a, b).then_with(|| a.cmp(b));
                    assert_eq!(key(&order, a).cmp(&key(&order, b)), wanted, "{locale}: {a:?} {b:?}");
                    assert_eq!(wanted == Ordering::Equal, a == b);
                }
            }
        }
    }

    fn sorted(locale: &str, mut texts: Vec<&str>) -> String {
        let order = Order::of(locale).expect(locale);
        texts.sort_by_key(|text| key(&order, text));
        texts.join(" ")
    }

    #[test]
    fn locales_have_orders_of_their_own() {
        let texts = || vec!["z", "ä", "a", "b", "A"];
        assert_eq!(sorted("de", texts()), "a A ä b z");
        assert_eq!(sorted("sv", texts()), "a A b z ä");
        assert_eq!(sorted("de-u-kf-upper", texts()), "A a ä b z");
        assert_eq!(sorted("und", vec!["x10", "x9"]), "x10 x9");
        assert_eq!(sorted("und-u-kn", vec!["x10", "x9"]), "x9 x10");
        assert_eq!(sorted("de-u-co-phonebk", vec!["ad", "ä", "af"]), "ad ä af");
        assert_eq!(sorted("de", vec!["ad", "ä", "af"]), "ä ad af");
    }

    #[test]
    fn cases_are_those_of_a_language() {
        for (locale, text, upper, lower) in [
            ("de", "Straße", "STRASSE", "straße"),
            ("tr", "Iıiİ", "IIİİ", "ııii"),
            ("en", "Iiİ", "IIİ", "iii\u{307}"),
            ("el", "ΣΑΣ", "ΣΑΣ", "σας"),
        ] {
            assert_eq!(in_case(locale, true, text).expect(locale), upper);
            assert_eq!(in_case(locale, false, text).expect(locale), lower);
        }
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for (locale, code) in
            [("!", "22023"), ("de-u-kb", "0A000"), ("de-u-ks-level9", "0A000"), ("und-u-kr-latn", "0A000")]
        {
            assert_eq!(Order::of(locale).expect_err(locale).sqlstate, code, "{locale}");
        }
    }
}
