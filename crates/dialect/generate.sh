#!/usr/bin/env bash
# Writes data/*.txt from the system catalogs of a fresh PostgreSQL 15 cluster.
#
# usage: PG="psql -h … -U …" generate.sh      (default: PG="psql", with the usual PG* variables)
#
# The files hold facts of the catalogs (names, oids, type signatures), one entry a line, fields
# separated by tabs; booleans are t and f, no object is 0, no text is empty. They are checked in:
# building needs no PostgreSQL. Run it again only for another major version.
set -euo pipefail
cd "$(dirname "$0")"
PG=${PG:-psql}
version=$($PG -XAtc "show server_version_num")
case $version in 15*) ;; *) echo "PostgreSQL 15 wanted, this is $version" >&2; exit 1;; esac

for query in generate/*.sql; do
  out=data/$(basename "$query" .sql).txt
  {
    echo "# From the system catalogs of PostgreSQL 15 (postgresql.org), by generate.sh; not written by hand."
    sed -n 's/^-- columns: /# /p' "$query"
    $PG -XAtF $'\t' -f "$query"
  } > "$out.new"
  mv "$out.new" "$out"
  echo "$out: $(grep -vc '^#' "$out") entries"
done
