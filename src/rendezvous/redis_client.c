#include "rendezvous/redis_client.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/fork.h"
#include "core/log.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_address.h"
#include "rendezvous/text.h"

#define IDLE_MAX 4 /* connections kept for later */

/* One attempt to connect, and to be greeted: other addresses want their turn,
 * too. */
#define ATTEMPT_NS ((int64_t)3000000000)
#define GREETING_NS ((int64_t)5000000000)
/* An answer may take this long, whatever the deadline is. */
#define GRACE_NS ((int64_t)2000000000)
/* Between attempts. */
#define PAUSE_MIN_MS 5u
#define PAUSE_MAX_MS 200u

struct gli_redis_client {
  uv_mutex_t lock; /* guards idle and n_idle */
  gli_fork_guard forks;
  gli_redis_connection *idle;
  size_t n_idle;
  struct sockaddr_storage address; /* the one that answered */
  int64_t timeout_ns;
  const char *store; /* the owner's */
  const char *host, *user, *password, *key;
  uint16_t port;
  char text[]; /* what these four point to */
};

static uint64_t redis_earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

uint64_t gli_redis_client_patience(const gli_redis_client *self,
                                   uint64_t deadline_ns) {
  uint64_t soon = gli_deadline_after(GRACE_NS);
  uint64_t late = gli_deadline_after(self->timeout_ns);
  uint64_t limit = redis_earlier(deadline_ns, late);
  return limit > soon ? limit : soon;
}

/* ---- what servers refuse ------------------------------------------------- */

static bool redis_says(const redisReply *reply, const char *word) {
  size_t bytes = strlen(word);
  return reply->len >= bytes && memcmp(reply->str, word, bytes) == 0;
}

static bool redis_says_one(const redisReply *reply, const char *const *words) {
  for (; *words != NULL; words++)
    if (redis_says(reply, *words)) return true;
  return false;
}

/* Will it be otherwise in a moment? */
static bool redis_is_busy(const redisReply *reply) {
  static const char *const busy[] = {"LOADING",     "BUSY ",
                                     "MASTERDOWN",  "TRYAGAIN",
                                     "CLUSTERDOWN", "ERR max number of clients",
                                     "NOREPLICAS",  NULL};
  return redis_says_one(reply, busy);
}

gloo_status gli_redis_refused(const char *store, redisReply *reply,
                              gloo_error *error) {
  static const char *const access[] = {"NOAUTH", "WRONGPASS", "NOPERM", NULL};
  gloo_status status = GLOO_ERR_IO;
  const char *advice = "";
  if (redis_says_one(reply, access)) {
    status = GLOO_ERR_INVALID;
    advice = "; check user and password of the URL, and what that user may do";
  } else if (redis_says(reply, "OOM")) {
    status = GLOO_ERR_NO_MEMORY;
  } else if (redis_says(reply, "READONLY") || redis_says(reply, "MOVED")) {
    advice = "; give the address of the server that holds the keys";
  }
  gli_fail(error, status, -1, "%s refuses: %.250s%s", store, reply->str,
           advice);
  freeReplyObject(reply);
  return status;
}

/* Servers repeat what they did not understand, a password included, so only
 * what is known to be said of passwords is shown. */
static gloo_status redis_refused_password(const gli_redis_client *self,
                                          redisReply *reply,
                                          gloo_error *error) {
  static const char *const known[] = {"WRONGPASS",
                                      "ERR invalid password",
                                      "ERR AUTH ",
                                      "ERR Client sent AUTH",
                                      "ERR wrong number of arguments",
                                      "DENIED",
                                      NULL};
  gli_fail(error, GLOO_ERR_INVALID, -1,
           "%s refuses the URL's %spassword: %.200s", self->store,
           self->user[0] != '\0' ? "user or " : "",
           redis_says_one(reply, known)
               ? reply->str
               : "its answer is not shown, as it may repeat the password");
  freeReplyObject(reply);
  return GLOO_ERR_INVALID;
}

/* ---- connecting ---------------------------------------------------------- */

/* One command and its reply. An error of a server that is not ready becomes
 * GLOO_ERR_PEER: to be tried again. */
static gloo_status redis_greet_with(const gli_redis_client *self,
                                    gli_redis_connection *connection,
                                    const gli_redis_command *command,
                                    uint64_t deadline_ns, redisReply **reply,
                                    gloo_error *error) {
  redisReply *got = NULL;
  gloo_status status = gli_redis_connection_send(connection, command, error);
  if (status == GLOO_OK)
    status = gli_redis_connection_receive(connection, deadline_ns, &got, error);
  if (status != GLOO_OK) return status;
  if (got->type == REDIS_REPLY_ERROR && redis_is_busy(got)) {
    gli_fail(error, GLOO_ERR_PEER, -1, "%s is not ready: %.200s", self->store,
             got->str);
    freeReplyObject(got);
    return GLOO_ERR_PEER;
  }
  *reply = got;
  return GLOO_OK;
}

static gloo_status redis_log_in(const gli_redis_client *self,
                                gli_redis_connection *connection,
                                uint64_t deadline_ns, gloo_error *error) {
  gli_redis_command command = {0};
  redisReply *reply = NULL;
  if (self->user[0] == '\0' && self->password[0] == '\0') return GLOO_OK;
  gli_redis_put_text(&command, "AUTH");
  if (self->user[0] != '\0') gli_redis_put_text(&command, self->user);
  gli_redis_put_text(&command, self->password);
  gloo_status status =
      redis_greet_with(self, connection, &command, deadline_ns, &reply, error);
  if (status != GLOO_OK) return status;
  if (reply->type == REDIS_REPLY_ERROR)
    return redis_refused_password(self, reply, error);
  freeReplyObject(reply);
  return GLOO_OK;
}

/* Is it a server, does it take the password, and is it ready? */
static gloo_status redis_greet(const gli_redis_client *self,
                               gli_redis_connection *connection,
                               uint64_t deadline_ns, gloo_error *error) {
  gli_redis_command command = {0};
  redisReply *reply = NULL;
  gloo_status status = redis_log_in(self, connection, deadline_ns, error);
  if (status != GLOO_OK) return status;
  gli_redis_put_text(&command, "EXISTS");
  gli_redis_put_text(&command, self->key);
  status =
      redis_greet_with(self, connection, &command, deadline_ns, &reply, error);
  if (status != GLOO_OK) return status;
  if (reply->type == REDIS_REPLY_ERROR)
    return gli_redis_refused(self->store, reply, error);
  if (reply->type != REDIS_REPLY_INTEGER)
    status = gli_fail(error, GLOO_ERR_PROTOCOL, -1,
                      "%s answers EXISTS with something else than a number: "
                      "check that a Redis server is what answers there",
                      self->store);
  freeReplyObject(reply);
  return status;
}

/* One attempt at one address. */
static gloo_status redis_open_one(const gli_redis_client *self,
                                  const struct sockaddr_storage *address,
                                  uint64_t deadline_ns,
                                  gli_redis_connection **connection,
                                  gloo_error *error) {
  gli_redis_connection *opened;
  uint64_t attempt = redis_earlier(deadline_ns, gli_deadline_after(ATTEMPT_NS));
  gloo_status status =
      gli_redis_connection_open(self->store, address, attempt, &opened, error);
  if (status != GLOO_OK) return status;
  attempt = redis_earlier(deadline_ns, gli_deadline_after(GREETING_NS));
  status = redis_greet(self, opened, attempt, error);
  if (status == GLOO_OK) {
    *connection = opened;
  } else {
    gli_redis_connection_close(opened);
  }
  return status;
}

/* Resolve, and try all addresses once. */
static gloo_status redis_try_all(gli_redis_client *self, uint64_t deadline_ns,
                                 gloo_error *error) {
  gli_tcp_addresses addresses;
  gloo_status status = gli_tcp_resolve("the Redis store", self->host,
                                       self->port, &addresses, error);
  if (status != GLOO_OK) return status;
  for (size_t i = 0; i < addresses.n; i++) {
    status = redis_open_one(self, &addresses.list[i], deadline_ns, &self->idle,
                            error);
    if (status == GLOO_ERR_PEER) continue;
    if (status != GLOO_OK) return status;
    self->address = addresses.list[i];
    self->n_idle = 1;
    return GLOO_OK;
  }
  return status;
}

/* The last attempt is often cut short: what the one before met with says more.
 */
static gloo_status redis_connect_patiently(gli_redis_client *self,
                                           gloo_error *error) {
  uint64_t deadline = gli_deadline_after(self->timeout_ns);
  unsigned pause_ms = PAUSE_MIN_MS;
  gloo_error cause = {.status = GLOO_OK};
  for (;;) {
    gloo_error now;
    gloo_status status = redis_try_all(self, deadline, &now);
    if (status == GLOO_OK) return status;
    int64_t left = gli_deadline_left(deadline);
    if (status != GLOO_ERR_PEER && status != GLOO_ERR_ADDRESS)
      return gli_fail(error, status, -1, "%s", now.message);
    if (status == GLOO_ERR_ADDRESS && cause.status != status)
      gli_log(GLOO_LOG_WARN, "%s; trying again", now.message);
    if (left != 0 || cause.status == GLOO_OK) cause = now;
    if (left == 0)
      return gli_fail(
          error,
          cause.status == GLOO_ERR_PEER ? GLOO_ERR_TIMEOUT : cause.status, -1,
          "%s (tried for %s; is the Redis server running?)", cause.message,
          gli_duration(self->timeout_ns).text);
    if (left > 0 && (int64_t)pause_ms * 1000000 > left)
      pause_ms = (unsigned)(left / 1000000) + 1;
    uv_sleep(pause_ms);
    pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
  }
}

/* ---- the client ---------------------------------------------------------- */

static const char *redis_copy_text(char **to, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = memcpy(*to, text, bytes);
  *to += bytes;
  return copy;
}

gloo_status gli_redis_client_create(const gli_store_url *url, const char *store,
                                    const char *key, int64_t timeout_ns,
                                    gli_redis_client **client,
                                    gloo_error *error) {
  gloo_status status = GLOO_ERR_NO_MEMORY;
  size_t bytes = strlen(url->host) + strlen(url->user) + strlen(url->password) +
                 strlen(key) + 4;
  gli_redis_client *self = calloc(1, sizeof *self + bytes);
  if (self == NULL) goto no_memory;
  char *text = self->text;
  self->host = redis_copy_text(&text, url->host);
  self->user = redis_copy_text(&text, url->user);
  self->password = redis_copy_text(&text, url->password);
  self->key = redis_copy_text(&text, key);
  self->port = url->port != 0 ? url->port : GLI_REDIS_PORT;
  self->store = store;
  self->timeout_ns = timeout_ns;
  if (uv_mutex_init(&self->lock) != 0) goto free_self;
  status = redis_connect_patiently(self, error);
  if (status != GLOO_OK) goto destroy_lock;
  if (!gli_fork_guard_begin(&self->forks, GLI_FORK_OBJECTS, &self->lock,
                            NULL)) {
    gli_redis_connection_close(self->idle);
    uv_mutex_destroy(&self->lock);
    status = GLOO_ERR_NO_MEMORY;
    goto free_self;
  }
  *client = self;
  return GLOO_OK;

destroy_lock:
  uv_mutex_destroy(&self->lock);
  free(self);
  return status;
free_self:
  free(self);
no_memory:
  return gli_fail(error, status, -1, "no memory for a client of %s", store);
}

static void redis_client_end(gli_redis_client *self,
                             void (*close)(gli_redis_connection *connection)) {
  gli_fork_guard_end(&self->forks);
  if (self->forks.torn) return;
  while (self->idle != NULL) {
    gli_redis_connection *connection = self->idle;
    self->idle = *gli_redis_connection_next(connection);
    close(connection);
  }
  uv_mutex_destroy(&self->lock);
  free(self);
}

void gli_redis_client_destroy(gli_redis_client *self) {
  redis_client_end(self, gli_redis_connection_close);
}

void gli_redis_client_abandon(gli_redis_client *self) {
  redis_client_end(self, gli_redis_connection_abandon);
}

static gli_redis_connection *redis_take_idle(gli_redis_client *self) {
  uv_mutex_lock(&self->lock);
  gli_redis_connection *connection = self->idle;
  if (connection != NULL) {
    self->idle = *gli_redis_connection_next(connection);
    self->n_idle--;
  }
  uv_mutex_unlock(&self->lock);
  return connection;
}

gloo_status gli_redis_client_take(gli_redis_client *self, uint64_t deadline_ns,
                                  gli_redis_connection **connection,
                                  gloo_error *error) {
  gli_redis_connection *idle;
  /* Servers may close connections that are idle for long (`timeout` of
   * redis.conf). */
  while ((idle = redis_take_idle(self)) != NULL) {
    if (gli_redis_connection_rest(idle, 0)) {
      *connection = idle;
      return GLOO_OK;
    }
    gli_redis_connection_close(idle);
  }
  return redis_open_one(self, &self->address,
                        gli_redis_client_patience(self, deadline_ns),
                        connection, error);
}

void gli_redis_client_give(gli_redis_client *self,
                           gli_redis_connection *connection, bool fine) {
  uv_mutex_lock(&self->lock);
  bool keep = fine && self->n_idle < IDLE_MAX;
  if (keep) {
    *gli_redis_connection_next(connection) = self->idle;
    self->idle = connection;
    self->n_idle++;
  }
  uv_mutex_unlock(&self->lock);
  if (!keep) gli_redis_connection_close(connection);
}
