//! The ten transactions (clause 3.3), as a client runs them under READ COMMITTED.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::population::{CHARGE, broker_of, commission};
use super::{
    ACCOUNTS, BROKER_VOLUME, CUSTOMER_POSITION, DAYS, INDUSTRIES, MARKET_FEED, MARKET_WATCH, SECURITY_DETAIL, SHARES,
    TRADE_LOOKUP, TRADE_ORDER, TRADE_RESULT, TRADE_STATUS, TRADE_UPDATE, TpcE, symbol,
};
use crate::mix::db::{integer, text};
use crate::mix::values::{Cents, Moment, date, letters, nurand};
use crate::mix::{Db, Stop, Terminal};
use crate::wire::Row;

/// What [`Terminal::committed`] counts: trades ordered, trades completed, shares fed to the market.
pub const ORDERED: usize = 0;
pub const COMPLETED: usize = 1;
pub const FED: usize = 2;

/// What the clients of a server share: trades that are ordered and wait for their result.
pub struct Market {
    waiting: Mutex<VecDeque<i64>>,
    next: AtomicI64,
}

impl Market {
    /// `first` is the id of the first trade that a client orders.
    pub fn new(first: i64) -> Self {
        Self { waiting: Mutex::default(), next: AtomicI64::new(first) }
    }

    fn put(&self, trade: i64) {
        if let Ok(mut waiting) = self.waiting.lock() {
            waiting.push_back(trade);
        }
    }

    fn take(&self) -> Option<i64> {
        self.waiting.lock().ok()?.pop_front()
    }
}

/// A client.
pub struct Trader {
    mix: TpcE,
    market: Arc<Market>,
    rng: SmallRng,
    /// The trade whose result comes next.
    pending: Option<i64>,
    committed: [i64; 3],
}

fn cents(row: &Row, column: usize) -> Result<i64, Stop> {
    let text = text(row, column)?;
    Cents::parse(text).map(|cents| cents.0).ok_or_else(|| Stop::Failed(format!("\"{text}\" is no amount")))
}

impl Trader {
    pub fn new(mix: TpcE, market: Arc<Market>, number: usize, seed: u64) -> Self {
        let rng = SmallRng::seed_from_u64(seed ^ (0xd1b5_4a32_d192_ed03_u64).wrapping_mul(number as u64 + 1));
        Self { mix, market, rng, pending: None, committed: [0; 3] }
    }

    fn customer(&mut self) -> i64 {
        nurand(&mut self.rng, 511, 77, 1, self.mix.customers)
    }

    fn account(&mut self) -> i64 {
        (self.customer() - 1) * ACCOUNTS + self.rng.random_range(1..=ACCOUNTS)
    }

    fn symbol(&mut self) -> String {
        symbol(self.rng.random_range(1..=self.mix.securities()))
    }

    /// A place among an account's trades.
    fn trade_from(&mut self) -> i64 {
        self.rng.random_range(1..=self.mix.trades())
    }

    fn trade_order(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (account, symbol) = (self.account(), self.symbol());
        let quantity = self.rng.random_range(1..=8) * 100;
        let kind = if self.rng.random() { "TMB" } else { "TMS" };
        let name = letters(&mut self.rng, 20..=49);
        // A tenth of all transactions are trade orders: 1 % of all are rolled back.
        let change_mind = self.rng.random_ratio(1, 10);
        let id = self.market.next.fetch_add(1, Ordering::Relaxed);
        let committed = db.transaction(|db| {
            let row = db.one("account", &[&account])?;
            let broker = integer(&row, 1)?;
            db.one("customer", &[&integer(&row, 0)?])?;
            db.one("broker", &[&broker])?;
            db.one("security", &[&symbol])?;
            let price = cents(&db.one("last_trade", &[&symbol])?, 0)?;
            db.row("summary", &[&account, &symbol])?;
            let (now, paid) = (Moment::now(), Cents(commission(price * quantity)));
            let (price, charge) = (Cents(price), Cents(CHARGE));
            db.change(
                "insert_trade",
                &[&id, &now, &kind, &symbol, &quantity, &price, &account, &name, &charge, &paid],
            )?;
            db.change("insert_history", &[&id, &"SBMT", &now])?;
            db.change("insert_request", &[&id, &symbol, &broker, &quantity, &price])?;
            Ok(!change_mind)
        })?;
        if committed {
            self.market.put(id);
            self.committed[ORDERED] += 1;
        }
        Ok(committed)
    }

    fn trade_result(&mut self, db: &mut Db, id: i64) -> Result<bool, Stop> {
        let mix = &self.mix;
        db.transaction(|db| {
            let trade = db.one("trade", &[&id])?;
            let (account, buys, symbol) = (integer(&trade, 0)?, text(&trade, 1)? == "TMB", text(&trade, 2)?);
            let (quantity, charge, paid) = (integer(&trade, 3)?, cents(&trade, 4)?, cents(&trade, 5)?);
            if text(&trade, 6)? != "SBMT" {
                return Err(Stop::Failed(format!("trade {id} waits and is {:?} already", trade[6])));
            }
            let price = cents(&db.one("last_trade", &[&symbol])?, 0)?;
            let now = Moment::now();
            // The first write: results for the same holdings take turns from here on.
            let change = if buys { quantity } else { -quantity };
            if db.run("add_to_summary", &[&account, &symbol, &change])?.count == 0 {
                db.change("insert_summary", &[&account, &symbol, &change])?;
            }
            let left = if buys { quantity } else { -sell(db, account, symbol, quantity)? };
            if left != 0 {
                db.change("insert_holding", &[&account, &symbol, &id, &now, &Cents(price), &left])?;
            }
            db.change("complete_trade", &[&id, &Cents(price), &now])?;
            db.change("insert_history", &[&id, &"CMPT", &now])?;
            db.change("delete_request", &[&id])?;
            db.change("pay_broker", &[&broker_of(mix, account), &Cents(paid)])?;
            let value = if buys { -price * quantity } else { price * quantity };
            let amount = Cents(value - charge - paid);
            db.change("insert_settlement", &[&id, &now, &amount])?;
            db.change("insert_cash", &[&id, &now, &amount, &(if buys { "bought" } else { "sold" })])?;
            db.change("pay_account", &[&account, &amount])?;
            Ok(true)
        })
    }

    fn trade_update(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (account, from) = (self.account(), self.trade_from());
        db.transaction(|db| {
            let trades = db.run("trades_from", &[&account, &from])?.rows;
            let done = trades.iter().filter(|trade| trade[1].as_deref() == Some("CMPT")).take(5);
            for trade in done {
                let id = integer(trade, 0)?;
                let settled = db.one("settlement_of", &[&id])?;
                let kind = if text(&settled, 1)? == "Cash Account" { "Cash" } else { "Cash Account" };
                db.change("set_cash_type", &[&id, &kind])?;
                db.run("history_of", &[&id])?;
            }
            Ok(true)
        })
    }

    fn market_feed(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let mut ticks: Vec<(String, Cents, i64)> = (0..20)
            .map(|_| (self.symbol(), Cents(self.rng.random_range(2000..=3000)), self.rng.random_range(1..=8) * 100))
            .collect();
        // In one order for all, so that they never wait for each other in a circle.
        ticks.sort();
        ticks.dedup_by(|a, b| a.0 == b.0);
        let now = Moment::now();
        let sets: Vec<[&dyn Display; 4]> = ticks
            .iter()
            .map(|(symbol, price, quantity)| -> [&dyn Display; 4] { [symbol, price, quantity, &now] })
            .collect();
        let sets: Vec<&[&dyn Display]> = sets.iter().map(|set| &set[..]).collect();
        let committed = db.transaction(|db| {
            let changed = db.run_all("feed", &sets)?.count;
            if changed != sets.len() as u64 {
                return Err(Stop::Failed(format!("{changed} of {} prices were fed", sets.len())));
            }
            Ok(true)
        })?;
        self.committed[FED] += ticks.iter().map(|tick| tick.2).sum::<i64>();
        Ok(committed)
    }

    fn trade_status(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let account = self.account();
        db.transaction(|db| {
            let row = db.one("account", &[&account])?;
            db.one("customer", &[&integer(&row, 0)?])?;
            db.one("broker", &[&integer(&row, 1)?])?;
            db.run("status", &[&account])?;
            Ok(true)
        })
    }

    fn market_watch(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (choice, customer, account) = (self.rng.random_range(0..100), self.customer(), self.account());
        let industry = self.rng.random_range(1..=INDUSTRIES);
        let day = date(self.rng.random_range(0..DAYS));
        db.transaction(|db| {
            let symbols = match choice {
                ..60 => db.run("watched", &[&customer])?.rows,
                60..95 => db.run("held", &[&account])?.rows,
                _ => db.run("industry", &[&industry])?.rows,
            };
            let symbols: Vec<&str> = symbols.iter().map(|row| text(row, 0)).collect::<Result<_, _>>()?;
            let one: Vec<[&dyn Display; 1]> = symbols.iter().map(|symbol| -> [&dyn Display; 1] { [symbol] }).collect();
            let one: Vec<&[&dyn Display]> = one.iter().map(|set| &set[..]).collect();
            let of_day: Vec<[&dyn Display; 2]> =
                symbols.iter().map(|symbol| -> [&dyn Display; 2] { [symbol, &day] }).collect();
            let of_day: Vec<&[&dyn Display]> = of_day.iter().map(|set| &set[..]).collect();
            for (name, sets) in [("last_trade", &one), ("security", &one), ("close", &of_day)] {
                let found = db.run_all(name, sets)?.rows.len();
                if found != symbols.len() {
                    return Err(Stop::Failed(format!("{name}: {found} of {} symbols were found", symbols.len())));
                }
            }
            Ok(true)
        })
    }

    fn security_detail(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (symbol, day) = (self.symbol(), self.rng.random_range(0..=DAYS - 20));
        db.transaction(|db| {
            db.one("security", &[&symbol])?;
            db.one("last_trade", &[&symbol])?;
            let days = db.run("days", &[&symbol, &date(day)])?.rows.len();
            if days == 20 { Ok(true) } else { Err(Stop::Failed(format!("{days} days of 20 were found"))) }
        })
    }

    fn customer_position(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let customer = self.customer();
        let account = (customer - 1) * ACCOUNTS + self.rng.random_range(1..=ACCOUNTS);
        db.transaction(|db| {
            db.one("customer", &[&customer])?;
            let accounts = db.run("position", &[&customer])?.rows.len() as i64;
            if accounts != ACCOUNTS {
                return Err(Stop::Failed(format!("customer {customer} has {accounts} accounts, not {ACCOUNTS}")));
            }
            let trades = db.run("last_trades", &[&account])?.rows;
            histories(db, &trades, &["history_of"])?;
            Ok(true)
        })
    }

    fn trade_lookup(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (account, from) = (self.account(), self.trade_from());
        db.transaction(|db| {
            let trades = db.run("trades_from", &[&account, &from])?.rows;
            histories(db, &trades, &["settlement_of", "cash_of", "history_of"])?;
            Ok(true)
        })
    }

    fn broker_volume(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let broker = self.rng.random_range(1..=(self.mix.brokers() - 9).max(1));
        let industry = self.rng.random_range(1..=INDUSTRIES - 9);
        db.transaction(|db| {
            db.run("volume", &[&broker, &(broker + 9), &industry, &(industry + 9)])?;
            Ok(true)
        })
    }
}

/// Takes sold shares from the oldest holdings; what is not held remains: it is sold short.
fn sell(db: &mut Db, account: i64, symbol: &str, quantity: i64) -> Result<i64, Stop> {
    let mut left = quantity;
    for holding in db.run("holdings", &[&account, &symbol])?.rows {
        let (id, held) = (integer(&holding, 0)?, integer(&holding, 1)?);
        if held > left {
            db.change("set_holding", &[&account, &symbol, &id, &(held - left)])?;
            return Ok(0);
        }
        db.change("delete_holding", &[&account, &symbol, &id])?;
        left -= held;
        if left == 0 {
            break;
        }
    }
    Ok(left)
}

/// Reads what belongs to these trades, by their ids in the first column.
fn histories(db: &mut Db, trades: &[Row], statements: &[&str]) -> Result<(), Stop> {
    let ids: Vec<i64> = trades.iter().map(|trade| integer(trade, 0)).collect::<Result<_, _>>()?;
    let sets: Vec<[&dyn Display; 1]> = ids.iter().map(|id| -> [&dyn Display; 1] { [id] }).collect();
    let sets: Vec<&[&dyn Display]> = sets.iter().map(|set| &set[..]).collect();
    statements.iter().try_for_each(|statement| db.run_all(statement, &sets).map(drop))
}

impl Terminal for Trader {
    fn choose(&mut self) -> usize {
        let mut chance = self.rng.random_range(0..SHARES.iter().sum::<u32>());
        let mut chosen = TRADE_ORDER;
        for (kind, share) in SHARES.iter().enumerate() {
            if chance < *share {
                chosen = kind;
                break;
            }
            chance -= share;
        }
        if chosen == TRADE_RESULT {
            self.pending = self.pending.take().or_else(|| self.market.take());
            if self.pending.is_none() {
                return TRADE_ORDER;
            }
        }
        chosen
    }

    fn run(&mut self, kind: usize, db: &mut Db) -> Result<bool, Stop> {
        match kind {
            TRADE_ORDER => self.trade_order(db),
            TRADE_RESULT => {
                let Some(id) = self.pending else { return self.trade_order(db) };
                // If it does not commit it waits on, and this client tries again.
                let committed = self.trade_result(db, id)?;
                if committed {
                    self.pending = None;
                    self.committed[COMPLETED] += 1;
                }
                Ok(committed)
            }
            TRADE_UPDATE => self.trade_update(db),
            MARKET_FEED => self.market_feed(db),
            TRADE_STATUS => self.trade_status(db),
            MARKET_WATCH => self.market_watch(db),
            SECURITY_DETAIL => self.security_detail(db),
            CUSTOMER_POSITION => self.customer_position(db),
            TRADE_LOOKUP => self.trade_lookup(db),
            BROKER_VOLUME => self.broker_volume(db),
            _ => Err(Stop::Failed(format!("there is no transaction {kind}"))),
        }
    }

    fn committed(&self) -> &[i64] {
        &self.committed
    }
}
