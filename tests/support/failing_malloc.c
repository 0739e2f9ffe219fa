/* Let the n-th allocation fail (FAIL_AT) in every process but the one that loaded this first: the child of a run. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static pid_t first;
static long at, count;

__attribute__((constructor)) static void begin(void) {
    const char *said = getenv("FAIL_AT");
    at = said ? atol(said) : 0;
    first = getpid();
}

static int fails(void) {
    if (!at || !first || getpid() == first || __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) != at) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t number, size_t size) { return fails() ? NULL : __libc_calloc(number, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }
void *memalign(size_t unit, size_t size) { return fails() ? NULL : __libc_memalign(unit, size); }
void *aligned_alloc(size_t unit, size_t size) { return fails() ? NULL : __libc_memalign(unit, size); }

int posix_memalign(void **found, size_t unit, size_t size) {
    if (fails()) return ENOMEM;
    *found = __libc_memalign(unit, size);
    return *found ? 0 : ENOMEM;
}

void *mmap(void *where, size_t size, int access, int flags, int file, off_t offset) {
    return fails() ? MAP_FAILED : (void *)syscall(SYS_mmap, where, size, access, flags, file, offset);
}
