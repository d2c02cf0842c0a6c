//! Rows that are deleted several at a time: as if one after the other, for everybody who looks, whatever becomes of the transaction.
//! (`run_canaries.rs` has the same with mistakes.)

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
fn rows_far_apart_are_no_run() -> Result<()> {
    checks::rows_far_apart_are_no_run()
}

#[test]
fn what_is_in_the_way_ends_it_there() -> Result<()> {
    checks::what_is_in_the_way_ends_it_there()
}

#[test]
fn versions_that_older_snapshots_need_stay_below_it() -> Result<()> {
    checks::versions_that_older_snapshots_need_stay_below_it()
}

#[test]
fn so_they_do_where_what_lies_over_them_is_aborted() -> Result<()> {
    checks::so_they_do_where_what_lies_over_them_is_aborted()
}

#[test]
fn of_its_own_rows_and_of_none() -> Result<()> {
    checks::of_its_own_rows_and_of_none()
}

#[test]
fn a_crash_takes_back_what_was_not_committed() -> Result<()> {
    checks::a_crash_takes_back_what_was_not_committed()
}

#[test]
fn a_short_one_takes_back_all_of_it() -> Result<()> {
    checks::a_short_one_takes_back_all_of_it()
}
