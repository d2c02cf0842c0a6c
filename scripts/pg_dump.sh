#!/usr/bin/env bash
# Takes a small database (scripts/dump/database.sql) from PostgreSQL 15 to this server and back, and from one server to another, by
# pg_dump, by one connection and by several (-j): what pg_dump says of it in the end must be what it said at first. (Views are texts here, so that servers are not compared with
# PostgreSQL itself.) Without PostgreSQL 15 it counts itself as skipped.
# Usage: scripts/pg_dump.sh BINARY
set -euo pipefail
binary=$1
here=$(dirname "$0")
bin=/usr/lib/postgresql/15/bin
[ -x "$bin/postgres" ] && [ -x "$bin/pg_dump" ] || { echo "skipped: PostgreSQL 15 is not installed"; exit 0; }
work=$(mktemp -d)
. "$here/free_port.sh"
servers=()
as_owner=()
if [ "$(id -u)" = 0 ]; then
    as_owner=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    chown postgres "$work"
fi
trap 'kill -9 "${servers[@]}" 2>/dev/null; "${as_owner[@]}" "$bin/pg_ctl" -D "$work/pg" -m immediate stop >/dev/null 2>&1; rm -rf "$work"' EXIT
"${as_owner[@]}" "$bin/initdb" -D "$work/pg" -A trust -U postgres -E UTF8 --locale=C >/dev/null
other=$(free_port)
"${as_owner[@]}" "$bin/pg_ctl" -D "$work/pg" -o "-p $other -k $work -c listen_addresses=127.0.0.1 -c fsync=off" -l "$work/pg.log" -w start >/dev/null || { cat "$work/pg.log"; exit 1; }
# Servers into which the database is loaded, in which it is made, and which gets what another has.
begin() { # port
    "$binary" serve --data "$work/data$1" --listen "127.0.0.1:$1" >"$work/log$1" 2>&1 &
    servers+=($!)
    for _ in $(seq 100); do
        psql -h 127.0.0.1 -p "$1" -U postgres -Atc 'select 1' postgres >/dev/null 2>&1 && return
        sleep 0.1
    done
    cat "$work/log$1"
    exit 1
}
port=$(free_port) && begin "$port"
made=$(free_port) && begin "$made"
again=$(free_port) && begin "$again"
# port, database, file
load() { psql -X -q -h 127.0.0.1 -p "$1" -U postgres -v ON_ERROR_STOP=1 -f "$3" "$2" >/dev/null; }
sql() { psql -X -q -h 127.0.0.1 -p "$1" -U postgres -v ON_ERROR_STOP=1 -c "$3" "$2"; }
# What differs each time is left out: a random word, and the server's version.
dump() { "$bin/pg_dump" -h 127.0.0.1 -p "$1" -U postgres "$2" | grep -vE '^(\\(un)?restrict |-- Dumped )' >"$3"; }
for at in "$port" "$made" "$again" "$other"; do sql "$at" postgres 'create role alice; create role bob'; done
for name in first back made; do sql "$other" postgres "create database $name"; done
same() { diff "$work/$1" "$work/$2" || { echo "pg_dump says something else: $3"; exit 1; }; }

load "$other" first "$here/dump/database.sql"
dump "$other" first "$work/first"
load "$port" postgres "$work/first"
dump "$port" postgres "$work/here"
load "$other" back "$work/here"
dump "$other" back "$work/back"
same first back "of what was loaded here and came back"

load "$again" postgres "$work/here"
dump "$again" postgres "$work/again"
same here again "of what one server has from another"

load "$made" postgres "$here/dump/database.sql"
dump "$made" postgres "$work/made"
load "$other" made "$work/made"
dump "$other" made "$work/made-back"
same first made-back "of what was made here"

# By several connections, which read by one snapshot, and back by several.
sql "$other" postgres "create database several"
"$bin/pg_dump" -h 127.0.0.1 -p "$port" -U postgres -Fd -j 3 -f "$work/several" postgres
"$bin/pg_restore" -h 127.0.0.1 -p "$other" -U postgres -j 3 -d several --exit-on-error "$work/several"
dump "$other" several "$work/several-back"
same first several-back "of what several connections have read here"
echo ok
