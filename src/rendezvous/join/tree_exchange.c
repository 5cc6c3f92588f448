#include "rendezvous/join/tree_exchange.h"

#include <stdlib.h>
#include <string.h>

#include "core/bytes.h"
#include "core/error.h"
#include "engine/engine.h"
#include "rendezvous/join/outcome.h"
#include "rendezvous/join/record_delta.h"
#include "rendezvous/store/store.h"

/* ---- the tree ------------------------------------------------------------ */

gli_tree_place gli_tree_find(uint32_t rank, uint32_t size) {
  gli_tree_place at = {.rank = rank, .size = size, .end = size};
  for (uint32_t bit = 1; bit != 0 && bit < size; bit <<= 1) {
    if (rank & bit) {
      at.parent = rank ^ bit;
      if (size - rank > bit) at.end = rank + bit;
      break;
    }
    if (size - rank > bit) at.children[at.n_children++] = rank | bit;
  }
  return at;
}

uint32_t gli_tree_circle(const gli_tree_place *at, uint32_t *circle) {
  uint32_t n = 0;
  if (at->rank != 0) circle[n++] = at->parent;
  circle[n++] = at->rank;
  for (uint32_t i = 0; i < at->n_children; i++) circle[n++] = at->children[i];
  return n;
}

/* ---- one message --------------------------------------------------------- */

/* Sequence numbers are per tag, so these operations do not disturb those of the
 * caller. */
#define TAG UINT32_MAX

/* Interval at which a waiting rank checks whether the rendezvous has failed. It
 * starts short: a rank that ended may have no connection yet that shows its
 * end. */
#define LOOK_NS INT64_C(50000000)
#define LOOK_MAX_NS INT64_C(400000000)

/* A message of COUNT_BYTES announces the length of the next. */
enum { COUNT_BYTES = 4 };

typedef struct spread {
  gloo_context *context;
  const gli_tree_place *at;
  gloo_store *store;
  gloo_store *visit; /* NULL until the first check */
  bool lost;         /* true if the store failed, and with it the meeting */
  int64_t look_ns;
  uint64_t deadline_ns;
  size_t record_max;
  gloo_value *records;
  gloo_error *error; /* never NULL */
} spread;

/* Returns options with a later deadline than the rendezvous: a rank that has
 * detected the cause, perhaps at its own deadline, reports first. */
static gloo_options spread_options(const spread *s) {
  gloo_options o = GLOO_OPTIONS_INIT;
  int64_t left = gli_deadline_left(s->deadline_ns);
  o.tag = TAG;
  o.timeout_ns = left < 0 || left > INT64_MAX - GLI_STORE_SLACK_NS
                     ? GLOO_TIMEOUT_NONE
                     : left + GLI_STORE_SLACK_NS;
  return o;
}

static gloo_status spread_look(spread *s) {
  gloo_status status = GLOO_OK;
  uint64_t late; /* the last check follows the last message */
  if (!gli_add_u64(s->deadline_ns, (uint64_t)GLI_STORE_SLACK_NS, &late))
    late = GLI_NEVER;
  if (s->visit == NULL)
    status = gli_store_visit(s->store, late, &s->visit, s->error);
  s->lost = status != GLOO_OK;
  if (s->lost) return status;
  gloo_error cause;
  gli_outcome outcome = gli_bootstrap_outcome(s->visit, 0, &cause);
  s->lost = outcome == GLI_OUTCOME_UNKNOWN;
  if (!s->lost && outcome != GLI_OUTCOME_FAILED) return GLOO_OK;
  *s->error = cause;
  return cause.status;
}

/* Returns the time until the next check. One check follows shortly after the
 * deadline, when other ranks have just published the missing ones. */
static int64_t spread_look_after(const spread *s) {
  int64_t left = gli_deadline_left(s->deadline_ns);
  bool near = left > 0 && left < s->look_ns;
  return near ? left + LOOK_NS : s->look_ns;
}

/* Waits for the request and destroys it. */
static gloo_status spread_wait(spread *s, gloo_request *request) {
  gloo_status status;
  for (;;) {
    status = gloo_request_wait(request, spread_look_after(s), s->error);
    if (status != GLOO_IN_PROGRESS) break;
    if (s->look_ns < LOOK_MAX_NS) s->look_ns *= 2;
    status = spread_look(s);
    if (status != GLOO_OK) break;
  }
  gloo_request_destroy(request);
  return status;
}

static gloo_status spread_take(spread *s, uint32_t from, void *data,
                               size_t bytes) {
  gloo_options o = spread_options(s);
  gloo_request *request;
  gloo_status status = gloo_recv_start(s->context, data, bytes, GLOO_UINT8,
                                       (int)from, &o, &request, s->error);
  return status == GLOO_OK ? spread_wait(s, request) : status;
}

/* Receives all `n` records that `from` sends; free `data` with free(). */
static gloo_status spread_receive(spread *s, uint32_t from, size_t n,
                                  uint8_t **data, size_t *bytes) {
  uint8_t count[COUNT_BYTES];
  *data = NULL;
  gloo_status status = spread_take(s, from, count, sizeof count);
  if (status != GLOO_OK) return status;
  *bytes = gli_get_u32(count);
  if (*bytes == 0 || *bytes > gli_roster_bytes_max(n, s->record_max))
    return gli_fail(s->error, GLOO_ERR_PROTOCOL, (int)from,
                    "rank %u sent %zu bytes for the addresses of %zu ranks; do "
                    "all ranks run the same version of the library?",
                    from, *bytes, n);
  *data = malloc(*bytes);
  if (*data == NULL)
    return gli_fail(s->error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the addresses of %zu ranks", n);
  return spread_take(s, from, *data, *bytes);
}

/* Starts the two messages to one rank. Each request is set, or stays NULL. */
static gloo_status start_sending(const spread *s, uint32_t to,
                                 const uint8_t *count, const uint8_t *data,
                                 size_t bytes, gloo_request *requests[2]) {
  gloo_options o = spread_options(s);
  gloo_status status =
      gloo_send_start(s->context, count, COUNT_BYTES, GLOO_UINT8, (int)to, &o,
                      &requests[0], s->error);
  if (status != GLOO_OK) return status;
  return gloo_send_start(s->context, data, bytes, GLOO_UINT8, (int)to, &o,
                         &requests[1], s->error);
}

/* Sends the same bytes to several ranks, the last one first, because its
 * subtree is the largest. */
static gloo_status spread_send(spread *s, const uint32_t *to, uint32_t n,
                               const uint8_t *data, size_t bytes) {
  gloo_request *requests[GLI_TREE_LINKS_MAX][2] = {{NULL, NULL}};
  uint8_t count[COUNT_BYTES];
  gloo_status status = GLOO_OK;
  gli_put_u32(count, (uint32_t)bytes);
  for (uint32_t i = n; i-- > 0 && status == GLOO_OK;)
    status = start_sending(s, to[i], count, data, bytes, requests[i]);
  for (uint32_t i = n; i-- > 0;)
    for (int k = 0; k < 2; k++) {
      if (status == GLOO_OK)
        status = spread_wait(s, requests[i][k]);
      else
        gloo_request_destroy(requests[i][k]);
    }
  return status;
}

/* ---- up and down --------------------------------------------------------- */

/* Parses n records of the ranks from `first` on; known records stay. */
static gloo_status spread_read(spread *s, uint32_t from, uint32_t first,
                               uint32_t n, const uint8_t *data, size_t bytes) {
  gloo_value *read = calloc(n, sizeof *read);
  gli_roster_result result =
      read == NULL ? GLI_ROSTER_NO_MEMORY
                   : gli_roster_unpack(data, bytes, s->record_max, read, n);
  for (uint32_t i = 0; i < n && result == GLI_ROSTER_OK; i++) {
    gloo_value *record = &s->records[first + i];
    if (record->data != NULL) {
      free(read[i].data);
    } else {
      *record = read[i];
    }
  }
  free(read);
  if (result == GLI_ROSTER_OK) return GLOO_OK;
  if (result == GLI_ROSTER_NO_MEMORY)
    return gli_fail(s->error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the addresses of %u ranks", n);
  return gli_fail(s->error, GLOO_ERR_PROTOCOL, (int)from,
                  "rank %u sent an invalid list of the addresses of %u ranks; "
                  "do all ranks run the same version of the library?",
                  from, n);
}

static gloo_status spread_collect(spread *s, uint32_t child) {
  gli_tree_place below = gli_tree_find(child, s->at->size);
  uint8_t *data;
  size_t bytes = 0;
  uint32_t n = below.end - child;
  if (n == 1) return GLOO_OK; /* came from the store */
  gloo_status status = spread_receive(s, child, n, &data, &bytes);
  if (status == GLOO_OK) status = spread_read(s, child, child, n, data, bytes);
  free(data);
  return status;
}

/* Packs the records from `first` on; free `data` with free(). */
static gloo_status spread_pack(const spread *s, uint32_t first, uint32_t n,
                               uint8_t **data, size_t *bytes) {
  *data = malloc(gli_roster_bytes_max(n, s->record_max));
  if (*data == NULL)
    return gli_fail(s->error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for the addresses of %u ranks", n);
  *bytes = gli_roster_pack(&s->records[first], n, *data);
  return GLOO_OK;
}

static gloo_status spread_up(spread *s) {
  const gli_tree_place *at = s->at;
  uint8_t *data;
  size_t bytes = 0;
  gloo_status status = GLOO_OK;
  for (uint32_t i = 0; i < at->n_children && status == GLOO_OK; i++)
    status = spread_collect(s, at->children[i]);
  uint32_t n = at->end - at->rank;
  if (status != GLOO_OK || at->rank == 0 || n == 1) return status;
  status = spread_pack(s, at->rank, n, &data, &bytes);
  if (status != GLOO_OK) return status;
  status = spread_send(s, &at->parent, 1, data, bytes);
  free(data);
  return status;
}

static gloo_status spread_down(spread *s) {
  const gli_tree_place *at = s->at;
  uint8_t *data;
  size_t bytes = 0;
  gloo_status status =
      at->rank == 0 ? spread_pack(s, 0, at->size, &data, &bytes)
                    : spread_receive(s, at->parent, at->size, &data, &bytes);
  if (status == GLOO_OK)
    status = spread_send(s, at->children, at->n_children, data, bytes);
  if (status == GLOO_OK && at->rank != 0)
    status = spread_read(s, at->parent, 0, at->size, data, bytes);
  free(data);
  return status;
}

gloo_status gli_spread(gloo_context *context, const gli_tree_place *at,
                       gloo_store *store, size_t record_max, int64_t timeout_ns,
                       uint64_t deadline_ns, gloo_value *records, bool *lost,
                       gloo_error *error) {
  gloo_error unread;
  if (error == NULL) error = &unread;
  spread s = {.context = context,
              .at = at,
              .store = store,
              .look_ns = LOOK_NS,
              .deadline_ns = deadline_ns,
              .record_max = record_max,
              .records = records,
              .error = error};
  gloo_status status = spread_up(&s);
  if (status == GLOO_OK) status = spread_down(&s);
  /* A failed rank publishes its cause before its connections end. */
  if (status != GLOO_OK && !s.lost) {
    gloo_error seen = *s.error;
    if (spread_look(&s) == GLOO_OK) {
      *s.error = seen;
      if (status == GLOO_ERR_TIMEOUT)
        gli_bootstrap_name_missing(s.visit, at->size, timeout_ns, s.error);
    }
    status = s.error->status;
  }
  if (s.visit != NULL) gli_store_visit_end(s.visit, store);
  *lost = s.lost;
  return status;
}
