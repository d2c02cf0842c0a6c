//! The rows of the eight tables (TPC-H 4.2.3), each a function of the seed, the scale and its number, as lines of COPY's
//! text format. Sizes, ranges and dependencies between columns are the specification's; the random numbers are not
//! its program's, so that answers are not those that it publishes.

use std::io::Write;

use super::random::Random;
use super::text::Text;
use super::words::{COLOURS, CONTAINERS, INSTRUCTIONS, MODES, NATIONS, PRIORITIES, REGIONS, SEGMENTS, TYPES};
use crate::Result;
use crate::mix::values::Cents;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Region,
    Nation,
    Supplier,
    Part,
    PartSupp,
    Customer,
    Orders,
    LineItem,
}

impl Table {
    pub const ALL: [Self; 8] = [
        Self::Region,
        Self::Nation,
        Self::Supplier,
        Self::Part,
        Self::PartSupp,
        Self::Customer,
        Self::Orders,
        Self::LineItem,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Nation => "nation",
            Self::Supplier => "supplier",
            Self::Part => "part",
            Self::PartSupp => "partsupp",
            Self::Customer => "customer",
            Self::Orders => "orders",
            Self::LineItem => "lineitem",
        }
    }
}

/// The largest scale: keys of orders are integers of 32 bits.
const SCALE_MAX: f64 = 300.0;

/// Days from the first date (1992-01-01) on: the last one of an order (1998-08-02), and the day that is called today
/// (1995-06-17); and how many there are (to 1998-12-31).
const LAST_ORDER: i64 = 2405;
const TODAY: i64 = 1263;
const DAYS: usize = 2557;

/// Suppliers of a part.
const SUPPLIERS_OF_PART: u64 = 4;

/// Of so many suppliers one has customers' complaints in its comment, and one their recommendations.
const REMARKED: u64 = 2000;

pub struct Population {
    seed: u64,
    suppliers: u64,
    parts: u64,
    customers: u64,
    orders: u64,
    clerks: u64,
    text: Text,
    dates: Vec<String>,
}

/// An order with its lines.
struct Order<'a> {
    key: u64,
    customer: u64,
    date: i64,
    priority: &'static str,
    clerk: u64,
    comment: &'a str,
    lines: Vec<Line<'a>>,
}

/// A line of an order; money in cents, discount and tax in hundredths.
struct Line<'a> {
    part: u64,
    supplier: u64,
    quantity: i64,
    price: i64,
    discount: i64,
    tax: i64,
    shipped: i64,
    committed: i64,
    received: i64,
    returned: char,
    instruction: &'static str,
    mode: &'static str,
    comment: &'a str,
}

impl Line<'_> {
    fn is_open(&self) -> bool {
        self.shipped > TODAY
    }
}

impl Population {
    /// # Errors
    /// No such scale.
    pub fn new(scale: f64, seed: u64) -> Result<Self> {
        let count = |of_one: f64| (of_one * scale).round() as u64;
        let suppliers = if (0.01..=SCALE_MAX).contains(&scale) { count(10_000.0) } else { 0 };
        // The rule that gives a part its suppliers names one twice among few of them if their number can be divided by three.
        if suppliers == 0 || (suppliers < 240 && suppliers.is_multiple_of(3)) {
            return Err(format!("the data cannot be made at scale {scale}; 0.01 and 0.025 to {SCALE_MAX} will do"));
        }
        Ok(Self {
            seed,
            suppliers,
            parts: suppliers * 20,
            customers: suppliers * 15,
            orders: suppliers * 150,
            clerks: count(1000.0).max(1),
            text: Text::new(seed),
            dates: dates(),
        })
    }

    /// Rows of a table; of lines about four times the orders, by chance.
    pub fn rows(&self, table: Table) -> Option<u64> {
        match table {
            Table::Region => Some(REGIONS.len() as u64),
            Table::Nation => Some(NATIONS.len() as u64),
            Table::Supplier => Some(self.suppliers),
            Table::Part => Some(self.parts),
            Table::PartSupp => Some(self.parts * SUPPLIERS_OF_PART),
            Table::Customer => Some(self.customers),
            Table::Orders => Some(self.orders),
            Table::LineItem => None,
        }
    }

    /// How often [`Population::put`] is called for a table: once a row, but for all suppliers of a part, and all lines of an order.
    pub fn steps(&self, table: Table) -> u64 {
        match table {
            Table::PartSupp => self.parts,
            Table::LineItem => self.orders,
            _ => self.rows(table).unwrap_or_default(),
        }
    }

    /// Appends what a table has of a step, counted from 0, in COPY's text format. (Nothing in the texts would have to be escaped.)
    pub fn put(&self, table: Table, step: u64, out: &mut Vec<u8>) {
        // Lines are made of their order's numbers.
        let of = if table == Table::LineItem { Table::Orders } else { table };
        let mut random = Random::of(self.seed, of as u64, step);
        // Writing to a vector cannot fail.
        let _ = match table {
            Table::Region => {
                let comment = self.text.part(&mut random, 31, 115);
                writeln!(out, "{step}\t{}\t{comment}", REGIONS[step as usize])
            }
            Table::Nation => {
                let (name, region) = NATIONS[step as usize];
                writeln!(out, "{step}\t{name}\t{region}\t{}", self.text.part(&mut random, 31, 114))
            }
            Table::Supplier => {
                let key = step + 1;
                let (address, nation) = (address(&mut random), random.below(25));
                let (phone, balance) = (phone(&mut random, nation), balance(&mut random));
                let comment = self.suppliers_comment(&mut random, step);
                writeln!(out, "{key}\tSupplier#{key:09}\t{address}\t{nation}\t{phone}\t{balance}\t{comment}")
            }
            Table::Part => self.put_part(&mut random, step + 1, out),
            Table::PartSupp => {
                let part = step + 1;
                (0..SUPPLIERS_OF_PART).try_for_each(|at| {
                    let supplier = self.supplier_of(part, at);
                    let (available, cost) = (random.between(1, 9999), Cents(random.between(100, 100_000)));
                    let comment = self.text.part(&mut random, 49, 198);
                    writeln!(out, "{part}\t{supplier}\t{available}\t{cost}\t{comment}")
                })
            }
            Table::Customer => {
                let key = step + 1;
                let (address, nation) = (address(&mut random), random.below(25));
                let (phone, balance) = (phone(&mut random, nation), balance(&mut random));
                let (segment, comment) = (random.pick(&SEGMENTS), self.text.part(&mut random, 29, 116));
                writeln!(out, "{key}\tCustomer#{key:09}\t{address}\t{nation}\t{phone}\t{balance}\t{segment}\t{comment}")
            }
            Table::Orders => self.put_order(&self.order(&mut random, step), out),
            Table::LineItem => self.put_lines(&self.order(&mut random, step), out),
        };
    }

    fn put_part(&self, random: &mut Random, key: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
        let mut words: Vec<&str> = Vec::with_capacity(5);
        while words.len() < 5 {
            let word = random.pick(&COLOURS);
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let (maker, brand) = (random.between(1, 5), random.between(1, 5));
        let kind = TYPES.map(|list| random.pick(list)).join(" ");
        let (size, container) = (random.between(1, 50), CONTAINERS.map(|list| random.pick(list)).join(" "));
        let (price, comment) = (Cents(retail_price(key)), self.text.part(random, 5, 22));
        writeln!(
            out,
            "{key}\t{}\tManufacturer#{maker}\tBrand#{maker}{brand}\t{kind}\t{size}\t{container}\t{price}\t{comment}",
            words.join(" ")
        )
    }

    /// One of the four suppliers of a part, spread over all of them.
    fn supplier_of(&self, part: u64, at: u64) -> u64 {
        (part + at * (self.suppliers / SUPPLIERS_OF_PART + (part - 1) / self.suppliers)) % self.suppliers + 1
    }

    fn suppliers_comment(&self, random: &mut Random, step: u64) -> String {
        let mut comment = self.text.part(random, 25, 100).to_owned();
        let block = REMARKED.min(self.suppliers);
        let mut of_block = Random::of(self.seed, u64::from(u8::MAX) - 1, step / block);
        let complained = of_block.below(block);
        let recommended = (complained + 1 + of_block.below(block - 1)) % block;
        let what = match step % block {
            at if at == complained => "Complaints",
            at if at == recommended => "Recommends",
            _ => return comment,
        };
        let room = comment.len() - "Customer".len() - what.len();
        let between = random.below(room as u64 + 1) as usize;
        let start = random.below((room - between) as u64 + 1) as usize;
        comment.replace_range(start..start + "Customer".len(), "Customer");
        let start = start + "Customer".len() + between;
        comment.replace_range(start..start + what.len(), what);
        comment
    }

    fn order(&self, random: &mut Random, step: u64) -> Order<'_> {
        // A third of all customers has no orders: those whose keys can be divided by three.
        let customer = random.below(self.customers - self.customers / 3);
        let date = random.between(0, LAST_ORDER);
        let (priority, clerk) = (random.pick(&PRIORITIES), random.below(self.clerks) + 1);
        let comment = self.text.part(random, 19, 78);
        let lines = (0..random.between(1, 7)).map(|_| self.line(random, date)).collect();
        Order {
            // The first eight keys of each 32 are used.
            key: step / 8 * 32 + step % 8 + 1,
            customer: customer / 2 * 3 + customer % 2 + 1,
            date,
            priority,
            clerk,
            comment,
            lines,
        }
    }

    fn line(&self, random: &mut Random, ordered: i64) -> Line<'_> {
        let part = random.below(self.parts) + 1;
        let supplier = self.supplier_of(part, random.below(SUPPLIERS_OF_PART));
        let quantity = random.between(1, 50);
        let (discount, tax) = (random.between(0, 10), random.between(0, 8));
        let (shipped, committed) = (ordered + random.between(1, 121), ordered + random.between(30, 90));
        let received = shipped + random.between(1, 30);
        Line {
            part,
            supplier,
            quantity,
            price: quantity * retail_price(part),
            discount,
            tax,
            shipped,
            committed,
            received,
            returned: if received > TODAY { 'N' } else { random.pick(&['R', 'A']) },
            instruction: random.pick(&INSTRUCTIONS),
            mode: random.pick(&MODES),
            comment: self.text.part(random, 10, 43),
        }
    }

    fn put_order(&self, order: &Order<'_>, out: &mut Vec<u8>) -> std::io::Result<()> {
        let open = order.lines.iter().filter(|line| line.is_open()).count();
        let status = match open {
            0 => 'F',
            _ if open == order.lines.len() => 'O',
            _ => 'P',
        };
        let total =
            order.lines.iter().map(|line| line.price * (100 - line.discount) / 100 * (100 + line.tax) / 100).sum();
        let Order { key, customer, priority, clerk, comment, .. } = order;
        let (total, date) = (Cents(total), self.date(order.date));
        writeln!(out, "{key}\t{customer}\t{status}\t{total}\t{date}\t{priority}\tClerk#{clerk:09}\t0\t{comment}")
    }

    fn put_lines(&self, order: &Order<'_>, out: &mut Vec<u8>) -> std::io::Result<()> {
        for (number, line) in (1..).zip(&order.lines) {
            let Line { part, supplier, quantity, returned, instruction, mode, comment, .. } = line;
            let (price, discount, tax) = (Cents(line.price), Cents(line.discount), Cents(line.tax));
            let status = if line.is_open() { 'O' } else { 'F' };
            let [shipped, committed, received] =
                [line.shipped, line.committed, line.received].map(|day| self.date(day));
            write!(out, "{}\t{part}\t{supplier}\t{number}\t{quantity}\t{price}\t{discount}\t{tax}\t", order.key)?;
            write!(out, "{returned}\t{status}\t{shipped}\t{committed}\t{received}\t")?;
            writeln!(out, "{instruction}\t{mode}\t{comment}")?;
        }
        Ok(())
    }

    fn date(&self, day: i64) -> &str {
        self.dates.get(day.unsigned_abs() as usize).map_or("", String::as_str)
    }
}

/// What a part costs, in cents.
fn retail_price(part: u64) -> i64 {
    (90_000 + part / 10 % 20_001 + 100 * (part % 1000)) as i64
}

fn balance(random: &mut Random) -> Cents {
    Cents(random.between(-99_999, 999_999))
}

fn phone(random: &mut Random, nation: u64) -> String {
    let [one, two] = [(); 2].map(|()| random.between(100, 999));
    format!("{}-{one}-{two}-{}", nation + 10, random.between(1000, 9999))
}

/// Letters, digits, blanks and commas, without meaning.
fn address(random: &mut Random) -> String {
    const SIGNS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,";
    (0..random.between(10, 40)).map(|_| char::from(random.pick(SIGNS))).collect()
}

/// All dates from 1992-01-01 on, as text.
fn dates() -> Vec<String> {
    let months = |year: i32| {
        let february = if year % 4 == 0 { 29 } else { 28 };
        [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    };
    let mut dates = Vec::with_capacity(DAYS);
    for year in 1992..=1998 {
        for (month, days) in (1..).zip(months(year)) {
            dates.extend((1..=days).map(|day| format!("{year}-{month:02}-{day:02}")));
        }
    }
    dates
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn lines(population: &Population, table: Table) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        for step in 0..population.steps(table) {
            population.put(table, step, &mut out);
        }
        let text = String::from_utf8(out).expect("text");
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    fn numbers<'a>(rows: &'a [Vec<String>], column: usize) -> impl Iterator<Item = u64> + 'a {
        rows.iter().map(move |row| row[column].parse().expect("a number"))
    }

    fn range(rows: &[Vec<String>], column: usize) -> (u64, u64) {
        numbers(rows, column).fold((u64::MAX, 0), |(low, high), n| (low.min(n), high.max(n)))
    }

    #[test]
    fn tables_have_their_sizes_and_keys() {
        let population = Population::new(0.01, 1).expect("a scale");
        for (table, columns) in Table::ALL.into_iter().zip([3, 4, 7, 9, 5, 8, 9, 16]) {
            let rows = lines(&population, table);
            assert!(rows.iter().all(|row| row.len() == columns), "{}", table.name());
            assert!(population.rows(table).is_none_or(|count| count == rows.len() as u64), "{}", table.name());
            let keys: HashSet<_> = match table {
                Table::PartSupp => rows.iter().map(|row| (&row[0], Some(&row[1]))).collect(),
                Table::LineItem => rows.iter().map(|row| (&row[0], Some(&row[3]))).collect(),
                _ => rows.iter().map(|row| (&row[0], None)).collect(),
            };
            assert_eq!(keys.len(), rows.len(), "keys of {} come once", table.name());
        }
    }

    #[test]
    fn lines_belong_to_their_orders_parts_and_suppliers() {
        let population = Population::new(0.01, 7).expect("a scale");
        let (orders, items) = (lines(&population, Table::Orders), lines(&population, Table::LineItem));
        assert_eq!((range(&orders, 0), orders.len()), ((1, 59_976), 15_000));
        assert!(numbers(&orders, 1).all(|customer| customer % 3 != 0 && (1..=1500).contains(&customer)));
        assert!((58_000..62_000).contains(&items.len()), "{}", items.len());
        let offers: HashSet<_> =
            lines(&population, Table::PartSupp).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        let keys: HashSet<u64> = numbers(&orders, 0).collect();
        let with_lines: HashSet<u64> = numbers(&items, 0).collect();
        assert_eq!(keys, with_lines);
        assert!(items.iter().all(|row| offers.contains(&(row[1].clone(), row[2].clone()))));
        assert!(items.iter().all(|row| row[10] < row[12] && row[10].as_str() > "1992" && row[12].as_str() < "1999"));
        // By the day that is called today: what was shipped, what was received.
        assert!(items.iter().all(|row| (row[9] == "O") == (row[10].as_str() > "1995-06-17")));
        assert!(items.iter().all(|row| (row[8] == "N") == (row[12].as_str() > "1995-06-17")));
        assert_eq!((range(&items, 4), range(&items, 3)), ((1, 50), (1, 7)));
    }

    /// Reports of several machines and versions are about the same data.
    #[test]
    fn the_data_is_the_same_everywhere() {
        let population = Population::new(0.01, 1).expect("a scale");
        let sums = Table::ALL.map(|table| {
            let mut out = Vec::new();
            (0..population.steps(table)).for_each(|step| population.put(table, step, &mut out));
            // FNV-1a
            out.iter()
                .fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
        });
        let right = [
            0xc9a2_8df5_afd1_7a89,
            0x10ac_fb62_5c0b_7afc,
            0xeb0e_4c09_3371_8f5c,
            0xc80f_4127_c64e_0f4b,
            0x11d5_5c5b_8558_73fe,
            0xedf1_777c_04db_ce33,
            0xd72a_cda8_7e3e_f6ce,
            0xb843_e350_c6f4_34f5,
        ];
        assert_eq!(sums, right);
    }

    #[test]
    fn dates_are_the_calendars() {
        let dates = dates();
        assert_eq!(dates.len(), DAYS);
        assert_eq!(
            [0, 59, TODAY as usize, LAST_ORDER as usize, DAYS - 1].map(|day| dates[day].as_str()),
            ["1992-01-01", "1992-02-29", "1995-06-17", "1998-08-02", "1998-12-31"]
        );
    }

    #[test]
    fn suppliers_are_remarked_upon() {
        let population = Population::new(0.2, 1).expect("a scale");
        let rows = lines(&population, Table::Supplier);
        for (word, count) in [("Complaints", 1), ("Recommends", 1)] {
            let found = rows.iter().filter(|row| {
                row[6].split_once("Customer").is_some_and(|(_, rest)| rest.contains(word)) && row[6].len() <= 100
            });
            assert_eq!(found.count(), count, "{word}");
        }
    }

    #[test]
    fn scales_that_cannot_be_are_refused() {
        for scale in [0.0, 0.001, 0.012, 1000.0, f64::NAN, -1.0] {
            assert!(Population::new(scale, 1).is_err(), "{scale}");
        }
    }
}
