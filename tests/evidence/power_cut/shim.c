/* Writes a journal of the changes that a program makes to the files of one folder, for tests of power cuts.
 *
 * Loaded with LD_PRELOAD. POWER_CUT_FOLDER names the folder (an absolute path without links) and POWER_CUT_JOURNAL the
 * journal. A change and its entry happen under one lock, so the order of entries is the order of changes. A sync has two
 * entries, one before and one after it: it covers the changes before the first, and holds from the second on.
 *
 * SIGPWR ends the program as SIGKILL does, but under that lock: SIGKILL alone may fall between a change and its entry.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN = 1, CLOSE, WRITE, TRUNCATE, SYNC, SYNCED, RENAME, UNLINK, LINK };

struct entry {
    uint64_t time; /* CLOCK_MONOTONIC, in ns */
    int64_t number; /* OPEN: flags; WRITE: offset; TRUNCATE: length; SYNC, SYNCED: number of the sync */
    uint32_t process;
    int32_t file;
    uint32_t kind;
    uint32_t name; /* octets of the name behind this entry */
    uint32_t to; /* octets of a second name behind that */
    uint32_t data; /* octets written, behind both */
};

#define FILES 65536

static int journal = -1;
static char folder[4096];
static size_t folder_length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t syncs;
static struct { uint8_t is_watched; dev_t device; ino_t inode; } files[FILES];

static void *end(void *unused) {
    sigset_t power;
    int found;
    sigemptyset(&power);
    sigaddset(&power, SIGPWR);
    if (sigwait(&power, &found) != 0) abort();
    pthread_mutex_lock(&lock);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("POWER_CUT_JOURNAL"), *place = getenv("POWER_CUT_FOLDER");
    if (!path || !place || strlen(place) >= sizeof folder) abort();
    strcpy(folder, place);
    folder_length = strlen(folder);
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC;
    journal = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    if (journal < 0) abort();
    sigset_t power;
    pthread_t waiting;
    sigemptyset(&power);
    sigaddset(&power, SIGPWR);
    /* Threads inherit the mask: only the one that waits for the signal takes it. */
    if (pthread_sigmask(SIG_BLOCK, &power, NULL) != 0 || pthread_create(&waiting, NULL, end, NULL) != 0) abort();
}

static void note(uint32_t kind, int file, int64_t number, const char *name, const char *to, const void *data, size_t length) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct entry entry = {
        .time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
        .number = number,
        .process = (uint32_t)getpid(),
        .file = file,
        .kind = kind,
        .name = name ? (uint32_t)strlen(name) : 0,
        .to = to ? (uint32_t)strlen(to) : 0,
        .data = (uint32_t)length,
    };
    struct iovec parts[] = {
        {&entry, sizeof entry}, {(void *)name, entry.name}, {(void *)to, entry.to}, {(void *)data, length}};
    ssize_t all = (ssize_t)(sizeof entry + entry.name + entry.to + length);
    if (syscall(SYS_writev, journal, parts, 4) != all) abort();
}

/* Returns the name of a file directly in the folder, "" for the folder itself, and NULL for any other. */
static const char *inside(int at, const char *path) {
    char here[sizeof folder];
    const char *name = path;
    if (journal < 0 || !path) return NULL;
    if (*path == '/') {
        if (strncmp(path, folder, folder_length) != 0) return NULL;
        name = path + folder_length;
        if (*name == 0) return name;
        if (*name++ != '/') return NULL;
    } else if (at != AT_FDCWD || !getcwd(here, sizeof here) || strcmp(here, folder) != 0) {
        return NULL;
    }
    if (name[0] == '.' && name[1] == '/') name += 2;
    if (strcmp(name, ".") == 0) return name + 1;
    return strchr(name, '/') ? NULL : name;
}

static int is_watched(int file) {
    struct stat found;
    if (file < 0 || file >= FILES || !files[file].is_watched) return 0;
    if (fstat(file, &found) == 0 && found.st_dev == files[file].device && found.st_ino == files[file].inode) return 1;
    files[file].is_watched = 0; /* closed without this shim, and used again */
    return 0;
}

static int open_noted(int at, const char *path, int flags, mode_t mode) {
    const char *name = inside(at, path);
    if (!name) {
        int file = (int)syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode);
        if (file >= 0 && file < FILES) files[file].is_watched = 0;
        return file;
    }
    pthread_mutex_lock(&lock);
    int file = (int)syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode);
    int error = errno;
    struct stat found;
    if (file >= 0 && file < FILES && fstat(file, &found) == 0) {
        files[file].is_watched = 1;
        files[file].device = found.st_dev;
        files[file].inode = found.st_ino;
        note(OPEN, file, flags & (O_CREAT | O_TRUNC), name, NULL, NULL, 0);
    }
    errno = error;
    pthread_mutex_unlock(&lock);
    return file;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { va_list rest; va_start(rest, last); mode = va_arg(rest, mode_t); va_end(rest); }

int open(const char *path, int flags, ...) { MODE(flags, flags) return open_noted(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return open_noted(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, flags) return open_noted(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, flags) return open_noted(at, path, flags, mode); }

int close(int file) {
    if (!is_watched(file)) return (int)syscall(SYS_close, file);
    pthread_mutex_lock(&lock);
    files[file].is_watched = 0;
    note(CLOSE, file, 0, NULL, NULL, NULL, 0);
    int done = (int)syscall(SYS_close, file);
    pthread_mutex_unlock(&lock);
    return done;
}

static ssize_t write_noted(int file, const void *data, size_t length, int64_t offset) {
    pthread_mutex_lock(&lock);
    ssize_t done = offset < 0 ? syscall(SYS_write, file, data, length) : syscall(SYS_pwrite64, file, data, length, offset);
    int error = errno;
    if (done > 0) {
        if (offset < 0) offset = lseek(file, 0, SEEK_CUR) - done;
        note(WRITE, file, offset, NULL, NULL, data, (size_t)done);
    }
    errno = error;
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int file, const void *data, size_t length) {
    return is_watched(file) ? write_noted(file, data, length, -1) : syscall(SYS_write, file, data, length);
}
ssize_t pwrite(int file, const void *data, size_t length, off_t offset) {
    return is_watched(file) ? write_noted(file, data, length, offset) : syscall(SYS_pwrite64, file, data, length, offset);
}
ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
    return is_watched(file) ? write_noted(file, data, length, offset) : syscall(SYS_pwrite64, file, data, length, offset);
}
/* One part at a time, as a file may take it, too. */
ssize_t writev(int file, const struct iovec *parts, int count) {
    if (!is_watched(file) || count < 1) return syscall(SYS_writev, file, parts, count);
    return write_noted(file, parts->iov_base, parts->iov_len, -1);
}

static int truncate_noted(int file, int64_t length) {
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_ftruncate, file, length);
    int error = errno;
    if (done == 0) note(TRUNCATE, file, length, NULL, NULL, NULL, 0);
    errno = error;
    pthread_mutex_unlock(&lock);
    return done;
}
int ftruncate(int file, off_t length) {
    return is_watched(file) ? truncate_noted(file, length) : (int)syscall(SYS_ftruncate, file, length);
}
int ftruncate64(int file, off64_t length) {
    return is_watched(file) ? truncate_noted(file, length) : (int)syscall(SYS_ftruncate, file, length);
}

static int sync_noted(int file, long call) {
    pthread_mutex_lock(&lock);
    int64_t number = ++syncs;
    note(SYNC, file, number, NULL, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    int done = (int)syscall(call, file);
    int error = errno;
    if (done == 0) {
        pthread_mutex_lock(&lock);
        note(SYNCED, file, number, NULL, NULL, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return done;
}
int fsync(int file) { return is_watched(file) ? sync_noted(file, SYS_fsync) : (int)syscall(SYS_fsync, file); }
int fdatasync(int file) { return is_watched(file) ? sync_noted(file, SYS_fdatasync) : (int)syscall(SYS_fdatasync, file); }

static int named(uint32_t kind, long call, int at, const char *from, int to_at, const char *to, int flags) {
    const char *name = inside(at, from), *new_name = to ? inside(to_at, to) : NULL;
    int is_noted = name || new_name;
    if (is_noted) pthread_mutex_lock(&lock);
    int done = (int)(to ? syscall(call, at, from, to_at, to, flags) : syscall(call, at, from, flags));
    int error = errno;
    if (is_noted) {
        if (done == 0) {
            if (to && (!name || !new_name)) abort(); /* from or to another folder */
            note(kind, -1, 0, name, new_name, NULL, 0);
        }
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return done;
}
int rename(const char *from, const char *to) { return named(RENAME, SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int at, const char *from, int to_at, const char *to) {
    return named(RENAME, SYS_renameat2, at, from, to_at, to, 0);
}
int link(const char *from, const char *to) { return named(LINK, SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int at, const char *from, int to_at, const char *to, int flags) {
    return named(LINK, SYS_linkat, at, from, to_at, to, flags);
}
int unlink(const char *path) { return named(UNLINK, SYS_unlinkat, AT_FDCWD, path, 0, NULL, 0); }
int unlinkat(int at, const char *path, int flags) { return named(UNLINK, SYS_unlinkat, at, path, 0, NULL, flags); }
