/* The creation of a group: the record of a split or a subset, and the agreement
 * of its members (group_making.c). */
#ifndef GLI_API_GROUP_MAKING_H
#define GLI_API_GROUP_MAKING_H

#include "engine/engine.h"

enum { GLI_GROUP_SPLIT = 1, GLI_GROUP_SUBSET = 2 };

/* The request of one rank. All fields but the last three are equal on all
 * ranks. */
typedef struct gli_group_record {
  uint32_t kind, n;
  uint64_t set;   /* hash of the ranks of a subset, in ascending order */
  uint64_t order; /* hash of the ranks of a subset, in the given order */
  uint32_t group; /* this rank's number for the group; 0 if it is in none */
  int32_t color, key;
} gli_group_record;

/* The state of a group under creation: records[i] is the record of member own +
 * i, and `have` records have arrived. */
typedef struct gli_making {
  const char *function; /* public name, for messages */
  gloo_context *context, *control;
  gloo_context *group; /* NULL if this rank is in none */
  uint32_t *ranks;     /* [n] of the context, ascending; NULL: all ranks */
  uint32_t n, own;
  int64_t timeout_ns;
  gloo_options options; /* options of the messages */
  gli_group_record mine;
  uint8_t *records; /* [n] */
  uint32_t have;
  gloo_error error;
  /* Without blocking: the request of the creation, until it is settled. */
  gloo_device *device;
  gloo_request *request;
  gloo_context **out;
} gli_making;

/* Returns NULL when out of memory. */
gli_making *gli_making_new(gloo_context *context, const char *function,
                           gloo_error *error);
void gli_making_free(gli_making *k);

/* Begins a creation whose ranks, options and record are filled. Once a group is
 * known here, other ranks depend on this one: a failure then fails all. */
gloo_status gli_making_begin(gli_making *k, bool joins);

/* Ends a failed creation, although other ranks may already know the group. */
void gli_making_fail(gli_making *k, gloo_status status);

/* Completes a creation, and fails it on errors. */
gloo_status gli_making_block(gli_making *k, gloo_context **out);

/* Continues without blocking, and makes a request for the creation. On success
 * the creation frees itself. */
gloo_status gli_making_start(gli_making *k, gloo_context **out,
                             gloo_request **request);

#endif
