//! A set of 65,536 possible values.
//!
//! # Invariants
//! 1. Runs are inclusive, ascending, and do not touch: there is a value between two of them.
//! 2. There are at most [`RUNS_MAX`] of them; more become bits, which take 8 KB whatever is
//!    in them. Bits stay bits until all values are in; that is one run again.

/// As much memory as the bits take.
const RUNS_MAX: usize = 2048;
pub(super) const WORDS: usize = 1024;

/// See the module.
#[derive(Clone)]
pub(super) enum Chunk {
    Runs(Vec<(u16, u16)>),
    Bits(Box<Bits>),
}

#[derive(Clone)]
pub(super) struct Bits {
    pub words: [u64; WORDS],
    pub len: u32,
}

impl Default for Chunk {
    fn default() -> Self {
        Self::Runs(Vec::new())
    }
}

const fn span(low: u16, high: u16) -> u32 {
    high as u32 - low as u32 + 1
}

/// The words that `low..=high` lies in, and its bits in each.
fn masks(low: u16, high: u16) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = (usize::from(low >> 6), usize::from(high >> 6));
    (from..=to).map(move |word| {
        let after = if word == from { u64::MAX << (low & 63) } else { u64::MAX };
        let before = if word == to { u64::MAX >> (63 - (high & 63)) } else { u64::MAX };
        (word, after & before)
    })
}

impl Bits {
    fn insert(&mut self, low: u16, high: u16) -> u32 {
        let mut added = 0;
        for (word, mask) in masks(low, high) {
            added += (mask & !self.words[word]).count_ones();
            self.words[word] |= mask;
        }
        self.len += added;
        added
    }
    fn remove(&mut self, low: u16, high: u16) -> u32 {
        let mut removed = 0;
        for (word, mask) in masks(low, high) {
            removed += (mask & self.words[word]).count_ones();
            self.words[word] &= !mask;
        }
        self.len -= removed;
        removed
    }
    fn update(&mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) {
        self.len = 0;
        for (ours, theirs) in self.words.iter_mut().zip(&other.words) {
            *ours = combine(*ours, *theirs);
            self.len += ours.count_ones();
        }
    }
}

impl Chunk {
    /// The chunk of these runs, for which the first invariant holds.
    pub fn of(runs: Vec<(u16, u16)>) -> Self {
        let mut chunk = Self::Runs(runs);
        chunk.fit();
        chunk
    }
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Runs(runs) => runs.is_empty(),
            Self::Bits(bits) => bits.len == 0,
        }
    }
    pub fn len(&self) -> u32 {
        match self {
            Self::Runs(runs) => runs.iter().map(|(low, high)| span(*low, *high)).sum(),
            Self::Bits(bits) => bits.len,
        }
    }
    pub fn contains(&self, value: u16) -> bool {
        match self {
            Self::Runs(runs) => {
                let after = runs.partition_point(|(low, _)| *low <= value);
                after > 0 && value <= runs[after - 1].1
            }
            Self::Bits(bits) => bits.words[usize::from(value >> 6)] >> (value & 63) & 1 == 1,
        }
    }
    /// Whether any of `low..=high` is in.
    pub fn intersects(&self, low: u16, high: u16) -> bool {
        match self {
            Self::Runs(runs) => runs.get(runs.partition_point(|run| run.1 < low)).is_some_and(|run| run.0 <= high),
            Self::Bits(bits) => find(&bits.words, u32::from(low), 0).is_some_and(|at| at <= u32::from(high)),
        }
    }
    /// Adds `low..=high`; returns how many are new.
    pub fn insert(&mut self, low: u16, high: u16) -> u32 {
        let added = match self {
            Self::Bits(bits) => bits.insert(low, high),
            Self::Runs(runs) => {
                // The runs that overlap or touch what is added become one with it.
                let from = runs.partition_point(|run| u32::from(run.1) + 1 < u32::from(low));
                let to = runs.partition_point(|run| u32::from(run.0) <= u32::from(high) + 1);
                if from == to {
                    runs.insert(from, (low, high));
                    span(low, high)
                } else {
                    let had: u32 = runs[from..to].iter().map(|run| span(run.0, run.1)).sum();
                    let whole = (low.min(runs[from].0), high.max(runs[to - 1].1));
                    runs[from] = whole;
                    runs.drain(from + 1..to);
                    span(whole.0, whole.1) - had
                }
            }
        };
        self.fit();
        added
    }
    /// Takes `low..=high` out; returns how many were in.
    pub fn remove(&mut self, low: u16, high: u16) -> u32 {
        let removed = match self {
            Self::Bits(bits) => bits.remove(low, high),
            Self::Runs(runs) => {
                let from = runs.partition_point(|run| run.1 < low);
                let to = runs.partition_point(|run| run.0 <= high);
                if from == to {
                    return 0;
                }
                let removed = runs[from..to].iter().map(|run| span(run.0.max(low), run.1.min(high))).sum();
                let left = (runs[from].0 < low).then(|| (runs[from].0, low - 1));
                let right = (runs[to - 1].1 > high).then(|| (high + 1, runs[to - 1].1));
                runs.splice(from..to, left.into_iter().chain(right));
                removed
            }
        };
        self.fit();
        removed
    }
    /// Adds all of `other`; returns how many are new.
    pub fn insert_all(&mut self, other: &Self) -> u32 {
        let had = self.len();
        match (&mut *self, other) {
            (Self::Bits(ours), Self::Bits(theirs)) => ours.update(theirs, |a, b| a | b),
            _ => other.runs().for_each(|(low, high)| {
                self.insert(low, high);
            }),
        }
        self.fit();
        self.len() - had
    }
    /// Takes all of `other` out; returns how many were in.
    pub fn remove_all(&mut self, other: &Self) -> u32 {
        let had = self.len();
        match (&mut *self, other) {
            (Self::Bits(ours), Self::Bits(theirs)) => ours.update(theirs, |a, b| a & !b),
            _ => other.runs().for_each(|(low, high)| {
                self.remove(low, high);
            }),
        }
        had - self.len()
    }
    /// Restores the second invariant.
    fn fit(&mut self) {
        match self {
            Self::Runs(runs) if runs.len() > RUNS_MAX => {
                let mut bits = Box::new(Bits { words: [0; WORDS], len: 0 });
                for (low, high) in runs {
                    bits.insert(*low, *high);
                }
                *self = Self::Bits(bits);
            }
            Self::Bits(bits) if bits.len == 1 << 16 => *self = Self::Runs(vec![(0, u16::MAX)]),
            _ => {}
        }
    }
    /// The values as inclusive runs, ascending, which do not touch.
    pub fn runs(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        let (mut list, mut at) = (self.list().iter(), 0u32);
        std::iter::from_fn(move || match self {
            Self::Runs(_) => list.next().copied(),
            Self::Bits(bits) => {
                let low = find(&bits.words, at, 0)?;
                at = find(&bits.words, low, u64::MAX).unwrap_or(1 << 16);
                Some((low as u16, (at - 1) as u16))
            }
        })
    }
    pub fn last(&self) -> Option<u16> {
        match self {
            Self::Runs(runs) => runs.last().map(|run| run.1),
            Self::Bits(bits) => {
                let word = bits.words.iter().rposition(|word| *word != 0)?;
                Some((word * 64 + 63 - bits.words[word].leading_zeros() as usize) as u16)
            }
        }
    }
    fn list(&self) -> &[(u16, u16)] {
        match self {
            Self::Runs(runs) => runs,
            Self::Bits(_) => &[],
        }
    }
    pub fn memory_bytes(&self) -> usize {
        let heap = match self {
            Self::Runs(runs) => runs.capacity() * size_of::<(u16, u16)>(),
            Self::Bits(_) => size_of::<Bits>(),
        };
        // Two reference counts come with it.
        heap + size_of::<Self>() + 16
    }
}

/// The first bit at or after `at` that is set, or, with `flip` all ones, that is not.
fn find(words: &[u64; WORDS], at: u32, flip: u64) -> Option<u32> {
    let mut word = at as usize / 64;
    let mut left = (words.get(word)? ^ flip) & (u64::MAX << (at % 64));
    while left == 0 {
        word += 1;
        left = words.get(word)? ^ flip;
    }
    Some(word as u32 * 64 + left.trailing_zeros())
}
