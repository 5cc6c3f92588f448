#include "tools/run_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/run.h"

#define QUEUE_FULL ((size_t)4 << 20)
#define QUEUE_RESUMED ((size_t)1 << 20)

typedef struct writer_piece {
  struct writer_piece *next;
  int fd;
  size_t bytes;
  char data[];
} writer_piece;

struct gli_run_writer {
  uv_async_t async;
  uv_thread_t thread;
  uv_mutex_t mutex;
  uv_cond_t arrived;
  void (*changed)(void *user);
  void *user;
  uint64_t count; /* used by the loop's thread only */
  /* guarded by the mutex: */
  writer_piece *first, **last;
  size_t queued;
  bool full, closed, finishing;
  int broken
      [2]; /* why standard output and error cannot be written; 0: they can */
};

/* Takes the next piece, and waits for it; NULL at the end. */
static writer_piece *take_piece(gli_run_writer *w) {
  uv_mutex_lock(&w->mutex);
  while (w->first == NULL && !w->finishing)
    uv_cond_wait(&w->arrived, &w->mutex);
  writer_piece *piece = w->first;
  if (piece != NULL) w->first = piece->next;
  if (w->first == NULL) w->last = &w->first;
  uv_mutex_unlock(&w->mutex);
  return piece;
}

static void piece_written(gli_run_writer *w, writer_piece *piece, int code) {
  uv_mutex_lock(&w->mutex);
  w->queued -= piece->bytes;
  bool changed = false;
  if (code != 0) {
    w->broken[piece->fd - 1] = code;
    changed = true;
  }
  if (w->full && w->queued <= QUEUE_RESUMED) {
    w->full = false;
    changed = true;
  }
  if (changed && !w->closed) uv_async_send(&w->async);
  uv_mutex_unlock(&w->mutex);
  free(piece);
}

static void writer_main(void *with) {
  gli_run_writer *w = with;
  writer_piece *piece;
  while ((piece = take_piece(w)) != NULL) {
    /* Only this thread changes `broken`. */
    bool good = w->broken[piece->fd - 1] != 0 ||
                gli_run_write_all(piece->fd, piece->data, piece->bytes);
    piece_written(w, piece, good ? 0 : errno);
  }
}

static void writer_on_async(uv_async_t *async) {
  gli_run_writer *w = async->data;
  w->changed(w->user);
}

gli_run_writer *gli_run_writer_open(uv_loop_t *loop, void (*changed)(void *),
                                    void *user) {
  gli_run_writer *w = calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  w->changed = changed;
  w->user = user;
  w->last = &w->first;
  w->async.data = w;
  if (uv_async_init(loop, &w->async, writer_on_async) != 0) goto free_writer;
  if (uv_mutex_init(&w->mutex) != 0) goto free_writer;
  if (uv_cond_init(&w->arrived) != 0) goto free_writer;
  if (uv_thread_create(&w->thread, writer_main, w) == 0) return w;
free_writer:
  free(w);
  return NULL;
}

void gli_run_writer_put(gli_run_writer *w, int fd, const void *data,
                        size_t bytes) {
  w->count++;
  writer_piece *piece = malloc(sizeof *piece + bytes);
  if (piece == NULL) {
    (void)gli_run_write_all(fd, data, bytes);
    return;
  }
  piece->next = NULL;
  piece->fd = fd;
  piece->bytes = bytes;
  memcpy(piece->data, data, bytes);
  uv_mutex_lock(&w->mutex);
  *w->last = piece;
  w->last = &piece->next;
  w->queued += bytes;
  if (w->queued > QUEUE_FULL) w->full = true;
  uv_cond_signal(&w->arrived);
  uv_mutex_unlock(&w->mutex);
}

bool gli_run_writer_full(gli_run_writer *w) {
  uv_mutex_lock(&w->mutex);
  bool full = w->full;
  uv_mutex_unlock(&w->mutex);
  return full;
}

bool gli_run_writer_broken(gli_run_writer *w, int fd) {
  uv_mutex_lock(&w->mutex);
  bool broken = w->broken[fd - 1] != 0;
  uv_mutex_unlock(&w->mutex);
  return broken;
}

uint64_t gli_run_writer_count(const gli_run_writer *w) {
  return w->count;
}

void gli_run_writer_close(gli_run_writer *w) {
  uv_mutex_lock(&w->mutex);
  w->closed = true;
  uv_mutex_unlock(&w->mutex);
  uv_close((uv_handle_t *)&w->async, NULL);
}

int gli_run_writer_finish(gli_run_writer *w) {
  uv_mutex_lock(&w->mutex);
  w->finishing = true;
  uv_cond_signal(&w->arrived);
  uv_mutex_unlock(&w->mutex);
  uv_thread_join(&w->thread);
  int code = w->broken[0];
  uv_cond_destroy(&w->arrived);
  uv_mutex_destroy(&w->mutex);
  free(w);
  return code;
}
