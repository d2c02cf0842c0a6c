//! COPY FROM STDIN in each format, into columns of each type, in parts of any size.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use resurgam_fuzz_sql::World;

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

const STATEMENTS: [&str; 12] = [
    "COPY t FROM STDIN",
    "COPY t FROM STDIN (FORMAT csv)",
    "COPY t FROM STDIN (FORMAT binary)",
    "COPY t (id, x) FROM STDIN",
    "COPY t (id, x, y) FROM STDIN (FORMAT csv, HEADER, DELIMITER ';', QUOTE '''', ESCAPE '\\', NULL 'n')",
    "COPY t (id, ia, ta) FROM STDIN (FORMAT binary)",
    "COPY t (id, j, k) FROM STDIN",
    "COPY t (id, n, m, d, r) FROM STDIN (FORMAT binary)",
    "COPY t (id, da, ti, ts, tz, iv) FROM STDIN (FORMAT csv)",
    "COPY p (name) FROM STDIN (DELIMITER ',', NULL '')",
    "COPY q (a, e) FROM STDIN (FORMAT csv, FORCE_NULL (e))",
    "COPY t (id, b, u, v, c) FROM STDIN (FORMAT csv, HEADER match)",
];

fuzz_target!(|data: &[u8]| {
    let [which, data @ ..] = data else { return };
    let statement = STATEMENTS[usize::from(*which) % STATEMENTS.len()];
    WORLD.with_borrow_mut(|world| {
        world.run(async |session| {
            session.query("BEGIN").await?;
            let copied = session.copy_from(statement, data).await;
            if copied.is_ok() {
                session.query_all("SELECT * FROM t; COPY t TO STDOUT (FORMAT csv); SELECT * FROM q").await?;
            }
            session.query("ROLLBACK").await?;
            copied.map(|_| ())
        });
    });
});
