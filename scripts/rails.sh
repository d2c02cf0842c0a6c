#!/usr/bin/env bash
# Runs a Rails application's first day by ActiveRecord (scripts/orm/activerecord_day.rb) against a server on a fresh folder.
# PostgreSQL instead of it, which every step works on: HOST PORT of one behind the word `postgres`.
# Without Ruby's packages (Debian: ruby-activerecord, ruby-pg) it counts itself as skipped.
# Usage: scripts/rails.sh BINARY | scripts/rails.sh postgres HOST PORT
set -euo pipefail
binary=$1
here=$(dirname "$0")
ruby -e 'require "active_record"; require "pg"' 2>/dev/null || { echo "skipped: ActiveRecord or its driver is not installed"; exit 0; }
day() { timeout 150 ruby "$here/orm/activerecord_day.rb" "$@"; }
if [ "$binary" = postgres ]; then
    day "$2" "$3"
    exit
fi
work=$(mktemp -d)
. "$here/free_port.sh"
port=$(free_port)
"$binary" serve --data "$work/data" --listen "127.0.0.1:$port" >"$work/log" 2>&1 &
server=$!
trap 'kill -9 "$server" 2>/dev/null; rm -rf "$work"' EXIT
ready=
for _ in $(seq 100); do
    ruby -e 'require "pg"; PG.connect(host: "127.0.0.1", port: ARGV[0], user: "postgres", dbname: "postgres").close' "$port" 2>/dev/null && { ready=1; break; }
    sleep 0.1
done
[ -n "$ready" ] || { echo "the server did not answer in time"; cat "$work/log"; exit 1; }
day 127.0.0.1 "$port" || { tail -n 20 "$work/log"; exit 1; }
