/* Memory that the ranks of one host, and RDMA devices, reach directly.
 *
 * A message between two processes is copied at least twice: into memory that
 * both see, and out of it. Memory from gloo_alloc is seen by both from the
 * start. Collectives whose buffers lie in it move large messages without these
 * copies, and the fastest ones (allreduce and others on one host) are chosen
 * for it alone. Any rank may use it or not, each for itself; results are the
 * same. Programs all of whose large buffers lie in it say so (`shared_buffers`
 * in gloo_context_options), and get more of the algorithms that are made for
 * it. Between hosts RDMA devices read and write it where it lies; elsewhere,
 * and in one process, it is memory like any other.
 *
 * Use it for the large buffers that a program keeps: gradients, activations.
 * Each allocation takes whole pages; those of up to 64 KiB share regions of 1
 * MiB, larger ones have one of their own. A region takes a file descriptor (a
 * quarter of those that the process may have is left to others), its pages are
 * there when the call returns (about 0.3 ms per MiB, a tenth of that with huge
 * pages, which are asked for and come where the system has
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled set to "advise"), and each
 * peer maps it when it first gets a large message from it.
 *
 * Peers. Other ranks of the same user can read and write the whole region.
 * They do so only within the ranges and the time that an operation gives them.
 * When an operation ends with an error, what it had exposed is cut off from
 * them, so nothing is written after it has returned; the other allocations of
 * that region stay as they are, but peers are not given them any more.
 *
 * fork. Parent and child see the same memory, not copies of it: what one
 * writes, the other reads. A child may use it, with contexts of its own too,
 * and free its own view of it, of which other ranks do not hear. The system has
 * the pages back when both have. A program that is run by exec has none of it.
 *
 * Example:
 *
 *     float *new_gradient(size_t count) {
 *       void *memory;
 *       gloo_error error;
 *       if (gloo_alloc(count * sizeof(float), &memory, &error) == GLOO_OK)
 *         return memory;
 *       fprintf(stderr, "%s\n", error.message);
 *       return NULL;
 *     }
 */
#ifndef GLOO_C_MEMORY_H
#define GLOO_C_MEMORY_H

#include <stddef.h>

#include "gloo_c/status.h"
#include "gloo_c/visibility.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocate memory, filled with zeros. No bytes are as good as one.
 *
 * Where memory cannot be shared (limits on open files, file sizes or memory;
 * systems other than Linux) this is ordinary memory, with the same promises but
 * without the speed; why is logged once per reason at level warn.
 * Shape: at least `bytes` bytes, from the start of a page.
 * Errors: GLOO_ERR_NO_MEMORY when there is none of either kind,
 * GLOO_ERR_INVALID when `memory` is NULL.
 * Threads: any; before there is a context, and after. Ownership: *memory is the
 * caller's; gloo_free.
 * Cost: about 0.3 ms per MiB, for its pages. */
GLOO_API gloo_status gloo_alloc(size_t bytes, void **memory, gloo_error *error);

/* Free what gloo_alloc gave; NULL is ignored. No operation may be using it, and
 * persistent operations on it must not be started again. Ranks that have mapped
 * it hear of this when first this rank and then they wait for an operation of a
 * context that they share, or destroy that; the system has the pages back then.
 * Shape: the address that gloo_alloc gave.
 * Errors: none. Threads: any. Ownership: the memory is gone. */
GLOO_API void gloo_free(void *memory);

/* ---- memory of the program's own ----------------------------------------- */

/* Let RDMA devices read and write the `bytes` bytes at `memory`: from malloc, a
 * mapping, or a framework's allocator, and kept for long. Between ranks that
 * talk by RDMA, long messages from and to there are not copied, as with memory
 * of gloo_alloc. A message counts that lies in one registered range as a whole.
 * To shared memory and TCP it is memory like any other; between the ranks of
 * one host gloo_alloc is what helps.
 *
 * Until it is deregistered the range must stay mapped as it is. What unmaps it,
 * moves it or gives its pages back (free, realloc, munmap, mremap, madvise with
 * MADV_DONTNEED, MADV_FREE or MADV_REMOVE) leaves devices with pages that the
 * program does not see any more: messages have wrong contents then, and nothing
 * tells. So a buffer is deregistered before it is freed.
 *
 * Devices take the memory, and lock its pages, when they have the first long
 * message for it. One that cannot (RLIMIT_MEMLOCK, memory that is not writable)
 * has messages copied, as before, and a line at level info says so once.
 *
 * Peers to which a buffer was shown in this way can write to the whole range
 * until it is deregistered. They do so only within the buffers and the time
 * that an operation gives them; after an error the connection is gone through
 * which they could.
 *
 * fork. A child has copies of the memory, and of the registration: it may use
 * both with contexts of its own. Before Linux 5.12 a child lacks the pages that
 * a device had taken, with all that is on them: let ranges begin and end at
 * pages there.
 *
 * Shape: any address and length, but no byte may be in another registered range
 * or in memory of gloo_alloc.
 * Errors: GLOO_ERR_INVALID for NULL, for no bytes, for more than there can be
 * from there on, and for a range that holds bytes of another one or of
 * gloo_alloc's; GLOO_ERR_NO_MEMORY when there is none to note it, or there are
 * 262,144 regions already. That the memory is there is not checked.
 * Threads: any; before there is a context, and after. Ownership: the memory
 * stays the caller's.
 * Cost: a note in a table. The first long message that a device has for it
 * takes longer, by the time that locking all pages of the range takes. */
GLOO_API gloo_status gloo_memory_register(void *memory, size_t bytes,
                                          gloo_error *error);

/* Take it back. No operation may be using any of it, and persistent operations
 * on it copy from now on. When this returns, no device of this process reads or
 * writes the memory, and no peer can write to it.
 *
 * Shape: the address that gloo_memory_register was given.
 * Errors: GLOO_ERR_INVALID where no registered range begins there.
 * Threads: any. Ownership: the memory stays the caller's.
 * Cost: for each device that has taken it, that its pages are unlocked. */
GLOO_API gloo_status gloo_memory_deregister(void *memory, gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
