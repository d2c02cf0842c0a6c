//! Mistakes that the comparison with PostgreSQL has to find (`lab fuzz --canaries`, docs/proof.md), and, of `AlternativeForgotten` and `RowTwice`,
//! that of `tests/planning.rs` with plain plans.
//!
//! They are in a server only if it was built with the feature `planted`, which `.ci/run` asks for, and then one of them
//! is made if `RESURGAM_PLANT` in the environment names it. Without the feature each of these questions is answered by the compiler.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A kept plan has the constants of its first run in it.
    FoldedParameter,
    /// Rows that are written one by one are not held against CHECK constraints.
    CheckForgotten,
    /// NULL in a list of NOT IN does not count.
    NullInNotIn,
    /// The last alternative of a condition with OR is not looked up.
    AlternativeForgotten,
    /// A row that two alternatives find comes twice.
    RowTwice,
    /// A join is taken for ordered by both of its sides.
    OrderOfBothSides,
    /// Groups of several sets are taken for ordered as the rows are that they are made of, and their columns for a key.
    OrderOfSets,
}

#[cfg(feature = "planted")]
impl Planted {
    fn name(self) -> &'static str {
        match self {
            Self::FoldedParameter => "folded-parameter",
            Self::CheckForgotten => "check-forgotten",
            Self::NullInNotIn => "null-in-not-in",
            Self::AlternativeForgotten => "alternative-forgotten",
            Self::RowTwice => "row-twice",
            Self::OrderOfBothSides => "order-of-both-sides",
            Self::OrderOfSets => "order-of-sets",
        }
    }

    /// Whether it is to be made.
    pub(crate) fn is_planted(self) -> bool {
        static WANTED: std::sync::LazyLock<Option<String>> =
            std::sync::LazyLock::new(|| std::env::var("RESURGAM_PLANT").ok());
        WANTED.as_deref() == Some(self.name())
    }
}

#[cfg(not(feature = "planted"))]
impl Planted {
    /// Never.
    pub(crate) const fn is_planted(self) -> bool {
        let _ = self;
        false
    }
}
