/* A copy of what a family of contexts remembers of its last operations, and of
 * those that are under way, with the ranks that each waits for. Numbers of
 * ranks are the root's, and times those of the host's monotonic clock. */
#ifndef GLI_ENGINE_CONTEXTS_SNAPSHOT_H
#define GLI_ENGINE_CONTEXTS_SNAPSHOT_H

#include "core/collective.h"
#include "engine/state/trace_buffer.h"
#include "gloo_c/context.h"
#include "gloo_c/types.h"

typedef enum gli_snap_state {
  GLI_SNAP_SCHEDULED, /* the program has started it; its first step has not */
  GLI_SNAP_STARTED,
  GLI_SNAP_COMPLETED,
  GLI_SNAP_FAILED
} gli_snap_state;

/* A name of a context that all its ranks have for it: {0, 0} is the root. */
typedef struct gli_snap_name {
  uint32_t first, number; /* as in gli_trace_about */
} gli_snap_name;

typedef struct gli_snap_entry {
  gli_collective collective; /* GLI_SENDRECV: a message; GLI_COLLECTIVES: the
                                making of a group */
  bool receives;             /* of a message */
  gloo_dtype dtype;
  gloo_op op;
  bool ordered;
  uint8_t algorithm;
  gloo_status status;
  gli_snap_name context;
  uint32_t tag, root;
  int64_t peer;    /* as in gli_trace_about; -1: none */
  int64_t request; /* which persistent one, of those that are matched by their
                      making; -1: none */
  uint64_t sequence, count, bytes;
  uint64_t started_ns, ended_ns; /* 0: not yet */
  gli_snap_state state;
  size_t waits_at, n_waits; /* in ->ranks: for whose messages it waits */
} gli_snap_entry;

/* A group that is there. */
typedef struct gli_snap_group {
  gli_snap_name name;
  size_t ranks_at, n_ranks;
} gli_snap_group;

typedef struct gli_snap_route {
  uint32_t rank;
  const char *way; /* as gli_context_route says */
} gli_snap_route;

struct gli_snapshot {
  uint32_t rank, size;
  uint64_t mark; /* see gli_context_mark */
  const char *transport;
  gli_moment now;
  uint64_t ended;          /* operations that ever did */
  gloo_error cause;        /* GLOO_OK: it has not failed */
  gli_snap_entry *entries; /* in the order in which they ended, and then those
                              that have not */
  size_t n_entries;
  gli_snap_group *groups;
  size_t n_groups;
  gli_snap_route *routes;
  size_t n_routes;
  uint32_t *ranks;
  size_t n_ranks, ranks_room;
};

/* A number of 48 bits that all ranks of a root context have for it, and no
 * other context has. It tells nothing of the keys that it is made of. 0: the
 * ranks have not met. With the device locked. */
uint64_t gli_snapshot_mark(const gloo_context *root);

/* Of the family that the context belongs to. NULL: out of memory. */
gli_snapshot *gli_snapshot_take(gloo_context *context);
/* Drops what ended before the last that did. */
void gli_snapshot_forget_ended(gli_snapshot *snapshot);
void gli_snapshot_free(gli_snapshot *snapshot);

#endif
