#!/usr/bin/env bash
# Starts a server on a fresh folder, talks to it with psql, kills it, starts it again and
# finds what was committed. Usage: scripts/smoke.sh BINARY
set -euo pipefail
binary=$1
command -v psql >/dev/null || { echo "skipped: psql is not installed"; exit 0; }
work=$(mktemp -d)
. "$(dirname "$0")/free_port.sh"
port=$(free_port)
server=
trap '[ -n "$server" ] && kill -9 "$server" 2>/dev/null; rm -rf "$work"' EXIT
start() {
    "$binary" serve --data "$work/data" --listen "127.0.0.1:$port" >>"$work/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        psql -h 127.0.0.1 -p "$port" -U postgres -Atc 'select 1' postgres >/dev/null 2>&1 && return
        sleep 0.1
    done
    cat "$work/log"
    exit 1
}
sql() { psql -h 127.0.0.1 -p "$port" -U postgres -v ON_ERROR_STOP=1 -Atqc "$1" postgres; }
start
sql 'create table t (id int primary key, name text)'
sql "insert into t select i, 'row ' || i from generate_series(1, 1000) as g(i)"
sql "update t set name = 'changed' where id <= 10"
sql 'delete from t where id > 900'
kill -9 "$server"; wait "$server" 2>/dev/null || true
start
[ "$(sql 'select count(*) from t')" = 900 ]
[ "$(sql "select count(*) from t where name = 'changed'")" = 10 ]
psql -h 127.0.0.1 -p "$port" -U postgres -c '\d t' postgres | grep -q t_pkey
# Whether the list of functions in the documentation is what this server answers.
if command -v python3 >/dev/null; then
    python3 "$(dirname "$0")/functions.py" "$port"
else
    echo "skipped: python3 is not installed"
fi
echo ok
