/* The client of a store that PyTorch serves: c10d::TCPStore, as in torchrun's
 * agent and torch.distributed.TCPStore (c10d_connection.h has the protocol).
 * Key k of this store is key "/PATH/k" of the server, where PATH is that of the
 * URL, and "/k" without a path. PyTorch's own client calls it "PATH/k" or "k".
 *
 * The server's operations promise less than store.h:
 * - COMPARE_SET returns the value afterwards, not whether this client stored
 *   it: two clients with the same desired value both get it. So the client
 *   first stores the value behind a unique tag, and removes the tag at once. If
 *   the client ends in between, the tag remains, but clients of this kind do
 *   not count it as part of the value, and any of them may remove it.
 * - COMPARE_SET returns `expected` for an absent key. With a new tag as
 *   `expected` it shows whether the key exists.
 * - One of the two kinds of server wakes no waiting client when COMPARE_SET
 *   creates the key; appending nothing to it does.
 * - MULTI_GET of an absent key returns an empty value on one kind of server,
 *   and makes the other close the connection.
 * - ADD accepts numbers that this library does not, and its sums overflow;
 *   APPEND has no limit. So the value is checked before. Another client may
 *   change it in between: then the server may close the connection, or the
 *   value becomes too long to get. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "net/tcp_address.h"
#include "rendezvous/store/c10d_store.h"
#include "rendezvous/store/store_url.h"
#include "rendezvous/store/value.h"

#define C10D_SET_BYTES ((size_t)1 << 20) /* size of a multi_set */

/* ---- the operations ------------------------------------------------------ */

/* Sends a request whose reply is one number. */
static gloo_status c10d_call(gli_c10d_store *self, gli_frame *request,
                             uint64_t *number, gloo_error *error) {
  gli_c10d_connection *connection;
  gloo_status status = gli_c10d_begin(
      self, request, gli_c10d_patience(self, GLI_NEVER), &connection, error);
  if (status != GLOO_OK) return status;
  (void)gli_c10d_take_u64(connection, number);
  return gli_c10d_end(self, request, connection, error);
}

/* Sends requests without a reply. */
static gloo_status c10d_call_silent(gli_c10d_store *self, gli_frame *request,
                                    gloo_error *error) {
  gli_c10d_connection *connection;
  gli_c10d_put_end(request);
  gloo_status status = gli_c10d_begin(
      self, request, gli_c10d_patience(self, GLI_NEVER), &connection, error);
  if (status != GLOO_OK) return status;
  gli_c10d_take_end(connection);
  return gli_c10d_end(self, request, connection, error);
}

static gloo_status c10d_multi_set(gloo_store *store, const char *const *keys,
                                  const gloo_value *values, size_t n_keys,
                                  gloo_error *error) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  gloo_status status = GLOO_OK;
  for (size_t i = 0; i < n_keys && status == GLOO_OK; i++)
    status = gli_c10d_refuse_mark(self, keys[i], values[i].data,
                                  values[i].bytes, error);
  for (size_t i = 0; i < n_keys && status == GLOO_OK;) {
    gli_frame request;
    gli_frame_begin(&request, strlen(keys[i]) + values[i].bytes + 2048);
    do {
      gli_c10d_put_set(self, &request, GLI_C10D_SET, keys[i], values[i].data,
                       values[i].bytes);
      i++;
    } while (i < n_keys && request.bytes < C10D_SET_BYTES &&
             values[i].bytes < C10D_SET_BYTES);
    status = c10d_call_silent(self, &request, error);
  }
  return status;
}

static gloo_status c10d_set(gloo_store *store, const char *key,
                            const void *data, size_t bytes, gloo_error *error) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  gli_frame request;
  gloo_status status = gli_c10d_refuse_mark(self, key, data, bytes, error);
  if (status != GLOO_OK) return status;
  gli_frame_begin(&request, bytes + 2048);
  gli_c10d_put_set(self, &request, GLI_C10D_SET, key, data, bytes);
  return c10d_call_silent(self, &request, error);
}

static gloo_status c10d_append(gloo_store *store, const char *key,
                               const void *data, size_t bytes,
                               gloo_error *error) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  gli_frame request;
  gloo_value old;
  bool present;
  gloo_status status = gli_c10d_refuse_mark(self, key, data, bytes, error);
  if (status == GLOO_OK)
    status = gli_c10d_settle(self, key, &present, &old, error);
  if (status != GLOO_OK) return status;
  status = gli_value_append_check(key, old.bytes, bytes, error);
  gli_value_free(&old);
  if (status != GLOO_OK) return status;
  gli_frame_begin(&request, bytes + 2048);
  gli_c10d_put_set(self, &request, GLI_C10D_APPEND, key, data, bytes);
  return c10d_call_silent(self, &request, error);
}

static gloo_status c10d_add(gloo_store *store, const char *key, int64_t amount,
                            int64_t *result, gloo_error *error) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  gli_frame request;
  gloo_value old;
  bool present;
  char decimal[GLI_DECIMAL_BYTES];
  int64_t expected;
  uint64_t sum;
  gloo_status status = gli_c10d_settle(self, key, &present, &old, error);
  if (status != GLOO_OK) return status;
  status = gli_value_add(key, present ? &old : NULL, amount, &expected, decimal,
                         error);
  gli_value_free(&old);
  if (status != GLOO_OK) return status;
  gli_frame_begin(&request, 2048);
  gli_c10d_put_op(&request, GLI_C10D_ADD);
  gli_c10d_put_key(self, &request, key);
  gli_c10d_put_u64(&request, (uint64_t)amount);
  status = c10d_call(self, &request, &sum, error);
  if (status == GLOO_OK) *result = (int64_t)sum;
  return status;
}

static gloo_status c10d_remove(gloo_store *store, const char *key,
                               gloo_error *error) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  gli_frame request;
  gli_c10d_connection *connection;
  uint64_t removed = 0;
  gli_frame_begin(&request, 2048);
  gli_c10d_put_op(&request, GLI_C10D_DELETE);
  gli_c10d_put_key(self, &request, key);
  gloo_status status = gli_c10d_begin(
      self, &request, gli_c10d_patience(self, GLI_NEVER), &connection, error);
  if (status != GLOO_OK) return status;
  if (gli_c10d_take_u64(connection, &removed) && removed > 1)
    gli_c10d_refuse(connection);
  status = gli_c10d_end(self, &request, connection, error);
  return status == GLOO_OK && removed == 0 ? GLOO_ERR_NOT_FOUND : status;
}

/* ---- compare-and-set ----------------------------------------------------- */

/* Replaces `raw` (empty: also an absent key) by `tagged`, and that by the value
 * without its tag, in one exchange. If the first request changes nothing,
 * neither does the second. `answer` is that of the first. */
static gloo_status c10d_try_compare(gli_c10d_store *self, const char *key,
                                    const gloo_value *raw,
                                    const gloo_value *tagged,
                                    gloo_value *answer, uint64_t limit,
                                    gloo_error *error) {
  gli_frame request;
  gli_c10d_connection *connection;
  gloo_value bare = gli_c10d_untagged(tagged), second = {NULL, 0};
  gli_frame_begin(&request, 4096 + raw->bytes + 3 * tagged->bytes);
  gli_c10d_put_compare(self, &request, key, raw, tagged);
  gli_c10d_put_compare(self, &request, key, tagged, &bare);
  /* An empty append wakes waiting clients. The key exists by now, whichever
   * client made it. If another client has just deleted it, this would make it
   * again; the libuv server, which does not need the append, does so after a
   * long value only. */
  if (raw->bytes == 0)
    gli_c10d_put_set(self, &request, GLI_C10D_APPEND, key, NULL, 0);
  gli_c10d_put_end(&request);
  *answer = (gloo_value){NULL, 0};
  gloo_status status =
      gli_c10d_begin(self, &request, limit, &connection, error);
  if (status != GLOO_OK) return status;
  if (gli_c10d_take_text(connection, answer) &&
      gli_c10d_take_text(connection, &second))
    gli_value_free(&second);
  gli_c10d_take_end(connection);
  status = gli_c10d_end(self, &request, connection, error);
  if (status != GLOO_OK) gli_value_free(answer);
  return status;
}

/* Repeats until the value is replaced, or differs from the expected one. */
static gloo_status c10d_compare_until_told(
    gli_c10d_store *self, const char *key, const gloo_value *expected,
    const gloo_value *tagged, gloo_value *current, gloo_error *error) {
  gloo_value raw = *expected; /* the expected value in the server's form */
  gloo_value answer = {NULL, 0}, held = {NULL, 0}, bare;
  uint64_t limit = gli_c10d_patience(self, GLI_NEVER);
  gloo_status status;
  bool won;
  do {
    status = c10d_try_compare(self, key, &raw, tagged, &answer, limit, error);
    if (status != GLOO_OK) goto free_values;
    won = gli_c10d_equal(&answer, tagged);
    if (!won && raw.bytes > 0 && gli_c10d_equal(&answer, &raw))
      gli_value_free(&answer); /* absent */
    bare = gli_c10d_untagged(&answer);
    if (won || !gli_c10d_equal(&bare, expected)) break;
    gli_value_free(&held);
    raw = held = answer;
    answer = (gloo_value){NULL, 0};
    if (gli_deadline_left(limit) == 0) {
      status = gli_c10d_restless(self, key, error);
      goto free_values;
    }
  } while (true);
  if (current != NULL)
    status = gli_value_copy(bare.data, bare.bytes, current, error);
  if (status == GLOO_OK && !won) status = GLOO_ERR_COMPARE;

free_values:
  gli_value_free(&answer);
  gli_value_free(&held);
  return status;
}

static gloo_status c10d_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  const size_t most = GLOO_STORE_VALUE_MAX - sizeof(gli_c10d_tag);
  gli_c10d_tag tag;
  if (desired_bytes > most)
    return gli_fail(
        error, GLOO_ERR_UNSUPPORTED, -1,
        "%s can compare and set at most %zu bytes, not %zu, for key '%s'",
        store->label, most, desired_bytes, gli_quote(key).text);
  gloo_status status =
      gli_c10d_refuse_mark(self, key, expected, expected_bytes, error);
  if (status == GLOO_OK)
    status = gli_c10d_refuse_mark(self, key, desired, desired_bytes, error);
  if (status == GLOO_OK) status = gli_c10d_tag_make(self, &tag, error);
  if (status != GLOO_OK) return status;
  gloo_value tagged = {malloc(sizeof tag + desired_bytes),
                       sizeof tag + desired_bytes};
  if (tagged.data == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a request to %s", store->label);
  memcpy(tagged.data, &tag, sizeof tag);
  if (desired_bytes > 0)
    memcpy((uint8_t *)tagged.data + sizeof tag, desired, desired_bytes);
  const gloo_value wanted = {(void *)expected, expected_bytes};
  status = c10d_compare_until_told(self, key, &wanted, &tagged, current, error);
  gli_value_free(&tagged);
  return status;
}

/* ---- the store ----------------------------------------------------------- */

static void c10d_destroy(gloo_store *store) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  if (gli_tcp_pool_close(&self->pool)) free(self);
}

static void c10d_abandon(gloo_store *store) {
  gli_c10d_store *self = (gli_c10d_store *)store;
  if (gli_tcp_pool_abandon(&self->pool)) free(self);
}

static bool c10d_lasts(const gloo_store *store) {
  (void)store;
  return true;
}

static const gli_store_ops c10d_ops = {
    .set = c10d_set,
    .fetch = gli_c10d_fetch,
    .multi_set = c10d_multi_set,
    .add = c10d_add,
    .compare_and_set = c10d_compare_and_set,
    .append = c10d_append,
    .remove = c10d_remove,
    .lasts = c10d_lasts,
    .destroy = c10d_destroy,
    .abandon = c10d_abandon,
};

static gloo_status c10d_open_one(const void *client,
                                 const struct sockaddr_storage *address,
                                 uint64_t deadline_ns,
                                 gli_store_conn **connection,
                                 gloo_error *error) {
  (void)client;
  return gli_c10d_connection_open(address, deadline_ns, connection, error);
}

/* Returns true if the connection is still open and silent. */
static bool c10d_usable_one(gli_store_conn *connection) {
  return gli_store_conn_rests(connection, 0);
}

static const gli_tcp_pool_kind c10d_pool = {
    .store = "the c10d store",
    .server =
        "the server of that store (torchrun's agent, or the process that "
        "created the TCPStore)",
    .open = c10d_open_one,
    .usable = c10d_usable_one,
};

static gloo_status c10d_check_url(const gli_store_url *url, gloo_error *error) {
  if (url->host[0] == '\0' || url->port == 0)
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the URL of a c10d store needs a host and a port: "
                    "c10d://HOST:PORT");
  if (url->user[0] != '\0' || url->password[0] != '\0')
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the URL of the c10d store at host '%s' has a user or a "
                    "password, which c10d stores do not support",
                    gli_quote(url->host).text);
  return GLOO_OK;
}

gloo_status gli_store_c10d_open(const gli_store_url *url, int64_t timeout_ns,
                                gloo_store **store, gloo_error *error) {
  size_t path_bytes = strlen(url->path);
  gloo_status status = c10d_check_url(url, error);
  if (status != GLOO_OK) return status;
  gli_c10d_store *self = calloc(1, sizeof *self + path_bytes + 3);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  self->base.ops = &c10d_ops;
  self->base.birth = gli_birth_here();
  self->timeout_ns = timeout_ns;
  self->prefix_bytes = (size_t)snprintf(
      self->prefix, path_bytes + 3, path_bytes > 0 ? "/%s/" : "/%s", url->path);
  status = gli_tcp_pool_open(&self->pool, &c10d_pool, self, url->host,
                             url->port, self->timeout_ns, error);
  if (status != GLOO_OK) {
    free(self);
    return status;
  }
  snprintf(self->base.label, sizeof self->base.label, "the c10d store at %s",
           gli_tcp_address_name(&self->pool.address).text);
  *store = &self->base;
  return GLOO_OK;
}
