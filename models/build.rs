//! Plants bugs: copies of the pieces under test with one place changed each, which their models must find. A place
//! that is not there any more fails the build, so that a model never tests less than it says.

use std::fs;
use std::path::{Path, PathBuf};

/// Name of the copy, the file, what is there, and what is put in its place.
const PLANTED: [(&str, &str, &str, &str); 17] = [
    (
        "gate_looks_before_it_locks",
        "engine/src/gate.rs",
        "let locked = state.lock();\n            if self.under_way.load(Ordering::SeqCst) == 0 {",
        "let none = self.under_way.load(Ordering::SeqCst) == 0;\n            let locked = state.lock();\n            if none {",
    ),
    (
        "gate_says_late_that_it_waits",
        "engine/src/gate.rs",
        "        self.waiting.fetch_add(1, Ordering::SeqCst);\n        if self.under_way.load(Ordering::SeqCst) > 0 {",
        "        if self.under_way.load(Ordering::SeqCst) > 0 {\n            self.waiting.fetch_add(1, Ordering::SeqCst);",
    ),
    ("gate_tells_without_the_mutex", "engine/src/gate.rs", "let _asleep = gate.mutex.lock();", ""),
    ("gate_tells_one", "engine/src/gate.rs", "notify_all()", "notify_one()"),
    // As it was: a commit that need not be durable showed everybody's.
    (
        "publication_shows_all",
        "txn/src/publication.rs",
        "            self.publish(&mut commits);\n            let waits_for",
        "            if visible == Visible::AtOnce {\n                commits.queue.clear();\n                \
         self.snapshots.publish(ts);\n            }\n            self.publish(&mut commits);\n            let waits_for",
    ),
    // Who found the mutex held relies on its holder.
    (
        "publication_leaves_work_to_nobody",
        "txn/src/publication.rs",
        "        };\n        self.publish_durable();\n        Ok(commit)",
        "        };\n        Ok(commit)",
    ),
    (
        "publication_does_not_look_again",
        "txn/src/publication.rs",
        "if self.durable.load(Ordering::SeqCst) == seen {\n                return;\n            }",
        "let _ = seen;\n            return;",
    ),
    (
        "publication_passes_what_is_not_revealed",
        "txn/src/publication.rs",
        "Visible::WhenRevealed => false,",
        "Visible::WhenRevealed => self.end <= lsn,",
    ),
    // Writers see whatever is decided.
    (
        "publication_shows_writers_what_is_not_revealed",
        "txn/src/publication.rs",
        "gated.map_or(commits.last, |gated| gated.ts.0 - 1)",
        "gated.map_or(commits.last, |_| commits.last)",
    ),
    // Nothing is shown to writers when a commit is revealed that they waited behind.
    (
        "publication_forgets_writers_at_the_gate",
        "txn/src/publication.rs",
        "commits.gated -= 1;\n                        self.publish_to_writers(&commits);",
        "commits.gated -= 1;",
    ),
    // Who pins by a hint looks before, and not again.
    (
        "occupancy_looks_before_it_pins",
        "buffer/src/occupancy.rs",
        "before & LEAVING == 0 && self.page.load(Ordering::Acquire) == page;",
        "before & LEAVING == 0;",
    ),
    // He does not ask whether the page is leaving.
    (
        "occupancy_pins_what_leaves",
        "buffer/src/occupancy.rs",
        "before & LEAVING == 0 && self.page.load(Ordering::Acquire) == page;",
        "before < u32::MAX && self.page.load(Ordering::Acquire) == page;",
    ),
    // As it was: who takes a page out looks for pins, and only the map keeps others from pinning.
    (
        "occupancy_leaves_unannounced",
        "buffer/src/occupancy.rs",
        "self.pins.compare_exchange(0, LEAVING, Ordering::Acquire, Ordering::Relaxed).is_ok()",
        "self.pins.load(Ordering::Acquire) == 0 && self.pins.fetch_add(LEAVING, Ordering::Acquire) & LEAVING == 0",
    ),
    // The mark goes before the page does.
    (
        "occupancy_says_early_that_it_left",
        "buffer/src/occupancy.rs",
        "self.page.store(0, Ordering::Relaxed);\n        self.pins.fetch_sub(LEAVING, Ordering::Release);",
        "self.pins.fetch_sub(LEAVING, Ordering::Release);\n        self.page.store(0, Ordering::Relaxed);",
    ),
    // No mistake: a copy with room for few children, since each is a step of the model.
    ("guide_as_it_is", "buffer/src/page_guide.rs", "const CHILDREN_MAX: usize = 400;", FEW_CHILDREN),
    // Who finds nobody about it says so only afterwards.
    (
        "guide_is_made_by_two",
        "buffer/src/page_guide.rs",
        "if self.making.swap(true, Ordering::Acquire) {\n            return;\n        }",
        "if self.making.load(Ordering::Acquire) {\n            return;\n        }\n        self.making.store(true, Ordering::Release);",
    ),
    // The page may have changed since.
    (
        "guide_is_of_any_state",
        "buffer/src/page_guide.rs",
        "self.of.load(Ordering::Acquire) == page.page_id().0 && self.lsn.load(Ordering::Relaxed) == page.lsn().0",
        "self.of.load(Ordering::Acquire) == page.page_id().0",
    ),
];

/// In all copies of the guide.
const FEW_CHILDREN: &str = "const CHILDREN_MAX: usize = 4;";

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    for (name, file, from, to) in PLANTED {
        let path = Path::new("../crates").join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).expect("the piece under test");
        assert_eq!(text.matches(from).count(), 1, "{name}: the place to plant it in {file} is not there, or not alone");
        // What is included may not begin with a comment on itself.
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("//!")).collect();
        let whole = lines.join("\n");
        let planted = whole.replacen(from, to, 1);
        assert_ne!(whole, planted, "{name}");
        let planted = planted.replace("const CHILDREN_MAX: usize = 400;", FEW_CHILDREN);
        fs::write(out.join(format!("{name}.rs")), planted).expect("room for it");
    }
}
