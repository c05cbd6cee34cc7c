/*
 * What a redis-server that picklock starts is told of the time, and what it has surely put on its disk; a program of
 * the user's, the time alone.
 *
 * Loaded into the server with LD_PRELOAD. It shares a page of memory, the file $PICKLOCK_PAGE, with picklock
 * (sim/live-world/src/page.rs has the same layout). From it comes how far the server's clocks are off; into it
 * goes, for every file that was synced, the size that it had when the sync began: what is beyond may be lost with
 * the power.
 *
 * Invariant: nothing here allocates, takes a lock or calls what could be replaced itself, because the first call
 * comes from the middle of the allocator's own start. Without a page every function does what the C library's
 * does. It names no C library of its own, so it can be loaded into servers of any: what it calls, every one has.
 * Deliberately absent: timers and time-outs, which run by the machine's clock; a server's event loop only
 * wakes earlier or later for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define FILES 62

struct synced {
    _Atomic uint64_t inode;
    _Atomic uint64_t bytes;
};

struct page {
    /* Odd while picklock writes the clock. */
    _Atomic uint64_t version;
    /* How far the wall clock has jumped. */
    _Atomic int64_t step_ns;
    /* All clocks are off by extra + (monotonic now - since) * ppm / 1,000,000. */
    _Atomic int64_t since_ns;
    _Atomic int64_t extra_ns;
    _Atomic int64_t ppm;
    /* Not 0 once a clock has been asked here: a program may read its clocks without the C library. */
    _Atomic uint64_t asked;
    uint64_t spare[2];
    struct synced files[FILES];
};

static struct page *shared;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("PICKLOCK_PAGE");
    if (path == NULL) return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return;
    shared = at;
}

static int64_t read_clock(clockid_t clock) {
    struct timespec time = {0, 0};
    syscall(SYS_clock_gettime, clock, &time);
    return (int64_t)time.tv_sec * SECOND_NS + time.tv_nsec;
}

/* How far a clock is off at this moment. */
static int64_t off_ns(int is_wall) {
    struct page *page = shared;
    int64_t step, since, extra, ppm;
    uint64_t before, after;
    do {
        before = atomic_load(&page->version);
        step = atomic_load(&page->step_ns);
        since = atomic_load(&page->since_ns);
        extra = atomic_load(&page->extra_ns);
        ppm = atomic_load(&page->ppm);
        after = atomic_load(&page->version);
    } while (before != after || (before & 1) != 0);
    if (ppm != 0) {
        int64_t past = read_clock(CLOCK_MONOTONIC) - since;
        /* Seconds and the rest apart: a product of nanoseconds would not fit. */
        extra += past / 1000000 * ppm + past % 1000000 * ppm / 1000000;
    }
    return is_wall ? extra + step : extra;
}

static int shifts(clockid_t clock, int *is_wall) {
    *is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    return *is_wall || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
           clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
}

int clock_gettime(clockid_t clock, struct timespec *into) {
    int is_wall;
    long failed = syscall(SYS_clock_gettime, clock, into);
    if (failed != 0 || shared == NULL || !shifts(clock, &is_wall)) return (int)failed;
    if (atomic_load_explicit(&shared->asked, memory_order_relaxed) == 0) atomic_store(&shared->asked, 1);
    int64_t off = off_ns(is_wall);
    if (off != 0) {
        int64_t now = (int64_t)into->tv_sec * SECOND_NS + into->tv_nsec + off;
        into->tv_sec = now / SECOND_NS;
        into->tv_nsec = now % SECOND_NS;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    struct timespec time;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &time) != 0) return -1;
    into->tv_sec = time.tv_sec;
    into->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (into != NULL) *into = now.tv_sec;
    return now.tv_sec;
}

/* What a file holds when a sync begins is on the disk when it has ended. */
static void note_synced(uint64_t inode, uint64_t bytes) {
    for (size_t at = 0; at < FILES; at++) {
        uint64_t known = atomic_load(&shared->files[at].inode);
        if (known == 0) {
            /* Where another thread was faster, `known` is what it has put there. */
            if (atomic_compare_exchange_strong(&shared->files[at].inode, &known, inode)) known = inode;
        }
        if (known == inode) {
            atomic_store(&shared->files[at].bytes, bytes);
            return;
        }
    }
}

static int sync_with(long number, int fd) {
    struct stat before;
    int known = shared != NULL && syscall(SYS_fstat, fd, &before) == 0;
    int failed = (int)syscall(number, fd);
    if (failed == 0 && known) {
        int kept = errno;
        note_synced((uint64_t)before.st_ino, (uint64_t)before.st_size);
        errno = kept;
    }
    return failed;
}

int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int fsync(int fd) { return sync_with(SYS_fsync, fd); }
