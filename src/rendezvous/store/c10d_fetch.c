/* Waiting for keys of a c10d store, and getting their values. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/c10d_store.h"
#include "rendezvous/store/value.h"

/* Size limit of a request: the libuv server reads 4 KiB at a time, and parses a
 * request from its beginning each time. */
#define C10D_BATCH_KEYS ((size_t)256)
#define C10D_BATCH_BYTES ((size_t)64 << 10)
/* Number of consecutive times that keys may vanish between the check and the
 * request for their values, before the server counts as broken. */
#define C10D_LOSSES_MAX 3

/* Some of the keys of a fetch. */
typedef struct c10d_batch {
  gli_c10d_store *self;
  const char *const *keys;
  size_t n, bytes;
  uint64_t deadline_ns; /* deadline for the keys */
  uint64_t limit;       /* deadline for the server, later than that */
} c10d_batch;

/* Starts an exchange, and takes the request's memory. */
static gloo_status c10d_batch_begin(const c10d_batch *batch, gli_frame *request,
                                    gli_c10d_connection **connection,
                                    gloo_error *error) {
  uint64_t limit = gli_c10d_patience(batch->self, GLI_NEVER);
  if (limit > batch->limit) limit = batch->limit;
  return gli_c10d_begin(batch->self, request, limit, connection, error);
}

static void c10d_take_check(gli_c10d_connection *connection, bool *there) {
  uint8_t answer;
  if (!gli_c10d_take_u8(connection, &answer)) return;
  if (answer > 1) gli_c10d_refuse(connection);
  *there = answer == 0;
}

static gloo_status c10d_check_all(const c10d_batch *batch, bool *all,
                                  gloo_error *error) {
  gli_frame request;
  gli_c10d_connection *connection;
  gli_frame_begin(&request, batch->bytes);
  gli_c10d_put_keys(batch->self, &request, GLI_C10D_CHECK, batch->keys,
                    batch->n);
  gloo_status status = c10d_batch_begin(batch, &request, &connection, error);
  if (status != GLOO_OK) return status;
  c10d_take_check(connection, all);
  return gli_c10d_end(batch->self, &request, connection, error);
}

/* Checks each key; `*all` is true if all exist. */
static gloo_status c10d_check_each(const c10d_batch *batch, bool *present,
                                   bool *all, gloo_error *error) {
  gli_frame request;
  gli_c10d_connection *connection;
  gli_frame_begin(&request, batch->bytes + batch->n * 16);
  for (size_t i = 0; i < batch->n; i++)
    gli_c10d_put_keys(batch->self, &request, GLI_C10D_CHECK, &batch->keys[i],
                      1);
  gloo_status status = c10d_batch_begin(batch, &request, &connection, error);
  if (status != GLOO_OK) return status;
  *all = true;
  for (size_t i = 0; i < batch->n; i++) {
    c10d_take_check(connection, &present[i]);
    *all = *all && present[i];
  }
  return gli_c10d_end(batch->self, &request, connection, error);
}

/* Waits until all keys have existed (some may be deleted again), or until the
 * deadline. */
static gloo_status c10d_wait_all(const c10d_batch *batch, bool *all,
                                 gloo_error *error) {
  gli_frame request, cancel;
  gli_c10d_connection *connection;
  uint8_t answer = 0;
  gli_frame_begin(&request, batch->bytes);
  gli_c10d_put_keys(batch->self, &request, GLI_C10D_WAIT, batch->keys,
                    batch->n);
  gli_frame_begin(&cancel, 1);
  gli_c10d_put_op(&cancel, GLI_C10D_CANCEL_WAIT);
  if (cancel.failed) request.failed = true;
  gloo_status status = c10d_batch_begin(batch, &request, &connection, error);
  if (status != GLOO_OK) goto free_cancel;
  if (gli_store_conn_await(&connection->base, batch->deadline_ns)) {
    *all = true;
    if (gli_c10d_take_u8(connection, &answer) && answer != 0)
      gli_c10d_refuse(connection);
  } else {
    gli_c10d_send(connection, &cancel, batch->limit);
    *all = gli_c10d_take_u8(connection, &answer) && answer == 0;
    /* The keys appeared just now: the second answer is CANCEL_WAIT's. */
    if (*all) (void)gli_c10d_take_u8(connection, &answer);
    if (answer != 1) gli_c10d_refuse(connection);
  }
  status = gli_c10d_end(batch->self, &request, connection, error);

free_cancel:
  free(cancel.data);
  return status;
}

/* Removes the tag from `raw`, in place. */
static void c10d_untag(gloo_value *raw) {
  gloo_value bare = gli_c10d_untagged(raw);
  if (bare.bytes == 0) {
    gli_value_free(raw);
  } else if (bare.data != raw->data) {
    memmove(raw->data, bare.data, bare.bytes);
    raw->bytes = bare.bytes;
  }
}

/* Gets the values. `*all` is false if a key has vanished. */
static gloo_status c10d_get_all(const c10d_batch *batch, gloo_value *values,
                                bool *all, gloo_error *error) {
  gli_frame request;
  gli_c10d_connection *connection;
  gli_frame_begin(&request, batch->bytes);
  gli_c10d_put_keys(batch->self, &request, GLI_C10D_MULTI_GET, batch->keys,
                    batch->n);
  gli_c10d_put_end(&request);
  gloo_status status = c10d_batch_begin(batch, &request, &connection, error);
  if (status != GLOO_OK) return status;
  for (size_t i = 0; i < batch->n; i++) {
    gli_value_free(&values[i]); /* from the attempt before */
    if (!gli_c10d_take_text(connection, &values[i])) break;
  }
  gli_c10d_take_end(connection);
  status = gli_c10d_end(batch->self, &request, connection, error);
  *all = true;
  for (size_t i = 0; i < batch->n && status == GLOO_OK && *all; i++) {
    if (values[i].bytes == 0)
      status = gli_c10d_look(batch->self, batch->keys[i], batch->limit, all,
                             &values[i], error);
    c10d_untag(&values[i]);
  }
  return status;
}

static gloo_status c10d_fetch_batch(const c10d_batch *batch, gloo_value *values,
                                    bool *present, gloo_error *error) {
  for (unsigned losses = 0;;) {
    bool all = false;
    bool late = gli_deadline_left(batch->deadline_ns) == 0;
    gloo_status status = late ? c10d_check_all(batch, &all, error)
                              : c10d_wait_all(batch, &all, error);
    if (status == GLOO_OK && !all) {
      status = c10d_check_each(batch, present, &all, error);
      if (status == GLOO_OK && !all) return GLOO_ERR_TIMEOUT;
    }
    if (status != GLOO_OK) return status;
    if (values != NULL) {
      status = c10d_get_all(batch, values, &all, error);
      if (status == GLOO_ERR_PEER && ++losses < C10D_LOSSES_MAX) continue;
    } else if (!late) {
      status = c10d_check_all(batch, &all, error);
    }
    if (status != GLOO_OK) return status;
    for (size_t i = 0; i < batch->n; i++) present[i] = all;
    if (all) return status;
    if (gli_deadline_left(batch->limit) == 0)
      return gli_c10d_restless(batch->self, batch->keys[0], error);
  }
}

/* Puts as many keys as fit into a batch. */
static void c10d_batch_fill(c10d_batch *batch, const char *const *keys,
                            size_t n_keys) {
  batch->keys = keys;
  batch->n = 0;
  batch->bytes = 16;
  while (batch->n < n_keys && batch->n < C10D_BATCH_KEYS &&
         batch->bytes < C10D_BATCH_BYTES)
    batch->bytes += 8 + batch->self->prefix_bytes + strlen(keys[batch->n++]);
}

/* Fetches all batches. After a timeout the remaining batches are only checked,
 * so that the message can name all missing keys. */
gloo_status gli_c10d_fetch(gloo_store *store, const char *const *keys,
                           size_t n_keys, uint64_t deadline_ns,
                           gloo_value *values, bool *present,
                           gloo_error *error) {
  gloo_status outcome = GLOO_OK;
  int64_t left = gli_deadline_left(deadline_ns);
  c10d_batch batch = {.self = (gli_c10d_store *)store,
                      .deadline_ns = deadline_ns,
                      .limit = GLI_NEVER};
  if (left >= 0 && left < INT64_MAX - GLI_C10D_GRACE_NS)
    batch.limit = gli_deadline_after(left + GLI_C10D_GRACE_NS);
  for (size_t i = 0; i < n_keys; i += batch.n) {
    c10d_batch_fill(&batch, keys + i, n_keys - i);
    gloo_status status = c10d_fetch_batch(
        &batch, values == NULL ? NULL : values + i, present + i, error);
    if (status == GLOO_ERR_TIMEOUT) {
      outcome = status;
      values = NULL;
      batch.deadline_ns = 0;
    } else if (status != GLOO_OK) {
      return status;
    }
  }
  return outcome;
}
