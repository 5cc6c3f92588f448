/* Memory without a name, of a size that no process can change, which processes
 * hand to each other as a descriptor. Linux only; elsewhere sealed_absent.c
 * says so in its place.
 *
 * Functions that return int return 0 or an errno. */
#ifndef GLI_MEMORY_SEALED_H
#define GLI_MEMORY_SEALED_H

#include <stddef.h>
#include <stdint.h>

typedef struct gli_sealed_want {
  size_t bytes;
  size_t reserved; /* bytes at its start whose pages are to be there */
  /* At most so many hundredths of what the machine and the control group have
   * left, for all of it (ENOMEM). */
  unsigned most_percent;
  /* So many of the descriptors that this process may have are left (EMFILE). */
  unsigned spare_fds_percent;
} gli_sealed_want;

/* Make memory and map it. Using the reserved pages cannot fail for want of
 * memory. `what` says what failed. */
int gli_sealed_make(const gli_sealed_want *want, int *fd, void **memory,
                    const char **what);

/* Reserve the rest of memory that gli_sealed_make has made, which is mapped at
 * `memory`. */
int gli_sealed_reserve_rest(const gli_sealed_want *want, int fd, void *memory);

/* Checks for sealed memory of exactly this size, with this number of bytes'
 * pages. EINVAL: anything else. */
int gli_sealed_check(int fd, uint64_t bytes, uint64_t reserved);

/* Map memory that gli_sealed_check approved of, anywhere or over what is at
 * `memory` now. */
int gli_sealed_map(int fd, size_t bytes, void **memory);
int gli_sealed_map_over(int fd, size_t bytes, void *memory);

/* Make the page tables now rather than at first use. */
void gli_sealed_populate(void *memory, size_t bytes);

/* Let the addresses stay, with memory behind them that no other process has. */
int gli_sealed_blank(void *memory, size_t bytes);

/* Whole pages of it, from `offset`, which are mapped at `memory`, become
 * private to this process, with what they hold at this moment. What other
 * threads write to them meanwhile is kept. */
int gli_sealed_detach(int fd, size_t offset, void *memory, size_t bytes);

/* Copy what the memory itself holds at `offset`. */
int gli_sealed_read(int fd, size_t offset, void *to, size_t bytes);

void gli_sealed_unmap(void *memory, size_t bytes);

/* Close its descriptor; -1 is none. */
void gli_sealed_close(int fd);

#endif
