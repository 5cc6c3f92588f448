#include "tools/metrics_server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "tools/metrics_client.h"
#include "tools/tools.h"

/* Age up to which a reading answers further clients, so that they cannot make
 * the ranks answer all the time. */
#define FRESH_NS UINT64_C(100000000)

typedef struct server {
  uv_loop_t loop;
  uv_tcp_t tcp;
  uv_signal_t signals[2];
  gli_clients clients;
  gli_metrics_reader *reader;
  uv_work_t work;
  bool reads, ends;
  uint64_t read_ns;
  gli_metrics_shared *last; /* the last reading; NULL if it failed */
  /* The result of the worker. */
  gli_metrics_shared *made;
  int code;
} server;

/* ---- readings ------------------------------------------------------------ */

static void server_read(uv_work_t *work) {
  server *s = work->data;
  s->made = calloc(1, sizeof *s->made);
  s->code = ENOMEM;
  if (s->made == NULL) return;
  s->made->holders = 1;
  if (gli_metrics_read(s->reader, &s->made->text)) return;
  s->code = errno;
  gli_metrics_release(s->made);
  s->made = NULL;
}

static void server_wants(gli_clients *clients);

static void server_has_read(uv_work_t *work, int status) {
  server *s = work->data;
  (void)status;
  s->reads = false;
  gli_metrics_release(s->last);
  s->last = s->made;
  s->read_ns = uv_hrtime();
  if (s->ends) return;
  char words[256];
  const char *directory = s->reader->directory;
  snprintf(words, sizeof words, "cannot read %.128s: %s\n",
           directory != NULL ? directory : "the ranks", strerror(s->code));
  gli_clients_answer(&s->clients, s->last, words);
}

static void server_wants(gli_clients *clients) {
  server *s = clients->user;
  if (s->reads || s->ends) return;
  if (s->last != NULL && uv_hrtime() - s->read_ns < FRESH_NS) {
    gli_clients_answer(clients, s->last, NULL);
    return;
  }
  s->work.data = s;
  s->reads =
      uv_queue_work(&s->loop, &s->work, server_read, server_has_read) == 0;
  if (!s->reads) gli_clients_answer(clients, NULL, "cannot start a thread\n");
}

/* ---- the loop ------------------------------------------------------------ */

static void server_arrived(uv_stream_t *tcp, int status) {
  server *s = tcp->loop->data;
  if (status == 0) gli_client_accept(&s->clients, tcp);
}

static void server_end(server *s) {
  if (s->ends) return;
  s->ends = true;
  atomic_store(&s->reader->ends, true);
  uv_close((uv_handle_t *)&s->tcp, NULL);
  for (int i = 0; i < 2; i++) uv_close((uv_handle_t *)&s->signals[i], NULL);
  gli_clients_end(&s->clients);
}

static void server_signal(uv_signal_t *handle, int number) {
  (void)number;
  server_end(handle->loop->data);
}

int gli_metrics_serve(const char *address, gli_metrics_reader *reader) {
  static const int numbers[] = {SIGINT, SIGTERM};
  server s = {.reader = reader};
  int code = uv_loop_init(&s.loop);
  if (code != 0) {
    fprintf(stderr, "gloo metrics: %s\n", uv_strerror(code));
    return GLI_EXIT_FAILED;
  }
  s.loop.data = &s;
  s.clients = (gli_clients){.loop = &s.loop, .wants = server_wants, .user = &s};
  (void)signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < 2; i++) {
    (void)uv_signal_init(&s.loop, &s.signals[i]);
    (void)uv_signal_start(&s.signals[i], server_signal, numbers[i]);
  }
  bool good = gli_metrics_listen_at(&s.loop, address, &s.tcp, server_arrived);
  if (good)
    gli_metrics_print_url(&s.tcp);
  else
    server_end(&s);
  (void)uv_run(&s.loop, UV_RUN_DEFAULT);
  (void)uv_loop_close(&s.loop);
  gli_metrics_release(s.last);
  return good ? GLI_EXIT_OK : GLI_EXIT_FAILED;
}
