#include "rendezvous/store/tcp/tcp_pool.h"

#include <string.h>

#include "core/text.h"
#include "net/lookup.h"
#include "net/tcp_address.h"
#include "rendezvous/store/store.h"

#define IDLE_MAX 4 /* maximum number of idle connections */

uint64_t gli_tcp_within(uint64_t deadline_ns, int64_t ns) {
  uint64_t then = gli_deadline_after(ns);
  return then < deadline_ns ? then : deadline_ns;
}

/* ---- the first connection ------------------------------------------------ */

/* Resolves the host, and tries all addresses once. */
static gloo_status pool_try_all(gli_tcp_pool *self, const char *host,
                                uint16_t port, uint64_t deadline_ns,
                                gloo_error *error) {
  gli_tcp_addresses addresses;
  gloo_status status =
      gli_tcp_resolve(self->kind->store, host, port,
                      gli_deadline_left(deadline_ns), &addresses, error);
  if (status != GLOO_OK) return status;
  gli_error_clear(error);
  for (size_t i = 0; i < addresses.n; i++) {
    gloo_error cause;
    status = self->kind->open(self->client, &addresses.list[i], deadline_ns,
                              &self->idle, &cause);
    if (status == GLOO_OK) {
      self->address = addresses.list[i];
      self->n_idle = 1;
      return GLOO_OK;
    }
    /* An impostor at one address explains more than silence at another. */
    if (status != GLOO_ERR_PEER || error->cause != GLOO_ERR_AUTH)
      *error = cause;
    if (status != GLOO_ERR_PEER) return status;
  }
  return status;
}

/* Connects, with retries. The last attempt is often cut short, so the error of
 * the one before is kept. */
static gloo_status pool_connect(gli_tcp_pool *self, const char *host,
                                uint16_t port, int64_t timeout_ns,
                                gloo_error *error) {
  uint64_t deadline = gli_deadline_after(timeout_ns);
  gli_retry retry = gli_retry_begin(timeout_ns);
  gloo_error cause = {.status = GLOO_OK};
  for (;;) {
    gloo_error now;
    gloo_status status = pool_try_all(self, host, port, deadline, &now);
    if (status == GLOO_OK) return status;
    if (status != GLOO_ERR_PEER && status != GLOO_ERR_ADDRESS)
      return gli_fail(error, status, -1, "%s", now.message);
    if (cause.status == GLOO_OK || gli_deadline_left(deadline) != 0)
      cause = now;
    /* Only refusals count: silence may mean a slow server. */
    if (strstr(now.message, uv_strerror(UV_ECONNREFUSED)) != NULL)
      self->was_first = true;
    if (gli_retry_pause(&retry, &cause)) continue;
    status = cause.status;
    if (status == GLOO_ERR_PEER)
      status = cause.cause == GLOO_ERR_AUTH ? GLOO_ERR_AUTH : GLOO_ERR_TIMEOUT;
    return gli_fail(error, status, -1,
                    "%s (tried for %s). Is %s running, and is the address "
                    "right? GLOO_START_TIMEOUT sets the limit",
                    cause.message, gli_duration(timeout_ns).text,
                    self->kind->server);
  }
}

void gli_tcp_pool_drop(gli_tcp_pool *self, gli_store_conn *connection) {
  if (self->kind->close != NULL)
    self->kind->close(connection);
  else
    gli_store_conn_free(connection);
}

static void pool_abandon_one(gli_tcp_pool *self, gli_store_conn *connection) {
  if (self->kind->abandon != NULL)
    self->kind->abandon(connection);
  else
    gli_store_conn_abandon(connection);
}

gloo_status gli_tcp_pool_open(gli_tcp_pool *self, const gli_tcp_pool_kind *kind,
                              const void *client, const char *host,
                              uint16_t port, int64_t timeout_ns,
                              gloo_error *error) {
  memset(self, 0, sizeof *self);
  self->kind = kind;
  self->client = client;
  gloo_status status = pool_connect(self, host, port, timeout_ns, error);
  if (status != GLOO_OK) return status;
  if (uv_mutex_init(&self->lock) != 0) goto close_connection;
  if (gli_fork_guard_begin(&self->forks, GLI_FORK_OBJECTS, &self->lock, NULL))
    return GLOO_OK;
  uv_mutex_destroy(&self->lock);

close_connection:
  gli_tcp_pool_drop(self, self->idle);
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a client of %s",
                  kind->store);
}

static bool pool_end(gli_tcp_pool *self,
                     void (*end)(gli_tcp_pool *, gli_store_conn *)) {
  gli_fork_guard_end(&self->forks);
  if (self->forks.torn) return false;
  while (self->idle != NULL) {
    gli_store_conn *connection = self->idle;
    self->idle = connection->next;
    end(self, connection);
  }
  uv_mutex_destroy(&self->lock);
  return true;
}

bool gli_tcp_pool_close(gli_tcp_pool *self) {
  return pool_end(self, gli_tcp_pool_drop);
}

bool gli_tcp_pool_abandon(gli_tcp_pool *self) {
  return pool_end(self, pool_abandon_one);
}

/* ---- requests ------------------------------------------------------------ */

gli_store_conn *gli_tcp_pool_take_idle(gli_tcp_pool *self) {
  uv_mutex_lock(&self->lock);
  gli_store_conn *connection = self->idle;
  if (connection != NULL) {
    self->idle = connection->next;
    self->n_idle--;
  }
  uv_mutex_unlock(&self->lock);
  return connection;
}

gloo_status gli_tcp_pool_take(gli_tcp_pool *self, uint64_t deadline_ns,
                              gli_store_conn **connection, gloo_error *error) {
  gli_store_conn *idle;
  while ((idle = gli_tcp_pool_take_idle(self)) != NULL) {
    if (self->kind->usable == NULL || self->kind->usable(idle)) {
      *connection = idle;
      return GLOO_OK;
    }
    gli_tcp_pool_drop(self, idle);
  }
  return self->kind->open(self->client, &self->address, deadline_ns, connection,
                          error);
}

void gli_tcp_pool_keep(gli_tcp_pool *self, gli_store_conn *connection) {
  const gli_tcp_pool_kind *kind = self->kind;
  uv_mutex_lock(&self->lock);
  bool keep = self->n_idle < IDLE_MAX ||
              (kind->must_keep != NULL && kind->must_keep(connection));
  if (keep) {
    connection->next = self->idle;
    self->idle = connection;
    self->n_idle++;
  }
  uv_mutex_unlock(&self->lock);
  if (!keep) gli_tcp_pool_drop(self, connection);
}
