#!/usr/bin/env bash
# Runs SQLAlchemy's suite for dialects and suites of Django's own tests against a server on fresh folders. What fails has
# to be in scripts/orm/{sqlalchemy,django}_known.txt, which has the reasons; what is in there and passes is an error too.
# The packages, and the tests, which are in their source archives, come from the package index (scripts/orm/suites.txt);
# without it the script counts itself as skipped. PostgreSQL instead of a server: BINARY is the word `postgres`; counts only.
# Usage: scripts/suites.sh BINARY [sqlalchemy] [django]
#   SUITES_CACHE: folder with the packages, kept from run to run; SUITES_OUT: folder for outcomes and logs
#   DJANGO_SUITES: some of Django's suites
set -euo pipefail
binary=$1
shift
what=${*:-sqlalchemy django}
here=$(cd "$(dirname "$0")" && pwd)
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
start() { # the number of servers wanted; their ports are in `ports`
    ports=()
    if [ "$binary" = postgres ]; then
        if [ ! -d "$work/pg" ]; then
            chmod 755 "$work"
            mkdir "$work/pg"
            [ "$(id -u)" != 0 ] || chown postgres "$work/pg"
            as_postgres "$postgres/initdb" -D "$work/pg/d" -A trust -U postgres >/dev/null
            pg_port=$((20000 + RANDOM % 10000))
            as_postgres "$postgres/pg_ctl" -w -D "$work/pg/d" -o "-p $pg_port -k $work/pg -c fsync=off" -l "$work/pg/log" start >/dev/null
        fi
        ports=("$pg_port" "$pg_port")
        return
    fi
    stop
    rm -rf "$work"/data.*
    for n in $(seq "$1"); do
        local port=$((20000 + RANDOM % 10000))
        "$binary" serve --data "$work/data.$n" --listen "127.0.0.1:$port" --synchronous-commit=off >"$out/server.$n.log" 2>&1 &
        servers+=("$!")
        local ready=
        for _ in $(seq 100); do
            answers "$port" && { ready=1; break; }
            sleep 0.1
        done
        [ -n "$ready" ] || { echo "the server did not answer in time"; cat "$out/server.$n.log"; exit 1; }
        ports+=("$port")
    done
}
compare() { # name, files
    local list="$here/orm/$1_known.txt"
    [ "$binary" != postgres ] && [ -z "${DJANGO_SUITES:-}" ] || list=-
    "$python" "$here/orm/suite_compare.py" "$1" "$list" "${@:2}" || failed=1
}

failed=
for suite in $what; do
    began=$SECONDS
    case $suite in
        sqlalchemy)
            start 1
            "$python" -c "import psycopg
with psycopg.connect('host=127.0.0.1 port=${ports[0]} user=postgres dbname=postgres', autocommit=True) as c:
    for s in ('test_schema', 'test_schema_2'): c.execute('create schema ' + s)"
            (cd "$here/orm/sqlalchemy_suite" && timeout --foreground 900 "$python" -m pytest -q -p no:cacheprovider --tb=short -o junit_logging=no --junitxml="$out/sqlalchemy.xml" \
                --dburi "postgresql+psycopg://postgres@127.0.0.1:${ports[0]}/postgres" test_suite.py) >"$out/sqlalchemy.log" 2>&1 || [ $? = 1 ] ||
                { tail -n 30 "$out/sqlalchemy.log"; echo "SQLAlchemy's suite did not come to its end"; exit 1; }
            compare sqlalchemy "$out/sqlalchemy.xml"
            ;;
        django)
            files=()
            for label in $django_suites; do
                start 2
                # 0: all passed, 1: some failed; a runner that dies says 1 as well, and has no last line.
                (cd "$cache"/source/django-*/tests && PYTHONPATH=$here/orm/django_suite SUITE_RESULTS=$out/django.$label.json SUITE_DEFAULT=127.0.0.1:${ports[0]} SUITE_OTHER=127.0.0.1:${ports[1]} \
                    SUITE_KEEP=$([ "$binary" = postgres ] || echo 1) timeout --foreground 900 "$python" runtests.py --settings suite_settings --parallel 1 --noinput \
                    $([ "$binary" = postgres ] || echo --keepdb) "$label") >"$out/django.$label.log" 2>&1 || true
                grep -q '^Ran [0-9]* test' "$out/django.$label.log" || { tail -n 30 "$out/django.$label.log"; echo "Django's suite $label did not come to its end"; exit 1; }
                [ "$binary" != postgres ] || "$python" "$here/orm/suite_compare.py" "django $label" - "$out/django.$label.json"
                files+=("$out/django.$label.json")
            done
            compare django "${files[@]}"
            ;;
    esac
    echo "$suite took $((SECONDS - began)) s"
done
[ -z "$failed" ] && echo ok
