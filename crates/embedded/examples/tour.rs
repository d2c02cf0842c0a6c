//! A tour of the embedded API: tables of structs and of keys and values, ranges, indexes, a queue, threads, errors.
//!
//! Run with `cargo run --release -p resurgam-embedded --example tour -- /tmp/tour`.

use resurgam_embedded::{Db, Error, Result, Table, Timestamp, row};

row! {
    #[derive(Debug, Clone, PartialEq)]
    pub struct City in "cities" {
        pub name: String,
        pub country: String,
        pub people: u32,
        pub seen: Option<Timestamp>,
    }
    key(country: String, name: String);
    index people(people);
    unique name(name);
}

/// Work to be done, by its number.
const QUEUE: Table<i64, String> = Table::new("queue");
/// How often each worker found something to do.
const DONE: Table<u32, i64> = Table::new("done");

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "./tour-demo".into());
    let db = Db::options().memory(32 << 20).open(&dir)?;

    // All of it, or nothing; on disk when `write` returns.
    db.write(|tx| {
        let cities = tx.rows::<City>()?;
        for (country, name, people) in
            [("FR", "Lyon", 522_000), ("NO", "Oslo", 717_000), ("PT", "Porto", 232_000), ("FR", "Paris", 2_100_000)]
        {
            let (country, name) = (country.to_owned(), name.to_owned());
            cities.put(&City { name, country, people, seen: None })?;
        }
        Ok(())
    })?;

    // One state of the database, however long it takes.
    db.read(|tx| {
        let cities = tx.rows::<City>()?;
        println!("in France:");
        for city in cities.prefix(&("FR",))? {
            println!("  {}", city?.name);
        }
        println!("half a million and more, largest first:");
        for city in cities.by("people")?.range(500_000..)?.rev() {
            let city = city?;
            println!("  {} {}", city.name, city.people);
        }
        println!("Oslo is in {}", cities.by("name")?.get("Oslo")?.map_or("?".into(), |city| city.country));
        Ok(())
    })?;

    // What goes wrong says where.
    let again = City { name: "Oslo".into(), country: "US".into(), people: 1, seen: Some(Timestamp::now()) };
    match db.write(|tx| tx.rows::<City>()?.insert(&again)) {
        Err(error @ Error::Duplicate { .. }) => println!("refused: {error}"),
        other => other?,
    }

    // A part that fails is taken back, the rest stays.
    db.write(|tx| {
        let cities = tx.rows::<City>()?;
        let part = tx.savepoint(|_| {
            cities.delete_range(..)?;
            Err::<(), _>(Error::custom("no, keep them"))
        });
        println!("a part failed ({}), {} cities are there", part.unwrap_err(), cities.count()?);
        cities.modify(&("NO", "Oslo"), |oslo| oslo.people += 1)?;
        Ok(())
    })?;

    // A queue with several workers: who meets another one is tried again, and each job is done once.
    db.write(|tx| {
        let queue = tx.table(&QUEUE)?;
        (0..100).try_for_each(|job| queue.put(&job, &format!("job {job}")).map(drop))
    })?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3u32)
            .map(|worker| {
                let db = &db;
                scope.spawn(move || -> Result<()> {
                    let next = || {
                        db.write(|tx| {
                            let job = tx.table(&QUEUE)?.pop_first()?;
                            if job.is_some() {
                                let done = tx.table(&DONE)?;
                                done.put(&worker, &(done.get(&worker)?.unwrap_or(0) + 1))?;
                            }
                            Ok(job)
                        })
                    };
                    while next()?.is_some() {}
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Err(Error::custom("a worker panicked"))))
    })?;
    db.read(|tx| {
        for row in tx.table(&DONE)?.iter()? {
            let (worker, jobs) = row?;
            println!("worker {worker}: {jobs} jobs");
        }
        Ok(())
    })?;
    println!("{:?}", db.counts());
    db.close()
}
