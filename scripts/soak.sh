#!/usr/bin/env bash
# A short soak test of the server: kills, kills with devices that fail for a while (skipped with
# a message where there is no C compiler), then power losses and a data device that dies (skipped where no ext4
# image can be mounted), then each with a mistake on purpose, which must be found.
# Usage: scripts/soak.sh BINARY [options of `lab soak`]; SOAK_SECONDS=60 is the length of each
# of the first three, half of it that of those behind. docs/durability.md tells what is checked.
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
trap 'rm -rf "$work"/canary-*; rmdir "$work" 2>/dev/null || true' EXIT
echo "== kill -9"
"$lab" soak --server "$binary" --minutes "$minutes" --dir "$work/kill" "$@"
echo "== kill -9, devices fail"
"$lab" soak --server "$binary" --minutes "$minutes" --dir "$work/errors" --io-errors "$@"
echo "== power loss"
"$lab" soak --server "$binary" --minutes "$minutes" --dir "$work/power" --power-loss "$@"
echo "== the data's device dies"
half=$(awk "BEGIN { print $seconds / 120 }")
"$lab" soak --server "$binary" --minutes "$half" --dir "$work/dead" --dead-device "$@"
# Page servers need accelerated recovery.
if [[ "$*" != *off* ]]; then
    echo "== page servers come and go, and the server is killed or loses power"
    "$lab" soak --server "$binary" --minutes "$half" --dir "$work/parts" --page-servers 2 "$@"
    "$lab" soak --server "$binary" --minutes "$half" --dir "$work/parts-power" --page-servers 2 --power-loss "$@"
    echo "== the log goes through a landing zone and a log service, which come and go as well, and the server loses its folder"
    "$lab" soak --server "$binary" --minutes "$half" --dir "$work/log" --page-servers 3 --partitions 2 --log-service "$@"
    "$lab" soak --server "$binary" --minutes "$half" --dir "$work/log-power" --page-servers 1 --log-service --power-loss "$@"
    echo "== links between the parts are slow, silent and cut, the landing zone is full, and the stores are away"
    "$lab" soak --server "$binary" --minutes "$half" --dir "$work/troubles" --page-servers 2 --log-service --troubles --away-seconds 5 "$@"
fi

# What is done wrong on purpose must be found, by the check that is for it.
canary() { # folder, what is wrong, what must be said, options...
    local dir=$1 wrong=$2 said=$3 out
    shift 3
    if out=$("$lab" soak --server "$binary" --minutes 0.5 --dir "$work/$dir" --canary "$wrong" "$@" 2>&1); then
        case $out in
        *skipped:*) echo "${out##*$'\n'}" ;;
        *)
            echo "$out"
            echo "$wrong: it was done on purpose, and it was not noticed" >&2
            exit 1
            ;;
        esac
    elif [[ ! $out =~ $said ]]; then
        echo "$out"
        echo "$wrong: it failed for another reason" >&2
        exit 1
    else
        echo "$wrong was found"
    fi
}
echo "== canaries"
canary canary-kill sync-off "acknowledged rows are missing" "$@"
canary canary-power sync-off "acknowledged rows are missing" --power-loss "$@"
canary canary-dead stale-segment "[0-9] problems" --dead-device "$@"
echo ok
