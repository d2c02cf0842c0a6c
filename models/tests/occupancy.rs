//! Frames that are found by hints while their pages are taken out (`buffer/src/occupancy.rs`).
#![allow(dead_code)]

use resurgam_models::{finds, holds, orders, sync};

#[path = "../../crates/buffer/src/occupancy.rs"]
mod occupancy;

/// A model of one frame around the occupancy of a module: two threads that guess that a page is in it, one that takes pages out and
/// puts others in, the same one among them. It says in between whether it stays, and which page the frame holds for good.
macro_rules! model {
    ($occupancy:ident) => {{
        use std::sync::Arc;

        use shuttle::thread;
        use sync::{AtomicU64, Ordering};

        #[derive(Default)]
        struct Frame {
            held: $occupancy::Occupancy,
            /// The page whose content it is.
            content: AtomicU64,
        }

        let frame = Arc::new(Frame::default());
        frame.held.pin();
        frame.content.store(1, Ordering::SeqCst);
        frame.held.enter(1);
        frame.held.unpin();
        let readers = (0..2).map(|_| {
            let frame = Arc::clone(&frame);
            thread::spawn(move || {
                for _ in 0..2 {
                    if frame.held.pin_if(1) {
                        for _ in 0..2 {
                            assert_eq!(frame.content.load(Ordering::SeqCst), 1, "it is pinned");
                        }
                        frame.held.unpin();
                    }
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        let mover = {
            let frame = Arc::clone(&frame);
            thread::spawn(move || {
                for (turn, next) in [2, 1, 3].into_iter().enumerate() {
                    if !frame.held.leave() {
                        continue;
                    }
                    if turn == 1 && frame.held.page() == 2 {
                        frame.held.stay();
                        continue;
                    }
                    frame.content.store(0, Ordering::SeqCst);
                    frame.held.pin();
                    frame.held.left();
                    frame.content.store(next, Ordering::SeqCst);
                    frame.held.enter(next);
                    frame.held.unpin();
                }
            })
        };
        for thread in readers.into_iter().chain([mover]) {
            thread.join().expect("no panic");
        }
        assert!(!frame.held.is_pinned(), "all pins are given back");
    }};
}

#[test]
fn pinned_pages_stay() {
    holds(orders(), || model!(occupancy));
}

macro_rules! planted {
    ($($name:ident),+) => {$(
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )+};
}

planted!(
    occupancy_looks_before_it_pins,
    occupancy_pins_what_leaves,
    occupancy_leaves_unannounced,
    occupancy_says_early_that_it_left
);

#[test]
fn planted_bugs_are_found() {
    assert!(finds(orders(), || model!(occupancy_looks_before_it_pins)));
    assert!(finds(orders(), || model!(occupancy_pins_what_leaves)));
    assert!(finds(orders(), || model!(occupancy_leaves_unannounced)));
    assert!(finds(orders(), || model!(occupancy_says_early_that_it_left)));
}
