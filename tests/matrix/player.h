/* One rank's execution of the cases, concurrently with the others. */
#ifndef TESTS_MATRIX_PLAYER_H
#define TESTS_MATRIX_PLAYER_H

#include <stdatomic.h>

#include "cuda/gpu.h"
#include "matrix.h"

/* State shared by all ranks. */
typedef struct scene {
  const matrix_ranks *ranks;
  const matrix_case *cases;
  size_t n;
  matrix_spoil spoil;
  reference *references[2][GLOO_DTYPE_COUNT][REFERENCE_OPS][INPUTS_KINDS];
  uint64_t *digests;         /* [n][ranks] digests of results that must agree */
  atomic_int *arrived;       /* [n] number of digests stored */
  gloo_custom_op *custom[2]; /* affine, bytes */
  atomic_int told;
  atomic_uchar *failed, *spoiled; /* [n] */
} scene;

/* Memory of a rank for one buffer, reused from case to case. */
typedef struct area {
  uint8_t *heap, *shared; /* shared: from gloo_alloc */
  size_t heap_bytes, shared_bytes;
  uint8_t *gpu[GPU_KINDS];
  size_t gpu_bytes[GPU_KINDS];
} area;

enum { GUARD = 64, FILLER = 0xa5 };

/* A buffer with GUARD bytes on either side. For GPU memory, `at` is the host
 * copy that the test fills and checks, and calls get `given`. */
typedef struct buffer {
  uint8_t *at, *given;
  size_t bytes;
  gpu_kind kind;
} buffer;

/* Position of an input block, in elements from the beginning of its buffer. */
typedef struct placed {
  size_t first, n, block;
  int number;
} placed;

typedef struct player {
  rank_env *env;
  scene *scene;
  area areas[2]; /* in, out */
  int device;    /* GPU of its device buffers */
  gpu_stream stream, other;
  /* State of the current case: */
  const matrix_case *c;
  size_t index;
  matrix_shape shape;
  bool ordered, is_prefix; /* is_prefix: a scan */
  const reference *reference;
  size_t element; /* bytes */
  buffer in, out;
  gpu_stream order;                  /* for calls; NULL: default stream */
  placed inputs[MATRIX_MOST_BLOCKS]; /* ascending; in place: in `out` */
  size_t n_inputs;
  bool failed;
} player;

/* ---- run.c --------------------------------------------------------------- */

/* Records that the case has failed on this rank. */
void player_tell(player *p, const char *what);

/* ---- play.c -------------------------------------------------------------- */

/* Runs the case. Returns false if the ranks cannot continue. */
bool player_run(player *p);

/* ---- contents.c ---------------------------------------------------------- */

/* Makes the buffers of the case. Returns false if out of memory. */
bool player_make_buffers(player *p);
void player_free_buffers(player *p);

/* Fills both buffers before a call. Runs of one operation differ. For GPU
 * memory the copy may still be in progress on the stream at return. */
void player_fill(player *p, int run);

/* Copies GPU buffers to the host after a call: on the stream of the calls, or
 * on another. */
void player_fetch(player *p, bool in_order);
bool player_has_gpu(const player *p);

/* Checks every byte of both buffers after a call. */
void player_check(player *p, int run);

/* Returns a digest of the result's blocks. Bytes between blocks differ between
 * ranks and are excluded. */
uint64_t player_digest(const player *p);

/* Returns true if more than one result is correct. */
bool player_is_loose(const player *p);

/* ---- spoil.c ------------------------------------------------------------- */

/* Inserts the error that the scene asks for, as if the call had made it. */
void player_spoil(player *p);

#endif
