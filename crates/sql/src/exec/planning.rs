//! What this crate's own planning does beyond DataFusion's; tests turn it off to compare answers.

use datafusion::prelude::SessionConfig;

/// A table of so many rows is large for lookups: eight times as many as keys that are looked up in it by default.
const LARGE_ROWS: f64 = 32768.0;
/// Of a very large table so many times what is looked up in any: some 130,000 rows, whose keys take 25 MB.
const TIMES_MAX: f64 = 32.0;

/// See the module's head. Answers are the same whatever is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planning {
    /// Sorts, and `min` and `max`, are answered by reading a tree in its order.
    pub key_order: bool,
    /// Inner joins are put in an order of our own.
    pub join_order: bool,
    /// Plans go by estimates of rows.
    pub estimates: bool,
    /// Joins look up the rows of their inner side while the outer one has given at most so many
    /// rows, or more where the inner table is large; 0: they never do.
    pub lookup_rows: usize,
    /// A small table is read as a whole rather than looked up in.
    pub read_small_tables: bool,
    /// The alternatives of a condition with OR are looked up each by itself.
    pub alternatives: bool,
    /// Scans look at the conditions of the filters above them before they decode all columns.
    pub early_conditions: bool,
    /// Columns are fetched when it is known which rows are wanted.
    pub late_rows: bool,
    /// Tables of about so many rows are read by several threads, in parts of a third of that; `u64::MAX`: none is.
    pub gather_rows: u64,
    /// Statements about one row, or about rows in the order of a key, are executed directly.
    pub direct: bool,
    /// Joins go to temporary files (`merge_join.rs`), and no plan is kept.
    pub spilling_joins: bool,
    /// Each run of a kept plan is compared with fresh plans; see `canary.rs`.
    pub canary: bool,
}

impl Default for Planning {
    fn default() -> Self {
        Self {
            key_order: true,
            join_order: true,
            estimates: true,
            lookup_rows: 4096,
            read_small_tables: true,
            alternatives: true,
            early_conditions: true,
            late_rows: true,
            gather_rows: 100_000,
            direct: true,
            spilling_joins: false,
            canary: is_canary_wanted(),
        }
    }
}

impl Planning {
    /// Nothing of it: DataFusion's plans as they are.
    pub const OFF: Self = Self {
        key_order: false,
        join_order: false,
        estimates: false,
        lookup_rows: 0,
        read_small_tables: false,
        alternatives: false,
        early_conditions: false,
        late_rows: false,
        gather_rows: u64::MAX,
        direct: false,
        spilling_joins: false,
        canary: false,
    };

    /// Rows of the outer side up to which rows are looked up in a table of about so many: of a larger one more, since reading all
    /// of it takes longer; but so many only that their keys, which are in memory together and in nobody's account, take little.
    pub(crate) fn lookups_in(&self, rows: Option<f64>) -> usize {
        let times = rows.map_or(1.0, |rows| (rows / LARGE_ROWS).clamp(1.0, TIMES_MAX));
        (self.lookup_rows as f64 * times) as usize
    }

    /// What is set for whoever plans with `config`.
    pub(crate) fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map_or_else(Self::default, |set| *set)
    }
}

/// Whether the environment asks for it.
pub(crate) fn is_canary_wanted() -> bool {
    static WANTED: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| std::env::var("RESURGAM_PLAN_CANARY").is_ok_and(|value| value == "1"));
    *WANTED
}
