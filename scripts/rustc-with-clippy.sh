#!/usr/bin/env bash
# A compiler that lints what it compiles: RUSTC_WORKSPACE_WRAPPER=scripts/rustc-with-clippy.sh cargo test …
# Each crate of the workspace is looked at by clippy, with warnings denied, before the compiler itself makes it. `cargo clippy` would compile
# all dependencies once more, as far as checking goes, to say the same.
set -u
# What is compiled for its tests as well is linted there: only the compiler's own warnings are looked at without them.
if [[ " $* " == *" --crate-type lib "* && -n ${CARGO_MANIFEST_DIR:-} ]] && ! grep -qE '^(test|doctest) *= *false' "$CARGO_MANIFEST_DIR/Cargo.toml"; then
    exec "$@" -D warnings
fi
args=() is_next=
for arg in "$@"; do
    case "$arg" in
    --emit=*) arg=--emit=metadata ;;
    # Cargo would take what clippy writes for what it waits for.
    --json=*) arg=${arg/,artifacts/} arg=${arg/artifacts,/} ;;
    # What it makes besides is of no use.
    *) [ -z "$is_next" ] || arg=$scratch ;;
    esac
    is_next=
    if [ "$arg" = --out-dir ]; then
        is_next=1 scratch=$(mktemp -d)
        trap 'rm -rf "$scratch"' EXIT
    fi
    args+=("$arg")
done
# Without a folder to write to it is asked about itself.
if [ -n "${scratch:-}" ]; then
    CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__" clippy-driver "${args[@]}" || exit
fi
# A program of tests spends its time in the crates that it tests: optimising its own text costs minutes and gains nothing,
# but where the test itself is the work (a thousand schedules of crashes).
if [[ " $* " == *" --test "* && " $* " =~ \ crates/[a-z]+/tests/ && " $* " != *" --crate-name crash "* ]]; then
    set -- "$@" -C opt-level=0
fi
"$@"
