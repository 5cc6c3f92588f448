/* Memory that the ranks of one host, and RDMA devices, access directly.
 *
 * A message between two processes is copied at least twice: into shared memory,
 * and out of it. Memory from gloo_alloc is shared from the start. Collectives
 * on such buffers move large messages without these copies, and the fastest
 * algorithms (allreduce and others on one host) are chosen only for it. Each
 * rank decides for itself whether to use it; results are the same. A program
 * that allocates all large buffers this way sets `shared_buffers` in
 * gloo_context_options to get more of the algorithms for shared buffers.
 * Between hosts RDMA devices read and write it in place. Otherwise, and within
 * one process, it is ordinary memory.
 *
 * Use it for large buffers that a program keeps: gradients, activations. Each
 * allocation takes whole pages; allocations of up to 64 KiB share regions of 1
 * MiB, larger ones have their own region. A region needs a file descriptor (the
 * library leaves a quarter of the process's limit free). Its pages are
 * populated when the call returns, which takes about 0.3 ms per MiB, or a tenth
 * of that with huge pages; the library requests these and gets them if
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled is "advise". Each peer maps
 * a region with the first large message from it.
 *
 * Peers. Other ranks of the same user can read and write the whole region. The
 * library does so only within the ranges and the time of an operation. When an
 * operation ends with an error, peers lose access to the memory that it had
 * exposed, so nothing is written after it has returned; other allocations of
 * that region stay valid, but are no longer exposed to peers.
 *
 * fork. Parent and child share the same memory, not copies: each reads what the
 * other writes. A child may use it, also with its own contexts, and free its
 * own mapping without an effect on other ranks. The system frees the pages when
 * both have freed them. A program run by exec has no such memory.
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

/* Allocates memory, filled with zeros. 0 bytes are allocated like 1.
 *
 * If memory cannot be shared (limits on open files, file sizes or memory;
 * systems other than Linux) this is ordinary memory, with the same guarantees
 * but without the speed; the reason is logged once at level warn.
 * Shape: at least `bytes` bytes, aligned to a page.
 * Errors: GLOO_ERR_NO_MEMORY if neither kind is available, GLOO_ERR_INVALID if
 * `memory` is NULL.
 * Threads: any; before a context exists, and after. Ownership: *memory is the
 * caller's; free it with gloo_free.
 * Cost: about 0.3 ms per MiB, for its pages. */
GLOO_API gloo_status gloo_alloc(size_t bytes, void **memory, gloo_error *error);

/* Frees memory of gloo_alloc; NULL is ignored. No operation may be using it,
 * and persistent operations on it must not be started again. The system frees
 * the pages when all ranks that have mapped it have unmapped it: after this
 * call this rank, and then they, must wait for an operation of a shared
 * context, or destroy that context.
 * Shape: the address that gloo_alloc returned.
 * Errors: none. Threads: any. Ownership: the memory is invalid afterwards. */
GLOO_API void gloo_free(void *memory);

/* ---- registered memory --------------------------------------------------- */

/* Registers `bytes` bytes at `memory` for RDMA devices: long-lived memory from
 * malloc, a mapping, or a framework's allocator. Between ranks that communicate
 * by RDMA, long messages from and to it are not copied, as with memory of
 * gloo_alloc. This applies to messages that lie within one registered range.
 * For shared memory and TCP it is ordinary memory; between the ranks of one
 * host use gloo_alloc.
 *
 * Until it is deregistered the range must stay mapped as it is. If the program
 * unmaps it, moves it or gives its pages back (free, realloc, munmap, mremap,
 * madvise with MADV_DONTNEED, MADV_FREE or MADV_REMOVE), devices keep pages
 * that the program no longer sees: messages then have wrong contents, without
 * an error. So deregister a buffer before freeing it.
 *
 * A device registers the memory, and locks its pages, with its first long
 * message there. If it cannot (RLIMIT_MEMLOCK, memory that is not writable)
 * messages are copied as before, and a line at level info is logged once.
 *
 * Peers with access to a buffer can write to its whole range until it is
 * deregistered. The library does so only within the buffers and the
 * time of an operation; after an error the connection with that access is
 * closed.
 *
 * fork. A child has copies of the memory, and of the registration: it may use
 * both with its own contexts. Before Linux 5.12 a child lacks the pages that a
 * device has locked, including other data on them: align ranges to pages.
 *
 * Shape: any address and length, but no byte may be in another registered range
 * or in memory of gloo_alloc.
 * Errors: GLOO_ERR_INVALID (NULL, 0 bytes, a length beyond the address space,
 * or a range that overlaps another range or memory of gloo_alloc); GLOO_ERR_NO_MEMORY if memory runs out, or 262,144 regions exist.
 * The call does not check that the memory exists.
 * Threads: any; before a context exists, and after. Ownership: the memory stays
 * the caller's.
 * Cost: an entry in a table. The first long message of a device there takes
 * longer, by the time to lock all pages of the range. */
GLOO_API gloo_status gloo_memory_register(void *memory, size_t bytes,
                                          gloo_error *error);

/* Deregisters a range. No operation may be using any of it, and persistent
 * operations on it copy from now on. When this returns, no device of this
 * process reads or writes the memory, and no peer can write to it.
 *
 * Shape: the address that was passed to gloo_memory_register.
 * Errors: GLOO_ERR_INVALID if no registered range begins there.
 * Threads: any. Ownership: the memory stays the caller's.
 * Cost: unlocking its pages, once for each device. */
GLOO_API gloo_status gloo_memory_deregister(void *memory, gloo_error *error);

/* ---- GPU memory ---------------------------------------------------------- */

/* Gets the number of the GPU that has the byte at `memory`. Calls access all
 * other memory with the processor, so a binding checks that the library knows
 * the memory that its program says is on a GPU.
 *
 * Shape: any address. *gpu is -1 for host memory, also pinned, and for all
 * memory if the library does not use the GPU (GLOO_CUDA=0, GLOO_HIP=0, a build
 * without them, a driver that is not loaded) or the process has not made a
 * device or context.
 * Errors: GLOO_ERR_INVALID if `gpu` is NULL. GLOO_ERR_IO, GLOO_ERR_NO_MEMORY:
 * the driver fails, and the host cannot read the byte.
 * Threads: any. Ownership: the memory stays the caller's. */
GLOO_API gloo_status gloo_memory_locate(const void *memory, int *gpu,
                                        gloo_error *error);

#ifdef __cplusplus
}
#endif
#endif
