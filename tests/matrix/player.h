/* One rank's part of the cases, side by side with the others. */
#ifndef TESTS_MATRIX_PLAYER_H
#define TESTS_MATRIX_PLAYER_H

#include <stdatomic.h>

#include "cuda/gpu.h"
#include "matrix.h"

/* What all ranks share. */
typedef struct scene {
  const matrix_ranks *ranks;
  const matrix_case *cases;
  size_t n;
  matrix_spoil spoil;
  reference *references[2][GLOO_DTYPE_COUNT][REFERENCE_OPS][INPUTS_KINDS];
  uint64_t *digests;         /* [n][ranks] of results that must be the same */
  atomic_int *arrived;       /* [n] digests that are there */
  gloo_custom_op *custom[2]; /* affine, bytes */
  atomic_int told;
  atomic_uchar *failed, *spoiled; /* [n] */
} scene;

/* Memory of a rank for one buffer, kept from case to case. */
typedef struct area {
  uint8_t *heap, *shared; /* shared: from gloo_alloc */
  size_t heap_bytes, shared_bytes;
  uint8_t *gpu[GPU_KINDS];
  size_t gpu_bytes[GPU_KINDS];
} area;

enum { GUARD = 64, FILLER = 0xa5 };

/* With GUARD bytes on either side. Where it is a GPU's, this is what the test
 * fills and looks at, and `given` is what calls get. */
typedef struct buffer {
  uint8_t *at, *given;
  size_t bytes;
  gpu_kind kind;
} buffer;

/* An input block, in elements from the beginning of its buffer. */
typedef struct placed {
  size_t first, n, block;
  int number;
} placed;

typedef struct player {
  rank_env *env;
  scene *scene;
  area areas[2]; /* in, out */
  int device;    /* of buffers that are a GPU's */
  gpu_stream stream, other;
  /* Of the current case: */
  const matrix_case *c;
  size_t index;
  matrix_shape shape;
  bool ordered, is_prefix; /* of some ranks, for most */
  const reference *reference;
  size_t element; /* bytes */
  buffer in, out;
  gpu_stream order;                  /* of calls; NULL: the default one */
  placed inputs[MATRIX_MOST_BLOCKS]; /* in ascending order; in place: in out */
  size_t n_inputs;
  bool failed;
} player;

/* ---- run.c --------------------------------------------------------------- */

/* The case has failed on this rank. */
void player_tell(player *p, const char *what);

/* ---- play.c -------------------------------------------------------------- */

/* The whole of the case. false: the ranks cannot go on. */
bool player_run(player *p);

/* ---- contents.c ---------------------------------------------------------- */

/* Buffers for the case. false: out of memory. */
bool player_make_buffers(player *p);
void player_free_buffers(player *p);

/* All of both, before a call. Runs of one operation differ. Where a buffer is a
 * GPU's this goes on when it returns, in the order of the stream. */
void player_fill(player *p, int run);

/* Have what GPUs have, after a call: in that order, or at once. */
void player_fetch(player *p, bool in_order);
bool player_has_gpu(const player *p);

/* Every byte of both, after it. */
void player_check(player *p, int run);

/* Of the result's blocks. What is between them is each rank's own. */
uint64_t player_digest(const player *p);

/* Is there more than one right result? */
bool player_is_loose(const player *p);

/* ---- spoil.c ------------------------------------------------------------- */

/* As if the call had done it: what the scene asks for. */
void player_spoil(player *p);

#endif
