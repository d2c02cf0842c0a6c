//! The rows at first (clause 4.3.3): of each warehouse ten districts, with customers, as many
//! orders, of which the last three in ten are not delivered, and stock of each item.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::{DISTRICTS, TpcC, schema};
use crate::Result;
use crate::mix::values::{Cents, Moment, copy_rows, digits, last_name, letters, nurand};
use crate::wire::Client;

/// The constant of last names when rows are made; another one when they are looked for
/// (clause 2.1.6.1).
const LAST_NAME_C: i64 = 157;

/// Last names that there are: with fewer customers fewer, so that each has one.
pub fn last_names(mix: &TpcC) -> i64 {
    mix.customers.clamp(1, 1000)
}

/// Orders of a district that are delivered at first.
pub fn delivered(mix: &TpcC) -> i64 {
    mix.customers * 7 / 10
}

/// Makes tables, rows and indexes.
pub fn load(mix: &TpcC, client: &mut Client) -> Result<()> {
    for table in schema::TABLES {
        client.query(table)?;
    }
    let mut rng = SmallRng::seed_from_u64(mix.seed);
    copy_rows(client, "item", (1..=mix.items).map(|item| item_row(&mut rng, item)))?;
    let now = Moment::now().to_string();
    for warehouse in 1..=mix.warehouses {
        let (name, at, tax) = (letters(&mut rng, 6..=10), address(&mut rng), tax_rate(&mut rng));
        // Every customer has paid 10.00.
        let ytd = Cents(mix.customers * DISTRICTS * 1000);
        copy_rows(client, "warehouse", std::iter::once(format!("{warehouse}\t{name}\t{at}\t{tax}\t{ytd}")))?;
        copy_rows(client, "stock", (1..=mix.items).map(|item| stock_row(&mut rng, warehouse, item)))?;
        for district in 1..=DISTRICTS {
            let (name, at, tax) = (letters(&mut rng, 6..=10), address(&mut rng), tax_rate(&mut rng));
            let (ytd, next) = (Cents(mix.customers * 1000), mix.customers + 1);
            let row = format!("{warehouse}\t{district}\t{name}\t{at}\t{tax}\t{ytd}\t{next}");
            copy_rows(client, "district", std::iter::once(row))?;
            let customers = (1..=mix.customers).map(|id| customer_row(&mut rng, mix, warehouse, district, id, &now));
            copy_rows(client, "customer", customers)?;
            let paid = (1..=mix.customers).map(|id| {
                let data = letters(&mut rng, 12..=24);
                format!("{id}\t{district}\t{warehouse}\t{district}\t{warehouse}\t{now}\t10.00\t{data}")
            });
            copy_rows(client, "history", paid)?;
            orders(mix, client, &mut rng, warehouse, district, &now)?;
        }
    }
    schema::INDEXES.iter().try_for_each(|index| client.query(index).map(drop))
}

fn orders(mix: &TpcC, client: &mut Client, rng: &mut SmallRng, warehouse: i64, district: i64, now: &str) -> Result<()> {
    // Each customer has one order, in any order.
    let mut customers: Vec<i64> = (1..=mix.customers).collect();
    customers.shuffle(rng);
    let mut lines = Vec::new();
    let delivered = delivered(mix);
    let mut heads = Vec::new();
    for (id, customer) in (1..).zip(customers) {
        let count = rng.random_range(5..=15);
        let carrier = if id <= delivered { rng.random_range(1..=10).to_string() } else { "\\N".into() };
        heads.push(format!("{warehouse}\t{district}\t{id}\t{customer}\t{now}\t{carrier}\t{count}\t1"));
        for number in 1..=count {
            let item = rng.random_range(1..=mix.items);
            let (at, amount) =
                if id <= delivered { (now, Cents(0)) } else { ("\\N", Cents(rng.random_range(1..=999_999))) };
            let info = letters(rng, 24..=24);
            lines.push(format!(
                "{warehouse}\t{district}\t{id}\t{number}\t{item}\t{warehouse}\t{at}\t5\t{amount}\t{info}"
            ));
        }
    }
    copy_rows(client, "orders", heads.into_iter())?;
    copy_rows(client, "order_line", lines.into_iter())?;
    let open = (delivered + 1..=mix.customers).map(|id| format!("{warehouse}\t{district}\t{id}"));
    copy_rows(client, "new_order", open)
}

fn tax_rate(rng: &mut SmallRng) -> String {
    format!("0.{:04}", rng.random_range(0..=2000))
}

/// Streets, city, state and zip.
fn address(rng: &mut SmallRng) -> String {
    let [one, two, city] = [letters(rng, 10..=20), letters(rng, 10..=20), letters(rng, 10..=20)];
    format!("{one}\t{two}\t{city}\t{}\t{}11111", letters(rng, 2..=2), digits(rng, 4))
}

/// Text of which one in ten says "original".
fn data(rng: &mut SmallRng) -> String {
    let mut text = letters(rng, 26..=50);
    if rng.random_ratio(1, 10) {
        text.replace_range(5..13, "original");
    }
    text
}

pub fn item_row(rng: &mut SmallRng, item: i64) -> String {
    let (image, price) = (rng.random_range(1..=10_000), Cents(rng.random_range(100..=10_000)));
    format!("{item}\t{image}\t{}\t{price}\t{}", letters(rng, 14..=24), data(rng))
}

pub fn stock_row(rng: &mut SmallRng, warehouse: i64, item: i64) -> String {
    let districts: Vec<String> = (0..DISTRICTS).map(|_| letters(rng, 24..=24)).collect();
    let quantity = rng.random_range(10..=100);
    format!("{warehouse}\t{item}\t{quantity}\t{}\t0\t0\t0\t{}", districts.join("\t"), data(rng))
}

pub fn customer_row(rng: &mut SmallRng, mix: &TpcC, warehouse: i64, district: i64, id: i64, now: &str) -> String {
    // The first customers have each of the names, in turn.
    let names = last_names(mix);
    let name = if id <= names { id - 1 } else { nurand(rng, 255, LAST_NAME_C, 0, names - 1) };
    let credit = if rng.random_ratio(1, 10) { "BC" } else { "GC" };
    let discount = format!("0.{:04}", rng.random_range(0..=5000));
    format!(
        "{warehouse}\t{district}\t{id}\t{}\tOE\t{}\t{}\t{}\t{now}\t{credit}\t50000.00\t{discount}\t-10.00\t10.00\t1\t0\t{}",
        letters(rng, 8..=16),
        last_name(name),
        address(rng),
        digits(rng, 16),
        letters(rng, 300..=500)
    )
}
