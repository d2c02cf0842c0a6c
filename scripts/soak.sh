#!/usr/bin/env bash
# A short soak test of the server: kills, kills with devices that fail for a while (skipped with
# a message where there is no C compiler), then power losses (skipped where no ext4 image can be
# mounted), then kills and losses with a mistake on purpose, which must be found.
# Usage: scripts/soak.sh BINARY [options of `lab soak`]; SOAK_SECONDS=60 is the length of each
# of the first three. docs/durability.md tells what is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:?the server\'s binary}
shift
seconds=${SOAK_SECONDS:-60}
target=${CARGO_TARGET_DIR:-target}
[ -x "${CARGO_TARGET_DIR:-target}/release/lab" ] || nice cargo build --release -p resurgam-lab
lab=$target/release/lab
minutes=$(awk "BEGIN { print $seconds / 60 }")
work=$(mktemp -d)
trap 'rm -rf "$work/canary-kill" "$work/canary-power"; rmdir "$work" 2>/dev/null || true' EXIT
echo "== kill -9"
"$lab" soak --server "$binary" --minutes "$minutes" --dir "$work/kill" "$@"
echo "== kill -9, devices fail"
"$lab" soak --server "$binary" --minutes "$minutes" --dir "$work/errors" --io-errors "$@"
echo "== power loss"
"$lab" soak --server "$binary" --minutes "$minutes" --dir "$work/power" --power-loss "$@"

# Commits that are acknowledged too early must be missed.
canary() { # folder, options...
    local dir=$1 out
    shift
    if out=$("$lab" soak --server "$binary" --minutes 0.5 --dir "$work/$dir" --canary sync-off "$@" 2>&1); then
        case $out in
        *skipped:*) echo "${out##*$'\n'}" ;;
        *)
            echo "$out"
            echo "commits were lost on purpose, and it was not noticed" >&2
            exit 1
            ;;
        esac
    elif [[ $out != *"acknowledged rows are missing"* ]]; then
        echo "$out"
        echo "it failed for another reason than the lost commits" >&2
        exit 1
    else
        echo "lost commits were found"
    fi
}
echo "== canaries"
canary canary-kill "$@"
canary canary-power --power-loss "$@"
echo ok
