#include "engine/contexts/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/siphash.h"
#include "engine/run/run.h"
#include "engine/state/device.h"
#include "engine/state/signature.h"

/* ---- memory -------------------------------------------------------------- */

static size_t snapshot_count(const gli_operation_list *list) {
  size_t n = 0;
  for (const gli_operation *op = list->first; op != NULL; op = op->active_next)
    n++;
  return n;
}

static uint64_t snapshot_kept(const gli_trace *trace) {
  uint64_t made = trace->n - trace->internal;
  return made < trace->kept ? made : trace->kept;
}

static bool snapshot_make_room(gli_snapshot *s, const gli_family *family) {
  size_t entries = (size_t)snapshot_kept(family->trace) +
                   snapshot_count(&family->active) +
                   snapshot_count(&family->posted);
  size_t groups = 0, routes = family->root->size;
  for (const gloo_context *g = family->groups; g != NULL; g = g->next) groups++;
  s->entries = calloc(entries + 1, sizeof *s->entries);
  s->groups = calloc(groups + 1, sizeof *s->groups);
  s->routes = calloc(routes + 1, sizeof *s->routes);
  return s->entries != NULL && s->groups != NULL && s->routes != NULL;
}

static uint32_t *snapshot_ranks(gli_snapshot *s, size_t more) {
  if (s->ranks_room - s->n_ranks < more) {
    size_t room = 2 * s->ranks_room + more;
    uint32_t *ranks = realloc(s->ranks, room * sizeof *ranks);
    if (ranks == NULL) return NULL;
    s->ranks = ranks;
    s->ranks_room = room;
  }
  return s->ranks + s->n_ranks;
}

/* ---- records ------------------------------------------------------------- */

static gli_snap_entry snapshot_entry(const gli_trace_about *a,
                                     uint64_t operation) {
  bool persistent = gli_number_is_of_init(operation);
  bool message = a->collective == GLI_SENDRECV;
  return (gli_snap_entry){
      .collective = (gli_collective)a->collective,
      .receives = message && a->op != 0,
      .dtype = (gloo_dtype)a->dtype,
      .op = (gloo_op)(a->op & ~GLI_OP_ORDERED),
      .ordered = !message && (a->op & GLI_OP_ORDERED) != 0,
      .algorithm = a->algorithm,
      .status = (gloo_status)a->status,
      .context = {a->first, a->group},
      .tag = a->tag,
      .root = a->root & ((UINT32_C(1) << GLI_ROOT_BITS) - 1),
      .peer = a->peer != GLI_NO_RANK ? (int64_t)a->peer : -1,
      .request = persistent ? (int64_t)gli_number_init(operation) : -1,
      .sequence = persistent ? operation & UINT32_MAX : operation,
      .count = a->count,
      .bytes = a->bytes};
}

/* ---- contents ------------------------------------------------------------ */

static void snapshot_add_ended(gli_snapshot *s, const gli_trace *trace) {
  for (uint64_t ago = snapshot_kept(trace); ago-- > 0;) {
    const gli_trace_record *r = gli_trace_last(trace, ago);
    gli_snap_entry *e = &s->entries[s->n_entries++];
    *e = snapshot_entry(&r->about, r->operation);
    e->started_ns = gli_ticks_to_ns(&trace->born, &s->now, r->started);
    e->ended_ns = gli_ticks_to_ns(&trace->born, &s->now, r->ended);
    bool well = r->about.status == GLOO_OK;
    e->state = well ? GLI_SNAP_COMPLETED : GLI_SNAP_FAILED;
  }
}

static bool snapshot_add_pending(gli_snapshot *s,
                                 const gli_operation_list *list,
                                 const gli_trace *trace) {
  for (const gli_operation *op = list->first; op != NULL;
       op = op->active_next) {
    size_t most = gli_operation_waits_most(op);
    uint32_t *ranks = snapshot_ranks(s, most);
    if (ranks == NULL) return false;
    gli_snap_entry *e = &s->entries[s->n_entries++];
    *e = snapshot_entry(&op->about, op->signature.operation);
    e->status = GLOO_IN_PROGRESS;
    e->started_ns = gli_ticks_to_ns(&trace->born, &s->now, op->started);
    e->state = op->deferred ? GLI_SNAP_SCHEDULED : GLI_SNAP_STARTED;
    e->waits_at = s->n_ranks;
    e->n_waits = gli_operation_waits(op, GLI_SILENT, GLI_WITH_US, ranks, most);
    s->n_ranks += e->n_waits;
  }
  return true;
}

static bool snapshot_add_groups(gli_snapshot *s, const gli_family *family) {
  for (const gloo_context *g = family->groups; g != NULL; g = g->next) {
    if (g->size == 0 || g->is_control) continue;
    uint32_t *ranks = snapshot_ranks(s, g->size);
    if (ranks == NULL) return false;
    for (uint32_t i = 0; i < g->size; i++) ranks[i] = g->peers[i].rank;
    s->groups[s->n_groups++] =
        (gli_snap_group){.name = {g->group_first, g->group_number},
                         .ranks_at = s->n_ranks,
                         .n_ranks = g->size};
    s->n_ranks += g->size;
  }
  return true;
}

/* Adds the connections to other ranks. */
static void snapshot_add_routes(gli_snapshot *s, const gloo_context *root) {
  const gli_transport_ops *ops = root->device->ops;
  for (uint32_t i = 0; i < root->size; i++) {
    const gli_link *link = root->peers[i].link;
    char why[GLI_WHY_BYTES];
    if (link == NULL || link->self || link->pair == NULL) continue;
    const char *way =
        ops->route != NULL ? ops->route(link->pair, why) : ops->name;
    if (way == NULL) continue;
    s->routes[s->n_routes++] = (gli_snap_route){.rank = i, .way = way};
  }
}

uint64_t gli_snapshot_mark(const gloo_context *root) {
  static const gli_siphash_key same_for_all;
  uint8_t key[8];
  if (root->size > 1 && root->contacts[0].address.bytes == 0) return 0;
  gli_put_u64(key, root->size > 1 ? root->contacts[0].key : root->key);
  return gli_siphash(&same_for_all, key, sizeof key) >> 16;
}

gli_snapshot *gli_snapshot_take(gloo_context *context) {
  gli_family *family = context->family;
  const gloo_context *root = family->root;
  gli_device_list(context->device);
  gli_snapshot *s = calloc(1, sizeof *s);
  if (s == NULL || !snapshot_make_room(s, family)) goto no_memory;
  s->rank = root->rank;
  s->size = root->size;
  s->mark = gli_snapshot_mark(root);
  s->transport = context->device->ops->name;
  s->now = gli_moment_now();
  s->ended = family->trace->n - family->trace->internal;
  s->cause = root->cause;
  snapshot_add_ended(s, family->trace);
  if (!snapshot_add_pending(s, &family->active, family->trace) ||
      !snapshot_add_pending(s, &family->posted, family->trace) ||
      !snapshot_add_groups(s, family))
    goto no_memory;
  snapshot_add_routes(s, root);
  return s;

no_memory:
  gli_snapshot_free(s);
  return NULL;
}

void gli_snapshot_forget_ended(gli_snapshot *s) {
  size_t ended = 0;
  while (ended < s->n_entries && s->entries[ended].state >= GLI_SNAP_COMPLETED)
    ended++;
  size_t dropped = ended > 0 ? ended - 1 : 0;
  s->n_entries -= dropped;
  memmove(s->entries, s->entries + dropped, s->n_entries * sizeof *s->entries);
}

void gli_snapshot_free(gli_snapshot *s) {
  if (s == NULL) return;
  free(s->entries);
  free(s->groups);
  free(s->routes);
  free(s->ranks);
  free(s);
}
