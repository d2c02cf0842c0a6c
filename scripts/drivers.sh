#!/usr/bin/env bash
# Runs programs of real drivers (scripts/drivers) against a server on a fresh folder: asyncpg and psycopg 3, node-postgres, JDBC, tokio-postgres and sqlx,
# psycopg through pgbouncer in transaction mode, four of Node's mappers (scripts/orm/node_orms.js), what Prisma and drizzle-kit ask a database about itself (scripts/orm/introspection), and
# Hibernate, jOOQ, Flyway and Liquibase (scripts/orm/jvm). PostgreSQL instead of it, which every step works on: the word `postgres`, alone for a cluster of our own, or with HOST PORT of
# one that runs (which is not restarted). A line for each step, `ok NAME` or `FAILED NAME: why`; at the end the counts, and 1 if any failed.
# Drivers come from their registries (PyPI, npm, Maven Central, crates.io), pgbouncer from the system; what cannot be had is skipped, with a line that says so.
# Usage: scripts/drivers.sh BINARY | scripts/drivers.sh postgres [HOST PORT]
#   DRIVERS: some of asyncpg psycopg node jdbc rust pgbouncer mappers introspection jvm
#   DRIVERS_CACHE: folder with the packages, kept from run to run
set -euo pipefail
binary=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/free_port.sh"
postgres=/usr/lib/postgresql/15/bin
jdbc=42.7.14
jdbc_sha256=73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c
work=$(mktemp -d)
cache=${DRIVERS_CACHE:-$work/cache}
mkdir -p "$cache"
export PYTHONDONTWRITEBYTECODE=1
as() { # user, command...: servers that refuse to be root's
    local user=$1
    shift
    if [ "$(id -u)" = 0 ]; then setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups "$@"; else "$@"; fi
}
export -f as
end() {
    local file
    for file in "$work/server.pid" "$work/bouncer.pid"; do
        [ ! -f "$file" ] || kill -9 "$(cat "$file")" 2>/dev/null || true
    done
    [ ! -d "$work/pg/d" ] || as postgres "$postgres/pg_ctl" -D "$work/pg/d" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT
listens() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }
await() { # host, port, log
    for _ in $(seq 200); do
        ! listens "$1" "$2" || return 0
        sleep 0.1
    done
    echo "nothing answers at port $2"
    [ ! -f "$3" ] || tail -n 20 "$3"
    return 1
}

# Packages first, side by side: they are the longer part of a first run.
declare -A wanted=()
for driver in ${DRIVERS:-asyncpg psycopg node jdbc rust pgbouncer mappers introspection jvm}; do wanted[$driver]=1; done
python_packages() {
    [ -x "$cache/venv/bin/python" ] && "$cache/venv/bin/python" -c 'import asyncpg, psycopg, psycopg_pool' 2>/dev/null && return
    rm -rf "$cache/venv"
    python3 -m venv "$cache/venv" && timeout 60 "$cache/venv/bin/pip" install -q -r "$here/drivers/requirements.txt"
}
node_packages() {
    command -v node >/dev/null || return 1
    [ ! -d "$cache/node/node_modules/pg-copy-streams" ] || return 0
    mkdir -p "$cache/node" && cp "$here/drivers/package.json" "$cache/node/" && (cd "$cache/node" && timeout 60 npm install --silent --no-audit --no-fund)
}
mapper_packages() {
    command -v node >/dev/null || return 1
    [ ! -d "$cache/mappers/node_modules/typeorm" ] || return 0
    mkdir -p "$cache/mappers" && cp "$here/orm/package.json" "$cache/mappers/" && (cd "$cache/mappers" && timeout 90 npm install --silent --no-audit --no-fund)
}
introspection_packages() {
    command -v node >/dev/null || return 1
    [ ! -d "$cache/introspection/node_modules/drizzle-kit" ] || return 0
    mkdir -p "$cache/introspection" && cp "$here/orm/introspection/package.json" "$cache/introspection/" &&
        (cd "$cache/introspection" && timeout 90 npm install --silent --no-audit --no-fund --ignore-scripts)
}
# And the programs, compiled.
jvm_packages() {
    command -v javac >/dev/null && command -v mvn >/dev/null || return 1
    mkdir -p "$cache/jvm/lib" && cp "$here/orm/jvm/pom.xml" "$cache/jvm/" || return 1
    if ! cmp -s "$cache/jvm/pom.xml" "$cache/jvm/lib/pom.xml"; then
        rm -rf "$cache/jvm/lib"
        # Its plugin, in a fixed version, does no more than bring what is named.
        (cd "$cache/jvm" && timeout 150 mvn -q -B -Dmaven.repo.local="$cache/jvm/repository" -DoutputDirectory=lib org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies) &&
            cp "$cache/jvm/pom.xml" "$cache/jvm/lib/" || return 1
    fi
    rm -rf "$work/jvm" && timeout 60 javac -nowarn -Xlint:none -cp "$cache/jvm/lib/*" -d "$work/jvm" "$here"/orm/jvm/*.java
}
# 1: they cannot be had, or are not built in time; 2: our programs do not compile. A project and a folder of its own: the workspace's features stay as they are.
rust_packages() {
    command -v cargo >/dev/null || return 1
    local manifest=$here/drivers/rust/Cargo.toml code=0
    timeout 60 cargo fetch --locked --manifest-path "$manifest" || return 1
    env -u RUSTC_WORKSPACE_WRAPPER -u RUSTFLAGS timeout 300 cargo build --locked --offline --manifest-path "$manifest" --target-dir "$cache/rust" || code=$?
    case $code in
        0) return 0 ;;
        124) return 1 ;;
        *) return 2 ;;
    esac
}
jdbc_package() {
    command -v java >/dev/null || return 1
    [ -f "$cache/postgresql-$jdbc.jar" ] ||
        timeout 60 curl -fsS -o "$cache/postgresql-$jdbc.jar" "https://repo1.maven.org/maven2/org/postgresql/postgresql/$jdbc/postgresql-$jdbc.jar"
    echo "$jdbc_sha256  $cache/postgresql-$jdbc.jar" | sha256sum -c --quiet || { rm -f "$cache/postgresql-$jdbc.jar"; return 1; }
}
declare -A getting=()
needed=()
[ -z "${wanted[asyncpg]:-}${wanted[psycopg]:-}${wanted[pgbouncer]:-}" ] || needed+=(python_packages)
[ -z "${wanted[node]:-}" ] || needed+=(node_packages)
[ -z "${wanted[jdbc]:-}" ] || needed+=(jdbc_package)
[ -z "${wanted[mappers]:-}" ] || needed+=(mapper_packages)
[ -z "${wanted[introspection]:-}" ] || needed+=(introspection_packages)
[ -z "${wanted[jvm]:-}" ] || needed+=(jvm_packages)
[ -z "${wanted[rust]:-}" ] || needed+=(rust_packages)
for what in "${needed[@]}"; do
    "$what" >"$work/$what.log" 2>&1 &
    getting[$what]=$!
done

host=127.0.0.1
unset RESTART
if [ "$binary" = postgres ] && [ $# -ge 3 ]; then
    host=$2 port=$3
elif [ "$binary" = postgres ]; then
    port=$(free_port)
    chmod 755 "$work"
    mkdir "$work/pg"
    [ "$(id -u)" != 0 ] || chown postgres "$work/pg"
    as postgres "$postgres/initdb" -D "$work/pg/d" -A trust -U postgres -E UTF8 --no-locale >/dev/null
    pg_ctl="as postgres $postgres/pg_ctl -w -D $work/pg/d -l $work/pg/log"
    options="-p $port -k $work/pg -c fsync=off -c max_prepared_transactions=5"
    $pg_ctl -o "$options" start >/dev/null
    cat >"$work/restart" <<RESTART
#!/usr/bin/env bash
exec >/dev/null 2>&1 </dev/null
$pg_ctl -o "$options" -m fast restart
RESTART
else
    port=$(free_port)
    # The server has to outlive who restarts it.
    cat >"$work/start" <<START
#!/usr/bin/env bash
exec >>"$work/server.log" 2>&1 </dev/null
setsid "$(realpath "$binary")" serve --data "$work/data" --listen "127.0.0.1:$port" &
echo \$! >"$work/server.pid"
START
    cat >"$work/restart" <<RESTART
#!/usr/bin/env bash
kill -TERM "\$(cat "$work/server.pid")"
for _ in \$(seq 300); do kill -0 "\$(cat "$work/server.pid")" 2>/dev/null || break; sleep 0.1; done
"$work/start"
for _ in \$(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null && exit 0; sleep 0.1; done
exit 1
RESTART
    chmod +x "$work/start"
    "$work/start"
    await "$host" "$port" "$work/server.log"
fi
if [ -f "$work/restart" ]; then
    chmod +x "$work/restart"
    export RESTART=$work/restart
fi

skipped=0
skip() { # what, log
    echo "skipped: $1"
    [ -z "${2:-}" ] || tail -n 2 "$2" >&2
    skipped=$((skipped + 1))
}
run() { # name, command...: its lines; a program that ends without having said all is a failure of its own
    local name=$1 code=0
    shift
    timeout 120 "$@" >"$work/$name.out" 2>"$work/$name.err" || code=$?
    cat "$work/$name.out" | tee -a "$work/all"
    if [ "$code" != 0 ] && { [ "$code" != 1 ] || ! grep -q '^FAILED' "$work/$name.out"; }; then
        echo "FAILED $name: it ended with status $code: $(tail -n 3 "$work/$name.err" | tr '\n' ' ' | cut -c 1-400)" | tee -a "$work/all"
    elif [ "$code" = 0 ] && ! grep -q '^ok ' "$work/$name.out"; then
        echo "FAILED $name: it says nothing" | tee -a "$work/all"
    fi
}
: >"$work/all"
python=$cache/venv/bin/python
if [ -n "${getting[python_packages]:-}" ]; then
    has_python=
    wait "${getting[python_packages]}" && has_python=1
    for driver in asyncpg psycopg; do
        [ -n "${wanted[$driver]:-}" ] || continue
        if [ -n "$has_python" ]; then run "$driver" "$python" "$here/drivers/${driver}_driver.py" "$host" "$port"; else skip "$driver cannot be had" "$work/python_packages.log"; fi
    done
fi
if [ -n "${wanted[node]:-}" ]; then
    if wait "${getting[node_packages]}"; then
        NODE_NO_WARNINGS=1 NODE_PATH=$cache/node/node_modules run node node "$here/drivers/node_postgres.js" "$host" "$port"
    else
        skip "node-postgres cannot be had" "$work/node_packages.log"
    fi
fi
if [ -n "${wanted[mappers]:-}" ]; then
    if wait "${getting[mapper_packages]}"; then
        NODE_NO_WARNINGS=1 NODE_PATH=$cache/mappers/node_modules run mappers node "$here/orm/node_orms.js" "$host" "$port"
    else
        skip "Node's mappers cannot be had" "$work/mapper_packages.log"
    fi
fi
if [ -n "${wanted[introspection]:-}" ]; then
    if wait "${getting[introspection_packages]}"; then
        NODE_NO_WARNINGS=1 NODE_PATH=$cache/introspection/node_modules run introspection node "$here/orm/introspection/introspection.js" "$host" "$port"
    else
        skip "Prisma's engine and drizzle-kit cannot be had" "$work/introspection_packages.log"
    fi
fi
if [ -n "${wanted[jvm]:-}" ]; then
    if wait "${getting[jvm_packages]}"; then
        for program in HibernateDay ToolsDay; do
            run "$program" java -XX:TieredStopAtLevel=1 -cp "$work/jvm:$cache/jvm/lib/*" "$program" "$host" "$port" "$here/orm/jvm"
        done
    else
        skip "Hibernate, jOOQ, Flyway and Liquibase, or Maven and a compiler, cannot be had" "$work/jvm_packages.log"
    fi
fi
if [ -n "${wanted[jdbc]:-}" ]; then
    if wait "${getting[jdbc_package]}"; then
        run jdbc java -XX:TieredStopAtLevel=1 -cp "$cache/postgresql-$jdbc.jar" "$here/drivers/Jdbc.java" "$host" "$port"
    else
        skip "JDBC's driver cannot be had" "$work/jdbc_package.log"
    fi
fi
if [ -n "${wanted[pgbouncer]:-}" ]; then
    bouncer=$(PATH=$PATH:/usr/sbin command -v pgbouncer || true)
    if [ -z "$has_python" ] || [ -z "$bouncer" ]; then
        skip "pgbouncer, or psycopg, cannot be had"
    else
        bouncer_port=$(free_port)
        chmod 755 "$work"
        cat >"$work/bouncer.ini" <<INI
[databases]
postgres = host=$host port=$port dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $bouncer_port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
ignore_startup_parameters = extra_float_digits
server_login_retry = 1
INI
        as nobody "$bouncer" "$work/bouncer.ini" >"$work/bouncer.log" 2>&1 &
        echo $! >"$work/bouncer.pid"
        disown
        await 127.0.0.1 "$bouncer_port" "$work/bouncer.log"
        run pgbouncer "$python" "$here/drivers/pgbouncer_psycopg.py" 127.0.0.1 "$bouncer_port"
    fi
fi
# Last: by now they are built.
if [ -n "${wanted[rust]:-}" ]; then
    code=0
    wait "${getting[rust_packages]}" || code=$?
    case $code in
        0) for driver in tokio_postgres sqlx; do run "$driver" "$cache/rust/debug/${driver}_driver" "$host" "$port"; done ;;
        1) skip "tokio-postgres and sqlx, or cargo, cannot be had" "$work/rust_packages.log" ;;
        *) echo "FAILED rust: the programs do not compile: $(grep -a '^error' "$work/rust_packages.log" | head -n 3 | tr '\n' ' ')" | tee -a "$work/all" ;;
    esac
fi
passed=$(grep -c '^ok ' "$work/all" || true) failed=$(grep -c '^FAILED ' "$work/all" || true)
if [ "$failed" != 0 ] && [ -f "$work/server.log" ]; then
    echo "the server's last lines:"
    tail -n 20 "$work/server.log"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
