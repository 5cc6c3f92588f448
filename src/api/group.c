/* Public groups: split and subset.
 *
 * The members meet in the control context of the context. The record of a
 * member says what it asks for, and the number by which it will know the group.
 * After log2 P rounds every member has the records of all (Bruck, Ho, Kipnis,
 * Upfal and Weathersby 1997). In round k a rank sends its 2^k records, its own
 * and those of the ranks after it, to the rank 2^k before it, and compares each
 * record that arrives with its own: ranks that disagree fail in the first round
 * in which they communicate. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/options.h"
#include "engine/engine.h"
#include "gloo_c/collectives.h"
#include "kernels/custom_op.h"

enum { SPLIT = 1, SUBSET = 2 };

/* kind, ranks, set, order, group, color, key */
enum { RECORD_BYTES = 4 + 4 + 8 + 8 + 4 + 4 + 4 };

/* Describes what one rank asks for. All fields but the last three are equal on
 * all ranks. */
typedef struct record {
  uint32_t kind, n;
  uint64_t set;   /* hash of the ranks of a subset, in ascending order */
  uint64_t order; /* and in the order given */
  uint32_t group; /* what this rank calls the group; 0: it is in none */
  int32_t color, key;
} record;

/* The members that meet. */
typedef struct meeting {
  const char *function; /* for sentences */
  gloo_context *control;
  const uint32_t *ranks; /* [n] of the context, ascending; NULL: all */
  uint32_t n, own;
  gloo_options options;
  gloo_error *error; /* never NULL */
} meeting;

/* ---- address records ----------------------------------------------------- */

static void group_write_record(uint8_t to[RECORD_BYTES], const record *c) {
  gli_put_u32(to, c->kind);
  gli_put_u32(to + 4, c->n);
  gli_put_u64(to + 8, c->set);
  gli_put_u64(to + 16, c->order);
  gli_put_u32(to + 24, c->group);
  gli_put_u32(to + 28, (uint32_t)c->color);
  gli_put_u32(to + 32, (uint32_t)c->key);
}

static record group_read_record(const uint8_t from[RECORD_BYTES]) {
  return (record){.kind = gli_get_u32(from),
                  .n = gli_get_u32(from + 4),
                  .set = gli_get_u64(from + 8),
                  .order = gli_get_u64(from + 16),
                  .group = gli_get_u32(from + 24),
                  .color = (int32_t)gli_get_u32(from + 28),
                  .key = (int32_t)gli_get_u32(from + 32)};
}

/* FNV-1a, 64 bits. */
static uint64_t hash_ranks(const uint32_t *ranks, uint32_t n) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (uint32_t i = 0; i < n; i++) {
    for (int byte = 0; byte < 4; byte++) {
      hash = (hash ^ (ranks[i] >> 8 * byte & 0xff)) * UINT64_C(0x100000001b3);
    }
  }
  return hash;
}

static uint32_t group_member(const meeting *m, uint32_t i) {
  return m->ranks != NULL ? m->ranks[i] : i;
}

static const char *group_difference(const record *mine, const record *theirs) {
  if (mine->kind != theirs->kind) return "calls another of the two";
  if (mine->n != theirs->n) return "gives a list of another length";
  if (mine->set != theirs->set) return "gives a list of other ranks";
  return "gives the same ranks in another order";
}

static gloo_status group_compare(const meeting *m, const record *mine,
                                 const record *theirs, uint32_t who,
                                 gloo_error *error) {
  bool same = mine->kind == theirs->kind && mine->n == theirs->n &&
              mine->set == theirs->set && mine->order == theirs->order;
  if (same) return GLOO_OK;
  uint32_t here = gli_context_root_rank(m->control, group_member(m, m->own));
  uint32_t there = gli_context_root_rank(m->control, group_member(m, who));
  return gli_fail(error, GLOO_ERR_MISMATCH, (int)there,
                  "rank %u calls %s, with %u ranks and tag %u, where rank %u "
                  "%s (%u ranks): the members of a group must agree on it",
                  here, m->function, mine->n, m->options.tag, there,
                  group_difference(mine, theirs), theirs->n);
}

/* ---- the meeting --------------------------------------------------------- */

/* Every address record that came in a round is of a member that agrees with
 * this rank. */
static gloo_status group_check_round(const meeting *m, const record *mine,
                                     const uint8_t *records, uint32_t have,
                                     uint32_t more) {
  for (uint32_t i = have; i < have + more; i++) {
    record theirs = group_read_record(records + (size_t)i * RECORD_BYTES);
    gloo_status status =
        group_compare(m, mine, &theirs, (m->own + i) % m->n, m->error);
    if (status != GLOO_OK) return status;
  }
  return GLOO_OK;
}

/* Sorts the records by member. */
static void group_sort_records(const meeting *m, const uint8_t *records,
                               record *all) {
  for (uint32_t i = 0; i < m->n; i++)
    all[(m->own + i) % m->n] =
        group_read_record(records + (size_t)i * RECORD_BYTES);
}

/* ---- from address records to members ------------------------------------- */

typedef struct place {
  int32_t key;
  gli_member member;
} place;

static int group_by_key(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->member.rank < y->member.rank ? -1 : 1;
}

/* Lists the members of the own color, in the order of their keys. */
static uint32_t choose_color(const record *all, uint32_t n, const record *mine,
                             place *places) {
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

/* ---- making it ----------------------------------------------------------- */

/* The state of a group under creation: records[i] is the record of member own +
 * i, and `have` records have arrived. */
typedef struct making {
  meeting m;
  record mine;
  gloo_context *context, *group; /* NULL: this rank is in none */
  int64_t timeout_ns;
  uint8_t *records; /* [m.n] */
  uint32_t have;
  uint32_t *ranks; /* m.ranks, which is ours; or NULL */
  gloo_error error;
  /* Without blocking: the request that stands for it, until it is settled. */
  gloo_device *device;
  gloo_request *request;
  gloo_context **out;
} making;

static void making_free(making *k) {
  free(k->records);
  free(k->ranks);
  free(k);
}

/* NULL: out of memory. */
static making *making_new(gloo_context *context, const char *function,
                          gloo_error *error) {
  making *k = calloc(1, sizeof *k);
  if (k == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "%s: out of memory", function);
    return NULL;
  }
  k->context = context;
  k->device = gloo_context_device(context);
  k->m.function = function;
  k->m.error = &k->error;
  gli_error_clear(&k->error);
  return k;
}

/* Once a group is known here, others count on us: what fails then fails for
 * all. */
static gloo_status making_begin(making *k, bool joins) {
  meeting *m = &k->m;
  k->records = malloc((size_t)m->n * RECORD_BYTES);
  if (k->records == NULL)
    return gli_fail(&k->error, GLOO_ERR_NO_MEMORY, -1,
                    "%s: out of memory for the address records of %u ranks",
                    m->function, m->n);
  gloo_status status = gli_context_control(k->context, &m->control, &k->error);
  if (status == GLOO_OK && joins)
    status = gli_group_begin(k->context, &k->group, &k->error);
  if (status != GLOO_OK) return status;
  if (k->group != NULL) k->mine.group = gli_group_id(k->group);
  group_write_record(k->records, &k->mine);
  k->have = 1;
  return GLOO_OK;
}

/* How many records come in the next round, and which ranks it is with. */
static uint32_t making_round(const making *k, int *to, int *from) {
  const meeting *m = &k->m;
  *to = (int)group_member(m, (m->own + m->n - k->have) % m->n);
  *from = (int)group_member(m, (m->own + k->have) % m->n);
  return k->have < m->n - k->have ? k->have : m->n - k->have;
}

/* Takes the records of a round and checks that they agree. */
static gloo_status making_take(making *k) {
  int to, from;
  uint32_t more = making_round(k, &to, &from);
  gloo_status status =
      group_check_round(&k->m, &k->mine, k->records, k->have, more);
  k->have += more;
  return status;
}

/* Forms the group once all records have arrived. The key of a record of a
 * subset is its position in the list, which all ranks have checked to be the
 * same. */
static gloo_status making_form(making *k) {
  const meeting *m = &k->m;
  if (k->group == NULL) return GLOO_OK;
  record *all = calloc(m->n, sizeof *all);
  place *places = calloc(m->n, sizeof *places);
  gloo_status status;
  if (all == NULL || places == NULL) {
    status = gli_fail(&k->error, GLOO_ERR_NO_MEMORY, -1,
                      "%s: out of memory for %u ranks", m->function, m->n);
  } else {
    group_sort_records(m, k->records, all);
    uint32_t n = choose_color(all, m->n, &k->mine, places);
    for (uint32_t i = 0; i < n; i++)
      places[i].member.rank = group_member(m, places[i].member.rank);
    status =
        group_form(k->group, k->context, places, n, k->timeout_ns, &k->error);
  }
  free(all);
  free(places);
  return status;
}

/* Ends a creation that failed, although others may already have heard of the
 * group. */
static void making_fail(making *k, gloo_status status) {
  if (k->error.status == GLOO_OK)
    gli_fail(&k->error, status, -1, "%s failed", k->m.function);
  if (k->have > 0) (void)gli_context_fail(k->m.control, &k->error);
  if (k->group != NULL) gloo_context_destroy(k->group);
  k->group = NULL;
}

static gloo_status making_block(making *k, gloo_context **out) {
  gloo_status status = GLOO_OK;
  while (status == GLOO_OK && k->have < k->m.n) {
    int to, from;
    size_t more = making_round(k, &to, &from);
    status = gloo_sendrecv(k->m.control, k->records, more * RECORD_BYTES, to,
                           k->records + (size_t)k->have * RECORD_BYTES,
                           more * RECORD_BYTES, from, GLOO_UINT8, &k->m.options,
                           &k->error);
    if (status == GLOO_OK) status = making_take(k);
  }
  if (status == GLOO_OK) status = making_form(k);
  if (status == GLOO_OK)
    *out = k->group;
  else
    making_fail(k, status);
  return status;
}

/* ---- without blocking ---------------------------------------------------- */

static void making_next(making *k);

/* The last thing that is done with it. */
static void making_settle(making *k, gloo_status status) {
  if (status == GLOO_OK) status = making_form(k);
  if (status != GLOO_OK) making_fail(k, status);
  bool stored = gli_operation_settle(k->device, &k->request,
                                     status == GLOO_OK ? NULL : &k->error,
                                     k->out, k->group);
  /* False where the request was destroyed, or failed with its context. */
  if (!stored && k->group != NULL) gloo_context_destroy(k->group);
  making_free(k);
}

static void making_round_over(void *user, gloo_request *round,
                              gloo_status status) {
  making *k = user;
  if (status != GLOO_OK) (void)gloo_request_error(round, &k->error);
  gloo_request_destroy(round);
  if (status == GLOO_OK) status = making_take(k);
  if (status == GLOO_OK && k->have < k->m.n)
    making_next(k);
  else
    making_settle(k, status);
}

static void making_next(making *k) {
  int to, from;
  gloo_request *round;
  size_t more = making_round(k, &to, &from);
  gloo_status status = gloo_sendrecv_start(
      k->m.control, k->records, more * RECORD_BYTES, to,
      k->records + (size_t)k->have * RECORD_BYTES, more * RECORD_BYTES, from,
      GLOO_UINT8, &k->m.options, &round, &k->error);
  if (status == GLOO_OK)
    (void)gloo_request_on_done(round, making_round_over, k, NULL);
  else
    making_settle(k, status);
}

/* A request that stands for it. */
static gloo_status making_start(making *k, gloo_context **out,
                                gloo_request **request) {
  gloo_request *op;
  gloo_status status =
      gloo_sendrecv_init(k->m.control, NULL, 0, GLOO_NO_RANK, NULL, 0,
                         GLOO_NO_RANK, GLOO_UINT8, NULL, &op, &k->error);
  if (status != GLOO_OK) return status;
  k->out = out;
  *out = NULL;
  *request = op;
  gli_operation_hold(op, &k->request);
  if (k->m.n > 1)
    making_next(k);
  else
    making_settle(k, GLOO_OK);
  return GLOO_OK;
}

/* ---- the calls ----------------------------------------------------------- */

static gloo_status making_options(making *k,
                                  const gloo_group_options *options) {
  gloo_group_options ours;
  gloo_status status = gli_options_load(&ours, sizeof ours, options,
                                        "gloo_group_options", &k->error);
  if (status != GLOO_OK) return status;
  k->timeout_ns = ours.timeout_ns;
  k->m.options = (gloo_options){.struct_size = sizeof k->m.options,
                                .timeout_ns = ours.timeout_ns,
                                .tag = ours.tag};
  return GLOO_OK;
}

static gloo_status group_check(const char *function,
                               const gloo_context *context,
                               gloo_context *const *group, gloo_error *error) {
  if (context == NULL || group == NULL) {
    return gli_fail(error, GLOO_ERR_INVALID, -1, "%s: no %s", function,
                    context != NULL ? "place for the group" : "context");
  }
  if (gli_custom_op_inside()) return gli_custom_op_refuse(function, error);
  return gli_context_usable(context, error);
}

static int group_ascending(const void *a, const void *b) {
  const uint32_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* Check a list; `sorted` has room for it, in either order. */
static gloo_status group_read_list(const gloo_context *context,
                                   const int *ranks, uint32_t n,
                                   uint32_t *sorted, meeting *m, record *mine,
                                   gloo_error *error) {
  int size = gloo_context_size(context), rank = gloo_context_rank(context);
  bool in = false;
  for (uint32_t i = 0; i < n; i++) {
    if (ranks[i] < 0 || ranks[i] >= size) {
      return gli_fail(error, GLOO_ERR_RANK, -1,
                      "%s: %d is not a rank; ranks are 0 to %d", m->function,
                      ranks[i], size - 1);
    }
    sorted[i] = (uint32_t)ranks[i];
    if (ranks[i] != rank) continue;
    in = true;
    mine->key = (int32_t)i;
  }
  mine->order = hash_ranks(sorted, n);
  qsort(sorted, n, sizeof *sorted, group_ascending);
  mine->set = hash_ranks(sorted, n);
  for (uint32_t i = 0; i < n; i++) {
    if (sorted[i] == (uint32_t)rank) m->own = i;
    if (i == 0 || sorted[i] != sorted[i - 1]) continue;
    return gli_fail(error, GLOO_ERR_RANK, -1, "%s: rank %u is listed twice",
                    m->function, sorted[i]);
  }
  if (in) return GLOO_OK;
  return gli_fail(error, GLOO_ERR_RANK, -1,
                  "%s: rank %d is not in its own list; only members make a "
                  "group",
                  m->function, rank);
}

/* A split or a subset, in either form. */
typedef struct group_call {
  const char *function;
  bool splits; /* by color and key; else the `n` ranks of a list */
  int color, key;
  const int *ranks;
  size_t n;
  bool starts; /* without blocking: `request` is the place for the request */
  gloo_request **request;
} group_call;

static gloo_status making_describe(making *k, const group_call *call) {
  gloo_context *context = k->context;
  meeting *m = &k->m;
  int size = gloo_context_size(context);
  if (call->splits) {
    m->n = (uint32_t)size;
    m->own = (uint32_t)gloo_context_rank(context);
    k->mine = (record){
        .kind = SPLIT, .n = m->n, .color = call->color, .key = call->key};
    return GLOO_OK;
  }
  if (call->ranks == NULL || call->n < 1 || call->n > (size_t)size)
    return gli_fail(&k->error, GLOO_ERR_RANK, -1,
                    "%s: a list of %zu ranks, of %d", m->function,
                    call->ranks != NULL ? call->n : (size_t)0, size);
  m->n = (uint32_t)call->n;
  k->ranks = calloc(call->n, sizeof *k->ranks);
  if (k->ranks == NULL)
    return gli_fail(&k->error, GLOO_ERR_NO_MEMORY, -1,
                    "%s: out of memory for %zu ranks", m->function, call->n);
  m->ranks = k->ranks;
  k->mine = (record){.kind = SUBSET, .n = m->n};
  return group_read_list(context, call->ranks, m->n, k->ranks, m, &k->mine,
                         &k->error);
}

static gloo_status group_run(gloo_context *context, const group_call *call,
                             const gloo_group_options *options,
                             gloo_context **group, gloo_error *error) {
  gloo_status status = group_check(call->function, context, group, error);
  if (status != GLOO_OK) return status;
  if (call->starts && call->request == NULL)
    return gli_call_no_place(call->function, error);
  making *k = making_new(context, call->function, error);
  if (k == NULL) return GLOO_ERR_NO_MEMORY;
  status = making_options(k, options);
  if (status == GLOO_OK) status = making_describe(k, call);
  if (status == GLOO_OK)
    status = making_begin(k, !call->splits || call->color >= 0);
  if (status == GLOO_OK && call->starts) {
    status = making_start(k, group, call->request);
    if (status == GLOO_OK) return GLOO_OK; /* it sees to itself */
    making_fail(k, status);
  } else if (status == GLOO_OK) {
    status = making_block(k, group);
  } else if (k->group != NULL) {
    gloo_context_destroy(k->group);
  }
  if (status != GLOO_OK && error != NULL) {
    *error = k->error;
    gli_context_localize(context, error);
  }
  making_free(k);
  return status;
}

gloo_status gloo_context_split(gloo_context *context, int color, int key,
                               const gloo_group_options *options,
                               gloo_context **group, gloo_error *error) {
  const group_call call = {.function = "gloo_context_split",
                           .splits = true,
                           .color = color,
                           .key = key};
  return group_run(context, &call, options, group, error);
}

gloo_status gloo_context_split_start(gloo_context *context, int color, int key,
                                     const gloo_group_options *options,
                                     gloo_context **group,
                                     gloo_request **request,
                                     gloo_error *error) {
  const group_call call = {.function = "gloo_context_split_start",
                           .splits = true,
                           .color = color,
                           .key = key,
                           .starts = true,
                           .request = request};
  return group_run(context, &call, options, group, error);
}

gloo_status gloo_context_subset(gloo_context *context, const int *ranks,
                                size_t n, const gloo_group_options *options,
                                gloo_context **group, gloo_error *error) {
  const group_call call = {.function = "gloo_context_subset",
                           .ranks = ranks,
                           .n = ranks != NULL ? n : 0};
  return group_run(context, &call, options, group, error);
}

gloo_status gloo_context_subset_start(gloo_context *context, const int *ranks,
                                      size_t n,
                                      const gloo_group_options *options,
                                      gloo_context **group,
                                      gloo_request **request,
                                      gloo_error *error) {
  const group_call call = {.function = "gloo_context_subset_start",
                           .ranks = ranks,
                           .n = ranks != NULL ? n : 0,
                           .starts = true,
                           .request = request};
  return group_run(context, &call, options, group, error);
}

/* ---- ranks --------------------------------------------------------------- */

int gloo_context_world_rank(const gloo_context *context, int rank) {
  if (context == NULL || rank < 0 || rank >= gloo_context_size(context))
    return -1;
  return (int)gli_context_root_rank(context, (uint32_t)rank);
}

int gloo_context_translate(const gloo_context *from, int rank,
                           const gloo_context *to) {
  int world = gloo_context_world_rank(from, rank);
  if (world < 0 || to == NULL) return -1;
  uint32_t there = (uint32_t)world;
  if (!gli_context_related(from, to))
    there = gli_context_rank_since(from, there, to);
  if (there != UINT32_MAX) there = gli_context_rank_of(to, there);
  return there > INT_MAX ? -1 : (int)there;
}
