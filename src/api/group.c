/* Public groups: split and subset.
 *
 * The members meet in the control context of the context: each has an address
 * record that says what it wants and by what number it will know the group, and
 * after log2 P rounds everybody has the address records of all (Bruck, Ho,
 * Kipnis, Upfal and Weathersby 1997). In round k a rank sends the 2^k address
 * records that it has, its own and those after it, to the rank 2^k before it.
 * It compares each address record with its own as it comes in: so ranks that
 * disagree are found in the first round in which they talk. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/custom_op.h"
#include "core/error.h"
#include "core/options.h"
#include "engine/engine.h"
#include "gloo_c/collectives.h"

enum { SPLIT = 1, SUBSET = 2 };

/* kind, ranks, set, order, group, color, key */
enum { RECORD_BYTES = 4 + 4 + 8 + 8 + 4 + 4 + 4 };

/* What one rank wants. All but the last three are the same for all. */
typedef struct record {
  uint32_t kind, n;
  uint64_t set;   /* hash of the ranks of a subset, in ascending order */
  uint64_t order; /* and in the order given */
  uint32_t group; /* what this rank calls the group; 0: it is in none */
  int32_t color, key;
} record;

/* Who meets. */
typedef struct meeting {
  const char *function; /* for sentences */
  gloo_context *control;
  const uint32_t *ranks; /* [n] of the context, ascending; NULL: all of them */
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

/* One round: `have` address records are there, and `more` come. */
static gloo_status group_exchange(const meeting *m, uint8_t *records,
                                  uint32_t have, uint32_t more) {
  int to = (int)group_member(m, (m->own + m->n - have) % m->n);
  int from = (int)group_member(m, (m->own + have) % m->n);
  size_t bytes = (size_t)more * RECORD_BYTES;
  return gloo_sendrecv(m->control, records, bytes, to,
                       records + (size_t)have * RECORD_BYTES, bytes, from,
                       GLOO_UINT8, &m->options, m->error);
}

/* All address records, beginning with our own: address records[i] is of member
 * own + i. */
static gloo_status group_collect(const meeting *m, const record *mine,
                                 uint8_t *records) {
  gloo_error *error = m->error;
  group_write_record(records, mine);
  for (uint32_t have = 1; have < m->n;) {
    uint32_t more = have < m->n - have ? have : m->n - have;
    gloo_status status = group_exchange(m, records, have, more);
    if (status != GLOO_OK) return status;
    for (uint32_t i = have; i < have + more; i++) {
      record theirs = group_read_record(records + (size_t)i * RECORD_BYTES);
      status = group_compare(m, mine, &theirs, (m->own + i) % m->n, error);
      if (status != GLOO_OK) return status;
    }
    have += more;
  }
  return GLOO_OK;
}

static gloo_status group_meet(const meeting *m, const record *mine,
                              record *all) {
  uint8_t *records = malloc((size_t)m->n * RECORD_BYTES);
  if (records == NULL) {
    return gli_fail(m->error, GLOO_ERR_NO_MEMORY, -1,
                    "%s: out of memory for the address records of %u ranks",
                    m->function, m->n);
  }
  gloo_status status = group_collect(m, mine, records);
  for (uint32_t i = 0; status == GLOO_OK && i < m->n; i++) {
    all[(m->own + i) % m->n] =
        group_read_record(records + (size_t)i * RECORD_BYTES);
  }
  free(records);
  return status;
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

/* Those of our color, in the order of their keys. */
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

/* Meet, and make the group. The key of a subset's address record is the place
 * in the list (all ranks have checked that they have the same one). */
static gloo_status group_make(gloo_context *context, const meeting *m,
                              const record *mine, gloo_context *group,
                              int64_t timeout_ns) {
  gloo_error *error = m->error;
  record *all = calloc(m->n, sizeof *all);
  place *places = calloc(m->n, sizeof *places);
  gloo_status status;
  if (all == NULL || places == NULL) {
    status = gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                      "%s: out of memory for %u ranks", m->function, m->n);
  } else {
    status = group_meet(m, mine, all);
  }
  if (status == GLOO_OK && group != NULL) {
    uint32_t n = choose_color(all, m->n, mine, places);
    for (uint32_t i = 0; i < n; i++) {
      places[i].member.rank = group_member(m, places[i].member.rank);
    }
    status = group_form(group, context, places, n, timeout_ns, error);
  }
  free(all);
  free(places);
  return status;
}

/* ---- the calls ----------------------------------------------------------- */

static gloo_status load_options(const gloo_group_options *options,
                                gloo_group_options *ours, meeting *m,
                                gloo_error *error) {
  gloo_status status = gli_options_load(ours, sizeof *ours, options,
                                        "gloo_group_options", error);
  if (status != GLOO_OK) return status;
  m->options = (gloo_options){.struct_size = sizeof m->options,
                              .timeout_ns = ours->timeout_ns,
                              .tag = ours->tag};
  m->error = error;
  return GLOO_OK;
}

/* Once it is known here, others count on us: what fails then fails for all. */
static gloo_status group_run(gloo_context *context, meeting *m, record *mine,
                             bool joins, int64_t timeout_ns,
                             gloo_context **out) {
  gloo_error *error = m->error;
  gloo_status status = gli_context_control(context, &m->control, error);
  if (status != GLOO_OK) return status;
  gloo_context *group = NULL;
  gli_error_clear(error);
  if (joins) status = gli_group_begin(context, &group, error);
  if (status != GLOO_OK) return status;
  if (group != NULL) mine->group = gli_group_id(group);
  status = group_make(context, m, mine, group, timeout_ns);
  if (status == GLOO_OK) {
    *out = group;
    return GLOO_OK;
  }
  if (error->status == GLOO_OK) {
    gli_fail(error, status, -1, "%s failed", m->function);
  }
  gli_context_fail(m->control, error);
  if (group != NULL) gloo_context_destroy(group);
  return status;
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

gloo_status gloo_context_split(gloo_context *context, int color, int key,
                               const gloo_group_options *options,
                               gloo_context **group, gloo_error *error) {
  gloo_error own_error;
  if (error == NULL) error = &own_error;
  meeting m = {.function = "gloo_context_split"};
  gloo_group_options o;
  gloo_status status = group_check(m.function, context, group, error);
  if (status == GLOO_OK) status = load_options(options, &o, &m, error);
  if (status != GLOO_OK) return status;
  m.n = (uint32_t)gloo_context_size(context);
  m.own = (uint32_t)gloo_context_rank(context);
  record mine = {.kind = SPLIT, .n = m.n, .color = color, .key = key};
  return group_run(context, &m, &mine, color >= 0, o.timeout_ns, group);
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

gloo_status gloo_context_subset(gloo_context *context, const int *ranks,
                                size_t n, const gloo_group_options *options,
                                gloo_context **group, gloo_error *error) {
  gloo_error own_error;
  if (error == NULL) error = &own_error;
  meeting m = {.function = "gloo_context_subset"};
  gloo_group_options o;
  gloo_status status = group_check(m.function, context, group, error);
  if (status == GLOO_OK) status = load_options(options, &o, &m, error);
  if (status != GLOO_OK) return status;
  if (ranks == NULL || n < 1 || n > (size_t)gloo_context_size(context)) {
    return gli_fail(error, GLOO_ERR_RANK, -1, "%s: a list of %zu ranks, of %d",
                    m.function, ranks != NULL ? n : (size_t)0,
                    gloo_context_size(context));
  }
  m.n = (uint32_t)n;
  uint32_t *sorted = calloc(n, sizeof *sorted);
  if (sorted == NULL) {
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "%s: out of memory for %zu ranks", m.function, n);
  }
  m.ranks = sorted;
  record mine = {.kind = SUBSET, .n = m.n};
  status = group_read_list(context, ranks, m.n, sorted, &m, &mine, error);
  if (status == GLOO_OK) {
    status = group_run(context, &m, &mine, true, o.timeout_ns, group);
  }
  free(sorted);
  return status;
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
  if (world < 0 || to == NULL || !gli_context_related(from, to)) return -1;
  uint32_t there = gli_context_rank_of(to, (uint32_t)world);
  return there > INT_MAX ? -1 : (int)there;
}
