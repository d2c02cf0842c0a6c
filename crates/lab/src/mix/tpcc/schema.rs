//! Tables (clause 1.3) and the statements of the transactions. Columns are the
//! specification's; amounts are numeric, so sums are exact.

/// The tables, by PostgreSQL's grammar; nothing references anything.
pub const TABLES: [&str; 9] = [
    "create table warehouse (w_id integer not null, w_name varchar(10), w_street_1 varchar(20), \
     w_street_2 varchar(20), w_city varchar(20), w_state char(2), w_zip char(9), w_tax numeric(4,4), \
     w_ytd numeric(12,2), primary key (w_id))",
    "create table district (d_w_id integer not null, d_id integer not null, d_name varchar(10), \
     d_street_1 varchar(20), d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9), \
     d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id integer, primary key (d_w_id, d_id))",
    "create table customer (c_w_id integer not null, c_d_id integer not null, c_id integer not null, \
     c_first varchar(16), c_middle char(2), c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20), \
     c_city varchar(20), c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp, c_credit char(2), \
     c_credit_lim numeric(12,2), c_discount numeric(4,4), c_balance numeric(12,2), c_ytd_payment numeric(12,2), \
     c_payment_cnt integer, c_delivery_cnt integer, c_data varchar(500), primary key (c_w_id, c_d_id, c_id))",
    "create table history (h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer, \
     h_date timestamp, h_amount numeric(6,2), h_data varchar(24))",
    "create table orders (o_w_id integer not null, o_d_id integer not null, o_id integer not null, o_c_id integer, \
     o_entry_d timestamp, o_carrier_id integer, o_ol_cnt integer, o_all_local integer, \
     primary key (o_w_id, o_d_id, o_id))",
    "create table new_order (no_w_id integer not null, no_d_id integer not null, no_o_id integer not null, \
     primary key (no_w_id, no_d_id, no_o_id))",
    "create table item (i_id integer not null, i_im_id integer, i_name varchar(24), i_price numeric(5,2), \
     i_data varchar(50), primary key (i_id))",
    "create table stock (s_w_id integer not null, s_i_id integer not null, s_quantity integer, s_dist_01 char(24), \
     s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24), s_dist_06 char(24), \
     s_dist_07 char(24), s_dist_08 char(24), s_dist_09 char(24), s_dist_10 char(24), s_ytd integer, \
     s_order_cnt integer, s_remote_cnt integer, s_data varchar(50), primary key (s_w_id, s_i_id))",
    "create table order_line (ol_w_id integer not null, ol_d_id integer not null, ol_o_id integer not null, \
     ol_number integer not null, ol_i_id integer, ol_supply_w_id integer, ol_delivery_d timestamp, \
     ol_quantity integer, ol_amount numeric(6,2), ol_dist_info char(24), \
     primary key (ol_w_id, ol_d_id, ol_o_id, ol_number))",
];

/// Made after the rows are there.
pub const INDEXES: [&str; 2] = [
    "create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first)",
    "create index orders_by_customer on orders (o_w_id, o_d_id, o_c_id, o_id)",
];

const STATEMENTS: [(&str, &str); 31] = [
    // New order.
    ("warehouse_tax", "select w_tax from warehouse where w_id = $1"),
    ("take_order_id", "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2"),
    ("order_id_taken", "select d_next_o_id, d_tax from district where d_w_id = $1 and d_id = $2"),
    (
        "customer_discount",
        "select c_discount, c_last, c_credit from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    ),
    (
        "insert_order",
        "insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
         values ($1, $2, $3, $4, $5, $6, $7)",
    ),
    ("insert_new_order", "insert into new_order (no_w_id, no_d_id, no_o_id) values ($1, $2, $3)"),
    ("item", "select i_price, i_name, i_data from item where i_id = $1"),
    (
        "take_stock",
        "update stock set s_quantity = case when s_quantity - $3 >= 10 then s_quantity - $3 \
         else s_quantity - $3 + 91 end, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, \
         s_remote_cnt = s_remote_cnt + $4 where s_w_id = $1 and s_i_id = $2",
    ),
    (
        "insert_line",
        "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
         ol_amount, ol_dist_info) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    ),
    // Payment.
    ("pay_warehouse", "update warehouse set w_ytd = w_ytd + cast($2 as numeric(12,2)) where w_id = $1"),
    (
        "warehouse_address",
        "select w_name, w_street_1, w_street_2, w_city, w_state, w_zip from warehouse where w_id = $1",
    ),
    ("pay_district", "update district set d_ytd = d_ytd + cast($3 as numeric(12,2)) where d_w_id = $1 and d_id = $2"),
    (
        "district_address",
        "select d_name, d_street_1, d_street_2, d_city, d_state, d_zip from district where d_w_id = $1 and d_id = $2",
    ),
    (
        "customers_by_name",
        "select c_id from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3 order by c_first",
    ),
    (
        "pay_customer",
        "update customer set c_balance = c_balance - cast($4 as numeric(12,2)), \
         c_ytd_payment = c_ytd_payment + cast($4 as numeric(12,2)), \
         c_payment_cnt = c_payment_cnt + 1 where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    ),
    (
        "customer",
        "select c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, \
         c_since, c_credit_lim, c_discount, c_balance from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    ),
    ("customer_data", "select c_data from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3"),
    ("set_customer_data", "update customer set c_data = $4 where c_w_id = $1 and c_d_id = $2 and c_id = $3"),
    (
        "insert_history",
        "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    ),
    // Order status.
    (
        "customer_balance",
        "select c_balance, c_first, c_middle, c_last from customer where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    ),
    (
        "last_order",
        "select o_id, o_entry_d, o_carrier_id, o_ol_cnt from orders where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 \
         order by o_id desc limit 1",
    ),
    (
        "lines",
        "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line \
         where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3",
    ),
    // Delivery.
    ("oldest_new_order", "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2 order by no_o_id limit 1"),
    ("delete_new_order", "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3"),
    ("order_customer", "select o_c_id, o_ol_cnt from orders where o_w_id = $1 and o_d_id = $2 and o_id = $3"),
    ("set_carrier", "update orders set o_carrier_id = $4 where o_w_id = $1 and o_d_id = $2 and o_id = $3"),
    ("deliver_lines", "update order_line set ol_delivery_d = $4 where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3"),
    ("sum_of_lines", "select sum(ol_amount) from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3"),
    (
        "credit_customer",
        "update customer set c_balance = c_balance + cast($4 as numeric(12,2)), c_delivery_cnt = c_delivery_cnt + 1 \
         where c_w_id = $1 and c_d_id = $2 and c_id = $3",
    ),
    // Stock level.
    ("next_order_id", "select d_next_o_id from district where d_w_id = $1 and d_id = $2"),
    (
        "low_stock",
        "select count(distinct s_i_id) from order_line, stock where ol_w_id = $1 and ol_d_id = $2 \
         and ol_o_id >= $5 and ol_o_id < $3 and s_w_id = $1 and s_i_id = ol_i_id and s_quantity < $4",
    ),
];

/// All statements, and one for each district that reads what an order line takes from stock.
pub fn statements() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        STATEMENTS.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect();
    for district in 1..=super::DISTRICTS {
        let sql =
            format!("select s_quantity, s_dist_{district:02}, s_data from stock where s_w_id = $1 and s_i_id = $2");
        all.push((stock_of(district), sql));
    }
    all
}

/// The name of the statement that reads a district's part of stock.
pub fn stock_of(district: i64) -> String {
    format!("stock_{district:02}")
}
