#include "rendezvous/store/redis_client.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/tcp/tcp_pool.h"

/* Time that an answer may always take, even after the deadline. */
#define GRACE_NS ((int64_t)2000000000)
struct gli_redis_client {
  gli_tcp_pool pool;
  int64_t timeout_ns;
  const char *store;     /* owned by the caller */
  gli_tls_settings *tls; /* NULL without TLS */
  const char *host, *user, *password, *key;
  char text[]; /* storage of the four strings */
};

uint64_t gli_redis_client_patience(const gli_redis_client *self,
                                   uint64_t deadline_ns) {
  uint64_t soon = gli_deadline_after(GRACE_NS);
  uint64_t limit = gli_tcp_within(deadline_ns, self->timeout_ns);
  return limit > soon ? limit : soon;
}

/* ---- refusals of the server ---------------------------------------------- */

static bool redis_says(const redisReply *reply, const char *word) {
  size_t bytes = strlen(word);
  return reply->len >= bytes && memcmp(reply->str, word, bytes) == 0;
}

static bool redis_says_one(const redisReply *reply, const char *const *words) {
  for (; *words != NULL; words++)
    if (redis_says(reply, *words)) return true;
  return false;
}

/* Returns true if the server may accept the command soon. */
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
    advice =
        "; check the user and password in the URL and the permissions of that "
        "user";
  } else if (redis_says(reply, "OOM")) {
    status = GLOO_ERR_NO_MEMORY;
  } else if (redis_says(reply, "READONLY") || redis_says(reply, "MOVED")) {
    advice = "; use the address of the server that holds the keys";
  }
  gli_fail(error, status, -1, "%s refuses: %.250s%s", store, reply->str,
           advice);
  freeReplyObject(reply);
  return status;
}

/* Fills the error for a refused password. Servers quote what they did not
 * understand, including a password, so only known replies are shown. */
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
           "%s rejects the URL's %spassword: %.200s", self->store,
           self->user[0] != '\0' ? "user or " : "",
           redis_says_one(reply, known)
               ? reply->str
               : "its answer is not shown, as it may repeat the password");
  freeReplyObject(reply);
  return GLOO_ERR_INVALID;
}

/* ---- connecting ---------------------------------------------------------- */

/* Sends a command and receives its reply. The error of a server that is not
 * ready becomes GLOO_ERR_PEER, so that it is retried. */
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

/* Verifies that this is a server that accepts the password and is ready. */
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
    status = gli_fail(
        error, GLOO_ERR_PROTOCOL, -1,
        "%s did not answer EXISTS with a number; is it a Redis server?",
        self->store);
  freeReplyObject(reply);
  return status;
}

/* Makes one attempt at one address. */
static gloo_status redis_open_one(const void *client,
                                  const struct sockaddr_storage *address,
                                  uint64_t deadline_ns,
                                  gli_store_conn **connection,
                                  gloo_error *error) {
  const gli_redis_client *self = client;
  gli_redis_connection *opened;
  gloo_status status = gli_redis_connection_open(
      self->store, address, gli_tcp_within(deadline_ns, GLI_TCP_ATTEMPT_NS),
      &opened, error);
  if (status != GLOO_OK) return status;
  uint64_t greeted_ns = gli_tcp_within(deadline_ns, GLI_TCP_GREETING_NS);
  if (self->tls != NULL)
    status = gli_store_conn_secure((gli_store_conn *)opened, self->tls, NULL,
                                   self->host, greeted_ns, error);
  if (status == GLOO_OK) status = redis_greet(self, opened, greeted_ns, error);
  if (status == GLOO_OK) {
    *connection = (gli_store_conn *)opened;
    gli_store_conn_greeted(*connection);
  } else {
    gli_redis_connection_close((gli_store_conn *)opened);
  }
  return status;
}

/* Returns true if the connection is still open. Servers may close idle ones
 * (`timeout` of redis.conf). */
static bool redis_usable(gli_store_conn *connection) {
  return gli_redis_connection_rests((gli_redis_connection *)connection, 0);
}

static const gli_tcp_pool_kind redis_pool = {
    .store = "the Redis store",
    .server = "the Redis server",
    .open = redis_open_one,
    .usable = redis_usable,
    .close = gli_redis_connection_close,
    .abandon = gli_redis_connection_abandon,
};

/* ---- the client ---------------------------------------------------------- */

static const char *redis_copy_text(char **to, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = memcpy(*to, text, bytes);
  *to += bytes;
  return copy;
}

static void redis_client_free(gli_redis_client *self) {
  gli_tls_settings_release(self->tls);
  free(self);
}

gloo_status gli_redis_client_create(const gli_store_url *url, bool tls,
                                    const char *store, const char *key,
                                    int64_t timeout_ns,
                                    gli_redis_client **client,
                                    gloo_error *error) {
  size_t bytes = strlen(url->host) + strlen(url->user) + strlen(url->password) +
                 strlen(key) + 4;
  gli_redis_client *self = calloc(1, sizeof *self + bytes);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a client of %s", store);
  char *text = self->text;
  self->host = redis_copy_text(&text, url->host);
  self->user = redis_copy_text(&text, url->user);
  self->password = redis_copy_text(&text, url->password);
  self->key = redis_copy_text(&text, key);
  self->store = store;
  self->timeout_ns = timeout_ns;
  gloo_status status =
      tls ? gli_tls_settings_read_client(&self->tls, error) : GLOO_OK;
  if (status == GLOO_OK)
    status = gli_tcp_pool_open(&self->pool, &redis_pool, self, url->host,
                               url->port != 0 ? url->port : GLI_REDIS_PORT,
                               timeout_ns, error);
  if (status == GLOO_OK) {
    *client = self;
  } else {
    redis_client_free(self);
  }
  return status;
}

void gli_redis_client_destroy(gli_redis_client *self) {
  if (gli_tcp_pool_close(&self->pool)) redis_client_free(self);
}

void gli_redis_client_abandon(gli_redis_client *self) {
  if (gli_tcp_pool_abandon(&self->pool)) redis_client_free(self);
}

gloo_status gli_redis_client_take(gli_redis_client *self, uint64_t deadline_ns,
                                  gli_redis_connection **connection,
                                  gloo_error *error) {
  gli_store_conn *taken = NULL;
  gloo_status status = gli_tcp_pool_take(
      &self->pool, gli_redis_client_patience(self, deadline_ns), &taken, error);
  *connection = (gli_redis_connection *)taken;
  return status;
}

void gli_redis_client_give(gli_redis_client *self,
                           gli_redis_connection *connection, bool fine) {
  if (fine) {
    gli_tcp_pool_keep(&self->pool, (gli_store_conn *)connection);
  } else {
    gli_tcp_pool_drop(&self->pool, (gli_store_conn *)connection);
  }
}
