/* Resurgam as a library for C: tables of byte keys and values, in the order of the keys' bytes, with transactions.
 *
 * The program is linked with libresurgam_capi (`cargo build --release -p resurgam-capi`, target/release). In SQL a table is
 * `name (key bytea PRIMARY KEY, value bytea)`, in the schema `public`.
 *
 * Every function that can fail returns a status. What went wrong in words is said by rsg_message(), of the last call that failed on
 * the same thread: a rollback that succeeds after it does not change it. No function unwinds, and none keeps a pointer that it was
 * given. Pointers that must not be NULL are checked; that they point to what they should, for as long as the call runs, is the caller's
 * care. Lengths are in bytes; with a length of 0 a pointer may be NULL.
 *
 * A database may be used by many threads, a transaction by one at a time.
 */
#ifndef RESURGAM_H
#define RESURGAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsg_db rsg_db;
typedef struct rsg_tx rsg_tx;

/* A status: 0 is success; the others are errors, but RSG_NOT_FOUND. */
enum {
    RSG_OK = 0,
    RSG_NOT_FOUND = 1, /* there is no such key, or no such table yet */
    RSG_INVALID = 2,   /* a pointer is NULL, a name is no UTF-8, the transaction only reads, a setting cannot be */
    RSG_CONFLICT = 3,  /* others changed the same rows: roll back, and do all of it again */
    RSG_DUPLICATE = 4, /* the key is there already */
    RSG_IN_USE = 5,    /* the database is open in this process, or in another one */
    RSG_MISMATCH = 6,  /* the table has other columns, or another thing has its name */
    RSG_TOO_LONG = 7,  /* a key or a value is longer than can be stored */
    RSG_READ_ONLY = 8, /* the table's rows are kept to rules that only SQL knows */
    RSG_TIMEOUT = 9,   /* another transaction has the row, for longer than rsg_set_lock_timeout says */
    RSG_FAILED = 10,   /* anything else: the disk is full or fails, files are damaged */
    RSG_BUG = 11       /* a mistake in this library */
};

/* Bytes that this library has allocated, to be given back by rsg_free. */
typedef struct rsg_bytes {
    uint8_t *data;
    size_t len;
} rsg_bytes;

/* What was wrong in the last call on this thread that was not done; "" if all were. RSG_OK leaves it alone, and so does RSG_NOT_FOUND where
 * only the key is not there. Valid until the next call on this thread. */
const char *rsg_message(void);

/* Opens the database in a folder; made, if there is none. memory: bytes for pages, 0 for as many as suit most. */
int rsg_open(const char *path, uint64_t memory, rsg_db **out);
/* Longest wait for another transaction that has a row, from the next wait on; after it RSG_TIMEOUT. 0: until it ends, as without this call
 * (where transactions of several threads wait for each other one gets RSG_CONFLICT in any case). */
int rsg_set_lock_timeout(rsg_db *db, uint64_t milliseconds);
/* Cleans up what nobody needs any more, and gives free space back to the file system: rows of pages that have room are put together, the
 * file ends earlier, and holes are made in it. `bytes`: how many the file system has back. Beside everything else; what transactions that
 * are open may still read stays. */
int rsg_compact(rsg_db *db, uint64_t *bytes);
/* Closes it, and frees `db`, whatever it returns. Transactions that are still there fail from here on; end them all the same. */
int rsg_close(rsg_db *db);

/* Begins a transaction that reads and writes, or one that only reads. It sees the database as it is now. A thread that has two which write
 * waits for itself where they write the same row, or make the same table: for ever, without rsg_set_lock_timeout. */
int rsg_begin(rsg_db *db, rsg_tx **out);
int rsg_begin_read(rsg_db *db, rsg_tx **out);
/* Commits: on the disk when this returns RSG_OK. Frees `tx`, whatever it returns. After RSG_CONFLICT nothing of it was done;
 * after RSG_FAILED the outcome is known when the database is opened again. */
int rsg_commit(rsg_tx *tx);
/* Takes all of it back, and frees `tx`. */
int rsg_rollback(rsg_tx *tx);

/* The value of a key, to be given back by rsg_free; {NULL, 0} if there is none. A table that is not there is not made by this, nor by
 * rsg_delete and rsg_range. */
int rsg_get(rsg_tx *tx, const char *table, const void *key, size_t key_len, rsg_bytes *out);
void rsg_free(rsg_bytes bytes);
/* Sets the value of a key. The table is made if there is none. */
int rsg_put(rsg_tx *tx, const char *table, const void *key, size_t key_len, const void *value, size_t value_len);
/* The same of a key that has none: RSG_DUPLICATE if it has. */
int rsg_insert(rsg_tx *tx, const char *table, const void *key, size_t key_len, const void *value, size_t value_len);
/* Deletes a key: RSG_NOT_FOUND if it, or the table, is not there. */
int rsg_delete(rsg_tx *tx, const char *table, const void *key, size_t key_len);

/* What rsg_range calls with each key and its value, valid until it returns. Other than 0: stop. */
typedef int (*rsg_row)(void *context, const void *key, size_t key_len, const void *value, size_t value_len);
/* Keys from `low` on and below `high`, in their order, or backwards if `backward` is not 0. NULL: from the first, to the last. A
 * table that is not there has none: RSG_OK. What the transaction writes meanwhile, which it may, does not change what comes; it must not be
 * ended meanwhile. */
int rsg_range(rsg_tx *tx, const char *table, const void *low, size_t low_len, const void *high, size_t high_len, int backward,
              rsg_row row, void *context);

#ifdef __cplusplus
}
#endif
#endif
