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

use super::{Mix, Terminal};
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

    /// A tenth of the rows, for a try.
    pub fn small(warehouses: i64, seed: u64) -> Self {
        Self { customers: 300, items: 10_000, ..Self::new(warehouses, seed) }
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

    fn terminal(&self, number: usize, seed: u64) -> Box<dyn Terminal> {
        Box::new(Clerk::new(self.clone(), number, seed))
    }

    fn check(&self, client: &mut Client, terminals: &[Box<dyn Terminal>]) -> Result<Vec<String>> {
        check::check(self, client, terminals)
    }
}
