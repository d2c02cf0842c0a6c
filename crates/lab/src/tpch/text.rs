//! Texts of comments (TPC-H 4.2.2.14): parts of one long text of sentences after the specification's grammar.

use super::random::Random;
use super::words::{
    ADJECTIVES, ADVERBS, AUXILIARIES, NOUN_PHRASES, NOUNS, PREPOSITIONS, SENTENCES, TERMINATORS, VERB_PHRASES, VERBS,
};

/// Bytes of the long text. (The specification has 300 MB; what matters here are its words and which of them meet.)
const BYTES: usize = 4 << 20;

/// The long text: ASCII.
pub struct Text(String);

impl Text {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::of(seed, u64::from(u8::MAX), 0);
        let mut text = String::with_capacity(BYTES + 1024);
        while text.len() < BYTES {
            sentence(&mut random, &mut text);
        }
        Self(text)
    }

    /// A part of it, from `low` to `high` characters long.
    pub fn part(&self, random: &mut Random, low: usize, high: usize) -> &str {
        let len = random.between(low as i64, high as i64) as usize;
        let start = random.below((self.0.len() - len) as u64) as usize;
        &self.0[start..start + len]
    }
}

fn sentence(random: &mut Random, text: &mut String) {
    for part in random.weighted(SENTENCES).chars() {
        match part {
            'N' => phrase(NOUN_PHRASES, random, text),
            'V' => phrase(VERB_PHRASES, random, text),
            'P' => {
                word(random.weighted(PREPOSITIONS), text);
                word("the", text);
                phrase(NOUN_PHRASES, random, text);
            }
            _ => text.push_str(random.weighted(TERMINATORS)),
        }
    }
}

fn phrase(rules: &[(&'static str, u32)], random: &mut Random, text: &mut String) {
    // V is a verb here, and N a noun.
    for part in random.weighted(rules).chars() {
        match part {
            'N' => word(random.weighted(NOUNS), text),
            'V' => word(random.weighted(VERBS), text),
            'J' => word(random.weighted(ADJECTIVES), text),
            'D' => word(random.weighted(ADVERBS), text),
            'X' => word(random.weighted(AUXILIARIES), text),
            mark => text.push(mark),
        }
    }
}

fn word(word: &str, text: &mut String) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(word);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_sentences() {
        let text = Text::new(1);
        assert!(text.0.is_ascii() && text.0.len() >= BYTES && !text.0.contains(['\t', '\n', '\\']));
        // What the queries look for: common enough, and not everywhere.
        for words in ["special", "requests", ". ", ", ", " the ", "pinto beans"] {
            assert!(text.0.matches(words).count() > 1000, "{words}");
        }
        assert!(!text.0.contains("Customer") && !text.0.contains("Complaints"));
        let mut random = Random::of(1, 0, 0);
        let lengths: Vec<usize> = (0..1000).map(|_| text.part(&mut random, 5, 22).len()).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&5), Some(&22)));
    }
}
