#include "rendezvous/tcp_server.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "core/fork.h"
#include "core/log.h"
#include "core/signals.h"
#include "rendezvous/tcp_session.h"
#include "rendezvous/text.h"

#define KEYS_MAX ((size_t)128 * 1024)
#define BYTES_MAX ((uint64_t)1 << 30)
#define BACKLOG 4096

struct gli_tcp_server {
  uv_loop_t loop;
  uv_tcp_t listener;
  uv_async_t stop;
  uv_thread_t thread;
  uv_mutex_t serving; /* held by the thread but where it waits */
  gli_fork_watch fork_watch;
  bool torn; /* in a forked child: not to be looked into */
  struct sockaddr_storage address;
  gli_tcp_service service;
  char job[];
};

static void on_connection(uv_stream_t *listener, int rc) {
  gli_tcp_server *server = listener->data;
  if (rc == 0) {
    gli_session_accept(&server->service, listener);
  } else {
    gli_log(GLOO_LOG_WARN, "the TCP store at %s cannot take a connection: %s",
            server->service.address, uv_strerror(rc));
  }
}

static void on_stop(uv_async_t *stop) {
  gli_tcp_server *server = stop->data;
  gli_tcp_hang_up(&server->listener);
  uv_close((uv_handle_t *)&server->listener, NULL);
  uv_close((uv_handle_t *)&server->stop, NULL);
  for (gli_session *s = server->service.sessions; s != NULL; s = s->next)
    gli_session_close(s);
}

/* As uv_run does it, but for the lock. What one turn begins to watch, only the
 * next makes known to the system. */
static void serve(void *argument) {
  gli_tcp_server *server = argument;
  struct pollfd ready = {uv_backend_fd(&server->loop), POLLIN, 0};
  uv_mutex_lock(&server->serving);
  while (uv_run(&server->loop, UV_RUN_NOWAIT) != 0) {
    (void)uv_run(&server->loop, UV_RUN_NOWAIT);
    int timeout_ms = uv_backend_timeout(&server->loop);
    uv_mutex_unlock(&server->serving);
    (void)poll(&ready, 1, timeout_ms);
    uv_mutex_lock(&server->serving);
  }
  uv_mutex_unlock(&server->serving);
}

/* ---- forks -------------------------------------------------------------- */

static bool hold(void *object, gli_fork_patience *patience) {
  return gli_fork_lock(&((gli_tcp_server *)object)->serving, patience);
}

static void release(void *object) {
  uv_mutex_unlock(&((gli_tcp_server *)object)->serving);
}

static void child(void *object, bool held) {
  gli_tcp_server *self = object;
  self->torn = self->torn || !held;
  gli_fork_mutex(&self->serving);
}

static const gli_fork_care fork_care = {hold, release, child};

/* The loop gets a poll set of its own; where there is none to be had, all is
 * left as it is. */
void gli_tcp_server_abandon(gli_tcp_server *server) {
  gli_fork_watch_end(&server->fork_watch);
  if (server->torn || uv_loop_fork(&server->loop) != 0) return;
  uv_close((uv_handle_t *)&server->listener, NULL);
  uv_close((uv_handle_t *)&server->stop, NULL);
  for (gli_session *s = server->service.sessions; s != NULL; s = s->next)
    gli_session_abandon(s);
  uv_run(&server->loop, UV_RUN_DEFAULT);
  uv_loop_close(&server->loop);
  uv_mutex_destroy(&server->serving);
  gli_table_destroy(server->service.table);
  free(server);
}

/* ---- making it ---------------------------------------------------------- */

/* Bind and listen at one address. A port that is in use shows in listen. */
static int listen_at(gli_tcp_server *server,
                     const struct sockaddr_storage *address) {
  uv_tcp_t *listener = &server->listener;
  int bytes = (int)sizeof(server->address);
  int rc = uv_tcp_init(&server->loop, listener);
  if (rc != 0) return rc;
  listener->data = server;
  rc = uv_tcp_bind(listener, (const struct sockaddr *)address, 0);
  if (rc == 0) rc = uv_listen((uv_stream_t *)listener, BACKLOG, on_connection);
  if (rc == 0)
    rc = uv_tcp_getsockname(listener, (struct sockaddr *)&server->address,
                            &bytes);
  if (rc == 0) return 0;
  uv_close((uv_handle_t *)listener, NULL);
  uv_run(&server->loop, UV_RUN_DEFAULT);
  return rc;
}

static gloo_status listen_anywhere(gli_tcp_server *server, const char *host,
                                   uint16_t port, gloo_error *error) {
  gli_tcp_addresses addresses;
  gloo_status status = gli_tcp_resolve(host, port, &addresses, error);
  if (status != GLOO_OK) return status;
  int rc = 0;
  for (size_t i = 0; i < addresses.n; i++) {
    rc = listen_at(server, &addresses.list[i]);
    if (rc == 0) return GLOO_OK;
  }
  return gli_fail(
      error, GLOO_ERR_ADDRESS, -1,
      "the TCP store cannot listen at %s%s%s: %s%s",
      gli_tcp_address_name(&addresses.list[addresses.n - 1]).text,
      addresses.n > 1 ? ", nor at another address of " : " for ",
      gli_quote(host).text, uv_strerror(rc),
      rc == UV_EADDRINUSE ? "; another program, or an earlier run that has not "
                            "ended, has the port: end it or use another port"
      : rc == UV_EADDRNOTAVAIL
          ? "; it is not an address of this machine: the rank that serves must "
            "run on the host that is named"
          : "");
}

gloo_status gli_tcp_server_create(const char *host, uint16_t port,
                                  const char *job, uint64_t epoch,
                                  gli_tcp_server **result, gloo_error *error) {
  size_t job_bytes = strlen(job);
  gli_signal_guard signals;
  gloo_status status = GLOO_OK; /* or else rc says what failed */
  int rc = UV_ENOMEM;
  gli_tcp_server *server = calloc(1, sizeof(*server) + job_bytes + 1);
  if (server == NULL) goto failed;
  memcpy(server->job, job, job_bytes + 1);
  server->service.job = server->job;
  server->service.epoch = epoch;
  server->service.table = gli_table_create(KEYS_MAX, BYTES_MAX);
  if (server->service.table == NULL) goto free_server;
  rc = uv_loop_init(&server->loop);
  if (rc != 0) goto destroy_table;
  status = listen_anywhere(server, host, port, error);
  if (status != GLOO_OK) goto close_loop;
  memcpy(server->service.address, gli_tcp_address_name(&server->address).text,
         sizeof(server->service.address));
  rc = uv_async_init(&server->loop, &server->stop, on_stop);
  if (rc != 0) goto close_listener;
  server->stop.data = server;
  rc = uv_mutex_init(&server->serving);
  if (rc != 0) goto close_stop;
  rc = UV_ENOMEM;
  if (!gli_fork_watch_begin(&server->fork_watch, GLI_FORK_OBJECTS, &fork_care,
                            server))
    goto destroy_lock;
  gli_signal_block_all(&signals);
  rc = uv_thread_create(&server->thread, serve, server);
  gli_signal_restore(&signals);
  if (rc != 0) goto end_watch;
  gli_log(GLOO_LOG_INFO, "the TCP store listens at %s",
          server->service.address);
  *result = server;
  return GLOO_OK;

end_watch:
  gli_fork_watch_end(&server->fork_watch);
destroy_lock:
  uv_mutex_destroy(&server->serving);
close_stop:
  uv_close((uv_handle_t *)&server->stop, NULL);
close_listener:
  uv_close((uv_handle_t *)&server->listener, NULL);
  uv_run(&server->loop, UV_RUN_DEFAULT);
close_loop:
  uv_loop_close(&server->loop);
destroy_table:
  gli_table_destroy(server->service.table);
free_server:
  free(server);
failed:
  if (status != GLOO_OK) return status;
  return gli_fail(error, rc == UV_ENOMEM ? GLOO_ERR_NO_MEMORY : GLOO_ERR_IO, -1,
                  "cannot start the server of a TCP store: %s",
                  uv_strerror(rc));
}

const struct sockaddr_storage *gli_tcp_server_address(
    const gli_tcp_server *server) {
  return &server->address;
}

void gli_tcp_server_destroy(gli_tcp_server *server) {
  uv_async_send(&server->stop);
  uv_thread_join(&server->thread);
  gli_fork_watch_end(&server->fork_watch);
  uv_loop_close(&server->loop);
  uv_mutex_destroy(&server->serving);
  gli_table_destroy(server->service.table);
  free(server);
}
