/* The store in a Redis server, or a compatible one. Keys are Redis strings, and
 * start with the path of the URL and a slash. Operations that Redis has no
 * command for are scripts, which it runs atomically. So a user with an access
 * list needs AUTH, EXISTS, GET, SET, DEL, EVAL, and in scripts GET, SET,
 * INCRBY, STRLEN, APPEND and EXPIRE.
 *
 * Keys expire a day after the last write, because others share the server:
 * contexts need a store only while they are made.
 *
 * A waiting rank polls the first missing key, first after 1 ms, then at twice
 * the interval each time, up to 50 ms. A poll takes a few microseconds of the
 * server's single thread, so 1,000 ranks that wait long take a tenth of it.
 * Notification by the server would need settings outside the client's control
 * (key-change notifications), or keys that `get` cannot read (lists). */
#include "rendezvous/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "rendezvous/store/redis_client.h"
#include "rendezvous/store/store_url.h"
#include "rendezvous/store/value.h"

#define LIFETIME_S "86400" /* lifetime of keys */
#define BATCH 64           /* commands pending at once */
#define BATCH_BYTES ((size_t)1 << 20)
#define PAUSE_MIN_NS ((int64_t)1000000)
#define PAUSE_MAX_NS ((int64_t)50000000)

typedef struct redis_store {
  gloo_store base;
  gli_redis_client *client;
  size_t prefix_bytes;
  char prefix[GLI_STORE_URL_MAX + 2]; /* prefix of all keys */
} redis_store;

typedef struct redis_name {
  char text[GLI_STORE_URL_MAX + 2 + GLOO_STORE_KEY_MAX];
} redis_name;

static void redis_put_key(const redis_store *self, gli_redis_command *command,
                          redis_name *name, const char *key) {
  size_t bytes = strlen(key);
  memcpy(name->text, self->prefix, self->prefix_bytes);
  memcpy(name->text + self->prefix_bytes, key, bytes);
  gli_redis_put(command, name->text, self->prefix_bytes + bytes);
}

/* Puts "EVAL script 1 key". */
static void redis_put_script(const redis_store *self,
                             gli_redis_command *command, redis_name *name,
                             const char *script, const char *key) {
  gli_redis_put_text(command, "EVAL");
  gli_redis_put_text(command, script);
  gli_redis_put_text(command, "1");
  redis_put_key(self, command, name, key);
}

/* Receives the next reply; a refusal is an error. */
static gloo_status redis_receive(const redis_store *self,
                                 gli_redis_connection *connection,
                                 uint64_t deadline_ns, redisReply **reply,
                                 gloo_error *error) {
  redisReply *got = NULL;
  gloo_status status =
      gli_redis_connection_receive(connection, deadline_ns, &got, error);
  if (status != GLOO_OK) return status;
  if (got->type == REDIS_REPLY_ERROR)
    return gli_redis_refused(self->base.label, got, error);
  *reply = got;
  return GLOO_OK;
}

/* Sends a command and receives its reply, which may be a refusal. */
static gloo_status redis_ask(const redis_store *self,
                             const gli_redis_command *command,
                             redisReply **reply, gloo_error *error) {
  gli_redis_connection *connection;
  uint64_t limit = gli_redis_client_patience(self->client, GLI_NEVER);
  gloo_status status =
      gli_redis_client_take(self->client, GLI_NEVER, &connection, error);
  if (status != GLOO_OK) return status;
  status = gli_redis_connection_send(connection, command, error);
  if (status == GLOO_OK)
    status = gli_redis_connection_receive(connection, limit, reply, error);
  gli_redis_client_give(self->client, connection, status == GLOO_OK);
  return status;
}

static gloo_status redis_strange(const redis_store *self, redisReply *reply,
                                 const char *command, gloo_error *error) {
  freeReplyObject(reply);
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                  "%s sent an invalid reply to %s", self->base.label, command);
}

/* Checks the type of a reply, and frees a reply of another type. */
static gloo_status redis_expect(const redis_store *self, redisReply *reply,
                                int type, const char *command,
                                gloo_error *error) {
  if (reply->type == type) return GLOO_OK;
  if (reply->type == REDIS_REPLY_ERROR)
    return gli_redis_refused(self->base.label, reply, error);
  return redis_strange(self, reply, command, error);
}

/* ---- set ----------------------------------------------------------------- */

static void redis_put_set(const redis_store *self, gli_redis_command *command,
                          redis_name *name, const char *key, const void *data,
                          size_t bytes) {
  gli_redis_put_text(command, "SET");
  redis_put_key(self, command, name, key);
  gli_redis_put(command, data, bytes);
  gli_redis_put_text(command, "EX");
  gli_redis_put_text(command, LIFETIME_S);
}

/* Sets the keys from *at on that fit into one batch. */
static gloo_status redis_set_batch(const redis_store *self,
                                   gli_redis_connection *connection,
                                   const char *const *keys,
                                   const gloo_value *values, size_t n_keys,
                                   size_t *at, gloo_error *error) {
  size_t sent = 0;
  while (*at < n_keys && sent < BATCH &&
         (sent == 0 || gli_redis_connection_unsent(connection) < BATCH_BYTES)) {
    gli_redis_command command = {0};
    redis_name name;
    redis_put_set(self, &command, &name, keys[*at], values[*at].data,
                  values[*at].bytes);
    gloo_status status = gli_redis_connection_send(connection, &command, error);
    if (status != GLOO_OK) return status;
    (*at)++;
    sent++;
  }
  uint64_t limit = gli_redis_client_patience(self->client, GLI_NEVER);
  for (; sent > 0; sent--) {
    redisReply *reply = NULL;
    gloo_status status = redis_receive(self, connection, limit, &reply, error);
    if (status != GLOO_OK) return status;
    status = redis_expect(self, reply, REDIS_REPLY_STATUS, "SET", error);
    if (status != GLOO_OK) return status;
    freeReplyObject(reply);
  }
  return GLOO_OK;
}

static gloo_status redis_multi_set(gloo_store *store, const char *const *keys,
                                   const gloo_value *values, size_t n_keys,
                                   gloo_error *error) {
  const redis_store *self = (const redis_store *)store;
  gli_redis_connection *connection;
  gloo_status status =
      gli_redis_client_take(self->client, GLI_NEVER, &connection, error);
  if (status != GLOO_OK) return status;
  for (size_t at = 0; at < n_keys && status == GLOO_OK;)
    status =
        redis_set_batch(self, connection, keys, values, n_keys, &at, error);
  gli_redis_client_give(self->client, connection, status == GLOO_OK);
  return status;
}

static gloo_status redis_set(gloo_store *store, const char *key,
                             const void *data, size_t bytes,
                             gloo_error *error) {
  const gloo_value value = {(void *)(uintptr_t)data, bytes};
  return redis_multi_set(store, &key, &value, 1, error);
}

/* ---- the other operations ------------------------------------------------ */

/* Returns the sum as a string, because numbers in scripts have 53 bits. */
static const char redis_add_script[] =
    "redis.call('INCRBY', KEYS[1], ARGV[1]) "
    "redis.call('EXPIRE', KEYS[1], " LIFETIME_S
    ") "
    "return redis.call('GET', KEYS[1])";

static gloo_status redis_add_refused(const redis_store *self, const char *key,
                                     int64_t amount, redisReply *reply,
                                     gloo_error *error) {
  bool no_number = strstr(reply->str, "not an integer") != NULL;
  if (!no_number && strstr(reply->str, "overflow") == NULL)
    return gli_redis_refused(self->base.label, reply, error);
  freeReplyObject(reply);
  return gli_fail(error, GLOO_ERR_INVALID, -1,
                  "cannot add %" PRId64 " to key '%s' in %s: %s 64 bits",
                  amount, gli_quote(key).text, self->base.label,
                  no_number ? "its value is not a decimal integer of"
                            : "the sum does not fit in");
}

static gloo_status redis_add(gloo_store *store, const char *key, int64_t amount,
                             int64_t *result, gloo_error *error) {
  const redis_store *self = (const redis_store *)store;
  gli_redis_command command = {0};
  redis_name name;
  redisReply *reply = NULL;
  char decimal[GLI_DECIMAL_BYTES];
  int64_t sum = 0;
  snprintf(decimal, sizeof decimal, "%" PRId64, amount);
  redis_put_script(self, &command, &name, redis_add_script, key);
  gli_redis_put_text(&command, decimal);
  gloo_status status = redis_ask(self, &command, &reply, error);
  if (status != GLOO_OK) return status;
  if (reply->type == REDIS_REPLY_ERROR)
    return redis_add_refused(self, key, amount, reply, error);
  /* Adding 0 parses the sum. */
  const gloo_value now = {reply->str, reply->len};
  if (reply->type != REDIS_REPLY_STRING ||
      gli_value_add(key, &now, 0, &sum, decimal, NULL) != GLOO_OK)
    return redis_strange(self, reply, "INCRBY", error);
  freeReplyObject(reply);
  *result = sum;
  return GLOO_OK;
}

/* Returns 1, or the key's other value. */
static const char redis_compare_script[] =
    "local now = redis.call('GET', KEYS[1]) "
    "if (now or '') ~= ARGV[1] then return now end "
    "redis.call('SET', KEYS[1], ARGV[2], 'EX', " LIFETIME_S
    ") "
    "return 1";

static gloo_status redis_compare_and_set(
    gloo_store *store, const char *key, const void *expected,
    size_t expected_bytes, const void *desired, size_t desired_bytes,
    gloo_value *current, gloo_error *error) {
  const redis_store *self = (const redis_store *)store;
  gli_redis_command command = {0};
  redis_name name;
  redisReply *reply = NULL;
  gloo_value now = {NULL, 0};
  redis_put_script(self, &command, &name, redis_compare_script, key);
  gli_redis_put(&command, expected, expected_bytes);
  gli_redis_put(&command, desired, desired_bytes);
  gloo_status status = redis_ask(self, &command, &reply, error);
  if (status != GLOO_OK) return status;
  bool set = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
  if (!set && reply->type != REDIS_REPLY_NIL) {
    status = redis_expect(self, reply, REDIS_REPLY_STRING, "EVAL", error);
    if (status != GLOO_OK) return status;
    if (reply->len > GLOO_STORE_VALUE_MAX)
      return redis_strange(self, reply, "EVAL", error);
  }
  if (current != NULL && set) {
    status = gli_value_copy(desired, desired_bytes, &now, error);
  } else if (current != NULL && reply->type == REDIS_REPLY_STRING) {
    status = gli_value_copy(reply->str, reply->len, &now, error);
  }
  freeReplyObject(reply);
  if (status != GLOO_OK) return status;
  if (current != NULL) *current = now;
  return set ? GLOO_OK : GLOO_ERR_COMPARE;
}

/* Returns -1, or the size of a value that has no room for more. */
static const char redis_append_script[] =
    "local n = redis.call('STRLEN', KEYS[1]) "
    "if n + #ARGV[1] > tonumber(ARGV[2]) then return n end "
    "redis.call('APPEND', KEYS[1], ARGV[1]) "
    "redis.call('EXPIRE', KEYS[1], " LIFETIME_S
    ") "
    "return -1";

static gloo_status redis_append(gloo_store *store, const char *key,
                                const void *data, size_t bytes,
                                gloo_error *error) {
  const redis_store *self = (const redis_store *)store;
  gli_redis_command command = {0};
  redis_name name;
  redisReply *reply = NULL;
  char most[GLI_DECIMAL_BYTES];
  snprintf(most, sizeof most, "%zu", GLOO_STORE_VALUE_MAX);
  redis_put_script(self, &command, &name, redis_append_script, key);
  gli_redis_put(&command, data, bytes);
  gli_redis_put_text(&command, most);
  gloo_status status = redis_ask(self, &command, &reply, error);
  if (status == GLOO_OK)
    status = redis_expect(self, reply, REDIS_REPLY_INTEGER, "EVAL", error);
  if (status != GLOO_OK) return status;
  long long held = reply->integer;
  if (held < -1) return redis_strange(self, reply, "EVAL", error);
  freeReplyObject(reply);
  if (held == -1) return GLOO_OK;
  status = gli_value_append_check(key, (size_t)held, bytes, error);
  if (status != GLOO_OK) return status;
  return gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                  "%s did not append %zu bytes, but reports enough room",
                  self->base.label, bytes);
}

static gloo_status redis_remove(gloo_store *store, const char *key,
                                gloo_error *error) {
  const redis_store *self = (const redis_store *)store;
  gli_redis_command command = {0};
  redis_name name;
  redisReply *reply = NULL;
  gli_redis_put_text(&command, "DEL");
  redis_put_key(self, &command, &name, key);
  gloo_status status = redis_ask(self, &command, &reply, error);
  if (status == GLOO_OK)
    status = redis_expect(self, reply, REDIS_REPLY_INTEGER, "DEL", error);
  if (status != GLOO_OK) return status;
  bool was_there = reply->integer == 1;
  freeReplyObject(reply);
  return was_there ? GLOO_OK : GLOO_ERR_NOT_FOUND;
}

/* ---- fetch --------------------------------------------------------------- */

/* A batch of keys whose existence, or whose values, are requested. The result
 * goes to `values` (zeroed) if that is set, and to `present` otherwise. */
typedef struct redis_batch {
  const char *const *keys;
  size_t n;
  gloo_value *values;
  bool *present;
} redis_batch;

/* Interprets one reply. */
static gloo_status redis_take_reply(const redis_store *self,
                                    const redis_batch *batch, size_t i,
                                    redisReply *reply, gloo_error *error) {
  gloo_status status = GLOO_OK;
  if (batch->values == NULL) {
    status = redis_expect(self, reply, REDIS_REPLY_INTEGER, "EXISTS", error);
    if (status != GLOO_OK) return status;
    batch->present[i] = reply->integer > 0;
  } else if (reply->type == REDIS_REPLY_NIL) {
    batch->present[i] = false;
  } else {
    status = redis_expect(self, reply, REDIS_REPLY_STRING, "GET", error);
    if (status != GLOO_OK) return status;
    if (reply->len > GLOO_STORE_VALUE_MAX)
      return redis_strange(self, reply, "GET", error);
    gli_value_free(&batch->values[i]);
    status = gli_value_copy(reply->str, reply->len, &batch->values[i], error);
    batch->present[i] = true;
  }
  freeReplyObject(reply);
  return status;
}

static gloo_status redis_look(const redis_store *self,
                              gli_redis_connection *connection,
                              const redis_batch *batch, uint64_t deadline_ns,
                              gloo_error *error) {
  gloo_status status = GLOO_OK;
  uint64_t limit = gli_redis_client_patience(self->client, deadline_ns);
  for (size_t i = 0; i < batch->n && status == GLOO_OK; i++) {
    gli_redis_command command = {0};
    redis_name name;
    gli_redis_put_text(&command, batch->values != NULL ? "GET" : "EXISTS");
    redis_put_key(self, &command, &name, batch->keys[i]);
    status = gli_redis_connection_send(connection, &command, error);
  }
  for (size_t i = 0; i < batch->n && status == GLOO_OK; i++) {
    redisReply *reply = NULL;
    status = redis_receive(self, connection, limit, &reply, error);
    if (status == GLOO_OK)
      status = redis_take_reply(self, batch, i, reply, error);
  }
  return status;
}

typedef struct redis_fetching {
  const char *const *keys;
  size_t n_keys, at; /* keys before `at` exist, with their values */
  gloo_value *values;
  bool *present;
  uint64_t deadline_ns;
} redis_fetching;

/* Continues from `at` to a key that does not exist (GLOO_ERR_NOT_FOUND). After
 * a pause only the missing key is requested. */
static gloo_status redis_fetch_on(const redis_store *self,
                                  gli_redis_connection *connection,
                                  redis_fetching *f, size_t first,
                                  gloo_error *error) {
  for (size_t most = first; f->at < f->n_keys; most = BATCH) {
    size_t at = f->at, left = f->n_keys - at;
    const redis_batch batch = {f->keys + at, left < most ? left : most,
                               f->values == NULL ? NULL : f->values + at,
                               f->present + at};
    gloo_status status =
        redis_look(self, connection, &batch, f->deadline_ns, error);
    if (status != GLOO_OK) return status;
    while (f->at < at + batch.n && f->present[f->at]) f->at++;
    if (f->at < at + batch.n) return GLOO_ERR_NOT_FOUND;
  }
  return GLOO_OK;
}

/* Checks each key after the deadline. */
static gloo_status redis_fetch_late(const redis_store *self,
                                    gli_redis_connection *connection,
                                    redis_fetching *f, gloo_error *error) {
  for (size_t at = f->at; at < f->n_keys; at += BATCH) {
    size_t left = f->n_keys - at;
    const redis_batch batch = {f->keys + at, left < BATCH ? left : BATCH, NULL,
                               f->present + at};
    gloo_status status =
        redis_look(self, connection, &batch, f->deadline_ns, error);
    if (status != GLOO_OK) return status;
  }
  return GLOO_ERR_TIMEOUT;
}

static gloo_status redis_fetch_until(const redis_store *self,
                                     gli_redis_connection *connection,
                                     redis_fetching *f, gloo_error *error) {
  int64_t pause_ns = PAUSE_MIN_NS;
  size_t first = BATCH;
  for (;;) {
    size_t before = f->at;
    gloo_status status = redis_fetch_on(self, connection, f, first, error);
    if (status != GLOO_ERR_NOT_FOUND) return status;
    int64_t left = gli_deadline_left(f->deadline_ns);
    if (left == 0) return redis_fetch_late(self, connection, f, error);
    if (f->at > before) pause_ns = PAUSE_MIN_NS;
    int64_t rest_ns = left > 0 && left < pause_ns ? left : pause_ns;
    if (!gli_redis_connection_rests(connection, gli_deadline_after(rest_ns))) {
      redisReply *unasked = NULL;
      uint64_t limit = gli_redis_client_patience(self->client, f->deadline_ns);
      status = redis_receive(self, connection, limit, &unasked, error);
      return status != GLOO_OK
                 ? status
                 : redis_strange(self, unasked, "no command", error);
    }
    pause_ns = pause_ns * 2 < PAUSE_MAX_NS ? pause_ns * 2 : PAUSE_MAX_NS;
    first = 1;
  }
}

static gloo_status redis_fetch(gloo_store *store, const char *const *keys,
                               size_t n_keys, uint64_t deadline_ns,
                               gloo_value *values, bool *present,
                               gloo_error *error) {
  const redis_store *self = (const redis_store *)store;
  redis_fetching f = {keys, n_keys, 0, values, present, deadline_ns};
  gli_redis_connection *connection;
  gloo_status status =
      gli_redis_client_take(self->client, deadline_ns, &connection, error);
  if (status != GLOO_OK) return status;
  status = redis_fetch_until(self, connection, &f, error);
  gli_redis_client_give(self->client, connection,
                        status == GLOO_OK || status == GLOO_ERR_TIMEOUT);
  return status;
}

/* ---- the store ----------------------------------------------------------- */

static void redis_destroy(gloo_store *store) {
  gli_redis_client_destroy(((redis_store *)store)->client);
  free(store);
}

static void redis_abandon(gloo_store *store) {
  gli_redis_client_abandon(((redis_store *)store)->client);
  free(store);
}

static bool redis_lasts(const gloo_store *store) {
  (void)store;
  return true;
}

static const gli_store_ops redis_ops = {
    .set = redis_set,
    .fetch = redis_fetch,
    .multi_set = redis_multi_set,
    .add = redis_add,
    .compare_and_set = redis_compare_and_set,
    .append = redis_append,
    .remove = redis_remove,
    .lasts = redis_lasts,
    .destroy = redis_destroy,
    .abandon = redis_abandon,
};

static gloo_status redis_check(const gli_store_url *url, gloo_error *error) {
  if (url->host[0] == '\0')
    return gli_fail(error, GLOO_ERR_INVALID, -1,
                    "the Redis store needs a host: redis://HOST:PORT/PATH");
  if (strlen(url->path) <= GLI_STORE_URL_MAX) return GLOO_OK;
  return gli_fail(
      error, GLOO_ERR_INVALID, -1,
      "the path of the Redis store's URL has %zu bytes; the limit is %zu",
      strlen(url->path), GLI_STORE_URL_MAX);
}

gloo_status gli_store_redis_open(const gli_store_url *url, bool tls,
                                 int64_t timeout_ns, gloo_store **store,
                                 gloo_error *error) {
  gloo_status status = redis_check(url, error);
  if (status != GLOO_OK) return status;
  redis_store *self = calloc(1, sizeof *self);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a store");
  self->base.ops = &redis_ops;
  self->base.birth = gli_birth_here();
  bool v6 = strchr(url->host, ':') != NULL;
  snprintf(self->base.label, sizeof self->base.label,
           "the Redis store at %s%s%s:%u", v6 ? "[" : "",
           gli_quote(url->host).text, v6 ? "]" : "",
           url->port != 0 ? (unsigned)url->port : GLI_REDIS_PORT);
  if (url->path[0] != '\0')
    snprintf(self->prefix, sizeof self->prefix, "%s/", url->path);
  self->prefix_bytes = strlen(self->prefix);
  status =
      gli_redis_client_create(url, tls, self->base.label,
                              self->prefix_bytes > 0 ? self->prefix : "gloo",
                              timeout_ns, &self->client, error);
  if (status != GLOO_OK) {
    free(self);
    return status;
  }
  *store = &self->base;
  return GLOO_OK;
}
