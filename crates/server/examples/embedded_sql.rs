//! SQL in a program's own process: no server, no socket.
//!
//! Run with `cargo run --release --example embedded_sql -- /tmp/demo`.

use resurgam_sql::{SessionOptions, SqlDatabase};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "./embedded-sql-demo".into());
    let db = SqlDatabase::open(&dir)?;
    let mut session = db.session(SessionOptions::default())?;

    session
        .query(
            "create table if not exists city (name text primary key, people bigint not null);
             insert into city values ('Lyon', 522000), ('Oslo', 717000), ('Porto', 232000)
             on conflict do nothing",
        )
        .await?;

    // Two statements that stand or fall together.
    session.query("begin").await?;
    session.query("update city set people = people + 1 where name = 'Oslo'").await?;
    session.query("rollback").await?;

    let result = session.query("select name, people from city order by people desc").await?;
    println!("{}", result.columns.join(" | "));
    for row in &result.rows {
        let cells: Vec<&str> = row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect();
        println!("{}", cells.join(" | "));
    }
    drop(session);
    db.engine().close()?;
    Ok(())
}
