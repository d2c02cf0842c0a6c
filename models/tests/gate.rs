//! The gate between the calls of a transaction and its end (`engine/src/gate.rs`): what one clone of a handle writes
//! while another commits, rolls back or goes back to a savepoint.
#![allow(dead_code)]

use resurgam_models::{finds, holds, orders, sync};

#[path = "../../crates/engine/src/gate.rs"]
mod gate;

/// What the log has, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Record {
    /// Of an operation: its number and step.
    Step(u64, u64),
    /// Everything so far was taken back.
    Back,
    End,
}

const STEPS: u64 = 2;

/// A model of a transaction around the gate of a module: two threads that write, one that goes back to a savepoint,
/// two that end it.
macro_rules! model {
    ($gate:ident) => {{
        use std::sync::Arc;

        use shuttle::thread;
        use sync::Mutex;

        #[derive(Default)]
        struct Transaction {
            ended: Mutex<bool>,
            operations: $gate::Gate,
            log: Mutex<Vec<Record>>,
        }

        let tx = Arc::new(Transaction::default());
        let writers = (0..2).map(|writer| {
            let tx = Arc::clone(&tx);
            thread::spawn(move || {
                for turn in 0..2 {
                    let number = writer * 10 + turn;
                    let operation = {
                        let ended = tx.ended.lock();
                        if *ended {
                            break;
                        }
                        tx.operations.begin(&*ended)
                    };
                    for step in 0..STEPS {
                        tx.log.lock().push(Record::Step(number, step));
                    }
                    drop(operation);
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let enders = [Record::Back, Record::End, Record::End].map(|what| {
            let tx = Arc::clone(&tx);
            thread::spawn(move || {
                let mut ended = tx.operations.quiet(&tx.ended, |wait| wait());
                if *ended {
                    return false;
                }
                tx.log.lock().push(what);
                *ended = what == Record::End;
                true
            })
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        let ended: Vec<bool> = enders.into_iter().map(|ender| ender.join().expect("an ender")).collect();
        assert!(ended[1] != ended[2], "one of them ends it: {ended:?}");
        let log = tx.log.lock().clone();
        assert_eq!(log.last(), Some(&Record::End), "something is behind the end: {log:?}");
        // Whole: no record that ends or takes back anything stands between the first and the last step of one.
        for (at, record) in log.iter().enumerate() {
            let Record::Step(number, 0) = *record else { continue };
            let rest = &log[at..];
            let last = rest.iter().position(|record| *record == Record::Step(number, STEPS - 1));
            let whole = last.is_some_and(|last| rest[..last].iter().all(|record| matches!(record, Record::Step(..))));
            assert!(whole, "operation {number} is torn: {log:?}");
        }
    }};
}

#[test]
fn nothing_lands_behind_the_end_and_nobody_waits_for_ever() {
    holds(orders(), || model!(gate));
}

macro_rules! planted {
    ($($name:ident),+) => {$(
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )+};
}

planted!(gate_looks_before_it_locks, gate_says_late_that_it_waits, gate_tells_without_the_mutex, gate_tells_one);

#[test]
fn planted_bugs_are_found() {
    assert!(finds(orders(), || model!(gate_looks_before_it_locks)));
    assert!(finds(orders(), || model!(gate_says_late_that_it_waits)));
    assert!(finds(orders(), || model!(gate_tells_without_the_mutex)));
    assert!(finds(orders(), || model!(gate_tells_one)));
}
