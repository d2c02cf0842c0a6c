//! Tables that come and go, with what is known of them; VACUUM and CHECKPOINT between.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::round::{Round, Session, Stop};

/// Tables there may be at a time: `d0`, `d1`, …
pub const TABLES: u32 = 6;

/// A table (id, v), and whether it has an index on v.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    pub rows: i64,
    pub indexed: bool,
}

/// The tables by their number, and whether `item` has its second index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    pub tables: BTreeMap<u32, Table>,
    pub item_indexed: bool,
}

/// The client that changes definitions, over all rounds.
pub struct Schema {
    pub tables: Tables,
    /// What there is if the commit in doubt happened.
    pub doubt: Option<Tables>,
    /// Whether indexes of a table come and go that others write at the same time.
    shared: bool,
    rng: SmallRng,
}

impl Schema {
    pub fn new(seed: u64, shared: bool) -> Self {
        Self { tables: Tables::default(), doubt: None, shared, rng: SmallRng::seed_from_u64(seed ^ 0x5c4e) }
    }

    pub fn work(&mut self, round: &Round) {
        let Ok(mut session) = Session::open(round, "schema") else { return };
        while round.running() {
            let done = match self.rng.random_range(0..10) {
                0 => session.run("vacuum"),
                1 => session.run("checkpoint"),
                2..4 => self.alone(&mut session),
                _ => self.transaction(&mut session),
            };
            if done == Err(Stop::Ended) {
                return;
            }
            round.pause(self.rng.random_range(1..150));
        }
    }

    /// One statement that commits by itself.
    fn alone(&mut self, session: &mut Session<'_>) -> Result<(), Stop> {
        let mut new = self.tables.clone();
        let Some(sql) = statement(&mut new, self.shared, &mut self.rng) else { return Ok(()) };
        match session.run(&sql) {
            Ok(()) => {
                session.round.commits.fetch_add(1, Ordering::Relaxed);
                self.tables = new;
                Ok(())
            }
            Err(stop) => {
                if stop == Stop::Ended {
                    self.doubt = Some(new);
                }
                Err(stop)
            }
        }
    }

    fn transaction(&mut self, session: &mut Session<'_>) -> Result<(), Stop> {
        let mut asked = false;
        let mut new = self.tables.clone();
        let (shared, rng) = (self.shared, &mut self.rng);
        let done = session.transaction(&mut asked, |session| {
            for _ in 0..rng.random_range(1..5) {
                if let Some(sql) = statement(&mut new, shared, rng) {
                    session.run(&sql)?;
                }
            }
            Ok(rng.random_ratio(3, 5))
        });
        match done {
            Ok(true) => self.tables = new,
            Err(Stop::Ended) if asked => self.doubt = Some(new),
            _ => {}
        }
        done.map(drop)
    }
}

/// A statement, and what there is after it.
fn statement(tables: &mut Tables, shared: bool, rng: &mut SmallRng) -> Option<String> {
    let n = rng.random_range(0..TABLES);
    let rows = rng.random_range(1..2000);
    let Some(table) = tables.tables.get_mut(&n) else {
        return Some(if rng.random() {
            tables.tables.insert(n, Table { rows: 0, indexed: false });
            format!("create table d{n} (id bigint primary key, v bigint not null)")
        } else {
            tables.tables.insert(n, Table { rows, indexed: false });
            format!("create table d{n} as select i as id, i * 3 as v from generate_series(1, {rows}) as g(i)")
        });
    };
    match rng.random_range(0..12) {
        0..5 => {
            let (from, to) = (table.rows + 1, table.rows + rows);
            table.rows = to;
            Some(format!("insert into d{n} select i, i * 3 from generate_series({from}, {to}) as g(i)"))
        }
        5..7 if !table.indexed => {
            table.indexed = true;
            Some(format!("create index d{n}_v on d{n} (v)"))
        }
        7 if table.indexed => {
            table.indexed = false;
            Some(format!("drop index d{n}_v"))
        }
        8 => {
            table.rows = 0;
            Some(format!("truncate d{n}"))
        }
        9..11 => {
            tables.tables.remove(&n);
            Some(format!("drop table d{n}"))
        }
        11 if shared => {
            tables.item_indexed = !tables.item_indexed;
            Some(if tables.item_indexed {
                "create index item_stamp on item (stamp)".into()
            } else {
                "drop index item_stamp".into()
            })
        }
        _ => None,
    }
}
