//! How many plans leave a sort out: statements whose plans all sort would find no false order.

use std::fmt::Write as _;

use crate::answers::client::{Outcome, Reply};

/// What plans of statements about orders came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plans {
    /// All that were looked at.
    texts: usize,
    /// Of texts that ask for an order by ORDER BY, in windows, too.
    asked: usize,
    /// Of these, those with fewer sorts than orders that are asked for. (Two may be the same order, and one within another may be for nothing.)
    fewer: usize,
    /// And those without any sort.
    none: usize,
    /// With groups that are known to be over by the order of the rows, not by a hash table.
    sorted_groups: usize,
    /// With a merge join.
    merges: usize,
}

impl Plans {
    /// Counts the plan that EXPLAIN answered.
    pub fn count(&mut self, text: &str, explained: &Reply) {
        let rows = explained.outcomes.iter().flat_map(|outcome| &outcome.rows);
        let lines: Vec<String> = rows.filter_map(|row| Outcome::texts(row).into_iter().next()?).collect();
        let with = |names: &[&str]| {
            let named = |line: &&String| {
                let node = line.trim_start().trim_start_matches("->").trim_start();
                names.iter().any(|name| node.strip_prefix(name).is_some_and(|rest| rest.starts_with("  (")))
            };
            lines.iter().filter(named).count()
        };
        let sorts = with(&["Sort", "Incremental Sort"]);
        // Those within an aggregate are no sorts of plans.
        let asked = text.matches(" ORDER BY ").count() - text.matches("',' ORDER BY ").count();
        self.texts += 1;
        self.asked += usize::from(asked > 0);
        self.fewer += usize::from(sorts < asked);
        self.none += usize::from(asked > 0 && sorts == 0);
        self.sorted_groups += usize::from(with(&["GroupAggregate"]) > 0);
        self.merges += usize::from(lines.iter().any(|line| line.contains("Merge") && line.contains("Join")));
    }

    pub fn add(&mut self, other: Self) {
        self.texts += other.texts;
        self.asked += other.asked;
        self.fewer += other.fewer;
        self.none += other.none;
        self.sorted_groups += other.sorted_groups;
        self.merges += other.merges;
    }

    /// In words, if there were any.
    pub fn write(&self, text: &mut String) {
        if self.texts > 0 {
            let _ = writeln!(
                text,
                "{} texts about orders: {} ask for one, of which {} sort less often than they ask and {} not at all; {} with sorted groups, {} with merge joins",
                self.texts, self.asked, self.fewer, self.none, self.sorted_groups, self.merges
            );
        }
    }
}
