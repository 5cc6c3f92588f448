/* In-place calls, overlap and lengths, in one table for all collectives. In
 * place means GLOO_IN_PLACE, or the pointer that it stands for; other overlaps
 * of a call's buffers are refused, and so are impossible lengths. Refusals
 * leave the context usable. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/collective.h"

static const char *transport;

enum { SIZE = 3, COUNT = 5, ROOM = 1024 };

/* Elements of one buffer. */
typedef enum part { NONE, ONE, BLOCKS } part;

typedef struct row {
  gli_collective collective;
  part in, out;                 /* at the root, if there is one */
  bool in_at_root, out_at_root; /* only there */
  bool place;                   /* has an in-place form: at the root only, if
                                   one of the buffers exists only there */
} row;

static const row rows[] = {
    {GLI_BROADCAST, ONE, ONE, true, false, true},
    {GLI_ALLREDUCE, ONE, ONE, false, false, true},
    {GLI_REDUCE, ONE, ONE, false, true, true},
    {GLI_REDUCE_SCATTER, BLOCKS, ONE, false, false, true},
    {GLI_ALLGATHER, ONE, BLOCKS, false, false, true},
    {GLI_ALLTOALL, BLOCKS, BLOCKS, false, false, true},
    {GLI_GATHER, ONE, BLOCKS, false, true, true},
    {GLI_SCATTER, BLOCKS, ONE, true, false, true},
    {GLI_SCAN, ONE, ONE, false, false, true},
    {GLI_EXSCAN, ONE, ONE, false, false, true},
    {GLI_ALLGATHERV, ONE, BLOCKS, false, false, true},
    {GLI_REDUCE_SCATTERV, BLOCKS, ONE, false, false, true},
    {GLI_GATHERV, ONE, BLOCKS, false, true, true},
    {GLI_SCATTERV, BLOCKS, ONE, true, false, true},
    {GLI_ALLTOALLV, BLOCKS, BLOCKS, false, false, true},
    {GLI_SENDRECV, ONE, ONE, false, false, true},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void every_collective_is_in_the_table(void **state) {
  (void)state;
  for (int c = 0; c < GLI_COLLECTIVES; c++) {
    bool found = c == GLI_BARRIER; /* it has no buffers */
    for (size_t i = 0; i < ROWS; i++) found |= (int)rows[i].collective == c;
    if (!found) fail_msg("%s", gli_collective_name((gli_collective)c));
  }
}

/* ---- calls --------------------------------------------------------------- */

/* Calls any collective with `count` elements of int32 per block; the root is
 * 0. */
static gloo_status call(rank_env *env, const row *r, const void *in, void *out,
                        size_t count) {
  gloo_context *c = env->context;
  const gloo_dtype t = GLOO_INT32;
  size_t counts[SIZE], first[SIZE];
  for (size_t i = 0; i < SIZE; i++) {
    counts[i] = count;
    first[i] = i * count;
  }
  int next = (env->rank + 1) % SIZE, previous = (env->rank + SIZE - 1) % SIZE;
  switch (r->collective) {
    case GLI_BROADCAST:
      return gloo_broadcast(c, in, out, count, t, 0, NULL, NULL);
    case GLI_ALLREDUCE:
      return gloo_allreduce(c, in, out, count, t, GLOO_SUM, NULL, NULL);
    case GLI_REDUCE:
      return gloo_reduce(c, in, out, count, t, GLOO_SUM, 0, NULL, NULL);
    case GLI_REDUCE_SCATTER:
      return gloo_reduce_scatter(c, in, out, count, t, GLOO_SUM, NULL, NULL);
    case GLI_ALLGATHER:
      return gloo_allgather(c, in, out, count, t, NULL, NULL);
    case GLI_ALLTOALL:
      return gloo_alltoall(c, in, out, count, t, NULL, NULL);
    case GLI_GATHER:
      return gloo_gather(c, in, out, count, t, 0, NULL, NULL);
    case GLI_SCATTER:
      return gloo_scatter(c, in, out, count, t, 0, NULL, NULL);
    case GLI_SCAN:
      return gloo_scan(c, in, out, count, t, GLOO_SUM, NULL, NULL);
    case GLI_EXSCAN:
      return gloo_exscan(c, in, out, count, t, GLOO_SUM, NULL, NULL);
    case GLI_ALLGATHERV:
      return gloo_allgatherv(c, in, out, counts, first, t, NULL, NULL);
    case GLI_REDUCE_SCATTERV:
      return gloo_reduce_scatterv(c, in, out, counts, t, GLOO_SUM, NULL, NULL);
    case GLI_GATHERV:
      return gloo_gatherv(c, in, count, out, counts, first, t, 0, NULL, NULL);
    case GLI_SCATTERV:
      return gloo_scatterv(c, in, counts, first, out, count, t, 0, NULL, NULL);
    case GLI_ALLTOALLV:
      return gloo_alltoallv(c, in, counts, first, out, counts, first, t, NULL,
                            NULL);
    case GLI_SENDRECV:
      return gloo_sendrecv(c, in, count, next, out, count, previous, t, NULL,
                           NULL);
    default:
      return GLOO_ERR_INTERNAL;
  }
}

static part in_of(const row *r, int rank) {
  return r->in_at_root && rank != 0 ? NONE : r->in;
}

static part out_of(const row *r, int rank) {
  return r->out_at_root && rank != 0 ? NONE : r->out;
}

static size_t elements(part p, size_t count) {
  return p == NONE ? 0 : p == ONE ? count : count * SIZE;
}

static void complain(rank_env *env, const row *r, int line, const char *what) {
  char text[400];
  gloo_error error;
  (void)gloo_context_error(env->context, &error);
  snprintf(text, sizeof text, "%s: %s (%.200s)",
           gli_collective_name(r->collective), what, error.message);
  rank_fail(env, __FILE__, line, text);
}

/* ---- overlap ------------------------------------------------------------- */

static void try_overlap(rank_env *env, const row *r, int32_t *in, int32_t *out,
                        const char *what) {
  gloo_error error;
  gloo_status status = call(env, r, in, out, COUNT);
  (void)gloo_context_error(env->context, &error);
  if (status == GLOO_ERR_BUFFER && strstr(error.message, "overlap")) return;
  complain(env, r, __LINE__, what);
}

static void overlaps(rank_env *env) {
  int32_t *memory = calloc(ROOM, sizeof *memory);
  RANK_CHECK(env, memory != NULL);
  for (size_t i = 0; memory && i < ROWS; i++) {
    const row *r = &rows[i];
    size_t in = elements(in_of(r, env->rank), COUNT);
    size_t out = elements(out_of(r, env->rank), COUNT);
    if (in == 0 || out == 0) continue;
    int32_t *middle = memory + ROOM / 2;
    try_overlap(env, r, middle - (in - 1), middle, "the end of its input");
    try_overlap(env, r, middle + (out - 1), middle, "its input's beginning");
    /* An overlap by a part of an element is refused. */
    int32_t *odd = (int32_t *)(void *)((char *)(middle + out) - 1);
    try_overlap(env, r, odd, middle, "a byte of its input");
  }
  /* Adjacent buffers are valid; all ranks try them together. */
  for (size_t i = 0; memory && i < ROWS && !env->failure[0]; i++) {
    const row *r = &rows[i];
    int32_t *middle = memory + ROOM / 2;
    size_t in = elements(in_of(r, env->rank), COUNT);
    size_t out = elements(out_of(r, env->rank), COUNT);
    RANK_OK(env, call(env, r, middle - in, middle, COUNT));
    RANK_OK(env, call(env, r, middle + out, middle, COUNT));
  }
  free(memory);
}

static void overlapping_buffers_are_refused(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(SIZE, &o, overlaps);
}

/* ---- in place ------------------------------------------------------------ */

/* Returns the position of the input in the output, in place. */
static size_t shift_of(const row *r, int rank) {
  return r->in == ONE && r->out == BLOCKS ? (size_t)rank * COUNT : 0;
}

static int32_t value_at(int rank, size_t i) {
  return (int32_t)(rank * 1000 + (int)(i * i % 97));
}

/* Both ways of in-place calls give the same as separate buffers. Calls with
 * lists on both sides have no equivalent pointer. */
static void try_in_place(rank_env *env, const row *r, int way) {
  int32_t in[COUNT * SIZE], apart[COUNT * SIZE], within[COUNT * SIZE];
  int rank = env->rank;
  bool both = in_of(r, rank) != NONE && out_of(r, rank) != NONE;
  bool reduces = r->collective == GLI_REDUCE; /* other ranks may, too */
  bool mine = both || reduces;
  size_t shift = shift_of(r, rank), n = elements(in_of(r, rank), COUNT);
  for (size_t i = 0; i < COUNT * SIZE; i++) {
    in[i] = value_at(rank, i);
    apart[i] = within[i] = -1;
  }
  if (mine) memcpy(within + shift, in, n * sizeof *in);
  RANK_OK(env, call(env, r, in, apart, COUNT));
  const void *place = way == 0 ? GLOO_IN_PLACE : within + shift;
  if (!mine) place = in;
  RANK_OK(env, call(env, r, place, within, COUNT));
  size_t first = 0, length = elements(out_of(r, rank), COUNT);
  /* An exscan leaves rank 0's output untouched. */
  if (r->collective == GLI_EXSCAN && rank == 0) length = 0;
  bool scatters = r->collective == GLI_SCATTER || r->collective == GLI_SCATTERV;
  if (scatters && mine) first = (size_t)rank * COUNT;
  if (memcmp(within + first, apart, length * sizeof *within) != 0) {
    complain(env, r, __LINE__, way ? "the same pointer" : "GLOO_IN_PLACE");
  }
}

static void places(rank_env *env) {
  for (size_t i = 0; i < ROWS && !env->failure[0]; i++) {
    const row *r = &rows[i];
    try_in_place(env, r, 0);
    if (r->collective != GLI_ALLTOALLV) try_in_place(env, r, 1);
  }
}

static void in_place_gives_the_same(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(SIZE, &o, places);
}

/* ---- in place without an output ------------------------------------------ */

static void no_places(rank_env *env) {
  int32_t data[COUNT * SIZE] = {0};
  for (size_t i = 0; i < ROWS; i++) {
    const row *r = &rows[i];
    /* Ranks other than the root of a gather have an input, but no output. */
    bool nowhere = r->out_at_root && r->out == BLOCKS && env->rank != 0;
    if (!nowhere) continue;
    if (call(env, r, GLOO_IN_PLACE, data, COUNT) != GLOO_ERR_BUFFER) {
      complain(env, r, __LINE__, "in place without an output");
    }
  }
  const void *in = GLOO_IN_PLACE;
  RANK_CHECK(env, gloo_send(env->context, in, 1, GLOO_INT32, 0, NULL, NULL) ==
                      GLOO_ERR_BUFFER);
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void in_place_without_a_place_is_refused(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(SIZE, &o, no_places);
}

/* ---- lengths ------------------------------------------------------------- */

/* Counts whose bytes, alone or over all blocks, overflow in every possible way:
 * 2^62 int32 are 2^64 bytes; 2^61 exceed the range of pointer differences. */
static const size_t too_long[] = {
    SIZE_MAX,     SIZE_MAX / 2,     SIZE_MAX / 3,    SIZE_MAX / 4 + 1,
    SIZE_MAX / 4, SIZE_MAX / 4 - 1, SIZE_MAX / 8 + 1};

static void try_length(rank_env *env, const row *r, size_t count) {
  /* The call does not access these buffers. */
  static int32_t in[1], out[1];
  gloo_error error;
  gloo_status status = call(env, r, in, out, count);
  (void)gloo_context_error(env->context, &error);
  const char *name = gli_collective_name(r->collective);
  bool named = strstr(error.message, name) != NULL;
  bool says = strstr(error.message, "address space") != NULL;
  if (status == GLOO_ERR_COUNT && named && says) return;
  char text[80];
  snprintf(text, sizeof text, "%zu elements", count);
  complain(env, r, __LINE__, text);
}

static void lengths(rank_env *env) {
  for (size_t i = 0; i < ROWS; i++) {
    for (size_t k = 0; k < sizeof too_long / sizeof *too_long; k++) {
      const row *r = &rows[i];
      /* A rank without buffers has no length to refuse. */
      bool idle = in_of(r, env->rank) == NONE && out_of(r, env->rank) == NONE;
      if (!idle) try_length(env, r, too_long[k]);
    }
  }
  RANK_OK(env, gloo_barrier(env->context, NULL, NULL));
}

static void lengths_that_do_not_fit_are_refused(void **state) {
  (void)state;
  ranks_options o = {.transport = transport};
  ranks_run(SIZE, &o, lengths);
}

int main(int argc, char **argv) {
  transport = argc > 1 ? argv[1] : "inproc";
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_collective_is_in_the_table),
      cmocka_unit_test(overlapping_buffers_are_refused),
      cmocka_unit_test(in_place_gives_the_same),
      cmocka_unit_test(in_place_without_a_place_is_refused),
      cmocka_unit_test(lengths_that_do_not_fit_are_refused),
  };
  return cmocka_run_group_tests_name(transport, tests, NULL, NULL);
}
