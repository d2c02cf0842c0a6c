#!/usr/bin/env bash
# Runs an application's first day by SQLAlchemy and by Django (scripts/orm/*.py) against a server on a fresh folder.
# Every step has to work, but for those that docs/known-issues.md names; one of those that works by now is
# an error too, so that the list is kept. Without the Python packages it counts itself as skipped.
# Usage: scripts/orm.sh BINARY [PYTHON]
set -euo pipefail
binary=$1
python=${2:-python3}
here=$(dirname "$0")
known="sqlalchemy:serializable"
"$python" -c 'import sqlalchemy, django, psycopg' 2>/dev/null || { echo "skipped: SQLAlchemy, Django or psycopg is not installed"; exit 0; }
work=$(mktemp -d)
. "$here/free_port.sh"
port=$(free_port)
"$binary" serve --data "$work/data" --listen "127.0.0.1:$port" >"$work/log" 2>&1 &
server=$!
trap 'kill -9 "$server" 2>/dev/null; rm -rf "$work"' EXIT
ready=
for _ in $(seq 100); do
    "$python" -c "import psycopg; psycopg.connect('host=127.0.0.1 port=$port user=postgres dbname=postgres')" 2>/dev/null && { ready=1; break; }
    sleep 0.1
done
[ -n "$ready" ] || { echo "the server did not answer in time"; cat "$work/log"; exit 1; }
failed=
for orm in sqlalchemy django; do
    timeout 60 "$python" "$here/orm/${orm}_day.py" 127.0.0.1 "$port" >"$work/out" 2>"$work/err" && code=0 || code=$?
    # 0: all worked, 1: steps failed and were printed; anything else, or a last step that is missing, is no run.
    grep -qE '^(ok  |FAIL) (drop|back)' "$work/out" && [ "$code" -le 1 ] || { cat "$work/out" "$work/err"; echo "$orm did not come to its end ($code)"; exit 1; }
    while read -r what step rest; do
        case "$what/ $known " in
            FAIL/*" $orm:$step "*) echo "known: $orm $step" ;;
            FAIL/*) echo "FAIL $orm $step $rest"; failed=1 ;;
            ok/*" $orm:$step "*) echo "works by now, take it off the list: $orm $step"; failed=1 ;;
        esac
    done <"$work/out"
done
[ -z "$failed" ] && echo ok
