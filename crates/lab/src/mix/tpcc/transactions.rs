//! The five transactions (clauses 2.4 to 2.8), as a client runs them under READ COMMITTED.
//!
//! Where the specification reads a row and then writes what it has computed from it, the
//! write comes first here and computes by itself, and the read after it sees what the
//! transaction has locked: nothing is lost to a concurrent write, without SELECT FOR UPDATE.

use std::fmt::Display;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::population::last_names;
use super::schema::stock_of;
use super::{DELIVERY, DISTRICTS, NEW_ORDER, ORDER_STATUS, PAYMENT, SHARES, STOCK_LEVEL, TpcC};
use crate::mix::db::{integer, text};
use crate::mix::values::{Cents, Moment, last_name, letters, nurand};
use crate::mix::{Db, Stop, Terminal};

/// Constants of the uneven choices (clause 2.1.6).
const LAST_NAME_C: i64 = 223;
const CUSTOMER_C: i64 = 259;
const ITEM_C: i64 = 7911;

/// What [`Terminal::committed`] counts: new orders, payments, orders delivered, and the cents paid.
pub const ORDERS: usize = 0;
pub const PAYMENTS: usize = 1;
pub const DELIVERIES: usize = 2;
pub const PAID: usize = 3;

/// A client, at home in one warehouse.
pub struct Clerk {
    mix: TpcC,
    home: i64,
    rng: SmallRng,
    committed: [i64; 4],
    /// The statements that read stock, by district.
    stock: Vec<String>,
}

/// A line of a new order.
struct Line {
    item: i64,
    supplier: i64,
    quantity: i64,
    amount: Cents,
    info: String,
}

impl Clerk {
    pub fn new(mix: TpcC, number: usize, seed: u64) -> Self {
        let home = number as i64 % mix.warehouses + 1;
        let rng = SmallRng::seed_from_u64(seed ^ (0x9e37_79b9_7f4a_7c15_u64).wrapping_mul(number as u64 + 1));
        Self { mix, home, rng, committed: [0; 4], stock: (1..=DISTRICTS).map(stock_of).collect() }
    }

    fn customer(&mut self) -> i64 {
        nurand(&mut self.rng, 1023, CUSTOMER_C, 1, self.mix.customers)
    }

    /// Another warehouse than one's own, if there is one.
    fn other_warehouse(&mut self) -> i64 {
        if self.mix.warehouses == 1 {
            return self.home;
        }
        let other = self.rng.random_range(1..self.mix.warehouses);
        if other < self.home { other } else { other + 1 }
    }

    /// A customer's number, six times in ten found by name: the middle one by first name.
    fn find_customer(&mut self, db: &mut Db, warehouse: i64, district: i64) -> Result<i64, Stop> {
        if !self.rng.random_ratio(6, 10) {
            return Ok(self.customer());
        }
        let name = last_name(nurand(&mut self.rng, 255, LAST_NAME_C, 0, last_names(&self.mix) - 1));
        let found = db.run("customers_by_name", &[&warehouse, &district, &name])?.rows;
        let middle = found.get(found.len().saturating_sub(1) / 2);
        let middle = middle.ok_or_else(|| Stop::Failed(format!("no customer {name} in {warehouse}/{district}")))?;
        integer(middle, 0)
    }

    /// Whether a transaction that could commit is to be rolled back.
    fn changes_its_mind(&mut self) -> bool {
        self.mix.aborts > 0.0 && self.rng.random_bool(self.mix.aborts.min(1.0))
    }

    fn new_order(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (home, district) = (self.home, self.rng.random_range(1..=DISTRICTS));
        let customer = self.customer();
        let count = self.rng.random_range(5..=15);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                item: nurand(&mut self.rng, 8191, ITEM_C, 1, self.mix.items),
                supplier: if self.rng.random_ratio(1, 100) { self.other_warehouse() } else { home },
                quantity: self.rng.random_range(1..=10),
                amount: Cents(0),
                info: String::new(),
            })
            .collect();
        // All clients lock stock in the same order, so they never wait for each other in a circle.
        lines.sort_by_key(|line| (line.supplier, line.item));
        // One in a hundred asks at last for an item that is not there, and rolls back.
        if self.rng.random_ratio(1, 100)
            && let Some(last) = lines.last_mut()
        {
            last.item = self.mix.items + 1;
        }
        let change_mind = self.changes_its_mind();
        let stock = self.stock[district as usize - 1].as_str();
        let all_local = i64::from(lines.iter().all(|line| line.supplier == home));
        let committed = db.transaction(|db| {
            db.one("warehouse_tax", &[&home])?;
            db.change("take_order_id", &[&home, &district])?;
            let order = integer(&db.one("order_id_taken", &[&home, &district])?, 0)? - 1;
            db.one("customer_discount", &[&home, &district, &customer])?;
            let now = Moment::now();
            db.change("insert_order", &[&home, &district, &order, &customer, &now, &lines.len(), &all_local])?;
            db.change("insert_new_order", &[&home, &district, &order])?;
            for line in &mut lines {
                let Some(item) = db.row("item", &[&line.item])? else { return Ok(false) };
                let price = Cents::parse(text(&item, 0)?).ok_or_else(|| Stop::Failed("a price is no amount".into()))?;
                let remote = i64::from(line.supplier != home);
                db.change("take_stock", &[&line.supplier, &line.item, &line.quantity, &remote])?;
                let stocked = db.one(stock, &[&line.supplier, &line.item])?;
                line.info = text(&stocked, 1)?.to_owned();
                line.amount = Cents(price.0 * line.quantity);
            }
            let numbers: Vec<usize> = (1..=lines.len()).collect();
            let sets: Vec<[&dyn Display; 9]> = lines
                .iter()
                .zip(&numbers)
                .map(|(line, number)| -> [&dyn Display; 9] {
                    let Line { item, supplier, quantity, amount, info } = line;
                    [&home, &district, &order, number, item, supplier, quantity, amount, info]
                })
                .collect();
            let sets: Vec<&[&dyn Display]> = sets.iter().map(|set| &set[..]).collect();
            let inserted = db.run_all("insert_line", &sets)?.count;
            if inserted != lines.len() as u64 {
                return Err(Stop::Failed(format!("{inserted} of {} lines were inserted", lines.len())));
            }
            Ok(!change_mind)
        })?;
        self.committed[ORDERS] += i64::from(committed);
        Ok(committed)
    }

    fn payment(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (home, district) = (self.home, self.rng.random_range(1..=DISTRICTS));
        let (warehouse, residence) = if self.rng.random_ratio(85, 100) {
            (home, district)
        } else {
            (self.other_warehouse(), self.rng.random_range(1..=DISTRICTS))
        };
        let amount = Cents(self.rng.random_range(100..=500_000));
        let data = letters(&mut self.rng, 12..=24);
        let change_mind = self.changes_its_mind();
        let committed = db.transaction(|db| {
            db.change("pay_warehouse", &[&home, &amount])?;
            db.one("warehouse_address", &[&home])?;
            db.change("pay_district", &[&home, &district, &amount])?;
            db.one("district_address", &[&home, &district])?;
            let customer = self.find_customer(db, warehouse, residence)?;
            let whose: [&dyn Display; 3] = [&warehouse, &residence, &customer];
            db.change("pay_customer", &[&warehouse, &residence, &customer, &amount])?;
            let credit = db.one("customer", &whose)?;
            if text(&credit, 0)? == "BC" {
                let old = db.one("customer_data", &whose)?;
                let mut note = format!("{customer} {residence} {warehouse} {district} {home} {amount}|");
                note += text(&old, 0)?;
                note.truncate(500);
                db.change("set_customer_data", &[&warehouse, &residence, &customer, &note])?;
            }
            let now = Moment::now();
            db.change("insert_history", &[&customer, &residence, &warehouse, &district, &home, &now, &amount, &data])?;
            Ok(!change_mind)
        })?;
        if committed {
            self.committed[PAYMENTS] += 1;
            self.committed[PAID] += amount.0;
        }
        Ok(committed)
    }

    fn order_status(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (home, district) = (self.home, self.rng.random_range(1..=DISTRICTS));
        db.transaction(|db| {
            let customer = self.find_customer(db, home, district)?;
            db.one("customer_balance", &[&home, &district, &customer])?;
            let order = db.one("last_order", &[&home, &district, &customer])?;
            let lines = db.run("lines", &[&home, &district, &integer(&order, 0)?])?.rows.len() as i64;
            if lines != integer(&order, 3)? {
                return Err(Stop::Failed(format!("an order has {lines} lines and says {:?}", order[3])));
            }
            Ok(true)
        })
    }

    fn delivery(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (home, carrier) = (self.home, self.rng.random_range(1..=10));
        let change_mind = self.changes_its_mind();
        let mut delivered = 0;
        let committed = db.transaction(|db| {
            let now = Moment::now();
            for district in 1..=DISTRICTS {
                let Some(order) = take_oldest(db, home, district)? else { continue };
                let head = db.one("order_customer", &[&home, &district, &order])?;
                let (customer, count) = (integer(&head, 0)?, integer(&head, 1)?);
                db.change("set_carrier", &[&home, &district, &order, &carrier])?;
                let lines = db.run("deliver_lines", &[&home, &district, &order, &now])?.count as i64;
                if lines != count {
                    return Err(Stop::Failed(format!("{lines} of {count} lines of an order were delivered")));
                }
                let sum = db.one("sum_of_lines", &[&home, &district, &order])?;
                db.change("credit_customer", &[&home, &district, &customer, &text(&sum, 0)?])?;
                delivered += 1;
            }
            Ok(!change_mind)
        })?;
        if committed {
            self.committed[DELIVERIES] += delivered;
        }
        Ok(committed)
    }

    fn stock_level(&mut self, db: &mut Db) -> Result<bool, Stop> {
        let (home, district) = (self.home, self.rng.random_range(1..=DISTRICTS));
        let threshold = self.rng.random_range(10..=20);
        db.transaction(|db| {
            let next = integer(&db.one("next_order_id", &[&home, &district])?, 0)?;
            db.one("low_stock", &[&home, &district, &next, &threshold, &(next - 20)])?;
            Ok(true)
        })
    }
}

/// Takes the oldest order of a district that is not delivered. Another delivery may be faster;
/// then this one looks again.
fn take_oldest(db: &mut Db, warehouse: i64, district: i64) -> Result<Option<i64>, Stop> {
    loop {
        let Some(oldest) = db.row("oldest_new_order", &[&warehouse, &district])? else { return Ok(None) };
        let order = integer(&oldest, 0)?;
        if db.run("delete_new_order", &[&warehouse, &district, &order])?.count == 1 {
            return Ok(Some(order));
        }
    }
}

impl Terminal for Clerk {
    fn choose(&mut self) -> usize {
        let mut chance = self.rng.random_range(0..100);
        for (kind, share) in SHARES.iter().enumerate() {
            if chance < *share {
                return kind;
            }
            chance -= share;
        }
        NEW_ORDER
    }

    fn run(&mut self, kind: usize, db: &mut Db) -> Result<bool, Stop> {
        match kind {
            NEW_ORDER => self.new_order(db),
            PAYMENT => self.payment(db),
            ORDER_STATUS => self.order_status(db),
            DELIVERY => self.delivery(db),
            STOCK_LEVEL => self.stock_level(db),
            _ => Err(Stop::Failed(format!("there is no transaction {kind}"))),
        }
    }

    fn committed(&self) -> &[i64] {
        &self.committed
    }
}
