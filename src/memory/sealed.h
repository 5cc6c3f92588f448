/* Anonymous memory of fixed size, which processes pass to each other as a
 * descriptor. Its size is sealed on Linux and FreeBSD (sealed_memfd.c), and
 * fixed by macOS and Windows. Elsewhere (sealed_shm.c) a process with the
 * descriptor can shrink the memory, and others that access it then get SIGBUS:
 * only processes of the same user get one.
 *
 * Functions that return int return 0 or an errno. */
#ifndef GLI_MEMORY_SEALED_H
#define GLI_MEMORY_SEALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct gli_sealed_want {
  size_t bytes;
  size_t reserved; /* number of bytes at the start whose pages are reserved */
  /* Largest size, in percent of the memory that the machine and the control
   * group have left (else ENOMEM). */
  unsigned most_percent;
  /* Percentage of the descriptors that must remain free (else EMFILE). */
  unsigned spare_fds_percent;
} gli_sealed_want;

/* Makes memory and maps it. Access to the reserved pages cannot fail for lack
 * of memory. `what` is set to the failed step. */
int gli_sealed_make(const gli_sealed_want *want, int *fd, void **memory,
                    const char **what);

/* Reserves the bytes [from, until) of memory from gli_sealed_make, which is
 * mapped at `memory`. `most_percent` is that of gli_sealed_want. */
int gli_sealed_reserve(int fd, void *memory, size_t from, size_t until,
                       unsigned most_percent);

/* Checks that `fd` is sealed memory of exactly this size, with at least
 * `reserved` bytes of pages, as far as the system tells. Returns EINVAL if
 * not. */
int gli_sealed_check(int fd, uint64_t bytes, uint64_t reserved);

/* Map memory that passed gli_sealed_check, at any address or over the current
 * mapping at `memory`. */
int gli_sealed_map(int fd, size_t bytes, void **memory);
int gli_sealed_map_over(int fd, size_t bytes, void *memory);

/* Fills the page tables, before the first access. */
void gli_sealed_populate(void *memory, size_t bytes);
/* Writes to each page, from the first on, without a change, also while other
 * threads write to it. */
void gli_sealed_touch(void *memory, size_t bytes);

/* Replaces the mapping by anonymous memory; the addresses stay valid. */
int gli_sealed_blank(void *memory, size_t bytes);

/* Makes whole pages from `offset`, which are mapped at `memory`, private to
 * this process, with their current contents. Concurrent writes of other threads
 * are preserved. */
int gli_sealed_detach(int fd, size_t offset, void *memory, size_t bytes);

/* Copies the contents of the memory object at `offset`. */
int gli_sealed_read(int fd, size_t offset, void *to, size_t bytes);

void gli_sealed_unmap(void *memory, size_t bytes);

/* Closes the descriptor; -1 is allowed. */
void gli_sealed_close(int fd);

/* ---- what differs by system ---------------------------------------------- */

/* sealed_memfd.c, sealed_shm.c, or sealed_windows.c, which has all functions
 * that exist there */
extern const char gli_sealed_maker[]; /* function that makes memory */
/* True if gli_sealed_detach works. Otherwise peers get no memory to write. */
extern const bool gli_sealed_detaches;
/* True if mappings can be replaced in one step (gli_sealed_map_over,
 * gli_sealed_blank), as is needed for memory that is freed while peers have it.
 * Otherwise gloo_alloc gives ordinary memory. */
extern const bool gli_sealed_replaces;
/* Makes memory of size 0. Returns a descriptor, or -1 with errno. */
int gli_sealed_create(void);
/* Seals the size. */
int gli_sealed_fix(int fd);
/* Returns true if the size is fixed, or nothing but memory can be behind the
 * descriptor. */
bool gli_sealed_is_fixed(int fd, const struct stat *status);

/* sealed_linux.c or sealed_posix.c */
/* Reserves pages of memory that is mapped at `memory`. */
int gli_sealed_allocate(int fd, uint8_t *memory, size_t from, size_t bytes);
bool gli_sealed_has_pages(const struct stat *status, uint64_t bytes);
/* Makes huge pages if the system does so on request. */
void gli_sealed_populate_huge(void *memory, size_t bytes);

#endif
