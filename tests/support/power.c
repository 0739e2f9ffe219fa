/* Log every change of a file or folder below POWER_ROOT, and what fsync makes durable, to POWER_LOG.
   A record: kind, path, other path, number of bytes, each with a zero byte behind it, then the bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static int sink = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("POWER_LOG");
    root = getenv("POWER_ROOT");
    if (log && root) sink = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int ours(const char *path) { return sink >= 0 && path && !strncmp(path, root, strlen(root)); }

static void put(const char *kind, const char *path, const char *other, const char *data, size_t size) {
    char head[2 * 4096 + 64];
    size_t length = snprintf(head, sizeof head, "%s%c%s%c%s%c%zu%c", kind, 0, path, 0, other, 0, size, 0);
    if (write(sink, head, length) != (ssize_t)length || (size && write(sink, data, size) != (ssize_t)size)) abort();
}

#define LOGGED(condition, kind, path, other, call)        \
    if (!(condition)) return call;                        \
    pthread_mutex_lock(&turn);                            \
    int done = call;                                      \
    if (done >= 0) put(kind, path, other, NULL, 0);       \
    pthread_mutex_unlock(&turn);                          \
    return done;

static int opened(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    LOGGED((flags & O_CREAT) && ours(path), "create", path, "", real(path, flags, mode))
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return opened(REAL(open), path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return opened(REAL(open64), path, flags, mode);
}

int rename(const char *from, const char *to) { LOGGED(ours(to), "rename", from, to, REAL(rename)(from, to)) }
int link(const char *from, const char *to) { LOGGED(ours(to), "link", from, to, REAL(link)(from, to)) }
int unlink(const char *path) { LOGGED(ours(path), "unlink", path, "", REAL(unlink)(path)) }
int rmdir(const char *path) { LOGGED(ours(path), "rmdir", path, "", REAL(rmdir)(path)) }
int mkdir(const char *path, mode_t mode) { LOGGED(ours(path), "mkdir", path, "", REAL(mkdir)(path, mode)) }

int fsync(int file) {
    char name[64], path[4096];
    struct stat status;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return REAL(fsync)(file);
    path[length] = 0;
    if (!ours(path) || fstat(file, &status)) return REAL(fsync)(file);
    pthread_mutex_lock(&turn);
    if (S_ISDIR(status.st_mode)) {
        put("sync folder", path, "", NULL, 0);
    } else {
        char *data = malloc(status.st_size + 1);
        int reader = REAL(open)(path, O_RDONLY | O_CLOEXEC);
        if (!data || reader < 0 || read(reader, data, status.st_size) != status.st_size) abort();
        put("sync file", path, "", data, status.st_size);
        close(reader);
        free(data);
    }
    pthread_mutex_unlock(&turn);
    return 0; /* what a power loss leaves is played, so the disk need not be waited for */
}
