/* SPDX-License-Identifier: Apache-2.0
 * Stands between a program and libc: LD_PRELOAD. Counts every call that changes files below a
 * directory, and at the n-th fails or kills; or makes all reads short; or moves the clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OFF, COUNT, KILL, TEAR, FAIL_IO, FAIL_FULL, SHORT_WRITE, SHORT_READ };

static int kind = OFF;
static long at, count;
static long shift; /* seconds that the clock is ahead */
static char under[PATH_MAX];
static size_t under_len;

/* Arms: from now on, the n-th change (from 1) of a file below the directory is the one. */
void fault_arm(int what, long n, const char *directory) {
    kind = OFF;
    count = 0;
    at = n;
    strncpy(under, directory, sizeof under - 1);
    under_len = strlen(under);
    kind = what;
}

long fault_count(void) { return count; }

void fault_clock(long seconds) { shift = seconds; }

static int is_under(const char *path) { return path != NULL && strncmp(path, under, under_len) == 0; }

static int is_ours(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_under(path);
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static _Noreturn void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* What is to be done about this change: 0 nothing, -1 fail (errno is set), 1 a part of it. */
static int verdict(int writes) {
    if (kind == OFF || kind == SHORT_READ) return 0;
    count++;
    if (kind == FAIL_FULL && count >= at && writes) {
        errno = ENOSPC;
        return -1;
    }
    if (count != at) return 0;
    switch (kind) {
    case KILL: die();
    case TEAR:
        if (!writes) die();
        return 1;
    case SHORT_WRITE: return writes ? 1 : 0;
    case FAIL_IO: errno = EIO; return -1;
    default: return 0;
    }
}

static size_t half(size_t size) { return size > 1 ? size / 2 : size; }

static ssize_t torn(ssize_t done) {
    if (kind == TEAR) die();
    return done;
}

#define BODY(call_whole, call_part, ours, writes)      \
    if (kind == OFF || !(ours)) return call_whole;     \
    switch (verdict(writes)) {                         \
    case -1: return -1;                                \
    case 1: return torn(call_part);                    \
    default: return call_whole;                        \
    }

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = next("write");
    BODY(real(fd, data, size), real(fd, data, half(size)), is_ours(fd), 1)
}

#define PWRITE(name)                                                                   \
    ssize_t name(int fd, const void *data, size_t size, off_t where) {                 \
        static ssize_t (*real)(int, const void *, size_t, off_t);                      \
        if (!real) real = next(#name);                                                 \
        BODY(real(fd, data, size, where), real(fd, data, half(size), where), is_ours(fd), 1) \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t writev(int fd, const struct iovec *parts, int number) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real) real = next("writev");
    BODY(real(fd, parts, number), real(fd, parts, number > 1 ? number / 2 : number), is_ours(fd), 1)
}

#define PWRITEV(name)                                                                  \
    ssize_t name(int fd, const struct iovec *parts, int number, off_t where) {         \
        static ssize_t (*real)(int, const struct iovec *, int, off_t);                 \
        if (!real) real = next(#name);                                                 \
        BODY(real(fd, parts, number, where),                                           \
             real(fd, parts, number > 1 ? number / 2 : number, where), is_ours(fd), 1) \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t size, unsigned flags) {
    static ssize_t (*real)(int, off_t *, int, off_t *, size_t, unsigned);
    if (!real) real = next("copy_file_range");
    BODY(real(in, from, out, to, size, flags), real(in, from, out, to, half(size), flags),
         is_ours(out), 1)
}

ssize_t sendfile(int out, int in, off_t *from, size_t size) {
    static ssize_t (*real)(int, int, off_t *, size_t);
    if (!real) real = next("sendfile");
    BODY(real(out, in, from, size), real(out, in, from, half(size)), is_ours(out), 1)
}

#define ON_FD(name)                          \
    int name(int fd) {                       \
        static int (*real)(int);             \
        if (!real) real = next(#name);       \
        BODY(real(fd), 0, is_ours(fd), 0)    \
    }
ON_FD(fsync)
ON_FD(fdatasync)

int msync(void *start, size_t size, int flags) {
    static int (*real)(void *, size_t, int);
    if (!real) real = next("msync");
    BODY(real(start, size, flags), 0, 1, 0)
}

/* Growing takes space; cutting off gives it back. */
static int grows(int fd, off_t size) {
    struct stat now;
    return fstat(fd, &now) == 0 && size > now.st_size;
}

#define FTRUNCATE(name)                                                              \
    int name(int fd, off_t size) {                                                   \
        static int (*real)(int, off_t);                                              \
        if (!real) real = next(#name);                                               \
        BODY(real(fd, size), real(fd, size), is_ours(fd), grows(fd, size)) \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

#define ON_PATHS(name)                                           \
    int name(const char *old, const char *new) {                 \
        static int (*real)(const char *, const char *);          \
        if (!real) real = next(#name);                           \
        BODY(real(old, new), 0, is_under(old) || is_under(new), 0) \
    }
ON_PATHS(rename)
ON_PATHS(link)

int linkat(int from, const char *old, int to, const char *new, int flags) {
    static int (*real)(int, const char *, int, const char *, int);
    if (!real) real = next("linkat");
    BODY(real(from, old, to, new, flags), 0, is_under(new) || is_ours(to), 0)
}

int renameat(int from, const char *old, int to, const char *new) {
    static int (*real)(int, const char *, int, const char *);
    if (!real) real = next("renameat");
    BODY(real(from, old, to, new), 0, is_under(new) || is_ours(to), 0)
}

#define ON_PATH(name)                         \
    int name(const char *path) {              \
        static int (*real)(const char *);     \
        if (!real) real = next(#name);        \
        BODY(real(path), 0, is_under(path), 0) \
    }
ON_PATH(unlink)
ON_PATH(rmdir)

int mkdir(const char *path, mode_t mode) {
    static int (*real)(const char *, mode_t);
    if (!real) real = next("mkdir");
    BODY(real(path, mode), 0, is_under(path), 0)
}

static size_t less(int fd, size_t size) {
    return kind == SHORT_READ && is_ours(fd) ? half(size) : size;
}

ssize_t read(int fd, void *data, size_t size) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = next("read");
    return real(fd, data, less(fd, size));
}

#define PREAD(name)                                                  \
    ssize_t name(int fd, void *data, size_t size, off_t where) {     \
        static ssize_t (*real)(int, void *, size_t, off_t);          \
        if (!real) real = next(#name);                               \
        return real(fd, data, less(fd, size), where);                \
    }
PREAD(pread)
PREAD(pread64)

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = next("clock_gettime");
    int done = real(clock, now);
    if (done == 0 && clock == CLOCK_REALTIME) now->tv_sec += shift;
    return done;
}

int gettimeofday(struct timeval *now, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = next("gettimeofday");
    int done = real(now, zone);
    if (done == 0) now->tv_sec += shift;
    return done;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
