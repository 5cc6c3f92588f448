#include "rendezvous/tcp_client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/tcp_pool.h"
#include "rendezvous/text.h"

struct gli_tcp_client {
  gli_tcp_pool pool;
  int64_t timeout_ns;
  uint64_t epoch;
  char job[];
};

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
static gloo_status client_open_one(const void *client,
                                   const struct sockaddr_storage *address,
                                   uint64_t deadline_ns, void **connection,
                                   gloo_error *error) {
  gli_tcp_connection *opened;
  gloo_status status = gli_tcp_connection_open(
      address, gli_tcp_within(deadline_ns, GLI_TCP_ATTEMPT_NS), &opened, error);
  if (status != GLOO_OK) return status;
  status =
      client_say_hello(client, address, opened,
                       gli_tcp_within(deadline_ns, GLI_TCP_GREETING_NS), error);
  if (status == GLOO_OK) {
    *connection = opened;
  } else {
    gli_tcp_connection_close(opened);
  }
  return status;
}

static void client_close_one(void *connection) {
  gli_tcp_connection_close(connection);
}

static void client_abandon_one(void *connection) {
  gli_tcp_connection_abandon(connection);
}

static void **client_next(void *connection) {
  return gli_tcp_connection_next(connection);
}

/* The will is to stay. */
static bool client_must_keep(const void *connection) {
  return gli_tcp_connection_has_will(connection);
}

static const gli_tcp_pool_kind client_pool = {
    .store = "the TCP store",
    .server = "the rank that serves the store",
    .open = client_open_one,
    .next = client_next,
    .must_keep = client_must_keep,
    .close = client_close_one,
    .abandon = client_abandon_one,
};

gloo_status gli_tcp_client_create(const gloo_store_tcp_options *options,
                                  gli_tcp_client **client, gloo_error *error) {
  size_t job_bytes = strlen(options->job);
  gli_tcp_client *self = calloc(1, sizeof *self + job_bytes + 1);
  if (self == NULL)
    return gli_fail(error, GLOO_ERR_NO_MEMORY, -1,
                    "no memory for a client of a TCP store");
  memcpy(self->job, options->job, job_bytes + 1);
  self->epoch = options->epoch;
  self->timeout_ns = options->timeout_ns;
  gloo_status status =
      gli_tcp_pool_open(&self->pool, &client_pool, self, options->host,
                        options->port, options->timeout_ns, error);
  if (status == GLOO_OK) {
    *client = self;
  } else {
    free(self);
  }
  return status;
}

void gli_tcp_client_destroy(gli_tcp_client *self) {
  if (gli_tcp_pool_close(&self->pool)) free(self);
}

void gli_tcp_client_abandon(gli_tcp_client *self) {
  if (gli_tcp_pool_abandon(&self->pool)) free(self);
}

/* ---- calls -------------------------------------------------------------- */

gli_tcp_connection *gli_tcp_client_take(gli_tcp_client *self) {
  return gli_tcp_pool_take_idle(&self->pool);
}

void gli_tcp_client_give(gli_tcp_client *self, gli_tcp_connection *connection) {
  gli_tcp_pool_keep(&self->pool, connection);
}

gloo_status gli_tcp_client_call(gli_tcp_client *self, gli_tcp_connection **own,
                                gli_frame *request, uint64_t limit_ns,
                                gli_tcp_reply *reply, gloo_error *error) {
  gloo_status status = GLOO_OK;
  void *connection = own != NULL ? *own : NULL;
  if (own != NULL) *own = NULL;
  if (connection == NULL)
    status = gli_tcp_pool_take(&self->pool, limit_ns, &connection, error);
  if (status != GLOO_OK) goto free_request;
  status = gli_tcp_connection_call(connection, request, limit_ns, reply, error);
  if (status != GLOO_OK) {
    gli_tcp_connection_close(connection);
  } else if (own != NULL) {
    *own = connection;
  } else {
    gli_tcp_pool_keep(&self->pool, connection);
  }

free_request:
  free(request->data);
  return status;
}

int64_t gli_tcp_client_timeout(const gli_tcp_client *self) {
  return self->timeout_ns;
}

bool gli_tcp_client_was_first(const gli_tcp_client *self) {
  return self->pool.was_first;
}

const struct sockaddr_storage *gli_tcp_client_address(
    const gli_tcp_client *self) {
  return &self->pool.address;
}
