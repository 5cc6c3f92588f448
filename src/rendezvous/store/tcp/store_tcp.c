/* The TCP store: operations become requests. In a client each request has a
 * separate connection, so that a waiting thread does not block another; idle
 * connections are kept for later requests. The process that serves calls its
 * server directly. */
#include "core/environment.h"
#include "core/options.h"
#include "rendezvous/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/text.h"
#include "rendezvous/store/tcp/tcp_client.h"
#include "rendezvous/store/tcp/tcp_connection.h"
#include "rendezvous/store/tcp/tcp_server.h"
#include "rendezvous/store/value.h"
#include "security/trust.h"

/* Size limit of the keys of a FETCH, lower without values: all ranks wait at
 * once, and the server keeps these requests. */
#define GET_BYTES ((size_t)1 << 20)
#define WAIT_BYTES ((size_t)16 << 10)

typedef struct tcp_store {
  gloo_store base;
  gli_tcp_server *server; /* NULL in a client */
  gli_tcp_client *client; /* NULL in the process that serves */
  bool visits;          /* true in a visit, which shares both with its store */
  uint64_t deadline_ns; /* deadline of a visit */
  gli_tcp_connection *own; /* connection of a visit; NULL until it is opened */
} tcp_store;

static uint64_t store_tcp_later(uint64_t deadline_ns) {
  uint64_t later;
  return gli_add_u64(deadline_ns, (uint64_t)GLI_STORE_SLACK_NS, &later)
             ? later
             : GLI_NEVER;
}

/* Returns the time to give up on a silent server, which keeps the deadline of a
 * FETCH itself. `fetch_ns` is NULL for other requests. */
static uint64_t store_tcp_limit(const tcp_store *self,
                                const uint64_t *fetch_ns) {
  if (self->visits && self->deadline_ns != GLI_NEVER)
    return store_tcp_later(self->deadline_ns);
  if (fetch_ns == NULL || *fetch_ns <= uv_hrtime()) /* does not wait */
    return gli_deadline_after(gli_tcp_client_timeout(self->client));
  return store_tcp_later(*fetch_ns);
}

/* Calls the server, and takes the request's memory. */
static gloo_status store_tcp_call(tcp_store *self, gli_frame *request,
                                  gli_tcp_op op, const uint64_t *fetch_ns,
                                  gli_tcp_reply *reply, gloo_error *error) {
  gli_frame_end(request, (uint32_t)op);
  if (request->failed) {
    free(request->data);
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a request to %s", self->base.label);
  }
  if (self->server != NULL)
    return gli_tcp_server_call(self->server, request, op, reply, error);
  return gli_tcp_client_call(self->client, self->visits ? &self->own : NULL,
                             request, store_tcp_limit(self, fetch_ns), reply,
                             error);
}

static gloo_status broken_reply(const gloo_store *store, gli_tcp_reply *reply,
                                gloo_error *error) {
  free(reply->data);
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1, "%s sent an invalid reply",
                  store->label);
}

/* Fills the error for a refusal, whose message is the body of the reply.
 * GLOO_ERR_POISONED has none, and another kind of server may send none. */
static gloo_status store_tcp_refused(const gloo_store *store,
                                     gli_tcp_reply *reply, gloo_error *error) {
  size_t bytes = reply->body.left;
  if (bytes >= GLOO_ERROR_MESSAGE_BYTES) bytes = GLOO_ERROR_MESSAGE_BYTES - 1;
  gloo_status status =
      bytes > 0 && reply->body.at[0] != '\0'
          ? gli_fail(error, reply->status, -1, "%.*s", (int)bytes,
                     (const char *)reply->body.at)
          : gli_fail(error, reply->status, -1,
                     "%s refused a request without giving a reason",
                     store->label);
  free(reply->data);
  return status;
}

/* Calls the server, for operations whose reply is empty on success. */
static gloo_status simple_call(gloo_store *store, gli_frame *request,
                               gli_tcp_op op, gloo_error *error) {
  gli_tcp_reply reply;
  gloo_status status =
      store_tcp_call((tcp_store *)store, request, op, NULL, &reply, error);
  if (status != GLOO_OK) return status;
  if (reply.status != GLOO_OK) return store_tcp_refused(store, &reply, error);
  if (reply.body.left != 0) return broken_reply(store, &reply, error);
  free(reply.data);
  return GLOO_OK;
}

static gloo_status tcp_set(gloo_store *store, const char *key, const void *data,
                           size_t bytes, gloo_error *error) {
  gli_frame request;
  gli_frame_begin(&request, strlen(key) + bytes + 16);
  gli_frame_put_key(&request, key);
  gli_frame_put_blob(&request, data, bytes);
  return simple_call(store, &request, GLI_TCP_SET, error);
}

static gloo_status tcp_append(gloo_store *store, const char *key,
                              const void *data, size_t bytes,
                              gloo_error *error) {
  gli_frame request;
  gli_frame_begin(&request, strlen(key) + bytes + 16);
  gli_frame_put_key(&request, key);
  gli_frame_put_blob(&request, data, bytes);
  return simple_call(store, &request, GLI_TCP_APPEND, error);
}

static gloo_status tcp_remove(gloo_store *store, const char *key,
                              gloo_error *error) {
  gli_frame request;
  gli_frame_begin(&request, strlen(key) + 8);
  gli_frame_put_key(&request, key);
  return simple_call(store, &request, GLI_TCP_REMOVE, error);
}

static gloo_status tcp_add(gloo_store *store, const char *key, int64_t amount,
                           int64_t *result, gloo_error *error) {
  gli_frame request;
  gli_tcp_reply reply;
  uint64_t sum;
  gli_frame_begin(&request, strlen(key) + 16);
  gli_frame_put_key(&request, key);
  gli_frame_put_u64(&request, (uint64_t)amount);
  gloo_status status = store_tcp_call((tcp_store *)store, &request, GLI_TCP_ADD,
                                      NULL, &reply, error);
  if (status != GLOO_OK) return status;
  if (reply.status != GLOO_OK) return store_tcp_refused(store, &reply, error);
  if (!gli_body_u64(&reply.body, &sum) || reply.body.left != 0)
    return broken_reply(store, &reply, error);
  free(reply.data);
  *result = (int64_t)sum;
  return GLOO_OK;
}

static gloo_status tcp_compare_and_set(gloo_store *store, const char *key,
                                       const void *expected,
                                       size_t expected_bytes,
                                       const void *desired,
                                       size_t desired_bytes,
                                       gloo_value *current, gloo_error *error) {
  gli_frame request;
  gli_tcp_reply reply;
  const void *data;
  size_t bytes;
  gli_frame_begin(&request, strlen(key) + expected_bytes + desired_bytes + 24);
  gli_frame_put_key(&request, key);
  gli_frame_put_blob(&request, expected, expected_bytes);
  gli_frame_put_blob(&request, desired, desired_bytes);
  gli_frame_put_u32(&request, current != NULL);
  gloo_status status = store_tcp_call((tcp_store *)store, &request,
                                      GLI_TCP_COMPARE, NULL, &reply, error);
  if (status != GLOO_OK) return status;
  if (reply.status != GLOO_OK && reply.status != GLOO_ERR_COMPARE)
    return store_tcp_refused(store, &reply, error);
  if (!gli_body_blob(&reply.body, GLOO_STORE_VALUE_MAX, &data, &bytes) ||
      reply.body.left != 0)
    return broken_reply(store, &reply, error);
  if (current != NULL) status = gli_value_copy(data, bytes, current, error);
  free(reply.data);
  return status == GLOO_OK ? reply.status : status;
}

/* ---- fetch --------------------------------------------------------------- */

/* The parameters of one or several FETCH requests. */
typedef struct tcp_question {
  uint64_t deadline_ns;
  const char *alarm; /* NULL if there is none */
  size_t key_bytes;  /* size of the keys in one request */
} tcp_question;

/* Counts the keys that fit into one request. */
static size_t batch_of(const char *const *keys, size_t n_keys, size_t most,
                       size_t *bytes) {
  size_t n = 0;
  *bytes = 0;
  while (n < n_keys && n < GLI_TCP_KEYS_MAX && (n == 0 || *bytes < most))
    *bytes += strlen(keys[n++]) + 5;
  return n;
}

static gloo_status take_values(gli_body *body, size_t n, gloo_value *values,
                               bool *sane, gloo_error *error) {
  for (size_t i = 0; i < n; i++) {
    const void *data;
    size_t bytes;
    *sane = gli_body_blob(body, GLOO_STORE_VALUE_MAX, &data, &bytes);
    if (!*sane) return GLOO_OK;
    gloo_status status = gli_value_copy(data, bytes, &values[i], error);
    if (status != GLOO_OK) return status;
  }
  *sane = body->left == 0;
  return GLOO_OK;
}

/* Requests one batch. `*done` is the number of keys that the reply covers. */
static gloo_status fetch_batch(gloo_store *store, const tcp_question *question,
                               const char *const *keys, size_t n,
                               gloo_value *values, bool *present, size_t *done,
                               gloo_error *error) {
  gli_frame request;
  gli_tcp_reply reply;
  uint32_t k;
  bool sane = false;
  const char *alarm = question->alarm != NULL ? question->alarm : "";
  int64_t left = gli_deadline_left(question->deadline_ns);
  gli_frame_begin(&request, question->key_bytes + strlen(alarm) + 32);
  gli_frame_put_u64(&request, (uint64_t)left);
  gli_frame_put_u32(&request, values != NULL);
  gli_frame_put_key(&request, alarm);
  gli_frame_put_u32(&request, (uint32_t)n);
  for (size_t i = 0; i < n; i++) gli_frame_put_key(&request, keys[i]);
  gloo_status status =
      store_tcp_call((tcp_store *)store, &request, GLI_TCP_FETCH,
                     &question->deadline_ns, &reply, error);
  if (status != GLOO_OK) return status;
  if (reply.status == GLOO_ERR_TIMEOUT) {
    if (reply.body.left != n) return broken_reply(store, &reply, error);
    for (size_t i = 0; i < n; i++) present[i] = reply.body.at[i] != 0;
    free(reply.data);
    *done = n;
    return GLOO_ERR_TIMEOUT;
  }
  if (reply.status != GLOO_OK) return store_tcp_refused(store, &reply, error);
  if (!gli_body_u32(&reply.body, &k) || k > n || (values != NULL) != (k > 0))
    return broken_reply(store, &reply, error);
  status = take_values(&reply.body, k, values, &sane, error);
  if (status == GLOO_OK && !sane) return broken_reply(store, &reply, error);
  free(reply.data);
  *done = values != NULL ? k : n;
  for (size_t i = 0; i < *done; i++) present[i] = true;
  return status;
}

/* Fetches all batches. After a timeout the remaining batches are only checked,
 * so that the message can name all missing keys. */
static gloo_status fetch_all(gloo_store *store, tcp_question question,
                             const char *const *keys, size_t n_keys,
                             gloo_value *values, bool *present,
                             gloo_error *error) {
  gloo_status outcome = GLOO_OK;
  size_t most = question.key_bytes;
  for (size_t i = 0, done = 0; i < n_keys; i += done) {
    size_t n = batch_of(keys + i, n_keys - i, most, &question.key_bytes);
    gloo_status status = fetch_batch(store, &question, keys + i, n,
                                     values == NULL ? NULL : values + i,
                                     present + i, &done, error);
    if (status == GLOO_ERR_TIMEOUT) {
      outcome = status;
      values = NULL;
      question.deadline_ns = 0;
      most = GET_BYTES;
    } else if (status != GLOO_OK) {
      return status;
    }
  }
  return outcome;
}

static gloo_status tcp_fetch(gloo_store *store, const char *const *keys,
                             size_t n_keys, uint64_t deadline_ns,
                             gloo_value *values, bool *present,
                             gloo_error *error) {
  tcp_question question = {deadline_ns, NULL,
                           values != NULL ? GET_BYTES : WAIT_BYTES};
  return fetch_all(store, question, keys, n_keys, values, present, error);
}

static gloo_status tcp_await(gloo_store *store, const char *const *keys,
                             size_t n_keys, const char *alarm,
                             uint64_t deadline_ns, bool *present,
                             gloo_error *error) {
  tcp_question question = {deadline_ns, alarm, WAIT_BYTES};
  return fetch_all(store, question, keys, n_keys, NULL, present, error);
}

static bool tcp_serves(const gloo_store *store) {
  return ((const tcp_store *)store)->server != NULL;
}

static bool tcp_was_first(const gloo_store *store) {
  const tcp_store *self = (const tcp_store *)store;
  return self->client != NULL && gli_tcp_client_was_first(self->client);
}

/* ---- visits -------------------------------------------------------------- */

static gloo_status tcp_leave_will(gloo_store *store, const gli_will *will,
                                  gloo_error *error) {
  tcp_store *self = (tcp_store *)store;
  gli_frame request;
  if (self->client == NULL)
    return GLOO_OK; /* the end of its server is visible to all */
  gli_frame_begin(&request, 256);
  gli_frame_put_will(&request, will);
  gloo_status status = simple_call(store, &request, GLI_TCP_WILL, error);
  if (status == GLOO_OK) self->own->has_will = will->n > 0;
  return status;
}

static void tcp_visit_destroy(gloo_store *store) {
  tcp_store *self = (tcp_store *)store;
  if (self->own != NULL) gli_tcp_client_give(self->client, self->own);
  free(self);
}

#define TCP_OPS                                                   \
  .set = tcp_set, .fetch = tcp_fetch, .add = tcp_add,             \
  .compare_and_set = tcp_compare_and_set, .append = tcp_append,   \
  .remove = tcp_remove, .await = tcp_await, .serves = tcp_serves, \
  .was_first = tcp_was_first

static const gli_store_ops tcp_visit_ops = {
    TCP_OPS, .leave_will = tcp_leave_will, .destroy = tcp_visit_destroy};

static gloo_status tcp_visit(gloo_store *store, uint64_t deadline_ns,
                             gloo_store **visit, gloo_error *error) {
  tcp_store *copy = malloc(sizeof *copy);
  if (copy == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  *copy = *(const tcp_store *)store;
  copy->base.ops = &tcp_visit_ops;
  copy->visits = true;
  copy->deadline_ns = deadline_ns;
  if (copy->client != NULL) copy->own = gli_tcp_client_take(copy->client);
  *visit = &copy->base;
  return GLOO_OK;
}

/* ---- the store ----------------------------------------------------------- */

static void tcp_destroy(gloo_store *store) {
  tcp_store *self = (tcp_store *)store;
  if (self->client != NULL) gli_tcp_client_destroy(self->client);
  if (self->server != NULL) gli_tcp_server_destroy(self->server);
  free(self);
}

static void store_tcp_tcp_abandon(gloo_store *store) {
  tcp_store *self = (tcp_store *)store;
  if (self->client != NULL) gli_tcp_client_abandon(self->client);
  if (self->server != NULL) gli_tcp_server_abandon(self->server);
  free(self);
}

static const gli_store_ops tcp_ops = {TCP_OPS, .visit = tcp_visit,
                                      .destroy = tcp_destroy,
                                      .abandon = store_tcp_tcp_abandon};

static gloo_status store_tcp_check(gloo_store_tcp_options *options,
                                   gloo_store **store, gloo_error *error) {
  if (store == NULL)
    return gli_fail(error, GLOO_ERR_INVALID, -1, "`store` must not be NULL");
  if (options->host == NULL || options->host[0] == '\0')
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the TCP store needs a host: the name or address of the "
                    "machine on which its server runs");
  if (options->port == 0 && !options->serve)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the TCP store needs a port: only the server may use 0");
  gloo_status status =
      gli_timeout_of_start(options->timeout_ns, &options->timeout_ns, error);
  if (status != GLOO_OK) return status;
  return gli_job_check(&options->job, error);
}

/* Returns the address that clients on this host use. */
static struct sockaddr_storage store_tcp_address_of(const tcp_store *self) {
  if (self->client != NULL) return *gli_tcp_client_address(self->client);
  struct sockaddr_storage address = *gli_tcp_server_address(self->server);
  gli_tcp_address_reachable(&address);
  return address;
}

static void store_tcp_exposed(const tcp_store *self, const gli_trust *trust) {
  const struct sockaddr_storage *address = gli_tcp_server_address(self->server);
  if (!gli_tcp_address_is_loopback(address))
    gli_trust_exposed(trust, "the TCP store",
                      gli_tcp_address_name(address).text);
}

static tcp_store *store_tcp_make(gloo_error *error) {
  tcp_store *self = calloc(1, sizeof *self);
  if (self == NULL) {
    gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
    return NULL;
  }
  self->base.ops = &tcp_ops;
  self->base.birth = gli_birth_here();
  return self;
}

/* Finishes a store; `status` is that of its server or client. */
static gloo_status store_tcp_finish(tcp_store *self, gloo_status status,
                                    gloo_store **store) {
  if (status != GLOO_OK) {
    free(self);
    return status;
  }
  struct sockaddr_storage address = store_tcp_address_of(self);
  snprintf(self->base.label, sizeof self->base.label, "the TCP store at %s",
           gli_tcp_address_name(&address).text);
  *store = &self->base;
  return GLOO_OK;
}

static gloo_status store_tcp_open(tcp_store *self,
                                  const gloo_store_tcp_options *options,
                                  const gli_trust *trust, gli_tls_settings *tls,
                                  gloo_error *error) {
  if (!options->serve)
    return gli_tcp_client_create(options, trust, tls, &self->client, error);
  gloo_status status =
      gli_tcp_server_create(options, trust, tls, &self->server, error);
  if (status == GLOO_OK && tls == NULL) store_tcp_exposed(self, trust);
  return status;
}

gloo_status gloo_store_tcp_create(const gloo_store_tcp_options *given,
                                  gloo_store **store, gloo_error *error) {
  gloo_store_tcp_options options;
  gloo_status status = gli_options_load(&options, sizeof options, given,
                                        "gloo_store_tcp_options", error);
  if (status == GLOO_OK) status = store_tcp_check(&options, store, error);
  if (status != GLOO_OK) return status;
  gli_trust trust;
  status = gli_trust_read(options.secret, options.secret_bytes, &trust, error);
  if (status != GLOO_OK) return status;
  gli_tls_settings *tls = NULL;
  tcp_store *self = store_tcp_make(error);
  status = self != NULL ? gli_tls_settings_read(options.tls, &tls, error)
                        : GLOO_ERR_NO_MEMORY;
  if (status == GLOO_OK)
    status = gli_tls_suffices(gli_tls_settings_kind(tls), trust.asks, error);
  if (status == GLOO_OK)
    status = store_tcp_open(self, &options, &trust, tls, error);
  gli_tls_settings_release(tls);
  gli_trust_release(&trust);
  return store_tcp_finish(self, status, store);
}

uint16_t gloo_store_tcp_port(const gloo_store *store) {
  if (store == NULL || store->ops != &tcp_ops) return 0;
  struct sockaddr_storage address =
      store_tcp_address_of((const tcp_store *)store);
  return gli_tcp_address_port(&address);
}
