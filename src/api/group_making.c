/* The creation of a group: agreement among its ranks.
 *
 * Messages go through the control context. The record of a member holds its
 * request, and its number for the group. After log2 P rounds every member has
 * the records of all (Bruck, Ho, Kipnis, Upfal and Weathersby 1997). In round k
 * a rank sends its 2^k records, its own and those of the ranks after it, to the
 * rank 2^k before it, and compares each record that arrives with its own: ranks
 * that disagree fail in the first round in which they communicate. */
#include <stdlib.h>

#include "api/group_making.h"
#include "core/bytes.h"
#include "core/error.h"
#include "gloo_c/collectives.h"

/* kind, ranks, set, order, group, color, key */
enum { RECORD_BYTES = 4 + 4 + 8 + 8 + 4 + 4 + 4 };

/* ---- records ------------------------------------------------------------- */

static void group_write_record(uint8_t to[RECORD_BYTES],
                               const gli_group_record *c) {
  gli_put_u32(to, c->kind);
  gli_put_u32(to + 4, c->n);
  gli_put_u64(to + 8, c->set);
  gli_put_u64(to + 16, c->order);
  gli_put_u32(to + 24, c->group);
  gli_put_u32(to + 28, (uint32_t)c->color);
  gli_put_u32(to + 32, (uint32_t)c->key);
}

static gli_group_record group_read_record(const uint8_t from[RECORD_BYTES]) {
  return (gli_group_record){.kind = gli_get_u32(from),
                            .n = gli_get_u32(from + 4),
                            .set = gli_get_u64(from + 8),
                            .order = gli_get_u64(from + 16),
                            .group = gli_get_u32(from + 24),
                            .color = (int32_t)gli_get_u32(from + 28),
                            .key = (int32_t)gli_get_u32(from + 32)};
}

static uint32_t group_member(const gli_making *k, uint32_t i) {
  return k->ranks != NULL ? k->ranks[i] : i;
}

static const char *group_difference(const gli_group_record *mine,
                                    const gli_group_record *theirs) {
  if (mine->kind != theirs->kind) return "calls the other function";
  if (mine->n != theirs->n) return "passes a list of a different length";
  if (mine->set != theirs->set) return "lists different ranks";
  return "lists the same ranks in a different order";
}

static gloo_status group_compare(gli_making *k, const gli_group_record *theirs,
                                 uint32_t who) {
  const gli_group_record *mine = &k->mine;
  bool same = mine->kind == theirs->kind && mine->n == theirs->n &&
              mine->set == theirs->set && mine->order == theirs->order;
  if (same) return GLOO_OK;
  uint32_t here = gli_context_root_rank(k->control, group_member(k, k->own));
  uint32_t there = gli_context_root_rank(k->control, group_member(k, who));
  return gli_fail(&k->error, GLOO_ERR_MISMATCH, (int)there,
                  "rank %u calls %s, with %u ranks and tag %u, where rank %u "
                  "%s (%u ranks): the members of a group must agree on it",
                  here, k->function, mine->n, k->options.tag, there,
                  group_difference(mine, theirs), theirs->n);
}

/* ---- rounds -------------------------------------------------------------- */

/* Returns the number of records in the next round, and its two partners. */
static uint32_t making_round(const gli_making *k, int *to, int *from) {
  *to = (int)group_member(k, (k->own + k->n - k->have) % k->n);
  *from = (int)group_member(k, (k->own + k->have) % k->n);
  return k->have < k->n - k->have ? k->have : k->n - k->have;
}

/* Takes the records of a round and checks that they agree with this rank's. */
static gloo_status making_take(gli_making *k) {
  int to, from;
  uint32_t end = k->have + making_round(k, &to, &from);
  gloo_status status = GLOO_OK;
  for (uint32_t i = k->have; i < end && status == GLOO_OK; i++) {
    gli_group_record theirs =
        group_read_record(k->records + (size_t)i * RECORD_BYTES);
    status = group_compare(k, &theirs, (k->own + i) % k->n);
  }
  k->have = end;
  return status;
}

/* ---- from records to members --------------------------------------------- */

typedef struct place {
  int32_t key;
  gli_member member;
} place;

static int group_by_key(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->member.rank < y->member.rank ? -1 : 1;
}

/* Lists the members of this rank's color, in the order of their keys. */
static uint32_t choose_color(const gli_group_record *all, uint32_t n,
                             const gli_group_record *mine, place *places) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (all[i].group == 0 || all[i].color != mine->color) continue;
    places[count++] = (place){all[i].key, {i, all[i].group}};
  }
  qsort(places, count, sizeof *places, group_by_key);
  return count;
}

static gloo_status group_form(gloo_context *group, const gloo_context *context,
                              const place *places, uint32_t n,
                              int64_t timeout_ns, gloo_error *error) {
  gli_member *members = calloc(n, sizeof *members);
  if (members == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "out of memory for a group of %u ranks", n);
  }
  uint32_t own = 0;
  for (uint32_t i = 0; i < n; i++) {
    members[i] = places[i].member;
    if (members[i].rank == (uint32_t)gloo_context_rank(context)) own = i;
  }
  gloo_status status =
      gli_group_form(group, context, members, n, own, timeout_ns, error);
  free(members);
  return status;
}

/* ---- creation ------------------------------------------------------------ */

void gli_making_free(gli_making *k) {
  free(k->records);
  free(k->ranks);
  free(k);
}

gli_making *gli_making_new(gloo_context *context, const char *function,
                           gloo_error *error) {
  gli_making *k = calloc(1, sizeof *k);
  if (k == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "%s: out of memory", function);
    return NULL;
  }
  k->context = context;
  k->device = gloo_context_device(context);
  k->function = function;
  gli_error_clear(&k->error);
  return k;
}

gloo_status gli_making_begin(gli_making *k, bool joins) {
  k->records = malloc((size_t)k->n * RECORD_BYTES);
  if (k->records == NULL)
    return gli_fail(&k->error, GLOO_ERR_NO_MEMORY, -1,
                    "%s: out of memory for the address records of %u ranks",
                    k->function, k->n);
  gloo_status status = gli_context_control(k->context, &k->control, &k->error);
  if (status == GLOO_OK && joins)
    status = gli_group_begin(k->context, &k->group, &k->error);
  if (status != GLOO_OK) return status;
  if (k->group != NULL) k->mine.group = gli_group_id(k->group);
  group_write_record(k->records, &k->mine);
  k->have = 1;
  return GLOO_OK;
}

/* Forms the group once all records have arrived. In a record of a subset, the
 * key is the position in the list, which all ranks have verified to be the
 * same. */
static gloo_status making_form(gli_making *k) {
  if (k->group == NULL) return GLOO_OK;
  gli_group_record *all = calloc(k->n, sizeof *all);
  place *places = calloc(k->n, sizeof *places);
  gloo_status status;
  if (all == NULL || places == NULL) {
    status = gli_fail(&k->error, GLOO_ERR_NO_MEMORY, -1,
                      "%s: out of memory for %u ranks", k->function, k->n);
  } else {
    for (uint32_t i = 0; i < k->n; i++)
      all[(k->own + i) % k->n] =
          group_read_record(k->records + (size_t)i * RECORD_BYTES);
    uint32_t n = choose_color(all, k->n, &k->mine, places);
    for (uint32_t i = 0; i < n; i++)
      places[i].member.rank = group_member(k, places[i].member.rank);
    status =
        group_form(k->group, k->context, places, n, k->timeout_ns, &k->error);
  }
  free(all);
  free(places);
  return status;
}

void gli_making_fail(gli_making *k, gloo_status status) {
  if (k->error.status == GLOO_OK)
    gli_fail(&k->error, status, -1, "%s failed", k->function);
  if (k->have > 0) (void)gli_context_fail(k->control, &k->error);
  if (k->group != NULL) gloo_context_destroy(k->group);
  k->group = NULL;
}

gloo_status gli_making_block(gli_making *k, gloo_context **out) {
  gloo_status status = GLOO_OK;
  while (status == GLOO_OK && k->have < k->n) {
    int to, from;
    size_t more = making_round(k, &to, &from);
    status = gloo_sendrecv(k->control, k->records, more * RECORD_BYTES, to,
                           k->records + (size_t)k->have * RECORD_BYTES,
                           more * RECORD_BYTES, from, GLOO_UINT8, &k->options,
                           &k->error);
    if (status == GLOO_OK) status = making_take(k);
  }
  if (status == GLOO_OK) status = making_form(k);
  if (status == GLOO_OK)
    *out = k->group;
  else
    gli_making_fail(k, status);
  return status;
}

/* ---- without blocking ---------------------------------------------------- */

static void making_next(gli_making *k);

/* Settles the request and frees the creation. */
static void making_settle(gli_making *k, gloo_status status) {
  if (status == GLOO_OK) status = making_form(k);
  if (status != GLOO_OK) gli_making_fail(k, status);
  bool stored = gli_operation_settle(k->device, &k->request,
                                     status == GLOO_OK ? NULL : &k->error,
                                     k->out, k->group);
  /* The request may be destroyed, or have failed with its context. */
  if (!stored && k->group != NULL) gloo_context_destroy(k->group);
  gli_making_free(k);
}

static void making_round_over(void *user, gloo_request *round,
                              gloo_status status) {
  gli_making *k = user;
  if (status != GLOO_OK) (void)gloo_request_error(round, &k->error);
  gloo_request_destroy(round);
  if (status == GLOO_OK) status = making_take(k);
  if (status == GLOO_OK && k->have < k->n)
    making_next(k);
  else
    making_settle(k, status);
}

static void making_next(gli_making *k) {
  int to, from;
  gloo_request *round;
  size_t more = making_round(k, &to, &from);
  gloo_status status = gloo_sendrecv_start(
      k->control, k->records, more * RECORD_BYTES, to,
      k->records + (size_t)k->have * RECORD_BYTES, more * RECORD_BYTES, from,
      GLOO_UINT8, &k->options, &round, &k->error);
  if (status == GLOO_OK)
    (void)gloo_request_on_done(round, making_round_over, k, NULL);
  else
    making_settle(k, status);
}

gloo_status gli_making_start(gli_making *k, gloo_context **out,
                             gloo_request **request) {
  gloo_request *op;
  gloo_status status =
      gloo_sendrecv_init(k->control, NULL, 0, GLOO_NO_RANK, NULL, 0,
                         GLOO_NO_RANK, GLOO_UINT8, NULL, &op, &k->error);
  if (status != GLOO_OK) return status;
  k->out = out;
  *out = NULL;
  *request = op;
  gli_operation_hold(op, &k->request);
  if (k->n > 1)
    making_next(k);
  else
    making_settle(k, GLOO_OK);
  return GLOO_OK;
}
