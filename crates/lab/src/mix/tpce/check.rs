//! What must hold when nobody writes: sums that are kept agree with what they are made of, and
//! exactly what the clients committed is there.

use super::transactions::{COMPLETED, FED, ORDERED};
use super::{FUNDS, Terminal, TpcE};
use crate::mix::Expectation;
use crate::mix::values::Cents;

/// What makes them fail.
pub const SPOILS: [&str; 10] = [
    "update account set ca_bal = ca_bal + 0.01 where ca_id = 1",
    "insert into account (ca_id, ca_bal) values (1000000000, 1000000.00)",
    "update holding_summary set hs_qty = hs_qty + 1 where hs_ca_id = 1",
    "update last_trade set lt_vol = lt_vol + 1 where lt_s_symb = 'S000001'",
    "update broker set b_comm_total = b_comm_total + 0.01 where b_id = 1",
    "insert into trade_request (tr_t_id) values (0)",
    "delete from settlement where se_t_id = 1",
    "delete from cash_transaction where ct_t_id = 1",
    "delete from trade where t_id = 1",
    "delete from trade_history where th_t_id = 1",
];

/// See the module's head.
pub fn expectations(mix: &TpcE, terminals: &[Box<dyn Terminal>]) -> Vec<Expectation> {
    let funds = Cents(FUNDS);
    let mut all = vec![
        Expectation::new(
            "ca_bal is what the account had and what its trades brought",
            format!(
                "select count(*) from account left join (select t_ca_id, sum(ct_amt) as brought from cash_transaction, trade \
                 where t_id = ct_t_id group by t_ca_id) as c on t_ca_id = ca_id where ca_bal <> {funds} + coalesce(brought, 0)"
            ),
            0,
        ),
        Expectation::new(
            "hs_qty is the sum of h_qty",
            "select count(*) from holding_summary full join (select h_ca_id, h_s_symb, sum(h_qty) as held from holding \
             group by h_ca_id, h_s_symb) as h on h_ca_id = hs_ca_id and h_s_symb = hs_s_symb \
             where coalesce(hs_qty, 0) <> coalesce(held, 0)",
            0,
        ),
        Expectation::new(
            "b_num_trades and b_comm_total are of the completed trades",
            "select count(*) from broker left join (select ca_b_id, count(*) as trades, sum(t_comm) as paid \
             from trade, account where ca_id = t_ca_id and t_st_id = 'CMPT' group by ca_b_id) as t on ca_b_id = b_id \
             where b_num_trades <> coalesce(trades, 0) or b_comm_total <> coalesce(paid, 0)",
            0,
        ),
        Expectation::new(
            "a trade has a request as long as it is submitted",
            "select count(*) from trade full join trade_request on tr_t_id = t_id \
             where t_id is null or (t_st_id = 'SBMT') <> (tr_t_id is not null)",
            0,
        ),
        Expectation::new(
            "a completed trade has a settlement, for the cash that moved",
            "select count(*) from trade left join settlement on se_t_id = t_id left join cash_transaction on ct_t_id = t_id \
             where (t_st_id = 'CMPT') <> (se_t_id is not null) or se_amt <> ct_amt or (se_t_id is null) <> (ct_t_id is null)",
            0,
        ),
    ];
    let sum = |what: usize| -> i64 { terminals.iter().map(|terminal| terminal.committed()[what]).sum() };
    let (trades, completed) = (mix.trades() + sum(ORDERED), mix.trades() + sum(COMPLETED));
    for (what, sql, right) in [
        ("trades", "select count(*) from trade", trades),
        ("completed trades", "select count(*) from trade where t_st_id = 'CMPT'", completed),
        ("events of trades", "select count(*) from trade_history", trades + completed),
        ("settlements", "select count(*) from settlement", completed),
        ("movements of cash", "select count(*) from cash_transaction", completed),
        ("accounts", "select count(*) from account", mix.accounts()),
        ("shares fed to the market", "select sum(lt_vol) from last_trade", sum(FED)),
    ] {
        all.push(Expectation::new(what, sql, right));
    }
    all
}
