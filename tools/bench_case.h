/* One collective at one size: its buffers, the call, and the check. */
#ifndef GLI_TOOLS_BENCH_CASE_H
#define GLI_TOOLS_BENCH_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/collective.h"
#include "gloo_c/gloo_c.h"
#include "tools/bench_values.h"

typedef enum gli_bench_memory {
  GLI_BENCH_MALLOC,
  GLI_BENCH_ALLOC, /* gloo_alloc */
  GLI_BENCH_CUDA,  /* on GPU number `rank`, modulo the number of GPUs */
  GLI_BENCH_HIP    /* likewise */
} gli_bench_memory;
const char *gli_bench_memory_name(gli_bench_memory memory);

/* The measured call, without a size. */
typedef struct gli_bench_call {
  gli_collective collective;
  gloo_dtype dtype;
  gloo_op op;
  int root;
  bool in_place;
  gli_bench_memory memory; /* memory of the buffers */
  /* True if buffers begin `offset` bytes after the start of a page; false if
   * malloc decides. */
  bool placed;
  size_t offset;
  const char *algorithm; /* NULL: the library's choice */
} gli_bench_call;

/* Returns the value of a context's `shared_buffers` for the call;
 * GLOO_SHARED_BUFFERS takes precedence. */
int gli_bench_promises_buffers(const gli_bench_call *call);

typedef struct gli_bench_case {
  gli_bench_call call;
  gloo_context *context;
  int rank, ranks;
  int partner;    /* sendrecv: the other rank of the pair, the rank itself if
                     alone, or -1: idle */
  size_t count;   /* elements of a block, or of the length unit if blocks
                     differ */
  size_t *counts; /* [ranks] lengths of blocks that differ, else NULL */
  uint64_t bytes; /* size of the larger buffer, which is reported */
  size_t in_bytes, out_bytes; /* 0: no such buffer */
  size_t in_count, in_at;     /* elements of the input, and its offset in the
                                 output if the call is in place */
  gli_period input, expected; /* `expected` is unused if results differ by
                                 block */
} gli_bench_case;

/* Buffers, and the images that the host writes and reads: the buffers
 * themselves, or host copies of a GPU's buffers. */
typedef struct gli_bench_buffers {
  void *in, *out, *in_image, *out_image;
  gli_bench_memory memory;
  bool placed;   /* as in the call */
  size_t offset; /* as in the call: the allocation begins earlier */
} gli_bench_buffers;

/* Returns true if the collective can be measured. */
bool gli_case_knows(gli_collective collective);

/* Sets up the case whose larger buffer has about `bytes` bytes: rounded down to
 * whole elements per rank, but at least one. If blocks differ in length, the
 * blocks of ranks 0, 1, 2, ... are 2, 1, 3, 2, 0, 2, 1, ... units long, and the
 * block of an alltoallv from rank i to rank j is as long as block i + j.
 * Returns false if out of memory, with nothing to destroy. */
bool gli_case_init(gli_bench_case *c, const gli_bench_call *call,
                   gloo_context *context, uint64_t bytes);
void gli_case_destroy(gli_bench_case *c);
/* Returns the rounded size of the larger buffer. */
uint64_t gli_case_bytes(const gli_bench_call *call, int ranks, uint64_t bytes);

/* Allocates buffers, and writes to them. Returns false if that fails; it has
 * then printed the cause, except if out of memory. */
bool gli_case_allocate(const gli_bench_case *c, gli_bench_buffers *buffers);
void gli_case_free(gli_bench_buffers *buffers);

/* Returns true if this rank works in place. */
bool gli_case_in_place(const gli_bench_case *c);

/* Writes the inputs, and a pattern wherever results will go. Returns false,
 * after printing the cause, if the copy to a GPU fails. */
bool gli_case_fill(const gli_bench_case *c, const gli_bench_buffers *buffers);

/* The accesses of a program before and after a call: it writes its input, which
 * removes copies from other cores' caches, and reads the result. No value
 * changes. Without effect for GPU memory, which the host does not use. */
void gli_case_produce(const gli_bench_case *c,
                      const gli_bench_buffers *buffers);
void gli_case_consume(const gli_bench_case *c,
                      const gli_bench_buffers *buffers);

/* The timed call: bench_call.c. */
gloo_status gli_case_run(const gli_bench_case *c,
                         const gli_bench_buffers *buffers, gloo_error *error);

/* Returns true if the results are exactly as expected. Otherwise `where` names
 * the wrong element. */
#define GLI_CASE_WHERE 160
bool gli_case_check(const gli_bench_case *c, const gli_bench_buffers *buffers,
                    char where[GLI_CASE_WHERE]);

#endif
