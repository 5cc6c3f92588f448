/* Lifetime of a checker, and its errors. */
#include "proof/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "proof/check_internal.h"
#include "proof/print.h"

#define MAX_STEPS ((uint64_t)8 << 20)

/* ---- life ---------------------------------------------------------------- */

gli_checker *gli_checker_create(uint64_t max_steps) {
  gli_checker *c = calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  c->pool = gli_ranks_pool_create(1);
  if (c->pool == NULL) {
    free(c);
    return NULL;
  }
  c->max_steps = max_steps == 0 ? MAX_STEPS : max_steps;
  gli_raw_init(&c->builder);
  return c;
}

static void free_rank(check_rank *r) {
  free(r->steps);
  free(r->next_first);
  free(r->next);
  free(r->peers);
  free(r->ties);
  gli_pack_free(&r->rest);
  gli_content_free(&r->out);
  gli_content_free(&r->outs);
  gli_content_free(&r->scratch);
  gli_content_free(&r->token);
}

void gli_checker_destroy(gli_checker *c) {
  if (c == NULL) return;
  for (uint32_t i = 0; i < c->rank_capacity; i++) free_rank(&c->ranks[i]);
  free(c->ranks);
  gli_raw_free(&c->builder);
  free(c->fresh);
  free(c->gather);
  gli_depend_free(&c->depend);
  gli_ranks_pool_destroy(c->pool);
  gli_content_free(&c->a);
  gli_content_free(&c->b);
  gli_content_free(&c->result);
  free(c->ready);
  free(c->posts);
  free(c->buckets);
  free(c);
}

/* ---- failing ------------------------------------------------------------- */

gloo_status gli_check_fail(gli_checker *c, uint32_t rank, uint64_t number,
                           const gli_step *step, const char *format, ...) {
  char what[400], which[160];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  gli_print_step(&c->params, step, step->peer, which, sizeof which);
  c->report->failed_step = number;
  return gli_fail(c->error, GLOO_ERR_INTERNAL, (int)rank,
                  "%s of %u ranks, rank %u, step %" PRIu64 " (%s): %s",
                  gli_collective_name(c->params.collective), c->params.size,
                  rank, number, which, what);
}

gloo_status gli_check_no_memory(gli_checker *c) {
  return gli_fail(c->error, GLOO_ERR_NO_MEMORY, -1,
                  "out of memory for checking %s of %u ranks",
                  gli_collective_name(c->params.collective), c->params.size);
}
