#!/usr/bin/env bash
# Runs SQLAlchemy's suite for dialects, suites of Django's own tests and the tests of pgx, Go's driver, against a server on fresh folders. What fails has
# to be in scripts/orm/{sqlalchemy,django,pgx}_known.txt, which has the reasons; what is in there and passes is an error too.
# The packages, and the tests, which are in their source archives, come from the package index (scripts/orm/suites.txt);
# without it the script counts itself as skipped. PostgreSQL instead of a server: BINARY is the word `postgres`; counts only.
# Usage: scripts/suites.sh BINARY [sqlalchemy] [django] [pgx]
#   SUITES_CACHE: folder with the packages, kept from run to run; SUITES_OUT: folder for outcomes and logs
#   DJANGO_SUITES: some of Django's suites
set -euo pipefail
binary=$1
shift
what=${*:-sqlalchemy django}
pgx_version=v5.13.0
here=$(cd "$(dirname "$0")" && pwd)
. "$here/free_port.sh"
django_suites=${DJANGO_SUITES:-basic schema migrations queries aggregation expressions transactions lookup backends constraints indexes inspectdb introspection}
work=$(mktemp -d)
cache=${SUITES_CACHE:-$work/cache} out=${SUITES_OUT:-$work/out}
postgres=/usr/lib/postgresql/15/bin
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 # a test takes one of a set, the same in each run
mkdir -p "$cache" "$out"
servers=()
stop() {
    for s in "${servers[@]}"; do kill -9 "$s" 2>/dev/null || true; wait "$s" 2>/dev/null || true; done
    servers=()
    [ ! -d "$work/pg" ] || as_postgres "$postgres/pg_ctl" -D "$work/pg/d" -m immediate stop >/dev/null 2>&1 || true
}
as_postgres() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else "$@"; fi; }
trap 'stop; rm -rf "$work"' EXIT

if [ ! -f "$cache/ready" ] || ! cmp -s "$here/orm/suites.txt" "$cache/ready"; then
    version() { sed -n "s/^$1==//p" "$here/orm/suites.txt"; }
    rm -rf "$cache/venv" "$cache/source"
    { python3 -m venv "$cache/venv" && "$cache/venv/bin/pip" install -q -r "$here/orm/suites.txt" &&
        "$cache/venv/bin/pip" download -q --no-deps --no-binary sqlalchemy,django -d "$cache/source" "sqlalchemy==$(version sqlalchemy)" "django==$(version django)"; } >"$out/packages.log" 2>&1 ||
        { echo "skipped: SQLAlchemy's and Django's packages cannot be had"; tail -n 3 "$out/packages.log"; exit 0; }
    for archive in "$cache"/source/*.tar.gz; do tar -xf "$archive" -C "$cache/source"; done
    cp "$here/orm/suites.txt" "$cache/ready"
fi
python=$cache/venv/bin/python
export SQLALCHEMY_SOURCE=$(echo "$cache"/source/sqlalchemy-*/)

answers() { "$python" -c "import psycopg; psycopg.connect('host=127.0.0.1 port=$1 user=postgres dbname=postgres')" 2>/dev/null; }
start() { # a fresh server, at `port`
    if [ "$binary" = postgres ]; then
        if [ ! -d "$work/pg" ]; then
            chmod 755 "$work"
            mkdir "$work/pg"
            [ "$(id -u)" != 0 ] || chown postgres "$work/pg"
            as_postgres "$postgres/initdb" -D "$work/pg/d" -A trust -U postgres >/dev/null
            port=$(free_port)
            as_postgres "$postgres/pg_ctl" -w -D "$work/pg/d" -o "-p $port -k $work/pg -c fsync=off" -l "$work/pg/log" start >/dev/null
        fi
        return
    fi
    stop
    rm -rf "$work/data"
    port=$(free_port)
    "$binary" serve --data "$work/data" --listen "127.0.0.1:$port" --synchronous-commit=off >"$out/server.log" 2>&1 &
    servers+=("$!")
    for _ in $(seq 100); do
        ! answers "$port" || return 0
        sleep 0.1
    done
    echo "the server did not answer in time"
    cat "$out/server.log"
    exit 1
}
compare() { # name, files
    local list="$here/orm/$1_known.txt"
    [ "$binary" != postgres ] && [ -z "${DJANGO_SUITES:-}" ] || list=-
    [ -e "$list" ] || list=- # pgx has none yet
    "$python" "$here/orm/suite_compare.py" "$1" "$list" "${@:2}" || failed=1
}

failed=
for suite in $what; do
    began=$SECONDS
    case $suite in
        sqlalchemy)
            start
            "$python" -c "import psycopg
with psycopg.connect('host=127.0.0.1 port=$port user=postgres dbname=postgres', autocommit=True) as c:
    for s in ('test_schema', 'test_schema_2'): c.execute('create schema ' + s)"
            (cd "$here/orm/sqlalchemy_suite" && timeout --foreground 900 "$python" -m pytest -q -p no:cacheprovider --tb=short -o junit_logging=no --junitxml="$out/sqlalchemy.xml" \
                --dburi "postgresql+psycopg://postgres@127.0.0.1:$port/postgres" test_suite.py) >"$out/sqlalchemy.log" 2>&1 || [ $? = 1 ] ||
                { tail -n 30 "$out/sqlalchemy.log"; echo "SQLAlchemy's suite did not come to its end"; exit 1; }
            compare sqlalchemy "$out/sqlalchemy.xml"
            ;;
        django)
            files=()
            for label in $django_suites; do
                start
                # 0: all passed, 1: some failed; a runner that dies says 1 as well, and has no last line.
                (cd "$cache"/source/django-*/tests && PYTHONPATH=$here/orm/django_suite SUITE_RESULTS=$out/django.$label.json SUITE_SERVER=127.0.0.1:$port \
                    timeout --foreground 900 "$python" runtests.py --settings suite_settings --parallel 1 --noinput "$label") >"$out/django.$label.log" 2>&1 || true
                grep -q '^Ran [0-9]* test' "$out/django.$label.log" || { tail -n 30 "$out/django.$label.log"; echo "Django's suite $label did not come to its end"; exit 1; }
                [ "$binary" != postgres ] || "$python" "$here/orm/suite_compare.py" "django $label" - "$out/django.$label.json"
                files+=("$out/django.$label.json")
            done
            compare django "${files[@]}"
            ;;
        pgx)
            command -v go >/dev/null && command -v psql >/dev/null || { echo "skipped: pgx's tests need Go and psql"; continue; }
            if [ ! -d "$cache/pgx-$pgx_version" ]; then
                rm -rf "$cache/pgx.new" && mkdir "$cache/pgx.new"
                (cd "$cache/pgx.new" && go mod init suite && go get "github.com/jackc/pgx/v5@$pgx_version" &&
                    cp -r "$(go list -m -f '{{.Dir}}' github.com/jackc/pgx/v5)" source && chmod -R u+w source && cd source && go mod download) >"$out/pgx.packages.log" 2>&1 ||
                    { echo "skipped: pgx cannot be had"; tail -n 3 "$out/pgx.packages.log"; continue; }
                mv "$cache/pgx.new" "$cache/pgx-$pgx_version"
            fi
            start
            # What it makes that is not there (hstore, ltree) the tests that need it fail for.
            (export PGHOST=127.0.0.1 PGPORT=$port PGUSER=postgres && psql -qd postgres -c 'create database pgx_test' && psql -qd pgx_test -f "$cache/pgx-$pgx_version/source/testsetup/postgresql_setup.sql") >"$out/pgx.setup.log" 2>&1 || true
            (cd "$cache/pgx-$pgx_version/source" && PGX_TEST_DATABASE="host=127.0.0.1 port=$port user=postgres dbname=pgx_test" timeout --foreground 1200 \
                go test -timeout 600s -p 1 -json ./... >"$out/pgx.go.json" 2>"$out/pgx.log") || true
            grep -q '"Action":"pass"' "$out/pgx.go.json" || { tail -n 30 "$out/pgx.log"; echo "pgx's tests did not run"; exit 1; }
            compare pgx "$out/pgx.go.json"
            ;;
    esac
    echo "$suite took $((SECONDS - began)) s"
done
[ -z "$failed" ] && echo ok
