//! Rows that are inserted several at a time: as if one after the other, for everybody who looks, whatever becomes of the transaction.
//! (`insert_run_canaries.rs` has the same with mistakes.)

use resurgam_engine::Result;

pub mod checks;

#[test]
fn who_looks_sees_them_or_not_as_of_his_time() -> Result<()> {
    checks::who_looks_sees_them_or_not_as_of_his_time()
}

#[test]
fn a_run_is_one_record() -> Result<()> {
    checks::a_run_is_one_record()
}

#[test]
fn what_is_in_the_way_ends_it_there() -> Result<()> {
    checks::what_is_in_the_way_ends_it_there()
}

#[test]
fn it_is_as_one_after_the_other() -> Result<()> {
    checks::it_is_as_one_after_the_other()
}

#[test]
fn a_crash_takes_back_what_was_not_committed() -> Result<()> {
    checks::a_crash_takes_back_what_was_not_committed()
}

#[test]
fn a_short_one_takes_back_all_of_it() -> Result<()> {
    checks::a_short_one_takes_back_all_of_it()
}

#[test]
fn rows_in_no_order_fill_leaves_in_order() -> Result<()> {
    checks::rows_in_no_order_fill_leaves_in_order()
}

#[test]
fn cursors_beside_it_see_each_row_once() -> Result<()> {
    checks::cursors_beside_it_see_each_row_once()
}
