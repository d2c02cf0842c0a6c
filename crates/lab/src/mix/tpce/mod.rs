//! A brokerage after TPC-E (revision 1.14), on a smaller schema: fourteen tables instead of 33, ten
//! transactions in the specification's shares, of which 76.9 % only read; 1 % of trade orders
//! rolled back on purpose.
//!
//! What differs: no driver for the market: trades that were ordered and committed wait in a
//! queue of the clients, and a trade result takes one from it, with the last price. Data
//! maintenance is left out, names and addresses too. A transaction that conflicts is given up.
//!
//! | file | concept |
//! |---|---|
//! | `schema.rs` | tables and statements |
//! | `population.rs` | the rows at first |
//! | `transactions.rs` | the ten transactions |
//! | `check.rs` | sums that must agree, and what clients committed |

mod check;
mod population;
mod schema;
mod transactions;

use std::sync::Arc;

use super::{Expectation, Mix, Terminal};
use crate::Result;
use crate::wire::Client;
use transactions::{Market, Trader};

/// Accounts of a customer, symbols on its watch list, trades of an account at first, days of prices.
const ACCOUNTS: i64 = 5;
const WATCHED: i64 = 20;
const TRADES: i64 = 8;
const DAYS: i64 = 60;
/// Kinds of business that securities are of.
const INDUSTRIES: i64 = 50;
/// Cents that each account had before its first trade.
const FUNDS: i64 = 100_000_000;

/// The transactions, by their place in the mix's kinds.
const TRADE_ORDER: usize = 0;
const TRADE_RESULT: usize = 1;
const TRADE_UPDATE: usize = 2;
const MARKET_FEED: usize = 3;
const TRADE_STATUS: usize = 4;
const MARKET_WATCH: usize = 5;
const SECURITY_DETAIL: usize = 6;
const CUSTOMER_POSITION: usize = 7;
const TRADE_LOOKUP: usize = 8;
const BROKER_VOLUME: usize = 9;
const KINDS: [&str; 10] = [
    "trade-order",
    "trade-result",
    "trade-update",
    "market-feed",
    "trade-status",
    "market-watch",
    "security-detail",
    "customer-position",
    "trade-lookup",
    "broker-volume",
];
/// Of a thousand, how many are of each kind.
const SHARES: [u32; 10] = [101, 100, 20, 10, 190, 180, 140, 130, 80, 49];

/// The mix and its size.
#[derive(Clone)]
pub struct TpcE {
    pub customers: i64,
    pub seed: u64,
}

impl TpcE {
    pub fn new(customers: i64, seed: u64) -> Self {
        Self { customers: customers.max(1), seed }
    }

    fn accounts(&self) -> i64 {
        self.customers * ACCOUNTS
    }

    fn brokers(&self) -> i64 {
        (self.customers / 100).max(10)
    }

    fn securities(&self) -> i64 {
        self.customers.max(100)
    }

    fn trades(&self) -> i64 {
        self.accounts() * TRADES
    }
}

/// The name by which a security is traded.
fn symbol(number: i64) -> String {
    format!("S{number:06}")
}

impl Mix for TpcE {
    fn name(&self) -> &'static str {
        "TPC-E-like"
    }

    fn counted(&self) -> Option<usize> {
        None
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn statements(&self) -> Vec<(String, String)> {
        schema::STATEMENTS.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect()
    }

    fn load(&self, client: &mut Client) -> Result<()> {
        population::load(self, client)
    }

    fn terminals(&self, count: usize, seed: u64) -> Vec<Box<dyn Terminal>> {
        let market = Arc::new(Market::new(self.trades() + 1));
        (0..count)
            .map(|number| Box::new(Trader::new(self.clone(), Arc::clone(&market), number, seed)) as Box<dyn Terminal>)
            .collect()
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
    use super::*;

    #[test]
    fn shares_are_of_a_thousand_and_most_read() {
        assert_eq!(SHARES.iter().sum::<u32>(), 1000);
        assert_eq!(SHARES[TRADE_STATUS..].iter().sum::<u32>(), 769);
    }

    #[test]
    fn nothing_is_completed_that_was_not_ordered() {
        let mut traders = TpcE::new(100, 1).terminals(1, 1);
        assert!((0..1000).all(|_| traders[0].choose() != TRADE_RESULT));
    }
}
