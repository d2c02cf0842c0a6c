/* A C program on the library: counts how often it was run, and shows a range.
 *
 *   cargo build --release -p resurgam-capi
 *   cc -I crates/capi/include crates/capi/examples/counter.c -L target/release -lresurgam_capi -Wl,-rpath,target/release -o counter
 *   ./counter /tmp/counter-data
 */
#include <resurgam.h>

#include <stdio.h>
#include <string.h>

#define TABLE "runs"

static int fail(const char *what, int status) {
    fprintf(stderr, "%s: status %d: %s\n", what, status, rsg_message());
    return 1;
}

static int show(void *context, const void *key, size_t key_len, const void *value, size_t value_len) {
    (void)value;
    ++*(int *)context;
    printf("%.*s: %zu bytes\n", (int)key_len, (const char *)key, value_len);
    return 0;
}

/* One attempt: a status of the library. */
static int count(rsg_db *db, uint64_t *runs) {
    rsg_tx *tx;
    rsg_bytes found;
    int status = rsg_begin(db, &tx);
    if (status != RSG_OK) return status;
    *runs = 0;
    status = rsg_get(tx, TABLE, "runs", 4, &found);
    if (status == RSG_OK && found.len == sizeof *runs) memcpy(runs, found.data, sizeof *runs);
    rsg_free(found);
    if (status == RSG_OK || status == RSG_NOT_FOUND) {
        ++*runs;
        status = rsg_put(tx, TABLE, "runs", 4, runs, sizeof *runs);
    }
    if (status != RSG_OK) {
        rsg_rollback(tx);
        return status;
    }
    return rsg_commit(tx);
}

int main(int argc, char **argv) {
    rsg_db *db;
    rsg_tx *tx;
    uint64_t runs;
    int rows = 0, attempts = 0, status;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    if ((status = rsg_open(argv[1], 8 << 20, &db)) != RSG_OK) return fail("open", status);

    /* What met another transaction is done again. */
    do status = count(db, &runs);
    while (status == RSG_CONFLICT && ++attempts < 100);
    if (status != RSG_OK) return fail("count", status);

    if ((status = rsg_begin(db, &tx)) != RSG_OK) return fail("begin", status);
    if ((status = rsg_insert(tx, TABLE, "a", 1, NULL, 0)) != RSG_OK && status != RSG_DUPLICATE) return fail("insert", status);
    if (rsg_insert(tx, TABLE, "a", 1, NULL, 0) != RSG_DUPLICATE) return fail("insert twice", 0);
    if (rsg_put(tx, TABLE, NULL, 3, "x", 1) != RSG_INVALID) return fail("a key of NULL", 0);
    if (rsg_delete(tx, TABLE, "none", 4) != RSG_NOT_FOUND) return fail("delete nothing", 0);
    if ((status = rsg_range(tx, TABLE, NULL, 0, NULL, 0, 1, show, &rows)) != RSG_OK) return fail("range", status);
    if ((status = rsg_commit(tx)) != RSG_OK) return fail("commit", status);
    if ((status = rsg_close(db)) != RSG_OK) return fail("close", status);
    printf("run %llu, %d rows\n", (unsigned long long)runs, rows);
    return 0;
}
