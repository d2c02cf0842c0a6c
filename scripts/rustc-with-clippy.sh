#!/usr/bin/env bash
# A compiler that lints what it compiles: RUSTC_WORKSPACE_WRAPPER=scripts/rustc-with-clippy.sh cargo test …
# Each crate of the workspace is compiled by clippy's driver, which is the compiler with clippy's lints in it, with warnings denied. `cargo
# clippy` would compile all dependencies once more, as far as checking goes, to say the same.
set -u
# What is compiled for its tests as well is linted there: only the compiler's own warnings are looked at without them. (What clippy's driver
# makes is less optimised: it leaves out what the compiler optimises before it hands over to LLVM. So libraries are made by the compiler.)
if [[ " $* " == *" --crate-type lib "* && -n ${CARGO_MANIFEST_DIR:-} ]] && ! grep -qE '^test *= *false' "$CARGO_MANIFEST_DIR/Cargo.toml"; then
    exec "$@" -D warnings
fi
# Asked about itself.
if [[ " $* " != *" --out-dir "* ]]; then
    exec "$@"
fi
# A program of tests spends its time in the crates that it tests: optimising its own text costs minutes and gains nothing,
# but where the test itself is the work (a thousand schedules of crashes).
if [[ " $* " == *" --test "* && " $* " =~ \ crates/[a-z]+/tests/ && " $* " != *" --crate-name crash "* && " $* " != *" --crate-name tiers "* ]]; then
    set -- "$@" -C opt-level=0
fi
# Who compiles twice sets it for cargo as well: what the driver notes here is compared with cargo's own environment the next time.
CLIPPY_ARGS=${CLIPPY_ARGS:--D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__} exec clippy-driver "$@"
