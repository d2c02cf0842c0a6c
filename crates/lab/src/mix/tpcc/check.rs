//! What must hold when nobody writes: the specification's consistency conditions (clause
//! 3.3.2) 1 to 5, 8, 9, and 12 by district, and that exactly what the clients committed is there.

use super::population::delivered;
use super::transactions::{DELIVERIES, ORDERS, PAID, PAYMENTS};
use super::{DISTRICTS, Terminal, TpcC};
use crate::mix::Expectation;
use crate::mix::values::Cents;

/// Queries that count what is wrong.
const CONDITIONS: [(&str, &str); 10] = [
    (
        "condition 1: w_ytd is the sum of d_ytd",
        "select count(*) from warehouse join (select d_w_id, sum(d_ytd) as ytd from district group by d_w_id) as d \
         on d_w_id = w_id where w_ytd <> ytd",
    ),
    (
        "condition 2: d_next_o_id follows the highest o_id",
        "select count(*) from district join (select o_w_id, o_d_id, max(o_id) as last from orders \
         group by o_w_id, o_d_id) as o on o_w_id = d_w_id and o_d_id = d_id where d_next_o_id - 1 <> last",
    ),
    (
        "condition 2: d_next_o_id follows the highest no_o_id",
        "select count(*) from district join (select no_w_id, no_d_id, max(no_o_id) as last from new_order \
         group by no_w_id, no_d_id) as o on no_w_id = d_w_id and no_d_id = d_id where d_next_o_id - 1 <> last",
    ),
    (
        "condition 3: no_o_id has no gaps",
        "select count(*) from (select max(no_o_id) - min(no_o_id) + 1 as span, count(*) as n from new_order \
         group by no_w_id, no_d_id) as o where span <> n",
    ),
    (
        "condition 4: the sum of o_ol_cnt is the number of order lines",
        "select count(*) from (select o_w_id, o_d_id, sum(o_ol_cnt) as said from orders group by o_w_id, o_d_id) as o \
         full join (select ol_w_id, ol_d_id, count(*) as found from order_line group by ol_w_id, ol_d_id) as l \
         on ol_w_id = o_w_id and ol_d_id = o_d_id where said is null or found is null or said <> found",
    ),
    (
        "condition 5: o_carrier_id is null as long as there is a new_order",
        "select count(*) from orders left join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id \
         where (o_carrier_id is null) <> (no_o_id is not null)",
    ),
    (
        "new_order rows have an order",
        "select count(*) from new_order left join orders on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id \
         where o_id is null",
    ),
    (
        "condition 8: w_ytd is the sum of h_amount",
        "select count(*) from warehouse join (select h_w_id, sum(h_amount) as paid from history group by h_w_id) as h \
         on h_w_id = w_id where w_ytd <> paid",
    ),
    (
        "condition 9: d_ytd is the sum of h_amount",
        "select count(*) from district join (select h_w_id, h_d_id, sum(h_amount) as paid from history \
         group by h_w_id, h_d_id) as h on h_w_id = d_w_id and h_d_id = d_id where d_ytd <> paid",
    ),
    (
        "condition 12: customers were credited what was delivered to them",
        "select count(*) from (select c_w_id, c_d_id, sum(c_balance + c_ytd_payment) as credited from customer \
         group by c_w_id, c_d_id) as c join (select ol_w_id, ol_d_id, sum(ol_amount) as delivered from order_line \
         where ol_delivery_d is not null group by ol_w_id, ol_d_id) as l \
         on ol_w_id = c_w_id and ol_d_id = c_d_id where credited <> delivered",
    ),
];

/// What makes them fail.
pub const SPOILS: [&str; 11] = [
    "insert into warehouse (w_id, w_ytd) values (1000000, 0.00)",
    "update warehouse set w_ytd = w_ytd + 0.01 where w_id = 1",
    "update district set d_ytd = d_ytd + 0.01 where d_w_id = 1 and d_id = 1",
    "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = 1 and d_id = 1",
    "delete from new_order where no_w_id = 1 and no_d_id = 1 and no_o_id = (select max(no_o_id) - 1 from new_order \
     where no_w_id = 1 and no_d_id = 1)",
    "insert into new_order (no_w_id, no_d_id, no_o_id) values (1, 1, 1000000000)",
    "delete from orders where o_w_id = 1 and o_d_id = 1 and o_id = 1",
    "delete from order_line where ol_w_id = 1 and ol_d_id = 1 and ol_o_id = 1 and ol_number = 1",
    "update customer set c_balance = c_balance + 0.01 where c_w_id = 1 and c_d_id = 1 and c_id = 1",
    "update customer set c_delivery_cnt = c_delivery_cnt + 1, c_payment_cnt = c_payment_cnt + 1 \
     where c_w_id = 1 and c_d_id = 1 and c_id = 1",
    "delete from history where h_w_id = 1 and h_d_id = 1 and h_c_id = 1",
];

/// See the module's head.
pub fn expectations(mix: &TpcC, terminals: &[Box<dyn Terminal>]) -> Vec<Expectation> {
    let sum = |what: usize| -> i64 { terminals.iter().map(|terminal| terminal.committed()[what]).sum() };
    let districts = mix.warehouses * DISTRICTS;
    let rows = districts * mix.customers;
    let open = rows - districts * delivered(mix);
    let mut all: Vec<Expectation> = CONDITIONS.iter().map(|(what, sql)| Expectation::new(what, *sql, 0)).collect();
    let paid = Cents(rows * 1000 + sum(PAID));
    all.extend([
        Expectation::new("warehouses", "select count(*) from warehouse", mix.warehouses),
        Expectation::new("orders", "select count(*) from orders", rows + sum(ORDERS)),
        Expectation::new("order ids", "select sum(d_next_o_id - 1) from district", rows + sum(ORDERS)),
        Expectation::new("new orders", "select count(*) from new_order", open + sum(ORDERS) - sum(DELIVERIES)),
        Expectation::new("deliveries", "select sum(c_delivery_cnt) from customer", sum(DELIVERIES)),
        Expectation::new("payments", "select sum(c_payment_cnt) from customer", rows + sum(PAYMENTS)),
        Expectation::new("history rows", "select count(*) from history", rows + sum(PAYMENTS)),
        Expectation::new("the sum paid", "select sum(w_ytd) from warehouse", paid),
    ]);
    all
}
