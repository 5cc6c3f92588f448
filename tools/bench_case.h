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
  GLI_BENCH_CUDA   /* of GPU `rank` modulo how many there are */
} gli_bench_memory;
const char *gli_bench_memory_name(gli_bench_memory memory);

/* What is measured, without a size. */
typedef struct gli_bench_call {
  gli_collective collective;
  gloo_dtype dtype;
  gloo_op op;
  int root;
  bool in_place;
  gli_bench_memory memory; /* of the buffers */
  /* Do they begin so far behind the start of a page, or where malloc has room?
   */
  bool placed;
  size_t offset;
  const char *algorithm; /* NULL: the library's choice */
} gli_bench_call;

/* `shared_buffers` of a context for it; what GLOO_SHARED_BUFFERS says counts.
 */
int gli_bench_promises_buffers(const gli_bench_call *call);

typedef struct gli_bench_case {
  gli_bench_call call;
  gloo_context *context;
  int rank, ranks;
  int partner;  /* sendrecv: the other rank of the pair, itself, or -1: idle */
  size_t count; /* elements of a block; of the unit of those that differ */
  size_t *counts; /* [ranks] of blocks that differ in length, else NULL */
  uint64_t bytes; /* of the larger buffer: what is reported */
  size_t in_bytes, out_bytes; /* 0: no such buffer */
  size_t in_count, in_at;     /* the input, and where in the output it lies when
                                 the call is in place; elements */
  gli_period input, expected; /* expected: unless it differs by block */
} gli_bench_case;

/* What the host writes and reads: those of a GPU have images. */
typedef struct gli_bench_buffers {
  void *in, *out, *in_image, *out_image;
  gli_bench_memory memory;
  size_t offset; /* as in the call: what was allocated begins before */
} gli_bench_buffers;

/* Is there such a case? */
bool gli_case_knows(gli_collective collective);

/* The case whose larger buffer has about `bytes` bytes: rounded down to whole
 * elements per rank, but at least one. Where blocks differ in length, those of
 * ranks 0, 1, 2, ... are 2, 1, 3, 2, 0, 2, 1, ... units long, and of an
 * alltoallv that from rank i to rank j is as long as block i + j. False when
 * memory runs out, with nothing to destroy. */
bool gli_case_init(gli_bench_case *c, const gli_bench_call *call,
                   gloo_context *context, uint64_t bytes);
void gli_case_destroy(gli_bench_case *c);
/* The size that such a case has. */
uint64_t gli_case_bytes(const gli_bench_call *call, int ranks, uint64_t bytes);

/* False when there is no such memory; it has said why where that is not that
 * memory ran out. The buffers are written to. */
bool gli_case_allocate(const gli_bench_case *c, gli_bench_buffers *buffers);
void gli_case_free(gli_bench_buffers *buffers);

/* Does this rank work in place? */
bool gli_case_in_place(const gli_bench_case *c);

/* Write the inputs, and nonsense wherever results will come. False: a GPU would
 * not have it, and it has said why. */
bool gli_case_fill(const gli_bench_case *c, const gli_bench_buffers *buffers);

/* What a program does before and after a call: it writes its input, so that no
 * other core has a copy of that in its caches any more, and reads the result.
 * No value changes. Nothing with memory of GPUs, which the host does not use.
 */
void gli_case_produce(const gli_bench_case *c,
                      const gli_bench_buffers *buffers);
void gli_case_consume(const gli_bench_case *c,
                      const gli_bench_buffers *buffers);

/* The call that is timed: bench_call.c. */
gloo_status gli_case_run(const gli_bench_case *c,
                         const gli_bench_buffers *buffers, gloo_error *error);

/* Are the results exactly what they must be? If not, `where` says which
 * element is wrong. */
#define GLI_CASE_WHERE 160
bool gli_case_check(const gli_bench_case *c, const gli_bench_buffers *buffers,
                    char where[GLI_CASE_WHERE]);

#endif
