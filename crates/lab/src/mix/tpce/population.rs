//! The rows at first: each customer has five accounts, each account eight trades, all of them
//! completed purchases that it still holds.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{ACCOUNTS, DAYS, FUNDS, INDUSTRIES, TRADES, TpcE, WATCHED, schema, symbol};
use crate::Result;
use crate::mix::values::{Cents, Moment, copy_rows, date, letters};
use crate::wire::Client;

/// What is charged for a trade, in cents.
pub const CHARGE: i64 = 500;

/// Commission of a trade worth so many cents.
pub fn commission(value: i64) -> i64 {
    value / 100
}

/// The broker of an account.
pub fn broker_of(mix: &TpcE, account: i64) -> i64 {
    account % mix.brokers() + 1
}

/// Trades of these accounts, brokers' sums and balances that follow from them.
struct Past {
    trades: Vec<Trade>,
    /// Trades and commissions of each broker.
    brokers: BTreeMap<i64, (i64, i64)>,
    summaries: BTreeMap<(i64, String), i64>,
    balances: BTreeMap<i64, i64>,
}

struct Trade {
    id: i64,
    account: i64,
    symbol: String,
    quantity: i64,
    price: i64,
}

impl Trade {
    fn value(&self) -> i64 {
        self.quantity * self.price
    }

    /// What the account got for it: it paid.
    fn amount(&self) -> i64 {
        -self.value() - CHARGE - commission(self.value())
    }
}

fn past(mix: &TpcE, rng: &mut SmallRng) -> Past {
    let mut past =
        Past { trades: Vec::new(), brokers: BTreeMap::new(), summaries: BTreeMap::new(), balances: BTreeMap::new() };
    for id in 1..=mix.trades() {
        // In time, accounts take turns.
        let account = (id - 1) % mix.accounts() + 1;
        let symbol = symbol(rng.random_range(1..=mix.securities()));
        let trade = Trade {
            id,
            account,
            symbol,
            quantity: rng.random_range(1..=8) * 100,
            price: rng.random_range(2000..=3000),
        };
        let broker = past.brokers.entry(broker_of(mix, account)).or_default();
        broker.0 += 1;
        broker.1 += commission(trade.value());
        *past.summaries.entry((account, trade.symbol.clone())).or_default() += trade.quantity;
        *past.balances.entry(account).or_insert(FUNDS) += trade.amount();
        past.trades.push(trade);
    }
    past
}

/// Makes tables, rows and indexes.
pub fn load(mix: &TpcE, client: &mut Client) -> Result<()> {
    for table in schema::TABLES {
        client.query(table)?;
    }
    let mut random = SmallRng::seed_from_u64(mix.seed);
    let rng = &mut random;
    let past = past(mix, rng);
    let now = Moment::now().to_string();
    let tiers = (1..=mix.customers).map(|id| format!("{id}\t{}\t{}", letters(rng, 10..=30), id % 3 + 1));
    copy_rows(client, "customer", tiers)?;
    let brokers = (1..=mix.brokers()).map(|id| {
        let (trades, paid) = past.brokers.get(&id).copied().unwrap_or_default();
        format!("{id}\tbroker {id}\t{trades}\t{}", Cents(paid))
    });
    copy_rows(client, "broker", brokers)?;
    let accounts = (1..=mix.accounts()).map(|id| {
        let (customer, broker) = ((id - 1) / ACCOUNTS + 1, broker_of(mix, id));
        let balance = Cents(past.balances.get(&id).copied().unwrap_or(FUNDS));
        format!("{id}\t{customer}\t{broker}\t{}\t{balance}", letters(rng, 20..=50))
    });
    copy_rows(client, "account", accounts)?;
    let securities = (1..=mix.securities())
        .map(|id| format!("{}\t{}\t{}\t{}", symbol(id), letters(rng, 30..=70), id % INDUSTRIES + 1, id * 1000));
    copy_rows(client, "security", securities)?;
    let prices = (1..=mix.securities()).map(|id| {
        let price = Cents(rng.random_range(2000..=3000));
        format!("{}\t{now}\t{price}\t{price}\t0", symbol(id))
    });
    copy_rows(client, "last_trade", prices)?;
    let days = (1..=mix.securities()).flat_map(|id| (0..DAYS).map(move |day| (id, day))).map(|(id, day)| {
        let close = rng.random_range(2000..=3000);
        let (low, high) = (Cents(close * 9 / 10), Cents(close * 11 / 10));
        format!("{}\t{}\t{}\t{high}\t{low}\t{}", symbol(id), date(day), Cents(close), rng.random_range(1000..=9999))
    });
    copy_rows(client, "daily_market", days)?;
    // Every customer watches other ones, each at most once.
    let watched =
        (1..=mix.customers).flat_map(|customer| (0..WATCHED).map(move |n| (customer, n))).map(|(customer, n)| {
            let id = (customer * 7 + n * (mix.securities() / WATCHED)) % mix.securities() + 1;
            format!("{customer}\t{}", symbol(id))
        });
    copy_rows(client, "watch_item", watched)?;
    let trades = &past.trades;
    let rows = trades.iter().map(|trade| {
        let Trade { id, account, symbol, quantity, price } = trade;
        let (price, charge, paid) = (Cents(*price), Cents(CHARGE), Cents(commission(trade.value())));
        let name = letters(rng, 20..=49);
        format!("{id}\t{now}\tCMPT\tTMB\t{symbol}\t{quantity}\t{price}\t{account}\t{name}\t{price}\t{charge}\t{paid}")
    });
    copy_rows(client, "trade", rows)?;
    let events = trades.iter().flat_map(|trade| ["CMPT", "SBMT"].map(|event| format!("{}\t{event}\t{now}", trade.id)));
    copy_rows(client, "trade_history", events)?;
    let settled = trades.iter().map(|trade| format!("{}\tCash Account\t{now}\t{}", trade.id, Cents(trade.amount())));
    copy_rows(client, "settlement", settled)?;
    let paid = trades.iter().map(|trade| format!("{}\t{now}\t{}\tbought", trade.id, Cents(trade.amount())));
    copy_rows(client, "cash_transaction", paid)?;
    let mut held: Vec<&Trade> = trades.iter().collect();
    held.sort_by_key(|trade| (trade.account, &trade.symbol, trade.id));
    let holdings = held.iter().map(|trade| {
        let Trade { id, account, symbol, quantity, price } = trade;
        format!("{account}\t{symbol}\t{id}\t{now}\t{}\t{quantity}", Cents(*price))
    });
    copy_rows(client, "holding", holdings)?;
    let summaries = past.summaries.iter().map(|((account, symbol), sum)| format!("{account}\t{symbol}\t{sum}"));
    copy_rows(client, "holding_summary", summaries)?;
    debug_assert_eq!(trades.len() as i64, mix.accounts() * TRADES);
    schema::INDEXES.iter().try_for_each(|index| client.query(index).map(drop))
}
