//! Order entry after TPC-C (revision 5.11): nine tables, population by warehouses, five
//! transactions in the specification's shares, 1 % of new orders rolled back on purpose.
//!
//! What differs: no think times, no terminals (clients are spread over home warehouses), a
//! client chooses each transaction by chance instead of from a deck, the delivery is not
//! deferred, and a transaction that conflicts is given up, not tried again.
//!
//! | file | concept |
//! |---|---|
//! | `schema.rs` | tables and statements |
//! | `population.rs` | the rows at first |
//! | `transactions.rs` | the five transactions |
//! | `check.rs` | the specification's consistency conditions, and what clients committed |

mod check;
mod population;
mod schema;
mod transactions;

use super::{Expectation, Mix, Terminal};
use crate::Result;
use crate::wire::Client;
use transactions::Clerk;

/// Districts of a warehouse.
const DISTRICTS: i64 = 10;

/// The transactions, by their place in the mix's kinds.
const NEW_ORDER: usize = 0;
const PAYMENT: usize = 1;
const ORDER_STATUS: usize = 2;
const DELIVERY: usize = 3;
const STOCK_LEVEL: usize = 4;
const KINDS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];
/// Of a hundred, how many are of each kind.
const SHARES: [u32; 5] = [45, 43, 4, 4, 4];

/// The mix and its size.
#[derive(Clone)]
pub struct TpcC {
    pub warehouses: i64,
    /// Customers of a district, and its orders at first; 3000 in the specification.
    pub customers: i64,
    /// 100,000 in the specification.
    pub items: i64,
    /// Share of transactions that are rolled back at their end, beside the 1 % of new orders.
    pub aborts: f64,
    pub seed: u64,
}

impl TpcC {
    pub fn new(warehouses: i64, seed: u64) -> Self {
        Self { warehouses: warehouses.max(1), customers: 3000, items: 100_000, aborts: 0.0, seed }
    }

    /// A thirtieth of the rows, for a try.
    pub fn small(warehouses: i64, seed: u64) -> Self {
        Self { customers: 100, items: 3000, ..Self::new(warehouses, seed) }
    }
}

impl Mix for TpcC {
    fn name(&self) -> &'static str {
        "TPC-C-like"
    }

    fn counted(&self) -> Option<usize> {
        Some(NEW_ORDER)
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn statements(&self) -> Vec<(String, String)> {
        schema::statements()
    }

    fn load(&self, client: &mut Client) -> Result<()> {
        population::load(self, client)
    }

    fn terminals(&self, count: usize, seed: u64) -> Vec<Box<dyn Terminal>> {
        (0..count).map(|number| Box::new(Clerk::new(self.clone(), number, seed)) as Box<dyn Terminal>).collect()
    }

    fn expectations(&self, terminals: &[Box<dyn Terminal>]) -> Vec<Expectation> {
        check::expectations(self, terminals)
    }

    fn spoils(&self) -> &'static [&'static str] {
        &check::SPOILS
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn shares_are_of_a_hundred() {
        assert_eq!(SHARES.iter().sum::<u32>(), 100);
        let mut clerks = TpcC::small(2, 1).terminals(1, 1);
        let mut found = [0; 5];
        (0..10_000).for_each(|_| found[clerks[0].choose()] += 1);
        for (found, share) in found.iter().zip(SHARES) {
            assert!((*found as f64 / 100.0 - f64::from(share)).abs() < 2.0, "{found} of {share} %");
        }
    }

    #[test]
    fn rows_have_all_columns() {
        let mut rng = SmallRng::seed_from_u64(1);
        let columns = |table: usize| schema::TABLES[table].split("primary key").next().map(|t| t.matches(',').count());
        let tabs = |row: String| row.matches('\t').count() + 1;
        // The comma before the key stands for the last column; amounts have one of their own.
        let amounts = |table: usize| schema::TABLES[table].matches("numeric(").count();
        let mix = TpcC::small(1, 1);
        let customer = population::customer_row(&mut rng, &mix, 1, 1, 1, "now");
        assert_eq!(Some(tabs(customer) + amounts(2)), columns(2));
        assert_eq!(Some(tabs(population::item_row(&mut rng, 1)) + amounts(6)), columns(6));
        assert_eq!(Some(tabs(population::stock_row(&mut rng, 1, 1)) + amounts(7)), columns(7));
    }
}
