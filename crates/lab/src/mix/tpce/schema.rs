//! Tables and the statements of the transactions, with the specification's names.

pub const TABLES: [&str; 14] = [
    "create table customer (c_id bigint not null, c_name varchar(40), c_tier smallint, primary key (c_id))",
    "create table broker (b_id bigint not null, b_name varchar(40), b_num_trades integer, \
     b_comm_total numeric(12,2), primary key (b_id))",
    "create table account (ca_id bigint not null, ca_c_id bigint, ca_b_id bigint, ca_name varchar(50), \
     ca_bal numeric(14,2), primary key (ca_id))",
    "create table security (s_symb varchar(15) not null, s_name varchar(70), s_in_id integer, s_num_out bigint, \
     primary key (s_symb))",
    "create table last_trade (lt_s_symb varchar(15) not null, lt_dts timestamp, lt_price numeric(8,2), \
     lt_open_price numeric(8,2), lt_vol bigint, primary key (lt_s_symb))",
    "create table daily_market (dm_s_symb varchar(15) not null, dm_date date not null, dm_close numeric(8,2), \
     dm_high numeric(8,2), dm_low numeric(8,2), dm_vol bigint, primary key (dm_s_symb, dm_date))",
    "create table watch_item (wi_c_id bigint not null, wi_s_symb varchar(15) not null, \
     primary key (wi_c_id, wi_s_symb))",
    "create table trade (t_id bigint not null, t_dts timestamp, t_st_id char(4), t_tt_id char(3), \
     t_s_symb varchar(15), t_qty integer, t_bid_price numeric(8,2), t_ca_id bigint, t_exec_name varchar(49), \
     t_trade_price numeric(8,2), t_chrg numeric(10,2), t_comm numeric(10,2), primary key (t_id))",
    "create table trade_history (th_t_id bigint not null, th_st_id char(4) not null, th_dts timestamp, \
     primary key (th_t_id, th_st_id))",
    "create table trade_request (tr_t_id bigint not null, tr_s_symb varchar(15), tr_b_id bigint, tr_qty integer, \
     tr_bid_price numeric(8,2), primary key (tr_t_id))",
    "create table holding_summary (hs_ca_id bigint not null, hs_s_symb varchar(15) not null, hs_qty integer, \
     primary key (hs_ca_id, hs_s_symb))",
    "create table holding (h_ca_id bigint not null, h_s_symb varchar(15) not null, h_t_id bigint not null, \
     h_dts timestamp, h_price numeric(8,2), h_qty integer, primary key (h_ca_id, h_s_symb, h_t_id))",
    "create table settlement (se_t_id bigint not null, se_cash_type varchar(40), se_due timestamp, \
     se_amt numeric(10,2), primary key (se_t_id))",
    "create table cash_transaction (ct_t_id bigint not null, ct_dts timestamp, ct_amt numeric(10,2), \
     ct_name varchar(100), primary key (ct_t_id))",
];

/// Made after the rows are there.
pub const INDEXES: [&str; 4] = [
    "create index account_by_customer on account (ca_c_id)",
    "create index security_by_industry on security (s_in_id)",
    "create index trade_by_account on trade (t_ca_id, t_id)",
    "create index request_by_broker on trade_request (tr_b_id)",
];

pub const STATEMENTS: [(&str, &str); 37] = [
    // What several of them read.
    ("account", "select ca_c_id, ca_b_id, ca_name, ca_bal from account where ca_id = $1"),
    ("customer", "select c_name, c_tier from customer where c_id = $1"),
    ("broker", "select b_name, b_num_trades from broker where b_id = $1"),
    ("security", "select s_name, s_in_id, s_num_out from security where s_symb = $1"),
    ("last_trade", "select lt_price, lt_open_price, lt_vol, lt_dts from last_trade where lt_s_symb = $1"),
    ("history_of", "select th_st_id, th_dts from trade_history where th_t_id = $1"),
    ("settlement_of", "select se_amt, se_cash_type, se_due from settlement where se_t_id = $1"),
    ("cash_of", "select ct_amt, ct_dts, ct_name from cash_transaction where ct_t_id = $1"),
    (
        "trades_from",
        "select t_id, t_st_id, t_s_symb, t_qty, t_trade_price from trade where t_ca_id = $1 and t_id >= $2 \
         order by t_id limit 20",
    ),
    // Trade order.
    ("summary", "select hs_qty from holding_summary where hs_ca_id = $1 and hs_s_symb = $2"),
    (
        "insert_trade",
        "insert into trade (t_id, t_dts, t_st_id, t_tt_id, t_s_symb, t_qty, t_bid_price, t_ca_id, t_exec_name, t_chrg, \
         t_comm) values ($1, $2, 'SBMT', $3, $4, $5, $6, $7, $8, $9, $10)",
    ),
    ("insert_history", "insert into trade_history (th_t_id, th_st_id, th_dts) values ($1, $2, $3)"),
    (
        "insert_request",
        "insert into trade_request (tr_t_id, tr_s_symb, tr_b_id, tr_qty, tr_bid_price) values ($1, $2, $3, $4, $5)",
    ),
    // Trade result.
    ("trade", "select t_ca_id, t_tt_id, t_s_symb, t_qty, t_chrg, t_comm, t_st_id from trade where t_id = $1"),
    ("add_to_summary", "update holding_summary set hs_qty = hs_qty + $3 where hs_ca_id = $1 and hs_s_symb = $2"),
    (
        "insert_summary",
        "insert into holding_summary (hs_ca_id, hs_s_symb, hs_qty) values ($1, $2, $3) \
         on conflict (hs_ca_id, hs_s_symb) do update set hs_qty = holding_summary.hs_qty + excluded.hs_qty",
    ),
    (
        "holdings",
        "select h_t_id, h_qty from holding where h_ca_id = $1 and h_s_symb = $2 and h_qty > 0 order by h_t_id",
    ),
    (
        "insert_holding",
        "insert into holding (h_ca_id, h_s_symb, h_t_id, h_dts, h_price, h_qty) values ($1, $2, $3, $4, $5, $6)",
    ),
    ("delete_holding", "delete from holding where h_ca_id = $1 and h_s_symb = $2 and h_t_id = $3"),
    ("set_holding", "update holding set h_qty = $4 where h_ca_id = $1 and h_s_symb = $2 and h_t_id = $3"),
    ("complete_trade", "update trade set t_st_id = 'CMPT', t_trade_price = $2, t_dts = $3 where t_id = $1"),
    ("delete_request", "delete from trade_request where tr_t_id = $1"),
    (
        "pay_broker",
        "update broker set b_num_trades = b_num_trades + 1, b_comm_total = b_comm_total + cast($2 as numeric(12,2)) \
         where b_id = $1",
    ),
    (
        "insert_settlement",
        "insert into settlement (se_t_id, se_cash_type, se_due, se_amt) values ($1, 'Cash Account', $2, $3)",
    ),
    ("insert_cash", "insert into cash_transaction (ct_t_id, ct_dts, ct_amt, ct_name) values ($1, $2, $3, $4)"),
    ("pay_account", "update account set ca_bal = ca_bal + cast($2 as numeric(14,2)) where ca_id = $1"),
    // Trade update.
    ("set_cash_type", "update settlement set se_cash_type = $2 where se_t_id = $1"),
    // Market feed.
    ("feed", "update last_trade set lt_price = $2, lt_vol = lt_vol + $3, lt_dts = $4 where lt_s_symb = $1"),
    // Trade status.
    (
        "status",
        "select t_id, t_dts, t_st_id, t_tt_id, t_s_symb, t_qty, t_exec_name, t_chrg, s_name from trade, security \
         where t_ca_id = $1 and s_symb = t_s_symb order by t_id desc limit 50",
    ),
    // Market watch.
    ("watched", "select wi_s_symb from watch_item where wi_c_id = $1"),
    ("industry", "select s_symb from security where s_in_id = $1 order by s_symb limit 20"),
    ("held", "select hs_s_symb from holding_summary where hs_ca_id = $1"),
    ("close", "select dm_close from daily_market where dm_s_symb = $1 and dm_date = $2"),
    // Security detail.
    (
        "days",
        "select dm_date, dm_close, dm_high, dm_low, dm_vol from daily_market where dm_s_symb = $1 and dm_date >= $2 \
         order by dm_date limit 20",
    ),
    // Customer position.
    (
        "position",
        "select ca_id, ca_bal, coalesce(sum(hs_qty * lt_price), 0) as assets from account \
         left join holding_summary on hs_ca_id = ca_id left join last_trade on lt_s_symb = hs_s_symb \
         where ca_c_id = $1 group by ca_id, ca_bal order by assets",
    ),
    ("last_trades", "select t_id, t_s_symb, t_qty from trade where t_ca_id = $1 order by t_id desc limit 10"),
    // Broker volume.
    (
        "volume",
        "select b_name, sum(tr_qty * tr_bid_price) as volume from trade_request, broker, security \
         where b_id between $1 and $2 and tr_b_id = b_id and s_symb = tr_s_symb and s_in_id between $3 and $4 \
         group by b_name order by volume desc",
    ),
];
