#include "rendezvous/tcp_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/fork.h"
#include "core/lookup.h"
#include "rendezvous/text.h"

#define IDLE_MAX 4 /* connections kept for later */
/* A server that does not greet may be something else. */
#define HELLO_NS ((int64_t)5000000000)
/* One attempt to connect: other addresses want their turn, too. */
#define ATTEMPT_NS ((int64_t)3000000000)
struct gli_tcp_client {
  uv_mutex_t lock; /* guards idle and n_idle */
  gli_fork_guard forks;
  gli_tcp_connection *idle;
  size_t n_idle;
  struct sockaddr_storage address; /* the one that answered */
  int64_t timeout_ns;
  bool was_first; /* here before the server */
  uint64_t epoch;
  char job[];
};

static uint64_t client_earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static gloo_status client_say_hello(const gli_tcp_client *self,
                                    const struct sockaddr_storage *address,
                                    gli_tcp_connection *connection,
                                    uint64_t deadline_ns, gloo_error *error) {
  gli_frame request;
  gli_tcp_reply reply;
  gli_frame_begin(&request, GLI_TCP_HELLO_MAX);
  gli_frame_put_u64(&request, GLI_TCP_MAGIC);
  gli_frame_put_u32(&request, GLI_TCP_VERSION);
  gli_frame_put_u64(&request, self->epoch);
  gli_frame_put_key(&request, self->job);
  gli_frame_end(&request, GLI_TCP_HELLO);
  gloo_status status =
      request.failed
          ? gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a request")
          : gli_tcp_connection_call(connection, &request, deadline_ns, &reply,
                                    error);
  free(request.data);
  if (status != GLOO_OK) return status;
  size_t bytes = reply.body.left;
  if (bytes >= GLOO_ERROR_MESSAGE_BYTES) bytes = GLOO_ERROR_MESSAGE_BYTES - 1;
  if (reply.status == GLOO_ERR_STALE) {
    gli_fail(error, reply.status, -1,
             "the TCP store at %s belongs to another job or epoch than this "
             "client, which is of job '%s', epoch %" PRIu64
             ": give all ranks the same job and epoch, or use another port",
             gli_tcp_address_name(address).text, gli_quote(self->job).text,
             self->epoch);
  } else if (reply.status != GLOO_OK) {
    gli_fail(error, reply.status, -1, "%.*s", (int)bytes,
             (const char *)reply.body.at);
  }
  free(reply.data);
  return reply.status;
}

/* One attempt at one address: connect and greet. */
static gloo_status open_one(const gli_tcp_client *self,
                            const struct sockaddr_storage *address,
                            uint64_t deadline_ns,
                            gli_tcp_connection **connection,
                            gloo_error *error) {
  gli_tcp_connection *opened;
  uint64_t attempt =
      client_earlier(deadline_ns, gli_deadline_after(ATTEMPT_NS));
  gloo_status status =
      gli_tcp_connection_open(address, attempt, &opened, error);
  if (status != GLOO_OK) return status;
  attempt = client_earlier(deadline_ns, gli_deadline_after(HELLO_NS));
  status = client_say_hello(self, address, opened, attempt, error);
  if (status == GLOO_OK) {
    *connection = opened;
  } else {
    gli_tcp_connection_close(opened);
  }
  return status;
}

/* ---- the first connection ----------------------------------------------- */

/* Resolve, and try all addresses once. */
static gloo_status try_all(gli_tcp_client *self,
                           const gloo_store_tcp_options *options,
                           uint64_t deadline_ns, gloo_error *error) {
  gli_tcp_addresses addresses;
  gli_tcp_connection *connection;
  gloo_status status =
      gli_tcp_resolve(options->host, options->port,
                      gli_deadline_left(deadline_ns), &addresses, error);
  if (status != GLOO_OK) return status;
  for (size_t i = 0; i < addresses.n; i++) {
    status =
        open_one(self, &addresses.list[i], deadline_ns, &connection, error);
    if (status == GLOO_ERR_PEER) continue;
    if (status != GLOO_OK) return status;
    self->address = addresses.list[i];
    self->idle = connection;
    self->n_idle = 1;
    return GLOO_OK;
  }
  return status;
}

/* Why a client gives up, from why its last attempt failed. */
static gloo_status client_never_reached(const gli_tcp_client *self,
                                        gloo_status status,
                                        const gloo_error *cause,
                                        gloo_error *error) {
  return gli_fail(
      error, status == GLOO_ERR_PEER ? GLOO_ERR_TIMEOUT : status, -1,
      "%s (tried for %s; is the rank that serves the store running?)",
      cause->message, gli_duration(self->timeout_ns).text);
}

static gloo_status connect_patiently(gli_tcp_client *self,
                                     const gloo_store_tcp_options *options,
                                     gloo_error *error) {
  uint64_t deadline = gli_deadline_after(self->timeout_ns);
  gli_retry retry = gli_retry_begin(self->timeout_ns);
  for (;;) {
    gloo_error cause;
    gloo_status status = try_all(self, options, deadline, &cause);
    if (status == GLOO_OK) return status;
    if (status != GLOO_ERR_PEER && status != GLOO_ERR_ADDRESS)
      return gli_fail(error, status, -1, "%s", cause.message);
    /* Not those that went unanswered: a server may be slow. */
    if (strstr(cause.message, uv_strerror(UV_ECONNREFUSED)) != NULL)
      self->was_first = true;
    if (!gli_retry_pause(&retry, status == GLOO_ERR_ADDRESS ? &cause : NULL))
      return client_never_reached(self, status, &cause, error);
  }
}

gloo_status gli_tcp_client_create(const gloo_store_tcp_options *options,
                                  gli_tcp_client **client, gloo_error *error) {
  size_t job_bytes = strlen(options->job);
  gloo_status status = GLOO_ERR_NO_MEMORY;
  gli_tcp_client *self = calloc(1, sizeof *self + job_bytes + 1);
  if (self == NULL) goto no_memory;
  memcpy(self->job, options->job, job_bytes + 1);
  self->epoch = options->epoch;
  self->timeout_ns = options->timeout_ns;
  if (uv_mutex_init(&self->lock) != 0) goto free_self;
  status = connect_patiently(self, options, error);
  if (status != GLOO_OK) goto destroy_lock;
  if (!gli_fork_guard_begin(&self->forks, GLI_FORK_OBJECTS, &self->lock,
                            NULL)) {
    gli_tcp_connection_close(self->idle);
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
  return gli_fail(error, status, -1, "no memory for a client of a TCP store");
}

static void client_end(gli_tcp_client *self,
                       void (*close)(gli_tcp_connection *connection)) {
  gli_fork_guard_end(&self->forks);
  if (self->forks.torn) return;
  while (self->idle != NULL) {
    gli_tcp_connection *connection = self->idle;
    self->idle = *gli_tcp_connection_next(connection);
    close(connection);
  }
  uv_mutex_destroy(&self->lock);
  free(self);
}

void gli_tcp_client_destroy(gli_tcp_client *self) {
  client_end(self, gli_tcp_connection_close);
}

void gli_tcp_client_abandon(gli_tcp_client *self) {
  client_end(self, gli_tcp_connection_abandon);
}

/* ---- calls -------------------------------------------------------------- */

gli_tcp_connection *gli_tcp_client_take(gli_tcp_client *self) {
  uv_mutex_lock(&self->lock);
  gli_tcp_connection *connection = self->idle;
  if (connection != NULL) {
    self->idle = *gli_tcp_connection_next(connection);
    self->n_idle--;
  }
  uv_mutex_unlock(&self->lock);
  return connection;
}

/* One with a will is kept in any case: the will is to stay. */
void gli_tcp_client_give(gli_tcp_client *self, gli_tcp_connection *connection) {
  uv_mutex_lock(&self->lock);
  bool keep =
      self->n_idle < IDLE_MAX || gli_tcp_connection_has_will(connection);
  if (keep) {
    *gli_tcp_connection_next(connection) = self->idle;
    self->idle = connection;
    self->n_idle++;
  }
  uv_mutex_unlock(&self->lock);
  if (!keep) gli_tcp_connection_close(connection);
}

gloo_status gli_tcp_client_call(gli_tcp_client *self, gli_tcp_connection **own,
                                gli_frame *request, uint64_t limit_ns,
                                gli_tcp_reply *reply, gloo_error *error) {
  gloo_status status = GLOO_OK;
  gli_tcp_connection *connection =
      own != NULL ? *own : gli_tcp_client_take(self);
  if (own != NULL) *own = NULL;
  if (connection == NULL)
    status = open_one(self, &self->address, limit_ns, &connection, error);
  if (status != GLOO_OK) goto free_request;
  status = gli_tcp_connection_call(connection, request, limit_ns, reply, error);
  if (status != GLOO_OK) {
    gli_tcp_connection_close(connection);
  } else if (own != NULL) {
    *own = connection;
  } else {
    gli_tcp_client_give(self, connection);
  }

free_request:
  free(request->data);
  return status;
}

int64_t gli_tcp_client_timeout(const gli_tcp_client *self) {
  return self->timeout_ns;
}

bool gli_tcp_client_was_first(const gli_tcp_client *self) {
  return self->was_first;
}

const struct sockaddr_storage *gli_tcp_client_address(
    const gli_tcp_client *self) {
  return &self->address;
}
