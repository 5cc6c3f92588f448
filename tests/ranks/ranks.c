/* Ranks as threads. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

typedef struct rank_thread {
  uv_thread_t thread;
  rank_env env;
  rank_body body;
  const ranks_options *options;
} rank_thread;

void rank_fail(rank_env *env, const char *file, int line, const char *what) {
  if (env->failure[0]) return;
  snprintf(env->failure, sizeof env->failure, "rank %d of %d: %s:%d: %s",
           env->rank, env->size, file, line, what);
}

void rank_ok(rank_env *env, gloo_status status, const char *file, int line,
             const char *what) {
  if (status == GLOO_OK) return;
  gloo_error error;
  gloo_context_error(env->context, &error);
  char text[512];
  snprintf(text, sizeof text, "%.60s: %s: %.300s", what,
           gloo_status_string(status), error.message);
  rank_fail(env, file, line, text);
}

static void rank_main(void *argument) {
  rank_thread *t = argument;
  rank_env *env = &t->env;
  gloo_error error;
  gloo_device_options d = GLOO_DEVICE_OPTIONS_INIT;
  d.transport = t->options->transport ? t->options->transport : "inproc";
  d.streams = t->options->streams;
  d.no_helper = t->options->no_helper;
  if (t->options->checksums) d.checksum = t->options->checksums[env->rank];
  gloo_context_options c = GLOO_CONTEXT_OPTIONS_INIT;
  c.timeout_ns =
      t->options->timeout_ns ? t->options->timeout_ns : INT64_C(120000000000);
  c.measure = t->options->measure;
  c.shared_buffers = t->options->shared_buffers;
  if (t->options->host_ids) c.host_id = t->options->host_ids[env->rank];
  if (gloo_device_create(&d, &env->device, &error) != GLOO_OK) {
    rank_fail(env, __FILE__, __LINE__, error.message);
    return;
  }
  if (gloo_context_create(env->rank, env->size, env->store, env->device, &c,
                          &env->context, &error) != GLOO_OK) {
    rank_fail(env, __FILE__, __LINE__, error.message);
  } else {
    t->body(env);
    gloo_context_destroy(env->context);
  }
  gloo_device_destroy(env->device);
}

void ranks_run(int size, const ranks_options *options, rank_body body) {
  static const ranks_options defaults;
  if (!options) options = &defaults;
  gloo_store *own = NULL, *store = options->store;
  if (store == NULL) {
    assert_int_equal(gloo_store_memory_create(&own, NULL), GLOO_OK);
    store = own;
  }
  rank_thread *threads = calloc((size_t)size, sizeof *threads);
  assert_non_null(threads);
  int started = 0, code = 0;
  while (started < size && code == 0) {
    rank_thread *t = &threads[started];
    t->env = (rank_env){
        .rank = started, .size = size, .store = store, .user = options->user};
    t->body = body;
    t->options = options;
    code = uv_thread_create(&t->thread, rank_main, t);
    if (code == 0) started++;
  }
  char failure[256] = "";
  for (int i = 0; i < started; i++) {
    uv_thread_join(&threads[i].thread);
    if (threads[i].env.failure[0]) print_error("%s\n", threads[i].env.failure);
    if (!failure[0]) memcpy(failure, threads[i].env.failure, sizeof failure);
  }
  free(threads);
  gloo_store_destroy(own);
  assert_int_equal(code, 0);
  if (failure[0]) fail_msg("%s", failure);
}

void ranks_need_unix_sockets(void) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) {
    print_message("# skipped: this system has no Unix sockets\n");
    skip();
  }
  (void)close(fd);
}

void rank_expect_invalid(rank_env *env, gloo_status status,
                         const gloo_error *error, const char *part) {
  /* Only test_errors.c checks the exact status of invalid arguments. */
  RANK_CHECK(env, status == GLOO_ERR_INVALID ||
                      (status <= GLOO_ERR_ROOT && status >= GLOO_ERR_BUFFER));
  if (strstr(error->message, part) != NULL) return;
  rank_fail(env, __FILE__, __LINE__, error->message);
}
