//! Any text as statements, in a transaction that is rolled back, and once more as a prepared statement.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use resurgam_fuzz_sql::{World, sound};

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// What gives itself more time, or waits on purpose, tells nothing.
const PATIENT: [&str; 3] = ["timeout", "sleep", "set_config"];

fuzz_target!(|text: &str| {
    if text.len() > 4096 || PATIENT.iter().any(|word| text.to_ascii_lowercase().contains(word)) {
        return;
    }
    WORLD.with_borrow_mut(|world| {
        world.run(async |session| {
            session.query("BEGIN").await?;
            let first = session.query_all(text).await;
            if let Err(error) = &first {
                sound(error);
            }
            session.query("ROLLBACK").await?;
            if session.parse("", text, &[]).await.is_ok() {
                session.describe_statement("")?;
            }
            session.sync().await
        });
    });
});
