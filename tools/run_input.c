#include "tools/run_input.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/run_frame.h"

struct gli_run_input {
  uv_async_t async;
  uv_sem_t wanted;
  void (*arrived)(void *user, const void *data, size_t bytes);
  void *user;
  bool begun, closed; /* used by the loop's thread only */
  size_t bytes;       /* used by the reader until async, then by the loop */
  uv_mutex_t mutex;
  bool deaf; /* guarded by the mutex: true once the handle is closed */
  char data[GLI_RUN_INPUT_MAX];
};

static void *input_main(void *with) {
  gli_run_input *in = with;
  for (;;) {
    uv_sem_wait(&in->wanted);
    ssize_t got;
    do got = read(STDIN_FILENO, in->data, sizeof in->data);
    while (got < 0 && errno == EINTR);
    in->bytes = got > 0 ? (size_t)got : 0;
    bool last = in->bytes == 0;
    uv_mutex_lock(&in->mutex);
    if (!in->deaf) uv_async_send(&in->async);
    last = last || in->deaf;
    uv_mutex_unlock(&in->mutex);
    if (last) return NULL;
  }
}

static void input_on_async(uv_async_t *async) {
  gli_run_input *in = async->data;
  if (!in->closed) in->arrived(in->user, in->data, in->bytes);
}

gli_run_input *gli_run_input_open(uv_loop_t *loop,
                                  void (*arrived)(void *user, const void *data,
                                                  size_t bytes),
                                  void *user) {
  gli_run_input *in = calloc(1, sizeof *in);
  if (in == NULL) return NULL;
  in->arrived = arrived;
  in->user = user;
  in->async.data = in;
  if (uv_sem_init(&in->wanted, 0) == 0 && uv_mutex_init(&in->mutex) == 0 &&
      uv_async_init(loop, &in->async, input_on_async) == 0)
    return in;
  free(in);
  return NULL;
}

/* Starts the detached thread, which handles no signals. */
static bool begin_reading(gli_run_input *in) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int result = pthread_create(&thread, &attributes, input_main, in);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return result == 0;
}

void gli_run_input_next(gli_run_input *in) {
  if (in->closed) return;
  if (!in->begun && !begin_reading(in)) {
    in->arrived(in->user, in->data, 0);
    return;
  }
  in->begun = true;
  uv_sem_post(&in->wanted);
}

void gli_run_input_close(gli_run_input *in) {
  if (in->closed) return;
  in->closed = true;
  uv_mutex_lock(&in->mutex);
  in->deaf = true;
  uv_mutex_unlock(&in->mutex);
  uv_close((uv_handle_t *)&in->async, NULL);
}
