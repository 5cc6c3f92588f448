/* A copy of the records of a family of contexts: its last operations, and its
 * pending ones, with the ranks that each waits for. Ranks are numbered as in
 * the root, and times are of the host's monotonic clock. */
#ifndef GLI_ENGINE_CONTEXTS_SNAPSHOT_H
#define GLI_ENGINE_CONTEXTS_SNAPSHOT_H

#include "core/collective.h"
#include "engine/state/trace_buffer.h"
#include "gloo_c/context.h"
#include "gloo_c/types.h"

typedef enum gli_snap_state {
  GLI_SNAP_SCHEDULED, /* started by the program; no step has begun */
  GLI_SNAP_STARTED,
  GLI_SNAP_COMPLETED,
  GLI_SNAP_FAILED
} gli_snap_state;

/* The name of a context, equal on all its ranks: {0, 0} is the root. */
typedef struct gli_snap_name {
  uint32_t first, number; /* as in gli_trace_about */
} gli_snap_name;

typedef struct gli_snap_entry {
  gli_collective collective; /* GLI_SENDRECV for a message, GLI_COLLECTIVES for
                                the creation of a group */
  bool receives;             /* a message: true at the receiver */
  gloo_dtype dtype;
  gloo_op op;
  bool ordered;
  uint8_t algorithm;
  gloo_status status;
  gli_snap_name context;
  uint32_t tag, root;
  int64_t peer;    /* as in gli_trace_about; -1 if none */
  int64_t request; /* init number of a persistent request that is matched by
                      init order; -1 if none */
  uint64_t sequence, count, bytes;
  uint64_t started_ns, ended_ns; /* 0 if not yet */
  gli_snap_state state;
  size_t waits_at, n_waits; /* the ranks in ->ranks that it waits for
                               messages from */
} gli_snap_entry;

/* A group that exists. */
typedef struct gli_snap_group {
  gli_snap_name name;
  size_t ranks_at, n_ranks;
} gli_snap_group;

typedef struct gli_snap_route {
  uint32_t rank;
  const char *way; /* as from gli_context_route */
} gli_snap_route;

struct gli_snapshot {
  uint32_t rank, size;
  uint64_t mark; /* see gli_context_mark */
  const char *transport;
  gli_moment now;
  uint64_t ended;          /* number of operations that ended, ever */
  gloo_error cause;        /* GLOO_OK if it has not failed */
  gli_snap_entry *entries; /* ended ones in the order of their ends, and then
                              pending ones */
  size_t n_entries;
  gli_snap_group *groups;
  size_t n_groups;
  gli_snap_route *routes;
  size_t n_routes;
  uint32_t *ranks;
  size_t n_ranks, ranks_room;
};

/* Returns a number of 48 bits that names a root context, on all its ranks, and
 * no other. It reveals nothing of the keys that it is derived from. 0 if the
 * ranks have not met. Called with the device locked. */
uint64_t gli_snapshot_mark(const gloo_context *root);

/* Returns a snapshot of the context's family; NULL if out of memory. */
gli_snapshot *gli_snapshot_take(gloo_context *context);
/* Drops all ended operations but the last. */
void gli_snapshot_forget_ended(gli_snapshot *snapshot);
void gli_snapshot_free(gli_snapshot *snapshot);

#endif
