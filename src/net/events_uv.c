/* Watches on systems without epoll. libuv tracks what the system watches, and
 * learns of changes immediately. It may abort the program when memory or
 * descriptors run out, so Linux does not use it (docs/adr/0032). */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "net/events.h"

struct gli_events {
  uv_loop_t loop;
  void (*touched)(void *user);
  void *user;
  int happened; /* number of watches called in this poll */
  bool abandoned;
};

/* Sets errno to libuv's code, which is a negated errno. Returns true for 0. */
static bool events_uv_fine(int code) {
  if (code == 0) return true;
  errno = -code;
  return false;
}

gli_events *gli_events_open(void (*touched)(void *user), void *user) {
  gli_events *set = calloc(1, sizeof *set);
  if (set == NULL) return NULL;
  set->touched = touched;
  set->user = user;
  int code = uv_loop_init(&set->loop);
  if (code == 0) return set;
  free(set);
  errno = -code;
  return NULL;
}

void gli_events_abandon(gli_events *set) {
  set->abandoned = true;
  (void)uv_loop_fork(&set->loop);
}

void gli_events_close(gli_events *set) {
  if (set == NULL) return;
  uv_run(&set->loop, UV_RUN_DEFAULT); /* runs until all handles are closed */
  (void)uv_loop_close(&set->loop);
  free(set);
}

int gli_events_fd(const gli_events *set) {
  return uv_backend_fd(&set->loop);
}

int gli_events_poll(gli_events *set) {
  set->happened = 0;
  uv_run(&set->loop, UV_RUN_NOWAIT);
  return set->happened;
}

/* ---- watches ------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int events) {
  gli_watch *watch = poll->data;
  watch->set->happened++;
  if (status < 0) {
    /* libuv has stopped watching after the error; start again. */
    events = watch->events | GLI_BROKEN;
    (void)uv_poll_start(poll, watch->events, on_poll);
  }
  watch->ready(watch->owner, events);
}

static void on_closed(uv_handle_t *handle) {
  free(handle);
}

bool gli_watch_init(gli_watch *watch, gli_events *set, int fd, gli_ready ready,
                    void *owner) {
  *watch = (gli_watch){.set = set, .fd = fd, .ready = ready, .owner = owner};
  uv_poll_t *poll = calloc(1, sizeof *poll);
  int code = poll != NULL ? uv_poll_init(&set->loop, poll, fd) : UV_ENOMEM;
  if (!events_uv_fine(code)) {
    free(poll);
    watch->fd = -1;
    return false;
  }
  poll->data = watch;
  watch->handle = poll;
  return true;
}

/* libuv tells the system when it polls next. */
bool gli_watch_now(gli_watch *watch, int events) {
  gli_events *set = watch->set;
  int code = events != 0 ? uv_poll_start(watch->handle, events, on_poll)
                         : uv_poll_stop(watch->handle);
  if (!events_uv_fine(code)) return false;
  watch->events = events;
  if (set->touched != NULL) set->touched(set->user);
  return true;
}

/* The result is ignored: libuv refuses only invalid descriptors. */
void gli_watch_for(gli_watch *watch, int events) {
  if (watch->events != events) (void)gli_watch_now(watch, events);
}

int gli_watch_release(gli_watch *watch) {
  int fd = watch->fd;
  if (watch->handle != NULL) uv_close(watch->handle, on_closed);
  watch->handle = NULL;
  watch->events = 0;
  watch->fd = -1;
  return fd;
}

/* shutdown ends the connection even if a forked child has a copy. In the child
 * the descriptor may be closed already. */
void gli_watch_close(gli_watch *watch) {
  if (watch->handle == NULL && watch->fd < 0) return;
  int fd = gli_watch_release(watch);
  if (fd < 0) return;
  if (!watch->set->abandoned) (void)shutdown(fd, SHUT_RDWR);
  close(fd);
}
