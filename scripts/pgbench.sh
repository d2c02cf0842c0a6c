#!/usr/bin/env bash
# Runs pgbench, unmodified, against a running server (or starts one), in every
# built-in script and query mode, and checks that no money was made or lost:
# the balances of accounts, tellers and branches and the deltas of the history
# must have equal sums.
#
#   scripts/pgbench.sh [-s SCALE] [-c CLIENTS] [-T SECONDS | -t TRANSACTIONS] [-h HOST] [-p PORT] [-k] [-q]
#
#   -s  scale factor (default 10); 100 000 accounts each
#   -c  clients (default 8)
#   -T  seconds per run (default 10);  -t  transactions per client instead
#   -h, -p  a server that runs already (default: start ./target/release/resurgam on a free folder and port)
#   -k  kill the started server (SIGKILL) in the middle of one more run, restart it and check again
#   -q  print only the table
# RESURGAM_BIN names another binary; RESURGAM_* settings reach the started server.
set -euo pipefail

scale=10 clients=8 length=(-T 10) host='' port='' crash=no quiet=no
while getopts 's:c:T:t:h:p:kq' option; do
  case $option in
    s) scale=$OPTARG ;;
    c) clients=$OPTARG ;;
    T) length=(-T "$OPTARG") ;;
    t) length=(-t "$OPTARG") ;;
    h) host=$OPTARG ;;
    p) port=$OPTARG ;;
    k) crash=yes ;;
    q) quiet=yes ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

for program in pgbench psql; do
  command -v "$program" >/dev/null || { echo "skipped: $program is not installed"; exit 0; }
done

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/free_port.sh"
binary=${RESURGAM_BIN:-$root/target/release/resurgam}
work=$(mktemp -d)
server=''

say() { [ "$quiet" = yes ] || echo "$@" >&2; }

stop() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=''
  fi
}
trap 'stop; rm -rf "$work"' EXIT

sql() { psql -X -A -t -v ON_ERROR_STOP=1 -h "$host" -p "$port" -U postgres -d postgres -c "$1"; }

start() {
  "$binary" serve --data "$work/data" --listen "$host:$port" >>"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    if sql 'select 1' >/dev/null 2>&1; then return; fi
    if ! kill -0 "$server" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "the server did not start:" >&2
  cat "$work/server.log" >&2
  exit 1
}

balances() {
  local sums
  sums=$(sql "select (select coalesce(sum(abalance), 0) from pgbench_accounts) || ' ' ||
                     (select coalesce(sum(tbalance), 0) from pgbench_tellers) || ' ' ||
                     (select coalesce(sum(bbalance), 0) from pgbench_branches) || ' ' ||
                     (select coalesce(sum(delta), 0) from pgbench_history)")
  # shellcheck disable=SC2086
  set -- $sums
  if [ $# -ne 4 ] || [ "$1" != "$2" ] || [ "$1" != "$3" ] || [ "$1" != "$4" ]; then
    echo "FAILED: balances differ after $label: accounts, tellers, branches, history = $sums" >&2
    exit 1
  fi
}

if [ -z "$host$port" ]; then
  host=127.0.0.1
  port=${RESURGAM_PORT:-$(free_port)}
  start
else
  [ "$crash" = no ] || { echo "-k needs a server that this script starts" >&2; exit 2; }
  host=${host:-127.0.0.1} port=${port:-5433}
fi
export PGHOST=$host PGPORT=$port PGUSER=postgres PGDATABASE=postgres

say "initialising at scale $scale"
pgbench -i -q -s "$scale" postgres >"$work/init.log" 2>&1 || { cat "$work/init.log" >&2; exit 1; }
label=initialisation
# simple-update leaves tellers and branches alone: it runs last, and after it only
# the accounts and the history must agree.
balances

printf '%-14s %-9s %12s %12s %8s\n' script mode tps 'latency ms' failed
run() {
  local script=$1 mode=$2 out
  label="$script, $mode"
  out=$work/$script-$mode.log
  if ! pgbench -n -b "$script" -M "$mode" -c "$clients" -j 2 "${length[@]}" postgres >"$out" 2>&1; then
    cat "$out" >&2
    echo "FAILED: pgbench $label" >&2
    exit 1
  fi
  local tps latency failed
  tps=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$out" | head -1)
  latency=$(sed -n 's/^latency average = \([0-9.]*\).*/\1/p' "$out")
  failed=$(sed -n 's/^number of failed transactions: \([0-9]*\).*/\1/p' "$out")
  printf '%-14s %-9s %12s %12s %8s\n' "$script" "$mode" "$tps" "$latency" "${failed:-0}"
  if [ "${failed:-0}" != 0 ] || grep -q 'aborted' "$out"; then
    cat "$out" >&2
    echo "FAILED: transactions failed in $label" >&2
    exit 1
  fi
}

for mode in simple extended prepared; do
  run tpcb-like "$mode"
  balances
done
for mode in simple extended prepared; do
  run select-only "$mode"
done
balances

if [ "$crash" = yes ]; then
  say "killing the server in the middle of a tpcb-like run"
  pgbench -n -b tpcb-like -M prepared -c "$clients" -j 2 -T 60 postgres >"$work/crash.log" 2>&1 &
  load=$!
  sleep 5
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
  wait "$load" 2>/dev/null || true
  server=''
  start
  label='crash'
  balances
  say "balances agree after the crash"
fi

for mode in simple extended prepared; do
  run simple-update "$mode"
done
accounts=$(sql 'select sum(abalance) from pgbench_accounts')
history=$(sql 'select sum(delta) from pgbench_history')
if [ "$accounts" != "$history" ]; then
  echo "FAILED: accounts $accounts and history $history differ after simple-update" >&2
  exit 1
fi
stop
say "balances agree"
