#!/usr/bin/env bash
# Writes the golden files from a PostgreSQL 15; two minutes. Run by hand when oracle.sql changes.
# usage: PG="psql -h … -U …" oracle.sh     (a superuser in a database of its own)
set -euo pipefail
cd "$(dirname "$0")"
PG=${PG:-psql}
$PG -X -v ON_ERROR_STOP=1 -q -f oracle.sql
