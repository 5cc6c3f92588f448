#include "rendezvous/tcp_pool.h"

#include <string.h>

#include "core/log.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_address.h"
#include "rendezvous/text.h"

/* Between attempts. At first short beside the time in which ranks meet: of two
 * jobs that start at one port, both then see that the other is there. */
#define PAUSE_MIN_MS 5u
#define PAUSE_SOON_MS 10u
#define SOON_NS ((int64_t)1000000000)
#define PAUSE_MAX_MS 200u

uint64_t gli_tcp_within(uint64_t deadline_ns, int64_t ns) {
  uint64_t then = gli_deadline_after(ns);
  return then < deadline_ns ? then : deadline_ns;
}

/* ---- the first connection ----------------------------------------------- */

/* Resolve, and try all addresses once. */
static gloo_status pool_try_all(gli_tcp_pool *self, const char *host,
                                uint16_t port, uint64_t deadline_ns,
                                gloo_error *error) {
  gli_tcp_addresses addresses;
  gloo_status status =
      gli_tcp_resolve(self->kind->store, host, port, &addresses, error);
  if (status != GLOO_OK) return status;
  for (size_t i = 0; i < addresses.n; i++) {
    status = self->kind->open(self->client, &addresses.list[i], deadline_ns,
                              &self->idle[0], error);
    if (status == GLOO_ERR_PEER) continue;
    if (status != GLOO_OK) return status;
    self->address = addresses.list[i];
    self->n_idle = 1;
    return GLOO_OK;
  }
  return status;
}

static gloo_status pool_connect(gli_tcp_pool *self, const char *host,
                                uint16_t port, int64_t timeout_ns,
                                gloo_error *error) {
  uint64_t deadline = gli_deadline_after(timeout_ns);
  uint64_t soon = gli_deadline_after(SOON_NS);
  unsigned pause_ms = PAUSE_MIN_MS;
  bool told = false;
  for (;;) {
    gloo_error cause;
    gloo_status status = pool_try_all(self, host, port, deadline, &cause);
    if (status == GLOO_OK) return status;
    bool again = status == GLOO_ERR_PEER || status == GLOO_ERR_ADDRESS;
    int64_t left = gli_deadline_left(deadline);
    if (!again) return gli_fail(error, status, -1, "%s", cause.message);
    if (left == 0)
      return gli_fail(error,
                      status == GLOO_ERR_PEER ? GLOO_ERR_TIMEOUT : status, -1,
                      "%s (tried for %s; is %s running?)", cause.message,
                      gli_duration(timeout_ns).text, self->kind->server);
    /* Not those that went unanswered: a server may be slow. */
    if (strstr(cause.message, uv_strerror(UV_ECONNREFUSED)) != NULL)
      self->was_first = true;
    if (!told && status == GLOO_ERR_ADDRESS)
      gli_log(GLOO_LOG_WARN, "%s; trying again", cause.message);
    told = true;
    if (left > 0 && (int64_t)pause_ms * 1000000 > left)
      pause_ms = (unsigned)(left / 1000000) + 1;
    uv_sleep(pause_ms);
    unsigned longest = gli_deadline_left(soon) ? PAUSE_SOON_MS : PAUSE_MAX_MS;
    pause_ms = pause_ms * 2 < longest ? pause_ms * 2 : longest;
  }
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
  kind->close(self->idle[0]);
  return gli_fail(error, GLOO_ERR_NO_MEMORY, -1, "no memory for a client of %s",
                  kind->store);
}

static bool pool_end(gli_tcp_pool *self, void (*close)(void *connection)) {
  gli_fork_guard_end(&self->forks);
  if (self->forks.torn) return false;
  while (self->n_idle > 0) close(self->idle[--self->n_idle]);
  uv_mutex_destroy(&self->lock);
  return true;
}

bool gli_tcp_pool_close(gli_tcp_pool *self) {
  return pool_end(self, self->kind->close);
}

bool gli_tcp_pool_abandon(gli_tcp_pool *self) {
  return pool_end(self, self->kind->abandon);
}

/* ---- requests ----------------------------------------------------------- */

static void *pool_take_idle(gli_tcp_pool *self) {
  uv_mutex_lock(&self->lock);
  void *connection = self->n_idle > 0 ? self->idle[--self->n_idle] : NULL;
  uv_mutex_unlock(&self->lock);
  return connection;
}

gloo_status gli_tcp_pool_take(gli_tcp_pool *self, uint64_t deadline_ns,
                              void **connection, gloo_error *error) {
  void *idle;
  while ((idle = pool_take_idle(self)) != NULL) {
    if (self->kind->usable == NULL || self->kind->usable(idle)) {
      *connection = idle;
      return GLOO_OK;
    }
    self->kind->close(idle);
  }
  return self->kind->open(self->client, &self->address, deadline_ns, connection,
                          error);
}

void gli_tcp_pool_keep(gli_tcp_pool *self, void *connection) {
  uv_mutex_lock(&self->lock);
  bool keep = self->n_idle < GLI_TCP_POOL_IDLE;
  if (keep) self->idle[self->n_idle++] = connection;
  uv_mutex_unlock(&self->lock);
  if (!keep) self->kind->close(connection);
}
