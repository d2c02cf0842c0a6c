//! A reader whose snapshot must not move, while everything that it reads is changed,
//! rolled back, cleaned and written out.

use std::sync::atomic::Ordering;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::bulk::{ROWS, SENTINELS};
use super::round::{Round, Session, Stop};
use super::writer::{ACCOUNTS, BALANCE};
use crate::wire::Row;

/// Questions, and the answers where they are known.
fn questions() -> Vec<(&'static str, Option<String>)> {
    let total = ACCOUNTS * BALANCE;
    vec![
        ("select count(*), sum(balance) from account", Some(format!("{ACCOUNTS}|{total}"))),
        ("select count(*), sum(balance) from account where balance > -1000000000", Some(format!("{ACCOUNTS}|{total}"))),
        ("select coalesce(sum(net), 0) from tally", Some("0".into())),
        ("select count(*), min(id), max(id), max(grp) - min(grp) from bulk", Some(format!("{ROWS}|0|{}|0", ROWS - 1))),
        ("select count(*) from bulk where grp >= 0", Some(ROWS.to_string())),
        ("select count(*), min(body), max(body) from left_open", Some(format!("{SENTINELS}|s|s"))),
        ("select count(*), sum(val), sum(stamp), sum(length(body)) from item", None),
        ("select count(*), sum(val), sum(stamp), sum(length(body)) from item where val >= 0", None),
    ]
}

/// A row in one text.
pub fn shown(row: &Row) -> String {
    row.iter().map(|value| value.as_deref().unwrap_or("null")).collect::<Vec<_>>().join("|")
}

pub fn read(round: &Round, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let Ok(mut session) = Session::open(round, "reader") else { return };
    while round.running() {
        let times = rng.random_range(2..12);
        let pause = rng.random_range(1..400);
        let done = match snapshot(&mut session, times, pause) {
            // A definition was changed after the snapshot was taken.
            Err(Stop::Conflict) => {
                round.conflicts.fetch_add(1, Ordering::Relaxed);
                session.run("rollback")
            }
            done => done,
        };
        if done == Err(Stop::Ended) {
            return;
        }
    }
}

/// One transaction that asks everything several times.
fn snapshot(session: &mut Session<'_>, times: u32, pause_ms: u64) -> Result<(), Stop> {
    session.run("begin isolation level repeatable read")?;
    let questions = questions();
    let mut first: Vec<String> = Vec::new();
    for time in 0..times {
        if !session.round.running() {
            break;
        }
        for (at, (sql, known)) in questions.iter().enumerate() {
            let answer = session.rows(sql)?.first().map(shown).unwrap_or_default();
            if let Some(known) = known.as_ref().filter(|known| **known != answer) {
                session.round.violation(format!("reader: \"{sql}\" answered {answer}, must be {known}"));
            }
            match first.get(at) {
                None => first.push(answer),
                Some(before) if *before == answer => {
                    session.round.rereads.fetch_add(1, Ordering::Relaxed);
                }
                Some(before) => session.round.violation(format!(
                    "reader: \"{sql}\" answered {answer} and, {time} readings earlier in the same snapshot, {before}"
                )),
            }
        }
        // The same rows, once by the primary key and once through the index on `val`.
        if let [.., rows, through_index] = &first[..]
            && rows != through_index
        {
            session.round.violation(format!("reader: the rows of item are {rows}, through its index {through_index}"));
        }
        session.round.pause(pause_ms);
    }
    session.run("commit")
}
