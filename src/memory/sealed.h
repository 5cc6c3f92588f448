/* Memory without a name, of a size that nobody can change, which processes hand
 * to each other as a descriptor. Linux only; elsewhere sealed_absent.c says so
 * in its place.
 *
 * Functions that return int return 0 or an errno. */
#ifndef GLI_MEMORY_SEALED_H
#define GLI_MEMORY_SEALED_H

#include <stddef.h>
#include <stdint.h>

/* Make memory of `bytes` and map it. Its pages are there when this returns:
 * using them cannot fail for want of memory. It takes at most so many
 * hundredths of what the machine and the control group have left (ENOMEM), and
 * leaves so many of the descriptors that this process may have to others
 * (EMFILE). `what` says what failed. */
int gli_sealed_make(size_t bytes, unsigned most_percent,
                    unsigned spare_fds_percent, int *fd, void **memory,
                    const char **what);

/* Is this memory of just this size, which cannot change any more and has all
 * its pages? EINVAL: it is something else. */
int gli_sealed_check(int fd, uint64_t bytes);

/* Map memory that gli_sealed_check approved of, anywhere or over what is at
 * `memory` now. */
int gli_sealed_map(int fd, size_t bytes, void **memory);
int gli_sealed_map_over(int fd, size_t bytes, void *memory);

/* Make the page tables now rather than at first use. */
void gli_sealed_populate(void *memory, size_t bytes);

/* Let the addresses stay, with memory of nobody else behind them. */
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
