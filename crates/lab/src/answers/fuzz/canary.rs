//! Planted bugs, which the comparison has to find.
//!
//! With a canary both sides are PostgreSQL, so that a difference can only come from the bug; a
//! run without one on two PostgreSQLs (`--against postgres`) shows that nothing else differs.
//!
//! [`Planted`] ones are in the server itself, which makes them if it was built with the feature
//! `planted` of `resurgam-sql` and is told to (`RESURGAM_PLANT`); a run without one shows that nothing
//! else differs there either.

use clap::ValueEnum;

use crate::answers::client::Reply;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Canary {
    /// A kept plan answers with the constants of its first run
    FoldedParameter,
    /// A table without its CHECK constraints
    CheckForgotten,
    /// NULL in NOT IN does not count
    NullInNotIn,
    /// Rows in another order
    Order,
    /// `bigint` where `integer` is due
    Type,
    /// The last of many rows is lost
    LostRow,
    /// A constraint's error is said to be another one's
    Code,
}

/// A mistake that the server makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Planted {
    /// A kept plan has the constants of its first run in it
    FoldedParameter,
    /// Rows that are written one by one are not held against CHECK constraints
    CheckForgotten,
    /// NULL in a list of NOT IN does not count
    NullInNotIn,
    /// A join is taken for ordered by both of its sides
    OrderOfBothSides,
    /// Groups of several sets are taken for ordered as the rows are that they are made of
    OrderOfSets,
}

impl Planted {
    /// As the server knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FoldedParameter => "folded-parameter",
            Self::CheckForgotten => "check-forgotten",
            Self::NullInNotIn => "null-in-not-in",
            Self::OrderOfBothSides => "order-of-both-sides",
            Self::OrderOfSets => "order-of-sets",
        }
    }
}

impl Canary {
    /// The answer with the bug in it.
    pub fn altered(self, reply: &Reply) -> Reply {
        let mut reply = reply.clone();
        let Some(outcome) = reply.outcomes.last_mut() else { return reply };
        match self {
            Self::Order => outcome.rows.reverse(),
            Self::LostRow if outcome.rows.len() > 3 => drop(outcome.rows.pop()),
            Self::Type => {
                for column in outcome.columns.iter_mut().flatten().filter(|c| c.oid == 23) {
                    column.oid = 20;
                }
            }
            Self::Code => {
                if let Some(error) = outcome.error.as_mut().filter(|e| e.code == "23505") {
                    error.code = "23514".into();
                }
            }
            Self::FoldedParameter | Self::CheckForgotten | Self::NullInNotIn | Self::LostRow => {}
        }
        reply
    }
}
