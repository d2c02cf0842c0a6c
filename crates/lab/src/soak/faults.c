/* Devices that fail: loaded before the C library (LD_PRELOAD), it lets reads, writes and syncs of
   a data folder's files fail with EIO while the first byte of the file $SOAK_FAULTS says so:
   1 reads of pages, 2 writes of pages, of the double-write area and of the control file,
   4 syncs of the double-write area, 8 writes and syncs of the log. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { READS = 1, WRITES = 2, SYNCS = 4, LOG = 8 };

static int said = -2;

static int active(void) {
    if (said == -2) {
        const char *path = getenv("SOAK_FAULTS");
        said = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    }
    unsigned char byte = 0;
    if (said < 0 || syscall(SYS_pread64, said, &byte, 1, 0L) != 1) return 0;
    return byte;
}

/* The file's name: d(ata), w(rite area), c(ontrol), l(og), or 0. */
static char kind(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len <= 0) return 0;
    path[len] = 0;
    const char *name = strrchr(path, '/');
    if (!name) return 0;
    name++;
    if (!strcmp(name, "data")) return 'd';
    if (!strcmp(name, "doublewrite")) return 'w';
    if (!strcmp(name, "control")) return 'c';
    if (strlen(name) == 20 && !strcmp(name + 16, ".log")) return 'l';
    return 0;
}

static int fails(int fd, int what) {
    int now = active();
    if (!now) return 0;
    char file = kind(fd);
    if (what == READS) return (now & READS) && file == 'd';
    if (file == 'l') return now & LOG;
    if (what == WRITES) return (now & WRITES) && (file == 'd' || file == 'w' || file == 'c');
    return (now & SYNCS) && file == 'w';
}

#define EIO_IF(fd, what) do { if (fails(fd, what)) { errno = EIO; return -1; } } while (0)

ssize_t pread64(int fd, void *to, size_t len, off64_t at) {
    EIO_IF(fd, READS);
    return syscall(SYS_pread64, fd, to, len, at);
}
ssize_t pread(int fd, void *to, size_t len, off_t at) { return pread64(fd, to, len, at); }
ssize_t pwrite64(int fd, const void *from, size_t len, off64_t at) {
    EIO_IF(fd, WRITES);
    return syscall(SYS_pwrite64, fd, from, len, at);
}
ssize_t pwrite(int fd, const void *from, size_t len, off_t at) { return pwrite64(fd, from, len, at); }
int fdatasync(int fd) {
    EIO_IF(fd, SYNCS);
    return syscall(SYS_fdatasync, fd);
}
int fsync(int fd) {
    EIO_IF(fd, SYNCS);
    return syscall(SYS_fsync, fd);
}
