#!/usr/bin/env bash
# Archives and backups in object stores: the promises of places (crates/objects) against real S3 servers, then a server
# that archives to one, takes a backup there, loses its data device and is restored from there.
#
#   scripts/objects.sh [RESURGAM]     (default target/release/resurgam)
#
# OBJECTS_TEST names the compiled tests of crates/objects; without it they are built.
#
# The S3 servers come from the Go module proxy and are built once (OBJECTS_BIN, default ~/.cache/resurgam-objects). Where
# there is no Go toolchain, or no way to it, this says "skipped:" and ends well.
set -u -o pipefail
cd "$(dirname "$0")/.."
resurgam=$(realpath "${1:-target/release/resurgam}")
bin=${OBJECTS_BIN:-$HOME/.cache/resurgam-objects}
work=$(mktemp -d)
pids=()
end() { for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null; done; wait 2>/dev/null; rm -rf "$work"; }
trap end EXIT
fail() { echo "FAILED: $*"; tail -n 30 "$work"/*.log; exit 1; }

install_store() { # program module
    [ -x "$bin/$1" ] && return 0
    command -v go >/dev/null || return 1
    mkdir -p "$bin" && GOBIN=$bin timeout 900 go install "$2" >"$work/$1.install.log" 2>&1
}
. scripts/free_port.sh
answers() { for _ in $(seq 100); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0; sleep 0.1; done; return 1; }

export AWS_ACCESS_KEY_ID=resurgam AWS_SECRET_ACCESS_KEY=a-secret-of-tests AWS_REGION=us-east-1 AWS_ALLOW_HTTP=true
ran=0
run_store() { # name port
    export AWS_ENDPOINT=http://127.0.0.1:$2
    # The trait's promises, racing writers among them.
    RESURGAM_OBJECTS=s3://bucket ${OBJECTS_TEST:-cargo test --release -p resurgam-objects --} --show-output >"$work/$1.test.log" 2>&1 || fail "promises on $1"
    grep -a '^test result' "$work/$1.test.log"
    server_on "$1"
    ran=$((ran + 1))
}
sql() { psql -qAtX -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$port" -U postgres -c "$1" postgres; }
serve() { # data folder, options...
    local data=$1; shift
    "$resurgam" serve --data "$data" --listen "127.0.0.1:$port" "$@" >>"$work/server.log" 2>&1 &
    server=$!; pids+=("$server")
    answers "$port" || fail "the server does not start"
}
# A server whose archive and backups are on the store: work, a backup, more work, the data device lost, a restore at a point.
server_on() {
    local place=s3://bucket/$1 at sum
    port=$(free_port)
    local archived=(--log-dir "$work/$1/log" --archive "$place/archive" --backups "$place/backups")
    mkdir -p "$work/$1"
    serve "$work/$1/data" "${archived[@]}"
    sql "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, repeat(md5(g::text), 8) FROM generate_series(1, 40000) g" || fail "$1: load"
    sql "SELECT resurgam_backup()" >/dev/null || fail "$1: backup"
    sql "UPDATE t SET v = v || 'x' WHERE id % 3 = 0" || fail "$1: update"
    sum=$(sql "SELECT count(*), sum(length(v)) FROM t")
    for _ in $(seq 100); do [ "$(sql "SELECT lag_bytes FROM resurgam_archive")" = 0 ] && break; sleep 0.1; done
    at=$(sql "SELECT archived_lsn FROM resurgam_archive")
    sql "DELETE FROM t WHERE id % 2 = 0" || fail "$1: delete"
    left=$(sql "SELECT count(*), sum(length(v)) FROM t")
    kill -9 "$server"; wait "$server" 2>/dev/null
    # The data device is gone; the log and the store are left.
    rm -rf "$work/$1/data"
    serve "$work/$1/data" "${archived[@]}"
    [ "$(sql "SELECT count(*), sum(length(v)) FROM t")" = "$left" ] || fail "$1: other rows after the data folder was lost"
    for _ in $(seq 300); do [ "$(sql "SELECT lag_bytes FROM resurgam_archive")" = 0 ] && break; sleep 0.1; done
    "$resurgam" archive verify "$place/archive" >"$work/verify.log" 2>&1 || fail "$1: archive verify"
    "$resurgam" backup verify "$place/backups" >>"$work/verify.log" 2>&1 || fail "$1: backup verify"
    kill "$server"; wait "$server" 2>/dev/null
    "$resurgam" restore --archive "$place/archive" --backups "$place/backups" --to "$at" --target "$work/$1/then" >"$work/restore.log" 2>&1 || fail "$1: restore"
    port=$(free_port)
    serve "$work/$1/then"
    [ "$(sql "SELECT count(*), sum(length(v)) FROM t")" = "$sum" ] || fail "$1: other rows at the point in time"
    kill "$server"; wait "$server" 2>/dev/null
    echo "$1: archived, lost, restored; $(find "$work/$1" -name '*.run' | wc -l) runs on local disks"
}

# Which ones: OBJECTS_STORES="versitygw minio"; the second takes minutes to build.
stores=" ${OBJECTS_STORES:-versitygw} "
if [[ $stores != *" versitygw "* ]]; then :; elif install_store versitygw github.com/versity/versitygw/cmd/versitygw@latest; then
    port=$(free_port); mkdir -p "$work/gateway/bucket" "$work/meta"
    "$bin/versitygw" --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" --port "127.0.0.1:$port" posix --sidecar "$work/meta" "$work/gateway" >"$work/gateway.log" 2>&1 &
    pids+=($!)
    answers "$port" || fail "versitygw does not start"
    run_store versitygw "$port"
else
    echo "skipped: versitygw cannot be installed"
fi
if [[ $stores != *" minio "* ]]; then :; elif install_store minio github.com/minio/minio@latest; then
    port=$(free_port); mkdir -p "$work/minio/bucket"
    MINIO_ROOT_USER=$AWS_ACCESS_KEY_ID MINIO_ROOT_PASSWORD=$AWS_SECRET_ACCESS_KEY \
        "$bin/minio" server --quiet --address "127.0.0.1:$port" --console-address 127.0.0.1:0 "$work/minio" >"$work/minio.log" 2>&1 &
    pids+=($!)
    answers "$port" || fail "minio does not start"
    sleep 2
    run_store minio "$port"
else
    echo "skipped: minio cannot be installed"
fi
echo "$ran S3 servers"
