/* For LD_PRELOAD: blocks of memory of more bytes than PROTEAN_TEST_LARGEST_BLOCK says are refused, as where a rank has
   no memory left. A limit of the whole process (ulimit -v) would end it already where it loads its libraries. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* The functions of the GNU C library under the names that it keeps for this. */
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static int refused(size_t bytes) {
  static size_t largest = 0;
  if (largest == 0) {
    const char* const text = getenv("PROTEAN_TEST_LARGEST_BLOCK");
    largest = text ? (size_t)strtoull(text, NULL, 10) : (size_t)-1;
  }
  if (bytes <= largest) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t bytes) { return refused(bytes) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) {
  return bytes != 0 && (count > (size_t)-1 / bytes || refused(count * bytes)) ? NULL
                                                                              : __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) { return refused(bytes) ? NULL : __libc_realloc(block, bytes); }
void* memalign(size_t alignment, size_t bytes) {
  return refused(bytes) ? NULL : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  void* const made = memalign(alignment, bytes);
  if (!made) return ENOMEM;
  *block = made;
  return 0;
}
