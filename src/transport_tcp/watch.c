#include "transport_tcp/watch.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport_tcp/tcp.h"

static void on_poll(uv_poll_t *poll, int status, int events) {
  gli_tcp_watch *watch = poll->data;
  gli_tcp *t = watch->t;
  t->happened++;
  if (status >= 0) {
    watch->ready(watch->owner, events, false);
    return;
  }
  /* libuv has stopped watching; if nobody closes the socket now, go on. */
  int wanted = watch->events;
  watch->events = 0;
  watch->ready(watch->owner, wanted, true);
  if (watch->fd < 0 || watch->events != 0) return;
  gli_tcp_watch_for(watch, wanted);
}

static void on_closed(uv_handle_t *handle) {
  free(handle->data);
}

gli_tcp_watch *gli_tcp_watch_new(gli_tcp *t, int fd, gli_tcp_ready ready,
                                 void *owner) {
  gli_tcp_watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL || uv_poll_init(&t->loop, &watch->poll, fd) != 0) {
    free(watch);
    close(fd);
    return NULL;
  }
  watch->poll.data = watch;
  watch->t = t;
  watch->fd = fd;
  gli_tcp_watch_give(watch, ready, owner);
  return watch;
}

void gli_tcp_watch_give(gli_tcp_watch *watch, gli_tcp_ready ready,
                        void *owner) {
  watch->ready = ready;
  watch->owner = owner;
}

void gli_tcp_watch_for(gli_tcp_watch *watch, int events) {
  if (watch->events == events) return;
  watch->events = events;
  if (events == 0)
    uv_poll_stop(&watch->poll);
  else
    uv_poll_start(&watch->poll, events, on_poll);
  gli_tcp_touch(watch->t);
}

void gli_tcp_watch_close(gli_tcp_watch *watch) {
  uv_close((uv_handle_t *)&watch->poll, on_closed);
  /* A copy in a forked child must not keep the connection. */
  (void)shutdown(watch->fd, SHUT_RDWR);
  close(watch->fd);
  watch->fd = -1;
}

void gli_tcp_watch_forked(gli_tcp_watch *watch) {
  if (watch == NULL || watch->fd < 0) return;
  close(watch->fd);
  watch->fd = -1;
}
